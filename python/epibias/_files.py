"""Files that are there whole or not at all, and that only their owner can read.

Owns how epibias puts a file on disk: temporary name in the same folder, fsync, rename, fsync of the
folder. Files get mode 0600 and new folders 0700, because most of what is written holds texts or
embeddings. A process that is killed leaves at most a temporary file, never half a result.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from epibias.errors import InputError

TEMPORARY_PREFIX = ".unfinished-"
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_ACCESS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
    | {errno.EEXIST, errno.ENAMETOOLONG}
)


@contextlib.contextmanager
def replacing(path: Path | str, *, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """Give a temporary path to write to; on success it becomes `path`, on any error it is removed.

    Parameters
    ----------
    path : Path
        Where the finished file goes; its folder must exist.
    mode : int
        Permission bits of the finished file.

    Yields
    ------
    Path
        An empty file in the same folder, mode 0600.

    Raises
    ------
    InputError
        If the folder cannot be written, or the disk is full. What stood at `path` is still there.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "note.txt") as temporary:
    ...         _ = temporary.write_text("whole", encoding="utf-8")
    ...     (Path(folder) / "note.txt").read_text(encoding="utf-8")
    'whole'
    """
    path = Path(path)
    with _told(path, _NO_SPACE | _NO_ACCESS):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # The end of the name is enough to recognise it, and stays below 255 bytes.
        descriptor, name = tempfile.mkstemp(
            prefix=TEMPORARY_PREFIX, suffix=f"-{path.name[-40:]}", dir=path.parent
        )
    os.close(descriptor)
    temporary = Path(name)
    try:
        # Other errors of the body may come from files that it reads: they are not about `path`.
        with _told(path, _NO_SPACE):
            yield temporary
        with _told(path, _NO_SPACE | _NO_ACCESS):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(mode)
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path | str, text: str) -> None:
    r"""Write a UTF-8 text file with ``\n`` line ends, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path | str, value: object) -> None:
    """Write a JSON file (indented, keys in the order given), whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def make_folder(path: Path | str) -> Path:
    """Make a folder and its missing parents, each with mode 0700; folders that exist stay as is.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = make_folder(Path(folder) / "runs" / "first")
    ...     [oct(p.stat().st_mode & 0o777) for p in (made, made.parent)]
    ['0o700', '0o700']
    """
    path = Path(path)
    with _told(path, _NO_SPACE | _NO_ACCESS):
        missing = []
        folder = path
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            # Another process may make it first: then it is theirs, and as private.
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=PRIVATE_FOLDER)
            if not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return path


def sync_folder(path: Path | str) -> None:
    """Make a rename durable, where the system lets a folder be synced."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # a folder that may be written but not read
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse; the rename itself is still atomic
        pass
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path | str) -> int:
    """Remove temporary files that a killed process left in a folder; their number.

    Call it only where no other process is writing.
    """
    leftovers = list(Path(folder).glob(f"{TEMPORARY_PREFIX}*"))
    for path in leftovers:
        path.unlink(missing_ok=True)
    return len(leftovers)


@contextlib.contextmanager
def _told(path: Path, errors: frozenset[int]) -> Iterator[None]:
    """Turn what the system says into a message that names the path."""
    try:
        yield
    except OSError as error:
        if error.errno not in errors:
            raise
        found = os.strerror(error.errno or 0)
        expected = "a path that can be written, with space left"
        raise InputError("path", expected, found, str(path)) from error
