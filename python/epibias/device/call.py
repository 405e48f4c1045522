"""One launch: where its arrays are, on which stream it runs, and who allocates.

What the wrapper of a stage looks like:

    FAULTS = (unit_rows("queries"), unit_rows("passages"))  # by argument code of the kernel

    def cosine_topk(queries, passages, k):
        call = DeviceCall.of(queries=queries, passages=passages)
        rows = call.array("queries", queries, "float32", 2)
        corpus = call.array("passages", passages, "float32", 2)
        indices = call.empty((rows[1][0], k), "int64")          # [1] is the shape
        n_bytes = call.module.cosine_topk_workspace_bytes(rows[1], corpus[1], k)
        with call.guard():
            call.module.cosine_topk(
                rows, corpus, k, call.view(indices), call.workspace(n_bytes), call.fault(),
                call.stream,
            )
        call.finish("cosine_topk", FAULTS)
        return indices
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import numpy as np

from epibias._core_errors import core_errors
from epibias._frameworks import is_on_device, kind_of, to_cpu_call
from epibias.device import arrays, faults, status
from epibias.device.arrays import ArrayTuple, ForeignArray, Framework
from epibias.errors import InputError


class DeviceCall:
    """What a stage needs for one launch; made by `DeviceCall.of`.

    Attributes
    ----------
    module : module
        `epibias._cuda`, or `epibias._cuda_emulated` for numpy arrays under emulation.
    stream : int
        Handle of the caller's current stream.
    device : int
        Number of the CUDA device.
    emulated : bool
        Whether the launch has run when it returns.
    """

    def __init__(
        self, framework: Framework, module: ModuleType, argument: str, like: ForeignArray
    ) -> None:
        self.module, self.stream, self.device = module, framework.stream, framework.device
        self.emulated = framework.emulated
        self._framework = framework
        self._like, self._argument = like, argument
        self._kept: list[ForeignArray] = []
        self._record: ForeignArray = None

    @classmethod
    def of(cls, **given: ForeignArray) -> DeviceCall:
        """Find the framework, device and stream that the arrays have in common.

        Parameters
        ----------
        **given : arrays by name of the argument
            Those that are None are left out.

        Raises
        ------
        InputError
            Arrays of several frameworks or devices, named; no usable CUDA, with the reason; the
            emulated module asked for and missing.
        """
        present = {name: value for name, value in given.items() if value is not None}
        on_device = {name: v for name, v in present.items() if is_on_device(v)}
        candidates = on_device or {n: v for n, v in present.items() if arrays.is_emulated(v)}
        if not candidates:
            argument, value = next(iter(present.items()))
            raise InputError(argument, "an array on a CUDA device", kind_of(value))
        argument, like = next(iter(candidates.items()))
        module = _module_for(argument, like)
        call = cls(arrays.framework_of(argument, like), module, argument, like)
        for name, value in present.items():
            call._check_place(name, value)
        return call

    def array(
        self, argument: str, value: ForeignArray, dtype: str, ndim: int | tuple[int, ...]
    ) -> ArrayTuple:
        """Check an argument, C-contiguous of exactly this dtype, and describe it for the binding.

        Returns
        -------
        pointer, shape, dtype, device

        Raises
        ------
        InputError
            Another place, dtype, number of dimensions or layout, with the call that puts it right.
        """
        self._check_place(argument, value)
        return self._framework.checked(argument, value, dtype, ndim)

    def array_or_none(
        self, argument: str, value: ForeignArray, dtype: str, ndim: int | tuple[int, ...]
    ) -> ArrayTuple | None:
        """`array`, for an argument that may be left out."""
        return None if value is None else self.array(argument, value, dtype, ndim)

    def empty(self, shape: tuple[int, ...], dtype: str) -> ForeignArray:
        """Allocate an output as the caller's framework does; `view` describes it."""
        return self._framework.empty(tuple(int(size) for size in shape), dtype)

    def view(self, output: ForeignArray) -> ArrayTuple:
        """Describe an output for the binding."""
        return self._framework.view(output)

    def workspace(self, n_bytes: int) -> ArrayTuple:
        """Allocate memory that the launch alone uses, uint8 [n_bytes], aligned to 256 bytes."""
        memory = self.empty((int(n_bytes),), "uint8")
        self._kept.append(memory)
        return self.view(memory)

    def fault(self) -> ArrayTuple:
        """Allocate and clear the record in which the kernels leave a fault: int64 [2]."""
        self._record = self.empty((2,), "int64")
        view = self.view(self._record)
        if isinstance(self._record, np.ndarray):
            self._record[:] = faults.NONE
        else:
            with self.guard():
                self.module.clear_fault(view, self.stream)
        return view

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Make the device current, and what the binding refuses an `InputError`."""
        with self._framework.guard(), core_errors():
            yield

    def finish(self, stage: str, explanations: Sequence[faults.Explanation]) -> None:
        """Raise the fault that the launch met, or let its record wait for `device.check`.

        Parameters
        ----------
        stage : str
            Name of the stage, for the message of `device.check`.
        explanations : sequence of callables
            By argument code: what the CPU says of such a fault (`faults.unit_rows`, …).
        """
        record = self._record
        if record is None:
            return
        if isinstance(record, np.ndarray):
            error = faults.explained(int(record[0]), int(record[1]), explanations)
            if error is not None:
                raise error
        else:
            faults.add(self.device, record, self.view(record), stage, explanations, self.module)

    def _check_place(self, argument: str, value: ForeignArray) -> None:
        here, found = kind_of(self._like), kind_of(value)
        if here != found:
            raise InputError(argument, f"{here}, as {self._argument} is", found)


def _module_for(argument: str, value: ForeignArray) -> ModuleType:
    if isinstance(value, np.ndarray):
        return status.emulated_module()
    usable, reason = status.cuda_status()
    if not usable:
        expected = f"a numpy array; {to_cpu_call(value)}"
        found = f"{kind_of(value)}, and CUDA cannot be used here: {reason}"
        raise InputError(argument, expected, found)
    return status.cuda_module()
