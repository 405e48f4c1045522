"""How much of the question a passage says again, wherever it says it.

A passage is made relevant to a question most cheaply by saying the question again (PoisonedRAG puts
it in front; a generator told to keep to it weaves it in). A long passage holds nearly every letter
triple of any question somewhere, so what counts is how near to each other they stand: the most that
any window holds, less for wider windows. Owns the measure; how much is too much is learnt from
clean pools by who asks. In: texts. Out: float64 shares. Nothing of a text is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epibias._validate import Float64Array, Int64Array

TRIPLES = 1 << 16  # one in 1,100 foreign triples falls on one of a question's 60
_MIXER, _SHIFT = np.uint32(2_654_435_769), np.uint32(16)  # 2^32 over the golden ratio; 32 - 16
NARROWEST = 2  # the first window, in lengths of the question
DISCOUNT = 12  # each doubling of the window costs a twelfth of the question
_LETTERS = np.zeros(256, np.uint32)
_LETTERS[[*range(97, 123)]] = np.arange(1, 27)
_LETTERS[[*range(48, 58)]] = np.arange(27, 37)
_BEYOND_ASCII, _BASE = np.uint32(37), np.uint32(260)
_CLASSES = np.uint32(223)


def triples(text: str) -> Int64Array:
    """Return a text's letter triples, in order, as numbers.

    Letters are lower-case ASCII letters and digits; runs of all else count as one space, and so
    does each end of the text. Other letters fold to 223 classes, so that any script is told apart
    somehow.

    Parameters
    ----------
    text : str

    Returns
    -------
    int64 [n_letters]
        Below `TRIPLES`; inner spaces count as letters. Nothing for a text without letters.

    Examples
    --------
    >>> triples("To be, or").tolist() == triples("to be or!").tolist(), len(triples("to be"))
    (True, 5)
    """
    points = np.frombuffer(text.lower().encode("utf-32-le"), np.uint32)
    codes = _LETTERS[points & 255]
    beyond = points > 127
    if beyond.any():
        codes = np.where(beyond, _BEYOND_ASCII + points % _CLASSES, codes)
    keep = codes > 0
    keep[1:] |= codes[:-1] > 0  # the first of a run of spaces
    inner = codes[keep]
    if len(inner) and not inner[-1]:
        inner = inner[:-1]
    if len(inner) and not inner[0]:
        inner = inner[1:]
    padded = np.zeros(len(inner) + 2, np.uint32)
    padded[1:-1] = inner
    packed = (padded[:-2] * _BASE + padded[1:-1]) * _BASE + padded[2:]
    found: Int64Array = ((packed * _MIXER) >> _SHIFT).astype(np.int64)
    return found


def echo_shares(question: str, passages: Sequence[str]) -> Float64Array:
    """Return how much of the question each passage says in one place.

    Windows of 2, 4, 8, … times the question's length go over the passage, up to one that holds it
    whole. The share of a window is that of the question's different triples that it holds, less a
    twelfth for each doubling; the largest counts.

    Parameters
    ----------
    question : str
    passages : sequence of str

    Returns
    -------
    float64 [n_passages]
        1 for a passage that holds the whole question, up to equal numbers of different triples.

    Examples
    --------
    >>> echo_shares("Ban cars?", ["We ban cars.", "Bans", "No"]).round(2)
    array([1.  , 0.25, 0.  ])
    >>> apart = "Ban" + " nothing" * 9 + " cars"
    >>> echo_shares("Ban cars?", [apart]).round(2)
    array([0.62])
    """
    best = np.zeros(len(passages), np.float64)
    asked = triples(question)
    different = np.unique(asked)
    if not len(different) or not len(passages):
        return best
    number = np.full(TRIPLES, -1, np.int32)
    number[different] = np.arange(len(different))
    parts = [triples(passage) for passage in passages]
    lengths = np.array([len(part) for part in parts])
    starts = np.cumsum(lengths) - lengths
    held = number[np.concatenate(parts)]
    places = np.flatnonzero(held >= 0)
    owners = np.repeat(np.arange(len(passages)), lengths)[places]
    # Of equal triples the later one takes over: each counts until then, or for one window.
    until = starts[owners] + lengths[owners]
    order = np.lexsort((places, held[places], owners))
    same = (np.diff(held[places][order]) == 0) & (np.diff(owners[order]) == 0)
    until[order[:-1][same]] = places[order[1:][same]]
    filled = np.flatnonzero(lengths)
    begun = np.bincount(places, minlength=len(held) + 1)
    width, doublings = NARROWEST * len(asked), 0
    while True:
        ends = np.minimum(until, places + width)
        counts = np.cumsum(begun - np.bincount(ends, minlength=len(begun)))[:-1]
        if len(filled):
            most = np.maximum.reduceat(counts, starts[filled])
            shares = most / len(different) - doublings / DISCOUNT
            best[filled] = np.maximum(best[filled], shares)
        if width >= lengths.max():
            return best
        width, doublings = 2 * width, doublings + 1
