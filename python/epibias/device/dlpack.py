"""Read where an array lies from its DLPack capsule, without taking the array over.

Layouts are those of DLPack's stable interface, version 1 and the one before versions
(https://dmlc.github.io/dlpack/latest/c_api.html). A capsule is borrowed: it keeps its name, so
that it frees itself, and the array must be held for as long as the pointer is used.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

LEGACY_STREAM = 1  # DLPack's word for stream 0, which it does not allow as a number

_VERSIONED, _UNVERSIONED = b"dltensor_versioned", b"dltensor"
_READ_ONLY = 1
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


class Described(NamedTuple):
    """Where an array lies: strides in elements, None where C-contiguous by definition."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    device_type: int
    device: int
    read_only: bool


def capsule_of(array: object, stream: int) -> object:
    """Ask for a capsule whose content may be used on `stream`, a handle, without more waiting."""
    export = array.__dlpack__  # type: ignore[attr-defined]
    ordered_on = stream or LEGACY_STREAM
    try:
        return export(stream=ordered_on, max_version=(1, 0))
    except TypeError:  # an exporter from before versions
        return export(stream=ordered_on)


def described(capsule: object) -> Described:
    """Read a capsule; ValueError where it is none that can be read."""
    is_valid, pointer_of = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    is_valid.argtypes = pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
    pointer_of.restype = ctypes.c_void_p
    read_only = False
    if is_valid(capsule, _VERSIONED):
        versioned = _Versioned.from_address(pointer_of(capsule, _VERSIONED))
        if versioned.major != 1:
            raise ValueError(f"DLPack of version {versioned.major}; 1 and older ones can be read")
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    elif is_valid(capsule, _UNVERSIONED):
        tensor = _Tensor.from_address(pointer_of(capsule, _UNVERSIONED))
    else:
        raise ValueError("no DLPack capsule, or one that was used already")
    kind = _KINDS.get(tensor.code, f"kind{tensor.code}_")
    lanes = f"x{tensor.lanes}" if tensor.lanes != 1 else ""
    return Described(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[: tensor.ndim]),
        tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None,
        f"{kind}{tensor.bits}{lanes}",
        tensor.device_type,
        tensor.device_id,
        read_only,
    )
