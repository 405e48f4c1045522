"""After a bad page is found: who brought it, how long it was live, what it answered or could have.

Owns the joining of both logs, the promotions and the versions. What a version that lost its files
held is not known any more, and is said not to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epibias._plain import moment
from epibias.errors import InputError
from epibias.index.answering import logged_query
from epibias.index.catalogue import DONE, GONE
from epibias.index.reader import IndexReader

if TYPE_CHECKING:
    from epibias.index.store import IndexStore

CRITERIA = ("source", "passage", "account")


@dataclass(frozen=True)
class Investigation:
    """What is known of a source, a page or an account.

    Attributes
    ----------
    criterion, name : str
        What was asked for: "source", "passage" or "account", and which.
    writes : tuple of mapping
        Lines of the write log that brought such pages: number, at, version, by, pages.
    versions : tuple of mapping
        Versions with files that hold such pages: id, state, passages.
    unknown : tuple of str
        Versions without files: nobody can tell.
    live : tuple of mapping
        Spans in which a version that holds them was current: version, from, until (None: still).
    live_seconds : float
    answers : tuple of mapping
        Lines of the retrieval log that selected them: number, at, version, topic, tenant,
        query_hash, query, passages.
    could_win : tuple of mapping
        Golden queries in whose plain top-k such a page stands: version, query, passage, rank,
        similarity, and whether the policy selects it.
    """

    criterion: str
    name: str
    writes: tuple[Mapping[str, Any], ...]
    versions: tuple[Mapping[str, Any], ...]
    unknown: tuple[str, ...]
    live: tuple[Mapping[str, Any], ...]
    live_seconds: float
    answers: tuple[Mapping[str, Any], ...]
    could_win: tuple[Mapping[str, Any], ...]


def investigate(
    store: IndexStore,
    *,
    source: str | None = None,
    passage: str | None = None,
    account: str | None = None,
    tenant: str | None = None,
    everything: bool = False,
) -> Investigation:
    """Trace a source, a page or an account through versions and logs.

    Parameters
    ----------
    store : IndexStore
    source, passage, account : str
        Exactly one of them.
    tenant : str, optional
        Only what that tenant may see.
    everything : bool
        What all tenants may see: for those who govern.

    Raises
    ------
    InputError
        None or several of the three.
    """
    given = {"source": source, "passage": passage, "account": account}
    chosen = [(kind, name) for kind, name in given.items() if name is not None]
    if len(chosen) != 1:
        raise InputError("investigate", "one of source, passage, account", f"{len(chosen)}")
    kind, name = chosen[0]
    versions: list[dict[str, Any]] = []
    could_win: list[dict[str, Any]] = []
    unknown = []
    passages: set[str] = set()
    for version in store.catalogue.versions():
        if version.state in GONE:
            unknown.append(version.id)
            continue
        reader = store.read_version(version.id, tenant=tenant, everything=everything)
        mask = _matching(reader, kind, name) & reader.visible
        ids = reader.files.rows.ids(np.flatnonzero(mask))
        if ids:
            passages |= set(ids)
            versions.append({"version": version.id, "state": version.state, "passages": ids})
            could_win += _could_win(store, reader, mask)
    holding = {one["version"] for one in versions}
    live, seconds = _live(store, holding)
    return Investigation(
        kind,
        name,
        _writes(store, kind, name, tenant, everything),
        tuple(versions),
        tuple(unknown),
        live,
        seconds,
        _answers(store, kind, name, passages, tenant, everything),
        tuple(could_win),
    )


def _matching(reader: IndexReader, kind: str, name: str) -> NDArray[np.bool_]:
    rows = reader.files.rows
    if kind == "source":
        return rows.rows_of_sources([name])
    if kind == "account":
        return rows.rows_of_accounts([name])
    mask = np.zeros(len(rows), np.bool_)
    row = int(rows.find([name])[0])
    if row >= 0:
        mask[row] = True
    return mask


def _could_win(
    store: IndexStore, reader: IndexReader, mask: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    queries = store.golden.queries()
    if not queries:
        return []
    embeddings = store.golden_embeddings(queries)
    raw = reader.similar(embeddings, reader.policy.selection.k)
    selected = reader.select(embeddings, [query.topic for query in queries])
    found = []
    for query, plain, chosen in zip(queries, raw, selected, strict=True):
        for rank in np.flatnonzero(mask[plain.rows]).tolist():
            row = int(plain.rows[rank])
            found.append(
                {
                    "version": reader.files.id,
                    "query": query.id,
                    "passage": reader.files.rows.ids(np.array([row]))[0],
                    "rank": rank + 1,
                    "similarity": float(plain.similarities[rank]),
                    "selected": bool((chosen.rows == row).any()),
                }
            )
    return found


def _live(store: IndexStore, holding: set[str]) -> tuple[tuple[dict[str, Any], ...], float]:
    done = [one for one in store.catalogue.promotions() if one.state == DONE]
    now = store.catalogue.now()
    spans, seconds = [], 0.0
    for place, promotion in enumerate(done):
        if promotion.version in holding:
            until = done[place + 1].time if place + 1 < len(done) else None
            spans.append({"version": promotion.version, "from": promotion.time, "until": until})
            seconds += (moment(until or now) - moment(promotion.time)).total_seconds()
    return tuple(spans), seconds


def _writes(
    store: IndexStore, kind: str, name: str, tenant: str | None, everything: bool
) -> tuple[dict[str, Any], ...]:
    found = []
    for line in store.catalogue.writes.lines(["stage"]):
        pages = [
            page
            for page in line.body["added"]
            if page[kind] == name and (everything or page["tenant"] in (None, tenant))
        ]
        if pages:
            about = {name: line.body[name] for name in ("version", "by", "reason")}
            found.append({"line": line.number, "at": line.at, **about, "pages": pages})
    return tuple(found)


def _answers(
    store: IndexStore,
    kind: str,
    name: str,
    passages: set[str],
    tenant: str | None,
    everything: bool,
) -> tuple[dict[str, Any], ...]:
    found = []
    for line in store.retrievals.lines(["answer"]):
        if not everything and line.body["tenant"] != tenant:
            continue
        used = [
            one["passage"]
            for one in line.body["selected"]
            if (one["source"] == name if kind == "source" else one["passage"] in passages)
        ]
        if used:
            names = ("version", "topic", "tenant", "query_hash")
            about = {name: line.body[name] for name in names}
            about["query"] = logged_query(store, line)
            found.append({"line": line.number, "at": line.at, **about, "passages": used})
    return tuple(found)
