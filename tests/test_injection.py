"""Injection makes a new labelled corpus; decoys lie strictly below the benign top."""

from __future__ import annotations

import numpy as np
import pytest

from epibias.attacks import decoys, inject
from epibias.corpus import Corpus, Passage
from epibias.errors import InputError


@pytest.fixture
def corpus():
    return Corpus([Passage(f"b{i}", f"benign {i}", title="T" if i else "") for i in range(3)])


def test_originals_first_then_injected_in_order(corpus):
    attacked = inject(corpus, [Passage("a2", "x"), Passage("a1", "y")])
    assert list(attacked.corpus.ids) == ["b0", "b1", "b2", "a2", "a1"]
    assert attacked.adversarial_ids == ("a2", "a1")
    assert attacked.is_adversarial.tolist() == [False, False, False, True, True]
    assert attacked.corpus[1] == corpus[1]


def test_the_corpus_given_is_not_edited(corpus):
    before = [corpus[row] for row in range(len(corpus))]
    inject(corpus, [Passage("a1", "y")])
    assert [corpus[row] for row in range(len(corpus))] == before


def test_nothing_injected_is_the_clean_corpus(corpus):
    attacked = inject(corpus, [])
    assert list(attacked.corpus.ids) == list(corpus.ids)
    assert not attacked.is_adversarial.any()


@pytest.mark.parametrize(
    ("passages", "row"),
    [
        ([Passage("b1", "again")], 0),
        ([Passage("a1", "x"), Passage("a1", "y")], 1),
    ],
)
def test_an_id_that_is_taken_is_refused_by_row(corpus, passages, row):
    with pytest.raises(InputError, match=rf"adversarial: expected ids that are new.*row {row}"):
        inject(corpus, passages)


def test_something_that_is_no_passage_is_refused(corpus):
    with pytest.raises(InputError, match="adversarial: expected passages, got str"):
        inject(corpus, ["just a text"])


def test_decoys_are_the_most_similar_below_the_bar():
    benign = np.float32([0.9, 0.1, 0.7, 0.5, 0.3, 0.8])  # 5th best: 0.3
    adversarial = np.float32([0.29, 0.95, 0.1, 0.3, 0.2, 0.25, 0.05, 0.15])
    found = decoys(benign, adversarial, k=5, limit=5)
    assert found.tolist() == [0, 5, 4, 7, 2]  # 0.3 itself is not below; 0.05 is the sixth
    assert found.dtype == np.int64


def test_equal_decoys_keep_their_order_and_may_be_none():
    benign = np.float32([0.5, 0.4])
    assert decoys(benign, np.float32([0.1, 0.2, 0.2]), k=2).tolist() == [1, 2, 0]
    assert decoys(benign, np.float32([0.4, 0.9]), k=2).tolist() == []
    assert decoys(benign, np.empty(0, np.float32), k=1).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_decoys_as_a_slow_reading_of_the_rule(seed):
    generator = np.random.default_rng(seed)
    benign = generator.integers(0, 9, 12).astype(np.float32) / 8
    adversarial = generator.integers(0, 9, 10).astype(np.float32) / 8
    bar = sorted(benign, reverse=True)[4]
    below = [i for i in range(10) if adversarial[i] < bar]
    wanted = sorted(below, key=lambda i: (-adversarial[i], i))[:5]
    assert decoys(benign, adversarial, k=5, limit=5).tolist() == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"benign_similarities": np.zeros(5)}, "benign_similarities: expected dtype float32"),
        ({"adversarial_similarities": np.float32([np.nan])}, "adversarial_similarities: .*row 0"),
        ({"k": 6}, r"k: expected an integer from 1 to 5 \(the number of benign passages\), got 6"),
        ({"limit": -1}, "limit: expected an integer of at least 0, got -1"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {
        "benign_similarities": np.zeros(5, np.float32),
        "adversarial_similarities": np.zeros(2, np.float32),
        **change,
    }
    with pytest.raises(InputError, match=message):
        decoys(
            arguments.pop("benign_similarities"),
            arguments.pop("adversarial_similarities"),
            **arguments,
        )
