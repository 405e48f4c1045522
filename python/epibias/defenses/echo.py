"""How much of the question a passage repeats: the share of its letter triples.

A passage is made relevant to a question most cheaply by saying the question again (PoisonedRAG puts
it in front; a generator told to keep to it weaves it in). Owns the measure; which share is too much
is learnt from clean pools by who asks. In: texts. Out: float64 shares. A text's signature is kept,
so that a passage costs its reading once, not once a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from epibias._validate import Float64Array

BITS = 4093  # a prime below 2^12; with 600 triples one in seven others falls on a taken bit
KEPT = 65536  # signatures of half a KB
_LETTERS = np.zeros(256, np.int64)
_LETTERS[[*range(97, 123)]] = np.arange(1, 27)
_LETTERS[[*range(48, 58)]] = np.arange(27, 37)
_BEYOND_ASCII = 37


@lru_cache(maxsize=KEPT)
def signature(text: str) -> int:
    """Return the set of a text's letter triples as the bits of a number.

    Letters are lower-case ASCII letters and digits; runs of all else count as one space, and so
    does each end of the text. Other letters fold to their lowest byte, so that any script is told
    apart somehow.

    Parameters
    ----------
    text : str

    Returns
    -------
    int

    Examples
    --------
    >>> signature("To be, or") == signature("to be or!"), signature("to be").bit_count()
    (True, 5)
    """
    points = np.frombuffer(text.lower().encode("utf-32-le"), np.uint32)
    codes = _LETTERS[points & 255]
    beyond = points > 127
    if beyond.any():
        codes = np.where(beyond, _BEYOND_ASCII + points % 223, codes)
    keep = codes > 0
    keep[1:] |= codes[:-1] > 0  # the first of a run of spaces
    padded = np.concatenate([[0], codes[keep], [0, 0]])
    last = len(padded) - 1 if padded[-3] else len(padded) - 2
    padded = padded[:last]
    triples = (padded[:-2] * 67_600 + padded[1:-1] * 260 + padded[2:]) % BITS
    taken = np.zeros(BITS + 3, np.bool_)
    taken[triples] = True
    return int.from_bytes(np.packbits(taken, bitorder="little").tobytes(), "little")


def echo_shares(question: str, passages: Sequence[str]) -> Float64Array:
    """Return the share of the question's letter triples that each passage holds.

    Parameters
    ----------
    question : str
    passages : sequence of str

    Returns
    -------
    float64 [n_passages]
        1 for a passage that holds the whole question, up to equal bits of different triples.

    Examples
    --------
    >>> echo_shares("Ban cars?", ["We ban cars.", "Bans", "No"]).round(2)
    array([1.  , 0.25, 0.  ])
    """
    asked = signature(question)
    n_asked = max(1, asked.bit_count())
    shared = [(asked & signature(passage)).bit_count() for passage in passages]
    return np.array(shared, np.float64) / n_asked
