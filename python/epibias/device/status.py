"""Whether CUDA can be used here, why not, and which compiled module a call goes to.

`epibias._cuda` is optional: a machine without it, without a driver or without a device is in a
normal state, and what is missing is told in words. `epibias._cuda_emulated` holds the same kernels
run by the processor, for tests: it takes numpy arrays while EPIBIAS_CUDA_EMULATED=1, and is never
chosen, nor left, silently.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

from epibias.errors import InputError

VARIABLE = "EPIBIAS_CUDA_EMULATED"
BUILD_EMULATED = "pip install with -C cmake.define.EPIBIAS_CUDA_EMULATED=ON"
EMULATED_REASON = f"{VARIABLE}=1: numpy arrays go to CUDA kernels emulated on the CPU, for tests"


class CudaStatus(NamedTuple):
    """Whether CUDA can be used, and in words why, or why not."""

    usable: bool
    reason: str


class _Emulation:
    """Whether numpy arrays go to the emulated kernels; read once, for `getenv` takes 0.7 us."""

    def __init__(self) -> None:
        self.asked = os.environ.get(VARIABLE, "")
        self.on = self.asked not in ("", "0")


emulation = _Emulation()


def cuda_status() -> CudaStatus:
    """Tell whether CUDA can be used for arrays on a device, and why not.

    Never raises. The driver is asked for its devices, once; no context is made.

    Returns
    -------
    CudaStatus
        usable, reason.

    Examples
    --------
    >>> usable, reason = cuda_status()
    >>> isinstance(usable, bool), bool(reason)
    (True, True)
    """
    return _status()


def emulation_status() -> CudaStatus:
    """Tell whether numpy arrays go to the emulated kernels; never raises.

    Returns
    -------
    CudaStatus
        usable: they do. The reason is of one of three kinds: not asked for, asked for and there,
        asked for and missing, in which case every call that would use it is an error.
    """
    if not emulation.on:
        return CudaStatus(False, f"{VARIABLE} is not set")
    try:
        emulated_module()
    except InputError as error:
        return CudaStatus(False, str(error))
    return CudaStatus(True, EMULATED_REASON)


def cuda_module() -> ModuleType:
    """Give `epibias._cuda`; `cuda_status` has said that it is usable."""
    return importlib.import_module("epibias._cuda")


def emulated_module() -> ModuleType:
    """Give `epibias._cuda_emulated`, or raise: whoever asked for it gets nothing else."""
    if emulation.asked != "1":
        raise InputError(VARIABLE, "1, or 0 or nothing for none", repr(emulation.asked))
    try:
        return importlib.import_module("epibias._cuda_emulated")
    except ImportError as error:
        expected = f"the module epibias._cuda_emulated; {BUILD_EMULATED}"
        raise InputError(VARIABLE, expected, f"{type(error).__name__}: {error}") from error


@contextmanager
def emulated(on: bool = True) -> Iterator[None]:
    """Send numpy arrays to the emulated kernels, or to the CPU, for the length of a block.

    For tests, on the thread that runs alone.

    Parameters
    ----------
    on : bool

    Raises
    ------
    InputError
        The emulated module is not there.
    """
    before = emulation.asked, emulation.on
    emulation.asked, emulation.on = ("1", True) if on else ("", False)
    try:
        if on:
            emulated_module()
        yield
    finally:
        emulation.asked, emulation.on = before


@functools.cache
def _status() -> CudaStatus:
    try:
        module = cuda_module()
    except ModuleNotFoundError:
        return CudaStatus(False, "this installation has no epibias._cuda (built without nvcc)")
    except Exception as error:  # a library that it needs, or a module of another build
        return CudaStatus(False, f"epibias._cuda does not load: {error}")
    try:
        n_devices, reason = module.device_status()
    except Exception as error:
        return CudaStatus(False, f"epibias._cuda cannot ask the driver: {error}")
    if n_devices > 0:
        return CudaStatus(True, reason or f"{n_devices} CUDA device{'s' * (n_devices > 1)}")
    return CudaStatus(False, reason or "no CUDA device")
