"""What owners decide: baselines are reviewed, held promotions accepted or rejected.

Owns who may decide about which golden query (the owner of its topic), and that the answers of a
held version become reviewed ones only for the queries that were accepted. Called by the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epibias import _validate
from epibias.data_sets import GoldenQuery
from epibias.errors import InputError
from epibias.index.drift import golden_answers
from epibias.index.reader import IndexReader
from epibias.index.records import ACCEPTED, OPEN, Hold

if TYPE_CHECKING:
    from epibias.index.store import IndexStore


def accept(
    store: IndexStore, version: str, *, by: str, reason: str, queries: Sequence[str] | None
) -> Hold:
    """Accept a held promotion for golden queries; as `IndexStore.accept` says."""
    with store.versions.lock():
        store.versions.recover()
        hold = store.held(version)
        found = store.catalogue.version(hold.version)
        # One that is accepted and still held was killed on its way: it may go on.
        if hold.state not in (OPEN, ACCEPTED) or found.state != "held":
            raise InputError("version", "a held version", f"{found.id}, {found.state}")
        own = _own_queries(store, hold, by)
        for query in queries or ():
            if query not in own:
                raise InputError("queries", f"some of {', '.join(own)}", repr(query))
        store.check_parent(found)
        hold = store.records.accept(hold, queries or own, by=by, reason=reason)
        if not hold.waiting:
            _move_baselines(store, hold, reason)
            store.move(found, "promote", by, reason)
        return hold


def reject(store: IndexStore, version: str, *, by: str, reason: str) -> None:
    """Reject a held promotion; the owner of any query concerned may."""
    with store.versions.lock():
        hold = store.held(version)
        if hold.state != OPEN:
            raise InputError("version", "a held version", f"{hold.version}, {hold.state}")
        _own_queries(store, hold, by)
        store.records.reject(hold, by=by, reason=_validate.text("reason", reason))


def review_baselines(
    store: IndexStore, topic: str, *, by: str, reason: str, queries: Sequence[str] | None
) -> int:
    """Take what the current version answers as reviewed; as the store's method says."""
    with store.versions.lock():
        of_topic = {query.id: query for query in store.golden.queries() if query.topic == topic}
        for query in queries or ():
            _validate.choice("queries", query, list(of_topic))
        reviewed = [of_topic[query] for query in queries or of_topic]
        _review(store, store.reader(everything=True), reviewed, by=by, reason=reason)
        return len(reviewed)


def _own_queries(store: IndexStore, hold: Hold, by: str) -> list[str]:
    """List what `by` decides about of a held promotion; whoever owns none of it is refused."""
    policy = store.policy
    owners = {one.query: policy.topic(one.topic).owner for one in hold.report.findings}
    own = [query for query, owner in owners.items() if owner == by]
    if not own:
        expected = f"an owner: {', '.join(sorted(set(owners.values())))}"
        raise InputError("by", expected, repr(by))
    return own


def _move_baselines(store: IndexStore, hold: Hold, reason: str) -> None:
    """Take a held version's answers as reviewed, in the names of those who accepted them."""
    staged = store.read_version(hold.version, everything=True)
    for owner in dict.fromkeys(hold.accepted.values()):
        accepted = [one for one in store.golden.queries() if hold.accepted.get(one.id) == owner]
        _review(store, staged, accepted, by=owner, reason=reason)


def _review(
    store: IndexStore,
    reader: IndexReader,
    queries: Sequence[GoldenQuery],
    *,
    by: str,
    reason: str,
) -> None:
    answers = golden_answers(reader, queries, store.golden_embeddings(queries))
    store.golden.set_baselines(
        {one.query.id: (one.selected_lineages, one.raw_lineages) for one in answers},
        reader.files.id,
        store.policy,
        by=by,
        reason=reason,
    )
