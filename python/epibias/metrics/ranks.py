"""How well scores tell two groups apart, by rank alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias._validate import Float32Array, Float64Array
from epibias.errors import InputError

Scores = Sequence[float] | Float32Array | Float64Array


def auc(positive_scores: Scores, negative_scores: Scores) -> float:
    """Share of the pairs in which the positive scores higher than the negative; ties count half.

    The area under the ROC curve: Mann and Whitney's U divided by the number of pairs.

    Parameters
    ----------
    positive_scores, negative_scores : sequence of float [n_positive], [n_negative]
        Of the group that ought to score higher, such as passages that support, and of the other.

    Returns
    -------
    float
        In [0, 1], 0.5 by chance; NaN when a group is empty.

    Raises
    ------
    InputError
        Scores that are not 1-d, or not finite.

    References
    ----------
    Mann and Whitney 1947, doi:10.1214/aoms/1177730491.

    Examples
    --------
    >>> auc([0.9, 0.4], [0.1, 0.4])
    0.875
    """
    positive = _scores("positive_scores", positive_scores)
    negative = _scores("negative_scores", negative_scores)
    n_pairs = len(positive) * len(negative)
    if n_pairs == 0:
        return float("nan")
    # Without ranks: to import scipy.stats for them takes longer than all that is measured here.
    negative = np.sort(negative)
    below, not_above = (np.searchsorted(negative, positive, side) for side in ("left", "right"))
    return float((below.sum() + not_above.sum()) / (2 * n_pairs))


def _scores(argument: str, values: Scores) -> NDArray[np.float64]:
    _validate.unmasked(argument, values)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        found = f"shape {array.shape}, dtype {array.dtype}"
        raise InputError(argument, "one number a passage", found)
    return _validate.finite(argument, array.astype(np.float64))
