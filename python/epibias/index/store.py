"""The governed index: one folder, one object. Write path, promotion, review, read path.

Owns the joints between versions, policy, golden queries, gate and logs; each of those lives in its
own module. Every method that changes something takes `by` and `reason`, and both are logged. Who
`by` really is must be settled before (by your service's sign-in): the policy says what that name
may do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias._validate import Float32Array
from epibias.corpus.passages import encoded_text
from epibias.data_sets import GoldenQuery
from epibias.encoder import Encoder
from epibias.errors import InputError
from epibias.index import answering, axes, decisions, gate, lifecycle
from epibias.index.answers import Answer, Outcome
from epibias.index.audit import AuditLog
from epibias.index.catalogue import Promotion, Version, utc_now
from epibias.index.changes import Addition
from epibias.index.database import Database
from epibias.index.gate_report import GateReport
from epibias.index.golden import GoldenQueries
from epibias.index.pointer import Pointer
from epibias.index.policy import Policy
from epibias.index.policy_file import parse_policy
from epibias.index.reader import Elevation, IndexReader
from epibias.index.records import Hold, Records
from epibias.index.version_files import VersionFiles
from epibias.index.versions import VersionStore

READERS_KEPT = 8


class IndexStore:
    """A governed index in a folder.

    Parameters
    ----------
    folder : path
    encoder : Encoder, optional
        Needed to stage texts, to search for texts, and once for every golden query.
    clock : callable
        Gives the time with its zone.
    key : bytes, optional
        Of a sealed store; without it `EPIBIAS_INDEX_KEY` or `EPIBIAS_INDEX_KEY_FILE` is asked.

    Raises
    ------
    InputError
        No store there, one that cannot be read, or a sealed one without its key.
    """

    def __init__(
        self,
        folder: Path | str,
        encoder: Encoder | None = None,
        *,
        clock: Callable[[], datetime] = utc_now,
        key: bytes | None = None,
        _create: bool = False,
    ) -> None:
        self._encoder = encoder
        self.versions = VersionStore(folder, create=_create, clock=clock, key=key)
        self.catalogue = self.versions.catalogue
        self.records = Records(self.catalogue)
        self.golden = GoldenQueries(self.catalogue, self.versions.sealer)
        self.retrievals = AuditLog(Database(Path(folder) / "retrievals.sqlite"), "retrievals")
        self._files: VersionFiles | None = None
        self._readers: dict[tuple[Any, ...], IndexReader] = {}
        self._policy: tuple[str, Policy] | None = None
        self.axes_cached: Any = None

    @classmethod
    def create(
        cls,
        folder: Path | str,
        policy: bytes,
        encoder: Encoder | None = None,
        *,
        by: str,
        clock: Callable[[], datetime] = utc_now,
        key: bytes | None = None,
    ) -> IndexStore:
        """Make a store with a policy (the bytes of its TOML file); one that is there is refused.

        With a key (32 bytes, as `sealing.new_key` draws them) all that it holds is sealed.
        """
        parse_policy(policy)
        if (Path(folder) / "catalogue.sqlite").exists():
            raise InputError("store", "a folder without a store", repr(str(folder)))
        store = cls(folder, encoder, clock=clock, key=key, _create=True)
        sealer = store.versions.sealer
        key_id = None if sealer is None else sealer.key_id
        store.records.set_policy(policy, by=_validate.text("by", by), key_id=key_id)
        return store

    @property
    def policy(self) -> Policy:
        """The policy that holds."""
        content = self.records.setting("policy").encode()
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.records.setting("policy_sha256"):
            raise InputError("policy", "the policy that was set", "another", "catalogue.sqlite")
        if self._policy is None or self._policy[0] != digest:
            self._policy = digest, parse_policy(content)
        return self._policy[1]

    def set_policy(self, policy: bytes, *, by: str) -> None:
        """Put another policy in force."""
        parse_policy(policy)
        with self.versions.lock():
            self.records.set_policy(policy, by=_validate.text("by", by))

    @property
    def current(self) -> Pointer | None:
        """The version that is read."""
        return self.versions.current()

    def stage(
        self,
        additions: Sequence[Addition] = (),
        *,
        by: str,
        reason: str,
        removals: Sequence[str] = (),
        embeddings: Float32Array | None = None,
        encoder_identity: Mapping[str, Any] | None = None,
    ) -> Version:
        """Write a successor of the current version; it is read by nobody yet.

        Parameters
        ----------
        additions : sequence of Addition
        removals : sequence of str
        embeddings : float32 [n_additions, dim], optional
            Of the additions, with the identity of what made them; else the store's encoder embeds.
        """
        if embeddings is not None and encoder_identity is None:
            raise InputError("encoder_identity", "what made the embeddings", "None")

        def embed(some: Sequence[Addition]) -> Float32Array:
            if embeddings is not None:
                return embeddings
            texts = [encoded_text(one.passage.title, one.passage.text) for one in some]
            return axes.encode(self._encoder, texts, "passages")

        identity = encoder_identity or axes.identity_of(self._encoder)
        with self.versions.lock():
            self.versions.recover()
            return self.versions.stage(
                list(additions),
                embed,
                identity,
                self.policy,
                by=by,
                reason=reason,
                removals=removals,
            )

    def check(self, version: str) -> GateReport | None:
        """Run the gate on a staged version, and change nothing; None for the first version."""
        return self._check(version)[0]

    def promote(self, version: str, *, by: str, reason: str) -> Outcome:
        """Make a staged version current if the gate lets it; else hold it for the owners."""
        with self.versions.lock():
            self.versions.recover()
            found = self.catalogue.version(version)
            if found.state != "staged":
                raise InputError("version", "a staged version", f"{found.id}, {found.state}")
            self.check_parent(found)
            report, newcomers = self._check(found.id)
            if newcomers:
                self.records.note_newcomers(newcomers, found.id)
            if report is not None and report.fired:
                self.records.hold(report)
                return Outcome(None, report)
            return Outcome(self.move(found, "promote", by, reason), report)

    def held(self, version: str) -> Hold:
        """Give a held promotion, with its review list."""
        return self.records.held(self.catalogue.version(version).id)

    def accept(
        self, version: str, *, by: str, reason: str, queries: Sequence[str] | None = None
    ) -> Hold:
        """Accept a held promotion for golden queries that `by` owns; the last one promotes it.

        Their baselines then become what the new version answers; other queries keep theirs.

        Parameters
        ----------
        version : str
        by, reason : str
        queries : sequence of str, optional
            Ids of queries with findings; all that `by` owns if absent.
        """
        return decisions.accept(self, version, by=by, reason=reason, queries=queries)

    def reject(self, version: str, *, by: str, reason: str) -> None:
        """Reject a held promotion; the owner of any topic concerned may."""
        decisions.reject(self, version, by=by, reason=reason)

    def rollback(self, version: str | None = None, *, by: str, reason: str) -> Promotion:
        """Make a version current again that was so before; the one before this if none is named."""
        with self.versions.lock():
            self.versions.recover()
            return self.move(lifecycle.rollback_target(self, version), "rollback", by, reason)

    def review_baselines(
        self, topic: str, *, by: str, reason: str, queries: Sequence[str] | None = None
    ) -> int:
        """Take what the current version answers as the reviewed answers of a topic's queries.

        Parameters
        ----------
        topic : str
        by, reason : str
        queries : sequence of str, optional
            Ids of queries of the topic; all if absent.

        Returns
        -------
        int
            How many baselines moved.
        """
        return decisions.review_baselines(self, topic, by=by, reason=reason, queries=queries)

    def elevate(self, passage: str, topic: str, *, tier: int = 2, by: str, reason: str) -> None:
        """Let a page of the current version, as it is, answer a topic; for the topic's owner."""
        policy = self.policy
        policy.check_owner(topic, by)
        tier = _validate.integer("tier", tier, low=1, high=3)
        with self.versions.lock():
            rows = self.reader(everything=True).files.rows
            row = int(rows.find([passage])[0])
            if row < 0:
                raise InputError("passage", "the id of a current passage", repr(passage))
            (page,) = rows.read([row])
            elevation = Elevation(topic, passage, page.content_sha256, tier)
            self.records.elevate(elevation, by=by, reason=_validate.text("reason", reason))

    def withdraw(self, passage: str, topic: str, *, by: str, reason: str) -> None:
        """Take an elevation back; for the topic's owner."""
        self.policy.check_owner(topic, by)
        known = {(one.passage_id, one.topic) for one in self.records.elevations()}
        if (passage, topic) not in known:
            raise InputError("passage", f"a page elevated for {topic!r}", repr(passage))
        with self.versions.lock():
            self.records.withdraw(passage, topic, by=by, reason=_validate.text("reason", reason))

    def reader(self, *, tenant: str | None = None, everything: bool = False) -> IndexReader:
        """Open the current version for reading, checked whole the first time it is met."""
        files, policy = self.current_files(), self.policy
        elevations = self.records.elevations()
        key = (files.id, tenant, everything, elevations)
        known = self._readers.get(key)
        # A reader holds norms of all passages, and copies of the parts that answer a topic.
        if known is None or known.policy is not policy:
            if len(self._readers) >= READERS_KEPT:
                self._readers.clear()
            known = self._readers[key] = self._reader(files, tenant=tenant, everything=everything)
        return known

    def current_files(self) -> VersionFiles:
        """Files of the current version; opened once, and again when the pointer has moved."""
        pointer = self.versions.current()
        if pointer is None:
            raise InputError("store", "a promoted version", "none")
        if self._files is None or self._files.id != pointer.version:
            self._files = self.versions.open_current()
        assert self._files is not None  # noqa: S101  for mypy: a pointer never goes away
        return self._files

    def forget_files(self) -> None:
        """Let go of the files that are open, so that what was destroyed is gone from the disk."""
        self._files = None
        self._readers.clear()

    def read_version(
        self, version: str, *, tenant: str | None = None, everything: bool = False
    ) -> IndexReader:
        """Open any version that has files, for comparing and tracing."""
        return self._reader(self.versions.open(version), tenant=tenant, everything=everything)

    def search(
        self,
        query: str | Float32Array,
        *,
        topic: str | None = None,
        tenant: str | None = None,
        k: int | None = None,
    ) -> Answer:
        """Answer a query under the policy, and log it.

        Parameters
        ----------
        query : str, or float32 [dim]
        topic : str, optional
            Where the caller knows it; else keywords and the nearest golden query decide.
        tenant : str, optional
            Whose passages may be seen, beside everybody's.
        k : int, optional

        Returns
        -------
        Answer
        """
        return answering.answer_query(self, query, topic, tenant, k)

    def golden_embeddings(self, queries: Sequence[GoldenQuery]) -> Float32Array:
        """Embeddings of golden queries, float32 [n_queries, dim]."""
        return axes.reference_embeddings(self, [query.text for query in queries], "queries")

    @property
    def encoder(self) -> Encoder | None:
        """The encoder that the store was opened with."""
        return self._encoder

    def _reader(
        self, files: VersionFiles, *, tenant: str | None = None, everything: bool = False
    ) -> IndexReader:
        elevations = self.records.elevations()
        return IndexReader(
            files, self.policy, tenant=tenant, everything=everything, elevations=elevations
        )

    def _check(self, version: str) -> tuple[GateReport | None, Mapping[str, set[str]]]:
        """Run the gate; its report, and the accounts new to each golden query's top-k."""
        if self.versions.current() is None:
            return None, {}
        trusted = self.reader(everything=True)
        staged = self._reader(self.versions.open(version), everything=True)
        policy, queries = self.policy, self.golden.queries()
        valid, notes = axes.topic_axes(self, policy)
        inputs = gate.GateInputs(
            queries=queries,
            query_embeddings=self.golden_embeddings(queries),
            baselines=self.golden.baselines(),
            axes=valid,
            now=self.catalogue.now(),
            arrivals=self.records.arrivals(),
            notes=notes,
        )
        return gate.run_gate(trusted, staged, inputs)

    def check_parent(self, version: Version) -> None:
        """Refuse to lose what was promoted since a version was staged."""
        pointer = self.versions.current()
        current = None if pointer is None else pointer.version
        if version.parent != current:
            found = f"{version.id}, made from {version.parent}"
            raise InputError("version", f"one made from the current {current}; stage again", found)

    def move(self, version: Version, kind: str, by: str, reason: str) -> Promotion:
        """Move the pointer, and rotate logs that have become long; the lock must be held."""
        promotion = self.versions.move_pointer(version, kind, by=by, reason=reason)
        self.retrievals.rotate()
        self.catalogue.writes.rotate()
        return promotion
