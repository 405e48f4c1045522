"""The long proofs, one named check each; the results go to `bench/results/acceptance.json`.

    python bench/acceptance.py --list
    python bench/acceptance.py cosine_topk threshold_sweep
    python bench/acceptance.py                      # all

A check is a module `bench/check_NAME.py` with `run() -> dict` whose `passed` says if its claims
held. Exit code 1 when one did not.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent
RESULTS = BENCH / "results" / "acceptance.json"


def check_names() -> list[str]:
    """Names of the checks that lie beside this file."""
    return sorted(path.stem.removeprefix("check_") for path in BENCH.glob("check_*.py"))


def git(*arguments: str) -> str:
    """Output of a git command on the checkout."""
    command = ["git", "-C", str(BENCH.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def measured_tree() -> dict[str, Any]:
    """Which sources are being measured: the commit, and whether the tree differs from it."""
    changes = git("status", "--porcelain", "--", ".", ":!bench/results")
    return {"commit": git("rev-parse", "HEAD"), "uncommitted_changes": bool(changes)}


def machine() -> dict[str, Any]:
    """Processor, threads, and the levels that the core found."""
    from epibias import kernels

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "backend": kernels.backend_info(),
    }


def run_check(name: str) -> dict[str, Any]:
    """Run one check; the tree, the machine and the duration stand beside its result."""
    module = importlib.import_module(f"check_{name}")
    tree, started = measured_tree(), time.perf_counter()
    result = module.run()
    seconds = round(time.perf_counter() - started, 1)
    return {**tree, "machine": machine(), "seconds": seconds, **result}


def save(results: dict[str, Any]) -> None:
    """Replace the results file in one step."""
    RESULTS.parent.mkdir(exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(RESULTS)


def main() -> int:
    """Run the checks that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
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
    sys.path.insert(0, str(BENCH))
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    failed = []
    for name in arguments.checks or names:
        print(f"{name} …", flush=True)
        results[name] = run_check(name)
        save(results)
        verdict = "passed" if results[name]["passed"] else "FAILED"
        print(f"{name} {verdict} in {results[name]['seconds']} s", flush=True)
        if not results[name]["passed"]:
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
