"""BiasDef against its oracle, and what each option promises."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_defenses as oracle
from epibias.defenses import BiasDef
from epibias.errors import InputError
from pools import make_pool, random_lists

CONFIGURATIONS = {
    "default": {},
    "mi": {"criterion": "mi"},
    "auto": {"side": "auto"},
    "auto, min_kept 1": {"side": "auto", "min_kept": 1},
    "mahalanobis": {"mitigation": "mahalanobis"},
    "auto, mahalanobis, refill": {"side": "auto", "mitigation": "mahalanobis", "fill": "refill"},
    "refill, min_kept 1": {"fill": "refill", "min_kept": 1},
    "min_side 3, slack .2": {"min_side": 3, "slack": 0.2},
    "bare": {"min_kept": 1, "slack": 0.0, "kappa_points": 0.01},
    "printed": {"rule": "printed"},
}


def assert_as_oracle(defense, similarities, scores, centres, query_ids, expected_options):
    pool = make_pool(similarities, scores, neutral_centres=centres, query_ids=query_ids)
    chosen = defense.select(pool)
    diagnostics = chosen.diagnostics
    for query in range(pool.n_queries):
        one = pool[query]
        expected = oracle.biasdef(
            one.similarities,
            one.scores,
            neutral_centre=centres[query],
            query_id=int(query_ids[query]),
            **expected_options,
        )
        where = f"query {query}"
        assert chosen.positions_of(query).tolist() == expected.selected, where
        assert chosen.dropped[query].tolist() == one.indices[expected.dropped].tolist(), where
        assert diagnostics["side"][query] == expected.side, where
        assert diagnostics["threshold"][query] == np.float32(expected.threshold), where
        for name in ("n_kept", "n_moved", "n_refilled"):
            assert diagnostics[name][query] == getattr(expected, name), (where, name)
        assert diagnostics["short"][query] == (len(expected.selected) < defense.k), where


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
def test_ragged_pools_are_filtered_as_the_oracle_does(name, ties):
    options = CONFIGURATIONS[name]
    rng = np.random.default_rng(list(CONFIGURATIONS).index(name))
    n_queries = 60
    similarities, scores = random_lists(rng, n_queries, ties=ties)
    centres = rng.uniform(-0.1, 0.1, n_queries)
    query_ids = rng.permutation(1000)[:n_queries]
    defense = BiasDef(5, **options)
    assert_as_oracle(defense, similarities, scores, centres, query_ids, options)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_k_is_the_default_of_min_kept(k):
    rng = np.random.default_rng(k)
    similarities, scores = random_lists(rng, 40)
    assert_as_oracle(
        BiasDef(k), similarities, scores, np.zeros(40), np.arange(40), {"k": k, "min_kept": k}
    )


def test_gate_filters_as_the_oracle_does():
    rng = np.random.default_rng(3)
    similarities, scores = random_lists(rng, 24, low=8, high=20)
    options = {"gate": 0.2, "permutations": 19, "seed": 7}
    query_ids = rng.permutation(1000)[:24]
    assert_as_oracle(BiasDef(5, **options), similarities, scores, np.zeros(24), query_ids, options)


def test_mitigation_puts_a_neutral_passage_of_high_similarity_back():
    x = np.array([0.9, 0.88, 0.86, 0.84, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], np.float32)
    y = np.array([0.5, 0.0, 0.52, 0.49, 0.01, -0.02, 0.02, 0.0, 0.01, -0.01], np.float32)
    pool = make_pool([x], [y])
    plain = BiasDef(5).select(pool)
    mended = BiasDef(5, mitigation="mahalanobis").select(pool)
    assert plain.dropped[0].tolist() == [0, 1, 2, 3]
    assert mended.dropped[0].tolist() == [0, 2, 3]
    assert mended[0].tolist() == [1, 4, 5, 6, 7]
    assert mended.diagnostics["n_moved"].tolist() == [1]


def test_decoys_make_the_printed_side_drop_the_benign_top_and_auto_drop_the_decoys():
    rng = np.random.default_rng(0)
    x = np.linspace(0.9, 0.3, 20, dtype=np.float32)
    y = (0.03 * rng.standard_normal(20)).astype(np.float32)
    y[12:17] += 0.6  # one-sided decoys below the top
    x[17:] = [0.29, 0.28, 0.27]
    y[17:] += 0.6
    pool = make_pool([x], [y], neutral_centres=np.zeros(1))
    right = BiasDef(5).select(pool)
    auto = BiasDef(5, side="auto").select(pool)
    assert set(right[0].tolist()) & set(range(12, 20))
    assert auto.diagnostics["side"].tolist() == ["left"]
    assert auto[0].tolist() == [0, 1, 2, 3, 4]
    assert auto.dropped[0].tolist() == list(range(12, 20))


def test_auto_drops_nothing_when_both_sides_are_equally_far_from_neutral():
    x = np.linspace(0.9, 0.1, 10, dtype=np.float32)
    y = np.where(np.arange(10) < 5, np.float32(0.1), np.float32(-0.1))
    pool = make_pool([x], [y], k=3, neutral_centres=np.zeros(1))
    chosen = BiasDef(3, side="auto").select(pool)
    assert chosen.diagnostics["side"].tolist() == ["none"]
    assert chosen.diagnostics["threshold"].tolist() == [np.inf]
    assert np.isfinite(chosen.diagnostics["sweep_threshold"]).all()
    assert chosen[0].tolist() == [0, 1, 2]


def test_auto_without_neutral_centres_is_refused():
    with pytest.raises(InputError, match=r"pool.neutral_centres: expected one a query, for side"):
        BiasDef(side="auto").select(make_pool([[0.2, 0.1]], [[0.0, 0.1]]))


def test_gate_keeps_clean_pools_whole_and_filters_attacked_ones():
    rng = np.random.default_rng(1)
    clean = [rng.uniform(0.2, 0.8, 20) for _ in range(200)]
    clean_scores = [0.1 * rng.standard_normal(20) for _ in range(200)]
    attacked_scores = [
        y + 0.5 * (x >= np.sort(x)[-5]) for x, y in zip(clean, clean_scores, strict=True)
    ]
    gated = BiasDef(5, gate=0.05, permutations=99)
    kept = gated.select(make_pool(clean, clean_scores)).diagnostics["side"] == "none"
    caught = gated.select(make_pool(clean, attacked_scores)).diagnostics["side"] == "right"
    # Type-I error is exact: at most 5 % expected; P(more than 20 of 200) < 1e-3.
    assert kept.sum() >= 180
    assert caught.mean() > 0.9


def test_p_values_do_not_depend_on_the_batch():
    rng = np.random.default_rng(5)
    similarities, scores = random_lists(rng, 12, low=10, high=20)
    pool = make_pool(similarities, scores, query_ids=np.arange(100, 112))
    gated = BiasDef(5, gate=0.5, permutations=19)
    whole = gated.select(pool)
    for query in range(12):
        alone = gated.select(pool[query])
        assert alone.diagnostics["p_value"][0] == whole.diagnostics["p_value"][query]
        assert alone[0].tolist() == whole[query].tolist()


@pytest.mark.parametrize(
    "scores",
    [[0.83, 0.83, 0.83], [0.83], [], [0.83, 0.83 + 1e-12, 0.83 - 1e-12]],
    ids=["equal", "single", "none", "1e-12 apart"],
)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_degenerate_scores_keep_everything(scores, name):  # field case 8
    pool = make_pool([np.linspace(0.9, 0.5, len(scores))], [scores], neutral_centres=np.zeros(1))
    chosen = BiasDef(5, **CONFIGURATIONS[name]).select(pool)
    assert chosen[0].tolist() == list(range(len(scores)))
    assert chosen.dropped[0].tolist() == []
    assert chosen.diagnostics["divergence"].tolist() == [0.0]
    assert chosen.diagnostics["threshold"].tolist() == [np.inf]
    assert chosen.diagnostics["side"].tolist() == ["none"]


def test_equal_similarities_keep_everything():
    pool = make_pool([[0.5] * 12], [np.linspace(-1, 1, 12)])
    chosen = BiasDef(5).select(pool)
    assert chosen[0].tolist() == [0, 1, 2, 3, 4]
    assert chosen.diagnostics["n_kept"].tolist() == [12]


def test_short_is_flagged_and_refill_puts_the_dropped_behind_the_kept():
    x = np.linspace(0.9, 0.1, 10, dtype=np.float32)
    y = np.where(np.arange(10) < 7, np.float32(0.5), np.float32(0))
    pool = make_pool([x], [y])
    short = BiasDef(5, min_kept=1).select(pool)
    refilled = BiasDef(5, min_kept=1, fill="refill").select(pool)
    assert short[0].tolist() == [7, 8, 9]
    assert short.diagnostics["short"].tolist() == [True]
    assert refilled[0].tolist() == [7, 8, 9, 0, 1]
    assert refilled.dropped[0].tolist() == [2, 3, 4, 5, 6]
    assert refilled.diagnostics["short"].tolist() == [False]
    assert refilled.diagnostics["n_refilled"].tolist() == [2]


def test_an_empty_pool_of_no_queries_gives_an_empty_selection():
    chosen = BiasDef().select(make_pool([], []))
    assert len(chosen) == 0
    assert chosen.dropped == ()
    assert all(len(values) == 0 for values in chosen.diagnostics.values())


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from(list(CONFIGURATIONS)),
    st.integers(1, 8),
)
def test_selection_is_a_subset_in_order_and_nothing_is_lost(seed, name, k):
    rng = np.random.default_rng(seed)
    similarities, scores = random_lists(rng, 4, high=25, ties=bool(seed % 2))
    pool = make_pool(similarities, scores, neutral_centres=rng.normal(0, 0.1, 4))
    before = asdict(pool)
    chosen = BiasDef(k, **CONFIGURATIONS[name]).select(pool)
    for query in range(4):
        positions = chosen.positions_of(query).tolist()
        kept = positions[: len(positions) - chosen.diagnostics["n_refilled"][query]]
        assert kept == sorted(kept)
        assert len(positions) == len(set(positions)) <= k
        assert not set(chosen[query].tolist()) & set(chosen.dropped[query].tolist())
        n_dropped = len(chosen.dropped[query]) + chosen.diagnostics["n_refilled"][query]
        assert chosen.diagnostics["n_kept"][query] + n_dropped == pool.sizes[query]
        if CONFIGURATIONS[name].get("fill") == "refill":
            assert len(positions) == min(k, pool.sizes[query])
    for field, value in asdict(pool).items():
        np.testing.assert_array_equal(value, before[field])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.01, 100))
def test_scale_of_the_scores_does_not_matter(seed, scale):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, 20)
    y = rng.normal(0, 0.1, 20).astype(np.float32)
    options = {"mitigation": "mahalanobis", "side": "auto"}
    one = BiasDef(**options).select(make_pool([x], [y], neutral_centres=np.array([0.02])))
    # A power of two: the scaled float32 scores are exact.
    factor = np.float32(2.0 ** round(np.log2(scale)))
    two = BiasDef(**options).select(
        make_pool([x], [y * factor], neutral_centres=np.array([0.02 * float(factor)]))
    )
    assert one[0].tolist() == two[0].tolist()


@pytest.mark.parametrize("side", ["right", "auto"])
def test_the_kept_lie_below_the_threshold_or_where_left_was_dropped_above_it(side):
    rng = np.random.default_rng(0)
    pool = make_pool(*random_lists(rng, 120, low=5, high=30), neutral_centres=np.zeros(120))
    chosen = BiasDef(5, side=side).select(pool)
    for query in range(120):
        threshold = chosen.diagnostics["threshold"][query]
        x = pool[query].similarities
        left_dropped = chosen.diagnostics["side"][query] == "left"
        expected = np.flatnonzero(x >= threshold if left_dropped else x < threshold)
        assert chosen.kept[query].tolist() == expected.tolist()
    seen = set(chosen.diagnostics["side"].tolist())
    assert seen == ({"right", "none"} if side == "right" else {"left", "right", "none"})
