"""Golden queries: who owns each, what was reviewed as its answer, and since when.

Owns the tables of queries and baselines, and the embeddings of reference texts (queries and pole
statements), kept under the encoder's identity so that a check needs no model. A baseline holds
lineages, never texts. Nothing here changes a baseline without the owner's name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.data_sets import GoldenQuery
from epibias.errors import InputError
from epibias.index.catalogue import Catalogue
from epibias.index.policy import Policy
from epibias.index.sealing import Sealer

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS golden (id TEXT PRIMARY KEY, text TEXT NOT NULL, "
    "topic TEXT NOT NULL, owner TEXT NOT NULL, expected TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS baselines (query TEXT NOT NULL, number INTEGER NOT NULL, "
    "selected TEXT NOT NULL, raw TEXT NOT NULL, version TEXT NOT NULL, by TEXT NOT NULL, "
    "time TEXT NOT NULL, PRIMARY KEY (query, number)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS reference_embeddings (key TEXT PRIMARY KEY, "
    "embedding BLOB NOT NULL) WITHOUT ROWID",
)


@dataclass(frozen=True)
class Baseline:
    """What an owner reviewed as the answer of a golden query.

    Attributes
    ----------
    query : str
    number : int
        1, 2, …; the highest counts.
    selected, raw : tuple of str
        Lineages of the selected context, and of the plain top-k by similarity.
    version, by, time : str
    """

    query: str
    number: int
    selected: tuple[str, ...]
    raw: tuple[str, ...]
    version: str
    by: str
    time: str


class GoldenQueries:
    """The golden queries of a store.

    Parameters
    ----------
    catalogue : Catalogue
    sealer : Sealer, optional
        Seals texts and embeddings of a sealed store.
    """

    def __init__(self, catalogue: Catalogue, sealer: Sealer | None = None) -> None:
        self._catalogue, self._sealer = catalogue, sealer
        catalogue.database.create(_SCHEMA)

    def add(self, queries: Sequence[GoldenQuery], policy: Policy, *, by: str) -> None:
        """Add queries, all or none.

        Raises
        ------
        InputError
            A topic that the policy does not know, another owner than the topic's, an id that is
            there.
        """
        _validate.unique("golden query", [query.id for query in queries])
        known = {query.id for query in self.queries()}
        for query in queries:
            _validate.text("text", query.text, f"golden query {query.id!r}")
            if query.owner != policy.topic(query.topic).owner:
                owner = policy.topic(query.topic).owner
                where = f"golden query {query.id!r}"
                raise InputError("owner", f"{owner!r}, the topic's", repr(query.owner), where)
            if query.id in known:
                raise InputError("golden query", "a new id", repr(query.id))
        rows = [
            (
                query.id,
                self._sealed(query.text, query.id),
                query.topic,
                query.owner,
                json.dumps(query.expected_page_ids),
            )
            for query in queries
        ]
        with self._catalogue.database.writing() as connection:
            connection.executemany("INSERT INTO golden VALUES (?, ?, ?, ?, ?)", rows)
            names = [query.id for query in queries]
            touched = [("golden", (name,)) for name in names]
            self._catalogue.log(connection, "golden queries", {"by": by, "queries": names}, touched)

    def queries(self) -> tuple[GoldenQuery, ...]:
        """All golden queries, by id."""
        with self._catalogue.database.reading() as connection:
            rows = connection.execute("SELECT * FROM golden ORDER BY id").fetchall()
        return tuple(
            GoldenQuery(name, self._opened(text, name), topic, owner, tuple(json.loads(expected)))
            for name, text, topic, owner, expected in rows
        )

    def baselines(self) -> dict[str, Baseline]:
        """Give the newest baseline of each query that has one."""
        with self._catalogue.database.reading() as connection:
            rows = connection.execute("SELECT * FROM baselines ORDER BY number").fetchall()
        return {row[0]: _baseline(row) for row in rows}

    def set_baselines(
        self,
        answers: Mapping[str, tuple[Sequence[str], Sequence[str]]],
        version: str,
        policy: Policy,
        *,
        by: str,
        reason: str,
    ) -> None:
        """Write down what an owner reviewed, for all given queries or none.

        Parameters
        ----------
        answers : mapping of query id to (selected lineages, raw lineages)
        version : str
        policy : Policy
        by : str
            Must own the topic of each query.
        reason : str
        """
        topics = {query.id: query.topic for query in self.queries()}
        for query in answers:
            if query not in topics:
                raise InputError("query", "the id of a golden query", repr(query))
            policy.check_owner(topics[query], by)
        _validate.text("reason", reason)
        time = self._catalogue.now()
        touched: list[tuple[str, tuple[str, int]]] = []
        with self._catalogue.database.writing() as connection:
            for query, (selected, raw) in answers.items():
                highest = "SELECT coalesce(max(number), 0) + 1 FROM baselines WHERE query = ?"
                (number,) = connection.execute(highest, (query,)).fetchone()
                lineages = json.dumps(list(selected)), json.dumps(list(raw))
                connection.execute(
                    "INSERT INTO baselines VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (query, number, *lineages, version, by, time),
                )
                touched.append(("baselines", (query, number)))
            body = {"queries": sorted(answers), "version": version, "by": by, "reason": reason}
            self._catalogue.log(connection, "baseline", body, touched)

    def expired(self, policy: Policy) -> list[tuple[GoldenQuery, str | None]]:
        """List queries whose baseline nobody reviewed in time, with the time of its last review."""
        limit = timedelta(days=policy.review_days)
        now = datetime.fromisoformat(self._catalogue.now())
        baselines = self.baselines()
        late: list[tuple[GoldenQuery, str | None]] = []
        for query in self.queries():
            baseline = baselines.get(query.id)
            if baseline is None:
                late.append((query, None))
            elif now - datetime.fromisoformat(baseline.time) > limit:
                late.append((query, baseline.time))
        return late

    def embeddings(
        self,
        texts: Sequence[str],
        role: str,
        identity: Mapping[str, Any],
        encode: Callable[[list[str]], Float32Array] | None,
    ) -> Float32Array:
        """Give the embeddings of reference texts, encoding those that are not known yet.

        Parameters
        ----------
        texts : sequence of str
        role : {"queries", "passages"}
        identity : mapping
            Of the encoder.
        encode : callable, optional
            Called with the missing texts; without it they are an error.

        Returns
        -------
        float32 [n_texts, dim]
        """
        about = json.dumps([role, dict(identity)], sort_keys=True)
        keys = [self._key(f"{about}\n{text}") for text in texts]
        known = self._known(keys)
        missing = [n for n, key in enumerate(keys) if key not in known]
        if missing:
            if encode is None:
                found = f"{len(missing)} {role} without an embedding"
                raise InputError("encoder", "the encoder of the index", found)
            rows = encode([texts[n] for n in missing])
            _validate.array("encoder.encode", rows, dtype=np.float32, ndim=2)
            new = {keys[n]: row for n, row in zip(missing, rows, strict=True)}
            with self._catalogue.database.writing() as connection:
                connection.executemany(
                    "INSERT OR IGNORE INTO reference_embeddings VALUES (?, ?)",
                    [(key, self._packed(row, key)) for key, row in new.items()],
                )
                touched = [("reference_embeddings", (key,)) for key in new]
                body = {"role": role, "n": len(new)}
                self._catalogue.log(connection, "reference embeddings", body, touched)
            known |= new
        return np.ascontiguousarray(np.stack([known[key] for key in keys]))

    def _known(self, keys: Sequence[str]) -> dict[str, Float32Array]:
        query = "SELECT key, embedding FROM reference_embeddings WHERE key = ?"
        with self._catalogue.database.reading() as connection:
            rows = [connection.execute(query, (key,)).fetchone() for key in dict.fromkeys(keys)]
        return {row[0]: self._unpacked(row[1], row[0]) for row in rows if row is not None}

    def _sealed(self, text: str, name: str) -> str:
        sealer = self._sealer
        return text if sealer is None else sealer.seal_text(text, f"golden query {name}")

    def _opened(self, text: str, name: str) -> str:
        sealer = self._sealer
        return text if sealer is None else sealer.open_text(text, f"golden query {name}")

    def _key(self, content: str) -> str:
        if self._sealer is not None:
            return self._sealer.hash_of(content)
        return hashlib.sha256(content.encode()).hexdigest()

    def _packed(self, row: Float32Array, key: str) -> bytes:
        content = row.astype("<f4").tobytes()
        return content if self._sealer is None else self._sealer.seal(content, f"embedding {key}")

    def _unpacked(self, content: bytes, key: str) -> Float32Array:
        if self._sealer is not None:
            content = self._sealer.open(content, f"embedding {key}")
        return np.frombuffer(content, "<f4").astype(np.float32)


def _baseline(row: Sequence[Any]) -> Baseline:
    query, number, selected, raw, version, by, time = row
    return Baseline(
        query, number, tuple(json.loads(selected)), tuple(json.loads(raw)), version, by, time
    )
