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

from epibias import kernels_tilt
from epibias._validate import Float64Array


def echo_shares(question: str, passages: Sequence[str]) -> Float64Array:
    """Return how much of the question each passage says in one place.

    Windows of 2, 4, 8, … times the question's length go over the passage, up to one that holds it
    whole. The share of a window is that of the question's different triples that it holds, less a
    twelfth for each doubling; the largest counts.

    Texts are read as encoders without capitals read them: in lower case, without accents and
    without what nobody sees (soft hyphens, spaces of no width, control characters), or a copy of
    the question with one of these in each word would be no echo and have its very embedding.
    Letters are those of ASCII and digits; runs of all else below 128, of spaces, punctuation and
    symbols of any script count as one space, and so does each end of the text. All other letters
    fold to 223 classes, so that any script is told apart somehow, and triples to 65,536 numbers:
    one in 1,100 foreign ones falls on one of a question's 60. Letters that only look alike are
    others.

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
    offsets = np.array([0, len(passages)], np.int64)
    return kernels_tilt.echo_shares((question,), tuple(passages), offsets, np.zeros(1, np.int64))
