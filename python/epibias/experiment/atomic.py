"""Files that are there whole or not at all: temporary name in the same folder, fsync, rename.

Owns how a file is put on disk. Files get mode 0600 and new folders 0700: what an experiment
writes may hold text.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

TEMPORARY_PREFIX = ".unfinished-"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; on success it becomes `path`, on any error it is removed.

    Parameters
    ----------
    path : Path
        Where the finished file goes; its folder must exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "note.txt") as temporary:
    ...         _ = temporary.write_text("whole", encoding="utf-8")
    ...     (Path(folder) / "note.txt").read_text(encoding="utf-8")
    'whole'
    """
    descriptor, name = tempfile.mkstemp(
        prefix=TEMPORARY_PREFIX, suffix=f"-{path.name}", dir=path.parent
    )
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: object) -> None:
    """Write a JSON file (indented, keys in the order given), whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def make_folder(path: Path) -> None:
    """Make a folder and its parents; the folder itself gets mode 0700 when it is new."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Make a rename durable, where the system lets a folder be synced."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows does not open folders
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse; the rename itself is still atomic
        pass
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> int:
    """Remove temporary files that a killed process left in a folder; their number."""
    leftovers = list(folder.glob(f"{TEMPORARY_PREFIX}*"))
    for path in leftovers:
        path.unlink(missing_ok=True)
    return len(leftovers)
