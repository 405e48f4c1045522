"""The gate: a staged version against the last trusted one, golden query by golden query.

Owns which measurements become findings. Drift is measured against the reviewed baseline, so that
many small changes add up; new pages are measured against the last trusted version. False alarms:
one new page that is like the trusted ones is a finding of `challenge` or `polarization shift` with
probability at most `false_alarm_rate` in all; bursts (`bursts`) and the rules on copies (`copies`)
come on top (see docs/index.md, which has them measured).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epibias._plain import finite_or_none
from epibias._validate import Float32Array, Int64Array
from epibias.data_sets import GoldenQuery
from epibias.index.bursts import Arrival, burst_findings, low_tier_newcomers
from epibias.index.copies import copy_findings
from epibias.index.drift import Drift, GoldenAnswer, drift_of, golden_answers
from epibias.index.gate_report import Finding, GateReport, QueryDrift, ReviewEntry
from epibias.index.golden import Baseline
from epibias.index.newcomers import Challenges, PageScores, conformal_p, new_rows
from epibias.index.policy import LOW_TIER
from epibias.index.reader import IndexReader
from epibias.index.rows import Row
from epibias.polarization import PolarizationAxis

POOL_FACTOR = 4
# Of the false alarms that one page may cause, where both tests run: to the one that finds more.
CHALLENGE_SHARE = 0.6
RISE_OF_AN_EDIT = 0.02  # in similarity; honest edits of a sentence stay within it


@dataclass(frozen=True, eq=False)
class GateInputs:
    """Everything that a check looks at beside the two versions.

    Attributes
    ----------
    queries : sequence of GoldenQuery
    query_embeddings : float32 [n_queries, dim]
    baselines : mapping of query id to Baseline
    axes : mapping of topic to PolarizationAxis
        Of the topics whose axis is valid.
    now : str
    arrivals : sequence of Arrival
        Accounts whose pages earlier checks saw come into a query's top-k.
    notes : tuple of str
        About axes that are missing or not valid.
    """

    queries: Sequence[GoldenQuery]
    query_embeddings: Float32Array = field(repr=False)
    baselines: Mapping[str, Baseline]
    axes: Mapping[str, PolarizationAxis]
    now: str
    arrivals: Sequence[Arrival] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class NewPages:
    """The new pages that reached a golden query's pool, with their p-values.

    Attributes
    ----------
    rows : int64 [n]
    p_challenge, p_shift : float64 [n]
        NaN where a page was not tested.
    scores : PageScores
    n_new : int
        Before the pools were asked.
    """

    rows: Int64Array
    p_challenge: Mapping[int, float]
    p_shift: Mapping[int, float]
    scores: PageScores
    n_new: int


def run_gate(
    trusted: IndexReader, staged: IndexReader, inputs: GateInputs
) -> tuple[GateReport, Mapping[str, set[str]]]:
    """Check a staged version.

    Parameters
    ----------
    trusted, staged : IndexReader
        Both with everything visible.
    inputs : GateInputs

    Returns
    -------
    tuple of (GateReport, mapping of query id to set of str)
        The report, and the accounts whose new pages are among each golden query's top-k.
    """
    answers = golden_answers(staged, inputs.queries, inputs.query_embeddings)
    drifts = {
        answer.query.id: drift_of(answer, inputs.baselines[answer.query.id])
        for answer in answers
        if answer.query.id in inputs.baselines
    }
    pool_size = POOL_FACTOR * staged.policy.selection.k
    challenges = Challenges(
        trusted, inputs.queries, inputs.query_embeddings, inputs.axes, pool_size
    )
    pages = _new_pages(trusted, staged, inputs, challenges, pool_size)
    here = low_tier_newcomers(staged, answers, pages.rows)
    bursts, untested = burst_findings(
        trusted,
        staged,
        inputs.queries,
        inputs.query_embeddings,
        here,
        inputs.arrivals,
        inputs.now,
    )
    findings = [
        *_drift_findings(staged, drifts),
        *_test_findings(staged, inputs, pages),
        *bursts,
        *copy_findings(staged, inputs.queries, answers, pages.rows, pages.scores.shifted),
    ]
    unreviewed = [q.id for q in inputs.queries if q.id not in inputs.baselines]
    notes = [*inputs.notes, *untested]
    if unreviewed:
        notes.append(f"no drift of {', '.join(unreviewed)}: no baseline was reviewed")
    report = GateReport(
        version=staged.files.id,
        trusted=trusted.files.id,
        time=inputs.now,
        findings=tuple(findings),
        drifts=tuple(_query_drift(query, drifts.get(query.id)) for query in inputs.queries),
        review=tuple(_review(trusted, staged, answers, drifts, pages, challenges)),
        n_new=pages.n_new,
        n_tested=len(pages.rows),
        notes=tuple(notes),
    )
    return report, here.accounts


def _new_pages(
    trusted: IndexReader,
    staged: IndexReader,
    inputs: GateInputs,
    challenges: Challenges,
    pool_size: int,
) -> NewPages:
    new = new_rows(trusted.files.rows, staged.files.rows)
    if len(new) == 0 or not inputs.queries:
        nothing = challenges.score(staged, new[:0], own_pool=False)
        return NewPages(new[:0], {}, {}, nothing, len(new))
    pools = staged.similar(inputs.query_embeddings, pool_size)
    in_pool = np.unique(np.concatenate([pool.rows for pool in pools]))
    rows = np.intersect1d(new, in_pool)
    scores = challenges.score(staged, rows, own_pool=False)
    everyone = np.arange(len(trusted.files.rows))
    reference = challenges.score(trusted, everyone, own_pool=True)
    tiers = trusted.all_tiers
    before = trusted.files.rows.find_lineages(staged.files.rows.lineages(rows)).tolist()
    p_challenge, p_shift = {}, {}
    for place, (row, old) in enumerate(zip(rows.tolist(), before, strict=True)):
        # Like with like: pages of controlled sources say nothing about those of open ones.
        tier = int(staged.all_tiers[row])
        alike = (tiers >= LOW_TIER) == (tier >= LOW_TIER)
        p_challenge[row] = conformal_p(scores.challenge[place], reference.challenge[alike])
        if tier < LOW_TIER and old >= 0:
            # A controlled page that competed before may be edited, if it does not compete more.
            risen = scores.challenge[place] > reference.challenge[old] + RISE_OF_AN_EDIT
            p_challenge[row] = p_challenge[row] if risen else float("nan")
        p_shift[row] = conformal_p(scores.shift[place], reference.shift[alike])
    return NewPages(rows, p_challenge, p_shift, scores, len(new))


def _drift_findings(staged: IndexReader, drifts: Mapping[str, Drift]) -> list[Finding]:
    findings = []
    for one in drifts.values():
        rule = staged.policy.topic(one.topic)
        for kind, value, limit, came in (
            ("drift", one.drift, rule.max_drift, one.came),
            ("raw drift", one.raw_drift, rule.max_raw_drift, one.raw_came),
        ):
            if value > limit:
                text = f"{value:.0%} of the reviewed answer disappeared; {limit:.0%} may"
                findings.append(Finding(kind, one.query, one.topic, came, value, limit, text))
    return findings


def _test_findings(staged: IndexReader, inputs: GateInputs, pages: NewPages) -> list[Finding]:
    findings = []
    for place, row in enumerate(pages.rows.tolist()):
        (name,) = staged.files.rows.ids(np.array([row]))
        tests = (
            ("challenge", pages.p_challenge[row], pages.scores.challenged, CHALLENGE_SHARE),
            ("polarization shift", pages.p_shift[row], pages.scores.shifted, 1 - CHALLENGE_SHARE),
        )
        run = [test for test in tests if not np.isnan(test[1])]
        for kind, p_value, query_of, share in run:
            rate = staged.policy.gate.false_alarm_rate
            limit = rate * (share if len(run) > 1 else 1.0)
            if p_value > limit:
                continue
            query = inputs.queries[int(query_of[place])]
            text = (
                f"{name} competes like no trusted page (p {p_value:.3f})"
                if kind == "challenge"
                else f"{name} leans to the shortcut like no trusted page (p {p_value:.3f})"
            )
            findings.append(Finding(kind, query.id, query.topic, (name,), p_value, limit, text))
    return findings


def _query_drift(query: GoldenQuery, drift: Drift | None) -> QueryDrift:
    if drift is None:
        return QueryDrift(query.id, query.topic, False, 0.0, 0.0)
    return QueryDrift(query.id, query.topic, True, drift.drift, drift.raw_drift)


def _review(
    trusted: IndexReader,
    staged: IndexReader,
    answers: Sequence[GoldenAnswer],
    drifts: Mapping[str, Drift],
    pages: NewPages,
    challenges: Challenges,
) -> list[ReviewEntry]:
    gone = {name for one in drifts.values() for name in (*one.left, *one.raw_left)}
    old_rows = dict(zip(gone, trusted.files.rows.find_lineages(list(gone)).tolist(), strict=True))
    wanted: list[tuple[GoldenAnswer, str, str, str, IndexReader, int]] = []
    for answer in answers:
        drift = drifts.get(answer.query.id)
        if drift is None:
            continue
        for kind, found, lineages, came, left in (
            ("selected", answer.selected, answer.selected_lineages, drift.came, drift.left),
            ("raw", answer.raw, answer.raw_lineages, drift.raw_came, drift.raw_left),
        ):
            rows = [int(found.rows[lineages.index(lineage)]) for lineage in came]
            wanted += [
                (answer, "came", kind, lineage, staged, row)
                for lineage, row in zip(came, rows, strict=True)
            ]
            wanted += [
                (answer, "left", kind, lineage, trusted, old_rows[lineage]) for lineage in left
            ]
    read = {
        reader: _pages_of(reader, {one[5] for one in wanted if one[4] is reader})
        for reader in (staged, trusted)
    }
    return [_entry(*one, read[one[4]].get(one[5]), pages, challenges) for one in wanted]


def _pages_of(reader: IndexReader, rows: set[int]) -> dict[int, Row]:
    """Read some rows together: a row alone costs as much as thousands of neighbours."""
    there = sorted(row for row in rows if row >= 0)
    return dict(zip(there, reader.files.rows.read(there), strict=True)) if there else {}


def _entry(
    answer: GoldenAnswer,
    change: str,
    kind: str,
    lineage: str,
    reader: IndexReader,
    row: int,
    page: Row | None,
    pages: NewPages,
    challenges: Challenges,
) -> ReviewEntry:
    if page is None:  # it left in an earlier version
        return ReviewEntry(answer.query.id, change, kind, None, lineage, *(None,) * 8)
    ps = challenges.ps(reader, np.array([row]), answer.query.topic)
    found = answer.selected if kind == "selected" else answer.raw
    came = change == "came"
    at = np.flatnonzero((found.rows == row) & came)  # the rows of what left are another version's
    return ReviewEntry(
        query=answer.query.id,
        change=change,
        answer=kind,
        passage=page.passage.id,
        lineage=lineage,
        source=page.passage.source,
        tier=page.passage.tier,
        account=page.account,
        time=page.passage.time,
        similarity=float(found.similarities[at[0]]) if len(at) else None,
        ps=None if ps is None else float(ps[0]),
        p_challenge=finite_or_none(pages.p_challenge.get(row)) if came else None,
        p_shift=finite_or_none(pages.p_shift.get(row)) if came else None,
    )
