"""What a bench ran on: every results file has it, since no figure means anything without."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def facts() -> dict[str, Any]:
    """Give processor, cores, load, Python, SIMD level and commit."""
    from epibias import kernels

    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load_when_it_began": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "simd_levels": kernels.backend_info()["simd_levels"],
        "commit": commit(),
    }


def processor() -> str:
    """Give the processor's name, with what tells its generation, as far as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    values = {key.strip(): value.strip() for key, _, value in (li.partition(":") for li in lines)}
    if "model name" not in values:
        return platform.machine()
    numbers = f"family {values.get('cpu family')}, model {values.get('model')}"
    return f"{values['model name']} ({numbers})"


def commit() -> str:
    """Give the commit of the checkout, with a plus sign where files differ from it."""
    git = ["git", "-C", str(Path(__file__).parents[1])]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.decode().strip()[:12] + ("+" if changed.stdout.strip() else "")
