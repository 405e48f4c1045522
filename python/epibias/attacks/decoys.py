"""Decoys, for an index you own: low-similarity passages that make a filter drop the benign top.

The printed BiasDef always drops the side of high similarity. Whoever plants biased passages
*below* the benign top turns that rule against the benign passages. Owns the choice of which
passages serve as decoys; in: similarities, out: row numbers.
"""

from __future__ import annotations

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array, Int64Array


def decoys(
    benign_similarities: Float32Array,
    adversarial_similarities: Float32Array,
    *,
    k: int = 5,
    limit: int = 5,
) -> Int64Array:
    """Rows of the adversarial passages that lie below the query's k-th best benign passage.

    For the red-team evaluation of an index you own. Of those that do, the `limit` most similar: the
    ones that reach the candidate pool and so do the most harm. Fewer, or none, when there are not
    as many; the caller says how many it got.

    Parameters
    ----------
    benign_similarities : float32 [n_benign]
        Similarity of the query to every benign passage; at least `k` of them.
    adversarial_similarities : float32 [n_adversarial]
        Similarity of the query to the adversarial passages of one polarity.
    k : int
        The bar is the k-th largest benign similarity; decoys lie strictly below it.
    limit : int
        At most this many decoys.

    Returns
    -------
    int64 [n_decoys]
        Rows of `adversarial_similarities`: similarity descending, then row ascending.

    Raises
    ------
    InputError
        For a wrong dtype or shape, a value that is not finite, or fewer than `k` benign passages.

    References
    ----------
    Epistemic Bias Injection, arXiv:2512.00804, Algorithm 1 (the rule that decoys turn around).

    Examples
    --------
    >>> benign = np.float32([0.9, 0.5, 0.3])
    >>> decoys(benign, np.float32([0.2, 0.6, 0.4, 0.5]), k=2, limit=2)
    array([2, 0])
    """
    for name, values in (
        ("benign_similarities", benign_similarities),
        ("adversarial_similarities", adversarial_similarities),
    ):
        _validate.finite(name, _validate.array(name, values, dtype=np.float32, ndim=1))
    k = _validate.integer(
        "k", k, low=1, high=len(benign_similarities), note="the number of benign passages"
    )
    limit = _validate.integer("limit", limit, low=0)
    bar = np.sort(benign_similarities)[-k]
    order = np.argsort(-adversarial_similarities, kind="stable")
    below = order[adversarial_similarities[order] < bar]
    chosen: Int64Array = below[:limit].astype(np.int64)
    return chosen
