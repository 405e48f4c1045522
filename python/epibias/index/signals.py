"""What else about new pages is a reason to look: bursts, copies across accounts, copied questions.

Owns the three rules and nothing about who decides. Each takes plain values, so each can be tested
by itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

WORD = re.compile(r"[^\W_]+")
SHINGLE = 4  # words in a row
SHARE_COPIED = 0.8  # of a question's shingles, from which it counts as copied


def words(text: str) -> list[str]:
    """Give the words of a text, case folded, without punctuation.

    Examples
    --------
    >>> words("How do I reset a customer's sign-in?")
    ['how', 'do', 'i', 'reset', 'a', 'customer', 's', 'sign', 'in']
    """
    return WORD.findall(text.casefold())


def copied_share(question: str, text: str) -> float:
    """Give the share of a question's runs of four words that a text repeats.

    Examples
    --------
    >>> copied_share("Who signs a refund above the limit?", "FAQ: who signs a refund above it?")
    0.5
    """
    asked = words(question)
    size = min(SHINGLE, len(asked))
    runs = _runs(asked, size)
    return len(runs & _runs(words(text), size)) / len(runs) if runs else 0.0


def burst_p(n_accounts: int, n_before: int, span_days: float, window_days: float) -> float:
    """Give the chance of so many new accounts in a window, at the rate of the past.

    Poisson, with a rate of `n_before + 1` in the span: what was there, and one to spare.

    Parameters
    ----------
    n_accounts : int
        Accounts whose pages are new among the top-k of a golden query, within the window.
    n_before : int
        Pages without authority among its top-k in the trusted version.
    span_days : float
        Over which those came.
    window_days : float

    Examples
    --------
    >>> round(burst_p(3, 2, 270, 30), 4)
    0.0048
    """
    rate = (n_before + 1) * window_days / max(span_days, window_days)
    below = sum(math.exp(-rate) * rate**n / math.factorial(n) for n in range(n_accounts))
    return max(0.0, 1.0 - below)


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
