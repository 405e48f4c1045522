"""What `ptxas -v` says of every kernel, and whether it keeps to the budgets in `budgets.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from gpu import kernel_names

_ENTRY = re.compile(r"Compiling entry function '(?P<name>\w+)' for '(?P<target>sm_\w+)'")
_PROPERTIES = re.compile(r"Function properties for (?P<name>\w+)")
_FRAME = re.compile(
    r"(?P<frame>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<shared>\d+) bytes smem")
_WARNING = re.compile(r"\bwarning\b|\berror\b|\bfatal\b", re.IGNORECASE)


@dataclass(frozen=True)
class KernelUse:
    """What one kernel takes on one architecture."""

    kernel: str
    target: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int

    def record(self) -> dict[str, object]:
        """Give the fields for a results file."""
        return asdict(self)


class UnreadableLogError(Exception):
    """The log is not what `ptxas -v` writes: nothing may be concluded from it."""


def parse(log: str) -> list[KernelUse]:
    """Read every kernel of a build log; one that is announced and not described is an error."""
    found: list[tuple[str, str, int, int, int, int]] = []
    entry: tuple[str, str] | None = None
    frame: tuple[int, int] | None = None
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            if entry is not None:
                raise UnreadableLogError(f"nothing is said of {entry[0]} for {entry[1]}")
            entry, frame = (match["name"], match["target"]), None
        elif match := _FRAME.search(line):
            frame = int(match["frame"]), int(match["stores"]) + int(match["loads"])
        elif (match := _USED.search(line)) and entry is not None:
            if frame is None:
                raise UnreadableLogError(f"no stack frame is said of {entry[0]} for {entry[1]}")
            shared = _SHARED.search(line)
            found.append(
                (*entry, int(match["registers"]), int(shared["shared"]) if shared else 0, *frame)
            )
            entry = None
    if entry is not None:
        raise UnreadableLogError(f"nothing is said of {entry[0]} for {entry[1]}")
    if not found:
        raise UnreadableLogError("no kernel; was it compiled with -Xptxas=-v?")
    short = kernel_names.short_names(name for name, *_ in found)
    return [KernelUse(short[name], *rest) for name, *rest in found]


def misses(
    log: str, uses: Sequence[KernelUse], budget: Callable[[str], int], targets: Iterable[str]
) -> list[str]:
    """List what is wrong: spills, local memory, budgets, architectures that lack, warnings."""
    said = [line.strip() for line in log.splitlines() if not line.startswith("ptxas info")]
    wrong = [f"warning: {line}" for line in said if _WARNING.search(line)]
    for use in uses:
        where = f"{use.kernel} for {use.target}"
        if use.spill_bytes:
            wrong.append(f"{where}: {use.spill_bytes} bytes of spills")
        if use.stack_bytes:
            wrong.append(f"{where}: {use.stack_bytes} bytes of stack frame, which is local memory")
        allowed = budget(use.kernel)
        if use.registers > allowed:
            wrong.append(f"{where}: {use.registers} registers, {allowed} are its budget")
    wrong += other_frames(log, uses)
    for kernel in sorted({use.kernel for use in uses}):
        lacking = set(targets) - {use.target for use in uses if use.kernel == kernel}
        wrong += [f"{kernel}: not compiled for {target}" for target in sorted(lacking)]
    return wrong


def other_frames(log: str, uses: Sequence[KernelUse]) -> list[str]:
    """List functions that are called, not inlined, and have a stack frame or spills."""
    wrong, name = [], ""
    kernels = {name for name, _ in _ENTRY.findall(log)}
    for line in log.splitlines():
        if match := _PROPERTIES.search(line):
            name = match["name"]
        elif (match := _FRAME.search(line)) and name not in kernels:
            numbers = [int(match[part]) for part in ("frame", "stores", "loads")]
            if any(numbers):
                wrong.append(f"{name}, a function that is not inlined: {match.group()}")
    return wrong
