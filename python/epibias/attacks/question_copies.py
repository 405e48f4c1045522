"""Two attacks that copy the question into the passage: verbatim, and PoisonedRAG's black box.

Both need nothing but text: no encoder, no generator. A dense encoder puts a passage that repeats
the question close to it. Owns how question and text are joined. For the evaluation of an index you
own.
"""

from __future__ import annotations

from collections.abc import Sequence

from epibias import _validate
from epibias.attacks.adversarial_set import AdversarialPassage, AdversarialSet
from epibias.attacks.embedding import digest
from epibias.attacks.ownership import confirm
from epibias.corpus import Passage
from epibias.errors import InputError

VERBATIM, POISONEDRAG = "verbatim", "poisonedrag"


def verbatim(
    question_id: str, question: str, *, n: int = 1, i_own_this_index: bool = False
) -> AdversarialSet:
    """Make passages that are the question itself, word for word.

    The upper end of relevance: with a symmetric encoder their similarity is 1. They take no side.

    Parameters
    ----------
    question_id : str
        Starts the ids of the passages.
    question : str
        The text of every passage.
    n : int
        How many.
    i_own_this_index : bool
        True, or nothing is made.

    Returns
    -------
    AdversarialSet
        `n` passages of polarity "none".

    Raises
    ------
    InputError
        A blank question, a count below 1, or `i_own_this_index` that is not True.

    Examples
    --------
    >>> made = verbatim("q1", "Are trams better?", i_own_this_index=True)
    >>> made.passages[0].passage
    Passage(id='q1-verbatim-01', text='Are trams better?', title='', source=None, ...)
    """
    confirm(i_own_this_index)
    _validate.text("question", question)
    return AdversarialSet(
        tuple(
            AdversarialPassage(
                Passage(f"{question_id}-{VERBATIM}-{number:02d}", question),
                question_id,
                "none",
                VERBATIM,
                {"question_sha256": digest([question])},
            )
            for number in range(1, _validate.integer("n", n, low=1) + 1)
        )
    )


def poisonedrag(
    question_id: str,
    question: str,
    texts: Sequence[Passage],
    polarity: str,
    *,
    separator: str = " ",
    i_own_this_index: bool = False,
) -> AdversarialSet:
    """Make PoisonedRAG's black-box passages: the question, then an adversarial text.

    The question brings the passage to the top, the text pushes the answer. The texts are given:
    written by hand, by `ebi`, or read from a released set.

    Parameters
    ----------
    question_id : str
        Starts the ids of the passages.
    question : str
        Beginning of every passage.
    texts : sequence of Passage
        What follows; titles are left out.
    polarity : {"positive", "negative", "none"}
        Side that the texts take.
    separator : str
        Between the two.
    i_own_this_index : bool
        True, or nothing is made.

    Returns
    -------
    AdversarialSet
        One passage a text, in order.

    Raises
    ------
    InputError
        A blank question, no text, an unknown polarity, or `i_own_this_index` that is not True.

    References
    ----------
    Zou et al., PoisonedRAG: Knowledge Corruption Attacks to Retrieval-Augmented Generation of Large
    Language Models, arXiv:2402.07867, section 4.3 (black-box: S is the question).

    Examples
    --------
    >>> text = Passage("a1", "Trams are a folly.")
    >>> made = poisonedrag("q1", "Are trams good?", [text], "negative", i_own_this_index=True)
    >>> made.passages[0].passage.text
    'Are trams good? Trams are a folly.'
    """
    confirm(i_own_this_index)
    _validate.text("question", question)
    given = texts_of(texts)
    if not isinstance(separator, str):
        raise InputError("separator", "a text", type(separator).__name__)
    return AdversarialSet(
        tuple(
            AdversarialPassage(
                Passage(
                    f"{question_id}-{POISONEDRAG}-{polarity}-{number:02d}",
                    f"{question}{separator}{one.text}",
                ),
                question_id,
                polarity,
                POISONEDRAG,
                {
                    "text_id": one.id,
                    "text_sha256": digest([one.text]),
                    "question_sha256": digest([question]),
                    "separator": separator,
                },
            )
            for number, one in enumerate(given, 1)
        )
    )


def texts_of(texts: Sequence[Passage]) -> tuple[Passage, ...]:
    """Check the texts that an attack starts from: at least one passage, none blank."""
    given = tuple(texts)
    if not given:
        raise InputError("texts", "at least one passage", "none")
    for row, one in enumerate(given):
        if not isinstance(one, Passage):
            raise InputError("texts", "passages", type(one).__name__, f"row {row}")
        _validate.text("texts", one.text, f"row {row}")
    return given
