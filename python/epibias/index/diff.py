"""What differs between two versions, as far as the reader may see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epibias._validate import Int64Array
from epibias.index.newcomers import new_rows
from epibias.index.reader import IndexReader


@dataclass(frozen=True)
class Changed:
    """A passage that differs.

    Attributes
    ----------
    passage, lineage : str
    source, account : str or None
    tier : int
    before : str or None
        For a new version of a page, the id it had.
    """

    passage: str
    lineage: str
    source: str | None
    account: str | None
    tier: int
    before: str | None = None


@dataclass(frozen=True)
class VersionDiff:
    """What came, what left, and which pages have a new version.

    Attributes
    ----------
    old, new : str
    added, removed, changed : tuple of Changed
    """

    old: str
    new: str
    added: tuple[Changed, ...]
    removed: tuple[Changed, ...]
    changed: tuple[Changed, ...]


def diff_versions(old: IndexReader, new: IndexReader) -> VersionDiff:
    """Compare two versions, passages of other tenants left out on both sides.

    Parameters
    ----------
    old, new : IndexReader

    Returns
    -------
    VersionDiff
    """
    came = _visible(new, new_rows(old.files.rows, new.files.rows))
    left = _visible(old, new_rows(new.files.rows, old.files.rows))
    before = {one.lineage: one.passage for one in _described(old, left)}
    news = _described(new, came)
    changed = tuple(
        Changed(**{**vars(one), "before": before[one.lineage]})
        for one in news
        if one.lineage in before
    )
    lineages = {one.lineage for one in changed}
    return VersionDiff(
        old.files.id,
        new.files.id,
        added=tuple(one for one in news if one.lineage not in lineages),
        removed=tuple(one for one in _described(old, left) if one.lineage not in lineages),
        changed=changed,
    )


def _visible(reader: IndexReader, rows: Int64Array) -> Int64Array:
    return rows[reader.visible[rows]]


def _described(reader: IndexReader, found: Int64Array) -> list[Changed]:
    rows = reader.files.rows
    return [
        Changed(name, lineage, rows.source(row), rows.account(row), int(reader.all_tiers[row]))
        for name, lineage, row in zip(
            rows.ids(found), rows.lineages(found), np.asarray(found).tolist(), strict=True
        )
    ]
