"""A private file that is hashed while it is written, sealed if the store is, and synced at its end.

Owns what `version_files` writes to: a new file, mode 0600. The hash is of the bytes that are
stored, so that a changed file is found without the key.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

from epibias import _files
from epibias.index.sealing import Sealer

BYTES_AT_ONCE = 1 << 22
SEALED = ".sealed"  # what the name of a sealed file ends in


class HashedFile:
    """A file for writing, as a context.

    Parameters
    ----------
    folder : Path
    name : str
        A sealed file's ends in `.sealed` beside.
    sealer : Sealer or None

    Attributes
    ----------
    path : Path
    digest : hash
        SHA-256 of what is stored.
    n_stored : int
        Bytes on the disk.
    """

    def __init__(self, folder: Path, name: str, sealer: Sealer | None) -> None:
        self.path = folder / (name if sealer is None else name + SEALED)
        descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _files.PRIVATE_FILE)
        self._file: IO[bytes] = os.fdopen(descriptor, "wb", buffering=BYTES_AT_ONCE)
        self._chunks = None if sealer is None else sealer.chunks(name)
        self.digest = hashlib.sha256()
        self.n_stored = self._n_taken = 0
        if self._chunks is not None:
            self._store(self._chunks.header)

    def write(self, content: bytes | memoryview) -> int:
        """Take what comes next."""
        view = memoryview(content).cast("B")
        self._store(view if self._chunks is None else self._chunks.add(view))
        self._n_taken += view.nbytes
        return view.nbytes

    def _store(self, content: bytes | memoryview) -> None:
        self._file.write(content)
        self.digest.update(content)
        self.n_stored += len(content)

    def tell(self) -> int:
        """Give how much was taken, in clear."""
        return self._n_taken

    def flush(self) -> None:
        """Hand what was stored to the system."""
        self._file.flush()

    @property
    def closed(self) -> bool:
        """Whether the context has ended."""
        return self._file.closed

    def close(self) -> None:
        """Nothing: pyarrow closes what it wrote to, and the file must be synced first."""

    def readable(self) -> bool:
        """Say no."""
        return False

    def writable(self) -> bool:
        """Say yes."""
        return True

    def seekable(self) -> bool:
        """Say no."""
        return False

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._chunks is not None and kind is None:
            self._store(self._chunks.finish())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
