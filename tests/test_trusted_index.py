"""Trusted indexes: who is known again by eight numbers, whatever the question."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from epibias.defenses import TiltBound
from epibias.defenses.clean_memory import CleanMemory
from epibias.defenses.newcomers import honest_drift
from epibias.defenses.registry import build_defense
from epibias.defenses.trusted_index import TrustedIndex
from epibias.errors import InputError
from epibias.kernels_trusted import mark_untrusted
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex
from pools import quietly_fitted, unit_rows

DIM = 32
SAME = 1e-3  # as the page says


def pool_of(rng, rows, n_queries=1, texts=None, **columns):
    axis = quietly_fitted(unit_rows(np.random.default_rng(5), 8, DIM))
    queries = unit_rows(rng, n_queries, DIM)
    given = {}
    if texts is not None:
        given = {"query_texts": ["Is it so?"] * n_queries, "passage_texts": [texts] * n_queries}
    if columns:
        given["metadata"] = {name: [values] * n_queries for name, values in columns.items()}
    return CandidatePool.from_vectors(queries, np.stack([rows] * n_queries), axis, **given)


def test_passages_are_known_again_by_any_question_and_scale():
    rng = np.random.default_rng(0)
    index, others = unit_rows(rng, 300, DIM), unit_rows(rng, 20, DIM)
    trusted = TrustedIndex.of(index)
    for rows, expected in ((index[:40], False), (3 * index[40:60], False), (others, True)):
        pool = pool_of(rng, rows, n_queries=3)
        marks = trusted.newcomers(pool, np.ones(3, bool))
        assert marks.tolist() == [expected] * len(marks)
    # What a store keeps in 16 bits is known; what one letter more changes is not.
    half = index[:20].astype(np.float16).astype(np.float32)
    assert not trusted.newcomers(pool_of(rng, half), np.ones(1, bool)).any()
    moved = index[:20] + 0.02 * unit_rows(rng, 20, DIM)
    assert trusted.newcomers(pool_of(rng, moved), np.ones(1, bool)).all()
    # Only the queries asked about.
    marks = trusted.newcomers(pool_of(rng, others, n_queries=3), np.array([False, True, False]))
    assert marks.tolist() == [False] * 20 + [True] * 20 + [False] * 20


def test_a_copy_is_new_unless_it_stood_there_as_often():
    rng = np.random.default_rng(1)
    index = unit_rows(rng, 50, DIM)
    rows = index[[3, 3, 3, 7]]
    once, twice = TrustedIndex.of(index), TrustedIndex.of(index[[*range(50), 3]])
    pool = pool_of(rng, rows)
    assert sorted(once.newcomers(pool, np.ones(1, bool)).tolist()) == [False, False, True, True]
    assert sorted(twice.newcomers(pool, np.ones(1, bool)).tolist()) == [False] * 3 + [True]


def attacked_case(n_injected, texts_of_injected="z"):
    """Clean and attacked pool of one question that nobody remembered, and the whole clean index."""
    rng = np.random.default_rng(11)
    index = unit_rows(rng, 200, DIM)
    query = unit_rows(rng, 1, DIM)
    near = np.argsort(-(index @ query[0]))[:20]
    axis = quietly_fitted(unit_rows(np.random.default_rng(5), 8, DIM))
    injected = query + 0.3 * unit_rows(rng, n_injected, DIM) + 0.8 * axis.axis
    texts = [f"passage {number}" for number in near] + [texts_of_injected] * n_injected

    def pool(rows, texts, numbers):
        return CandidatePool.from_vectors(
            query, rows[None].astype(np.float32), axis, indices=numbers[None],
            query_texts=["Is it so?"], passage_texts=[texts],
        )  # fmt: skip

    clean = pool(index[near], texts[:20], near)
    numbers = np.concatenate([near, 1000 + np.arange(n_injected)])
    return index, clean, pool(np.concatenate([index[near], injected]), texts, numbers)


def test_a_question_that_was_never_asked_is_defended():
    index, clean, attacked = attacked_case(5)
    trusted = TrustedIndex.of(CosineIndex(index))
    plain, guarded = TiltBound(5), TiltBound(5, trusted_index=trusted)
    assert set(plain.select(attacked)[0].tolist()) & {1000, 1001, 1002, 1003, 1004}
    found = guarded.select(attacked)
    assert found[0].tolist() == clean.indices[:5].tolist()
    assert found.diagnostics["known"].tolist() == ["trusted"]
    assert found.diagnostics["n_refused"].tolist() == [5]
    unchanged = guarded.select(clean)
    assert unchanged[0].tolist() == clean.indices[:5].tolist()
    assert unchanged.diagnostics["tilt_after"].tolist() == pytest.approx([0.0], abs=1e-12)


def test_the_trusted_candidates_give_the_echo_limit():
    # One newcomer passes for honest; it says the question, as no trusted candidate does.
    index, clean, attacked = attacked_case(1, "Is it so? It is.")
    trusted = TrustedIndex.of(index)
    silent = TiltBound(5, trusted_index=trusted, bound=10.0)
    assert 1000 in silent.select(attacked)[0].tolist()
    hearing = replace(silent, echo=1.0)
    found = clean.indices[:5].tolist()
    assert hearing.select(attacked)[0].tolist() == found
    assert hearing.select(attacked).diagnostics["n_echo"].tolist() == [1]
    assert hearing.select(attacked, judge_all=True)[0].tolist() == clean.indices[:5].tolist()
    # It holds where it is the only one; where there is another, and many are honest, the larger.
    assert replace(hearing, newcomer_share=0.3).select(attacked)[0].tolist() == found
    many = replace(hearing, newcomer_share=0.3, echo=0.99)
    assert many.select(attacked)[0].tolist() == found
    lenient = replace(many, echo=0.1)  # of the question's letters the newcomer says all
    assert lenient.select(attacked)[0].tolist() == found
    assert TiltBound.of_index(index, 5, bound=10.0) == hearing


def test_the_mean_of_a_selection_with_newcomers_is_bounded():
    index, _, attacked = attacked_case(1)
    free = TiltBound.of_index(index, newcomer_share=0.1, bound=1e9)
    bound = honest_drift(5, 0.1)
    tilted = free.select(attacked).diagnostics["tilt_after"]
    assert abs(tilted) > bound  # the newcomer alone moves it further
    found = replace(free, bound=0.1).select(attacked)
    assert found.diagnostics["tilt_before"].tolist() == tilted.tolist()
    assert abs(found.diagnostics["tilt_after"]) <= bound
    assert found[0].tolist() != free.select(attacked)[0].tolist()
    # What honest newcomers do is left alone, though it is more than the bound asks for.
    shy = replace(free, newcomer_share=0.7)
    assert honest_drift(5, 0.7) > abs(tilted)
    assert replace(shy, bound=0.1).select(attacked)[0].tolist() == shy.select(attacked)[0].tolist()


def test_refused_newcomers_do_not_lift_the_echo_limit():
    # Two pass in the pool and one in a selection: the second says the question, and is refused.
    index, clean, attacked = attacked_case(2, "Is it so? It is.")
    defense = TiltBound(5, trusted_index=TrustedIndex.of(index), bound=10.0, echo=1.0)
    found = defense.select(attacked)
    assert found[0].tolist() == clean.indices[:5].tolist()
    assert (found.diagnostics["n_refused"] + found.diagnostics["n_echo"]).tolist() == [2]


def test_a_memory_beside_an_index_knows_more_and_spares_nobody():
    rng = np.random.default_rng(2)
    index = unit_rows(rng, 30, DIM)
    pool = pool_of(rng, index[:8], texts=list("abcdefgh"))
    elsewhere = TiltBound(3, trusted_index=TrustedIndex.of(index[8:]), newcomer_share=0.0)
    assert elsewhere.select(pool).n_selected.tolist() == [0]
    remembered = replace(elsewhere, memory=CleanMemory.of(pool, 3))
    assert remembered.select(pool)[0].tolist() == pool.indices[:3].tolist()
    # Less similar than all that is remembered: the memory cannot tell, the index can.
    near = pool.restrict([np.arange(4)])
    sighted = replace(elsewhere, memory=CleanMemory.of(near, 3))
    changed = pool.restrict([np.arange(1, 8)])
    found = sighted.select(changed)
    assert found[0].tolist() == pool.indices[1:4].tolist()
    assert found.diagnostics["n_refused"].tolist() == [4]
    alone = replace(sighted, trusted_index=None).select(changed)
    assert alone.diagnostics["n_refused"].tolist() == [0]


def test_of_a_batch_each_question_is_guarded_by_what_is_known_of_it():
    index, clean, attacked = attacked_case(5)
    both = CandidatePool.from_vectors(
        np.concatenate([attacked.query_embeddings] * 2),
        np.stack([attacked.embeddings] * 2),
        quietly_fitted(unit_rows(np.random.default_rng(5), 8, DIM)),
        indices=np.stack([attacked.indices] * 2),
        query_texts=["Is it so?", "Nobody asked this."],
        passage_texts=[list(attacked.passage_texts)] * 2,
    )
    memory = CleanMemory.of(clean, 5)
    expected = clean.indices[:5].tolist()
    guarded = TiltBound(5, memory=memory, trusted_index=TrustedIndex.of(index))
    found = guarded.select(both)
    assert found.diagnostics["known"].tolist() == ["memory", "trusted"]
    assert [found[0].tolist(), found[1].tolist()] == [expected, expected]
    found = TiltBound(5, memory=memory).select(both)
    assert found.diagnostics["known"].tolist() == ["memory", "nothing"]
    assert found[0].tolist() == expected
    assert found[1].tolist() == attacked.indices[:5].tolist()


def test_times_beside_a_memory_are_believed_of_what_it_did_not_see():
    rng = np.random.default_rng(2)
    times = ["2026-01-01"] * 4 + ["2026-03-01"] * 4
    pool = pool_of(rng, unit_rows(rng, 8, DIM), texts=list("abcdefgh"), time=times)
    late = TiltBound(3, trusted_until="2026-02-01", newcomer_share=0.0)
    by_time = late.select(pool).diagnostics["n_refused"].tolist()
    assert by_time == [4]
    memory = CleanMemory.of(pool.restrict([np.arange(3)]), 3)
    changed = pool.restrict([np.arange(1, 8)])
    n_late = sum(one == "2026-03-01" for one in changed.metadata["time"])
    n_late -= sum(one == "2026-03-01" for one in pool.metadata["time"][1:3])  # the memory has them
    found = replace(late, memory=memory).select(changed)
    assert found.diagnostics["n_refused"].tolist() == [n_late]


def test_it_is_recorded_and_made_anew():
    defense = TiltBound(5, trusted_index=TrustedIndex.of(unit_rows(np.random.default_rng(4), 9, 4)))
    assert defense.name == "tilt_bound[trusted_index=9 passages]"
    recorded = defense.parameters()
    assert recorded["trusted_index"]["n_passages"] == 9
    assert len(json.dumps(recorded)) < 600  # which index it is, and none of its numbers
    with pytest.raises(InputError, match="trusted_index: expected a TrustedIndex, or its dim and"):
        build_defense(recorded)
    plain = json.loads(json.dumps(defense.trusted_index.plain()))
    again = build_defense({**recorded, "trusted_index": plain})
    assert again == defense
    assert again.parameters() == recorded
    assert hash(again.trusted_index) == hash(defense.trusted_index)
    assert again != replace(defense, trusted_index=None)
    assert (defense.trusted_index == 3) is False
    with pytest.raises(ValueError, match="read-only"):
        defense.trusted_index.numbers[0] = 0


def test_nothing_unsays_the_index():
    rows = unit_rows(np.random.default_rng(4), 9, DIM)
    with pytest.raises(TypeError, match="multiple values for keyword argument 'trusted_index'"):
        TiltBound.of_index(rows, trusted_index=None)


def test_what_is_none_is_refused():
    rng = np.random.default_rng(6)
    good = TrustedIndex.of(unit_rows(rng, 3, 4))
    plain = good.plain()
    cases = [
        (
            lambda: TrustedIndex(9, np.zeros((0, 8), np.float32)),
            r"numbers: expected shape \(n, 8\)",
        ),
        (
            lambda: TrustedIndex(9, np.zeros((2, 7), np.float32)),
            r"numbers: expected shape \(n, 8\)",
        ),
        (lambda: TrustedIndex(9, np.full((2, 8), np.nan, np.float32)), "expected finite values"),
        (lambda: TrustedIndex(1, np.zeros((2, 1), np.float32)), "dim: expected an integer of at"),
        (lambda: TrustedIndex.of(np.zeros((2, 4), np.float32)), "embeddings: expected"),
        (lambda: TrustedIndex.of(np.ones((2, 4))), "embeddings: expected dtype float32"),
        (
            lambda: TiltBound(5, trusted_index=good, trusted_until="2026-01-01"),
            "trusted_until: expected None beside a trusted_index",
        ),
        (lambda: TiltBound(5, trusted_index=3), "trusted_index: expected a TrustedIndex"),
        (lambda: TiltBound(5, trusted_index={**plain, "dim": "a"}), "trusted_index.dim: expected"),
        (
            lambda: TiltBound(5, trusted_index={**plain, "numbers": "a?"}),
            "trusted_index.numbers: expected base64",
        ),
        (
            lambda: TiltBound(5, trusted_index={**plain, "numbers": "AAAA"}),
            "expected 16 bytes a passage, got 3 bytes",
        ),
        (
            lambda: good.newcomers(pool_of(rng, unit_rows(rng, 5, DIM)), np.ones(1, bool)),
            "pool.embeddings: expected vectors of 4 columns, as the trusted index has, got 32",
        ),
        (
            lambda: mark_untrusted(
                good.table._replace(starts=np.array([0, 1, 3])), good.numbers, np.array([0, 3])
            ),
            "starts: expected 2 values, as many as cells, and one, got 3",
        ),
        (
            lambda: mark_untrusted(good.table, good.numbers[:, :3].copy(), np.array([0, 3])),
            "fingerprints: expected 4 columns, got 3",
        ),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
