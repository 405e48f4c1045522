"""What replies mean: texts of a language model in, passages, stances and scores out.

Owns how much deviation from the form that `prompts` asks for is understood. A model that ignores
the form gives less than was asked for, or None: the caller sees it and counts it. Nothing is
guessed from prose, and nothing is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from epibias import _validate

# "[+2]", "[-3]:", "**[1]**", "[[1]]", at the beginning of a line; some models write a long minus.
_BRACKET = re.compile(
    r"^[ \t]*[*#>]*[ \t]*\[{1,2}([+\-−–]?[0-9]{1,3})\]{1,2}[*]*[ \t]*[:.\-–]?[ \t]*", re.M
)
# "1.", "1)", "Passage 1:", "### 2": what models write when they ignore the brackets.
_NUMBER = re.compile(
    r"^[ \t]*[*#]*[ \t]*(?:(?:passage|text)[ \t]*)?([0-9]{1,3})[*]*[ \t]*[.):][*]*[ \t]+",
    re.M | re.I,
)
_SCORE = re.compile(
    r"score[*\"']*\s*[:=]\s*[*\"'<\[]*\s*([+\-−–]?\s*[0-9]+)"
    # "1.5", "1,5", "2/3", "1-2", "-3 to 3" are no score, or more than one.
    r"(?![0-9]|[.,][0-9]|[ \t]*(?:/|[\-−–]|to\b|or\b)[ \t]*[+\-−–]?[0-9])",
    re.I,
)
_ONLY_NUMBER = re.compile(r"[*\"'\[]*([+\-−–]?\s*[0-9]+)[*\"'\]]*\.?")
_POLE = re.compile(r"^[ \t]*[*#\-]*[ \t]*(no|yes)[*]*[ \t]*[:\-–][*]*[ \t]*(.+)$", re.M | re.I)
_SIDE = re.compile(r"[ \t]*[*#]*[ \t]*(no|yes)\b[^.!?]*\bbecause\b[*:,. \t…]*", re.I)
_REASON = re.compile(r"[ \t]*(?:[0-9]{1,3}[.)]|[-*•])[ \t]+(.+)")
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»"}


@dataclass(frozen=True)
class Anchor:
    """An anchor passage as a generator wrote it.

    Parameters
    ----------
    stance : int
        The stance that it was asked to take, -3 (no) to 3 (yes).
    text : str
        The passage.
    """

    stance: int
    text: str


def without_reasoning(text: str) -> str:
    r"""Leave out what a reasoning model thought before it answered.

    Servers that do not part the two give ``<think>…</think>`` before the answer, some without the
    first mark. The other parsers do this themselves; do it before an answer is scored.

    Parameters
    ----------
    text : str
        A reply.

    Returns
    -------
    str
        What follows the last ``</think>``; "" where the thinking has no end; else the text itself.

    Examples
    --------
    >>> without_reasoning("<think>Trees? Hm.</think>\n\nPlant them."), without_reasoning("Yes.")
    ('Plant them.', 'Yes.')
    """
    _, end, answer = text.rpartition("</think>")
    if end:
        return answer.strip()
    return "" if text.lstrip().startswith("<think>") else text


def parse_anchors(text: str, stances: Sequence[int] = ()) -> list[Anchor]:
    r"""Read the passages of a reply to "anchors", in its order.

    Parameters
    ----------
    text : str
        The reply.
    stances : sequence of int
        What was asked for, in order. A model that counts its passages, [1], [2], [3], says nothing
        of their stances, though the numbers look like some: such a reply has no anchors, unless
        just these stances were asked for.

    Returns
    -------
    list of Anchor
        Every passage that begins with a stance from -3 to 3 in brackets; empty where there is
        none. What stands before the first is dropped: models like to say "Sure!".

    Examples
    --------
    >>> parse_anchors("Sure!\n[+2] Plant trees.\n[-3] Never plant\na tree.")
    [Anchor(stance=2, text='Plant trees.'), Anchor(stance=-3, text='Never plant a tree.')]
    >>> parse_anchors("[1] Never plant a tree.\n[2] Plant some.", stances=[-3, 2])
    []
    """
    found = _split(_BRACKET, without_reasoning(text))
    numbers = range(1, len(found) + 1)
    is_list = len(found) > 1 and [mark for mark, _ in found] == list(map(str, numbers))
    if is_list and list(stances[: len(found)]) != list(numbers):
        return []
    read = [(_integer(mark), body) for mark, body in found]
    return [Anchor(stance, body) for stance, body in read if body and -3 <= stance <= 3]


def parse_passages(text: str, n: int) -> list[str]:
    r"""Read the passages of a reply to "adversarial".

    Parameters
    ----------
    text : str
        The reply.
    n : int
        How many were asked for. For one, a reply that is a single paragraph without any number is
        taken as it is.

    Returns
    -------
    list of str
        At most `n`; fewer where the reply has fewer. A passage that stands twice counts once.

    Examples
    --------
    >>> parse_passages("[1] Trees cool.\n\n[2] Trees calm.\n[3] Trees live.", n=2)
    ['Trees cool.', 'Trees calm.']
    >>> parse_passages("Trees cool.", n=1), parse_passages("Trees cool.", n=2)
    (['Trees cool.'], [])
    """
    n = _validate.integer("n", n, low=1)
    text = without_reasoning(text)
    found = _split(_BRACKET, text) or _split(_NUMBER, text)
    bodies = [body for _, body in found if body]
    if not found and n == 1 and "\n\n" not in text.strip():
        bodies = [_clean(text)] if _clean(text) else []
    return list(dict.fromkeys(bodies))[:n]


def parse_likert(text: str) -> int | None:
    """Read the score of a reply to "likert".

    Parameters
    ----------
    text : str
        The reply.

    Returns
    -------
    int or None
        From -3 to 3: the number after "Score:", or a reply that is nothing but a number. None for
        anything else: two different scores, a number out of range, a fraction, prose.

    Examples
    --------
    >>> parse_likert("Score: -2"), parse_likert("+3"), parse_likert("It is rather positive (2).")
    (-2, 3, None)
    """
    text = without_reasoning(text)
    only = _ONLY_NUMBER.fullmatch(text.strip())
    marks = [only[1]] if only else _SCORE.findall(text)
    scores = {_integer(mark) for mark in marks}
    if len(scores) != 1:
        return None
    score = scores.pop()
    return score if -3 <= score <= 3 else None


def parse_poles(text: str) -> tuple[str, str] | None:
    r"""Read the two statements of a reply to "poles": con, pro.

    Returns
    -------
    tuple of str or None
        The sentence after "No:" and that after "Yes:"; None unless each stands once.

    Examples
    --------
    >>> parse_poles("No: I am convinced that trees harm.\nYes: I am convinced that trees help.")
    ('I am convinced that trees harm.', 'I am convinced that trees help.')
    """
    found: dict[str, list[str]] = {"no": [], "yes": []}
    for word, sentence in _POLE.findall(without_reasoning(text)):
        found[word.lower()].append(_clean(sentence))
    if any(len(sentences) != 1 or not sentences[0] for sentences in found.values()):
        return None
    return found["no"][0], found["yes"][0]


def parse_reasons(text: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    r"""Read the reasons of a reply to "reasons": against, in favour.

    Returns
    -------
    tuple of tuple of str, or None
        The numbered lines after "No, because" and those after "Yes, because", each with a capital
        letter, each once; what stands on both sides is dropped. None unless both sides have any
        left.

    Examples
    --------
    >>> parse_reasons("Yes, because\n1. trees cool.\n2. trees live.\nNo, because\n1. roots lift.")
    (('Roots lift.',), ('Trees cool.', 'Trees live.'))
    >>> parse_reasons("Yes, because\n1. it is good.\nNo, because\n1. it is good.") is None
    True
    """
    found: dict[str, list[str]] = {"no": [], "yes": []}
    side = None
    for line in without_reasoning(text).splitlines():
        heading, reason = _SIDE.fullmatch(line), _REASON.fullmatch(line)
        if heading is not None:
            side = heading[1].lower()
        elif reason is not None and side is not None and _clean(reason[1]):
            words = _clean(reason[1])
            found[side].append(words[0].upper() + words[1:])
    opposing, supporting = (
        tuple(dict.fromkeys(one for one in found[side] if one not in found[other]))
        for side, other in (("no", "yes"), ("yes", "no"))
    )
    return (opposing, supporting) if opposing and supporting else None


def _split(mark: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    """Cut a text at its marks; each mark's number with what follows it."""
    text = text.replace("\r\n", "\n")
    places = list(mark.finditer(text))
    starts = [place.start() for place in places] + [len(text)]
    return [
        (place[1], _clean(text[place.end() : end]))
        for place, end in zip(places, starts[1:], strict=True)
    ]


def _clean(text: str) -> str:
    """One line without the quotation marks around it, if they belong together."""
    line = " ".join(text.split()).strip("*").strip()
    if len(line) > 1 and _QUOTES.get(line[0]) == line[-1] and line.count(line[0]) <= 2:
        return line[1:-1].strip()
    return line


def _integer(mark: str) -> int:
    return int(re.sub(r"\s", "", mark).replace("−", "-").replace("–", "-"))
