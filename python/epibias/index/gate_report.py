"""What the gate found: findings, drift of every golden query, and the list a reviewer reads.

Owns the record and its JSON. Passages are named by id; there is no text and no vector in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from epibias import _validate
from epibias.errors import InputError

KINDS = (
    "drift",
    "raw drift",
    "challenge",
    "polarization shift",
    "burst",
    "near duplicate",
    "copied page",
    "copied question",
)


@dataclass(frozen=True)
class Finding:
    """One reason to hold a promotion.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    query, topic : str
    passages : tuple of str
        Ids.
    value, limit : float
        What was measured, and what it was compared with.
    text : str
        The same in words.
    """

    kind: str
    query: str
    topic: str
    passages: tuple[str, ...]
    value: float
    limit: float
    text: str

    def __post_init__(self) -> None:
        _validate.choice("kind", self.kind, KINDS)


@dataclass(frozen=True)
class ReviewEntry:
    """A page that left or came, as a reviewer wants to see it.

    Attributes
    ----------
    query : str
    change : str
        "came" or "left".
    answer : str
        "selected" (what the assistant would be given) or "raw" (plain similarity).
    passage, lineage, source, account, time, version : str or None
    tier : int or None
    similarity, ps, p_challenge, p_shift : float or None
    """

    query: str
    change: str
    answer: str
    passage: str | None
    lineage: str
    source: str | None
    tier: int | None
    account: str | None
    time: str | None
    similarity: float | None
    ps: float | None
    p_challenge: float | None
    p_shift: float | None


@dataclass(frozen=True)
class QueryDrift:
    """Drift of one golden query; NaN-free: `reviewed` says whether there is a baseline at all."""

    query: str
    topic: str
    reviewed: bool
    drift: float
    raw_drift: float


@dataclass(frozen=True)
class GateReport:
    """What a check of a staged version found.

    Attributes
    ----------
    version, trusted : str
    time : str
    findings : tuple of Finding
        Empty: nothing is held.
    drifts : tuple of QueryDrift
    review : tuple of ReviewEntry
    n_new : int
        New or changed pages; `n_tested` of them reached the pool of a golden query.
    n_tested : int
    notes : tuple of str
        What was not tested, and why.
    """

    version: str
    trusted: str
    time: str
    findings: tuple[Finding, ...]
    drifts: tuple[QueryDrift, ...]
    review: tuple[ReviewEntry, ...]
    n_new: int
    n_tested: int
    notes: tuple[str, ...]

    @property
    def fired(self) -> bool:
        """Whether a promotion is to be held."""
        return bool(self.findings)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics whose owners must decide, in the order of the findings."""
        return tuple(dict.fromkeys(finding.topic for finding in self.findings))

    @property
    def queries(self) -> tuple[str, ...]:
        """Golden queries that a finding is about, in the order of the findings."""
        return tuple(dict.fromkeys(finding.query for finding in self.findings))

    def to_json(self) -> str:
        """Write the report as one JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> GateReport:
        """Read what `to_json` wrote."""
        try:
            values: dict[str, Any] = json.loads(text)
            values["findings"] = tuple(Finding(**_tupled(one)) for one in values["findings"])
            values["drifts"] = tuple(QueryDrift(**one) for one in values["drifts"])
            values["review"] = tuple(ReviewEntry(**one) for one in values["review"])
            values["notes"] = tuple(values["notes"])
            return cls(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError("report", "a report of the gate", str(error)) from None


def _tupled(finding: Mapping[str, Any]) -> dict[str, Any]:
    return {**finding, "passages": tuple(finding["passages"])}
