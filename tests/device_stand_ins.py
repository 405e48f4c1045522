"""Stand-ins for torch CUDA tensors, cupy arrays and others' DLPack arrays, on memory of the CPU.

They have the attributes that the real ones have and no others, write down what is asked of them,
and fail the test that makes them wait for a device. `install` puts them in `sys.modules`, where the
dispatch looks for the module of an array that it was given.
"""

from __future__ import annotations

import ctypes
import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

STREAM = 0x5EED  # handle of the caller's current stream


class Module:
    """A compiled module that writes down what is cleared, and has the faults it is given."""

    def __init__(self):
        self.cleared, self.records = [], {}

    def clear_fault(self, view, stream):
        self.cleared.append((view, stream))

    def read_fault(self, view):
        return self.records.get(view[0], (-1, 0))


class EmulatedDevice:
    """The emulated module under the arrays of stand-ins: all their devices are its one."""

    def __init__(self, module):
        self.module, self.calls = module, []

    def __getattr__(self, name):
        found = getattr(self.module, name)
        if not callable(found):
            return found

        def call(*arguments, **keywords):
            self.calls.append((name, arguments))
            return found(
                *(_on_device_0(value) for value in arguments),
                **{key: _on_device_0(value) for key, value in keywords.items()},
            )

        return call


def _on_device_0(value):
    if not isinstance(value, tuple):
        return value
    if len(value) == 4 and isinstance(value[2], str):
        return (*value[:3], 0)
    return tuple(_on_device_0(part) for part in value)


def _aligned(shape, dtype):
    """Memory at a multiple of 256 bytes, as CUDA's allocators give it."""
    memory = np.zeros(math.prod(shape) * np.dtype(dtype).itemsize + 256, np.uint8)
    start = -memory.ctypes.data % 256
    return memory[start : memory.size - 256 + start].view(dtype).reshape(shape)


class Log(list):
    """What was asked of a framework, in order."""

    def of(self, name):
        return [entry[1:] for entry in self if entry[0] == name]


def _never(*args, **keywords):
    raise AssertionError("a call waited for the device")


class _Guard:
    """Device guard: the device is current inside, the one of before after it."""

    def __init__(self, framework, device):
        self.framework, self.device = framework, int(getattr(device, "index", device))

    def __enter__(self):
        self.before = self.framework.current_device
        self.framework.current_device = self.device
        self.framework.log.append(("enter", self.device))
        return self

    def __exit__(self, *reason):
        self.framework.current_device = self.before
        self.framework.log.append(("exit", self.device))


class FakeTorch(ModuleType):
    """Module torch: `tensor(array, device)` makes a CUDA tensor."""

    def __init__(self):
        super().__init__("torch")
        self.log, self.current_device = Log(), 0
        self.strided, self.sparse_coo = "torch.strided", "torch.sparse_coo"
        for name in ("float32", "float64", "float16", "int64", "int32", "uint8", "int8"):
            setattr(self, name, f"torch.{name}")
        torch = self

        class Tensor:
            def __init__(self, memory, device=0, kind="cuda"):
                self._memory, self.is_cuda = memory, kind == "cuda"
                self.device = _Device(kind, device)
                self.requires_grad, self.layout, self.negated = False, torch.strided, False

            def __getitem__(self, rows):  # a view, as torch gives
                return Tensor(self._memory[rows], self.device.index, self.device.type)

            shape = property(lambda self: self._memory.shape)
            dtype = property(lambda self: f"torch.{self._memory.dtype.name}")

            def data_ptr(self):
                return self._memory.ctypes.data if self._memory.size else 0  # as torch

            def is_contiguous(self):
                return self._memory.flags.c_contiguous

            def is_neg(self):
                return self.negated

            def stride(self):
                return tuple(n // self._memory.itemsize for n in self._memory.strides)

            cpu = item = tolist = __array__ = __float__ = __bool__ = __dlpack__ = _never

        Tensor.__module__ = "torch"
        self.Tensor = Tensor

        def current_stream(device):
            self.log.append(("current_stream", device))
            return SimpleNamespace(cuda_stream=STREAM + device)

        self.cuda = SimpleNamespace(
            current_stream=current_stream,
            device=lambda device: _Guard(self, device),
            synchronize=_never,
        )

    def tensor(self, array, device=0, kind="cuda"):
        return self.Tensor(np.array(array), device, kind)

    def empty(self, shape, *, dtype, device):
        self.log.append(("empty", tuple(shape), dtype, device))
        memory = _aligned(shape, dtype.removeprefix("torch."))
        return self.Tensor(memory, int(str(device).removeprefix("cuda:")))

    full = ones = zeros = _never


class _Device:
    def __init__(self, kind, index):
        self.type, self.index = kind, index if kind == "cuda" else None

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    __repr__ = __str__


class FakeCupy(ModuleType):
    """Module cupy: `asarray(array, device)` makes an array on a device."""

    def __init__(self):
        super().__init__("cupy")
        self.log, self.current_device = Log(), 0
        cupy = self

        class Device(_Guard):
            def __init__(self, device):
                super().__init__(cupy, device)
                self.id, self.synchronize = self.device, _never

        class ndarray:
            def __getitem__(self, rows):
                return ndarray(self._memory[rows], self.device.id)

            def __init__(self, memory, device=0):
                self._memory, self.device = memory, Device(device)
                self.data = SimpleNamespace(ptr=memory.ctypes.data if memory.size else 0)

            shape = property(lambda self: self._memory.shape)
            dtype = property(lambda self: self._memory.dtype)
            strides = property(lambda self: self._memory.strides)
            flags = property(lambda self: self._memory.flags)

            @property
            def __cuda_array_interface__(self):
                raise AssertionError("not needed: the pointer is at hand")

            get = item = tolist = __array__ = __float__ = __bool__ = __dlpack__ = _never

        ndarray.__module__ = "cupy"
        self.ndarray = ndarray

        def get_current_stream():
            self.log.append(("current_stream", self.current_device))
            return SimpleNamespace(ptr=STREAM + self.current_device, synchronize=_never)

        self.cuda = SimpleNamespace(Device=Device, get_current_stream=get_current_stream)

    def asarray(self, array, device=0):
        return self.ndarray(np.array(array), device)

    def empty(self, shape, dtype):
        self.log.append(("empty", tuple(shape), dtype, f"cuda:{self.current_device}"))
        return self.ndarray(_aligned(shape, dtype), self.current_device)


class _Managed(ctypes.Structure):
    """DLManagedTensor as the standard prints it, written down a second time on purpose."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        *_Managed._fields_[:10],
    )


class OtherArray:
    """An array of a third framework that says it is on a device and speaks DLPack."""

    def __init__(self, array, device=0, *, versioned=True, read_only=False, offset=0, major=1):
        self._memory, self._place = array, (2, device)
        self._versioned, self._read_only, self._offset = versioned, read_only, offset
        self._major = major
        self.streams = []

    def __dlpack_device__(self):
        return self._place

    def __dlpack__(self, **keywords):
        if not self._versioned and "max_version" in keywords:
            raise TypeError("unexpected keyword 'max_version'")
        self.streams.append(keywords["stream"])
        memory = self._memory
        self._shape = (ctypes.c_int64 * memory.ndim)(*memory.shape)
        strides = [n // memory.itemsize for n in memory.strides]
        self._strides = (ctypes.c_int64 * memory.ndim)(*strides)
        self._capsule_memory = managed = (_ManagedVersioned if self._versioned else _Managed)()
        if self._versioned:
            managed.version[0], managed.flags = self._major, int(self._read_only)
        managed.data, managed.byte_offset = memory.ctypes.data - self._offset, self._offset
        managed.device_type, managed.device_id = self._place
        managed.ndim, managed.lanes = memory.ndim, 1
        managed.code = {"i": 0, "u": 1, "f": 2}[memory.dtype.kind]
        managed.bits = 8 * memory.itemsize
        managed.shape, managed.strides = (
            ctypes.addressof(self._shape),
            ctypes.addressof(self._strides),
        )
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = (
            ctypes.py_object,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        )
        name = b"dltensor_versioned" if self._versioned else b"dltensor"
        return new(ctypes.addressof(managed), name, None)


OtherArray.__module__ = "thirdparty.arrays"


def install(monkeypatch):
    """Put both stand-ins where their arrays are looked up; give them back."""
    torch, cupy = FakeTorch(), FakeCupy()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return torch, cupy


def rows(n=3, dim=4, dtype=np.float32):
    return np.arange(n * dim, dtype=dtype).reshape(n, dim)
