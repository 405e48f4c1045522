"""Faults in data that a kernel met: told when the caller asks, for to ask means to wait.

The CPU raises at a NaN. A kernel cannot, and its launcher does not wait for it: it leaves the
lowest fault of a call in a record on the device (`fault.hpp`), and NaN and −1 in the results. The
records wait here, by device, until `check` reads them. Emulated kernels have run when their call
returns, so their faults are raised at once.
"""

from __future__ import annotations

import math
import struct
import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

from epibias import _validate
from epibias.device.arrays import ArrayTuple, ForeignArray
from epibias.errors import InputError

NONE = -1  # a record's word, as int64, while there is no fault
MOST_PENDING = 1024  # records a device that wait; each is 16 bytes, in a block of the allocator

_COLUMN_BITS, _ROW_BITS = 20, 36


class Fault(NamedTuple):
    """What a kernel met: at which place, and what stands there (NaN, an infinity, or 0 = norm)."""

    row: int
    column: int
    value: float


# One a stage and argument code: the error that the CPU raises for such a fault.
Explanation = Callable[[Fault], InputError]


def unit_rows(argument: str) -> Explanation:
    """Explain a row that cannot be scaled to unit length, in the CPU's words."""

    def explain(fault: Fault) -> InputError:
        got = "NaN in row " if math.isnan(fault.value) else "Inf in row "
        if fault.value == 0:
            got = "a zero row "
        return InputError(argument, "finite rows of non-zero norm", f"{got}{fault.row}")

    return explain


def finite_values(argument: str) -> Explanation:
    """Explain a value that is not finite, in the CPU's words."""

    def explain(fault: Fault) -> InputError:
        place = f"row {fault.row}, column {fault.column}"
        return InputError(argument, "finite values", f"{fault.value:.9g}", place)

    return explain


class _Record(NamedTuple):
    """A call's record on the device, and what is needed to read and to explain it."""

    array: ForeignArray  # kept alive
    view: ArrayTuple
    stage: str
    explanations: Sequence[Explanation]
    module: ModuleType


class _Pending:
    """Records of one device, oldest first; beyond `MOST_PENDING` the oldest are given up."""

    def __init__(self) -> None:
        self.records: deque[_Record] = deque(maxlen=MOST_PENDING)
        self.n_lost = 0


_pending: dict[int, _Pending] = {}
_lock = threading.Lock()


def explained(
    word: int, bits: int, explanations: Sequence[Explanation], where: str | None = None
) -> InputError | None:
    """Give the error of a record, its two numbers as int64; None where there was no fault."""
    if word == NONE:
        return None
    unsigned = word % 2**64
    code = unsigned >> (_ROW_BITS + _COLUMN_BITS)
    row = (unsigned >> _COLUMN_BITS) % 2**_ROW_BITS
    value = struct.unpack("<d", struct.pack("<q", bits))[0]
    error = explanations[code](Fault(row, unsigned % 2**_COLUMN_BITS, value))
    place = ", ".join(part for part in (error.where, where) if part)
    return InputError(error.argument, error.expected, error.got, place or None)


def add(
    device: int,
    array: ForeignArray,
    view: ArrayTuple,
    stage: str,
    explanations: Sequence[Explanation],
    module: ModuleType,
) -> None:
    """Let a record wait for `check`."""
    with _lock:
        pending = _pending.setdefault(device, _Pending())
        pending.n_lost += len(pending.records) == MOST_PENDING
        pending.records.append(_Record(array, view, stage, explanations, module))


def check(device: int | None = None) -> int:
    """Wait for the device, and raise what the calls since the last check found in their data.

    Parameters
    ----------
    device : int, optional
        Number of the CUDA device; all that were used if absent.

    Returns
    -------
    int
        Calls looked at.

    Raises
    ------
    InputError
        As the CPU would have raised it, for the first call with a fault; `where` names the stage.
        All calls before it and after it count as looked at.

    Warns
    -----
    UserWarning
        More than 1,024 calls since the last check: the oldest cannot be told of any more.

    Examples
    --------
    >>> from epibias import device
    >>> device.check()  # nothing has run on a device yet
    0
    """
    if device is not None:
        device = _validate.integer("device", device, low=0)
    with _lock:
        chosen = sorted(_pending) if device is None else [device] if device in _pending else []
        waiting = [_pending.pop(number) for number in chosen]
    records = [record for pending in waiting for record in pending.records]
    errors = []
    for record in records:
        word, bits = record.module.read_fault(record.view)  # waits for the device
        errors.append(explained(word, bits, record.explanations, record.stage))
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        raise first
    n_lost = sum(pending.n_lost for pending in waiting)
    if n_lost:
        lost = f"faults of {n_lost} older calls were not looked at: check after at most "
        warnings.warn(f"{lost}{MOST_PENDING} calls", UserWarning, stacklevel=2)
    return len(records)
