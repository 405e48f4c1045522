"""What comes into a version and what leaves it, checked against the policy before a row is written.

Owns admission: source and tier as the policy has them, who may write to which source, replacements
that stay in their source and inherit the page's lineage. A page that is admitted can be found; what
it may answer is the reader's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.corpus import Corpus, Passage
from epibias.errors import InputError
from epibias.index.policy import Policy
from epibias.index.rows import Row
from epibias.index.version_files import VersionFiles

ROWS_AT_ONCE = 4096
PAGES_NAMED = 1000  # in one line of the write log; of more, the version itself has the list


@dataclass(frozen=True)
class Addition:
    """A passage that is to come in.

    Parameters
    ----------
    passage : Passage
        Its tier may be left out: the policy knows it.
    replaces : str, optional
        Id of the page of which this is a new version; it may be the same id. It stays in the
        page's source and with its tenant.
    account : str, optional
        Who wrote it into the index, as the service's sign-in knows it. Sources that list accounts
        take no page without one; elsewhere the author stands for it in logs and counts.
    tenant : str, optional
        Who alone may read it. Of a replacement: the page's, and may be left out.

    Examples
    --------
    >>> Addition(Passage("p2", "Trains are faster.", source="wiki"), replaces="p1").replaces
    'p1'
    """

    passage: Passage
    replaces: str | None = None
    account: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What a successor will hold: rows of the parent that stay, and new rows.

    Attributes
    ----------
    added : tuple of Row
    replaced : mapping of str to str
        Id of a new page to the id of the page it replaces.
    kept : bool [n_passages of the parent]
    removed : tuple of str
        Ids of pages that leave, replaced ones included.
    """

    added: tuple[Row, ...]
    replaced: Mapping[str, str]
    kept: Any
    removed: tuple[str, ...]

    @property
    def n_passages(self) -> int:
        """Passages of the successor."""
        return int(np.count_nonzero(self.kept)) + len(self.added)

    def log_body(self) -> dict[str, Any]:
        """Say who brought what, for the write log."""
        added = [
            {
                "passage": row.passage.id,
                "source": row.passage.source,
                "tier": row.passage.tier,
                "account": row.account,
                "tenant": row.tenant,
                "author": row.passage.author,
                "written": row.passage.time,
                "content_sha256": row.content_sha256,
                **({"replaces": one} if (one := self.replaced.get(row.passage.id)) else {}),
            }
            for row in self.added[:PAGES_NAMED]
        ]
        return {
            "n_added": len(self.added),
            "added": added,
            "n_removed": len(self.removed),
            "removed": list(self.removed[:PAGES_NAMED]),
        }


def plan_changes(
    parent: VersionFiles | None,
    additions: Sequence[Addition],
    removals: Sequence[str],
    policy: Policy,
) -> Plan:
    """Check changes against policy and parent.

    Parameters
    ----------
    parent : VersionFiles or None
        None for the first version.
    additions : sequence of Addition
    removals : sequence of str
        Ids of passages that leave.
    policy : Policy

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        Names the passage: a source that the policy does not know, another tier than the source's,
        an account that may not write to it, an id that is there already or is not, a replacement
        from another source.
    """
    if not additions and not removals:
        raise InputError("additions", "something to add or remove", "nothing")
    Corpus(one.passage for one in additions)  # texts, times and ids, as everywhere
    wanted = [one.passage.id for one in additions]
    wanted += [one.replaces for one in additions if one.replaces is not None]
    old = _Parent(parent, [*wanted, *removals])
    gone: dict[str, str] = {}
    for removal in removals:
        old.row(removal, "removals")
        gone[removal] = "removals"
    rows = []
    replaced: dict[str, str] = {}
    for addition in additions:
        lineage = None
        tenant = addition.tenant
        if addition.replaces is not None:
            if addition.replaces in gone:
                found = f"{addition.replaces!r} twice"
                raise InputError("replaces", "each page once", found, _where(addition))
            lineage, tenant = old.inherited(addition)
            gone[addition.replaces] = "replaces"
            replaced[addition.passage.id] = addition.replaces
        rows.append(_row(addition, lineage, tenant, policy))
    for addition, row in zip(additions, rows, strict=True):
        name = addition.passage.id
        taken = name in old.row_of and name not in gone
        if taken or (addition.replaces is None and old.knows_lineage(row.lineage)):
            found = f"{name!r}, which is there"
            raise InputError("passage", "a new id, or replaces", found, _where(addition))
    return Plan(tuple(rows), replaced, old.kept(gone), tuple(gone))


def batches(
    plan: Plan, parent: VersionFiles | None, embeddings: Float32Array
) -> Iterator[tuple[Any, Float32Array]]:
    """Yield the successor's rows: what stays, in its order, then what is new."""
    if parent is not None:
        first = 0
        for table in parent.rows.groups():
            kept = plan.kept[first : first + len(table)]
            vectors = parent.vectors[first : first + len(table)]
            first += len(table)
            if kept.all():
                yield table, vectors
            elif kept.any():
                yield table.filter(kept), np.ascontiguousarray(vectors[kept])
    for start in range(0, len(plan.added), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        yield list(plan.added[part]), embeddings[part]


class _Parent:
    """Looks pages of the parent up, all that are needed at once."""

    def __init__(self, files: VersionFiles | None, wanted: Sequence[str]) -> None:
        self._files = files
        self.row_of: dict[str, int] = {}
        if files is not None and wanted:
            found = zip(wanted, files.rows.find(wanted).tolist(), strict=True)
            self.row_of = {name: row for name, row in found if row >= 0}

    def row(self, name: str, argument: str, where: str | None = None) -> int:
        if name not in self.row_of:
            expected = "the id of a passage of the current version"
            raise InputError(argument, expected, repr(name), where)
        return self.row_of[name]

    def inherited(self, addition: Addition) -> tuple[str, str | None]:
        """Lineage and tenant of the page that an addition replaces."""
        where = _where(addition)
        row = self.row(str(addition.replaces), "replaces", where)
        assert self._files is not None  # noqa: S101  for mypy: it has the row
        rows = self._files.rows
        source = rows.source(row)
        if addition.passage.source not in (None, source):
            found = repr(addition.passage.source)
            raise InputError("replaces", f"a page of the same source, {source!r}", found, where)
        # Nobody publishes a private page by replacing it, nor learns whose it is.
        tenant = rows.tenant(row)
        if addition.tenant not in (None, tenant):
            found = repr(addition.tenant)
            raise InputError("tenant", "the tenant of the page, or none", found, where)
        return rows.lineages(np.array([row]))[0], tenant

    def knows_lineage(self, lineage: str) -> bool:
        return self._files is not None and lineage in self._files.rows.all_lineages

    def kept(self, gone: Mapping[str, str]) -> Any:  # noqa: ANN401
        if self._files is None:
            return np.empty(0, np.bool_)
        kept = np.ones(len(self._files.rows), np.bool_)
        kept[[self.row_of[name] for name in gone]] = False
        return kept


def _row(addition: Addition, lineage: str | None, tenant: str | None, policy: Policy) -> Row:
    passage, where = addition.passage, _where(addition)
    if lineage is not None and passage.source is None:
        passage = replace(passage, source=lineage.partition(":")[0])
    rule = policy.sources.get(passage.source or "")
    if rule is None:
        raise InputError("source", "a source of the policy", repr(passage.source), where)
    if passage.tier not in (None, rule.tier):
        raise InputError("tier", f"{rule.tier}, the source's", repr(passage.tier), where)
    # What a page says of its author is content: anybody can write it.
    if rule.accounts and addition.account not in rule.accounts:
        expected = f"an account that may write to {passage.source!r}"
        raise InputError("account", expected, repr(addition.account), where)
    account = addition.account or passage.author
    if tenant is not None:
        _validate.text("tenant", tenant, where)
    # With its source: the same id from elsewhere is another page.
    lineage = lineage or f"{passage.source}:{passage.id}"
    return Row(replace(passage, tier=rule.tier), lineage, account, tenant)


def _where(addition: Addition) -> str:
    return f"passage {addition.passage.id!r}"
