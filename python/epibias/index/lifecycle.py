"""The end of versions and sources: rollback targets, retention, deletion with proof.

Owns what may be gone back to and what must be destroyed. A deleted source leaves by a successor
version with a tombstone; then every older version that holds it loses its files, and going back to
one of them is refused. Files are unlinked: blocks on the disk are not overwritten, and a process
that had them open keeps them until it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from epibias import _validate
from epibias.errors import InputError
from epibias.index.catalogue import DONE, GONE, Version

if TYPE_CHECKING:
    from epibias.index.store import IndexStore


@dataclass(frozen=True)
class Deletion:
    """Proof that a source was deleted.

    Attributes
    ----------
    source : str
    version : str
        The successor, which is current.
    n_passages : int
        Passages that left with it.
    destroyed : tuple of mapping
        Versions that held it, with the hashes of their manifests.
    remaining : tuple of str
        Versions with files, every one of them searched for the source, in vain.
    line : int
    head : str
        Line of the write log that says all this, and the log's hash after it.
    """

    source: str
    version: str
    n_passages: int
    destroyed: tuple[Mapping[str, Any], ...]
    remaining: tuple[str, ...]
    line: int
    head: str


def rollback_target(store: IndexStore, version: str | None) -> Version:
    """Find the version to go back to.

    Raises
    ------
    InputError
        None was current before, or the one named never was.
    """
    done = [one.version for one in store.catalogue.promotions() if one.state == DONE]
    pointer = store.versions.current()
    current = None if pointer is None else pointer.version
    if version is None:
        # What this version was promoted over; going back twice goes further back.
        parent = None if current is None else store.catalogue.version(current).parent
        while parent is not None and store.catalogue.version(parent).state in GONE:
            parent = store.catalogue.version(parent).parent
        if parent is None:
            raise InputError("version", "a version before the current one", "none")
        return store.catalogue.version(parent)
    found = store.catalogue.version(version)
    if found.id not in done or found.id == current:
        got = f"{found.id}, {'current' if found.id == current else found.state}"
        raise InputError("version", "one that was current before", got)
    return found


def retire(store: IndexStore, keep: int, *, by: str, reason: str) -> list[str]:
    """Remove the files of old versions; the current one and the `keep` before it stay.

    Returns
    -------
    list of str
        Versions that lost their files. Staged and held ones are not touched.
    """
    keep = _validate.integer("keep", keep, low=1)
    _validate.text("reason", reason)
    with store.versions.lock():
        store.versions.recover()
        pointer = store.versions.current()
        current = None if pointer is None else pointer.version
        old = [
            version
            for version in store.catalogue.versions()
            if version.state in ("trusted", "rejected") and version.id != current
        ]
        doomed = old[: max(0, len(old) - keep)]
        for version in doomed:
            store.versions.destroy(version, "retired", {"by": by, "reason": reason})
        return [version.id for version in doomed]


def delete_source(store: IndexStore, source: str, *, by: str, reason: str) -> Deletion:
    """Delete all passages of a source, from the current version and from every older one.

    Not held by the gate: what must go, goes; drift shows at the next check.

    Raises
    ------
    InputError
        A source of which no version has a passage.
    """
    with store.versions.lock():
        store.versions.recover()
        holding = versions_with(store, source)
        pointer = store.versions.current()
        if not holding or pointer is None:
            raise InputError("source", "a source that a version has passages of", repr(source))
        current = store.catalogue.version(pointer.version)
        n_passages = 0
        if current.id in holding:
            n_passages = holding[current.id]
            current = _successor_without(store, source, by, reason)
        body = {"source": source, "by": by, "reason": reason}
        destroyed = [
            store.versions.destroy(store.catalogue.version(name), "destroyed", body)
            for name in holding
        ]
        left = versions_with(store, source)
        if left:
            raise InputError("source", "no version that still has it", ", ".join(left))
        remaining = [one.id for one in store.catalogue.versions() if one.state not in GONE]
        proof = {
            **body,
            "version": current.id,
            "n_passages": n_passages,
            "destroyed": destroyed,
            "remaining": remaining,
        }
        with store.catalogue.database.writing() as connection:
            line = store.catalogue.log(connection, "source deleted", proof)
        store.forget_files()
        return Deletion(
            source,
            current.id,
            n_passages,
            tuple(destroyed),
            tuple(remaining),
            line,
            store.catalogue.writes.head[1],
        )


def versions_with(store: IndexStore, source: str) -> dict[str, int]:
    """Versions with files that have passages of a source, and how many."""
    found = {}
    for version in store.catalogue.versions():
        if version.state not in GONE:
            rows = store.versions.open(version.id, hashes=False).rows
            n = int(np.count_nonzero(rows.rows_of_sources([source])))
            if n:
                found[version.id] = n
    return found


def _successor_without(store: IndexStore, source: str, by: str, reason: str) -> Version:
    files = store.versions.open_current()
    assert files is not None  # noqa: S101  for mypy: the caller looked
    rows = np.flatnonzero(files.rows.rows_of_sources([source]))
    tombstone = {
        "source": source,
        "n_passages": len(rows),
        "by": by,
        "reason": reason,
        "time": store.catalogue.now(),
    }
    version = store.versions.stage(
        [],
        lambda _: np.empty((0, files.manifest.dim), np.float32),
        files.manifest.encoder,
        store.policy,
        by=by,
        reason=f"source {source} deleted: {reason}",
        removals=files.rows.ids(rows),
        tombstones=[tombstone],
    )
    store.versions.move_pointer(version, "promote", by=by, reason=version.reason)
    return version
