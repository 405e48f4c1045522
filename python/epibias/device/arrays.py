"""Arrays on a device, by framework: where they lie, on which stream, and who allocates.

No framework is imported here: an array brings its own, which is then in `sys.modules`. Nothing is
cast, copied or moved, and nothing waits for the device. A call behaves as one more operator of the
caller's framework: on its current stream, with outputs from its allocator, on the array's device.

- torch CUDA tensors and cupy arrays: by raw pointer
- other arrays that speak DLPack, inside `using(stream=…, empty=…)`: their current stream cannot be
  asked for, nor their allocator
- numpy arrays: for the emulated kernels alone (see `status`)
"""

from __future__ import annotations

import contextlib
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from epibias import _validate
from epibias._frameworks import ON_CUDA, kind_of, owner
from epibias.device import dlpack, status
from epibias.errors import InputError

# What the bindings take: pointer, shape, dtype by name, number of the device.
ArrayTuple = tuple[int, tuple[int, ...], str, int]
ForeignArray = Any  # an array of a framework that is not imported here, so without its type
Allocator = Callable[[tuple[int, ...], str], ForeignArray]

POISON = 0xA5  # fills what emulated kernels are given to write: what they leave out shows
ALIGNMENT = 256  # bytes; what every CUDA allocator gives


class Layout(NamedTuple):
    """What a framework says of one array; `strides` as a text, None where it is C-contiguous."""

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    strides: str | None


class Framework(ABC):
    """The arrays of one framework on one device, at the stream that is current now."""

    emulated = False

    def __init__(self, device: int, stream: int) -> None:
        self.device, self.stream = device, stream

    @abstractmethod
    def layout(self, argument: str, value: ForeignArray) -> Layout:
        """Say where an array lies, or refuse one that no pointer describes."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: str) -> ForeignArray:
        """Allocate as the caller's framework does, for use on `stream`."""

    def guard(self) -> AbstractContextManager[Any]:
        """Make `device` the current one for the length of a block."""
        return contextlib.nullcontext()

    def cast_call(self, argument: str, dtype: str) -> str:
        """Name the call that converts an array, for a message."""
        return f"{argument}.astype({dtype})"

    def compact_call(self, argument: str) -> str:
        """Name the call that makes an array C-contiguous, for a message."""
        return f"{argument}.copy()"

    def checked(
        self, argument: str, value: ForeignArray, dtype: str, ndim: int | tuple[int, ...]
    ) -> ArrayTuple:
        """Check an array and describe it for a binding."""
        found = self.layout(argument, value)
        allowed = (ndim,) if isinstance(ndim, int) else ndim
        if found.dtype != dtype:
            fix = f"call {self.cast_call(argument, dtype)}"
            raise InputError(argument, f"dtype {dtype}; {fix}", f"dtype {found.dtype}")
        if len(found.shape) not in allowed:
            shapes = " or ".join(f"{n}-d" for n in allowed)
            raise InputError(argument, f"a {shapes} array", f"shape {found.shape}")
        if found.strides is not None:
            fix = f"call {self.compact_call(argument)}"
            raise InputError(argument, f"a C-contiguous array; {fix}", f"strides {found.strides}")
        return found.pointer, found.shape, dtype, self.device

    def view(self, value: ForeignArray) -> ArrayTuple:
        """Describe for a binding an array that `empty` gave."""
        found = self.layout("output", value)
        return found.pointer, found.shape, found.dtype, self.device


class _TorchArrays(Framework):
    """torch CUDA tensors, by raw pointer."""

    def __init__(self, tensor: ForeignArray) -> None:
        self.torch = sys.modules["torch"]
        device = int(tensor.device.index)
        super().__init__(device, int(self.torch.cuda.current_stream(device).cuda_stream))

    def layout(self, argument: str, value: ForeignArray) -> Layout:
        if value.requires_grad:
            expected = f"a tensor without gradient, for there is none; call {argument}.detach()"
            raise InputError(argument, expected, "requires_grad=True")
        if value.layout is not self.torch.strided:
            expected = f"a dense tensor; call {argument}.to_dense()"
            raise InputError(argument, expected, f"layout {value.layout}")
        if value.is_neg():  # a view that torch negates when it reads
            expected = f"a tensor as it lies in memory; call {argument}.resolve_neg()"
            raise InputError(argument, expected, "a negated view")
        strides = None if value.is_contiguous() else str(tuple(value.stride()))
        dtype = str(value.dtype).removeprefix("torch.")
        return Layout(int(value.data_ptr()), tuple(value.shape), dtype, strides)

    def empty(self, shape: tuple[int, ...], dtype: str) -> ForeignArray:
        return self.torch.empty(
            shape, dtype=getattr(self.torch, dtype), device=f"cuda:{self.device}"
        )

    def guard(self) -> AbstractContextManager[Any]:
        guard: AbstractContextManager[Any] = self.torch.cuda.device(self.device)
        return guard

    def cast_call(self, argument: str, dtype: str) -> str:
        return f"{argument}.to(torch.{dtype})"

    def compact_call(self, argument: str) -> str:
        return f"{argument}.contiguous()"


class _CupyArrays(Framework):
    """cupy arrays, by raw pointer."""

    def __init__(self, array: ForeignArray) -> None:
        self.cupy = sys.modules["cupy"]
        self.device = int(array.device.id)
        with self.guard():
            super().__init__(self.device, int(self.cupy.cuda.get_current_stream().ptr))

    def layout(self, argument: str, value: ForeignArray) -> Layout:
        strides = None if value.flags.c_contiguous else str(value.strides)
        return Layout(int(value.data.ptr), tuple(value.shape), _shown(value.dtype.name), strides)

    def empty(self, shape: tuple[int, ...], dtype: str) -> ForeignArray:
        with self.guard():
            return self.cupy.empty(shape, dtype=_stored(dtype))

    def guard(self) -> AbstractContextManager[Any]:
        guard: AbstractContextManager[Any] = self.cupy.cuda.Device(self.device)
        return guard

    def cast_call(self, argument: str, dtype: str) -> str:
        return f"{argument}.astype(cupy.{_stored(dtype)})"

    def compact_call(self, argument: str) -> str:
        return f"cupy.ascontiguousarray({argument})"


class _DlpackArrays(Framework):
    """Arrays of any other framework, through DLPack, with what `using` says."""

    def __init__(self, argument: str, array: ForeignArray) -> None:
        chosen = _chosen.get()
        if chosen is None:
            expected = (
                f"a torch tensor or a cupy array; call cupy.from_dlpack({argument}), or say the "
                "stream and the allocator: with epibias.device.using(stream=…, empty=…)"
            )
            raise InputError(argument, expected, kind_of(array))
        self.stream, self.allocator = chosen
        super().__init__(int(array.__dlpack_device__()[1]), self.stream)

    def layout(self, argument: str, value: ForeignArray) -> Layout:
        found = self._described(argument, value)
        strides = None if _is_contiguous(found) else str(found.strides)
        return Layout(found.pointer, found.shape, found.dtype, strides)

    def empty(self, shape: tuple[int, ...], dtype: str) -> ForeignArray:
        array = self.allocator(shape, dtype)
        found = self._described("empty", array)
        place = (found.device_type in ON_CUDA, found.device, found.shape, found.dtype)
        if place != (True, self.device, shape, dtype) or not _is_contiguous(found):
            expected = f"a C-contiguous {dtype} array of shape {shape} on cuda:{self.device}"
            raise InputError("empty", expected, f"{kind_of(array)}, {found.dtype} {found.shape}")
        if found.read_only:
            raise InputError("empty", "an array that may be written to", "one that is read-only")
        return array

    def _described(self, argument: str, value: ForeignArray) -> dlpack.Described:
        try:
            return dlpack.described(dlpack.capsule_of(value, self.stream))
        except (AttributeError, BufferError, RuntimeError, ValueError) as error:
            expected = "an array that speaks DLPack"
            raise InputError(argument, expected, f"{type(value).__name__}: {error}") from None


class _NumpyArrays(Framework):
    """numpy arrays, for the emulated kernels; the checks are those of the CPU."""

    emulated = True

    def __init__(self) -> None:
        super().__init__(device=0, stream=0)

    def layout(self, argument: str, value: ForeignArray) -> Layout:
        pointer = value.ctypes.data if value.size else 0  # as torch has it; no address is aligned
        return Layout(pointer, value.shape, _shown(value.dtype.name), None)

    def checked(
        self, argument: str, value: ForeignArray, dtype: str, ndim: int | tuple[int, ...]
    ) -> ArrayTuple:
        kind = np.dtype(_stored(dtype)).type
        return self.view(_validate.array(argument, value, dtype=kind, ndim=ndim))

    def empty(self, shape: tuple[int, ...], dtype: str) -> ForeignArray:
        stored = np.dtype(_stored(dtype))
        n_bytes = math.prod(shape) * stored.itemsize
        memory = np.full(n_bytes + ALIGNMENT, POISON, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        return memory[start : start + n_bytes].view(stored).reshape(shape)


_chosen: ContextVar[tuple[int, Allocator] | None] = ContextVar("chosen", default=None)


@contextmanager
def using(*, stream: int, empty: Allocator) -> Iterator[None]:
    """Say the stream and the allocator for arrays that are neither torch's nor cupy's.

    Parameters
    ----------
    stream : int
        Handle of the CUDA stream on which the arrays are made and used; 0 is the default stream.
    empty : callable
        Called with a shape and a dtype by numpy's name ("float32"); gives an array on the device
        of the arguments, C-contiguous, that speaks DLPack and may be written to, at a multiple of
        256 bytes, as CUDA's allocators give it. Workspace is let go while kernels still use it:
        memory that comes back must serve nothing but what follows on this stream.

    Examples
    --------
    >>> from epibias import device
    >>> with device.using(stream=0, empty=lambda shape, dtype: ...):
    ...     pass  # kernels.cosine_topk(queries, passages, k=20)
    """
    handle = _validate.integer("stream", stream, low=0)
    if not callable(empty):
        raise InputError("empty", "a function of a shape and a dtype", type(empty).__name__)
    before = _chosen.set((handle, empty))
    try:
        yield
    finally:
        _chosen.reset(before)


def framework_of(argument: str, value: ForeignArray) -> Framework:
    """Give the framework of an array that `is_on_device`, or of a numpy array under emulation."""
    framework = owner(value)
    if framework == "torch":
        return _TorchArrays(value)
    if framework == "cupy":
        return _CupyArrays(value)
    if isinstance(value, np.ndarray):
        return _NumpyArrays()
    return _DlpackArrays(argument, value)


def is_emulated(value: object) -> bool:
    """Tell whether a numpy array goes to the emulated kernels."""
    return status.emulation.on and isinstance(value, np.ndarray)


# numpy and cupy have no bfloat16: its bits are held as uint16, which is used for nothing else.
def _stored(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype


def _shown(dtype: str) -> str:
    return "bfloat16" if dtype == "uint16" else dtype


def _is_contiguous(found: dlpack.Described) -> bool:
    if found.strides is None or 0 in found.shape:
        return True
    expected = 1
    for size, stride in zip(reversed(found.shape), reversed(found.strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True
