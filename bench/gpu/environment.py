"""What a run on a device ran on, and exactly which sources it ran."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import machine

ROOT = Path(__file__).parents[2]
SOURCES = ("CMakeLists.txt", "cpp", "cuda", "python", "bench/gpu", "bench/gpu_check.py")
PACKAGES = ("numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "cuvs-cu13", "triton")
CARD = "name,driver_version,memory.total,clocks.sm,clocks.mem,temperature.gpu,power.draw"


def describe() -> dict[str, Any]:
    """Give processor, versions, card, commit and the hash of the sources."""
    return {
        "status": "passed",
        "source_sha256": source_hash(ROOT),
        "commit": machine.commit(),
        "processor": machine.processor(),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "nvcc": _last_line("nvcc", "--version"),
        "card": _last_line("nvidia-smi", f"--query-gpu={CARD}", "--format=csv,noheader"),
    }


def source_hash(root: Path) -> str:
    """Hash names and contents of what is compiled or imported; a copy without git has one too."""
    digest = hashlib.sha256()
    for top in SOURCES:
        place = root / top
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so":
                content = path.read_bytes()
                digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
                digest.update(content)
    return digest.hexdigest()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _last_line(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    return said.splitlines()[-1] if said else None
