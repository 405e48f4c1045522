"""Sentences of a text, by rule: full stops that end one are told from those that do not.

In: a text. Out: its sentences, in order; together they have every word of the text. Meant for
checking claims one by one (`attacks.facts`), where a sentence cut in two is worse than two in one.
English only.
"""

from __future__ import annotations

import re

# Words before a full stop that does not end a sentence; "U.S." and initials go by their form.
_ABBREVIATION = re.compile(
    r"mr|mrs|ms|dr|prof|sr|jr|st|gen|sen|rep|gov|capt|lt|col|sgt|rev|hon|vs|etc|al"
    r"|ed|eds|dept|est|approx|inc|ltd|co|corp|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|e\.g|i\.e|cf|ca"
)
_BEFORE_NUMBER = re.compile(r"nos?|figs?|eq|vol|pp?")
_LETTERS = re.compile(r"([a-z]\.)*[a-z]")  # one, or several with full stops between
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)")
_WORD_BEFORE = re.compile(r"[\w.]+$")
_OPENING = "\"'“‘([-–— "


def sentences(text: str) -> list[str]:
    r"""Split a text into sentences.

    Parameters
    ----------
    text : str
        A blank line ends a sentence, too; other line breaks count as blanks.

    Returns
    -------
    list of str
        Each without blanks at its ends; empty for a blank text.

    Examples
    --------
    >>> sentences("Dr. Ames rode 3.5 miles. Was it far? \"No.\" She rode home, e.g. by bus.")
    ['Dr. Ames rode 3.5 miles.', 'Was it far?', '"No."', 'She rode home, e.g. by bus.']
    """
    found = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        line = " ".join(paragraph.split())
        start = 0
        for end in _END.finditer(line):
            if _ends(line, end):
                found.append(line[start : end.end()].strip())
                start = end.end()
        if line[start:].strip():
            found.append(line[start:].strip())
    return found


def _ends(line: str, end: re.Match[str]) -> bool:
    """Whether the mark ends a sentence: what follows begins one, and it is no abbreviation."""
    following = line[end.end() :].lstrip(_OPENING)
    if not following:
        return True
    begins = following[0].isupper() or following[0].isdigit()
    if not begins:
        return False
    if not end.group().startswith(".") or len(end.group().rstrip("\"'”’)]")) > 1:
        return True  # "?", "!", an ellipsis before a capital letter
    word = _WORD_BEFORE.search(line[: end.start()])
    name = word.group().lower() if word else ""
    if following[0].isdigit() and _BEFORE_NUMBER.fullmatch(name):
        return False
    return _LETTERS.fullmatch(name) is None and _ABBREVIATION.fullmatch(name) is None
