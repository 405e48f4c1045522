"""Copies: a new page that repeats another account's page, an authoritative one, or the question.

Owns the three rules that look at words and vectors of new pages. Only pages that reached the pool
of a golden query are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epibias._validate import Int64Array
from epibias.data_sets import GoldenQuery
from epibias.index.drift import GoldenAnswer
from epibias.index.gate_report import Finding
from epibias.index.reader import IndexReader
from epibias.index.rows import Row
from epibias.index.signals import SHARE_COPIED, WordRuns

COPIES_LOOKED_AT = 6  # nearest passages of a new page


@dataclass(frozen=True, eq=False)
class Original:
    """A page that answers golden queries, and could be imitated; numbers of the queries."""

    page: Row
    runs: WordRuns
    queries: tuple[int, ...]


def copy_findings(
    staged: IndexReader,
    queries: Sequence[GoldenQuery],
    answers: Sequence[GoldenAnswer],
    rows: Int64Array,
    nearest_query: Int64Array,
) -> list[Finding]:
    """Find copies among new pages.

    Parameters
    ----------
    staged : IndexReader
    queries : sequence of GoldenQuery
    answers : sequence of GoldenAnswer
        Of the staged version, one a query: the pages with authority that could be imitated.
    rows : int64 [n]
        New pages that reached a pool.
    nearest_query : int64 [n]
        Golden query that each competes for most.

    Returns
    -------
    list of Finding
    """
    if len(rows) == 0:
        return []
    pages = staged.files.rows.read(rows)
    findings = _near_duplicates(staged, queries, pages, rows, nearest_query)
    originals = _originals(staged, answers)
    asked = [WordRuns(query.text) for query in queries]
    for row, page in zip(rows.tolist(), pages, strict=True):
        text = WordRuns(f"{page.passage.title} {page.passage.text}")
        for query, question in zip(queries, asked, strict=True):
            if staged.eligible(query.topic)[row]:
                continue
            share = question.share_in(text)
            if share >= SHARE_COPIED:
                name = page.passage.id
                what, limit = f"{name} repeats the question", SHARE_COPIED
                findings.append(
                    Finding("copied question", query.id, query.topic, (name,), share, limit, what)
                )
        findings += _copied_pages(staged, queries, originals, row, page)
    return findings


def _near_duplicates(
    staged: IndexReader,
    queries: Sequence[GoldenQuery],
    pages: Sequence[Row],
    rows: Int64Array,
    nearest_query: Int64Array,
) -> list[Finding]:
    limit = staged.policy.gate.near_duplicate
    nearest = staged.similar(np.ascontiguousarray(staged.files.vectors[rows]), COPIES_LOOKED_AT)
    findings = []
    for place, (row, page, near) in enumerate(zip(rows.tolist(), pages, nearest, strict=True)):
        query = queries[int(nearest_query[place])]
        for other, similarity in zip(near.rows.tolist(), near.similarities.tolist(), strict=True):
            account = staged.files.rows.account(other)
            if other != row and similarity >= limit and account != page.account:
                names = (page.passage.id, *staged.files.rows.ids(np.array([other])))
                text = f"{names[0]} says what {names[1]} of another account says"
                findings.append(
                    Finding("near duplicate", query.id, query.topic, names, similarity, limit, text)
                )
                break
    return findings


def _originals(staged: IndexReader, answers: Sequence[GoldenAnswer]) -> dict[int, Original]:
    """Pages that answer golden queries, by row."""
    asked: dict[int, list[int]] = {}
    for number, answer in enumerate(answers):
        for row in answer.selected.rows.tolist():
            asked.setdefault(row, []).append(number)
    pages = staged.files.rows.read(list(asked)) if asked else []
    return {
        row: Original(page, WordRuns(page.passage.text), tuple(asked[row]))
        for row, page in zip(asked, pages, strict=True)
    }


def _copied_pages(
    staged: IndexReader,
    queries: Sequence[GoldenQuery],
    originals: dict[int, Original],
    row: int,
    page: Row,
) -> list[Finding]:
    """Find the page that this one imitates most, where it has no authority itself."""
    limit = staged.policy.gate.copied_page
    best: tuple[float, str, int] | None = None
    text = WordRuns(page.passage.text)
    for row_of, original in originals.items():
        without = [n for n in original.queries if not staged.eligible(queries[n].topic)[row]]
        if row_of == row or not without or original.page.account == page.account:
            continue
        share = text.share_in(original.runs)
        if share >= limit and (best is None or share > best[0]):
            best = share, original.page.passage.id, without[0]
    if best is None:
        return []
    share, original_id, number = best
    query, name = queries[number], page.passage.id
    what = f"{share:.0%} of {name} is the text of {original_id}, which has authority"
    names = (name, original_id)
    return [Finding("copied page", query.id, query.topic, names, share, limit, what)]
