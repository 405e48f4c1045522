"""Limits of the sweeps' options, one check each: what the core takes, and no more.

`kernels`, `threshold` and `defenses.BiasDef` all check here, so an option out of range is refused
where it is given and not first when a pool is filtered. The limits are those of
`cpp/src/threshold_sweep.cpp`; `tests/test_sweep_options.py` holds each against the core.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from epibias import _validate

CRITERIA = ("kl", "mi")
PRECISIONS = ("float64", "float32")
METHODS = ("all_splits", "binned", "auto")
MAX_KAPPA = 1e6
MAX_BANDWIDTH_FACTOR = 1e6
MAX_FLOOR = 1
MAX_THRESHOLDS = 1_000_000
# κ · n points become κ by a division by n; a smaller number could become 0, which is no floor.
LEAST_KAPPA_POINTS = 1e-300

_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "criterion": partial(_validate.choice, options=CRITERIA),
    "min_kept": partial(_validate.integer, low=1),
    "min_dropped": partial(_validate.integer, low=1),
    "min_side": partial(_validate.integer, low=1),
    "slack": partial(_validate.number, low=0, high=0.5),
    "kappa": partial(_validate.number, above=0, high=MAX_KAPPA),
    "kappa_points": partial(_validate.number, low=LEAST_KAPPA_POINTS, high=MAX_KAPPA),
    "bandwidth_factor": partial(_validate.number, above=0, high=MAX_BANDWIDTH_FACTOR),
    "permutations": partial(_validate.integer, low=0),
    "max_exceedances": partial(_validate.integer, low=0),
    "precision": partial(_validate.choice, options=PRECISIONS),
    "method": partial(_validate.choice, options=METHODS),
    "seed": partial(_validate.integer, low=0, high=_validate.MAX_INT64),
    "tau": partial(_validate.number, low=0, below=0.5),
    "n_thresholds": partial(_validate.integer, low=1, high=MAX_THRESHOLDS),
    "floor": partial(_validate.number, above=0, high=MAX_FLOOR),
}


def checked(**options: object) -> dict[str, Any]:
    """Check options by name; gives them back as plain values.

    Raises
    ------
    InputError
        One of another type or out of range.

    Examples
    --------
    >>> checked(tau=0, n_thresholds=100)
    {'tau': 0.0, 'n_thresholds': 100}
    """
    return {name: _CHECKS[name](name, value) for name, value in options.items()}
