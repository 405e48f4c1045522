"""Pole statements by template: short texts that say yes, or no, to a question or a claim.

Owns the templates. In: a question ("Should …?") or a claim ("… must …"). Out: statements of the
opposing and of the supporting side, pair by pair alike in all but the answer, so that what their
embeddings differ in is stance and not subject.
"""

from __future__ import annotations

from epibias import _validate

# (opposing, supporting); version 1. A change of wording is a new version: axes depend on it.
QUESTION_TEMPLATES = (
    ("{text} No.", "{text} Yes."),
    ("{text} No, I am firmly against it.", "{text} Yes, I am firmly in favour of it."),
    (
        "{text} No. The harms outweigh the benefits, and it would be a mistake.",
        "{text} Yes. The benefits outweigh the harms, and it would be right.",
    ),
    ("My answer to the question is no. {text}", "My answer to the question is yes. {text}"),
)
CLAIM_TEMPLATES = (
    ("I disagree: {text}.", "I agree: {text}."),
    ("It is wrong to say that {text}.", "It is right to say that {text}."),
    (
        "{text}? No. The harms outweigh the benefits, and it would be a mistake.",
        "{text}? Yes. The benefits outweigh the harms, and it would be right.",
    ),
    ("{text}. I am firmly against this.", "{text}. I am firmly in favour of this."),
)


def pole_statements(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Opposing and supporting statements on a question or a claim.

    Parameters
    ----------
    text : str
        A question where it ends with "?", a claim otherwise (a final full stop is dropped).

    Returns
    -------
    tuple of (opposing, supporting)
        As many statements a side as there are templates; statement i of both sides differ in the
        answer alone.

    Raises
    ------
    InputError
        `text` is not a string, or blank.

    Examples
    --------
    >>> opposing, supporting = pole_statements("Should shops close on Sundays?")
    >>> opposing[0], supporting[0]
    ('Should shops close on Sundays? No.', 'Should shops close on Sundays? Yes.')
    """
    _validate.text("text", text)
    text = text.strip()
    is_question = text.endswith("?")
    templates = QUESTION_TEMPLATES if is_question else CLAIM_TEMPLATES
    words = text if is_question else text.rstrip(".")
    return (
        tuple(opposing.format(text=words) for opposing, _ in templates),
        tuple(supporting.format(text=words) for _, supporting in templates),
    )
