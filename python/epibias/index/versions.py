"""Immutable versions, and the pointer that moves between them.

Owns the order in which files, catalogue and pointer are written, so that a kill at any moment
leaves a store whose pointer names a whole version, and so that what was acknowledged is there.
Writers wait for each other; readers never wait.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _files, _validate
from epibias._plain import first_difference
from epibias._validate import Float32Array
from epibias.errors import InputError
from epibias.index import changes
from epibias.index.catalogue import (
    ABANDONED,
    DONE,
    GONE,
    PENDING,
    Catalogue,
    Promotion,
    Version,
    utc_now,
)
from epibias.index.changes import Addition
from epibias.index.pointer import CURRENT, Pointer, read_pointer, write_pointer, writer_lock
from epibias.index.policy import Policy
from epibias.index.rows import changed_passages
from epibias.index.sealing import Sealer, sealer_of
from epibias.index.version_files import (
    ROWS,
    Manifest,
    VersionFiles,
    destroy_version,
    open_version,
    write_version,
)

TRIES = 20  # of a reader that meets a pointer in motion


class VersionStore:
    """A folder of versions, their catalogue, and the pointer.

    Parameters
    ----------
    folder : Path
        Made, mode 0700, if `create` says so.
    create : bool
    clock : callable
        Gives the time with its zone.
    key : bytes, optional
        Of a store that is sealed; of one that is to be, with `create`.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        create: bool = False,
        clock: Callable[[], datetime] = utc_now,
        key: bytes | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._versions = self.folder / "versions"
        if create:
            _files.make_folder(self._versions)
        elif not self._versions.is_dir():
            raise InputError("store", "a folder that `create` made", "none", str(folder))
        self.catalogue = Catalogue(self.folder, clock)
        if create:
            self.sealer = None if key is None else Sealer(key)
        else:
            self.sealer = sealer_of(self.catalogue.setting("key_id"), key, str(folder))

    def lock(self) -> AbstractContextManager[None]:
        """Wait for the other writers, and keep them out."""
        return writer_lock(self.folder)

    def recover(self) -> None:
        """Finish or give up what a killed writer left; call it with the lock held."""
        pointer = read_pointer(self.folder)
        for promotion in self.catalogue.promotions():
            if promotion.state == PENDING:
                moved = pointer is not None and pointer.promotion == promotion.number
                self.catalogue.end_promotion(promotion.number, DONE if moved else ABANDONED)
        known = {version.id: version for version in self.catalogue.versions()}
        for path in self._versions.iterdir():
            if path.name.startswith(_files.TEMPORARY_PREFIX):
                shutil.rmtree(path)
            elif path.name not in known or known[path.name].state in GONE:
                destroy_version(self._versions, path.name)
        _files.remove_leftovers(self.folder)

    def current(self) -> Pointer | None:
        """Read the pointer, and see that the catalogue says the same.

        Raises
        ------
        InputError
            A pointer that no promotion put there, or that was put back from an older day.
        """
        for _ in range(TRIES):
            pointer = read_pointer(self.folder)
            done, pending = self.catalogue.newest_promotions()
            if pointer is None and done is None:
                return None
            if pointer is not None and _put_there_by(pointer, done, pending):
                expected = self.catalogue.version(pointer.version).manifest_sha256
                if pointer.manifest_sha256 == expected:
                    return pointer
            if read_pointer(self.folder) == pointer:  # it does not move: it is wrong
                break
        expected = f"version {done.version}, promotion {done.number}" if done else "no pointer"
        got = f"version {pointer.version}, promotion {pointer.promotion}" if pointer else "none"
        raise InputError("pointer", f"{expected}, as the catalogue says", got, self._pointer_path)

    @property
    def _pointer_path(self) -> str:
        return str(self.folder / CURRENT)

    def open(self, name: str, *, hashes: bool = True) -> VersionFiles:
        """Open a version by id or number, checked against its hashes."""
        version = self.catalogue.version(name)
        self._refuse_gone(version)
        return self._open(version, hashes=hashes)

    def changed_passages(self, name: str) -> list[str]:
        """Ids of a version's passages that were changed; of a sealed one nobody can say."""
        return changed_passages(self._versions / name / ROWS)

    def open_current(self, *, hashes: bool = True) -> VersionFiles | None:
        """Open the version that the pointer names; None where nothing was promoted yet."""
        while (pointer := self.current()) is not None:
            try:
                return self.open(pointer.version, hashes=hashes)
            except InputError:  # noqa: PERF203  # seldom more than once
                if self.current() == pointer:
                    raise  # it did not move on, and its version was not retired meanwhile
        return None

    def stage(
        self,
        additions: Sequence[Addition],
        embed: Callable[[Sequence[Addition]], Float32Array],
        encoder: Mapping[str, Any],
        policy: Policy,
        *,
        by: str,
        reason: str,
        removals: Sequence[str] = (),
        tombstones: Sequence[Mapping[str, Any]] = (),
    ) -> Version:
        """Write a successor of the current version; the lock must be held.

        Parameters
        ----------
        additions, removals
            As in `changes.plan_changes`.
        embed : callable
            Gives float32 [n_additions, dim]; called when the changes were found right.
        encoder : mapping
            Identity of what embeds.
        policy : Policy
        by, reason : str
        tombstones : sequence of mapping
            Deleted sources, beside those of the parent.
        """
        parent = self.open_current()
        plan = changes.plan_changes(parent, additions, removals, policy)
        if plan.n_passages == 0:
            raise InputError("removals", "at least one passage that stays", "none")
        if parent is not None and additions:
            _check_encoder(parent.manifest.encoder, encoder)
        if parent is not None and not additions:
            vectors = np.empty((0, parent.manifest.dim), np.float32)
        else:
            vectors = _validate.array("embeddings", embed(additions), dtype=np.float32, ndim=2)
        manifest = Manifest(
            ordinal=self.catalogue.next_ordinal(),
            parent=None if parent is None else parent.id,
            reason=_validate.text("reason", reason),
            author=_validate.text("by", by),
            time=self.catalogue.now(),
            n_passages=plan.n_passages,
            dim=vectors.shape[1] if parent is None else parent.manifest.dim,
            encoder=dict(encoder if parent is None else parent.manifest.encoder),
            tombstones=(*(() if parent is None else parent.manifest.tombstones), *tombstones),
        )
        name, digest, written = write_version(
            self._versions, manifest, changes.batches(plan, parent, vectors), self.sealer
        )
        version = Version(
            id=name,
            ordinal=written.ordinal,
            parent=written.parent,
            manifest_sha256=digest,
            reason=reason,
            author=by,
            time=written.time,
            n_passages=written.n_passages,
            state="staged",
        )
        body = {"parent": written.parent, "by": by, "reason": reason, **plan.log_body()}
        self.catalogue.add(version, body)
        return version

    def move_pointer(self, version: Version, kind: str, *, by: str, reason: str) -> Promotion:
        """Make a version the current one; the lock must be held."""
        _validate.text("by", by)
        _validate.text("reason", reason)
        self._refuse_gone(version)
        self._open(version)  # whole, before it counts
        before = self.current()
        previous = None if before is None else before.version
        number = self.catalogue.begin_promotion(version.id, previous, kind, by, reason)
        write_pointer(self.folder, Pointer(version.id, version.manifest_sha256, number))
        self.catalogue.end_promotion(number, DONE)
        return self.catalogue.promotions()[-1]

    def destroy(self, version: Version, state: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Remove a version's files for good; what they were stays in the catalogue."""
        pointer = self.current()
        if pointer is not None and pointer.version == version.id:
            raise InputError("version", "one that is not current", repr(version.id))
        with self.catalogue.database.writing() as connection:
            self.catalogue.set_state(connection, version.id, state, body)
        destroy_version(self._versions, version.id)
        return {"version": version.id, "manifest_sha256": version.manifest_sha256}

    def _open(self, version: Version, *, hashes: bool = True) -> VersionFiles:
        return open_version(
            self._versions, version.id, version.manifest_sha256, hashes=hashes, sealer=self.sealer
        )

    def _refuse_gone(self, version: Version) -> None:
        if version.state not in GONE:
            return
        found = f"{version.id}, {version.state}"
        where = "its files were removed by retention"
        if version.state == "destroyed":
            line = next(
                line
                for line in self.catalogue.writes.lines(["destroyed"])
                if line.body["version"] == version.id
            )
            source, number = line.body["source"], line.number
            where = f"destroyed because source {source!r} was deleted: write log, line {number}"
        raise InputError("version", "a version with files", found, where)


def _put_there_by(pointer: Pointer, *promotions: Promotion | None) -> bool:
    return any(
        one is not None and (pointer.version, pointer.promotion) == (one.version, one.number)
        for one in promotions
    )


def _check_encoder(recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    difference = first_difference(recorded, wanted)
    if difference is not None:
        name, old, new = difference
        raise InputError("encoder", f"{name} {old!r}, as the version's", repr(new))
