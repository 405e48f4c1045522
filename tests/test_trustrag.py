"""TrustRAG's clusters: which of two is dropped, and which near-copies."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_baselines
from baseline_pools import AXIS, check_promises, shuffled, text_pool
from epibias.defenses import TrustRAGClusters
from epibias.defenses.trustrag import standardised
from epibias.errors import InputError
from epibias.pool import CandidatePool
from pools import make_pool


def standardised_by_reference(rows):
    rows = np.asarray(rows, np.float64)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return rows / np.sqrt((rows**2).sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("spread", "options"),
    [
        (0.6, {}),
        (0.6, {"similarity_threshold": 0.6}),
        (0.25, {"overlap_threshold": 0.4}),
        (0.25, {"precheck": False}),
        (0.1, {"precheck": False, "overlap_threshold": 0.5}),
    ],
)
def test_it_is_the_references(spread, options):
    names = {"similarity_threshold": "similarity", "overlap_threshold": "overlap"}
    kinds = set()
    for seed in range(8):
        pool = text_pool(seed, [9, 5, 3, 2, 1, 7], spread=spread)
        chosen = TrustRAGClusters(4, **options).select(pool)
        for query in range(6):
            one = pool[query]
            halves = [[0], [1]]
            if len(one.indices) > 2:
                points = standardised_by_reference(one.embeddings)
                halves = reference_baselines.best_halves(points)[1:]
            expected = reference_baselines.trustrag(
                one.embeddings,
                one.passage_texts,
                halves,
                **{names.get(name, name): value for name, value in options.items()},
            )
            assert chosen.dropped[query].tolist() == one.indices[expected].tolist()
            kinds.add(len(expected))
    assert len(kinds) > 2


def planar(degrees, texts):
    """Passages at angles to the query, in two of the six dimensions."""
    rows = np.zeros((len(degrees), 6), np.float32)
    rows[:, 0], rows[:, 1] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return CandidatePool.from_vectors(
        np.eye(1, 6, dtype=np.float32), rows, AXIS, passage_texts=[texts]
    )


COPY, OTHER = "a tax on land is fair", "a tax on land is unfair"  # 5 of 6 words: ROUGE-L 5/6
APART = ["rail first", "farm prices", "water law"]


@pytest.mark.parametrize(
    ("degrees", "texts", "gone"),
    [
        # cos 10° = .985, mean over 0, 5, 10: .9923 > .88. 60 and 100: cos 40° = .766 < .88.
        # The tighter goes; of the looser nothing overlaps.
        ([0, 5, 10, 60, 100], [COPY, OTHER, *APART], [0, 1, 2]),
        # Both tight: cos 5° = .996 within 60 and 65. All go.
        ([0, 5, 10, 60, 65], [COPY, OTHER, *APART], [0, 1, 2, 3, 4]),
        # Neither: 0, 40 (.766) and 90, 130 (.766): near-copies within each alone.
        ([0, 40, 90, 130], [COPY, APART[0], OTHER, APART[1]], []),
        ([0, 40, 90, 130], [COPY, OTHER, APART[0], APART[1]], [0, 1]),
        # The tighter one and a pair of near-copies in the looser.
        ([0, 5, 60, 100], [APART[0], APART[1], COPY, OTHER], [0, 1, 2, 3]),
        # A single one beside a tight cluster (cos 80° = .17 with its first): the others go.
        ([0, 4, 80], [COPY, OTHER, APART[0]], [0, 1]),
        # A single one beside a loose cluster (0–35: .819): the single one goes.
        ([0, 35, 130], [COPY, OTHER, APART[0]], [2]),
        # A single one near a tight cluster: cos 20° = .94 > .88 with its first; all go.
        ([0, 4, 20], [COPY, OTHER, APART[0]], [0, 1, 2]),
        # Two single ones, one alone, nothing that overlaps: all stay.
        ([0, 2], [COPY, OTHER], []),
        ([0], [COPY], []),
        ([0, 5, 10, 60, 100], [COPY, "rent", *APART], []),
    ],
)
def test_the_cases_by_hand(degrees, texts, gone):
    chosen = TrustRAGClusters(5).select(planar(degrees, texts))
    assert chosen.dropped[0].tolist() == gone
    assert chosen[0].tolist() == [i for i in range(len(degrees)) if i not in gone]


def test_equal_embeddings_are_one_cluster():
    pool = planar([30, 30, 30], [COPY, OTHER, APART[0]])
    assert TrustRAGClusters(3).select(pool).dropped[0].tolist() == [0, 1, 2]
    assert TrustRAGClusters(3, similarity_threshold=1).select(pool).dropped[0].tolist() == []


def test_the_released_pass_by_hand():
    # Two loose clusters of three: at 0, 40, 80 and at 200, 240, 280 degrees (in the pool's order
    # 0, 40, 80, 280, 240, 200). Within the first, "a b" joins 0 and 1, "c d" joins 0 and 2.
    # Paper: all three go. Released: 0 goes with the first later one, 1; 2 goes, too, because it
    # overlaps 0, the first that went.
    # Within the second "k l" joins 3 and 4, "n o" joins 4 and 5. Paper: all three. Released: 3
    # goes with 4; 5 overlaps 4 alone, which is not the first that went, and stays.
    texts = ["a b c d", "a b x y", "c d v w", "k l m q", "k l n o", "n o s t"]
    degrees = [0, 40, 80, 280, 240, 200]
    options = {"similarity_threshold": 0.9, "precheck": False}
    gone = {}
    for variant in ("paper", "released"):
        chosen = TrustRAGClusters(6, variant=variant, **options).select(planar(degrees, texts))
        gone[variant] = sorted(chosen.dropped[0].tolist())
    assert gone == {"paper": [0, 1, 2, 3, 4, 5], "released": [0, 1, 2, 3, 4]}


def test_standardised_columns_and_rows_by_hand():
    # Column 0: 1, 3, 5: mean 3, deviation √(8/3); column 1 does not vary. Rows of length 1 or 0.
    assert standardised(np.array([[1, 7], [3, 7], [5, 7]], np.float32)).tolist() == [
        [-1, 0], [0, 0], [1, 0],
    ]  # fmt: skip
    rows = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    np.testing.assert_allclose(standardised(rows), standardised_by_reference(rows), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 10), k=st.integers(1, 6))
def test_the_order_in_which_candidates_come_does_not_matter(seed, n, k):
    pool = text_pool(seed, [n])
    order = np.random.default_rng(seed).permutation(n)
    for options in ({}, {"variant": "released"}):
        defense = TrustRAGClusters(k, **options)
        chosen = defense.select(pool)
        again = defense.select(shuffled(pool, 0, order))
        np.testing.assert_array_equal(again.indices, chosen.indices)
        assert chosen.n_selected[0] == min(k, n - len(chosen.dropped[0]))


def test_it_keeps_the_promises_of_the_protocol():
    for defense in (TrustRAGClusters(3), TrustRAGClusters(3, precheck=False)):
        check_promises(defense)
    assert pickle.loads(pickle.dumps(defense)) == defense  # noqa: S301  our own bytes
    assert defense.name == "trustrag[precheck=False]"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrustRAGClusters(0), "k: expected an integer of at least 1, got 0"),
        (lambda: TrustRAGClusters(similarity_threshold=2), "similarity_threshold: expected"),
        (lambda: TrustRAGClusters(overlap_threshold=-0.1), "overlap_threshold: expected"),
        (lambda: TrustRAGClusters(precheck="no"), "precheck: expected True or False, got 'no'"),
        (lambda: TrustRAGClusters(variant="x"), "variant: expected 'paper' or 'released'"),
        (
            lambda: TrustRAGClusters().select(make_pool([[0.5]], [[0.1]])),
            "pool.passage_texts: expected the passages' texts, which trustrag reads",
        ),
    ],
)
def test_wrong_parameters_and_pools_are_refused(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(message)
