"""The tree keeps to its own rules: file lengths, no machine paths, one word a stage."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STAGES = [
    "cosine_topk",
    "quantized_scan",
    "polarization_axis",
    "threshold_sweep",
    "rerank",
    "rank_candidates",
    "biasdef_select",
    "bounded_selection",
    "echo_shares",
]
CUDA_STAGES = [
    "cosine_topk",
    "polarization_axis",
    "polarization_scores",
    "threshold_sweep",
    "rerank",
    "biasdef_select",
]


def tracked(*patterns: str) -> list[Path]:
    if not (ROOT / ".git").exists():  # an sdist
        return [path for pattern in patterns for path in ROOT.rglob(pattern) if path.is_file()]
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", *patterns]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).exists()]


def test_no_source_file_is_longer_than_400_lines():
    sources = tracked("*.py", "*.pyi", "*.cpp", "*.hpp", "*.cu", "*.cuh")
    assert len(sources) > 40
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    assert not {str(path): n for path, n in lengths.items() if n > 400}


def test_public_headers_stay_short():
    headers = tracked("cpp/include/*.hpp", "cuda/include/*.hpp")
    assert len(headers) >= 8
    assert not [h for h in headers if len(h.read_text(encoding="utf-8").splitlines()) > 150]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_has_the_same_name_in_every_folder(stage):
    for pattern in (
        f"cpp/include/epibias/{stage}.hpp",
        f"cpp/src/{stage}.cpp",
        f"cpp/bindings/bind_{stage}.cpp",
        f"tests/test_{stage}.py",
    ):
        assert tracked(pattern), f"{pattern} is missing"


@pytest.mark.parametrize("stage", CUDA_STAGES)
def test_a_stage_on_a_device_has_its_name_in_every_folder(stage):
    for pattern in (
        f"cuda/include/epibias/cuda/{stage}.hpp",
        f"cuda/src/{stage}.cu",
        f"cuda/bindings/bind_{stage}.cpp",
        f"tests/cuda/test_{stage}.cpp",
        f"python/epibias/device/{stage}.py",
    ):
        assert tracked(pattern), f"{pattern} is missing"
    suite = (ROOT / f"tests/cuda/test_{stage}.cpp").read_text(encoding="utf-8")
    assert f'TEST_SUITE("{stage}")' in suite, "planted bugs are run by the suite of their stage"


def test_no_python_and_no_framework_below_the_bindings():
    sources = tracked("cuda/include/*", "cuda/src/*", "cuda/emulation/*")
    assert len(sources) > 40
    forbidden = re.compile(r"#include\s*[<\"](Python\.h|pybind11|torch|ATen|c10|cupy)")
    for path in sources:
        found = forbidden.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(ROOT)}: {found and found.group()}"


def test_public_cuda_headers_need_no_cuda():
    for path in tracked("cuda/include/*.hpp"):
        text = path.read_text(encoding="utf-8")
        assert "#include <cuda" not in text, path.name
        assert "device_code.hpp" not in text, path.name


def test_no_path_of_a_machine_and_no_registry_host_is_committed():
    # Spelt in pieces so that this file does not find itself.
    forbidden = re.compile(
        "|".join(["/wo" + "rk/", "/opt/wh" + "eels", "pypi" + r"\.org", "pythonhost" + "ed"])
    )
    for path in tracked(
        "*.py", "*.md", "*.toml", "*.txt", "*.cpp", "*.hpp", "*.cu", "*.cuh", ".ci/*", "*.json"
    ):
        found = forbidden.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(ROOT)}: {found and found.group()}"


def test_no_wheel_is_tied_to_the_building_machine():
    # -march=native would crash on other processors; the levels are chosen at run time instead.
    flags = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert "-march=native" not in flags
