"""cosine_topk for arrays on a device: what `epibias.kernels.cosine_topk` calls for them.

Indices and similarities are the CPU's, to the bit, whatever is scanned: the passages themselves
(as tf32 on tensor cores), or codes of 16 or 8 bits that `prepare_passages` makes once. Passages
that the device does not hold stream through it: `cosine_topk_streamed`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.device.arrays import ArrayTuple, ForeignArray
from epibias.device.call import DeviceCall
from epibias.device.faults import Fault, unit_rows
from epibias.errors import InputError

STORAGES = ("float32", "bf16", "int8")
# tensor_cores, sample_rows, capacity of survivors, round_growth: zeros choose (cosine_topk.hpp).
Options = tuple[bool, int, int, int]
DEFAULT_OPTIONS: Options = (True, 0, 0, 0)

_PASSAGES = 1  # argument code


def _bad_norm(fault: Fault) -> InputError:
    got = f"{fault.value:f} in row {fault.row}"
    return InputError("inverse_norms", "positive finite numbers", got)


# By argument code of the kernels: CosineArgument.
FAULTS = (unit_rows("queries"), unit_rows("passages"), _bad_norm)


class PassageCodes(NamedTuple):
    """Codes of passages on a device, from `prepare_passages`.

    Attributes
    ----------
    storage : str
        "bf16" or "int8".
    codes : uint8 [n_passages, row_bytes]
    scales, residuals : float32 [n_passages]
        A unit row is about scale * codes; residuals are what the codes miss of it, measured.
    """

    storage: str
    codes: ForeignArray
    scales: ForeignArray
    residuals: ForeignArray

    def views(self, call: DeviceCall) -> tuple[ArrayTuple, ArrayTuple, ArrayTuple]:
        """Check the arrays and describe them for the binding."""
        return (
            call.array("codes", self.codes, "uint8", 2),
            call.array("scales", self.scales, "float32", 1),
            call.array("residuals", self.residuals, "float32", 1),
        )


def prepare_passages(
    passages: ForeignArray, inverse_norms: ForeignArray, storage: str
) -> PassageCodes:
    """Make codes of passages on a device, to be scanned instead of the passages.

    Parameters
    ----------
    passages : float32 [n_passages, dim]
    inverse_norms : float64 [n_passages]
        From `epibias.kernels.inverse_norms(passages)`.
    storage : {"bf16", "int8"}
        Half or a quarter of the bytes of the passages; int8 takes at most 65,536 columns.

    Returns
    -------
    PassageCodes
        In the framework and on the device of `passages`.

    Raises
    ------
    InputError
        Arrays of another dtype, shape or place; another storage.

    Examples
    --------
    >>> rows = np.eye(3, dtype=np.float32)
    >>> prepare_passages(rows, np.ones(3), "int8")
    Traceback (most recent call last):
        ...
    epibias.errors.InputError: passages: expected an array on a CUDA device, got a numpy array
    """
    _validate.choice("storage", storage, STORAGES[1:])
    call = DeviceCall.of(passages=passages, inverse_norms=inverse_norms)
    rows = call.array("passages", passages, "float32", 2)
    norms = call.array("inverse_norms", inverse_norms, "float64", 1)
    _check_norms(norms, rows[1][0])
    with call.guard():
        prepared = _empty_codes(call, rows, storage)
        call.module.prepare_passages(rows, norms, storage, prepared.views(call), call.stream)
    return prepared


def cosine_topk(
    queries: ForeignArray,
    passages: ForeignArray,
    k: int,
    *,
    inverse_norms: ForeignArray | None = None,
    tile_rows: int = 0,
    storage: str = "float32",
    codes: PassageCodes | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> tuple[ForeignArray, ForeignArray, ForeignArray]:
    """Return the `k` passages most similar to each query, exactly, on the device of the arrays.

    Parameters
    ----------
    queries, passages : float32 [n_queries, dim], float32 [n_passages, dim]
        Fewer than 2³² passages.
    k : int
        At most `n_passages`, and at most 4,096.
    inverse_norms : float64 [n_passages], optional
        From `epibias.kernels.inverse_norms(passages)`. Without them the passages are read once
        more.
    tile_rows : int
        For the CPU; checked, and of no meaning here.
    storage : {"float32", "bf16", "int8"}
        What is scanned; codes are made for this call where `codes` are not given.
    codes : PassageCodes, optional
        Of these passages; they decide the storage.
    options : tuple
        For tests: tensor_cores, sample_rows, capacity, round_growth.

    Returns
    -------
    indices, similarities : [n_queries, k] of int64, float32
        −1 and NaN for queries with a fault, or everywhere if a passage has one.
    n_rescored : int64 [1]
        Pairs scored in float64 after the scan; an int where kernels are emulated.

    Raises
    ------
    InputError
        Wrong dtype, shape, layout or place; `k` out of range. Zero and non-finite rows raise here
        where kernels are emulated, and in `epibias.device.check` otherwise.

    Examples
    --------
    >>> rows = np.eye(3, dtype=np.float32)
    >>> cosine_topk(rows, rows, 2, storage="int8")
    Traceback (most recent call last):
        ...
    epibias.errors.InputError: queries: expected an array on a CUDA device, got a numpy array
    """
    k = _validate.integer("k", k, low=0)
    _validate.integer("tile_rows", tile_rows, low=0)
    _validate.choice("storage", storage, STORAGES)
    call = DeviceCall.of(queries=queries, passages=passages, inverse_norms=inverse_norms)
    query_view = call.array("queries", queries, "float32", 2)
    rows = call.array("passages", passages, "float32", 2)
    norms = call.array_or_none("inverse_norms", inverse_norms, "float64", 1)
    _check_sizes(query_view[1], rows[1], k)
    outputs = _Outputs(call, query_view[1][0], k)
    fault = call.fault()
    with call.guard():
        if norms is None:
            pointer, _, _, device = call.workspace(8 * rows[1][0])
            norms = (pointer, rows[1][:1], "float64", device)
            call.module.inverse_norms(rows, norms, fault, call.stream, _PASSAGES)
        _check_norms(norms, rows[1][0])
        if codes is None and storage != "float32":
            codes = _empty_codes(call, rows, storage)
            call.module.prepare_passages(rows, norms, storage, codes.views(call), call.stream)
        used = codes.storage if codes else storage
        n_bytes = call.module.cosine_topk_workspace_bytes(*query_view[1], k, used, options)
        call.module.cosine_topk(
            query_view,
            rows,
            norms,
            used,
            codes.views(call) if codes else None,
            k,
            *outputs.views,
            call.workspace(n_bytes),
            fault,
            call.stream,
            options,
        )
    call.finish("cosine_topk", FAULTS)
    return outputs.results()


def cosine_topk_streamed(
    queries: ForeignArray,
    passages: Float32Array,
    k: int,
    *,
    tile_rows: int = 0,
    options: Options = DEFAULT_OPTIONS,
) -> tuple[ForeignArray, ForeignArray, ForeignArray]:
    """Return what `cosine_topk` does, for passages in host memory that the device need not hold.

    The passages pass through the device in tiles, from two pinned buffers, while the tile before
    is searched; the call returns when the last tile has arrived.

    Parameters
    ----------
    queries : float32 [n_queries, dim]
        On the device.
    passages : numpy float32 [n_passages, dim]
        Memory-mapped arrays are welcome. Fewer than 2³².
    k : int
        At most `n_passages`, and at most 4,096.
    tile_rows : int
        Passages on the device at a time, twice; 0 takes 64 MiB.
    options : tuple
        For tests: tensor_cores, sample_rows, capacity, round_growth.

    Returns
    -------
    indices, similarities, n_rescored
        As `cosine_topk` returns them, where the queries are.

    Raises
    ------
    InputError
        As `cosine_topk`.

    Examples
    --------
    >>> rows = np.eye(3, dtype=np.float32)  # or np.load("embeddings.npy", mmap_mode="r")
    >>> cosine_topk_streamed(rows, rows, 2)
    Traceback (most recent call last):
        ...
    epibias.errors.InputError: queries: expected an array on a CUDA device, got a numpy array
    """
    k = _validate.integer("k", k, low=0)
    tile_rows = _validate.integer("tile_rows", tile_rows, low=0)
    rows = _validate.array("passages", passages, dtype=np.float32, ndim=2)
    call = DeviceCall.of(queries=queries)
    query_view = call.array("queries", queries, "float32", 2)
    n_passages, dim = rows.shape
    _check_sizes(query_view[1], rows.shape, k)
    outputs = _Outputs(call, query_view[1][0], k)
    fault = call.fault()
    with call.guard():
        tile = max(1, min(tile_rows or call.module.streamed_tile_rows(dim), n_passages))
        size = query_view[1]
        n_bytes = call.module.cosine_topk_streamed_workspace_bytes(*size, k, tile, options)
        call.module.cosine_topk_streamed(
            query_view,
            (rows.ctypes.data, n_passages, dim),
            k,
            tile,
            *outputs.views,
            call.workspace(n_bytes),
            fault,
            call.stream,
            options,
        )
    call.finish("cosine_topk_streamed", FAULTS)
    return outputs.results()


class _Outputs:
    """What a search writes: indices, similarities, and how many pairs were re-scored."""

    def __init__(self, call: DeviceCall, n_queries: int, k: int) -> None:
        self._emulated = call.emulated
        self._arrays = (
            call.empty((n_queries, k), "int64"),
            call.empty((n_queries, k), "float32"),
            call.empty((1,), "int64"),
        )
        self.views = tuple(call.view(array) for array in self._arrays)

    def results(self) -> tuple[ForeignArray, ForeignArray, ForeignArray]:
        """Give the arrays; the count as an int where that costs no waiting."""
        indices, similarities, count = self._arrays
        return indices, similarities, int(count[0]) if self._emulated else count


def _check_sizes(queries: tuple[int, ...], passages: tuple[int, ...], k: int) -> None:
    n_passages, dim = passages
    if queries[1] != dim or dim < 1:
        expected = f"rows of dim {dim}, as the passages have, and at least 1"
        raise InputError("queries", expected, f"dim {queries[1]}")
    if k == n_passages == 0 or 1 <= k <= n_passages:
        return
    allowed = f"1 to {n_passages} (the number of passages)"
    raise InputError("k", allowed if n_passages else "0, as there are no passages", str(k))


def _check_norms(norms: ArrayTuple, n_passages: int) -> None:
    if norms[1][0] != n_passages:
        expected = f"{n_passages} numbers, one per passage"
        raise InputError("inverse_norms", expected, str(norms[1][0]))


def _empty_codes(call: DeviceCall, rows: ArrayTuple, storage: str) -> PassageCodes:
    n_passages, dim = rows[1]
    n_bytes = call.module.code_row_bytes(dim, storage)
    return PassageCodes(
        storage,
        call.empty((n_passages, n_bytes), "uint8"),
        call.empty((n_passages,), "float32"),
        call.empty((n_passages,), "float32"),
    )
