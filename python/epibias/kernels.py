"""Array in, array out: the stages of the core, on the back end where the arrays live.

This module and the `kernels_…` ones beside it alone import `epibias._core`. numpy arrays run on the
CPU, torch CUDA tensors and cupy arrays on their device (`epibias.device`), never cast, copied or
moved; what a back end refuses is an `InputError`.
"""

from __future__ import annotations

import numpy as np

from epibias import _core, _validate
from epibias._dispatch import core_errors, goes_to_cuda, on_cpu, on_cpu_or_none
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.device import stages as on_device
from epibias.device.status import cuda_status, emulation_status
from epibias.kernels_sweep import printed_sweep, threshold_sweep

__all__ = [
    "backend_info",
    "cosine_topk",
    "dpp_greedy",
    "inverse_norms",
    "mmr",
    "polarization_axis",
    "polarization_scores",
    "printed_sweep",
    "simd_level",
    "threshold_sweep",
]


def inverse_norms(rows: Float32Array, argument: str = "rows") -> Float64Array:
    """Inverse Euclidean norm of every row, float64 [n_rows], summed in float64.

    Parameters
    ----------
    rows : float32 [n_rows, dim]
    argument : str
        What an error calls `rows`.

    Raises
    ------
    InputError
        A row that is zero or not finite; the message names it.

    Examples
    --------
    >>> inverse_norms(np.array([[3, 4], [0, 2]], np.float32))
    array([0.2, 0.5])
    """
    if goes_to_cuda(rows):
        return on_device.inverse_norms(rows, argument)
    with core_errors():
        return _core.inverse_norms(on_cpu(argument, rows, np.float32, 2), argument)


def cosine_topk(
    queries: Float32Array,
    passages: Float32Array,
    k: int,
    *,
    inverse_norms: Float64Array | None = None,
    tile_rows: int = 0,
) -> tuple[Int64Array, Float32Array, int]:
    """Return the `k` passages most similar to each query, exactly.

    Similarity is the float32 of the cosine summed in float64 in one fixed order; rank is similarity
    descending, then index ascending. Tiles, threads and SIMD levels do not change a bit of it.

    Parameters
    ----------
    queries, passages : float32 [n_queries, dim], float32 [n_passages, dim]
        Memory-mapped arrays are welcome.
    k : int
        At most `n_passages`.
    inverse_norms : float64 [n_passages], optional
        From `inverse_norms(passages)`, to compute them once for many searches.
    tile_rows : int
        Passages in a tile; 0 chooses.

    Returns
    -------
    indices, similarities : [n_queries, k] of int64, float32
    n_rescored : int
        Pairs whose similarity was computed in float64 after the float32 scan; an int64 array [1]
        for arrays on a device, where to read it would mean to wait.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout, `k` above `n_passages`, a zero or non-finite row.

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> indices, similarities, _ = cosine_topk(passages[:1], passages, 2)
    >>> indices
    array([[0, 2]])
    """
    if goes_to_cuda(queries, passages, inverse_norms):
        return on_device.cosine_topk(
            queries, passages, k, inverse_norms=inverse_norms, tile_rows=tile_rows
        )
    queries = on_cpu("queries", queries, np.float32, 2)
    passages = on_cpu("passages", passages, np.float32, 2)
    k = _validate.integer("k", k, low=0)
    inverse_norms = on_cpu_or_none("inverse_norms", inverse_norms, np.float64, 1)
    tile_rows = _validate.integer("tile_rows", tile_rows, low=0)
    with core_errors():
        return _core.cosine_topk(queries, passages, k, inverse_norms, tile_rows)


def polarization_axis(
    anchors: Float32Array, stances: Float64Array | None = None, *, normalize: bool = True
) -> tuple[Float32Array, Float64Array, Float64Array]:
    """Leading principal axis of each topic's centred anchors, oriented by rule.

    Parameters
    ----------
    anchors : float32 [n_topics, n_anchors, dim]
    stances : float64 [n_topics, n_anchors], optional
        Signed; both signs in every topic. They orient the axis.
    normalize : bool
        Scale the anchors to unit length first.

    Returns
    -------
    axes : float32 [n_topics, dim]
    explained_variance_ratio, relative_gap : float64 [n_topics]
        λ₁ / Σλ and (λ₁ − λ₂) / λ₁.

    Raises
    ------
    InputError
        One anchor, anchors that do not differ, a zero or non-finite row, stances of one sign.

    References
    ----------
    arXiv:2512.00804, section III-A, equations 1 and 2.

    Examples
    --------
    >>> anchors = np.array([[[1, 0, 1], [1, 0, 2], [1, 0, 3]]], np.float32)
    >>> axes, explained, gap = polarization_axis(anchors)
    >>> axes.shape, bool(explained[0] > 0.99)
    ((1, 3), True)
    """
    flag = _validate.flag("normalize", normalize)
    if goes_to_cuda(anchors, stances):
        return on_device.polarization_axis(anchors, stances, normalize=flag)
    anchors = on_cpu("anchors", anchors, np.float32, 3)
    stances = on_cpu_or_none("stances", stances, np.float64, 2)
    with core_errors():
        return _core.polarization_axis(anchors, stances, flag)


def polarization_scores(
    rows: Float32Array,
    axes: Float32Array,
    indices: Int64Array | None = None,
    axis_of_query: Int64Array | None = None,
    *,
    normalize: bool = True,
) -> Float32Array:
    """Projections of rows on axes; with `indices`, of the rows that each query gathers.

    Parameters
    ----------
    rows, axes : float32 [n_rows, dim], float32 [n_topics, dim]
    indices : int64 [n_queries, m], optional
        Rows to score for each query; rows that no query names are never read.
    axis_of_query : int64 [n_queries], optional
        Which axis each query uses; axis 0 if there is one.
    normalize : bool
        Scale the rows to unit length first.

    Returns
    -------
    float32 [n_topics, n_rows], or [n_queries, m] with `indices`

    Raises
    ------
    InputError
        Wrong dtype, shape or layout, an index out of range, a zero or non-finite row.

    Examples
    --------
    >>> rows = np.array([[3, 4], [0, 1]], np.float32)
    >>> polarization_scores(rows, np.array([[1, 0]], np.float32))
    array([[0.6, 0. ]], dtype=float32)
    """
    flag = _validate.flag("normalize", normalize)
    if goes_to_cuda(rows, axes, indices, axis_of_query):
        given = (rows, axes, indices, axis_of_query)
        return on_device.polarization_scores(*given, normalize=flag)
    rows = on_cpu("rows", rows, np.float32, 2)
    axes = on_cpu("axes", axes, np.float32, 2)
    indices = on_cpu_or_none("indices", indices, np.int64, 2)
    axis_of_query = on_cpu_or_none("axis_of_query", axis_of_query, np.int64, 1)
    with core_errors():
        return _core.polarization_scores(rows, axes, indices, axis_of_query, flag)


def mmr(
    similarities: Float32Array, embeddings: Float32Array, k: int, relevance_weight: float = 0.5
) -> Int64Array:
    """Rerank each query's candidates by maximal marginal relevance.

    Parameters
    ----------
    similarities, embeddings : float32 [n_queries, n], float32 [n_queries, n, dim]
    k : int
        At most `n`.
    relevance_weight : float
        λ in [0, 1]: 1 is pure relevance, 0 pure diversity.

    Returns
    -------
    int64 [n_queries, k]
        Positions among the candidates, in the order of selection; ties go to the lower position.

    Raises
    ------
    InputError
        Wrong dtype, shape, layout or option, a zero or non-finite row.

    References
    ----------
    Carbonell and Goldstein 1998, doi:10.1145/290941.291025.

    Examples
    --------
    >>> rows = np.array([[[1, 0], [1, 0.1], [0, 1]]], np.float32)
    >>> mmr(np.array([[0.9, 0.8, 0.5]], np.float32), rows, 2)
    array([[0, 2]])
    """
    weight = _validate.number("relevance_weight", relevance_weight, low=0, high=1)
    k = _validate.integer("k", k, low=0)
    if goes_to_cuda(similarities, embeddings):
        return on_device.mmr(similarities, embeddings, k, weight)
    similarities = on_cpu("similarities", similarities, np.float32, 2)
    embeddings = on_cpu("embeddings", embeddings, np.float32, 3)
    with core_errors():
        return _core.mmr(similarities, embeddings, k, weight)


def dpp_greedy(kernel: Float64Array, k: int) -> tuple[Int64Array, Int64Array]:
    """Select greedily the items of largest determinant (a determinantal point process).

    Parameters
    ----------
    kernel : float64 [n_queries, n, n]
        Symmetric, positive semi-definite.
    k : int
        At most `n`.

    Returns
    -------
    positions, n_selected : int64 [n_queries, k], int64 [n_queries]
        Row i holds `n_selected[i]` positions, fewer than `k` where the determinant can grow no
        more; what follows them is -1.

    Raises
    ------
    InputError
        Wrong dtype, shape, layout or option, a value that is not finite.

    References
    ----------
    Chen, Zhang and Zhou 2018, arXiv:1709.05135.

    Examples
    --------
    >>> positions, n_selected = dpp_greedy(np.diag([1.0, 3.0, 2.0])[None], 2)
    >>> positions
    array([[1, 2]])
    """
    kernel = on_cpu("kernel", kernel, np.float64, 3)
    with core_errors():
        return _core.dpp_greedy(kernel, _validate.integer("k", k, low=0))


@core_errors()
def simd_level() -> str:
    """Name the SIMD level of the CPU back end; asks nothing of CUDA.

    Raises
    ------
    InputError
        EPIBIAS_SIMD is set to what there is not.

    Examples
    --------
    >>> simd_level() in {"scalar", "avx2", "avx512"}
    True
    """
    return _core.simd_level()


@core_errors()
def backend_info() -> dict[str, object]:
    """Say which back end runs, at which SIMD level, on how many threads, and why not CUDA.

    The driver is asked for its devices, which a forked child then cannot use any more.

    Returns
    -------
    dict
        backend (of numpy arrays), simd_level, simd_levels, n_threads, cuda, cuda_reason,
        cuda_emulated, cuda_emulated_reason.

    Raises
    ------
    InputError
        EPIBIAS_SIMD or EPIBIAS_THREADS is set to what there is not.

    Examples
    --------
    >>> backend_info()["backend"]
    'cpu'
    """
    usable, reason = cuda_status()
    emulated, emulated_reason = emulation_status()
    return {
        "backend": "cuda, emulated" if emulated else "cpu",
        "simd_level": _core.simd_level(),
        "simd_levels": _core.simd_levels(),
        "n_threads": _core.n_threads(),
        "cuda": usable,
        "cuda_reason": reason,
        "cuda_emulated": emulated,
        "cuda_emulated_reason": emulated_reason,
    }
