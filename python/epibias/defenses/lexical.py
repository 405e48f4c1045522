"""Words of passages, and what baselines compute from them: overlap, frequent terms, BM25.

In: texts. Out: numbers in float64. All of it is language-neutral but for the stop words, which are
English; a text of another language just keeps its function words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from epibias._validate import Float64Array

_WORD = re.compile(r"\w+")
# Words that carry no subject. Terms and BM25 pass over them; overlap counts them.
_STOP_TEXT = """
a about above after again against all also am an and any are as at be because been before being
below between both but by can could did do does doing down during each even few for from further
had has have having he her here hers him his how however i if in into is it its itself just like
may me might more most much must my no nor not now of off on once only or other our ours out
over own same shall she should since so some still such than that the their theirs them then
there these they this those through to too under until up upon us very was we were what when
where which while who whom whose why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())


def words(text: str) -> list[str]:
    """Split into words, in lower case; everything else is a gap.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    Examples
    --------
    >>> words("It's 5 o'clock.")
    ['it', 's', '5', 'o', 'clock']
    """
    return _WORD.findall(text.casefold())


def content_words(text: str) -> list[str]:
    """Words of at least two characters that are no stop words.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    Examples
    --------
    >>> content_words("The cat is on the mat, I see.")
    ['cat', 'mat', 'see']
    """
    return [word for word in words(text) if len(word) > 1 and word not in STOP_WORDS]


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence of two lists of words.

    Bit-parallel: one addition of long integers a word of `second`.

    Parameters
    ----------
    first, second : sequence of str

    Returns
    -------
    int

    References
    ----------
    Hyyrö 2004, "Bit-parallel LCS-length computation revisited".

    Examples
    --------
    >>> common_subsequence("the cat sat down".split(), "the dog sat down".split())
    3
    """
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | (1 << place)
    full = (1 << len(first)) - 1
    unmatched = full  # bit i is clear once a longer subsequence ends at or before word i
    for word in second:
        matching = unmatched & places.get(word, 0)
        unmatched = ((unmatched + matching) | (unmatched - matching)) & full
    return len(first) - unmatched.bit_count()


def rouge_l(texts: Sequence[str]) -> Float64Array:
    """ROUGE-L of every two texts: F-measure of their longest common subsequence of words.

    No stemming. Texts without a word have 0 with all others.

    Parameters
    ----------
    texts : sequence of str [n]

    Returns
    -------
    float64 [n, n]
        Symmetric, 1 on the diagonal.

    References
    ----------
    Lin 2004, "ROUGE: a package for automatic evaluation of summaries", ACL W04-1013.

    Examples
    --------
    >>> rouge_l(["the cat sat down", "the dog sat down"])
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """
    split = [words(text) for text in texts]
    values = np.eye(len(split))
    for i, first in enumerate(split):
        for j in range(i):
            if first and split[j]:
                common = common_subsequence(first, split[j])
                values[i, j] = values[j, i] = 2 * common / (len(first) + len(split[j]))
    return values


def counts(texts: Sequence[Sequence[str]]) -> tuple[Float64Array, list[str]]:
    """Count every term in every text.

    Parameters
    ----------
    texts : sequence of sequences of str [n]
        Terms of each text.

    Returns
    -------
    float64 [n, n_terms], list of str [n_terms]
        Terms in alphabetical order, so that sums do not depend on the texts' order.

    Examples
    --------
    >>> counts([["b", "a", "b"], ["c"]])
    (array([[1., 2., 0.],
           [0., 0., 1.]]), ['a', 'b', 'c'])
    """
    tallies = [Counter(terms) for terms in texts]
    vocabulary = sorted(set().union(*tallies))
    column = {term: number for number, term in enumerate(vocabulary)}
    table = np.zeros((len(tallies), len(vocabulary)))
    for row, tally in zip(table, tallies, strict=True):
        for term, times in tally.items():
            row[column[term]] = times
    return table, vocabulary


def leading_terms(texts: Sequence[Sequence[str]], n_terms: int) -> list[str]:
    """Terms of largest TF-IDF, summed over the texts; ties in alphabetical order.

    Weight of a term in a text: count · (1 + ln((1 + n) / (1 + texts with it))), scaled so that
    each text's weights have length 1.

    Parameters
    ----------
    texts : sequence of sequences of str [n]
        Terms of each text.
    n_terms : int

    Returns
    -------
    list of str
        At most `n_terms`.

    Examples
    --------
    >>> leading_terms([["tax", "fair"], ["tax", "rate", "rate"]], 2)
    ['rate', 'tax']
    """
    table, vocabulary = counts(texts)
    if not vocabulary:
        return []
    weights = table * (1 + np.log((1 + len(table)) / (1 + (table > 0).sum(axis=0))))
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    sums = (weights / np.where(lengths > 0, lengths, 1)).sum(axis=0).round(12).tolist()
    order = sorted(range(len(vocabulary)), key=lambda term: (-sums[term], term))
    return [vocabulary[term] for term in order[:n_terms]]


def bm25(
    askers: Sequence[Sequence[str]], texts: Sequence[Sequence[str]], saturation: float = 1.5
) -> Float64Array:
    """BM25 of each text for each asker, with the text as its own corpus.

    Sum over the asker's terms, with repetition, of tf / (tf + saturation), times ln(4/3), which
    is what the inverse document frequency of a corpus of one text comes to. A text alone has
    average length, so there is no correction for it.

    Parameters
    ----------
    askers, texts : sequence of sequences of str [n_askers], [n]
        Terms of each.
    saturation : float
        k1, above 0.

    Returns
    -------
    float64 [n_askers, n]

    References
    ----------
    Robertson and Zaragoza 2009, doi:10.1561/1500000019.

    Examples
    --------
    >>> bm25([["tax", "tax", "cat"]], [["tax"], ["dog"]]).round(4)  # 2 · 1/2.5 · ln(4/3)
    array([[0.2301, 0.    ]])
    """
    table, _ = counts([*askers, *texts])
    asked, told = table[: len(askers)], table[len(askers) :]
    product: Float64Array = asked @ (told / (told + saturation)).T
    return product * math.log(4 / 3)
