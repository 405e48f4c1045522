"""SMART: a determinantal point process of relevance, similarity and contradiction."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_baselines
from baseline_pools import AXIS, check_promises, shuffled, text_pool
from epibias.defenses import SMART
from epibias.defenses.smart import conflict_kernel, positive_semidefinite
from epibias.errors import InputError
from epibias.nli import FixedNLI
from epibias.pool import CandidatePool
from pools import make_pool


def by_hash(premise, hypothesis):
    """Probabilities that follow from the two texts and depend on their order."""
    numbers = np.random.default_rng(zlib.crc32(f"{premise}|{hypothesis}".encode())).random(3) ** 4
    return numbers / numbers.sum()


@pytest.mark.parametrize(
    ("gamma", "weight"), [(1.0, 0.5), (0.0, 0.5), (4.0, 0.5), (1.0, 0.0), (2.0, 0.7)]
)
def test_it_is_the_references(gamma, weight):
    pool = text_pool(3, [10, 6, 1, 3, 2], copies=0.1)
    nli = FixedNLI(by_hash)
    chosen = SMART(nli, 4, conflict_weight=gamma, relevance_weight=weight).select(pool)
    for query in range(5):
        one = pool[query]
        texts = one.passage_texts
        expected = reference_baselines.smart(
            one.similarities,
            one.embeddings,
            [[float(np.float32(by_hash(a, b)[2])) for b in texts] for a in texts],
            k=4,
            gamma=gamma,
            weight=weight,
        )
        assert chosen.positions_of(query).tolist() == expected


def test_the_kernel_by_hand():
    # r = 1 and .5; cosine .8; C = ½ (1 + 0) = .5; γ = ln 4: exp(−γ · .5) = ½, so K01 = .4.
    # L01 = 1 · .4 · .5 = .2, L00 = 1, L11 = .25.
    similarity = np.array([[1, 0.8], [0.8, 1]])
    conflicts = np.array([[0, 0.5], [0.5, 0]])
    kernel = conflict_kernel(np.array([1, 0.5]), similarity, conflicts, np.log(4), 0.5)
    np.testing.assert_allclose(kernel, [[1, 0.2], [0.2, 0.25]], rtol=1e-14)
    # w = ⅔: q = r², so L01 = .4 · .25 = .1 and L11 = 1/16. A negative relevance counts as 0.
    kernel = conflict_kernel(np.array([1, 0.5]), similarity, conflicts, np.log(4), 2 / 3)
    np.testing.assert_allclose(kernel, [[1, 0.1], [0.1, 0.0625]], rtol=1e-12)
    kernel = conflict_kernel(np.array([1, -0.9]), similarity, conflicts, 1.0, 0.5)
    np.testing.assert_allclose(kernel, [[1, 0], [0, 0]], atol=1e-15)
    assert conflict_kernel(np.array([-0.5]), np.eye(1), np.zeros((1, 1)), 1.0, 0.5).tolist() == [
        [0]
    ]


def test_a_contradiction_repels_by_hand():
    # Cosines to the query: 0: 1; 1 and 2: .8 each, 1–2: .28, 0–1 and 0–2: .8.
    # γ = 2 and only 0 and 1 contradict each other: K01 = .8, K02 = .8 e⁻² = .1083.
    # After 0: gain of 1: .64 (1 − .64) = .2304; of 2: .64 (1 − .0117) = .6325. So 0, 2, 1.
    rows = np.zeros((3, 6), np.float32)
    rows[:, :2] = [[1, 0], [0.8, 0.6], [0.8, -0.6]]
    pool = CandidatePool.from_vectors(
        rows[:1], rows, AXIS, passage_texts=[["it is so", "it is not so", "it may be"]]
    )
    clash = {"it is so", "it is not so"}

    def judge(premise, hypothesis):
        return (0, 0, 1) if {premise, hypothesis} == clash else (0, 1, 0)

    defense = SMART(FixedNLI(judge), 2, conflict_weight=2)
    assert defense.select(pool)[0].tolist() == [0, 2]
    # Without contradictions the two are alike, and the pool's order decides.
    assert SMART(FixedNLI(judge), 2, conflict_weight=0).select(pool)[0].tolist() == [0, 1]


def test_the_repair_by_hand():
    # Eigenvalues 1 ± 2: 3 for (1, 1)/√2 is left: 1.5 everywhere.
    repaired, least = positive_semidefinite(np.array([[1.0, 2], [2, 1]]))
    np.testing.assert_allclose(repaired, np.full((2, 2), 1.5), rtol=1e-14)
    np.testing.assert_array_equal(repaired, repaired.T)
    assert abs(least + 1) < 1e-14
    fine = np.array([[2.0, 1], [1, 2]])
    assert positive_semidefinite(fine)[0] is fine


def test_contradictions_make_kernels_that_need_the_repair():
    # A chain of contradictions 0–1–2 between passages that are nearly alike: about 1 on the
    # diagonal and for the two pairs, e⁻⁴ for 0–2, so the least eigenvalue is about 1 − √2.
    rows = np.ones((3, 6), np.float32) + 0.01 * np.eye(3, 6, dtype=np.float32)
    pool = CandidatePool.from_vectors(
        np.ones((1, 6), np.float32), rows, AXIS, passage_texts=[["a", "b", "c"]]
    )
    nli = FixedNLI(
        lambda premise, hypothesis: (0, 0, 1) if "b" in premise + hypothesis else (0, 1, 0)
    )
    chosen = SMART(nli, 3, conflict_weight=4).select(pool)
    assert abs(chosen.diagnostics["least_eigenvalue"][0] - (1 - np.sqrt(2))) < 0.02
    # What is left: 0 and 2 are nearly independent, 1 is their sum.
    assert len(chosen[0]) == 2


def test_pairs_are_asked_once_each_way_in_few_calls():
    class Counting(FixedNLI):
        calls = 0

        def probabilities(self, premises, hypotheses):
            type(self).calls += 1
            assert len(set(zip(premises, hypotheses, strict=True))) == len(premises)
            return super().probabilities(premises, hypotheses)

    rows = np.eye(4, 6, dtype=np.float32)
    texts = ["a", "b", "c", "d"]
    pool = CandidatePool.from_vectors(
        np.ones((3, 6), np.float32), [rows, rows, rows[:3]], AXIS,
        passage_texts=[texts, texts[::-1], ["a", "e", "a"]],
    )  # fmt: skip
    nli = Counting(by_hash)
    matrices, n_asked = SMART(nli).contradictions(pool)
    # 12 of the first, none new of the second; a–e, e–a, a–a of the third.
    assert (n_asked, nli.n_pairs, Counting.calls) == (15, 15, 1)
    expected = (by_hash("a", "b")[2] + by_hash("b", "a")[2]) / 2
    np.testing.assert_allclose(matrices[0][0, 1], expected, rtol=1e-6)
    np.testing.assert_array_equal(matrices[0], matrices[0].T)


def test_many_pairs_are_asked_in_parts(monkeypatch):
    pool = text_pool(5, [9, 9])
    whole = SMART(FixedNLI(by_hash), 4).select(pool)
    monkeypatch.setattr("epibias.defenses.smart.PAIRS_OF_A_CALL", 7)
    np.testing.assert_array_equal(SMART(FixedNLI(by_hash), 4).select(pool).indices, whole.indices)


def test_fewer_come_back_where_the_determinant_can_grow_no_more():
    rows = np.zeros((4, 6), np.float32)
    rows[:, :2] = [[1, 0.1], [1, 0.1], [1, 0.1], [-1, 0.5]]  # copies; and one that points away
    pool = CandidatePool.from_vectors(
        np.eye(1, 6, dtype=np.float32), rows, AXIS, passage_texts=[["a", "b", "c", "d"]]
    )
    always = FixedNLI(lambda premise, hypothesis: (0, 0, 1))
    chosen = SMART(always, 3).select(pool)
    assert chosen[0].tolist() == [0]
    assert chosen.diagnostics["short"].tolist() == [True]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), k=st.integers(1, 5))
def test_the_order_in_which_candidates_come_does_not_matter(seed, n, k):
    pool = text_pool(seed, [n], copies=0)
    order = np.random.default_rng(seed).permutation(n)
    defense = SMART(FixedNLI(by_hash), k)
    chosen = defense.select(pool)
    np.testing.assert_array_equal(defense.select(shuffled(pool, 0, order)).indices, chosen.indices)
    assert chosen.n_selected[0] <= min(k, n)


def test_it_keeps_the_promises_of_the_protocol():
    nli = FixedNLI(by_hash)
    check_promises(SMART(nli, 3))
    assert SMART(nli) == SMART(nli)
    assert SMART(nli) != SMART(nli, conflict_weight=2)
    assert SMART(nli, conflict_weight=2).name == "smart[conflict_weight=2.0]"
    assert SMART(nli).parameters()["nli"] == {"kind": "fixed", "model": "fixed"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda nli: SMART("nli"), "nli: expected an NLI model, got str"),
        (lambda nli: SMART(nli, 0), "k: expected an integer of at least 1, got 0"),
        (lambda nli: SMART(nli, conflict_weight=-1), "conflict_weight: expected"),
        (lambda nli: SMART(nli, relevance_weight=1), "relevance_weight: expected"),
        (
            lambda nli: SMART(nli).select(make_pool([[0.5]], [[0.1]])),
            "pool.passage_texts: expected the passages' texts, which smart reads",
        ),
    ],
)
def test_wrong_parameters_and_pools_are_refused(make, message):
    with pytest.raises(InputError) as caught:
        make(FixedNLI(by_hash))
    assert str(caught.value).startswith(message)
