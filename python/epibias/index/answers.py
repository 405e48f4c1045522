"""What the store gives back: the outcome of a wish to promote, and the answer to a query."""

from __future__ import annotations

from dataclasses import dataclass

from epibias.index.catalogue import Promotion
from epibias.index.gate_report import GateReport


@dataclass(frozen=True)
class Outcome:
    """What became of a wish to promote.

    Attributes
    ----------
    promotion : Promotion or None
        None: it is held.
    report : GateReport or None
        None for the first version, which has nothing to be compared with.
    """

    promotion: Promotion | None
    report: GateReport | None

    @property
    def held(self) -> bool:
        """Whether the owners must decide."""
        return self.promotion is None


@dataclass(frozen=True)
class Passed:
    """A passage of an answer."""

    passage: str
    lineage: str
    source: str | None
    tier: int
    similarity: float
    ps: float | None


@dataclass(frozen=True)
class Answer:
    """What the index answered.

    Attributes
    ----------
    version : str
    topic : str or None
    how : str
        How the topic was found.
    passages : tuple of Passed
        Best first.
    short : bool
        Fewer than `k` may answer.
    threshold : float or None
        Score (similarity and weight of the tier) that a passage had to reach: the least of those
        selected. None where fewer than `k` may answer: nothing was turned away.
    line : int or None
        Number in the retrieval log.
    """

    version: str
    topic: str | None
    how: str
    passages: tuple[Passed, ...]
    short: bool
    threshold: float | None
    line: int | None
