"""RAGDefender: how many candidates are adversarial, and which."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_baselines
from baseline_pools import AXIS, check_promises, shuffled, text_pool
from epibias.defenses import RAGDefender, lexical
from epibias.defenses.ragdefender import by_concentration, most_alike
from epibias.errors import InputError
from epibias.pool import CandidatePool
from pools import make_pool


def number_by_reference(one, defense):
    if defense.grouping == "concentration":
        return reference_baselines.ragdefender_by_concentration(one.embeddings)
    terms = [reference_baselines.terms_of(t, lexical.STOP_WORDS) for t in one.passage_texts]
    return reference_baselines.ragdefender_by_clusters(one.embeddings, terms, defense.n_terms)


@pytest.mark.parametrize(
    "defense",
    [
        RAGDefender(4),
        RAGDefender(4, n_terms=3, power=1.0),
        RAGDefender(4, grouping="concentration"),
        RAGDefender(4, grouping="concentration", power=3.0),
    ],
    ids=lambda defense: defense.name,
)
def test_it_is_the_references(defense):
    numbers = set()
    for seed in range(6):
        pool = text_pool(seed, [13, 8, 1, 4, 2, 3])
        chosen = defense.select(pool)
        for query in range(6):
            one = pool[query]
            number = number_by_reference(one, defense)
            numbers.add(number)
            dropped = reference_baselines.ragdefender_drops(one.embeddings, number, defense.power)
            assert chosen.diagnostics["n_dropped"][query] == number
            assert chosen.dropped[query].tolist() == one.indices[dropped].tolist()
            left = [i for i in range(len(one.indices)) if i not in dropped][:4]
            assert chosen.positions_of(query).tolist() == left
    assert len(numbers) > 3


def planar(degrees, texts=None):
    """Passages at angles to the query, in two of the six dimensions."""
    angles = np.radians(degrees)
    rows = np.zeros((len(angles), 6), np.float32)
    rows[:, 0], rows[:, 1] = np.cos(angles), np.sin(angles)
    query = np.eye(1, 6, dtype=np.float32)
    return CandidatePool.from_vectors(
        query, rows, AXIS, passage_texts=None if texts is None else [texts]
    )


def test_clusters_and_terms_by_hand():
    # Passages at these angles: clusters of 3 and 2.
    degrees = [1, 1.8, 3, 60, 61.5]
    # "tax fraud crime" in three texts: with m = 3 leading terms those three, held by 3 of 5
    # passages, more than ⌊5/2⌋ = 2: the larger cluster, N = 3.
    many = ["tax fraud crime", "tax fraud crime", "tax fraud crime", "rail", "farm"]
    chosen = RAGDefender(5, n_terms=3).select(planar(degrees, many))
    # N(N−1)/2 = 3 pairs: 0–1 (0.8 degrees), 1–2 (1.2), 3–4 (1.5); 0–2 is 2 apart.
    # Sums of cos²: passage 1: 1.9994; 0: .9998; 2: .9996; 3 and 4: .9993.
    assert chosen.dropped[0].tolist() == [0, 1, 2]
    assert chosen[0].tolist() == [3, 4]
    # With the terms in two passages only, 2 ≤ 2: the smaller cluster, N = 2, one pair: 0–1.
    few = ["tax fraud crime", "tax fraud crime", "rail", "farm", "water"]
    chosen = RAGDefender(5, n_terms=3).select(planar(degrees, few))
    assert chosen.dropped[0].tolist() == [0, 1]


def test_concentration_by_hand():
    similarity = np.array(
        [[1, 0.9, 0.8, 0.1], [0.9, 1, 0.7, 0.2], [0.8, 0.7, 1, 0.3], [0.1, 0.2, 0.3, 1]]
    )
    # Means of the others: .6, .6, .6, .2, mean .5; medians: .8, .7, .7, .2, median .7.
    # Above both, strictly: passage 0 alone.
    assert by_concentration(similarity) == 1
    # Released: means with itself .7, .7, .7, .4, mean .625; lower medians .8, .7, .7, .2, their
    # lower median .7; halfway .6625. Either condition: 0, 1, 2; .625 < .7, so N = 3.
    assert by_concentration(similarity, "released") == 3
    # Most similar pairs for N = 3: .9, .8, .7 with weights .81, .64, .49:
    # passage 0: 1.45, 1: 1.30, 2: 1.13, 3: 0.
    assert most_alike(similarity, 3, 2.0).tolist() == [0, 1, 2]
    assert most_alike(similarity, 1, 2.0).tolist() == [0]


def test_negative_similarities_weigh_against():
    # N = 2: one pair; N = 3: all three pairs of three: sums 0: .04 − .25, 1: .04 − .01, 2: −.26.
    similarity = np.array([[1, 0.2, -0.5], [0.2, 1, -0.1], [-0.5, -0.1, 1]])
    assert most_alike(similarity, 2, 2.0).tolist() == [0, 1]
    assert most_alike(similarity, 3, 2.0).tolist() == [0, 1, 2]


def test_the_released_flip_happens_where_nothing_stands_out():
    # All alike: no mean above the mean, so nothing counted and n − 0 = 3 are dropped.
    alike = np.full((3, 3), 0.5) + 0.5 * np.eye(3)
    assert by_concentration(alike) == 0
    assert by_concentration(alike, "released") == 3


def test_one_of_both_conditions_is_enough_for_the_released_count():
    similarity = np.array(
        [[1, 0.4, 0.4, 0.99], [0.4, 1, 0.5, 0.1], [0.4, 0.5, 1, 0.1], [0.99, 0.1, 0.1, 1]]
    )
    # Means with itself .6975, .5, .5, .5475, mean .56125; lower medians .4, .4, .4, .1, their
    # lower median .4; halfway .480625. Passage 0 has the mean alone: counted. .56125 ≥ .4: 4 − 1.
    assert by_concentration(similarity, "released") == 3


def test_released_terms_count_inside_of_words():
    # "tax" leads: two texts have it, and its letters occur in a third.
    texts = ["rail", "tax", "tax", "taxes", "farm"]
    degrees = [1, 2, 60, 61, 62]
    paper = RAGDefender(5, n_terms=1).select(planar(degrees, texts))
    released = RAGDefender(5, n_terms=1, variant="released").select(planar(degrees, texts))
    assert paper.diagnostics["n_dropped"].tolist() == [2]  # 2 ≤ 2: the smaller cluster
    assert released.diagnostics["n_dropped"].tolist() == [3]  # 3 > 2: the larger


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 12), k=st.integers(1, 6))
def test_the_order_in_which_candidates_come_does_not_matter(seed, n, k):
    pool = text_pool(seed, [n])
    order = np.random.default_rng(seed).permutation(n)
    for options in ({}, {"grouping": "concentration"}, {"variant": "released"}):
        defense = RAGDefender(k, **options)
        chosen = defense.select(pool)
        if n:
            np.testing.assert_array_equal(
                defense.select(shuffled(pool, 0, order)).indices, chosen.indices
            )
        number = int(chosen.diagnostics["n_dropped"][0])
        assert chosen.n_selected[0] == min(k, n - number)
        assert number <= n


@pytest.mark.parametrize("defense", [RAGDefender(3), RAGDefender(3, grouping="concentration")])
def test_it_keeps_the_promises_of_the_protocol(defense):
    check_promises(defense)
    assert pickle.loads(pickle.dumps(defense)) == defense  # noqa: S301  our own bytes


def test_texts_without_a_content_word():
    pool = planar([1, 2, 50], ["the", "of a", "is"])
    assert RAGDefender(3).select(pool).diagnostics["n_dropped"].tolist() == [1]


def test_names_tell_what_differs():
    assert RAGDefender().name == "ragdefender"
    assert RAGDefender(grouping="concentration").name == "ragdefender[grouping=concentration]"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RAGDefender(0), "k: expected an integer of at least 1, got 0"),
        (lambda: RAGDefender(grouping="x"), "grouping: expected 'clustering' or 'concentration'"),
        (lambda: RAGDefender(n_terms=0), "n_terms: expected an integer of at least 1, got 0"),
        (lambda: RAGDefender(power=0), "power: expected a finite number"),
        (lambda: RAGDefender(variant="x"), "variant: expected 'paper' or 'released', got 'x'"),
        (
            lambda: RAGDefender(grouping="concentration", n_terms=4),
            "n_terms: expected 5 with grouping='concentration', got 4",
        ),
        (
            lambda: RAGDefender().select(make_pool([[0.5]], [[0.1]])),
            "pool.passage_texts: expected the passages' texts, which ragdefender reads",
        ),
    ],
)
def test_wrong_parameters_and_pools_are_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(message)
