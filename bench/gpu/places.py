"""Where a check runs: on the device through torch or cupy, or in the emulation through numpy."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

POISON = 0xA5  # fills every output and workspace before a kernel gets it


class Place(ABC):
    """Arrays of one framework: `up` takes numpy's there, `down` brings them back."""

    name = ""

    @abstractmethod
    def up(self, array: np.ndarray | None) -> Any:
        """Give the array of the framework with these values."""

    def down(self, value: Any) -> Any:
        """Give numpy arrays for whatever a stage returned; tuples and dicts part by part."""
        if isinstance(value, dict):
            return {name: self.down(part) for name, part in value.items()}
        if isinstance(value, tuple):
            return tuple(self.down(part) for part in value)
        if value is None or isinstance(value, np.ndarray | int | float):
            return value if value is None else np.asarray(value)
        return self._to_numpy(value)

    def for_peer(self, value: Any) -> Any:
        """Give what a peer takes for an array of this place: the same, where it shares them."""
        return value

    def wait(self) -> None:  # noqa: B027 - on the CPU there is nothing to wait for
        """Wait for the device, and raise what kernels found in their data."""

    def _to_numpy(self, value: Any) -> np.ndarray:
        return np.asarray(value)

    @abstractmethod
    def active(self) -> contextlib.AbstractContextManager[Any]:
        """Send the calls inside here, with poisoned outputs."""


class Emulation(Place):
    """The emulated kernels; their outputs are always poisoned (`epibias.device.arrays`)."""

    name = "emulation"

    def up(self, array: np.ndarray | None) -> Any:
        return array

    def active(self) -> contextlib.AbstractContextManager[Any]:
        from epibias.device import status

        return status.emulated()


class Rehearsal(Emulation):
    """The emulation, with torch on the CPU in the place of torch on a device as the peer."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def for_peer(self, value: Any) -> Any:
        return self.torch.from_numpy(value)

    def _to_numpy(self, value: Any) -> np.ndarray:
        return np.asarray(value.numpy())


class Cpu(Emulation):
    """The CPU's kernels, which are tested against the oracle by themselves."""

    name = "cpu"

    def active(self) -> contextlib.AbstractContextManager[Any]:
        from epibias.device import status

        return status.emulated(False)


class Torch(Place):
    """torch CUDA tensors."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self.module = torch

    def up(self, array: np.ndarray | None) -> Any:
        return None if array is None else self.module.from_numpy(array.copy()).cuda()

    def _to_numpy(self, value: Any) -> np.ndarray:
        return np.asarray(value.cpu().numpy())

    def wait(self) -> None:
        from epibias import device

        self.module.cuda.synchronize()
        device.check()

    def poison(self, array: Any) -> None:
        """Fill an array's bytes."""
        array.view(-1).view(self.module.uint8).fill_(POISON)

    def active(self) -> contextlib.AbstractContextManager[Any]:
        return _poisoned("_TorchArrays", self)


class Cupy(Place):
    """cupy arrays."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self.module = cupy

    def up(self, array: np.ndarray | None) -> Any:
        return None if array is None else self.module.asarray(array)

    def _to_numpy(self, value: Any) -> np.ndarray:
        return np.asarray(value.get())

    def wait(self) -> None:
        from epibias import device

        self.module.cuda.Device().synchronize()
        device.check()

    def poison(self, array: Any) -> None:
        """Fill an array's bytes."""
        array.reshape(-1).view("uint8").fill(POISON)

    def active(self) -> contextlib.AbstractContextManager[Any]:
        return _poisoned("_CupyArrays", self)


@contextmanager
def _poisoned(framework: str, place: Any) -> Iterator[None]:
    """Let the framework's allocations come poisoned."""
    from epibias.device import arrays

    owner = getattr(arrays, framework)
    plain = owner.empty

    def empty(self: Any, shape: tuple[int, ...], dtype: str) -> Any:
        array = plain(self, shape, dtype)
        if 0 not in shape:
            place.poison(array)
        return array

    owner.empty = empty
    try:
        yield
    finally:
        owner.empty = plain


def on_device() -> list[Place]:
    """Give the frameworks that are installed and see a device, torch first."""
    places: list[Place] = []
    for kind in (Torch, Cupy):
        try:
            place = kind()
            place.down(place.up(np.ones(1, np.float32)))
        except Exception as error:  # what they raise without a device is their own affair
            print(f"not at {kind.name}: {type(error).__name__}: {error}")
        else:
            places.append(place)
    return places
