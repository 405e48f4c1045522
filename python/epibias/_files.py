"""Files that are there whole or not at all, and that only their owner can read.

Owns how epibias puts a file on disk: temporary name in the same folder, fsync, rename, fsync of the
folder. Files get mode 0600 and new folders 0700, because most of what is written holds texts or
embeddings. A process that is killed leaves at most a temporary file, never half a result.

What the user put there stays what it is: a link still points to the file, which is replaced; a
FIFO or a device is written to. The hash that tells one file from another is given here, too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
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
    | {errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO}
)
# These name what a process has open, whatever its kind: it is never replaced.
_OPEN_FILES = frozenset(map(Path, ("/dev/fd", "/dev/stdout", "/dev/stderr", "/proc")))


@contextlib.contextmanager
def replacing(path: Path | str, *, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """Give a temporary path to write to; on success it becomes `path`, on any error it is removed.

    A link stays, and what it points to is replaced. A FIFO or a character device is not replaced:
    the finished bytes are written to it.

    Parameters
    ----------
    path : Path
        Where the finished file goes; its folder must exist.
    mode : int
        Permission bits of the finished file, whatever those of the file that it replaces are.

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
        is_stream = writes_through(path)
        target = path if is_stream else Path(os.path.realpath(path))
        # The end of the name is enough to recognise it, and stays below 255 bytes.
        descriptor, name = tempfile.mkstemp(
            prefix=TEMPORARY_PREFIX,
            suffix=f"-{path.name[-40:]}",
            dir=None if is_stream else target.parent,
        )
    os.close(descriptor)
    temporary = Path(name)
    try:
        # Other errors of the body may come from files that it reads: they are not about `path`.
        with _told(path, _NO_SPACE):
            yield temporary
        with _told(path, _NO_SPACE | _NO_ACCESS):
            if is_stream:
                _copy_to_stream(temporary, path)
            else:
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
                temporary.chmod(mode)
                os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if is_stream:
        temporary.unlink(missing_ok=True)
    else:
        sync_folder(target.parent)


def writes_through(path: Path | str) -> bool:
    """Whether `path` is written to and not replaced: a FIFO, a character device, an open file.

    Raises
    ------
    OSError
        A folder, or anything else that takes no bytes.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.mkfifo(Path(folder) / "pipe")
    ...     writes_through(Path(folder) / "pipe"), writes_through(Path(folder) / "new.txt")
    (True, False)
    """
    path = Path(path)
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:  # also a link to nothing yet: its target will be made
        return False
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
        return True
    if not stat.S_ISREG(kind):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    absolute = Path(os.path.abspath(path))
    return not _OPEN_FILES.isdisjoint((absolute, *absolute.parents))


def _copy_to_stream(source: Path, path: Path) -> None:
    # Without O_CREAT: had it gone meanwhile, a file would take its place. To the end, because
    # /dev/stdout may be a file that the shell opened to append to.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    with os.fdopen(descriptor, "wb") as sink, source.open("rb") as finished:
        shutil.copyfileobj(finished, sink)


def open_private(path: Path | str, flags: int) -> int:
    """Open a file that is written in place, of mode 0600 also where it was there with another.

    Somebody else's file that one may write to keeps its mode: its owner decides.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "open")
    ...     path.touch(mode=0o644)
    ...     os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    ...     oct(path.stat().st_mode & 0o777)
    '0o600'
    """
    descriptor = os.open(path, flags, PRIVATE_FILE)
    found = os.fstat(descriptor).st_mode
    if stat.S_ISREG(found) and stat.S_IMODE(found) & ~PRIVATE_FILE:
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, stat.S_IMODE(found) & PRIVATE_FILE)
    return descriptor


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


def sha256_of(path: Path | str) -> str:
    r"""Give the SHA-256 of a file, in hexadecimal, read block by block.

    Raises
    ------
    InputError
        A file that cannot be read.

    Examples
    --------
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
        expected, found = "a file that can be read", error.strerror or str(error)
        raise InputError("path", expected, found, str(path)) from error
    return digest.hexdigest()


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


def disk_errors(path: Path | str) -> contextlib.AbstractContextManager[None]:
    """Turn a full disk, or a path that cannot be written, into an `InputError` that names it.

    For files that are written over a long time, in place; `replacing` does it for the others.
    """
    return _told(Path(path), _NO_SPACE | _NO_ACCESS)


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
