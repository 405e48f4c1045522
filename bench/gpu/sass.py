"""What the machine code of a module holds: which instructions, for which architectures."""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gpu import kernel_names

_TARGET = re.compile(r"code for (sm_\w+)")
_FUNCTION = re.compile(r"Function : (\w+)")
# /*0a10*/  @!P0 LDG.E.128.CONSTANT R4, … ;
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_.]*)")
_NEEDED = re.compile(r"\(NEEDED\).*\[(?P<library>[^\]]+)\]")
_CUBIN = re.compile(r"\.(sm_\w+)\.cubin")
_PTX = re.compile(r"\.(sm_\w+)\.ptx")

LOCAL_MEMORY = r"(LDL|STL)(\..*)?"
# What must not be needed: the wheel brings its runtime, and the driver is asked for by hand.
FORBIDDEN_LIBRARIES = re.compile(r"lib(cuda|cudart|cublas|cusolver|cusparse|nv)\w*[.-]")

# (kernel's short name, architecture) → instruction → how often
Counts = Mapping[tuple[str, str], Counter[str]]


def disassemble(module: Path) -> str:
    """Give the machine code of all architectures as `cuobjdump` prints it."""
    return _output(["cuobjdump", "-sass", str(module)])


def counts(listing: str) -> Counts:
    """Count instructions by kernel and architecture."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    target = function = ""
    for line in listing.splitlines():
        if match := _INSTRUCTION.search(line):
            found[function, target][match[1]] += 1
        elif match := _TARGET.search(line):
            target = match[1]
        elif match := _FUNCTION.search(line):
            function = match[1]
    short = kernel_names.short_names(function for function, _ in found)
    return {(short[function], target): number for (function, target), number in found.items()}


def matching(counted: Counter[str], pattern: str) -> int:
    """Say how often instructions that fit a pattern, from their beginning, appear."""
    fitting = re.compile(pattern)
    return sum(number for name, number in counted.items() if fitting.match(name))


def misses(
    counted: Counts,
    instructions: Callable[[str], Iterable[str]],
    kernels: Sequence[str],
    targets: Iterable[str],
) -> list[str]:
    """List kernels without machine code, without what they must have, or with local memory."""
    wrong = []
    for kernel in kernels:
        for target in targets:
            found = counted.get((kernel, target))
            if found is None:
                wrong.append(f"{kernel}: no machine code for {target}")
                continue
            wrong += [
                f"{kernel} for {target}: no instruction {pattern}"
                for pattern in instructions(kernel)
                if not matching(found, pattern)
            ]
    for (kernel, target), found in counted.items():
        if matching(found, LOCAL_MEMORY):
            wrong.append(f"{kernel} for {target}: {matching(found, LOCAL_MEMORY)} of LDL and STL")
    return wrong


def images(module: Path) -> tuple[set[str], set[str]]:
    """Give the architectures that a module holds as machine code, and as PTX."""
    listing = _output(["cuobjdump", "-lelf", "-lptx", str(module)])
    return set(_CUBIN.findall(listing)), set(_PTX.findall(listing))


def needed_libraries(module: Path) -> list[str]:
    """Give the shared libraries that a module asks the loader for."""
    return needed(_output(["readelf", "-d", str(module)]))


def needed(listing: str) -> list[str]:
    """Read the libraries from what `readelf -d` prints."""
    return [match["library"] for match in _NEEDED.finditer(listing)]


def forbidden(libraries: Iterable[str]) -> list[str]:
    """List the libraries that a machine without CUDA lacks."""
    return [
        f"the module needs {library}" for library in libraries if FORBIDDEN_LIBRARIES.match(library)
    ]


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
