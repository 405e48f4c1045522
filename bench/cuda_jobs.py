"""Builds of the emulated CUDA kernels and the ways in which their tests are run.

Shared by `check_planted_bugs.py` and `check_cuda_coverage.py`. A job is a build and an order of
threads: plain in three orders, AddressSanitizer with UndefinedBehaviorSanitizer, ThreadSanitizer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = "epibias_cuda_tests"
TIMEOUT = 600  # seconds; a planted bug may make a kernel run for ever


@dataclass(frozen=True)
class Job:
    """One way to run the tests.

    Attributes
    ----------
    name : str
        Its column in the table.
    suffix : str
        Of the program: "", "_address" or "_thread".
    order : str
        EPIBIAS_EMULATION_ORDER.
    """

    name: str
    suffix: str
    order: str
    environment: dict[str, str] = field(default_factory=dict)


JOBS = (
    Job("forward", "", "forward"),
    Job("reverse", "", "reverse"),
    *(Job(f"random:{seed}", "", f"random:{seed}") for seed in (1, 2, 3)),
    Job("address", "_address", "forward", {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}),
    Job("thread", "_thread", "forward", {"TSAN_OPTIONS": "halt_on_error=1"}),
)


def build(folder: Path, options: list[str], targets: list[str], launcher: str | None) -> None:
    """Configure and build `targets` of the C++ side, without Python and without nvcc."""
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder)]
    configure += ["-DEPIBIAS_BUILD_PYTHON=OFF", "-DEPIBIAS_CUDA=OFF", "-DEPIBIAS_CUDA_EMULATED=ON"]
    configure += ["-DEPIBIAS_BUILD_TESTS=ON", *options]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    if launcher:
        configure += [f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"]
    _run(configure)
    _run(["cmake", "--build", str(folder), "-j", str(os.cpu_count() or 2), "--target", *targets])


def run(
    folder: Path, job: Job, arguments: list[str], bug: str | None = None, timeout: float = TIMEOUT
) -> subprocess.CompletedProcess[str] | None:
    """Run the tests as `job` says, with `bug` planted; None where they did not end."""
    # ThreadSanitizer of GCC 12 needs the addresses that a program has without randomisation.
    command = ["setarch", "-R", str(folder / f"{TESTS}{job.suffix}"), *arguments]
    environment = {**os.environ, "EPIBIAS_EMULATION_ORDER": job.order, **job.environment}
    environment.pop("EPIBIAS_PLANTED_BUG", None)
    if bug is not None:
        environment["EPIBIAS_PLANTED_BUG"] = bug
    try:
        return subprocess.run(
            command, env=environment, timeout=timeout, text=True, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return None


def _run(command: list[str]) -> None:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
