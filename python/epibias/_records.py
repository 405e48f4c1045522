"""Files of JSON lines that grow while a run goes on: one record a line, whole or not at all.

Owns how a line is added beside other processes, and what is made of a file whose writer was killed.
What a record means is its user's business. The files hold texts: mode 0600.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from epibias import _files, _validate
from epibias._plain import described
from epibias.errors import InputError, TornRecordWarning

BYTES_READ_BACK = 65536


def read_lines(path: Path, expected: str) -> tuple[list[bytes], int]:
    """Read the whole lines of a file, and how many were torn: 0 or 1.

    Raises
    ------
    InputError
        Nothing there, or not to be read.

    Warns
    -----
    TornRecordWarning
        What stands after the last line end is left out.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError("path", expected, "none", str(path)) from None
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("path", "a file to read", found, str(path)) from error
    lines = content.split(b"\n")
    if not lines.pop():
        return lines, 0
    message = f"{path.name}, line {len(lines) + 1} is incomplete and is not used"
    warnings.warn(message, TornRecordWarning, stacklevel=5)
    return lines, 1


def json_of(line: bytes, where: str) -> Any:  # noqa: ANN401  # any JSON
    """Parse a line.

    Raises
    ------
    InputError
        It is not JSON in UTF-8.
    """
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        shown = described(line.decode(errors="replace"))
        raise InputError("path", "a JSON object", shown, where) from None


def record_of(line: bytes, what: str, layout: int, where: str) -> dict[str, Any]:
    """Parse a record that says its layout.

    Raises
    ------
    InputError
        It is no JSON object, or of another layout than `what` has.
    """
    record = json_of(line, where)
    if isinstance(record, dict) and record.get("layout") == layout:
        return record
    found = described(record.get("layout") if isinstance(record, dict) else record)
    raise InputError("path", f"a record of a {what}, layout {layout}", found, where)


def canonical(identity: object) -> str:
    """Give the one JSON text of plain values, whatever the order of their keys.

    Raises
    ------
    InputError
        What JSON cannot hold.
    """
    try:
        return json.dumps(identity, sort_keys=True, ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError("identity", "plain values, as JSON has them", str(error)) from None


class _Source(Protocol):
    @property
    def identity(self) -> Mapping[str, object]: ...


class RecordsOfOne(ABC):
    """Where a cache of answers begins: one file, whose answers they are, one thread at a time.

    A subclass names `_WHAT` its file holds and has a `_read` that fills `_identities` (by a text
    that tells one from another) and `n_torn`.

    Raises
    ------
    InputError
        No source, no `identity`, and a file that does not hold answers of just one.
    """

    _WHAT = "records of one source"

    def __init__(
        self,
        source: _Source | None,
        path: Path | str,
        offline: bool,
        identity: Mapping[str, object] | None,
    ) -> None:
        self._path = Path(path)
        self._is_offline = _validate.flag("offline", offline) or source is None
        self._one_thread = threading.RLock()
        self.n_known = self.n_torn = 0
        self._identities: dict[str, Mapping[str, object]] = {}
        # Without a file nothing is known; whose answers it would have held must then be named.
        if self._path.exists() or (self._is_offline and identity is None):
            self._read()
        if source is not None:
            identity = source.identity
        if identity is None:
            if len(self._identities) != 1:
                expected = f"{self._WHAT}, or the argument identity"
                found = f"those of {len(self._identities)}"
                raise InputError("path", expected, found, str(self._path))
            [identity] = self._identities.values()
        self._identity = dict(identity)

    @abstractmethod
    def _read(self) -> None: ...

    @property
    def identity(self) -> dict[str, object]:
        """That of the source whose answers these are."""
        return dict(self._identity)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Add lines, also beside other processes that do: all or none, and whole ones if it is killed.

    As one write and one wait for the disk: that takes longer than many a record to compute.
    """
    content = "".join(f"{line}\n" for line in lines).encode("utf-8")
    with _files.disk_errors(path):
        descriptor = _files.open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            with _locked(descriptor):
                size = _whole_size(descriptor)
                os.ftruncate(descriptor, size)
                try:
                    written = 0
                    while written < len(content):  # a full disk may take a part of it first
                        written += os.write(descriptor, content[written:])
                    os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, size)
                    raise
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _whole_size(descriptor: int) -> int:
    """Bytes up to the last line end: what lies beyond was torn by a process that died."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - BYTES_READ_BACK)
        place = os.pread(descriptor, end - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
