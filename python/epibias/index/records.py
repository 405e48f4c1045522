"""What governance writes down beside versions: the policy, elevations, held promotions, newcomers.

Owns those tables. Every change that a person makes is a line of the write log, in the same
transaction.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from epibias.errors import InputError
from epibias.index.bursts import Arrival
from epibias.index.catalogue import Catalogue
from epibias.index.gate_report import GateReport
from epibias.index.reader import Elevation

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS elevations (passage TEXT NOT NULL, content TEXT NOT NULL, "
    "topic TEXT NOT NULL, tier INTEGER NOT NULL, by TEXT NOT NULL, reason TEXT NOT NULL, "
    "time TEXT NOT NULL, PRIMARY KEY (passage, content, topic)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS holds (version TEXT PRIMARY KEY, report TEXT NOT NULL, "
    "accepted TEXT NOT NULL, state TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS newcomers (query TEXT NOT NULL, account TEXT NOT NULL, "
    "version TEXT NOT NULL, time TEXT NOT NULL, PRIMARY KEY (query, account, version)) "
    "WITHOUT ROWID",
)
OPEN, ACCEPTED, REJECTED = "open", "accepted", "rejected"


@dataclass(frozen=True)
class Hold:
    """A promotion that waits for the owners.

    Attributes
    ----------
    version : str
    report : GateReport
    accepted : mapping of golden query to owner
    state : str
        "open", "accepted" or "rejected".
    """

    version: str
    report: GateReport
    accepted: Mapping[str, str]
    state: str

    @property
    def waiting(self) -> tuple[str, ...]:
        """Golden queries with findings that nobody accepted yet."""
        return tuple(query for query in self.report.queries if query not in self.accepted)


class Records:
    """Settings, elevations, holds and newcomers of a store.

    Parameters
    ----------
    catalogue : Catalogue
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        catalogue.database.create(_SCHEMA)

    def set_policy(self, content: bytes, *, by: str, key_id: str | None = None) -> None:
        """Write down which policy holds from now on; and for a new store, what seals it."""
        digest = hashlib.sha256(content).hexdigest()
        settings = {"policy": content.decode("utf-8"), "policy_sha256": digest}
        if key_id is not None:
            settings["key_id"] = key_id
        with self._catalogue.database.writing() as connection:
            known = connection.execute("SELECT 1 FROM settings WHERE name = 'salt'").fetchone()
            if known is None:
                settings["salt"] = secrets.token_hex(16)
            connection.executemany(
                "INSERT OR REPLACE INTO settings VALUES (?, ?)", list(settings.items())
            )
            touched = [("settings", (name,)) for name in settings]
            self._catalogue.log(connection, "policy", {"by": by, "sha256": digest}, touched)

    def setting(self, name: str) -> str:
        """Give a setting that every store with a policy has."""
        found = self._catalogue.setting(name)
        if found is None:
            raise InputError("store", "a store with a policy", f"none ({name})")
        return found

    def elevate(self, elevation: Elevation, *, by: str, reason: str) -> None:
        """Write down that an owner allowed a page, as it is, for a topic."""
        values = (
            elevation.passage_id,
            elevation.content_sha256,
            elevation.topic,
            elevation.tier,
            by,
            reason,
            self._catalogue.now(),
        )
        with self._catalogue.database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO elevations VALUES (?, ?, ?, ?, ?, ?, ?)", values
            )
            body = {**asdict(elevation), "by": by, "reason": reason}
            key = (elevation.passage_id, elevation.content_sha256, elevation.topic)
            self._catalogue.log(connection, "elevate", body, [("elevations", key)])

    def withdraw(self, passage_id: str, topic: str, *, by: str, reason: str) -> int:
        """Take a page's elevations for a topic back; their number."""
        with self._catalogue.database.writing() as connection:
            which = "FROM elevations WHERE passage = ? AND topic = ?"
            keys = connection.execute(
                f"SELECT passage, content, topic {which}",
                (passage_id, topic),
            ).fetchall()
            connection.execute(f"DELETE {which}", (passage_id, topic))
            body = {"passage_id": passage_id, "topic": topic, "by": by, "reason": reason}
            touched = [("elevations", key) for key in keys]
            self._catalogue.log(connection, "withdraw", {**body, "n": len(keys)}, touched)
        return len(keys)

    def elevations(self) -> tuple[Elevation, ...]:
        """All elevated pages."""
        with self._catalogue.database.reading() as connection:
            rows = connection.execute("SELECT topic, passage, content, tier FROM elevations")
            return tuple(Elevation(*row) for row in rows)

    def hold(self, report: GateReport) -> None:
        """Keep a promotion waiting for the owners."""
        kinds = sorted({finding.kind for finding in report.findings})
        with self._catalogue.database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO holds VALUES (?, ?, '{}', ?)",
                (report.version, report.to_json(), OPEN),
            )
            body = {"findings": len(report.findings), "kinds": kinds, "topics": report.topics}
            touched = [("holds", (report.version,))]
            self._catalogue.set_state(connection, report.version, "held", body, touched)

    def held(self, version: str) -> Hold:
        """Look a held promotion up."""
        with self._catalogue.database.reading() as connection:
            query = "SELECT version, report, accepted, state FROM holds WHERE version = ?"
            row = connection.execute(query, (version,)).fetchone()
        if row is None:
            raise InputError("version", "one whose promotion is held", repr(version))
        return Hold(row[0], GateReport.from_json(row[1]), json.loads(row[2]), row[3])

    def accept(self, hold: Hold, queries: Iterable[str], *, by: str, reason: str) -> Hold:
        """Write down that an owner accepted a held promotion for golden queries."""
        queries = tuple(queries)
        accepted = {**hold.accepted, **dict.fromkeys(queries, by)}
        state = ACCEPTED if set(hold.report.queries) <= set(accepted) else OPEN
        with self._catalogue.database.writing() as connection:
            connection.execute(
                "UPDATE holds SET accepted = ?, state = ? WHERE version = ?",
                (json.dumps(accepted), state, hold.version),
            )
            body = {"version": hold.version, "queries": queries, "by": by, "reason": reason}
            self._catalogue.log(connection, "accept", body, [("holds", (hold.version,))])
        return self.held(hold.version)

    def reject(self, hold: Hold, *, by: str, reason: str) -> None:
        """Write down that a held promotion will not be."""
        with self._catalogue.database.writing() as connection:
            connection.execute(
                "UPDATE holds SET state = ? WHERE version = ?", (REJECTED, hold.version)
            )
            body = {"by": by, "reason": reason}
            touched = [("holds", (hold.version,))]
            self._catalogue.set_state(connection, hold.version, REJECTED, body, touched)

    def note_newcomers(self, accounts: Mapping[str, Iterable[str]], version: str) -> None:
        """Write down whose pages came into the top-k of which golden query."""
        time = self._catalogue.now()
        rows = [(query, one, version, time) for query, some in accounts.items() for one in some]
        with self._catalogue.database.writing() as connection:
            connection.executemany("INSERT OR IGNORE INTO newcomers VALUES (?, ?, ?, ?)", rows)
            touched = [("newcomers", row[:3]) for row in rows]
            body = {"version": version, "n": len(rows)}
            self._catalogue.log(connection, "newcomers", body, touched)

    def arrivals(self) -> tuple[Arrival, ...]:
        """Give all accounts whose pages came into a golden query's top-k, at any check."""
        with self._catalogue.database.reading() as connection:
            rows = connection.execute(
                "SELECT query, account, time, EXISTS (SELECT 1 FROM promotions WHERE "
                "promotions.version = newcomers.version AND state = 'done') FROM newcomers"
            ).fetchall()
        return tuple(Arrival(query, one, time, bool(done)) for query, one, time, done in rows)
