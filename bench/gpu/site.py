"""Build this tree's modules and make a folder from which `import epibias` takes them."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import check_cuda_build
from gpu import budgets, ptxas

ROOT = Path(__file__).parents[2]


def build_for_device(folder: Path, target: str) -> dict[str, Any]:
    """Build `_core`, `_cuda` for one architecture, the emulation, the sanitizer's program."""
    import pybind11

    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-DEPIBIAS_CUDA=ON"]
    configure += ["-DEPIBIAS_CUDA_EMULATED=ON", "-DEPIBIAS_CUDA_CHECK=ON"]
    configure += [f"-DCMAKE_CUDA_ARCHITECTURES={target.removeprefix('sm_')}-real"]
    configure += ["-DCMAKE_CUDA_FLAGS=-Xptxas=-v", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += [f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
    configure += ["-G", "Ninja"] if shutil.which("ninja") else []
    for command in (configure, ["cmake", "--build", str(folder), "--parallel"]):
        finished = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if finished.returncode:
            return {"status": "failed", "reason": command[:2], "log": finished.stdout[-6000:]}
    uses = ptxas.parse(finished.stdout)
    wrong = ptxas.misses(
        finished.stdout, uses, lambda kernel: budgets.find(kernel).registers, [target]
    )
    return {
        "status": "failed" if wrong else "passed",
        "reason": "; ".join(wrong[:5]),
        "target": target,
        "nvcc": check_cuda_build.nvcc_version(),
        "kernels": [use.record() for use in uses],
    }


def use(folder: Path) -> None:
    """Let `import epibias` find the tree's Python and the modules built in `folder`."""
    package = folder / "site" / "epibias"
    shutil.rmtree(package.parent, ignore_errors=True)
    package.mkdir(parents=True)
    for entry in [*(ROOT / "python" / "epibias").iterdir(), *folder.glob("_c*.so")]:
        if entry.suffix != ".so" or entry.parent == folder:
            (package / entry.name).symlink_to(entry.resolve())
    sys.path.insert(0, str(package.parent))
    importlib.invalidate_caches()


def installed() -> dict[str, Any]:
    """Say which modules are imported; fails without the emulated one."""
    from epibias import _core, _cuda_emulated
    from epibias.device import cuda_status

    modules = [Path(str(module.__file__)).name for module in (_core, _cuda_emulated)]
    right = bool(_cuda_emulated.emulated)
    reason = cuda_status().reason
    return {"status": "passed" if right else "failed", "modules": modules, "cuda": reason}
