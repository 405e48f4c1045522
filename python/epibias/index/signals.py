"""Words, runs of words and moments: the plain values that the gate's rules are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from epibias._plain import moment

WORD = re.compile(r"[^\W_]+")
SHINGLE = 4  # words in a row: a run
SHARE_COPIED = 0.8  # of a question's runs, from which it counts as copied


def words(text: str) -> list[str]:
    """Give the words of a text, case folded, without punctuation.

    Examples
    --------
    >>> words("How do I reset a customer's sign-in?")
    ['how', 'do', 'i', 'reset', 'a', 'customer', 's', 'sign', 'in']
    """
    return WORD.findall(text.casefold())


class WordRuns:
    """A text as runs of words, worked out once for all texts that it is compared with.

    Examples
    --------
    >>> question = WordRuns("Who signs a refund above the limit?")
    >>> question.share_in(WordRuns("FAQ: who signs a refund above it?"))
    0.5
    """

    def __init__(self, text: str) -> None:
        self._words = words(text)
        self._runs: dict[int, frozenset[tuple[str, ...]]] = {}

    def share_in(self, other: WordRuns) -> float:
        """Give the share of this text's runs of four words that another text has, too."""
        size = min(SHINGLE, len(self._words))
        runs = self._of(size)
        return len(runs & other._of(size)) / len(runs) if runs else 0.0

    def _of(self, size: int) -> frozenset[tuple[str, ...]]:
        if size not in self._runs:
            starts = range(len(self._words) - size + 1) if size else ()
            self._runs[size] = frozenset(tuple(self._words[n : n + size]) for n in starts)
        return self._runs[size]


def span_in_days(times: Iterable[str | None], now: str) -> float | None:
    """Days from the oldest of some times to now; None where no page has one.

    Examples
    --------
    >>> span_in_days(["2026-09-20", None, "2026-09-10T00:00:00+00:00"], "2026-09-30T00:00:00+00:00")
    20.0
    """
    known = [moment(time) for time in times if time is not None]
    if not known:
        return None
    return (moment(now) - min(known)).total_seconds() / 86400
