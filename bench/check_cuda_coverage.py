"""Which lines of the CUDA kernels the C++ tests run under emulation; 95 % must be.

    python bench/check_cuda_coverage.py [--build FOLDER] [--launcher ccache]

Builds the emulated kernels for gcov, runs `epibias_cuda_tests`, and counts the lines of `cuda/src`
that g++ made code of: a line that runs in one instance of a template counts as run. Per file and in
all into `bench/results/cuda_coverage.json`. Exit code 1 below the goal, and where of a file no line
runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import cuda_jobs
from cuda_jobs import JOBS, ROOT, TESTS

RESULTS = Path(__file__).parent / "results" / "cuda_coverage.json"
SOURCES = ROOT / "cuda" / "src"
GOAL = 0.95
KERNELS = "cuda/emulation/CMakeFiles/epibias_cuda_emulated_kernels.dir"


def line_counts(folder: Path) -> dict[Path, dict[int, int]]:
    """How often each line of `cuda/src` ran, from gcov's JSON of every object file."""
    data = sorted((folder / KERNELS).rglob("*.gcda"))
    if not data:
        sys.exit("the tests left no coverage data")
    command = ["gcov", "--json-format", "--stdout", *map(str, data)]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=True)
    counts: dict[Path, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for document in done.stdout.splitlines():
        for file in json.loads(document)["files"]:
            path = (folder / file["file"]).resolve()
            if path.parent == SOURCES.resolve():
                for line in file["lines"]:
                    counts[path][line["line_number"]] += line["count"]
    return counts


def main() -> int:
    """Build, run, count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cuda_coverage")
    parser.add_argument("--launcher", help="compiler launcher, for instance ccache")
    chosen = parser.parse_args()

    folder = chosen.build.resolve()
    cuda_jobs.build(folder, ["-DEPIBIAS_CUDA_COVERAGE=ON"], [TESTS], chosen.launcher)
    for old in (folder / KERNELS).rglob("*.gcda"):
        old.unlink()
    done = cuda_jobs.run(folder, JOBS[0], ["--no-colors"])
    if done is None or done.returncode != 0:
        sys.exit("the tests fail" if done is None else done.stdout[-4000:] + done.stderr[-4000:])

    counts = line_counts(folder)
    files: dict[str, Any] = {}
    for path, lines in sorted(counts.items()):
        missed = sorted(number for number, count in lines.items() if count == 0)
        share = 1 - len(missed) / len(lines)
        files[path.name] = {"lines": len(lines), "run": round(share, 4), "missed": missed}
        print(f"{path.name:34} {len(lines):5} lines {share:7.1%}  missed: {missed or 'none'}")
    n_lines = sum(file["lines"] for file in files.values())
    n_missed = sum(len(file["missed"]) for file in files.values())
    share = 1 - n_missed / n_lines
    print(f"{'all':34} {n_lines:5} lines {share:7.1%}  goal {GOAL:.0%}")
    idle = [name for name, file in files.items() if file["run"] == 0]
    kernels = [path.name for path in SOURCES.glob("*.cu") if path not in map(Path, counts)]
    for name in idle + kernels:
        print(f"NOTHING RUNS: {name}")
    results = {"goal": GOAL, "lines": n_lines, "run": round(share, 4), "files": files}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    passed = share >= GOAL and not idle and not kernels
    print(json.dumps({"goal": GOAL, "lines": n_lines, "run": round(share, 4), "passed": passed}))
    return 0 if passed else 1


if __name__ == "__main__":
    if shutil.which("gcov") is None:
        sys.exit("gcov is not on PATH; it comes with g++")
    sys.exit(main())
