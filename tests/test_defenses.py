"""NoDefense, MMR and Chain; what every defence promises."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import reference
from epibias.defenses import MMR, BiasDef, Chain, Defense, NoDefense
from epibias.errors import InputError
from epibias.pool import CandidatePool
from pools import make_pool, opposed_anchors, quietly_fitted, random_lists, unit_rows

DEFENSES = [
    NoDefense(4),
    MMR(4, relevance_weight=0.3),
    BiasDef(4),
    BiasDef(4, side="auto", mitigation="mahalanobis", fill="refill"),
    BiasDef.printed(4),
    Chain([BiasDef(8), MMR(4)]),
]


def vector_pool(seed, sizes, dim=6):
    rng = np.random.default_rng(seed)
    axis = quietly_fitted(opposed_anchors(seed, dim=dim)[0])
    vectors = [unit_rows(rng, n, dim) for n in sizes]
    return CandidatePool.from_vectors(unit_rows(rng, len(sizes), dim), vectors, axis)


@pytest.mark.parametrize("defense", DEFENSES, ids=lambda defense: defense.name)
def test_every_defence_keeps_the_promises_of_the_protocol(defense):
    assert isinstance(defense, Defense)
    json.dumps(defense.parameters())
    assert pickle.loads(pickle.dumps(defense)) == defense  # noqa: S301  our own bytes
    pool = vector_pool(1, [20, 3, 0, 12, 20, 1])
    chosen, again = defense.select(pool), defense.select(pool)
    assert len(chosen) == 6
    np.testing.assert_array_equal(chosen.indices, again.indices)
    for query in range(6):
        positions = chosen.positions_of(query)
        assert chosen[query].tolist() == pool[query].indices[positions].tolist()
        assert len(set(positions.tolist())) == len(positions) <= 4
        assert chosen.diagnostics["short"][query] == (len(positions) < 4)
        assert chosen.diagnostics["n_selected"][query] == len(positions)
        # Queries do not influence each other.
        alone = defense.select(pool[query])
        assert alone[0].tolist() == chosen[query].tolist()
        assert alone.dropped[0].tolist() == chosen.dropped[query].tolist()


def test_no_defence_takes_the_most_similar():
    pool = vector_pool(2, [20, 2])
    chosen = NoDefense(5).select(pool)
    assert chosen.positions_of(0).tolist() == [0, 1, 2, 3, 4]
    assert chosen.positions_of(1).tolist() == [0, 1]  # field case 3: never padded
    assert [len(dropped) for dropped in chosen.dropped] == [0, 0]


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_mmr_is_the_references(weight):
    pool = vector_pool(3, [20, 7, 1, 20, 15])
    chosen = MMR(5, weight).select(pool)
    for query in range(5):
        one = pool[query]
        k = min(5, len(one.indices))
        expected = reference.mmr(one.similarities, one.embeddings, k, weight)
        assert chosen.positions_of(query).tolist() == expected.tolist()


def test_the_weight_is_relevance_at_one_and_diversity_at_zero():  # field case 1
    pool = vector_pool(4, [20])
    assert MMR(5, 1.0).select(pool)[0].tolist() == NoDefense(5).select(pool)[0].tolist()
    similarities = {}
    for weight in (0.0, 0.1, 0.9, 1.0):
        positions = MMR(5, weight).select(pool).positions
        rows = reference.unit_rows(pool.embeddings[positions])
        similarities[weight] = (
            pool.similarities[positions].mean(),
            (rows @ rows.T)[np.triu_indices(5, 1)].mean(),
        )
    # No greedy rule is monotone in between; an inverted or ignored weight fails all four.
    for diverse, relevant in ((0.0, 1.0), (0.1, 0.9)):
        assert similarities[diverse][0] < similarities[relevant][0]
        assert similarities[diverse][1] < similarities[relevant][1]


def test_mmr_prefers_the_different_passage_to_the_near_copy():  # field case 2
    rows = np.array(
        [[0.9, 0.44, 0, 0], [0.88, 0.47, 0, 0], [0.7, 0, 0.71, 0], [0.65, 0, 0, 0.76]], np.float32
    )
    query = np.array([[1, 0, 0, 0]], np.float32)
    axis = quietly_fitted(rows)
    pool = CandidatePool.from_vectors(query, rows, axis)
    assert MMR(3, 0.5).select(pool)[0].tolist() == [0, 2, 3]


def test_a_zero_row_never_reaches_a_reranker():  # field case 6
    rows = np.array([[1, 0], [0.5, 0.5], [0, 0]], np.float32)
    axis = quietly_fitted(rows[:2])
    with pytest.raises(InputError, match=r"^candidate_embeddings: .*row 2"):
        CandidatePool.from_vectors(rows[:1], rows, axis)


def test_more_than_the_pool_holds_gives_each_once():  # field case 11
    chosen = MMR(50).select(vector_pool(5, [12]))
    assert sorted(chosen[0].tolist()) == list(range(12))
    assert chosen.diagnostics["short"].tolist() == [True]


def test_a_chain_runs_each_on_what_is_left():
    pool = vector_pool(6, [20, 9, 0])
    first, second = BiasDef(8, min_kept=4), MMR(3)
    chosen = Chain([first, second]).select(pool)
    after_first = first.select(pool)
    alone = second.select(pool.restrict(after_first.kept))
    for query in range(3):
        assert chosen[query].tolist() == alone[query].tolist()
        assert chosen.dropped[query].tolist() == after_first.dropped[query].tolist()
        positions = chosen.positions_of(query)
        assert pool[query].indices[positions].tolist() == chosen[query].tolist()
    assert (
        chosen.diagnostics["0.threshold"].tolist() == after_first.diagnostics["threshold"].tolist()
    )
    assert chosen.diagnostics["1.n_selected"].tolist() == chosen.n_selected.tolist()


def test_a_chain_of_filters_collects_what_each_dropped():
    rng = np.random.default_rng(7)
    pool = make_pool(*random_lists(rng, 6, low=20, high=30))
    chain = Chain([BiasDef(12), BiasDef(5, criterion="mi")])
    chosen = chain.select(pool)
    first = BiasDef(12).select(pool)
    second = BiasDef(5, criterion="mi").select(pool.restrict(first.kept))
    for query in range(6):
        expected = [*first.dropped[query].tolist(), *second.dropped[query].tolist()]
        assert chosen.dropped[query].tolist() == expected
        assert not set(expected) & set(chosen[query].tolist())
    assert sum(len(dropped) for dropped in chosen.dropped) > 0


def test_a_filter_passes_on_all_that_it_kept_and_is_no_weaker_in_a_chain():
    pool = vector_pool(9, [40] * 12)
    filtered = BiasDef(k=5).select(pool)
    chosen = Chain([BiasDef(k=5), MMR(k=5)]).select(pool)
    n_kept = filtered.diagnostics["n_kept"]
    n_dropped = [len(dropped) for dropped in filtered.dropped]
    assert [len(dropped) for dropped in chosen.dropped] == n_dropped == (40 - n_kept).tolist()
    assert [len(kept) for kept in filtered.kept] == n_kept.tolist()
    assert (n_kept > 5).sum() > 6  # there was more to pass on than the five
    assert min(n_dropped) > 0
    for query in range(12):
        reranked = MMR(k=5).select(pool[query].restrict([filtered.kept[query]]))
        assert chosen[query].tolist() == reranked[0].tolist()
        assert not set(chosen[query].tolist()) & set(filtered.dropped[query].tolist())
    # MMR chooses beyond the five most similar of what was kept.
    assert any(set(a) != set(b) for a, b in zip(chosen, filtered, strict=True))


def test_what_was_put_back_by_refill_is_passed_on():
    x = np.linspace(0.9, 0.1, 10, dtype=np.float32)
    pool = make_pool([x], [np.where(np.arange(10) < 7, np.float32(0.5), np.float32(0))])
    short = BiasDef(5, min_kept=1)
    refilled = BiasDef(5, min_kept=1, fill="refill")
    assert short.select(pool).kept[0].tolist() == [7, 8, 9]
    assert refilled.select(pool).kept[0].tolist() == [0, 1, 7, 8, 9]
    assert Chain([short, NoDefense(5)]).select(pool)[0].tolist() == [7, 8, 9]
    assert Chain([refilled, NoDefense(5)]).select(pool)[0].tolist() == [0, 1, 7, 8, 9]


def test_selectors_pass_on_what_they_selected():
    pool = vector_pool(10, [20, 3])
    for selector in (NoDefense(6), MMR(6, 0.3)):
        chosen = selector.select(pool)
        for query in range(2):
            assert chosen.kept[query].tolist() == sorted(chosen.positions_of(query).tolist())
        alone = BiasDef(4).select(pool.restrict(chosen))
        np.testing.assert_array_equal(
            Chain([selector, BiasDef(4)]).select(pool).indices, alone.indices
        )


def test_a_chain_in_a_chain_passes_on_what_its_last_kept():
    pool = vector_pool(11, [30, 20, 0])
    flat = Chain([NoDefense(25), BiasDef(4), MMR(4)]).select(pool)
    nested = Chain([Chain([NoDefense(25), BiasDef(4)]), MMR(4)]).select(pool)
    for name in ("indices", "positions", "offsets"):
        np.testing.assert_array_equal(getattr(nested, name), getattr(flat, name))
    inner = Chain([NoDefense(25), BiasDef(4)]).select(pool)
    for query in range(3):
        assert set(inner.positions_of(query).tolist()) <= set(inner.kept[query].tolist())
        gone = set(inner.dropped[query].tolist())
        assert not gone & set(pool[query].indices[inner.kept[query]].tolist())


@pytest.mark.parametrize("defense", [NoDefense(7), MMR(7), BiasDef(7), BiasDef.printed(7)])
def test_the_k_of_a_defence_counts_and_not_that_of_the_pool(defense):
    rng = np.random.default_rng(12)
    similarities, scores = rng.uniform(0, 1, (3, 20)), 0.1 * rng.standard_normal((3, 20))
    small, large = (make_pool(similarities, scores, k=k) for k in (2, 15))
    chosen = defense.select(small)
    np.testing.assert_array_equal(chosen.indices, defense.select(large).indices)
    assert chosen.n_selected.max() == 7
    assert chosen.diagnostics["short"].tolist() == (chosen.n_selected < 7).tolist()


def test_a_chain_of_one_and_a_chain_in_a_chain_are_their_members():
    pool = vector_pool(8, [20, 5])
    plain = BiasDef(4).select(pool)
    for chain in (Chain([BiasDef(4)]), Chain([Chain([BiasDef(4)]), NoDefense(4)])):
        chosen = chain.select(pool)
        np.testing.assert_array_equal(chosen.indices, plain.indices)
        np.testing.assert_array_equal(chosen.positions, plain.positions)


def test_names_and_parameters_tell_defences_apart():
    assert NoDefense().name == "none"
    assert MMR().name == "mmr"
    assert MMR(relevance_weight=0.7).name == "mmr[relevance_weight=0.7]"
    chain = Chain([BiasDef(10, gate=0.1), MMR()])
    assert chain.name == "biasdef[gate=0.1] > mmr"
    assert [part["defense"] for part in chain.parameters()["defenses"]] == ["biasdef", "mmr"]
    assert Chain([MMR(5)]) == Chain((MMR(5),))
    assert Chain([MMR(5)]) != Chain([MMR(6)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NoDefense(0), "k: expected an integer of at least 1, got 0"),
        (lambda: MMR(2.5), "k: expected an integer of at least 1, got 2.5"),
        (lambda: MMR(2, 1.5), "relevance_weight: expected a finite number from 0 to 1, got 1.5"),
        (lambda: Chain([]), "defenses: expected at least one defence, got none"),
        (lambda: Chain([MMR(), "mmr"]), "defenses: expected a defence, got str (number 1)"),
    ],
)
def test_wrong_parameters_are_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message
