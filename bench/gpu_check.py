"""One command for a machine with a GPU: build, compare, sanitize, time, write one JSON.

    python bench/gpu_check.py                  # under 8 minutes; bench/results/gpu_check.json
    python bench/gpu_check.py --emulated       # without a GPU: all but the device's own steps
    python bench/gpu_check.py --only correctness --seed 1

Inputs are drawn fresh, and the seed is recorded. The JSON is rewritten after every step. Exit code
0: all passed; 1: something failed; 77: no usable GPU, the JSON says why.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

from gpu import environment, report, sanitizer, site  # noqa: E402 - found by the line above

RESULTS = Path(__file__).parent / "results"
BUDGET_S = 480.0
STEPS = ("environment", "build", "correctness", "sanitizer", "ceilings", "timing")


def main() -> int:
    """Run the steps that were asked for."""
    options = parsed()
    seed = secrets.randbits(63) if options.seed is None else options.seed
    kind = "emulated" if options.emulated else "device"
    name = "gpu_check_emulated.json" if options.emulated else "gpu_check.json"
    found = report.Report(options.out or RESULTS / name, kind=kind, seed=seed)
    found.run("environment", environment.describe)
    steps = options.only.split(",") if options.only else STEPS
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.build or Path(temporary)
        if options.emulated:
            return emulated(found, steps, seed, folder)
        return on_device(found, steps, seed, folder, options.budget)


def emulated(found: report.Report, steps: Any, seed: int, folder: Path) -> int:
    """Run what needs no device, on the installed emulated module."""
    if found.run("build", site.installed)["status"] == "failed":
        return found.close()
    from gpu import correctness, places

    if "correctness" in steps:
        found.run(
            "correctness",
            lambda: correctness.check([places.Emulation()], seed, large=False, also_emulated=False),
        )
    program = folder / "epibias_cuda_check_emulated"
    if "sanitizer" in steps and program.exists():  # where --build names a build that has it
        found.run("sanitizer", lambda: sanitizer.plain(program))
    if "timing" in steps:
        from gpu import timing

        found.run("timing", timing.rehearsal)
    return found.close()


def on_device(found: report.Report, steps: Any, seed: int, folder: Path, budget_s: float) -> int:
    """Build for the device that is there and run everything on it."""
    target, reason = device_target()
    if target is None:
        return found.close(no_gpu=reason)
    if found.run("build", lambda: site.build_for_device(folder, target))["status"] == "failed":
        return found.close()
    site.use(folder)
    from epibias.device import cuda_status
    from gpu import ceilings, correctness, places, timing

    usable, reason = cuda_status()
    at = places.on_device() if usable else []
    if not at:
        return found.close(no_gpu=f"{reason}; torch or cupy must be installed and see the device")
    if "correctness" in steps:
        found.run(
            "correctness", lambda: correctness.check(at, seed, large=True, also_emulated=True)
        )
    if "sanitizer" in steps:
        found.run("sanitizer", lambda: sanitizer.check(folder / "epibias_cuda_check"))
    measured: dict[str, Any] = {}
    if "ceilings" in steps or "timing" in steps:
        measured = found.run("ceilings", ceilings.measure)
    if "timing" in steps and measured.get("status") == "passed":
        found.run("timing", lambda: timing.measure(measured, lambda: budget_s - found.seconds))
    return found.close()


def device_target() -> tuple[str | None, str]:
    """Give the architecture of the first device, or why there is none."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return None, "no NVIDIA driver: nvidia-smi is not there"
    except subprocess.TimeoutExpired:
        return None, "nvidia-smi does not answer"
    first = said.stdout.strip().splitlines()[:1]
    if said.returncode or not first:
        return None, f"nvidia-smi: {(said.stdout + said.stderr).strip()[:200]}"
    return f"sm_{first[0].strip().replace('.', '')}", ""


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--emulated", action="store_true", help="run what needs no GPU")
    parser.add_argument("--out", type=Path, help="JSON file; one in bench/results if absent")
    parser.add_argument("--seed", type=int, help="of an earlier run, to repeat it")
    parser.add_argument("--only", help=f"steps, with commas between: {', '.join(STEPS)}")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds, for the timing")
    parser.add_argument("--build", type=Path, help="folder to build in, kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
