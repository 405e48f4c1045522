"""`mmr` on a device: the wrapper of its kernel, called by `epibias.kernels`."""

from __future__ import annotations

from epibias.device.arrays import ForeignArray
from epibias.device.call import DeviceCall
from epibias.device.faults import Explanation, Fault
from epibias.errors import InputError

# By number of `MmrFault` (rerank.hpp).
_SIMILARITIES = ("nan", "inf", "-inf")
_ROWS = ("NaN or Inf in row", "a zero row")


def mmr(
    similarities: ForeignArray, embeddings: ForeignArray, k: int, relevance_weight: float
) -> ForeignArray:
    """Rerank by maximal marginal relevance on the device where the candidates lie.

    Parameters
    ----------
    similarities, embeddings : float32 [n_queries, n], float32 [n_queries, n, dim]
    k : int
        At most `n`.
    relevance_weight : float
        From 0 to 1.

    Returns
    -------
    int64 [n_queries, k]
        Positions, equal to the CPU's; -1 in all places of a query at fault.

    Raises
    ------
    InputError
        Wrong dtype, shape, layout or option; under emulation also what `device.check` raises for
        arrays on a device: a similarity that is not finite, a zero or non-finite row.

    Examples
    --------
    Called through `epibias.kernels.mmr`.
    """
    call = DeviceCall.of(similarities=similarities, embeddings=embeddings)
    similarity_view = call.array("similarities", similarities, "float32", 2)
    embedding_view = call.array("embeddings", embeddings, "float32", 3)
    n_queries, n = similarity_view[1]
    if embedding_view[1][:2] != (n_queries, n):
        expected = f"shape ({n_queries}, {n}, dim), as similarities"
        raise InputError("embeddings", expected, f"shape {embedding_view[1]}")
    if not 0 <= k <= n:
        raise InputError("k", f"0 to {n} (the number of candidates)", str(k))
    indices = call.empty((n_queries, k), "int64")
    n_bytes = call.module.mmr_workspace_bytes(n_queries, n)
    with call.guard():
        call.module.mmr(
            similarity_view,
            embedding_view,
            k,
            relevance_weight,
            call.view(indices),
            call.workspace(n_bytes),
            call.fault(),
            call.stream,
        )
    call.finish("mmr", (_explanation(n),))
    return indices


def _explanation(n: int) -> Explanation:
    """Explain a query at fault in the CPU's words."""

    def explain(fault: Fault) -> InputError:
        query, place = divmod(fault.row, 2 * n)
        if place < n:
            got, where = _SIMILARITIES[fault.column], f"row {query}, column {place}"
            return InputError("similarities", "finite values", got, where)
        row = f"{_ROWS[fault.column - len(_SIMILARITIES)]} {place - n}"
        return InputError("embeddings", "finite rows of non-zero norm", row, f"query {query}")

    return explain
