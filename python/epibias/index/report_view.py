"""A gate report as a tenant may see it: pages of other tenants are neither named nor described.

Owns what is left out. The gate itself must read everybody's pages; whoever reads its report sees
that something is hidden, and how much, but not what.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from epibias.errors import InputError
from epibias.index.gate_report import Finding, GateReport, ReviewEntry
from epibias.index.reader import IndexReader

if TYPE_CHECKING:
    from epibias.index.store import IndexStore

HIDDEN = "(a page that you may not see)"


def report_for(
    store: IndexStore, report: GateReport, *, tenant: str | None = None, everything: bool = False
) -> GateReport:
    """Give a report without what a tenant may not see.

    Parameters
    ----------
    store : IndexStore
    report : GateReport
        Of a check of this store.
    tenant : str, optional
        Whose pages may be seen, beside everybody's.
    everything : bool
        All tenants' pages: for those who govern.

    Returns
    -------
    GateReport
        With a note where something is hidden. Numbers of pages, drift and p-values stay.
    """
    if everything:
        return report
    readers = _readers(store, report, tenant)
    named = [name for one in report.findings for name in one.passages]
    named += [one.passage for one in report.review if one.passage is not None]
    seen = _visible(readers, named)
    lineages = [name for one in report.findings for name in one.passages]
    lineages += [one.lineage for one in report.review]
    known = _visible(readers, lineages, by_lineage=True)
    findings = tuple(_finding(one, seen | known) for one in report.findings)
    review = tuple(_entry(one, seen, known) for one in report.review)
    if (findings, review) == (report.findings, report.review):
        return report
    note = "pages of other tenants are not shown: --everything, for those who govern"
    return replace(report, findings=findings, review=review, notes=(*report.notes, note))


def _readers(store: IndexStore, report: GateReport, tenant: str | None) -> list[IndexReader]:
    readers = []
    for version in (report.version, report.trusted):
        try:
            readers.append(store.read_version(version, tenant=tenant))
        except InputError:  # noqa: PERF203  its files are gone: nobody can tell whose pages it had
            continue
    return readers


def _visible(
    readers: Iterable[IndexReader], names: list[str], *, by_lineage: bool = False
) -> frozenset[str]:
    """Those of some ids or lineages that a version has where the tenant may read them."""
    wanted = list(dict.fromkeys(names))
    found: set[str] = set()
    for reader in readers:
        rows = reader.files.rows
        places = (rows.find_lineages if by_lineage else rows.find)(wanted)
        found |= {
            name
            for name, row in zip(wanted, places.tolist(), strict=True)
            if row >= 0 and reader.visible[row]
        }
    return frozenset(found)


def _finding(finding: Finding, seen: frozenset[str]) -> Finding:
    if all(name in seen for name in finding.passages):
        return finding
    names = tuple(name if name in seen else HIDDEN for name in finding.passages)
    return replace(finding, passages=names, text=f"{finding.kind}, {HIDDEN}")


def _entry(entry: ReviewEntry, seen: frozenset[str], known: frozenset[str]) -> ReviewEntry:
    if entry.passage in seen or (entry.passage is None and entry.lineage in known):
        return entry
    return ReviewEntry(
        entry.query,
        entry.change,
        entry.answer,
        passage=None,
        lineage=HIDDEN,
        source=None,
        tier=None,
        account=None,
        time=None,
        similarity=None,
        ps=None,
        p_challenge=None,
        p_shift=None,
    )
