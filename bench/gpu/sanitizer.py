"""compute-sanitizer over a small C++ program that calls every launcher with plain allocations.

Plain cudaMalloc, for a framework's pool would hide accesses beyond one array behind the next. The
program, `cuda/check`, compares with the CPU, so a pass says that it ran what it should.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

TOOLS = {
    "memcheck": ("--leak-check", "full"),
    "racecheck": (),
    "initcheck": (),
    "synccheck": (),
}
FOUND_SOMETHING = 9


def plain(program: Path) -> dict[str, Any]:
    """Run the program by itself."""
    finished = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    said = (finished.stdout + finished.stderr)[-2000:]
    return {"status": "failed" if finished.returncode else "passed", "said": said}


def check(program: Path) -> dict[str, Any]:
    """Run the program under each tool; skipped, with the reason, where it refuses the device."""
    alone = plain(program)
    if alone["status"] == "failed":
        return {"status": "failed", "reason": "the program fails by itself", **alone}
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        return {"status": "skipped", "reason": "compute-sanitizer is not on PATH"}
    tools = {}
    for tool, options in TOOLS.items():
        command = [sanitizer, "--tool", tool, *options, "--error-exitcode", str(FOUND_SOMETHING)]
        try:
            finished = subprocess.run(
                [*command, str(program)], capture_output=True, text=True, timeout=180
            )
        except subprocess.TimeoutExpired:
            tools[tool] = {"status": "failed", "said": "not done after 180 s"}
            continue
        said = finished.stdout + finished.stderr
        if "Device not supported" in said:
            return {"status": "skipped", "reason": "compute-sanitizer: device not supported"}
        clean = finished.returncode == 0 and "ERROR SUMMARY: 0 errors" in said
        if tool == "racecheck":
            clean = finished.returncode == 0 and "0 hazards" in said
        tools[tool] = {"status": "passed" if clean else "failed", "said": said[-2000:]}
    failed = [name for name, found in tools.items() if found["status"] == "failed"]
    return {
        "status": "failed" if failed else "passed",
        "reason": ", ".join(failed),
        "tools": tools,
    }
