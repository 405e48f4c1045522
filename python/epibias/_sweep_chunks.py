"""One long sweep as many short calls of the core, so that Ctrl-C is heard between them.

The core does not look for signals, and a permutation test over many queries takes minutes. Every
query has a key of its own, so its p-value is the same in every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from epibias._validate import Float32Array, Float64Array, Int64Array

Sweep = tuple[Float32Array, Int64Array, Float64Array, Float64Array, Float64Array | None, Int64Array]

# One thread takes about this long for one candidate of one shuffle (2.5 GHz, AVX2: 0.2 to 0.5).
MICROSECONDS_A_CANDIDATE = 0.4
MICROSECONDS_A_CALL = 300_000.0


def rows_of_a_call(n_candidates: int, permutations: int, n_threads: int) -> int:
    """How many queries go into one call: well below a second of work, and a row for each thread.

    Examples
    --------
    >>> rows_of_a_call(20, 199, 1), rows_of_a_call(1000, 100_000, 4)
    (187, 4)
    """
    of_a_query = MICROSECONDS_A_CANDIDATE * max(n_candidates, 1) * (permutations + 1)
    return max(1, int(MICROSECONDS_A_CALL / of_a_query)) * n_threads


def sweep_in_chunks(
    core_sweep: Callable[..., Sweep],
    n_threads: int,
    similarities: Float32Array,
    scores: Float32Array,
    query_ids: Int64Array | None,
    curve: bool,
    options: Mapping[str, Any],
) -> Sweep:
    """Sweep all queries; shuffle them a few at a time.

    Parameters
    ----------
    core_sweep : callable
        `_core.threshold_sweep`.
    n_threads : int
        That the core runs on.
    similarities, scores : float32 [n_queries, n]
    query_ids : int64 [n_queries], optional
    curve : bool
    options : mapping
        The others, checked.

    Returns
    -------
    threshold, n_kept, divergence, p_value, curve, n_undecided
        As the core gives them, to the bit.
    """

    def call(rows: slice, keys: Int64Array | None, **changed: Any) -> Sweep:  # noqa: ANN401
        given = {**options, "curve": curve, **changed}
        return core_sweep(similarities[rows], scores[rows], query_ids=keys, **given)

    n_queries = len(similarities)
    step = rows_of_a_call(similarities.shape[1], options["permutations"], n_threads)
    if options["permutations"] == 0 or n_queries <= step:
        return call(slice(None), query_ids)
    # First without shuffles: all that is wrong is found here, with its own row.
    threshold, n_kept, divergence, p_value, divergences, n_undecided = call(
        slice(None), query_ids, permutations=0
    )
    keys = np.arange(n_queries, dtype=np.int64) if query_ids is None else query_ids
    for start in range(0, n_queries, step):
        rows = slice(start, start + step)
        _, _, _, p_value[rows], _, n_undecided[rows] = call(rows, keys[rows])
    return threshold, n_kept, divergence, p_value, divergences, n_undecided
