"""Bursts: more new accounts than the past would lead one to expect, at one question or a family.

Owns the counting. A family is what the policy calls a topic: its golden queries ask about the same
thing, and an attacker who spreads pages over their wordings competes for all of them. An account
*arrives* at a family when a page of it, of low tier and without authority, first stands among the
top-k of one of its queries. Arrivals of the last `burst_days` are compared with those before, by
the exact test of two Poisson rates: given all of them, the late ones are binomial, whatever the
rate. Held and rejected versions count as tries, never as history, or who tries often enough would
become normal. What was there before the store is dated by its pages, the rest by the store's clock.

References
----------
Przyborowski, Wilenski: Homogeneity of results in testing samples from Poisson series, Biometrika
31, 1940, doi:10.1093/biomet/31.3-4.313 (the conditional test).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epibias._plain import moment
from epibias._validate import Float32Array, Int64Array
from epibias.data_sets import GoldenQuery
from epibias.index import signals
from epibias.index.drift import GoldenAnswer
from epibias.index.gate_report import Finding
from epibias.index.policy import LOW_TIER
from epibias.index.reader import IndexReader


@dataclass(frozen=True)
class Arrival:
    """An account whose page came into the top-k of a golden query, as an earlier check saw it.

    Attributes
    ----------
    query, account, time : str
    promoted : bool
        Whether the version that brought it was promoted.
    """

    query: str
    account: str
    time: str
    promoted: bool


@dataclass(eq=False)
class Appearances:
    """New low-tier pages among each golden query's top-k, and whose they are."""

    accounts: dict[str, set[str]] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)


def low_tier_newcomers(
    staged: IndexReader, answers: Sequence[GoldenAnswer], new: Int64Array
) -> Appearances:
    """Find new pages of low tier, without authority, among each golden query's top-k."""
    found = Appearances()
    news = set(new.tolist())
    for answer in answers:
        allowed = staged.eligible(answer.query.topic)
        for row in answer.raw.rows.tolist():
            if row in news and not allowed[row] and staged.all_tiers[row] >= LOW_TIER:
                found.rows.setdefault(answer.query.id, []).append(row)
                account = staged.files.rows.account(row) or "nobody"
                found.accounts.setdefault(answer.query.id, set()).add(account)
    return found


def burst_p(n_late: int, n_before: int, days_before: float, window_days: float) -> float:
    """Give the chance of so many late arrivals at least, if the rate never changed.

    Parameters
    ----------
    n_late : int
        Accounts that arrived within the window.
    n_before : int
        Accounts that arrived in the `days_before` the window.
    days_before, window_days : float

    Returns
    -------
    float
        P(Binomial(n_late + n_before, window / (window + before)) >= n_late): at most α with
        probability at most α, for every constant rate.

    Examples
    --------
    >>> round(burst_p(3, 0, 270, 30), 4), round(burst_p(3, 9, 270, 30), 4)
    (0.001, 0.1109)
    """
    from scipy.special import betainc  # half a second that most commands need not wait

    if n_late == 0:
        return 1.0
    share = window_days / (window_days + max(days_before, 0.0))
    # The tail of a binomial is an incomplete beta.
    return float(betainc(n_late, n_before + 1, share))


def burst_findings(
    trusted: IndexReader,
    staged: IndexReader,
    queries: Sequence[GoldenQuery],
    query_embeddings: Float32Array,
    here: Appearances,
    arrivals: Iterable[Arrival],
    now: str,
) -> tuple[list[Finding], tuple[str, ...]]:
    """Test each golden query, and each topic's together, for a burst.

    Parameters
    ----------
    trusted, staged : IndexReader
    queries : sequence of GoldenQuery
    query_embeddings : float32 [n_queries, dim]
    here : Appearances
        Of the staged version.
    arrivals : iterable of Arrival
        What earlier checks saw.
    now : str

    Returns
    -------
    tuple of (list of Finding, tuple of str)
        And notes on what could not be tested.
    """
    rule = staged.policy.gate
    if not here.rows:
        return [], ()
    span = signals.span_in_days(trusted.files.rows.times(), now)
    if span is None or span <= rule.burst_days:
        return [], (f"no test for bursts: no page is older than {rule.burst_days:g} days",)
    late, early = _by_age(arrivals, now, rule.burst_days)
    standing = _standing(trusted, queries, query_embeddings)
    findings = []
    for topic in dict.fromkeys(query.topic for query in queries):
        family = [query.id for query in queries if query.topic == topic]
        # Half the rate for the family together, half for its queries; one query is its family.
        groups = [(family, rule.burst_rate if len(family) == 1 else rule.burst_rate / 2)]
        if len(family) > 1:
            groups += [([one], rule.burst_rate / 2 / len(family)) for one in family]
        for group, limit in groups:
            tried = _union(late, group)
            known = _union(early, group) | (_union(standing, group) - tried)
            accounts = (tried | _union(here.accounts, group)) - known
            if not _union(here.accounts, group) - known or len(accounts) < rule.burst_accounts:
                continue
            p_value = burst_p(len(accounts), len(known), span - rule.burst_days, rule.burst_days)
            if p_value > limit:
                continue
            reached = [one for one in group if one in here.rows]
            most = max(reached, key=lambda one: len(here.accounts[one]))
            rows = sorted({row for one in reached for row in here.rows[one]})
            asked = f"the questions of {topic}" if len(group) > 1 else group[0]
            text = (
                f"{len(accounts)} new accounts compete for {asked} within {rule.burst_days:g} "
                f"days, after {len(known)} in {span - rule.burst_days:.0f} days (p {p_value:.4f})"
            )
            names = tuple(staged.files.rows.ids(np.array(rows)))
            findings.append(Finding("burst", most, topic, names, p_value, limit, text))
    return findings, ()


def _by_age(
    arrivals: Iterable[Arrival], now: str, window_days: float
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Accounts by query: those that arrived within the window, and those promoted before it."""
    late: dict[str, set[str]] = {}
    early: dict[str, set[str]] = {}
    for one in arrivals:
        days = (moment(now) - moment(one.time)).total_seconds() / 86400
        if days <= window_days:
            late.setdefault(one.query, set()).add(one.account)
        elif one.promoted:
            early.setdefault(one.query, set()).add(one.account)
    return late, early


def _standing(
    trusted: IndexReader, queries: Sequence[GoldenQuery], query_embeddings: Float32Array
) -> dict[str, set[str]]:
    """Accounts by query that already stand among its trusted top-k, without authority."""
    raw = trusted.similar(query_embeddings, trusted.policy.selection.k)
    found = {}
    for query, plain in zip(queries, raw, strict=True):
        outside = ~trusted.eligible(query.topic)[plain.rows]
        outside &= trusted.all_tiers[plain.rows] >= LOW_TIER
        rows = plain.rows[outside].tolist()
        found[query.id] = {trusted.files.rows.account(row) or "nobody" for row in rows}
    return found


def _union(accounts: Mapping[str, set[str]], queries: Iterable[str]) -> set[str]:
    return set().union(*(accounts.get(query, set()) for query in queries))
