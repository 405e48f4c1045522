"""The portable level on AArch64: cross-compiled, and its C++ tests run under emulation.

Needs a cross compiler, doctest and `qemu-aarch64-static`. The tests compare bits with the
definition, so a pass says that the canonical arithmetic is the same as on x86-64.

    python bench/check_aarch64.py
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64-static"
CLOSING = re.compile(r"test cases:\s+(\d+) \|\s+(\d+) passed \| (\d+) failed")


def run() -> dict[str, Any]:
    """Build, run, and count; `passed` is False when a tool is missing."""
    missing = [tool for tool in (COMPILER, EMULATOR, "cmake") if shutil.which(tool) is None]
    if missing:
        return {"passed": False, "reason": f"not installed: {', '.join(missing)}"}
    with tempfile.TemporaryDirectory() as build:
        configure = ["cmake", "-S", str(ROOT), "-B", build, "-DCMAKE_SYSTEM_NAME=Linux"]
        configure += ["-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={COMPILER}"]
        configure += ["-DEPIBIAS_BUILD_PYTHON=OFF", "-DEPIBIAS_BUILD_TESTS=ON"]
        configure += ["-DCMAKE_EXE_LINKER_FLAGS=-static", "-Ddoctest_DIR=/usr/lib/cmake/doctest"]
        subprocess.run(configure, check=True, capture_output=True)
        subprocess.run(["cmake", "--build", build, "-j", "2"], check=True, capture_output=True)
        command = [EMULATOR, f"{build}/epibias_tests"]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    closing = CLOSING.search(finished.stdout)
    if closing is None:
        return {"passed": False, "reason": "no closing line", "output": finished.stdout[-2000:]}
    n_cases, n_passed, n_failed = map(int, closing.groups())
    passed = finished.returncode == 0 and n_cases == n_passed > 0 and n_failed == 0
    return {"passed": passed, "test_cases": n_cases, "test_cases_passed": n_passed}


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
