"""Reasons for and against a question or claim, written by a language model.

In: the question and a generator. Out: statements of both sides, for
`polarization.reasoned.reasoned_axis`. Owns the one request that is made; the wording is the
template "reasons", the form is read by `parsers.parse_reasons`. Nobody checks that a reason takes
its side: a 1.5B model is wrong now and then, and the axis gives reasons little weight.
"""

from __future__ import annotations

from epibias import _validate
from epibias.errors import InputError
from epibias.generators.base import Failure, Generator
from epibias.generators.parsers import parse_reasons
from epibias.generators.prompts import render

STOP = "\n\nStatement"  # small models go on with a statement of their own
MOST_TOKENS = 200  # four short reasons a side


def generated_reasons(
    question: str,
    generator: Generator,
    *,
    max_tokens: int = MOST_TOKENS,
    seed: int | None = 0,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    r"""Ask for short reasons against and in favour of a question or claim.

    Parameters
    ----------
    question : str
        "Should …?", or a claim: the reasons in favour say yes to it.
    generator : Generator
        Asked once, at temperature 0.
    max_tokens : int
        Longest reply.
    seed : int, optional
        Of the sampling, for generators that sample at temperature 0 too.

    Returns
    -------
    tuple of (opposing, supporting)
        Up to four statements a side, none twice, none on both sides: what a model says for both
        sides is dropped.

    Raises
    ------
    InputError
        A blank question; no reply, with the generator's reason; a reply in which a side has no
        reason of its own.

    Examples
    --------
    >>> from epibias.generators import FixedGenerator
    >>> reply = "Yes, because\n1. trees cool towns.\nNo, because\n1. roots lift roads."
    >>> generated_reasons("Should towns plant trees?", FixedGenerator(reply))
    (('Roots lift roads.',), ('Trees cool towns.',))
    """
    _validate.text("question", question)
    prompt = render("reasons", question=question)
    [reply] = generator.generate(
        [prompt], temperature=0.0, max_tokens=max_tokens, seed=seed, stop=(STOP,)
    )
    if isinstance(reply, Failure):
        found = f"{reply.reason}: {reply.message}"
        raise InputError("generator", "a reply with reasons of both sides", found, repr(question))
    found_sides = parse_reasons(reply.text)
    if found_sides is None:
        expected = 'reasons after "Yes, because" and others after "No, because"'
        begin = repr(" ".join(reply.text.split())[:80])
        raise InputError("generator", expected, f"a reply that begins {begin}", repr(question))
    return found_sides
