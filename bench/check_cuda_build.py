"""nvcc compiles `epibias._cuda`, and what came out is what was meant: no GPU is needed.

    python bench/check_cuda_build.py [--build FOLDER] [--launcher ccache] [--out FILE]

For sm_80, sm_90, sm_100 and PTX: 0 spills, no local memory, registers within `gpu/budgets.py`; the
matrix instructions and 16-byte loads that kernels count on are in the machine code; the module asks
for no CUDA library. The results go to `bench/results/cuda_build.json`. Exit code 1 on any miss.
Needs nvcc, cuobjdump, readelf and c++filt on PATH, cmake, and pybind11.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu import budgets, ptxas, sass

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "cuda_build.json"
TARGETS = ("sm_80", "sm_90", "sm_100")
PTX_TARGET = "sm_100"  # for what comes after it
TOOLS = ("nvcc", "cuobjdump", "readelf", "c++filt", "cmake")
TOLD = {  # columns of the results
    "HMMA": r"HMMA\b",
    "IMMA": r"IMMA\b",
    "16-byte loads": budgets.SIXTEEN_BYTE_LOADS,
    "LDL, STL": sass.LOCAL_MEMORY,
}


class BuildError(Exception):
    """The build failed; the text is the end of its log."""


def build(folder: Path, launcher: str | None = None) -> tuple[Path, str]:
    """Build `_cuda` from nothing in `folder`; the module, and the log with what ptxas said."""
    import pybind11

    configure = ["cmake", "-S", str(ROOT), "-B", str(folder)]
    configure += ["-DEPIBIAS_CUDA=ON", "-DEPIBIAS_CUDA_CHECK=ON"]
    configure += ["-DCMAKE_CUDA_FLAGS=-Xptxas=-v", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += [f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    if launcher:
        configure += [
            f"-DCMAKE_{language}_COMPILER_LAUNCHER={launcher}" for language in ("CXX", "CUDA")
        ]
    _run(configure)
    _run(["cmake", "--build", str(folder), "--target", "clean"])  # what is up to date says nothing
    targets = [
        "--target",
        "_cuda",
        "--target",
        "epibias_cuda_check",
    ]  # it links, though none runs it
    log = _run(["cmake", "--build", str(folder), *targets, "--parallel", "2"])
    (module,) = folder.glob("_cuda.*.so")
    return module, log


def run(folder: Path | None = None, launcher: str | None = None) -> dict[str, Any]:
    """Build, look, and say what is wrong; `passed` is False when a tool is missing."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return {"passed": False, "misses": [f"not installed: {', '.join(missing)}"]}
    with tempfile.TemporaryDirectory() as temporary:
        try:
            module, log = build(folder or Path(temporary), launcher)
        except BuildError as error:
            return {"passed": False, "misses": [str(error)]}
        return examine(module, log)


def examine(module: Path, log: str) -> dict[str, Any]:
    """Judge a module and the log of its build."""
    uses = ptxas.parse(log)
    kernels = sorted({use.kernel for use in uses})
    counted = sass.counts(sass.disassemble(module))
    libraries = sass.needed_libraries(module)
    machine_code, ptx = sass.images(module)
    wrong = ptxas.misses(log, uses, lambda kernel: budgets.find(kernel).registers, TARGETS)
    wrong += sass.misses(
        counted, lambda kernel: budgets.find(kernel).instructions, kernels, TARGETS
    )
    wrong += [f"budgets.py: no kernel is {row}" for row in budgets.unused(kernels)]
    wrong += sass.forbidden(libraries)
    wrong += [f"the module has no {target}" for target in TARGETS if target not in machine_code]
    wrong += [] if PTX_TARGET in ptx else [f"the module has no PTX for {PTX_TARGET}"]
    return {
        "passed": not wrong,
        "misses": wrong,
        "nvcc": nvcc_version(),
        "targets": sorted(machine_code),
        "ptx": sorted(ptx),
        "needed_libraries": libraries,
        "module_bytes": module.stat().st_size,
        "kernels": [kernel_record(use, counted) for use in sorted(uses, key=_by_name)],
    }


def kernel_record(use: ptxas.KernelUse, counted: sass.Counts) -> dict[str, Any]:
    """Give one line of the results: what ptxas said, the budget, the instructions told of."""
    found = counted.get((use.kernel, use.target))
    told = {name: sass.matching(found, pattern) for name, pattern in TOLD.items()} if found else {}
    return {**use.record(), "budget": budgets.find(use.kernel).registers, "instructions": told}


def nvcc_version() -> str:
    """Give the compiler's release."""
    text = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"V(\d+\.\d+\.\d+)", text)
    return release[1] if release else "unknown"


def _by_name(use: ptxas.KernelUse) -> tuple[str, int]:
    return use.kernel, int(use.target.removeprefix("sm_").rstrip("af"))


def _run(command: list[str]) -> str:
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if finished.returncode:
        raise BuildError(f"{command[0]} failed:\n{finished.stdout[-4000:]}")
    return finished.stdout


def lines(result: dict[str, Any]) -> Iterable[str]:
    """Give a short report: each kernel once, its registers by architecture, then what is wrong."""
    registers: dict[str, list[str]] = {}
    for record in result.get("kernels", []):
        told = f"{record['target']} {record['registers']}"
        registers.setdefault(f"{record['kernel']} (budget {record['budget']})", []).append(told)
    yield from (f"{kernel}: {', '.join(told)}" for kernel, told in registers.items())
    yield from (f"MISS {miss}" for miss in result["misses"])


def main() -> int:
    """Build, look, write the results, and say what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--build", type=Path, help="folder to build in, kept; else a temporary one")
    parser.add_argument("--launcher", help="a compiler cache, such as ccache")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    result = run(options.build, options.launcher)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(*lines(result), sep="\n", file=sys.stderr)
    n_kernels = len({record["kernel"] for record in result.get("kernels", [])})
    short = {"passed": result["passed"], "misses": result["misses"], "n_kernels": n_kernels}
    print(json.dumps(short, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
