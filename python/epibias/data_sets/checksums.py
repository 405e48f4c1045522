"""SHA-256 of the files that a set was read from."""

from __future__ import annotations

import hashlib
from pathlib import Path

from epibias.errors import InputError


def sha256_of(path: Path | str) -> str:
    r"""Give the SHA-256 of a file, in hexadecimal.

    Raises
    ------
    InputError
        A file that cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_bytes(b"abc")
    ...     sha256_of(Path(folder, "a.txt"))[:16]
    'ba7816bf8f01cfea'
    """
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        expected = "a file that can be read"
        raise InputError("path", expected, str(error.strerror), str(path)) from error
    return digest.hexdigest()
