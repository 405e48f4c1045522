"""The long proofs, one named check each; the results go to `bench/results/acceptance.json`.

    python bench/acceptance.py --list
    python bench/acceptance.py cosine_topk threshold_sweep
    python bench/acceptance.py                      # all

What is measured is the commit, not the folder: HEAD is exported, built and installed into a
temporary place, and the checks run there. A check is `bench/check_NAME.py`; run alone it prints one
JSON object whose `passed` says whether its claims held. Exit code 1 when one did not.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "acceptance.json"


def check_names() -> list[str]:
    """Names of the checks that lie beside this file."""
    return sorted(
        path.stem.removeprefix("check_") for path in Path(__file__).parent.glob("check_*")
    )


def export_and_install(folder: Path) -> tuple[Path, dict[str, str]]:
    """Export HEAD, install it; the exported tree, and the environment in which checks see it."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "HEAD"], capture_output=True, check=True
    ).stdout
    tree, site = folder / "tree", folder / "site"
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(tree, filter="data")
    # Public data of others lies beside the checkout and is not committed.
    if (ROOT.parent / "shared").is_dir():
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    install += ["-C", "cmake.define.EPIBIAS_CUDA_EMULATED=ON"]  # check_cuda_… run the kernels
    subprocess.run([*install, "--target", str(site), str(tree)], check=True)
    return tree, {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}


def machine(environment: dict[str, str]) -> dict[str, Any]:
    """Processor, threads, and the levels that the core found."""
    code = "import json; from epibias import kernels; print(json.dumps(kernels.backend_info()))"
    backend = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "backend": json.loads(backend),
    }


def run_check(name: str, tree: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Run one check in the exported tree; what it printed, and how long it took."""
    started = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, f"bench/check_{name}.py"],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    seconds = round(time.perf_counter() - started, 1)
    try:
        result = json.loads(finished.stdout[finished.stdout.index("{") :])
    except ValueError:
        result = {"reason": f"no JSON object, got {finished.stdout[-200:]!r}"}
    passed = finished.returncode == 0 and result.get("passed") is True
    return {**result, "passed": passed, "seconds": seconds}


def save(results: dict[str, Any]) -> None:
    """Replace the results file in one step."""
    RESULTS.parent.mkdir(exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(RESULTS)


def main() -> int:
    """Run the checks that were named, or all."""
    parser = argparse.ArgumentParser(description="The long proofs, one named check each.")
    parser.add_argument("checks", nargs="*", help="names of checks; all when none is given")
    parser.add_argument("--list", action="store_true", help="list the checks and stop")
    arguments = parser.parse_args()
    names = check_names()
    if arguments.list:
        print("\n".join(names))
        return 0
    unknown = sorted(set(arguments.checks) - set(names))
    if unknown:
        parser.error(f"checks: expected some of {', '.join(names)}, got {', '.join(unknown)}")
    head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    failed = []
    with tempfile.TemporaryDirectory(prefix="epibias-acceptance-") as folder:
        tree, environment = export_and_install(Path(folder))
        where = machine(environment)
        for name in arguments.checks or names:
            print(f"{name} …", flush=True)
            result = run_check(name, tree, environment)
            results[name] = {"commit": commit, "machine": where, **result}
            save(results)
            verdict = "passed" if result["passed"] else "FAILED"
            print(f"{name} {verdict} in {result['seconds']} s", flush=True)
            failed += [] if result["passed"] else [name]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
