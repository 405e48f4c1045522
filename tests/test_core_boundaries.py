"""The C++ core knows nothing of Python, and no SIMD level's code can leak into another's."""

from __future__ import annotations

import re
from pathlib import Path

CPP = Path(__file__).parents[1] / "cpp"
INCLUDE = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)[>\"]", re.MULTILINE)
# Per-level sources: the headers that may be inlined into code with that level's flags.
KERNEL_HEADERS = re.compile(r"immintrin\.h|cstdint|cstddef|kernels/\w+\.hpp")


def includes(path: Path) -> list[str]:
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def sources(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((CPP / folder).rglob("*.[ch]pp"))]
    assert len(found) >= 4
    return found


def test_core_never_includes_python():
    for path in sources("include", "src"):
        python = [name for name in includes(path) if re.search(r"[Pp]ython|pybind|numpy", name)]
        assert not python, f"{path.relative_to(CPP)} includes {python}"


def test_public_headers_include_only_the_standard_library_and_each_other():
    for path in sources("include"):
        for name in includes(path):
            own = name.startswith("epibias/") and (CPP / "include" / name).exists()
            assert own or re.fullmatch(r"[a-z_]+", name), f"{path.name} includes {name}"


def test_level_sources_include_nothing_that_could_be_shared_between_levels():
    """An inline function of a common header, compiled for AVX-512, may be the copy all callers get.

    So these sources may include intrinsics, plain types and the kernels' own headers.
    """
    levels = [p for p in sources("src") if re.search(r"_(scalar|avx2|avx512)$", p.stem)]
    assert len(levels) >= 3
    for path in levels:
        for name in includes(path):
            assert KERNEL_HEADERS.fullmatch(name), f"{path.name} includes {name}"


def test_the_pattern_sees_an_include():
    assert INCLUDE.findall('#include <Python.h>\n  # include "a/b.hpp"\n') == [
        "Python.h",
        "a/b.hpp",
    ]
