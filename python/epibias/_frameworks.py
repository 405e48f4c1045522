"""Of which framework an array is and where it lies, by what it says of itself.

torch, cupy and others are never imported here: an array of theirs is known by its class.
"""

from __future__ import annotations

import numpy as np

# Device types of DLPack.
CUDA = 2
CUDA_MANAGED = 13
ON_CUDA = (CUDA, CUDA_MANAGED)


def owner(value: object) -> str:
    """Name the framework, torch or cupy, of which a value's class is or is derived, or ""."""
    for base in type(value).__mro__:
        top = base.__module__.partition(".")[0]
        if top in ("torch", "cupy"):
            return top
    return ""


def is_on_device(value: object) -> bool:
    """Tell whether a value is an array on a CUDA device."""
    if isinstance(value, np.ndarray):
        return False
    framework = owner(value)
    if framework == "torch":
        return bool(getattr(value, "is_cuda", False))
    return framework == "cupy" or _dlpack_device(value)[0] in ON_CUDA


def kind_of(value: object) -> str:
    """Say what an array is and where it lies: "a torch tensor on cuda:0"; of others the type."""
    if isinstance(value, np.ndarray):
        return "a numpy array"
    framework = owner(value)
    if framework == "torch" and hasattr(value, "device"):
        device = str(value.device)
        return f"a torch tensor on {'the CPU' if device == 'cpu' else device}"
    if framework == "cupy" and hasattr(value, "device"):
        return f"a cupy array on cuda:{value.device.id}"
    name = type(value).__name__
    device_type, number = _dlpack_device(value)
    if device_type in ON_CUDA:
        return f"a {type(value).__module__.partition('.')[0]} {name} on cuda:{number}"
    return name


def to_cpu_call(value: object) -> str:
    """Say how such an array becomes a numpy array; "" where there is nothing to say."""
    framework = owner(value)
    if framework == "torch" and hasattr(value, "device"):
        return "call .numpy()" if str(value.device) == "cpu" else "call .cpu().numpy()"
    if framework == "cupy" and hasattr(value, "device"):
        return "call .get()"
    return "copy it to the CPU" if is_on_device(value) else ""


def _dlpack_device(value: object) -> tuple[int, int]:
    ask = getattr(type(value), "__dlpack_device__", None)
    if ask is None:
        return 0, 0
    device_type, number = ask(value)
    return int(device_type), int(number)
