"""What the sweep refuses, and the words it uses."""

from __future__ import annotations

import numpy as np
import pytest

from epibias import _core

GOOD = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
WITH_NAN, INFINITE = GOOD.copy(), np.full_like(GOOD, np.inf)
WITH_NAN[1, 1] = np.nan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"similarities": WITH_NAN}, r"similarities: expected finite .* got nan \(row 1, column 1"),
        ({"scores": -WITH_NAN}, r"scores: expected finite values, got -?nan \(row 1, column 1\)"),
        (
            {"scores": -INFINITE},
            r"scores: expected finite values, got -inf \(row 0",
        ),
        ({"scores": GOOD.astype(np.float64)}, r"scores: expected dtype float32; call scores.asty"),
        ({"scores": GOOD.T}, r"scores: expected a C-contiguous array"),
        ({"scores": GOOD[:1]}, r"scores: expected shape \(2, 3\), as similarities, got shape \(1"),
        ({"criterion": "js"}, r"criterion: expected 'kl' or 'mi', got 'js'"),
        ({"min_kept": 0}, r"min_kept: expected an integer of at least 1, got 0"),
        ({"min_dropped": -2}, r"min_dropped: expected an integer of at least 1, got -2"),
        ({"kappa": 0.0}, r"kappa: expected a number > 0 and at most 1000000, got 0"),
        ({"kappa": float("nan")}, r"kappa: expected a number > 0 and at most 1000000, got nan"),
        ({"bandwidth_factor": -1.0}, r"bandwidth_factor: expected a number > 0 .* got -1"),
        ({"permutations": -1}, r"permutations: expected an integer of at least 0, got -1"),
        ({"max_exceedances": -1}, r"max_exceedances: expected an integer of at least 0, got -1"),
        ({"query_ids": np.arange(3)}, r"query_ids: expected 2 ids, one a query, got 3"),
        ({"query_ids": np.zeros(2)}, r"query_ids: expected dtype int64; call query_ids.astype"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"similarities": GOOD, "scores": GOOD, **change}
    with pytest.raises(ValueError, match=message):
        _core.threshold_sweep(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tau": 0.5}, r"tau: expected a number of at least 0 and below 0.5, got 0.5"),
        ({"tau": float("nan")}, r"tau: expected a number of at least 0 and below 0.5, got nan"),
        ({"n_thresholds": 0}, r"n_thresholds: expected an integer from 1 to 1000000, got 0"),
        ({"n_thresholds": 10**12}, r"n_thresholds: expected an integer from 1 to 1000000, got 1"),
        ({"floor": 0.0}, r"floor: expected a number > 0 and at most 1, got 0"),
        ({"scores": WITH_NAN}, r"scores: expected finite values, got nan \(row 1, column 1\)"),
    ],
)
def test_wrong_arguments_of_the_printed_sweep_are_named(change, message):
    arguments = {"similarities": GOOD, "scores": GOOD, **change}
    with pytest.raises(ValueError, match=message):
        _core.printed_sweep(**arguments)
