"""`biasdef_select` with a gate: a batch cut into calls is one batch, right or wrong."""

from __future__ import annotations

import numpy as np
import pytest

from epibias import kernels_select
from epibias.defenses import BiasDef
from epibias.errors import InputError
from epibias.kernels_select import biasdef_select
from pools import make_pool


@pytest.mark.parametrize("with_ids", [True, False])
def test_a_long_permutation_test_is_cut_into_calls_that_change_nothing(monkeypatch, with_ids):
    rng = np.random.default_rng(2)
    sizes = [0, 7, 12, 30, 1, 9, 20, 20, 3, 14, 25]
    pool = make_pool(
        [rng.uniform(0, 1, n) for n in sizes], [rng.normal(0, 0.1, n) for n in sizes],
        neutral_centres=rng.normal(0, 0.1, 11), query_ids=rng.permutation(11),
    )  # fmt: skip
    arrays = (pool.similarities, pool.scores, pool.offsets, pool.indices)
    keys = {"neutral_centres": pool.neutral_centres}
    keys["query_ids"] = pool.query_ids if with_ids else None
    defense = BiasDef(4, gate=0.5, permutations=19, side="auto", fill="refill")
    whole = biasdef_select(*arrays, vars(defense), **keys)
    calls = []

    def rows_of_a_call(n, permutations, n_threads):
        calls.append((n, permutations))
        return 4

    monkeypatch.setattr(kernels_select, "rows_of_a_call", rows_of_a_call)
    in_parts = biasdef_select(*arrays, vars(defense), **keys)
    assert calls == [(30, 19)]
    for one, other in zip(whole[:7], in_parts[:7], strict=True):
        assert one.dtype == other.dtype == np.int64
        np.testing.assert_array_equal(one, other)
    assert list(whole[7]) == list(in_parts[7])
    for name, values in whole[7].items():
        np.testing.assert_array_equal(values, in_parts[7][name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([3, 5, 7, 9])}, "offsets: expected offsets that rise from 0 to 9"),
        ({"offsets": np.array([0, 3, 6, 8])}, "offsets: expected offsets that rise from 0 to 9"),
        ({"offsets": np.array([0, np.inf, 6, 9])}, "offsets: expected dtype int64; call off"),
        ({"scores": np.zeros(10, np.float32)}, "scores: expected 9 values, as many as simila"),
        ({"indices": np.arange(10)}, "indices: expected 9 rows, as many as similarities, got 10"),
        ({"query_ids": np.arange(5)}, "query_ids: expected 3 values, as many as queries, got 5"),
        ({"neutral_centres": np.zeros(4)}, "neutral_centres: expected 3 values, as many as que"),
    ],
)
@pytest.mark.parametrize("queries_a_call", [1, 100])
def test_a_batch_is_refused_however_it_is_cut(monkeypatch, queries_a_call, change, message):
    monkeypatch.setattr(kernels_select, "rows_of_a_call", lambda *_: queries_a_call)
    given = {
        "similarities": np.linspace(0.9, 0.1, 9, dtype=np.float32),
        "scores": np.arange(9, dtype=np.float32),
        "offsets": np.array([0, 3, 6, 9]),
        "indices": np.arange(9),
        "parameters": vars(BiasDef(gate=0.5, permutations=9, side="auto")),
        "neutral_centres": np.zeros(3),
    }
    with pytest.raises(InputError) as caught:
        biasdef_select(**{**given, **change})
    assert message in str(caught.value)
