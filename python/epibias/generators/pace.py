"""When a request may go out: clock, rate limit, and how long to wait before the next attempt.

Owns every look at a clock and every wait of `openai_compatible`, so that tests put their own in.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

SECONDS_PER_MINUTE = 60.0


async def _sleep(seconds: float) -> None:
    import asyncio  # `import epibias` is light

    await asyncio.sleep(seconds)


@dataclass(frozen=True)
class Clock:
    """Time as a generator sees it.

    Parameters
    ----------
    now : callable
        Seconds on a clock that never goes back.
    sleep : callable
        Waits for some seconds.
    wall : callable
        Seconds since 1970, for a ``Retry-After`` that names a date.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = _sleep
    wall: Callable[[], float] = time.time


class RateLimit:
    """At most so many requests a minute, evenly spaced; None: as many as there are.

    Evenly and not in bursts, since servers that limit a minute also tend to limit its seconds.
    """

    def __init__(self, requests_per_minute: float | None, clock: Clock) -> None:
        self._gap = SECONDS_PER_MINUTE / requests_per_minute if requests_per_minute else 0.0
        self._clock = clock
        self._next = float("-inf")

    async def wait(self) -> None:
        """Return when it is this request's turn; turns are given in the order of calls."""
        if not self._gap:
            return
        now = self._clock.now()
        turn = max(now, self._next)
        self._next = turn + self._gap
        if turn > now:
            await self._clock.sleep(turn - now)


def retry_after(value: str | None, clock: Clock) -> float | None:
    """Read a ``Retry-After`` header: seconds or a date (RFC 9110, section 10.2.3).

    Returns
    -------
    float or None
        Seconds from now, at least 0; None for no header or one that is neither.

    Examples
    --------
    >>> clock = Clock(wall=lambda: 784111777.0)
    >>> retry_after("120", clock), retry_after("Sun, 06 Nov 1994 08:49:47 GMT", clock)
    (120.0, 10.0)
    >>> retry_after("soon", clock), retry_after(None, clock)
    (None, None)
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])  # more digits mean forever, too
    import email.utils

    try:
        when = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return max(0.0, when - clock.wall())
