"""`biasdef_select`: sides against the oracle, batches, and vectors against pools."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_defenses as oracle
from epibias import _core, kernels_select
from epibias.defenses import BiasDef
from epibias.errors import InputError
from epibias.kernels_select import biasdef_select
from epibias.pool import CandidatePool
from pools import make_pool, opposed_anchors, quietly_fitted, random_lists, unit_rows

LEVELS = _core.simd_levels()


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    threads = _core.n_threads()
    yield
    _core.set_simd_level(LEVELS[-1])
    _core.set_n_threads(threads)


def assert_same(one, other, where=""):
    """The same selections: values, dtypes and the order of the diagnostics."""
    for name in ("indices", "offsets", "positions"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), f"{where} {name}")
    for name in ("dropped", "kept"):
        for left, right in zip(getattr(one, name), getattr(other, name), strict=True):
            assert left.dtype == right.dtype == np.int64
            np.testing.assert_array_equal(left, right, f"{where} {name}")
    assert list(one.diagnostics) == list(other.diagnostics)
    for name, values in one.diagnostics.items():
        assert values.dtype == other.diagnostics[name].dtype
        np.testing.assert_array_equal(values, other.diagnostics[name], f"{where} {name}")


# ---- sides -----------------------------------------------------------------------------------


def unstructured_pools(seed, n_queries, n, **keywords):
    """Scores that often have nothing to do with similarity, so that thresholds lie anywhere."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (n_queries, n)).astype(np.float32)
    y = rng.normal(0, 0.1, (n_queries, n)).astype(np.float32)
    y += rng.choice([0, 0.3], (n_queries, 1)).astype(np.float32) * (x > 0.6)
    centres = rng.normal(0, 0.1, n_queries)
    return make_pool(list(x), list(y), neutral_centres=centres, **keywords)


def splits_of(pool, chosen):
    """Each query's similarities, scores and left and right positions by the sweep's threshold."""
    thresholds = chosen.diagnostics["sweep_threshold"]
    for query in range(len(pool)):
        one = pool[query]
        x, y = one.similarities.astype(float), one.scores.astype(float)
        left = one.similarities < thresholds[query]
        yield query, x, y, np.flatnonzero(left).tolist(), np.flatnonzero(~left).tolist()


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 20])
def test_suspicious_side_is_the_oracles_over_thousands_of_splits(n):
    pool = unstructured_pools(n, 1500, n)
    chosen = BiasDef(2, side="auto", slack=0.0).select(pool)
    seen = set()
    for query, _, y, left, right in splits_of(pool, chosen):
        expected = oracle.suspicious_side(y, left, right, pool.neutral_centres[query], 2)
        assert chosen.diagnostics["side"][query] == expected, query
        seen.add(expected)
    # Two candidates have one on each side, three leave no side with two to keep but the other.
    assert seen == ({"none"} if n == 2 else {"left", "right", "none"})


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 20])
@pytest.mark.parametrize("side", ["right", "auto"])
def test_nearer_side_is_the_oracles_over_thousands_of_splits(n, side):
    pool = unstructured_pools(n, 300, n)
    options = {"side": side, "slack": 0.0, "min_kept": 1}
    chosen = BiasDef(n, mitigation="mahalanobis", **options).select(pool)
    n_moved = chosen.diagnostics["n_moved"]
    for query, x, y, left, right in splits_of(pool, chosen):
        dropped = {"left": left, "right": right, "none": []}[chosen.diagnostics["side"][query]]
        expected = oracle.nearer_side(x, y, dropped)
        assert chosen.dropped[query].tolist() == pool[query].indices[expected].tolist(), query
        assert n_moved[query] == len(set(dropped) ^ set(expected)), query
    assert (n_moved > 0).any() == (n >= 4)


# ---- batches ---------------------------------------------------------------------------------

DEFENSES = [
    BiasDef(5),
    BiasDef(3, criterion="mi", side="auto", mitigation="mahalanobis", fill="refill"),
    BiasDef(5, gate=0.3, permutations=19, seed=3),
    BiasDef.bare(4),
    BiasDef.printed(4),
]


@pytest.mark.parametrize("defense", DEFENSES, ids=lambda defense: defense.name)
def test_levels_threads_and_batches_do_not_matter(defense):
    rng = np.random.default_rng(8)
    n_queries = 300  # enough work for several threads and tasks
    pool = make_pool(
        *random_lists(rng, n_queries, high=30, ties=True),
        neutral_centres=rng.normal(0, 0.1, n_queries),
        query_ids=rng.permutation(n_queries),
    )
    whole = defense.select(pool)
    for level in LEVELS:
        for n_threads in (1, 4):
            _core.set_simd_level(level)
            _core.set_n_threads(n_threads)
            assert_same(defense.select(pool), whole, level)
    for query in range(0, n_queries, 29):
        alone = defense.select(pool[query])
        assert alone[0].tolist() == whole[query].tolist()
        assert alone.kept[0].tolist() == whole.kept[query].tolist()
        for name, values in alone.diagnostics.items():
            np.testing.assert_array_equal(values[0], whole.diagnostics[name][query])


def test_arrays_that_changed_under_a_pool_are_refused():
    pool = make_pool([[0.5], [0.4, 0.3, 0.2]], [[0], [0, 1, 2]])
    pool.scores[2] = np.nan
    message = r"^scores: expected finite values, got nan \(query 1, column 1\)$"
    with pytest.raises(InputError, match=message):
        BiasDef().select(pool)
    pool.similarities[3] = np.inf
    with pytest.raises(InputError, match=r"^similarities: expected finite .*query 1, column 2\)$"):
        BiasDef().select(pool)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.zeros(3, np.float32)}, "scores: expected 4 values, as many as similarities"),
        ({"offsets": np.array([0, 5])}, "offsets: expected offsets that rise from 0 to 4"),
        ({"offsets": np.empty(0, np.int64)}, "offsets: expected 1 of them, one more than queries"),
        ({"indices": np.arange(3)}, "indices: expected 4 rows, as many as similarities, got 3"),
        ({"query_ids": np.arange(3)}, "query_ids: expected 2 values, as many as queries, got 3"),
        (
            {"neutral_centres": None},
            "neutral_centres: expected 2 values, as many as queries, g",
        ),
        (
            {"neutral_centres": np.array([0, np.inf])},
            "neutral_centres: expected finite values",
        ),
        ({"similarities": np.zeros(4)}, "similarities: expected dtype float32"),
        (
            {"parameters": vars(BiasDef()) | {"side": "left"}},
            "side: expected 'right' or 'auto'",
        ),
        ({"parameters": vars(BiasDef()) | {"k": 0}}, "k: expected an integer of at least 1, got 0"),
        (
            {"parameters": vars(BiasDef()) | {"slack": 0.6}},
            "slack: expected a number from 0 to",
        ),
        ({"parameters": vars(BiasDef()) | {"kappa": 0.0}}, "kappa: expected a number > 0 and at"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {
        "similarities": np.array([0.4, 0.3, 0.2, 0.1], np.float32),
        "scores": np.arange(4, dtype=np.float32),
        "offsets": np.array([0, 3, 4]),
        "indices": np.arange(4),
        "parameters": vars(BiasDef(side="auto")),
        "neutral_centres": np.zeros(2),
    }
    with pytest.raises(InputError) as caught:
        biasdef_select(**{**given, **change})
    assert message in str(caught.value)


# ---- vectors ---------------------------------------------------------------------------------


def random_parameters(rng):
    """Draw a BiasDef that may use any option."""
    options = {"k": int(rng.integers(1, 9)), "fill": str(rng.choice(["short", "refill"]))}
    if rng.random() < 0.15:
        return options | {"rule": "printed", "n_thresholds": int(rng.choice([1, 7, 100]))}
    options |= {
        "side": str(rng.choice(["right", "auto"])),
        "mitigation": [None, "mahalanobis"][rng.integers(2)],
        "min_kept": [None, 1, 3][rng.integers(3)],
        "min_side": int(rng.integers(1, 4)),
        "slack": float(rng.choice([0, 0.05, 0.2])),
        "bandwidth_factor": float(rng.choice([0.5, 1.06])),
    }
    if rng.random() < 0.4:
        options["criterion"] = "mi"
    elif rng.random() < 0.4:
        options["kappa_points"] = 0.01
    if rng.random() < 0.3:
        options |= {"gate": 0.3, "permutations": 19, "seed": int(rng.integers(99))}
    return options


def random_vectors(rng):
    """Draw arguments of from_vectors: rectangles or lists, with or without all that is optional."""
    dim, n_topics = int(rng.choice([2, 16, 33])), int(rng.choice([1, 3]))
    ps_dim = dim if rng.integers(2) else 7
    anchors = [opposed_anchors(int(rng.integers(99)), dim=ps_dim)[0] for _ in range(n_topics)]
    axis = quietly_fitted(
        np.stack(anchors) if n_topics > 1 else anchors[0],
        normalize=bool(rng.integers(2)), center=bool(rng.integers(2)),
    )  # fmt: skip
    n_queries, rectangular = int(rng.integers(1, 6)), bool(rng.integers(2))
    sizes = (
        np.full(n_queries, rng.integers(1, 25)) if rectangular else rng.integers(0, 25, n_queries)
    )
    vectors = [unit_rows(rng, n, dim) for n in sizes]
    if rng.integers(2):  # equal rows are ranked by index
        vectors = [
            rows[rng.integers(0, len(rows), len(rows))] if len(rows) else rows for rows in vectors
        ]
    beside = {}
    if rng.integers(2):
        beside["indices"] = [rng.permutation(900)[:n] for n in sizes]
    if ps_dim != dim:
        beside["ps_embeddings"] = [unit_rows(rng, n, ps_dim) for n in sizes]
    if rectangular:
        vectors = np.stack(vectors)
        beside = {name: np.stack(parts) for name, parts in beside.items()}
    if n_topics > 1:
        beside["axis_of_query"] = rng.integers(0, n_topics, n_queries)
    if rng.integers(2):
        beside["neutral_centres"] = rng.normal(0, 0.1, n_queries)
    if rng.integers(2):
        beside["query_ids"] = rng.permutation(900)[:n_queries]
    return (unit_rows(rng, n_queries, dim), vectors, axis), beside


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**31))
def test_vectors_give_what_their_pool_gives(seed):
    rng = np.random.default_rng(seed)
    defense = BiasDef(**random_parameters(rng))
    arguments, beside = random_vectors(rng)
    pool = CandidatePool.from_vectors(*arguments, **beside)
    by_pool = defense.select(pool)
    assert_same(defense.select_vectors(*arguments, **beside), by_pool)
    if defense.rule == "printed" or defense.bandwidth_factor != 1.06:
        return  # the oracle has one width, and its printed rule one number of thresholds
    options = {name: value for name, value in vars(defense).items() if name not in PRINTED}
    for query in range(len(pool)):
        one = pool[query]
        expected = oracle.biasdef(
            one.similarities, one.scores, neutral_centre=pool.neutral_centres[query],
            query_id=int(pool.query_ids[query]), **options,
        )  # fmt: skip
        assert by_pool.positions_of(query).tolist() == expected.selected
        assert by_pool.dropped[query].tolist() == one.indices[expected.dropped].tolist()


PRINTED = ("tau", "n_thresholds", "floor", "bandwidth_factor")


@pytest.mark.parametrize("defense", DEFENSES, ids=lambda defense: defense.name)
def test_float32_selects_the_same_and_diagnoses_nearly_the_same(defense):
    rng = np.random.default_rng(4)
    axis = quietly_fitted(opposed_anchors(0, dim=16)[0])
    arguments = (unit_rows(rng, 60, 16), unit_rows(rng, 60, 20, 16), axis)
    exact = defense.select_vectors(*arguments)
    fast = defense.select_vectors(*arguments, precision="float32")
    pool = CandidatePool.from_vectors(*arguments)
    assert_same(defense.select(pool, precision="float32"), fast)
    divergence = exact.diagnostics.pop("divergence")
    np.testing.assert_allclose(fast.diagnostics.pop("divergence"), divergence, rtol=0, atol=1e-5)
    assert_same(fast, exact)
    with pytest.raises(InputError, match=r"^precision: expected 'float64' or 'float32', got 'half"):
        defense.select(pool, precision="half")


def test_one_query_may_be_one_row():
    rng = np.random.default_rng(0)
    axis = quietly_fitted(opposed_anchors(0, dim=16)[0])
    query, vectors = unit_rows(rng, 16), unit_rows(rng, 20, 16)
    one = BiasDef(side="auto").select_vectors(query, vectors, axis)
    assert_same(BiasDef(side="auto").select_vectors(query[None], vectors, axis), one)
    assert_same(BiasDef(side="auto").select_vectors(query[None], vectors[None], axis), one)


def test_a_long_permutation_test_of_vectors_is_cut_too(monkeypatch):
    rng = np.random.default_rng(1)
    axis = quietly_fitted(opposed_anchors(0, dim=16)[0])
    arguments = (unit_rows(rng, 7, 16), unit_rows(rng, 7, 12, 16), axis)
    defense = BiasDef(3, gate=0.5, permutations=19)
    whole = defense.select(CandidatePool.from_vectors(*arguments))
    monkeypatch.setattr(kernels_select, "rows_of_a_call", lambda *_: 2)
    assert_same(defense.select_vectors(*arguments), whole)


def test_no_queries_give_an_empty_selection():
    axis = quietly_fitted(opposed_anchors(0, dim=16)[0])
    nothing = BiasDef(gate=0.1).select_vectors(np.empty((0, 16), np.float32), [], axis)
    assert (len(nothing), nothing.dropped, nothing.kept) == (0, (), ())
    rectangle = np.empty((0, 20, 16), np.float32)
    assert len(BiasDef().select_vectors(np.empty((0, 16), np.float32), rectangle, axis)) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"query_embeddings": np.zeros((2, 16), np.float32)},
        {"query_embeddings": np.ones((2, 15), np.float32)},
        {"query_embeddings": np.ones((3, 16), np.float32)},
        {"query_embeddings": np.ones((2, 16))},
        {"query_embeddings": [[1.0] * 16] * 2},
        {"query_embeddings": np.ma.masked_array(np.ones((2, 16), np.float32), mask=False)},
        {"candidate_embeddings": np.full((2, 6, 16), np.nan, np.float32)},
        {"candidate_embeddings": np.zeros((2, 6, 16), np.float32)},
        {"candidate_embeddings": np.ones((6, 16), np.float32)},
        {"candidate_embeddings": np.ones((2, 6, 15), np.float32)},
        {"candidate_embeddings": np.ones((2, 16, 6), np.float32).swapaxes(1, 2)},
        {"candidate_embeddings": [np.ones((6, 16), np.float32)]},
        {"candidate_embeddings": [np.ones((6, 16), np.float32), np.ones((6, 9), np.float32)]},
        {"candidate_embeddings": [np.ones((6, 16), np.float32), None]},
        {"indices": np.zeros((2, 6), np.int64)},
        {"indices": np.arange(12).reshape(2, 6).astype(np.int32)},
        {"indices": np.arange(10).reshape(2, 5)},
        {"indices": [np.arange(6), np.arange(5)]},
        {"ps_embeddings": np.zeros((2, 6, 16), np.float32)},
        {"ps_embeddings": np.ones((2, 5, 16), np.float32)},
        {"ps_embeddings": np.ones((2, 6, 15), np.float32)},
        {"axis_of_query": np.array([0, 1])},
        {"axis_of_query": np.array([0])},
        {"neutral_centres": np.array([0, np.nan])},
        {"neutral_centres": np.zeros(3)},
        {"neutral_centres": [0.0, 0.0]},
        {"query_ids": np.arange(3)},
        {"query_ids": np.zeros(2)},
    ],
)
def test_vectors_are_refused_with_the_words_of_the_pool(change):
    rng = np.random.default_rng(3)
    axis = quietly_fitted(opposed_anchors(0, dim=16)[0])
    given = {
        "query_embeddings": unit_rows(rng, 2, 16),
        "candidate_embeddings": unit_rows(rng, 2, 6, 16),
        "axis": axis,
        **change,
    }
    with pytest.raises(InputError) as by_pool:
        CandidatePool.from_vectors(**given)
    with pytest.raises(InputError) as caught:
        BiasDef().select_vectors(**given)
    assert str(caught.value) == str(by_pool.value)


def test_an_axis_without_a_neutral_centre_is_refused_as_by_the_pool():
    axis = replace(quietly_fitted(opposed_anchors(0, dim=16)[0]), neutral_centre=float("nan"))
    rows = unit_rows(np.random.default_rng(0), 8, 16)
    with pytest.raises(InputError, match=r"^axis\.neutral_centre: expected finite .*\(row 0\)$"):
        BiasDef().select_vectors(rows[0], rows, axis)
    assert len(BiasDef().select_vectors(rows[0], rows, axis, neutral_centres=np.zeros(1))) == 1
