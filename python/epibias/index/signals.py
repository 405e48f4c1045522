"""Words, runs of words and moments: the plain values that the gate's rules are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

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


def copied_share(text: str, other: str) -> float:
    """Give the share of a text's runs of four words that another text has, too.

    Examples
    --------
    >>> copied_share("Who signs a refund above the limit?", "FAQ: who signs a refund above it?")
    0.5
    """
    found = words(text)
    size = min(SHINGLE, len(found))
    runs = _runs(found, size)
    return len(runs & _runs(words(other), size)) / len(runs) if runs else 0.0


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


def moment(time: str) -> datetime:
    """Read a time; one without a zone is taken for UTC."""
    read = datetime.fromisoformat(time.replace("Z", "+00:00"))
    return read if read.tzinfo is not None else read.replace(tzinfo=timezone.utc)


def _runs(text_words: Sequence[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(text_words[n : n + size]) for n in range(len(text_words) - size + 1)}
