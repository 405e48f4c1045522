"""Newcomers of a pool: told by times and by a memory, and how many of them are honest by chance."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import reference_tilt
from epibias.defenses import TiltBound
from epibias.defenses.clean_memory import CleanMemory
from epibias.defenses.left_out import refused
from epibias.defenses.newcomers import honest_drift, most_honest, newcomers
from epibias.errors import InputError
from epibias.kernels_remembered import mark_unchanged, mark_unremembered, refuse_newcomers
from epibias.pool import CandidatePool
from pools import make_pool, quietly_fitted, texts_pool, without_candidates


def test_more_newcomers_than_chance_explains_are_refused():
    times = ["2026-03-01", "2026-01-01", None, "2026-03-02", "2026-01-02"]
    new = newcomers(times, "2026-02-01")
    assert new.tolist() == [True, False, True, True, False]
    with pytest.raises(InputError, match="row 1"):
        newcomers(["2026-01-01", 5], "2026-02-01")
    pool = texts_pool(
        [0.9, 0.8, 0.7, 0.6, 0.5], [0.0] * 5, "abcde", source=["a", "a", "b", "b", "c"]
    )

    def out(share, k=5, per_source=None):
        marks, count = refused(pool, new, k=k, share=share, per_source=per_source)
        assert count.tolist() == [marks.sum()]
        return marks.tolist()

    assert out(1.0) == [False] * 5
    assert most_honest(5, 0.35) == 4
    assert most_honest(2, 0.2) == 1
    assert out(0.35, k=5) == [False] * 5
    assert out(0.35, k=5, per_source=1) == [False, False, False, True, False]  # second of b
    assert out(0.35, k=1) == [False, False, True, True, False]  # one in a selection of one
    assert out(0.1) == new.tolist()  # three of five: a wave


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("n", [0, 1, 5, 20, 100])
def test_most_honest_is_the_quantile_of_the_binomial_distribution(n, share):
    assert most_honest(n, share) == (int(stats.binom.ppf(0.95, n, share)) if n else 0)


def test_honest_drift_is_two_standard_deviations_of_what_honest_newcomers_do():
    rng = np.random.default_rng(8)
    old, fresh = rng.standard_normal((2, 20_000, 5))
    moved = np.where(rng.random((20_000, 5)) < 0.1, fresh, old).mean(axis=1) - old.mean(axis=1)
    assert honest_drift(5, 0.1) == pytest.approx(2 * moved.std(), rel=0.03)


def test_a_memory_tells_newcomers_without_times():
    x, y = [0.9, 0.8, 0.7, 0.6, 0.5], [0.1, -0.1, 0.2, -0.2, 0.0]
    clean = texts_pool(x, y, "abcde")
    memory = CleanMemory.of(clean, k=2)
    defense = TiltBound(2, memory=memory, bound=10.0)
    # One in twenty passes for honest at .1, and takes its place; three of eight do not.
    one = texts_pool([0.95, *x], [0.1, *y], "zabcde")
    assert replace(defense, newcomer_share=0.1).select(one)[0].tolist() == [0, 1]
    assert replace(defense, newcomer_share=0.0).select(one)[0].tolist() == [1, 2]
    assert replace(defense, newcomer_share=0.0).select(one).diagnostics["n_refused"].tolist() == [1]
    three = texts_pool([0.95, 0.94, 0.93, *x], [0.1, 0.1, 0.1, *y], "zyxabcde")
    assert replace(defense, newcomer_share=0.1).select(three)[0].tolist() == [3, 4]
    # What is less similar than all that is remembered was out of sight, and is no crowd.
    longer = texts_pool([0.95, *x, 0.4, 0.3, 0.2], [0.1, *y, 0.0, 0.0, 0.0], "zabcdefgh")
    assert replace(defense, newcomer_share=0.1).select(longer)[0].tolist() == [0, 1]
    # The similarity alone is not the passage; nor is its score.
    for other in ((0.9, 0.3), (0.899, 0.1)):
        changed = texts_pool([other[0], *x[1:]], [other[1], *y[1:]], "zbcde")
        found = replace(defense, newcomer_share=0.0).select(changed)
        assert found[0].tolist() == [1, 2]
    # A memory that knows no candidates refuses nobody.
    blind = replace(defense, memory=without_candidates(memory), newcomer_share=0.0)
    assert blind.select(three)[0].tolist() == [0, 1]


def test_newcomers_by_time_are_old_friends_where_the_memory_has_them():
    x, y = [0.9, 0.8, 0.7, 0.6], [0.1, -0.1, 0.2, -0.2]
    late, early = "2026-03-01", "2026-01-01"
    clean = texts_pool(x, y, "abcd", time=[late, early, early, early])
    attacked = texts_pool([0.95, *x], [3.0, *y], "zabcd", time=[late, late, early, early, early])
    defense = TiltBound(2, trusted_until="2026-02-01", newcomer_share=0.0, bound=10.0)
    assert defense.select(attacked)[0].tolist() == [2, 3]
    assert replace(defense, memory=CleanMemory.of(clean, 2)).select(attacked)[0].tolist() == [1, 2]


def test_most_honest_of_a_pool_of_thousands():
    for n, share in ((2500, 0.1), (8000, 0.02), (1100, 0.5), (50_000, 0.02)):
        assert most_honest(n, share) == int(stats.binom.ppf(0.95, n, share))


def test_vectors_of_another_precision_leave_nothing_to_select():
    rng = np.random.default_rng(0)
    rows = (1 + rng.standard_normal((20, 64))).astype(np.float32)
    axis = quietly_fitted(rng.standard_normal((8, 64)).astype(np.float32))

    def pool(rows):
        return CandidatePool.from_vectors(
            np.ones((1, 64), np.float32), rows, axis, query_texts=["Why?"]
        )

    defense = TiltBound(5, memory=CleanMemory.of(pool(rows), 5))
    # Scaling, and float32's last bits, change nothing.
    for same in (rows * 1000, rows * (1 + 1e-7 * rng.standard_normal(rows.shape))):
        assert not unremembered_of(defense, pool(same.astype(np.float32))).any()
    found = defense.select(pool(rows.astype(np.float16).astype(np.float32)))
    assert (found.n_selected.tolist(), found.diagnostics["short"].tolist()) == ([0], [True])


def test_copies_of_a_remembered_passage_are_newcomers():
    x, y = [0.9, 0.8, 0.7, 0.6], [0.1, -0.1, 0.2, -0.2]
    memory = CleanMemory.of(texts_pool(x, y, "abcd"), k=2)
    defense = TiltBound(2, memory=memory, bound=10.0, newcomer_share=0.1)
    copied = texts_pool([0.9, 0.9, 0.9, 0.9, *x[1:]], [0.1] * 4 + y[1:], "aaaabcd")
    chosen = defense.select(copied)
    assert chosen[0].tolist() == [0, 4]
    assert chosen.diagnostics["n_refused"].tolist() == [3]
    # A passage that stood twice in the index may do so again.
    twice = texts_pool([0.9, 0.9, *x[1:]], [0.1, 0.1, *y[1:]], "aabcd")
    both = replace(defense, memory=CleanMemory.of(twice, k=2), newcomer_share=0.0)
    assert both.select(twice)[0].tolist() == [0, 1]
    assert both.select(copied)[0].tolist() == [0, 1]


def test_the_own_echo_limit_does_not_hang_on_who_else_is_asked():
    x, y = [0.9, 0.8, 0.7, 0.6], [0.1, -0.1, 0.2, -0.2]
    pool = make_pool([x, x], [y, y])
    texts = ("Is it so? Yes.", "b", "c", "d")
    pool = replace(pool, query_texts=("Is it so?", "Was it?"), passage_texts=texts * 2)
    clean = replace(pool, passage_texts=("a", "b", "c", "d") * 2)
    full = CleanMemory.of(clean, k=2)
    first, second = full.records
    blind = full.records[first]._replace(candidates=(), centre=0.05)  # moved: it is looked at
    newcomer = full.records[second]
    newcomer = newcomer._replace(candidates=newcomer.candidates[1:], centre=0.05)
    memory = CleanMemory({first: blind, second: newcomer}, 2)
    defense = TiltBound(2, echo=1.0, memory=memory, bound=10.0, newcomer_share=0.5)
    alone = make_pool([x], [y])
    alone = replace(alone, query_texts=("Is it so?",), passage_texts=texts)
    assert defense.select(alone)[0].tolist() == defense.select(pool)[0].tolist() == [1, 2]


def unremembered_of(defense, pool):
    known = [(0, defense.memory.entry("Why?")[1])]
    return mark_unremembered(pool.similarities, pool.scores, pool.offsets, known)


def remembered_case(seed, largest):
    """A pool with copies, and what is remembered of some of its queries."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, rng.integers(1, 5))
    x = [
        np.sort(rng.choice(np.arange(30), size, replace=True))[::-1] / 31 * largest
        for size in sizes
    ]
    y = [rng.choice(np.arange(4), size) / 8 for size in sizes]
    queries = np.flatnonzero(rng.random(len(sizes)) < 0.7)
    if not len(queries):
        queries = np.array([0])
    known = []
    for query in queries.tolist():
        pairs = np.stack([x[query], y[query]], 1).astype(np.float32).astype(float)
        kept = pairs[rng.random(len(pairs)) < 0.6]
        known.append(
            (query, np.ascontiguousarray((kept if len(kept) else np.array([[0.5, 0.0]]))[::-1]))
        )
    return make_pool(x, y), known


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 20.0]))
def test_unremembered_marks_what_the_definition_marks(seed, largest):
    pool, known = remembered_case(seed, largest)
    marks = mark_unremembered(pool.similarities, pool.scores, pool.offsets, known)
    expected = np.zeros(len(marks), bool)
    for query, pairs in known:
        own = slice(*pool.offsets[query : query + 2])
        expected[own] = reference_tilt.unremembered(pool.similarities[own], pool.scores[own], pairs)
    assert marks.tolist() == expected.tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_refused_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 12, rng.integers(1, 5))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    new = rng.random(offsets[-1]) < rng.choice([0.1, 0.5, 1.0])
    most_in_pool = rng.integers(0, 12, len(sizes))
    most, of_source = int(rng.integers(0, 5)), int(rng.integers(0, 3))
    sources = rng.integers(0, 3, len(new))
    for known in (None, sources):
        capped = None if known is None else of_source
        marks, counts = refuse_newcomers(
            new, offsets, most_in_pool, most, sources=known, most_of_source=capped
        )
        expected = []
        for first, last, allowed in zip(offsets, offsets[1:], most_in_pool, strict=False):
            own = None if known is None else known[first:last].tolist()
            expected += reference_tilt.refused(
                new[first:last].tolist(), allowed, most, own, of_source
            )
        assert marks.tolist() == expected
        sums = np.add.reduceat(np.append(marks, False).astype(int), offsets[:-1])
        assert counts.tolist() == np.where(sizes > 0, sums, 0).tolist()


def test_unchanged_selections_have_the_means_of_the_definition():
    rng = np.random.default_rng(2)
    sizes = [0, 1, 4, 30, 300]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    values = rng.normal(size=(2, offsets[-1])).astype(np.float32)
    for k in (1, 4, 9, 200, 1000):
        means = np.zeros((2, len(sizes)))
        for query, (first, last) in enumerate(pairwise(offsets.tolist())):
            if last > first:
                means[:, query] = values[:, first:last][:, :k].astype(float).mean(axis=1)
        for shift, same in ((0.0, True), (5e-7, True), (2e-6, False)):
            for row in (0, 1):
                moved = means.copy()
                moved[row] += shift
                found = mark_unchanged(*values, offsets, k, *moved)
                assert found.tolist() == [False, *[same] * 4]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x, o: mark_unchanged(x, x, o, 0, np.ones(1), np.ones(1)),
            "k: expected an integer of at least 1, got 0",
        ),
        (
            lambda x, o: mark_unchanged(x.astype(float), x, o, 1, np.ones(1), np.ones(1)),
            "similarities: expected dtype float32",
        ),
        (
            lambda x, o: mark_unremembered(x, x, o, [(0, np.ones((2, 3)))]),
            r"remembered: expected arrays of shape \(m, 2\), got \(2, 3\)",
        ),
        (
            lambda x, o: mark_unremembered(x, x, o, [(0, np.ones((2, 2), np.float32))]),
            "remembered: expected dtype float64",
        ),
        (
            lambda x, o: mark_unremembered(x, x, o, [(1, np.ones((2, 2)))]),
            "remembered: expected an integer from 0 to 0, got 1",
        ),
        (
            lambda x, o: mark_unremembered(x, x, o, [3]),
            "remembered: expected pairs of a query and an array, got int",
        ),
        (
            lambda x, o: mark_unremembered(x, x, o, [(0,)]),
            "remembered: expected pairs of a query and an array, got tuple",
        ),
        (
            lambda x, o: mark_unremembered(x, x, o, [(2**70, np.ones((1, 2)))]),
            "remembered: expected an integer from 0 to 0",
        ),
        (
            lambda x, o: refuse_newcomers(None, o, np.ones(1, np.int64), 1),
            "is_new: expected a numpy array",
        ),
        (
            lambda x, o: refuse_newcomers(x > 0, o, np.ones(1, np.int64), 1, most_of_source=1),
            "most_of_source: expected None without sources, got 1",
        ),
        (
            lambda x, o: refuse_newcomers(x > 0, o, np.ones(2, np.int64), 1),
            "most_in_pool: expected 1 values, as many as queries, got 2",
        ),
        (
            lambda x, o: refuse_newcomers(x, o, np.ones(1, np.int64), 1),
            "is_new: expected dtype bool",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(np.array([0.9, 0.8], np.float32), np.array([0, 2]))


def test_a_source_that_nothing_can_be_equal_to_is_refused():
    for source in (["b"], ("a", ["b"])):
        pool = texts_pool([0.9, 0.8], [0.0, 0.0], "ab", source=["a", source])
        with pytest.raises(InputError, match=r"metadata\['source'\]: expected texts, numbers or"):
            refused(pool, np.array([True, True]), k=2, share=0.5, per_source=1)
        marks, _ = refused(pool, np.array([True, False]), k=2, share=0.5, per_source=1)
        assert marks.tolist() == [False, False]  # of others than newcomers none is read
