"""Array in, array out: the threshold sweeps.

Part of `kernels`, which offers them too, and by the same rules.
"""

from __future__ import annotations

import numpy as np

from epibias import _core, _validate
from epibias._dispatch import core_errors, goes_to_cuda, on_cpu, on_cpu_or_none
from epibias._sweep_chunks import Sweep, sweep_in_chunks
from epibias._sweep_options import checked
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.device import stages as on_device


def threshold_sweep(
    similarities: Float32Array,
    scores: Float32Array,
    *,
    criterion: str = "kl",
    min_kept: int = 1,
    min_dropped: int = 1,
    kappa: float = 0.025,
    bandwidth_factor: float = 1.06,
    permutations: int = 0,
    max_exceedances: int = 0,
    seed: int = 0,
    query_ids: Int64Array | None = None,
    curve: bool = False,
    precision: str = "float64",
    method: str = "all_splits",
) -> Sweep:
    """Split each query's similarities where its scores differ most; see `epibias.threshold_sweep`.

    Parameters
    ----------
    similarities, scores : float32 [n_queries, n]
    criterion, kappa, bandwidth_factor, permutations, max_exceedances, seed, curve
        As there.
    precision, method : str
        As there.
    min_kept, min_dropped : int
        Fewest points on the low and on the high side.
    query_ids : int64 [n_queries], optional
        Keys of the permutation generator, so that batches do not matter.

    Returns
    -------
    threshold, n_kept, divergence, p_value : [n_queries] of float32, int64, float64, float64
        The p-value is 1 without permutations.
    curve : float64 [n_queries, n - 1], or None
    n_undecided : int64 [n_queries]
        Decisions that float32 left open and float64 took.

    Raises
    ------
    InputError
        Wrong dtype, shape, layout or option, a value that is not finite.

    Examples
    --------
    >>> x = np.linspace(0.2, 0.9, 8, dtype=np.float32)[None]
    >>> y = (x > 0.55).astype(np.float32)
    >>> int(threshold_sweep(x, y)[1][0])
    4
    """
    curve = _validate.flag("curve", curve)
    options = checked(
        criterion=criterion,
        min_kept=min_kept,
        min_dropped=min_dropped,
        kappa=kappa,
        bandwidth_factor=bandwidth_factor,
        permutations=permutations,
        max_exceedances=max_exceedances,
        seed=seed,
        precision=precision,
        method=method,
    )
    if goes_to_cuda(similarities, scores, query_ids):
        return on_device.threshold_sweep(
            similarities, scores, query_ids=query_ids, curve=curve, **options
        )
    similarities, scores = _pairs(similarities, scores)
    query_ids = on_cpu_or_none("query_ids", query_ids, np.int64, 1)
    with core_errors():
        return sweep_in_chunks(
            _core.threshold_sweep,
            _core.n_threads(),
            similarities,
            scores,
            query_ids,
            curve,
            options,
        )


def sweep_is_binned(method: str, n: int) -> bool:
    """Tell whether `threshold_sweep` with this method bins queries of `n` candidates.

    Parameters
    ----------
    method : {"all_splits", "binned", "auto"}
    n : int

    Returns
    -------
    bool

    Raises
    ------
    InputError
        No such method.

    Examples
    --------
    >>> sweep_is_binned("auto", 10_000), sweep_is_binned("auto", 10_001)
    (False, True)
    """
    with core_errors():
        return _core.sweep_is_binned(checked(method=method)["method"], n)


def printed_sweep(
    similarities: Float32Array,
    scores: Float32Array,
    *,
    tau: float = 0.05,
    n_thresholds: int = 100,
    floor: float = 1e-12,
    bandwidth_factor: float = 1.06,
    curve: bool = False,
) -> tuple[Float32Array, Int64Array, Float64Array, Float64Array | None]:
    """Algorithm 1 of the paper as printed; see `epibias.threshold.printed_sweep`.

    Parameters
    ----------
    similarities, scores : float32 [n_queries, n]
    tau, n_thresholds : float, int
        Thresholds run from `tau` to `1 - tau` on the raw similarity.
    floor, bandwidth_factor, curve
        As there.

    Returns
    -------
    threshold, n_kept, divergence : [n_queries] of float32, int64, float64
    curve : float64 [n_queries, n_thresholds], or None

    Raises
    ------
    InputError
        Wrong dtype, shape, layout or option, a value that is not finite.

    Examples
    --------
    >>> x = np.linspace(0.2, 0.9, 8, dtype=np.float32)[None]
    >>> y = (x > 0.55).astype(np.float32)
    >>> int(printed_sweep(x, y)[1][0])
    4
    """
    curve = _validate.flag("curve", curve)
    options = checked(
        tau=tau, n_thresholds=n_thresholds, floor=floor, bandwidth_factor=bandwidth_factor
    )
    if goes_to_cuda(similarities, scores):
        return on_device.printed_sweep(similarities, scores, curve=curve, **options)
    similarities, scores = _pairs(similarities, scores)
    with core_errors():
        return _core.printed_sweep(similarities, scores, curve=curve, **options)


def _pairs(left: object, right: object) -> tuple[Float32Array, Float32Array]:
    return on_cpu("similarities", left, np.float32, 2), on_cpu("scores", right, np.float32, 2)
