"""The folder of a run: manifest first, one part a topic, the completion marker last.

Owns what is on disk and in which order it appears. A killed run leaves whole parts and no marker,
so it can be resumed; a run under other settings is refused; two processes cannot share a folder.
It does not know what the rows mean.

    manifest.json   settings (must agree on resume), environment, times
    parts/          one Parquet file a finished topic; removed after the marker is written
    raw.parquet     all parts, in the order of the plan
    tables/ trec/ report.html
    complete.json   the marker: hash of raw.parquet; a folder without it is unfinished
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epibias import _files
from epibias._plain import first_difference
from epibias.errors import InputError
from epibias.experiment import raw
from epibias.experiment.manifest import FORMAT, now, settings_hash

PARTS = ("parts/*.parquet", "parts/*.damaged")
# Everything a run writes; `overwrite` removes these and nothing else. The marker goes first, the
# manifest last: a folder that was half cleared is still known as an unfinished run.
OWN_FILES = (
    "complete.json",
    "raw.parquet",
    "report.html",
    "tables/results.csv",
    "tables/results.md",
    "tables/latency.csv",
    "trec/*.qrels",
    "trec/*/*.qrels",
    "trec/*/*.run",
    *PARTS,
    "manifest.json",
)
LOCK_NAME = ".lock"


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
        _files.make_folder(self.path)
        lock = os.open(self.path / LOCK_NAME, os.O_CREAT | os.O_RDWR, _files.PRIVATE_FILE)
        try:
            _lock(lock, self.path)
            yield
        finally:
            os.close(lock)

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
        for pattern in ("", "parts/", "tables/", "trec/", "trec/*/"):
            self._remove(f"{pattern}{_files.TEMPORARY_PREFIX}*")
        if self.is_complete:
            self._check_raw()
            self._remove(*PARTS)
            return "complete"
        _files.make_folder(self.parts)
        session = {"started": now(), "environment": dict(environment)}
        recorded["sessions"] = [*recorded.get("sessions", []), session]
        _files.write_json(self.path / "manifest.json", recorded)
        return "resumed"

    def topics_done(self, topics: Sequence[str]) -> list[str]:
        """Topics whose part is whole and of these settings; a damaged part is put aside."""
        done = []
        for topic in topics:
            path = self._part(topic)
            if not path.is_file():
                continue
            try:
                raw.read(path, self._hash)
            except InputError:
                path.replace(path.with_suffix(".damaged"))
                continue
            done.append(topic)
        return done

    def write_part(self, topic: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep the rows of one topic, whole or not at all."""
        with _files.replacing(self._part(topic)) as temporary:
            raw.write(temporary, rows, self._hash)

    def join(self, topics: Sequence[str]) -> list[raw.Row]:
        """Join the parts, in this order, into raw.parquet; returns the rows."""
        rows = [row for topic in topics for row in raw.read(self._part(topic), self._hash)]
        with _files.replacing(self.path / "raw.parquet") as temporary:
            raw.write(temporary, rows, self._hash)
        return rows

    def rows(self) -> list[raw.Row]:
        """Rows of raw.parquet."""
        return raw.read(self.path / "raw.parquet", self._hash or None)

    def manifest(self) -> dict[str, Any]:
        """Read the manifest as it stands on disk."""
        recorded = self._read_json("manifest.json")
        if recorded is None:
            raise InputError("run folder", "a manifest.json", "none", str(self.path))
        return recorded

    def note(self, **fields: object) -> None:
        """Add fields to the manifest outside its settings (times, counts)."""
        _files.write_json(self.path / "manifest.json", {**self.manifest(), **fields})

    def complete(self, n_rows: int) -> None:
        """Write the marker, last of all, then remove the parts."""
        marker = {"finished": now(), "n_rows": n_rows, "raw_sha256": self._raw_sha256()}
        _files.write_json(self.path / "complete.json", marker)
        self._remove(*PARTS)

    def _part(self, topic: str) -> Path:
        return self.parts / f"{topic}.parquet"

    def _raw_sha256(self) -> str:
        return hashlib.sha256((self.path / "raw.parquet").read_bytes()).hexdigest()

    def _check_raw(self) -> None:
        marker = self._read_json("complete.json") or {}
        try:
            found = self._raw_sha256()
        except OSError:
            found = "no such file"
        if found != marker.get("raw_sha256"):
            expected = f"the file this run finished with (sha256 {marker.get('raw_sha256')})"
            raise InputError(
                "raw.parquet", expected, found, f"{self.path}; --overwrite starts anew"
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
                f"manifest.json, settings.{field}", f"{old!r} (this run began so)", repr(new), where
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
            if entry.name != LOCK_NAME and not entry.name.startswith(_files.TEMPORARY_PREFIX)
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
    except OSError:
        found = "one that another process is writing to"
        raise InputError("out", "a folder that no run is using", found, str(path)) from None
