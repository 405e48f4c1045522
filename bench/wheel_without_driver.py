"""A wheel built with CUDA works on a machine without a driver: installed in a fresh environment.

    python bench/wheel_without_driver.py WHEEL

`epibias doctor` says that there is no driver, the kernels run on the CPU, arrays of numpy never
touch CUDA, and what is for tests alone, `_cuda_emulated`, is not in the wheel. Needs a machine
without an NVIDIA driver.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Any

from gpu import sass

# Run in the fresh environment: what it prints is judged here.
ASK = """
import json, sys
import numpy as np
import epibias
from epibias import _cuda, device, kernels
rows = np.eye(4, dtype=np.float32)
found = epibias.CosineIndex(rows).search(rows, k=2).indices[:, 0].tolist()
loaded = sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "cupy"})
status, reason = device.cuda_status()
print(json.dumps({"found": found, "usable": status, "reason": reason, "loaded": loaded,
                  "emulated": _cuda.emulated, "backend": kernels.backend_info()["backend"]}))
"""


def misses_of_names(names: list[str]) -> list[str]:
    """Look at the names of a wheel's files."""
    modules = [name.removeprefix("epibias/") for name in names if name.endswith(".so")]
    wrong = [
        f"the wheel has no {wanted}"
        for wanted in ("_core", "_cuda")
        if not any(module.startswith(f"{wanted}.") for module in modules)
    ]
    wrong += [
        f"the wheel has {name}"
        for name in names
        if "_cuda_emulated." in name and name.endswith(".so")
    ]
    wrong += [f"the wheel has {name}" for name in names if name.endswith((".a", ".cu", ".cuh"))]
    return wrong


def misses_of_answer(answer: dict[str, Any]) -> list[str]:
    """Look at what the fresh environment said of itself."""
    wanted = {"found": [0, 1, 2, 3], "usable": False, "loaded": [], "emulated": False}
    wanted["backend"] = "cpu"
    wrong = [
        f"{name}: expected {value}, got {answer.get(name)}"
        for name, value in wanted.items()
        if answer.get(name) != value
    ]
    if not str(answer.get("reason")).startswith("no NVIDIA driver"):
        wrong.append(f"reason: expected no NVIDIA driver …, got {answer.get('reason')}")
    return wrong


def examine(wheel: Path) -> list[str]:
    """Install a wheel in a fresh environment and list what is wrong."""
    wrong = misses_of_names(zipfile.ZipFile(wheel).namelist())
    if wrong:
        return wrong
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", f"{wheel}[cli]"]
        subprocess.run(install, check=True)
        (module,) = Path(folder).glob("lib/python*/site-packages/epibias/_cuda.*.so")
        wrong += sass.forbidden(sass.needed_libraries(module))
        wrong += misses_of_answer(json.loads(_said(python, "-c", ASK)))
        doctor = json.loads(_said(python, "-m", "epibias", "doctor", "--json"))
        reason = str(doctor["backend"]["cuda_reason"])
        if not reason.startswith("no NVIDIA driver") or doctor["self_check"] != "passed":
            wrong.append(f"doctor: {reason}; self-check {doctor['self_check']}")
        print(f"doctor says: cuda {doctor['backend']['cuda']}, {reason}")
    return wrong


def _said(*command: str) -> str:
    # Elsewhere than the checkout, whose folders would be imported instead.
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tempfile.gettempdir())
    if finished.returncode:
        raise RuntimeError(finished.stdout + finished.stderr)
    return finished.stdout


if __name__ == "__main__":
    found = examine(Path(sys.argv[1]).resolve())
    for miss in found:
        print(f"MISS {miss}")
    sys.exit(1 if found else 0)
