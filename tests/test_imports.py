"""The layers import downward only, and `import epibias` stays light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import epibias

PACKAGE = Path(epibias.__file__).parent

# Lower layers first. A module may import from its own layer and from those before it.
LAYERS = [
    {
        "errors",
        "_validate",
        "_plain",
        "_files",
        "_records",
        "_core_errors",
        "_frameworks",
        "_sweep_options",
        "_sweep_chunks",
    },
    {"_core", "_cuda", "_cuda_emulated"},
    {"device"},
    {"_dispatch"},
    {
        "kernels",
        "kernels_polarization",
        "kernels_principal",
        "kernels_quantized",
        "kernels_remembered",
        "kernels_select",
        "kernels_sweep",
        "kernels_threads",
        "kernels_tilt",
        "kernels_trusted",
    },
    {"corpus", "data_sets", "data"},
    {"encoder", "retrieval"},
    {"polarization", "threshold"},
    {"selection", "pool", "pool_parts"},
    {"attacks", "defenses", "generators", "metrics", "nli"},
    {"experiment", "costs", "index", "integrations"},
    {"cli", "__main__"},
]
ROOM = {name: level for level, names in enumerate(LAYERS) for name in names}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(path: Path) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("epibias.")}
    return {room for room in rooms if room in ROOM}


MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem != "__init__"
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_its_own_layer_and_below(path):
    own = room_of(path)
    assert own in ROOM, f"{own}: a new room; give it a layer in LAYERS"
    above = {room for room in imported_rooms(path) if ROOM[room] > ROOM[own]}
    assert not above, f"{own} imports from above: {sorted(above)}"


def test_only_the_kernels_touch_the_core():
    users = {room_of(path) for path in MODULES if "_core" in imported_rooms(path)}
    assert users == {
        "kernels",
        "kernels_polarization",
        "kernels_principal",
        "kernels_quantized",
        "kernels_remembered",
        "kernels_select",
        "kernels_sweep",
        "kernels_threads",
        "kernels_tilt",
        "kernels_trusted",
    }


def test_only_the_device_folder_loads_a_cuda_module():
    users = {room_of(path) for path in MODULES if "epibias._cuda" in path.read_text("utf-8")}
    assert users <= {"device"}
    assert not {room_of(path) for path in MODULES if "_cuda" in imported_rooms(path)}


def run_python(code: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return finished.stdout


def test_import_is_light():
    code = (
        "import sys, json, epibias;"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    loaded = set(json.loads(run_python(code)))
    heavy = {"torch", "cupy", "transformers", "sentence_transformers", "pandas", "pyarrow", "scipy"}
    heavy |= {"plotly", "typer", "rich", "jinja2", "sklearn", "sqlite3"}
    assert not loaded & heavy


def test_import_costs_little_beside_numpy():
    code = (
        "import time, numpy; start = time.process_time(); import epibias;"
        "print(time.process_time() - start)"
    )
    assert min(float(run_python(code)) for _ in range(3)) < 0.25


def test_the_front_door_stays_small_and_whole():
    assert len(epibias.__all__) <= 25
    assert sorted(set(epibias.__all__)) == sorted(epibias.__all__)
    for name in epibias.__all__:
        assert getattr(epibias, name) is not None
