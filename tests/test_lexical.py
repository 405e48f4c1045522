"""Words of passages: overlap, leading terms, BM25."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

import reference_baselines
from baseline_pools import random_text
from epibias.defenses import lexical

WORDS = st.lists(st.sampled_from(list("abcde")), max_size=12)


def test_words_are_lower_case_and_the_rest_is_gaps():
    assert lexical.words("Don't “TAX” naïve-ly, 3.5 %!") == [
        "don", "t", "tax", "naïve", "ly", "3", "5",
    ]  # fmt: skip
    assert lexical.words(" ?! ") == []
    assert lexical.content_words("If it is a tax, I would pay x") == ["tax", "pay"]


@settings(max_examples=200, deadline=None)
@given(WORDS, WORDS)
def test_the_common_subsequence_is_that_of_the_table(first, second):
    expected = reference_baselines.subsequence(first, second)
    assert lexical.common_subsequence(first, second) == expected


def test_subsequences_longer_than_a_machine_word():
    rng = np.random.default_rng(0)
    first, second = (list(rng.choice(list("abcdefgh"), 150)) for _ in range(2))
    expected = reference_baselines.subsequence(first, second)
    assert expected > 64
    assert lexical.common_subsequence(first, second) == expected


def test_rouge_l_by_hand():
    # "police killed the gunman" and "police kill the gunman": 3 of 4 words in order, F = 3/4.
    # "the gunman kill police" has "the gunman" in common with the first: F = 2/4.
    texts = ["police killed the gunman", "police kill the gunman", "the gunman kill police", ""]
    values = lexical.rouge_l(texts)
    assert values[0].tolist() == [1, 0.75, 0.5, 0]
    np.testing.assert_array_equal(values, values.T)
    # 2 of 3 and 2 of 5 words: precision 2/5, recall 2/3, F = 2 · 2/8.
    assert lexical.rouge_l(["a b c", "a x b y z"])[0, 1] == 0.5


def test_leading_terms_by_hand():
    # Three texts. "tax" in all: idf = 1 + ln(4/4) = 1; "rail" in two: 1 + ln(4/3) = 1.2877;
    # "cat" in one: 1 + ln(4/2) = 1.6931.
    # Text 1 tax rail:     1/1.6304 = .6133, .7898
    # Text 2 tax rail:     the same
    # Text 3 tax cat cat:  1/√(1 + 3.3863²) = .2832, .9590
    # Sums: rail 1.5796, tax 1.5099, cat .9590.
    texts = [["tax", "rail"], ["rail", "tax"], ["tax", "cat", "cat"]]
    assert lexical.leading_terms(texts, 2) == ["rail", "tax"]
    assert lexical.leading_terms(texts, 9) == ["rail", "tax", "cat"]
    assert lexical.leading_terms([[], []], 3) == []
    assert lexical.leading_terms([["b"], ["a"]], 1) == ["a"]  # a tie


@pytest.mark.parametrize("seed", range(5))
def test_leading_terms_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    texts = [random_text(rng) for _ in range(9)]
    vectorizer = TfidfVectorizer(stop_words=list(lexical.STOP_WORDS))
    sums = vectorizer.fit_transform(texts).toarray().sum(axis=0).round(12)
    names = vectorizer.get_feature_names_out()
    expected = [str(names[i]) for i in sorted(range(len(sums)), key=lambda i: (-sums[i], names[i]))]
    terms = [lexical.content_words(text) for text in texts]
    assert lexical.leading_terms(terms, 6) == expected[:6]


def test_bm25_by_hand():
    # tf 2 of "tax", k1 1.5: 2/3.5; asked twice; "cat" is not there; idf ln(4/3).
    value = lexical.bm25([["tax", "cat", "tax"]], [["tax", "tax", "dog"]])
    np.testing.assert_allclose(value, [[2 * (2 / 3.5) * math.log(4 / 3)]], rtol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_bm25_is_the_references(seed):
    rng = np.random.default_rng(seed)
    texts = [random_text(rng).split() for _ in range(7)]
    values = lexical.bm25(texts[:3], texts[3:], 1.2)
    for i, asker in enumerate(texts[:3]):
        for j, text in enumerate(texts[3:]):
            expected = reference_baselines.bm25(asker, text, 1.2)
            np.testing.assert_allclose(values[i, j], expected, rtol=1e-12, atol=1e-15)
    assert lexical.bm25([[]], [["a"]]).tolist() == [[0.0]]
