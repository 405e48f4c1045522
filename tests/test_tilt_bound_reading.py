"""TiltBound reads what a selection comes to: the selection is that of reading everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_tilt
from epibias import _core
from epibias.defenses import Chain, NoDefense, TiltBound
from epibias.defenses.clean_memory import CleanMemory, CleanRecord, question_key
from epibias.errors import InputError
from epibias.kernels_tilt import EchoTest, bounded_selection, echo_shares
from pools import make_pool

WORDS = [
    "should",
    "shops",
    "close",
    "on",
    "sundays",
    "parks",
    "trams",
    "open",
    "a",
    "of",
    "late",
    "rain",
]


def sentence(rng, n):
    return " ".join(rng.choice(WORDS, n))


def a_pool(seed, n_queries=5, largest=12):
    """Candidates of which the first are one-sided, and say more or less of their question."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, largest + 1, n_queries)
    asked = [sentence(rng, 5) + f" {i}" for i in range(n_queries)]
    x = [-np.sort(-rng.uniform(0.2, 0.9, n)) for n in sizes]
    y = [rng.normal(0, 0.1, n) + 0.2 * (np.arange(n) < n // 2) for n in sizes]
    texts = [
        sentence(rng, int(rng.integers(0, 12)))
        + " "
        + " ".join(question.split()[: rng.integers(6)])
        for question, n in zip(asked, sizes, strict=True)
        for _ in range(n)
    ]
    pool = make_pool(list(x), list(y))
    return replace(pool, query_texts=tuple(asked), passage_texts=tuple(texts)), rng


def definition(pool, query, limit, of_two, tested, centre, width, k):
    """Everything is read, by the oracle; then what is left is exchanged, by the oracle."""
    own = slice(int(pool.offsets[query]), int(pool.offsets[query + 1]))
    held = np.array([
        reference_tilt.echo_share(pool.query_texts[query], text, reference_tilt.triple_numbers)
        for text in pool.passage_texts[own]
    ])  # fmt: skip
    held[~tested[own]] = -np.inf
    if np.isnan(limit):
        held[:] = -np.inf
    elif not np.isnan(of_two) and np.count_nonzero(held[:k] > of_two) > 1:
        limit = of_two
    allowed = ~(held > limit)
    x, y = (values[own].astype(float) for values in (pool.similarities, pool.scores))
    return *reference_tilt.bounded_selection(x, y, centre, width, allowed, k), allowed


def check(seed):
    """Compare one batch; return how many texts were never read, and how many were echoes."""
    pool, rng = a_pool(seed)
    n, k = pool.n_queries, int(rng.integers(1, 7))
    limits, of_two = rng.choice([0.2, 0.4, 0.6, 1.0, np.nan], n), rng.choice([0.3, 0.5, np.nan], n)
    centres, widths = rng.normal(0, 0.03, n), rng.choice([0.0, 0.01, 0.05, np.inf], n)
    given_ = (pool.similarities, pool.scores, pool.offsets, pool.indices, centres, widths, k)
    asked, texts = pool.query_texts, pool.passage_texts
    tested = rng.random(len(texts)) < rng.choice([0.5, 1.0])
    mask = None if tested.all() else tested
    some = bounded_selection(*given_, echoes=EchoTest(asked, texts, limits, of_two, False, mask))
    whole = bounded_selection(*given_, echoes=EchoTest(asked, texts, limits, of_two, True, mask))
    for one, other in zip(some[:3], whole[:3], strict=True):
        assert np.array_equal(one, other)
    for name in ("before", "after", "n_selected", "short"):
        assert np.array_equal(some[7][name], whole[7][name])
    n_read = n_echo = 0
    for query in range(n):
        chosen, before, after, allowed = definition(
            pool, query, limits[query], of_two[query], tested, centres[query], widths[query], k
        )
        starts = [slice(at[query], at[query + 1]) for at in (some[1], some[4], some[6])]
        assert some[2][starts[0]].tolist() == chosen
        assert abs(some[7]["before"][query] - before) <= 2e-15
        assert abs(some[7]["after"][query] - after) <= 2e-15
        assert whole[7]["n_echo"][query] == np.count_nonzero(~allowed) == np.diff(whole[4])[query]
        assert (
            whole[5][whole[6][query] : whole[6][query + 1]].tolist()
            == np.flatnonzero(allowed).tolist()
        )
        kept = set(some[5][starts[2]].tolist())
        assert set(chosen) <= kept <= set(np.flatnonzero(allowed).tolist())
        dropped = some[3][starts[1]].tolist()
        assert len(dropped) == some[7]["n_echo"][query]
        first = int(pool.offsets[query])
        assert set(dropped) <= set(pool.indices[first + np.flatnonzero(~allowed)].tolist())
        n_read += len(kept) + len(dropped)
        n_echo += int(whole[7]["n_echo"][query])
    return len(texts) - n_read, n_echo


def test_a_selection_is_the_one_of_reading_every_text():
    counts = np.array([check(seed) for seed in range(60)])
    assert (counts.sum(axis=0) > 200).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_selection_is_the_one_of_reading_every_text_whatever_the_pool(seed):
    check(seed)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_limits_by_others_are_those_of_reading_every_text(seed):
    """The limits are at least what the first k who are allowed and not tested say."""
    pool, rng = a_pool(seed)
    n, k = pool.n_queries, int(rng.integers(1, 7))
    limits, of_two = rng.choice([0.0, 0.2, 0.6, np.nan], n), rng.choice([0.1, 0.3, np.nan], n)
    by_others = rng.random(n) < 0.7
    tested, may = rng.random((2, len(pool.passage_texts))) < [[0.4], [0.8]]
    centres, widths = rng.normal(0, 0.03, n), rng.choice([0.0, 0.05, np.inf], n)
    given_ = (pool.similarities, pool.scores, pool.offsets, pool.indices, centres, widths, k)
    test = EchoTest(pool.query_texts, pool.passage_texts, limits, of_two, False, tested, by_others)
    found = bounded_selection(*given_, allowed=may, echoes=test)
    whole = bounded_selection(*given_, allowed=may, echoes=test._replace(every_candidate=True))
    assert np.array_equal(found[2], whole[2])
    said = echo_shares(pool.query_texts, pool.passage_texts, pool.offsets, np.arange(n))
    for query in range(n):
        own = slice(int(pool.offsets[query]), int(pool.offsets[query + 1]))
        least = max([0.0, *said[own][may[own] & ~tested[own]][:k]]) if by_others[query] else 0.0
        held = np.where(tested[own], said[own], -np.inf)
        limit, two = max(limits[query], least), max(of_two[query], least)
        if np.isnan(limits[query]):
            limit = np.inf
        elif not np.isnan(of_two[query]) and np.count_nonzero(held[:k] > two) > 1:
            limit = two
        x, y = (values[own].astype(float) for values in (pool.similarities, pool.scores))
        allowed = may[own] & ~(held > limit)
        expected, *_ = reference_tilt.bounded_selection(
            x, y, centres[query], widths[query], allowed, k
        )
        assert found[2][found[1][query] : found[1][query + 1]].tolist() == expected


def test_many_echoes_that_would_be_let_in_are_all_struck_off():
    question = "Should shops close on Sundays?"
    x = np.linspace(0.9, 0.3, 40)
    y = np.where(np.arange(40) < 2, 0.5, -0.5)  # each of the others would bring the mean back
    texts = ["Yes.", "Open.", *[question] * 37, "Trams."]
    pool = replace(make_pool([x], [y]), query_texts=(question,), passage_texts=tuple(texts))
    record = {question_key(question): CleanRecord(0.0, 1.0, 0.5, 0.3)}
    defense = TiltBound(2, echo=1.0, memory=CleanMemory(record, 2))
    chosen = defense.select(pool)
    assert chosen[0].tolist() == [0, 39]
    assert chosen.diagnostics["n_echo"].tolist() == [37]
    few = replace(pool, passage_texts=("Yes.", "Open.", question, "Trams.", *[question] * 36))
    chosen = defense.select(few)
    assert (chosen[0].tolist(), chosen.diagnostics["n_echo"].tolist()) == ([0, 3], [1])
    assert defense.select(few, judge_all=True).diagnostics["n_echo"].tolist() == [37]


def test_a_later_defence_gets_no_echo_that_nobody_read():
    question = "Should shops close on Sundays?"
    texts = ["Trams.", "Parks.", question, "Rain."]
    pool = replace(
        make_pool([[0.9, 0.8, 0.7, 0.6]], [[0.0, 0.1, 0.2, 0.3]]),
        query_texts=(question,),
        passage_texts=tuple(texts),
    )
    defense = TiltBound(2, echo=0.5)
    alone = defense.select(pool)
    assert (alone[0].tolist(), alone.kept[0].tolist()) == ([0, 1], [0, 1])
    assert alone.diagnostics["n_echo"].tolist() == [0]
    chained = Chain([defense, NoDefense(3)]).select(pool)
    assert (chained[0].tolist(), chained.dropped[0].tolist()) == ([0, 1, 3], [2])
    assert chained.diagnostics["0.n_echo"].tolist() == [1]


def test_threads_and_batches_do_not_matter_nor_texts_that_take_the_interpreter_to_read():
    pool, rng = a_pool(3, n_queries=300)
    texts = [
        f"{text} é\u0301ß \u200b" if i % 3 else text for i, text in enumerate(pool.passage_texts)
    ]
    limits, of_two = np.full(300, 0.4), np.full(300, 0.3)
    centres, widths = rng.normal(0, 0.03, 300), np.full(300, 0.01)

    def run(which):
        own = slice(int(pool.offsets[which.start]), int(pool.offsets[which.stop]))
        return bounded_selection(
            pool.similarities[own],
            pool.scores[own],
            pool.offsets[which.start : which.stop + 1] - pool.offsets[which.start],
            pool.indices[own],
            centres[which],
            widths[which],
            5,
            echoes=EchoTest(pool.query_texts[which], texts[own], limits[which], of_two[which]),
        )

    threads, found = _core.n_threads(), []
    try:
        for n_threads in (1, 2, 3):
            _core.set_n_threads(n_threads)
            found.append(run(slice(0, 300)))
    finally:
        _core.set_n_threads(threads)
    for other in found[1:]:
        assert all(map(np.array_equal, found[0][:7], other[:7]))
        assert np.array_equal(found[0][7]["n_echo"], other[7]["n_echo"])
    starts = found[0][1]
    for query in range(0, 300, 20):
        alone = run(slice(query, query + 1))
        assert alone[2].tolist() == found[0][2][starts[query] : starts[query + 1]].tolist()
        assert alone[7]["n_echo"][0] == found[0][7]["n_echo"][query]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questions": ["a", "b"]}, "questions: expected 1 texts, as many as queries, got 2"),
        ({"questions": [5]}, r"questions: expected texts, got int \(row 0\)"),
        ({"passages": ["a"]}, "passages: expected 2 texts, as many as similarities, got 1"),
        ({"passages": ["a", None]}, r"passages: expected texts, got NoneType \(row 1\)"),
        ({"passages": "ab"}, "passages: expected a sequence of texts, got str"),
        ({"limits": np.zeros(2)}, "limits: expected 1 values, as many as queries, got 2"),
        ({"limits_of_two": np.zeros(2)}, "limits_of_two: expected 1 values, as many as queries"),
        ({"limits": np.zeros(1, np.float32)}, "limits: expected dtype float64"),
    ],
)
def test_refused(change, message):
    test = EchoTest(["a?"], ["b", "c"], np.full(1, 0.5), np.full(1, np.nan))
    one = np.array([0.9, 0.8], np.float32)
    with pytest.raises(InputError, match=message):
        bounded_selection(
            one, one, np.array([0, 2]), np.arange(2), np.zeros(1), np.zeros(1), 2,
            echoes=test._replace(**change),
        )  # fmt: skip


def test_calibrated_limits_leave_out_the_same_with_and_without_reading_all():
    pool, _ = a_pool(9, n_queries=40, largest=20)
    full = np.flatnonzero(pool.sizes >= 5)
    pool = pool.restrict(
        [np.arange(n) if i in full else np.arange(0) for i, n in enumerate(pool.sizes)]
    )
    defense = TiltBound(5, echo=0.6, echo_of_two=0.4)
    some, whole = defense.select(pool), defense.select(pool, judge_all=True)
    assert np.array_equal(some.positions, whole.positions)
    held = echo_shares(pool.query_texts, pool.passage_texts, pool.offsets, np.arange(40))
    above = [held[a:b] for a, b in zip(pool.offsets, pool.offsets[1:], strict=False)]
    limits = [0.4 if (part[:5] > 0.4).sum() > 1 else 0.6 for part in above]
    counts = [int((part > limit).sum()) for part, limit in zip(above, limits, strict=True)]
    assert whole.diagnostics["n_echo"].tolist() == counts
    assert 0 < sum(some.diagnostics["n_echo"]) < sum(counts)
