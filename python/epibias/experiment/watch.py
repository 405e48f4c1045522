"""Models of an experiment, watched: a stop is noticed between prompts, a lost server counted.

Owns both. A question may ask a model for minutes, and a thread cannot be interrupted: without a
look at `Watch.stop` a run that was told to stop would end its questions first.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from epibias._validate import Float32Array
from epibias.generators.base import Failure, Generator, Prompt, Reply
from epibias.nli import NLI

GONE = "down"  # reason of a failure: no server, or one that is not well; another time it may be


class StoppedError(Exception):
    """The run was told to stop; only threads see it, and nobody is told."""


@dataclass
class Count:
    """Prompts that found no server."""

    n: int = 0


@dataclass
class Watch:
    """What the threads of a run share.

    Attributes
    ----------
    stop : threading.Event
        Set when the run is to end.

    Examples
    --------
    >>> watch = Watch()
    >>> with watch.counting() as found:
    ...     watch.count(2)
    >>> found.n
    2
    """

    stop: threading.Event = field(default_factory=threading.Event)
    _here: threading.local = field(default_factory=threading.local)

    @contextlib.contextmanager
    def counting(self) -> Iterator[Count]:
        """Count what this thread finds unanswered."""
        self._here.count = Count()
        try:
            yield self._here.count
        finally:
            self._here.count = None

    def count(self, n_prompts: int) -> None:
        """Add prompts that found no server, where anybody counts."""
        counter = getattr(self._here, "count", None)
        if counter is not None:
            counter.n += n_prompts

    def check(self) -> None:
        """Raise `StoppedError` where the run is to end."""
        if self.stop.is_set():
            raise StoppedError


class WatchedGenerator:
    """A generator that is asked a few prompts at a time.

    Threads take turns, as they do at its cache: here, so that one that waited looks at the stop
    before it asks.

    Parameters
    ----------
    generator : Generator
    watch : Watch
    counts : bool
        Whether prompts that found no server are counted: not where there is none to find.
    """

    def __init__(self, generator: Generator, watch: Watch, *, counts: bool) -> None:
        self._generator, self._watch, self._counts = generator, watch, counts
        self._turn = threading.Lock()
        self.concurrency = int(getattr(generator, "concurrency", 1))

    @property
    def identity(self) -> Any:  # noqa: ANN401  as the generator has it
        """That of the generator."""
        return self._generator.identity

    def generate(self, prompts: Sequence[Prompt], **options: Any) -> list[Reply | Failure]:  # noqa: ANN401
        """Answer each prompt; see `Generator.generate`.

        Raises
        ------
        StoppedError
            The run is to end.
        """
        found: list[Reply | Failure] = []
        # A slow answer is not to leave the other slots of a server idle; without slots, one each.
        step = 1 if self.concurrency == 1 else 4 * self.concurrency
        for start in range(0, len(prompts), step):
            with self._turn:
                self._watch.check()
                found += self._generator.generate(prompts[start : start + step], **options)
        if self._counts:
            gone = sum(isinstance(one, Failure) and one.reason == GONE for one in found)
            self._watch.count(gone)
        return found


class WatchedNLI:
    """An NLI model that judges nothing more once the run is to end; calls are left whole.

    Threads take turns, as at a `WatchedGenerator`.
    """

    def __init__(self, nli: NLI, watch: Watch) -> None:
        self._nli, self._watch = nli, watch
        self._turn = threading.Lock()

    @property
    def identity(self) -> Any:  # noqa: ANN401  as the model has it
        """That of the model."""
        return self._nli.identity

    def probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Float32Array:
        """Judge pairs; see `NLI.probabilities`."""
        with self._turn:
            self._watch.check()
            return self._nli.probabilities(premises, hypotheses)
