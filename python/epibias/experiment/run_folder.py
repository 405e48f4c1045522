"""The folder of a run: manifest first, one part a topic, the completion marker last.

Owns what is on disk and in which order it appears. A killed run leaves whole parts and no marker,
so it can be resumed; a run under other settings is refused; two processes cannot share a folder.
It does not know what the rows mean.

    manifest.json   settings (must agree on resume), environment, times
    parts/          a Parquet file a finished question; removed after the marker is written
    raw.parquet     all parts, in the order of the plan
    tables/ trec/ report.html
    complete.json   the marker: hashes of the rows; a folder without it is unfinished

An experiment has other tables beside the main one, in parts of their own: those of a question are
written before its main part, so that a question with a main part is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epibias import _files
from epibias._plain import first_difference, outlined
from epibias.errors import InputError
from epibias.experiment import raw
from epibias.experiment.manifest import FORMAT, now, settings_hash

PARTS = ("parts/*.parquet", "parts/*.jsonl", "parts/*.damaged", "parts/*.unanswered")
# Everything a run writes; `overwrite` removes these and nothing else. The marker goes first, the
# manifest last: a folder that was half cleared is still known as an unfinished run.
OWN_FILES = (
    "complete.json",
    "raw.parquet",
    "report.html",
    "tables/results.csv",
    "tables/results.md",
    "tables/latency.csv",
    *(f"tables/{name}.csv" for name in ("answers", "costs", "failed", "properties", "validity")),
    "figures/*.svg",
    "passages.parquet",
    "validity.parquet",
    "answers.parquet",
    "answers.jsonl",
    "costs.json",
    "summary.json",
    "trec/*.qrels",
    "trec/*/*.qrels",
    "trec/*/*.run",
    *PARTS,
    "manifest.json",
)
# What an experiment's tables are made of, beside raw.parquet; the demo has none of them.
OTHER_ROWS = ("answers.parquet", "passages.parquet", "validity.parquet", "answers.jsonl")
LOCK_NAME = ".lock"
REPLIES_PREFIX = "replies-"  # what models answered: kept even by `overwrite`, as it costs most


class RunFolder:
    """One run on disk.

    Parameters
    ----------
    path : Path
        Folder of the run; made by `open` when it is not there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = RunFolder(Path(folder) / "run")
    ...     with run.locked():
    ...         print(run.open({"k": 5}, {}), run.is_complete, run.topics_done(["tea"]))
    new False []
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.parts = self.path / "parts"
        self._hash = ""

    @property
    def is_complete(self) -> bool:
        """Whether the completion marker is there."""
        return (self.path / "complete.json").is_file()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process; the lock goes with the process, even by SIGKILL."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError("out", "a folder", "a file", str(self.path))
        self._refuse_foreign()
        was_there = self.path.exists()
        _files.make_folder(self.path)
        lock = os.open(self.path / LOCK_NAME, os.O_CREAT | os.O_RDWR, _files.PRIVATE_FILE)
        try:
            _lock(lock, self.path)
            yield
        except BaseException:
            if not was_there:
                self._remove_empty()
            raise
        finally:
            os.close(lock)

    def _remove_empty(self) -> None:
        """Remove the folder of a run that was refused before it wrote anything, while it is held.

        Another process may open the lock before it is gone: `_lock` refuses it then.
        """
        with contextlib.suppress(OSError):
            if [one.name for one in self.path.iterdir()] == [LOCK_NAME]:
                (self.path / LOCK_NAME).unlink()
                self.path.rmdir()

    def open(
        self,
        settings: Mapping[str, Any],
        environment: Mapping[str, Any],
        *,
        overwrite: bool = False,
    ) -> str:
        """Start, resume or find finished: returns "new", "resumed" or "complete".

        Raises
        ------
        InputError
            If the folder holds a run under other settings (the message names the first field that
            differs), something that is no run, or an unreadable manifest. Nothing is removed then,
            whatever `overwrite` says.
        """
        # Compared as JSON keeps them: a tuple is a list there.
        wanted: dict[str, Any] = json.loads(json.dumps(dict(settings), allow_nan=False))
        self._hash = settings_hash(wanted)
        self._refuse_foreign()
        if overwrite:
            self._remove(*OWN_FILES)
        recorded = self._read_json("manifest.json")
        if recorded is None:
            start = {"format": FORMAT, "settings": wanted, "settings_sha256": self._hash}
            session = {"started": now(), "environment": dict(environment)}
            _files.write_json(self.path / "manifest.json", {**start, "sessions": [session]})
            _files.make_folder(self.parts)
            return "new"
        self._compare(recorded, wanted)
        for pattern in ("", "parts/", "tables/", "figures/", "trec/", "trec/*/"):
            self._remove(f"{pattern}{_files.TEMPORARY_PREFIX}*")
        if self.is_complete:
            self.check()
            self._remove(*PARTS)
            return "complete"
        _files.make_folder(self.parts)
        session = {"started": now(), "environment": dict(environment)}
        recorded["sessions"] = [*recorded.get("sessions", []), session]
        _files.write_json(self.path / "manifest.json", recorded)
        return "resumed"

    def topics_done(self, topics: Sequence[str], tables: Sequence[raw.Table] = ()) -> list[str]:
        """Topics whose part is whole and of these settings; a damaged part is put aside.

        With `tables`, their parts have to be whole too.
        """
        done = []
        for topic in topics:
            if not self._part(topic).is_file():
                continue
            if all([self._is_whole(topic, table) for table in (raw.RAW, *tables)]):
                done.append(topic)
        return done

    def _is_whole(self, topic: str, table: raw.Table) -> bool:
        path = self._part(topic, table)
        try:
            raw.read(path, self._hash, table)
        except InputError:
            if path.exists():
                path.replace(path.with_suffix(".damaged"))
            return False
        return True

    def write_part(
        self,
        topic: str,
        rows: Sequence[Mapping[str, Any]],
        others: Mapping[raw.Table, Sequence[Mapping[str, Any]]] | None = None,
        lines: Sequence[Mapping[str, Any]] | None = None,
        *,
        unanswered: int = 0,
    ) -> None:
        """Keep what was found of one topic, whole or not at all: the main rows come last.

        Parameters
        ----------
        topic : str
            Name of the part; one that a file can have.
        rows : sequence of mapping
            Of the main table.
        others : mapping, optional
            Rows of other tables.
        lines : sequence of mapping, optional
            For JSON lines.
        unanswered : int
            Prompts of the topic that found no server. It is marked before its part is there, so
            that a run killed in between cannot take it for done.
        """
        mark = self.parts / f"{topic}.unanswered"
        if unanswered:
            _files.write_text(mark, f"{unanswered}\n")
        if lines is not None:
            text = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in lines)
            _files.write_text(self.parts / f"{topic}.jsonl", text)
        for table, content in (others or {}).items():
            with _files.replacing(self._part(topic, table)) as temporary:
                raw.write(temporary, content, self._hash, table)
        with _files.replacing(self._part(topic)) as temporary:
            raw.write(temporary, rows, self._hash)
        if not unanswered:
            mark.unlink(missing_ok=True)

    def unanswered(self, topics: Sequence[str]) -> dict[str, int]:
        """Topics that are marked so, with the number of prompts."""
        marks = {topic: self.parts / f"{topic}.unanswered" for topic in topics}
        return {
            topic: int(mark.read_text(encoding="utf-8"))
            for topic, mark in marks.items()
            if mark.is_file()
        }

    def join(self, topics: Sequence[str]) -> list[raw.Row]:
        """Join the parts, in this order, into raw.parquet; returns the rows."""
        rows = [row for topic in topics for row in raw.read(self._part(topic), self._hash)]
        with _files.replacing(self.path / "raw.parquet") as temporary:
            raw.write(temporary, rows, self._hash)
        return rows

    def join_table(self, topics: Sequence[str], table: raw.Table = raw.RAW) -> int:
        """Join the parts of a table, one at a time, into its file; the number of rows."""
        with _files.replacing(self.path / f"{table.name}.parquet") as temporary:
            return raw.join(
                temporary, (self._part(topic, table) for topic in topics), self._hash, table
            )

    def join_lines(self, topics: Sequence[str], name: str) -> None:
        """Join the JSON lines of the parts, one at a time, into a file."""
        with _files.replacing(self.path / name) as temporary, temporary.open("wb") as file:
            for topic in topics:
                file.write((self.parts / f"{topic}.jsonl").read_bytes())

    def rows(self) -> list[raw.Row]:
        """Rows of raw.parquet."""
        return raw.read(self.path / "raw.parquet", self._hash or None)

    def manifest(self) -> dict[str, Any]:
        """Read the manifest as it stands on disk."""
        recorded = self._read_json("manifest.json")
        if recorded is None:
            raise InputError("run folder", "a manifest.json", "none", str(self.path))
        return recorded

    def write_json(self, name: str, value: object) -> None:
        """Write a file of the run, whole or not at all."""
        _files.write_json(self.path / name, value)

    def note(self, **fields: object) -> None:
        """Add fields to the manifest outside its settings (times, counts)."""
        _files.write_json(self.path / "manifest.json", {**self.manifest(), **fields})

    def complete(self, n_rows: int) -> None:
        """Write the marker, last of all, then remove the parts."""
        others = {
            name: _files.sha256_of(self.path / name)
            for name in OTHER_ROWS
            if (self.path / name).is_file()
        }
        raw_sha256 = _files.sha256_of(self.path / "raw.parquet")
        marker = {"finished": now(), "n_rows": n_rows, "raw_sha256": raw_sha256, "others": others}
        _files.write_json(self.path / "complete.json", marker)
        self._remove(*PARTS)

    def check(self) -> None:
        """Refuse rows that are not those that the run finished with.

        Raises
        ------
        InputError
            The first file that was changed, or is gone.
        """
        marker = self._read_json("complete.json") or {}
        expected = {"raw.parquet": marker.get("raw_sha256"), **marker.get("others", {})}
        for name, digest in expected.items():
            try:
                found = _files.sha256_of(self.path / name)
            except InputError:
                found = "no such file"
            if found != digest:
                what = f"the file this run finished with (sha256 {digest})"
                raise InputError(name, what, found, f"{self.path}; --overwrite starts anew")

    def _part(self, topic: str, table: raw.Table = raw.RAW) -> Path:
        return self.parts / (
            f"{topic}.parquet" if table is raw.RAW else f"{topic}.{table.name}.parquet"
        )

    def _compare(self, recorded: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        where = f"{self.path}; another --out or --overwrite starts anew"
        if recorded.get("format") != FORMAT or not isinstance(recorded.get("settings"), dict):
            found = repr(recorded.get("format"))
            raise InputError("manifest.json", f"a manifest of format {FORMAT}", found, where)
        difference = first_difference(recorded["settings"], settings)
        if difference is not None:
            field, old, new = difference
            raise InputError(
                f"manifest.json, settings.{field}",
                f"{outlined(old)} (this run began so)",
                outlined(new),
                where,
            )

    def _read_json(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise InputError(name, "a JSON object", str(error)[:120], str(path)) from None
        if not isinstance(value, dict):
            raise InputError(name, "a JSON object", type(value).__name__, str(path))
        return value

    def _refuse_foreign(self) -> None:
        """Refuse a folder that holds anything but a run: only our own manifest makes it ours."""
        if not self.path.is_dir():
            return
        recorded = self._read_json("manifest.json")
        if recorded is not None:
            settings, found = recorded.get("settings"), recorded.get("settings_sha256")
            if not isinstance(settings, dict) or found != settings_hash(settings):
                expected = "one that a run wrote, with the hash of its settings"
                where = f"{self.path}; choose another --out, nothing here is touched"
                raise InputError("manifest.json", expected, "another", where)
            return
        foreign = [
            entry.name
            for entry in sorted(self.path.iterdir())
            if entry.name != LOCK_NAME
            and not entry.name.startswith((_files.TEMPORARY_PREFIX, REPLIES_PREFIX))
        ]
        if foreign:
            found = f"{foreign[0]!r} in it and no manifest.json"
            raise InputError("out", "an empty folder or one of a run", found, str(self.path))

    def _remove(self, *patterns: str) -> None:
        """Remove the files of these names, then the folders below that are empty."""
        root = self.path.resolve()
        folders = set()
        for pattern in patterns:
            for path in sorted(self.path.glob(pattern)):
                # A link may lead out of the folder: what lies there was not written by a run.
                if path.is_dir() or not path.parent.resolve().is_relative_to(root):
                    continue
                path.unlink(missing_ok=True)
                folders |= {path.parent, path.parent.parent} - {self.path, self.path.parent}
        for folder in sorted(folders, key=lambda one: len(one.parts), reverse=True):
            with contextlib.suppress(OSError):  # something of the user's is in it
                folder.rmdir()


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink == 0:  # removed with the folder of a refused run
            raise OSError
    except OSError:
        found = "one that another process is writing to"
        raise InputError("out", "a folder that no run is using", found, str(path)) from None
