"""Bugs are put into the CUDA kernels on purpose; the tests must notice every one of them.

    python bench/check_planted_bugs.py [--build FOLDER] [--launcher ccache] [--only NAME]
        [--until-noticed] [--part K/N]

A bug stands in a kernel as `EPIBIAS_PLANT("stage.name")` and is there in this build alone, when
EPIBIAS_PLANTED_BUG names it. With no bug planted all suites must pass in every job. Then each bug
runs in every job against the suite of its stage. Which job saw which bug goes to
`bench/results/planted_bugs.json`. With --until-noticed, as in CI, a bug's further jobs are
left out once one has seen it, and nothing is written. With --part, too, every N-th bug alone is
planted: CI takes a third, another with each commit. Exit code 1 where a bug goes unnoticed, where
there are fewer than 20, or where a suite is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import cuda_jobs
from cuda_jobs import JOBS, ROOT, TESTS, Job

RESULTS = Path(__file__).parent / "results" / "planted_bugs.json"
FEWEST_BUGS = 20
MOST_SECONDS = 120  # a kernel that does not end is noticed, too
OUTCOMES = (  # what a failed run says, most telling first
    ("data race", r"WARNING: ThreadSanitizer: data race"),
    ("out of bounds", r"ERROR: AddressSanitizer: \S*overflow|written past its end"),
    ("address", r"ERROR: AddressSanitizer"),
    ("undefined", r"runtime error:"),
    ("deadlock", r": deadlock:"),
    ("divergence", r"divergent __syncthreads|have exited|has exited|meets __"),
    ("copy", r"asynchronous copy"),
    ("wrong result", r"ERROR: CHECK|ERROR: REQUIRE"),
)


def planted_bugs() -> list[str]:
    """Names of all bugs in the kernels, each once."""
    pattern = re.compile(r'EPIBIAS_PLANT\("(\w+\.\w+)"\)')
    names: list[str] = []
    for path in sorted((ROOT / "cuda" / "src").iterdir()):
        if path.name != "device_code.hpp":  # explains the macro
            names += pattern.findall(path.read_text(encoding="utf-8"))
    return sorted(set(names))


def outcome(folder: Path, run: tuple[str, Job]) -> str:
    """Tell what a run of a bug in a job says: "" where it noticed nothing."""
    bug, job = run
    suite = f"-ts={bug.split('.')[0]}"
    done = cuda_jobs.run(folder, job, [suite, "--abort-after=1", "--no-colors"], bug, MOST_SECONDS)
    if done is None:
        return "no end"
    text = done.stdout + done.stderr
    if done.returncode == 0:
        counted = re.search(r"test cases:\s*(\d+) \|", text)
        if counted is None or int(counted[1]) == 0:
            sys.exit(f"{bug}: there is no test suite {bug.split('.')[0]}")
        return ""
    return next((name for name, sign in OUTCOMES if re.search(sign, text)), "failed")


def check_without_bugs(folder: Path, pool: ThreadPoolExecutor) -> dict[str, float]:
    """Seconds of all suites in every job; ends the program where one fails."""

    def timed(job: Job) -> tuple[Job, float, str]:
        began = time.perf_counter()
        done = cuda_jobs.run(folder, job, ["--no-colors"])
        text = "no end" if done is None else done.stdout + done.stderr
        passed = done is not None and done.returncode == 0
        return job, time.perf_counter() - began, "" if passed else text

    seconds = {}
    for job, took, text in pool.map(timed, reversed(JOBS)):  # the longest first
        if text:
            sys.exit(f"{text[-8000:]}\n{job.name}: fails with no bug planted")
        seconds[job.name] = round(took, 1)
    return {job.name: seconds[job.name] for job in JOBS}


def outcomes(folder: Path, until_noticed: bool, bug: str) -> dict[str, str]:
    """Tell what the jobs say of a bug; of those up to the first that saw it, if so asked."""
    said: dict[str, str] = {}
    for job in JOBS:
        said[job.name] = outcome(folder, (bug, job))
        if until_noticed and said[job.name]:
            break
    return said


def main() -> int:
    """Build, run, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "planted_bugs")
    parser.add_argument("--launcher", help="compiler launcher, for instance ccache")
    parser.add_argument("--only", help="one bug, or the bugs of one stage")
    parser.add_argument("--until-noticed", action="store_true", help="the jobs up to the first")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="every N-th bug, from K on")
    chosen = parser.parse_args()

    first, _, step = chosen.part.partition("/")
    bugs = planted_bugs()
    enough = len(bugs) >= FEWEST_BUGS
    bugs = bugs[int(first) :: int(step)]
    if chosen.only:
        bugs = [bug for bug in bugs if chosen.only in (bug, bug.split(".")[0])]
    began = time.perf_counter()
    options = ["-DEPIBIAS_PLANTED_BUGS=ON", "-DEPIBIAS_CUDA_TESTS_SANITIZED=ON"]
    suffixes = sorted({job.suffix for job in JOBS})
    cuda_jobs.build(chosen.build, options, [TESTS + suffix for suffix in suffixes], chosen.launcher)
    built = time.perf_counter()
    print(f"built in {built - began:.0f} s")
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        clean = check_without_bugs(chosen.build, pool)
        print(
            "no bug planted: every job passes,", ", ".join(f"{k} {v} s" for k, v in clean.items())
        )
        ask = partial(outcomes, chosen.build, chosen.until_noticed)
        found = dict(zip(bugs, pool.map(ask, bugs), strict=True))

    width = max(map(len, bugs))
    print(f"\n{'':{width}} ", " ".join(f"{job.name:13}" for job in JOBS))
    for bug, said in found.items():
        print(f"{bug:{width}} ", " ".join(f"{said.get(job.name, '.') or '-':13}" for job in JOBS))
    unnoticed = [bug for bug in bugs if not any(found[bug].values())]
    seconds = {"build": round(built - began), "all": round(time.perf_counter() - began)}
    print(f"\n{len(bugs)} bugs, {len(unnoticed)} unnoticed; {seconds['all']} s")
    for bug in unnoticed:
        print(f"UNNOTICED: {bug}")
    if not enough:
        print(f"there are fewer than {FEWEST_BUGS} bugs")
    if not (chosen.only or chosen.until_noticed or chosen.part != "0/1"):
        results = {"n_bugs": len(bugs), "unnoticed": unnoticed, "seconds": seconds}
        results |= {"seconds_without_bugs": clean, "seen_by": found}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    passed = enough and not unnoticed
    counts = {"n_bugs": len(bugs), "unnoticed": unnoticed, "jobs": [job.name for job in JOBS]}
    print(json.dumps(counts | {"passed": passed}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
