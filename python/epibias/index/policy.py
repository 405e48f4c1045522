"""Who is trusted with what: tiers, sources, topics and their owners, limits. Declarative, checked.

Owns the policy's values and their meaning; `policy_file` reads them from TOML. Nothing here judges
a text: a page may answer a topic because of where it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from epibias import _validate
from epibias.errors import InputError

TIERS = (1, 2, 3)
LOW_TIER = 2  # from which a page counts as of low tier
UNMATCHED = ("open", "closed")


@dataclass(frozen=True)
class SourceRule:
    """A source of pages.

    Parameters
    ----------
    tier : {1, 2, 3}
        1 controlled, 2 team, 3 open.
    owner : str
    accounts : tuple of str
        Who may write pages of it; empty: anybody.
    """

    tier: int
    owner: str
    accounts: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopicRule:
    """A topic and what may answer its queries.

    Parameters
    ----------
    owner : str
        Reviews its golden queries, and elevates pages.
    sources : tuple of str
        The authoritative ones: pages of others are never selected for the topic's queries.
    max_drift, max_raw_drift : float
        Share of a golden query's baseline that may disappear from what is selected, or from the
        plain top-k by similarity, before a promotion is held.
    keywords : tuple of str
        A query that has one of these, as whole words, belongs to the topic.
    follow, shortcut : tuple of str
        Pole statements ("follow the procedure", "take the shortcut") that span the topic's
        polarization axis, as many of each: the n-th of both mirror each other. Empty: no test of
        it.
    """

    owner: str
    sources: tuple[str, ...]
    max_drift: float = 0.2
    max_raw_drift: float = 0.4
    keywords: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()
    shortcut: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectionRule:
    """How a context is selected.

    Parameters
    ----------
    k : int
        Passages of a context.
    cap_per_source : int
        Most of them from one source, unless its tier is exempt.
    exempt_tiers : tuple of int
    tier_weights : mapping of int to float
        Added to the similarity when passages are ranked.
    """

    k: int = 5
    cap_per_source: int = 2
    exempt_tiers: tuple[int, ...] = (1,)
    tier_weights: Mapping[int, float] = field(
        default_factory=lambda: MappingProxyType({1: 0.15, 2: 0.05, 3: 0.0})
    )


@dataclass(frozen=True)
class GateRule:
    """When a promotion is held, beside drift.

    Parameters
    ----------
    false_alarm_rate : float
        Of the conformal tests of one new page, all together.
    burst_rate : float
        Of the tests for bursts of one topic, all together.
    burst_accounts : int
        New accounts that must compete for a golden query, or for a topic's, to be a burst.
    burst_days : float
        How long an account counts as new.
    near_duplicate : float
        Cosine from which two pages of different accounts count as one text.
    copied_page : float
        Share of a page's runs of four words from which it counts as copied from one page that has
        authority where it has none.
    min_validity : float
        Validity that a topic's axis must have for its scores to count: the share of pairs of pole
        statements that it ranks right without having seen them, less the share it ranks wrong.
    """

    false_alarm_rate: float = 0.05
    burst_rate: float = 0.01
    burst_accounts: int = 2
    burst_days: float = 30.0
    near_duplicate: float = 0.95
    copied_page: float = 0.3
    min_validity: float = 0.3


@dataclass(frozen=True)
class Policy:
    """The whole policy.

    Parameters
    ----------
    sources : mapping of str to SourceRule
    topics : mapping of str to TopicRule
    selection : SelectionRule
    gate : GateRule
    nearest_golden : float
        Cosine from which a query that no keyword placed takes the topic of the nearest golden one.
    unmatched : {"open", "closed"}
        What a query of no topic may be answered with: every page, or only those of sources that
        have authority over some topic, and elevated ones.
    review_days : float
        After how many days a baseline that nobody reviewed again is reported.
    log_query_text : bool
        Whether the retrieval log holds the query's text, or a keyed hash of it.

    Raises
    ------
    InputError
        A value out of range, or a topic that names a source that there is not.

    Examples
    --------
    >>> policy = Policy(
    ...     sources={"handbook": SourceRule(1, "Trust"), "wiki": SourceRule(3, "all")},
    ...     topics={"recovery": TopicRule("Trust", ("handbook",))},
    ... )
    >>> policy.authoritative("recovery", "wiki"), policy.source("wiki").tier
    (False, 3)
    """

    sources: Mapping[str, SourceRule]
    topics: Mapping[str, TopicRule]
    selection: SelectionRule = field(default_factory=SelectionRule)
    gate: GateRule = field(default_factory=GateRule)
    nearest_golden: float = 0.5
    unmatched: str = "open"
    review_days: float = 180.0
    log_query_text: bool = False

    def __post_init__(self) -> None:
        for name, source in self.sources.items():
            _check_tier(f"sources.{name}.tier", source.tier)
        for name, topic in self.topics.items():
            self._check_topic(name, topic)
        chosen, gate = self.selection, self.gate
        _validate.integer("selection.k", chosen.k, low=1)
        _validate.integer("selection.cap_per_source", chosen.cap_per_source, low=1)
        for tier in (*chosen.exempt_tiers, *chosen.tier_weights):
            _check_tier("selection", tier)
        for tier in TIERS:
            weight = chosen.tier_weights.get(tier, 0.0)
            _validate.number(f"selection.tier_weights.{tier}", weight, low=-2, high=2)
        for name in ("false_alarm_rate", "burst_rate"):
            _validate.number(f"gate.{name}", getattr(gate, name), above=0, below=1)
        _validate.integer("gate.burst_accounts", gate.burst_accounts, low=1)
        _validate.number("gate.burst_days", gate.burst_days, above=0)
        for name in ("near_duplicate", "copied_page"):
            _validate.number(f"gate.{name}", getattr(gate, name), above=0, high=1)
        _validate.number("gate.min_validity", gate.min_validity, low=-1, high=1)
        _validate.number("nearest_golden", self.nearest_golden, low=-1, high=1)
        _validate.choice("unmatched", self.unmatched, UNMATCHED)
        _validate.number("review_days", self.review_days, above=0)
        _validate.flag("log_query_text", self.log_query_text)

    def _check_topic(self, name: str, topic: TopicRule) -> None:
        for source in topic.sources:
            if source not in self.sources:
                expected = "a source of this policy"
                raise InputError(f"topics.{name}.sources", expected, repr(source))
        if not topic.sources:
            raise InputError(f"topics.{name}.sources", "at least one source", "none")
        for limit in ("max_drift", "max_raw_drift"):
            _validate.number(f"topics.{name}.{limit}", getattr(topic, limit), low=0, high=1)
        if bool(topic.follow) != bool(topic.shortcut):
            missing = "shortcut" if topic.follow else "follow"
            raise InputError(f"topics.{name}.{missing}", "statements of both poles", "none")
        if len(topic.follow) != len(topic.shortcut):
            expected = f"{len(topic.follow)} statements, one for each of follow"
            raise InputError(f"topics.{name}.shortcut", expected, f"{len(topic.shortcut)}")

    def source(self, name: str | None) -> SourceRule:
        """Give the rule of a source.

        Raises
        ------
        InputError
            A source that the policy does not know: nothing is admitted from nowhere.
        """
        if name is None or name not in self.sources:
            raise InputError("source", "a source of the policy", repr(name))
        return self.sources[name]

    def topic(self, name: str) -> TopicRule:
        """Give the rule of a topic.

        Raises
        ------
        InputError
            No such topic.
        """
        _validate.choice("topic", name, list(self.topics))
        return self.topics[name]

    def authoritative(self, topic: str, source: str | None) -> bool:
        """Whether pages of a source may answer a topic's queries."""
        return source in self.topic(topic).sources

    def check_owner(self, topic: str, by: str) -> None:
        """Refuse whoever does not own the topic.

        Raises
        ------
        InputError
            Names topic and owner.
        """
        owner = self.topic(topic).owner
        if by != owner:
            raise InputError("by", f"{owner!r}, who owns the topic {topic!r}", repr(by))


def _check_tier(argument: str, tier: int) -> None:
    if tier not in TIERS or isinstance(tier, bool):
        raise InputError(argument, "1, 2 or 3", repr(tier))
