"""What governance writes down beside versions: settings, elevations, held promotions, newcomers.

Owns those tables. Every change that a person makes is a line of the write log, in the same
transaction.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from epibias.errors import InputError
from epibias.index.catalogue import Catalogue
from epibias.index.gate_report import GateReport
from epibias.index.reader import Elevation

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) "
    "WITHOUT ROWID",
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
    accepted : mapping of topic to owner
    state : str
        "open", "accepted" or "rejected".
    """

    version: str
    report: GateReport
    accepted: Mapping[str, str]
    state: str

    @property
    def waiting(self) -> tuple[str, ...]:
        """Topics that nobody accepted yet."""
        return tuple(topic for topic in self.report.topics if topic not in self.accepted)


class Records:
    """Settings, elevations, holds and newcomers of a store.

    Parameters
    ----------
    catalogue : Catalogue
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        catalogue.database.create(_SCHEMA)

    def set_policy(self, content: bytes, *, by: str) -> None:
        """Write down which policy holds from now on."""
        digest = hashlib.sha256(content).hexdigest()
        with self._catalogue.database.writing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO settings VALUES (?, ?)",
                [("policy", content.decode("utf-8")), ("policy_sha256", digest)],
            )
            connection.execute(
                "INSERT OR IGNORE INTO settings VALUES ('salt', ?)", (secrets.token_hex(16),)
            )
            self._catalogue.log(connection, "policy", {"by": by, "sha256": digest})

    def setting(self, name: str) -> str:
        """Give a setting."""
        with self._catalogue.database.reading() as connection:
            query = "SELECT value FROM settings WHERE name = ?"
            row = connection.execute(query, (name,)).fetchone()
        if row is None:
            raise InputError("store", "a store with a policy", f"none ({name})")
        return str(row[0])

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
            self._catalogue.log(connection, "elevate", body)

    def withdraw(self, passage_id: str, topic: str, *, by: str, reason: str) -> int:
        """Take a page's elevations for a topic back; their number."""
        with self._catalogue.database.writing() as connection:
            query = "DELETE FROM elevations WHERE passage = ? AND topic = ?"
            n = connection.execute(query, (passage_id, topic)).rowcount
            body = {"passage_id": passage_id, "topic": topic, "by": by, "reason": reason}
            self._catalogue.log(connection, "withdraw", {**body, "n": n})
        return int(n)

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
            self._catalogue.set_state(connection, report.version, "held", body)

    def held(self, version: str) -> Hold:
        """Look a held promotion up."""
        with self._catalogue.database.reading() as connection:
            query = "SELECT version, report, accepted, state FROM holds WHERE version = ?"
            row = connection.execute(query, (version,)).fetchone()
        if row is None:
            raise InputError("version", "one whose promotion is held", repr(version))
        return Hold(row[0], GateReport.from_json(row[1]), json.loads(row[2]), row[3])

    def accept(self, hold: Hold, topics: Iterable[str], *, by: str, reason: str) -> Hold:
        """Write down that an owner accepted a held promotion for topics."""
        topics = tuple(topics)
        accepted = {**hold.accepted, **dict.fromkeys(topics, by)}
        state = ACCEPTED if set(hold.report.topics) <= set(accepted) else OPEN
        with self._catalogue.database.writing() as connection:
            connection.execute(
                "UPDATE holds SET accepted = ?, state = ? WHERE version = ?",
                (json.dumps(accepted), state, hold.version),
            )
            body = {"version": hold.version, "topics": topics, "by": by, "reason": reason}
            self._catalogue.log(connection, "accept", body)
        return self.held(hold.version)

    def reject(self, hold: Hold, *, by: str, reason: str) -> None:
        """Write down that a held promotion will not be."""
        with self._catalogue.database.writing() as connection:
            connection.execute(
                "UPDATE holds SET state = ? WHERE version = ?", (REJECTED, hold.version)
            )
            body = {"by": by, "reason": reason}
            self._catalogue.set_state(connection, hold.version, REJECTED, body)

    def note_newcomers(self, accounts: Mapping[str, Iterable[str]], version: str) -> None:
        """Write down whose pages came into the top-k of which golden query."""
        time = self._catalogue.now()
        rows = [(query, one, version, time) for query, some in accounts.items() for one in some]
        with self._catalogue.database.writing() as connection:
            connection.executemany("INSERT OR IGNORE INTO newcomers VALUES (?, ?, ?, ?)", rows)

    def recent_newcomers(self, query: str, days: float) -> frozenset[str]:
        """Accounts whose pages came into a golden query's top-k lately."""
        since = datetime.fromisoformat(self._catalogue.now()) - timedelta(days=days)
        with self._catalogue.database.reading() as connection:
            rows = connection.execute(
                "SELECT account, time FROM newcomers WHERE query = ?", (query,)
            ).fetchall()
        return frozenset(row[0] for row in rows if datetime.fromisoformat(row[1]) >= since)
