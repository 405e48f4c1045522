"""Is the store what was written? Every file, the pointer, both logs, and who may read the folder.

Owns the list of checks; each problem is one line that names file, passage, version or line of log.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epibias import _files
from epibias.errors import InputError
from epibias.index.catalogue import ABANDONED, GONE
from epibias.index.ledger import changed_rows
from epibias.index.version_files import version_id

if TYPE_CHECKING:
    from epibias.index.store import IndexStore

MOVES = ("promote", "rollback")


@dataclass(frozen=True)
class Integrity:
    """What a check of the whole store found.

    Attributes
    ----------
    problems : tuple of str
        Empty: all is as it was written.
    n_versions, n_lines : int
        Versions and lines of both logs that were read.
    """

    problems: tuple[str, ...]
    n_versions: int
    n_lines: int


def check_store(store: IndexStore, expected_head: tuple[int, str] | None = None) -> Integrity:
    """Read everything and compare it with its hashes.

    Parameters
    ----------
    store : IndexStore
    expected_head : tuple of (int, str), optional
        Number and hash of a line of the write log, noted elsewhere: finds a log that was written
        anew.
    """
    problems: list[str] = []
    n_lines = 0

    def tried(action: Callable[[], object]) -> None:
        try:
            action()
        except InputError as error:
            problems.append(str(error))

    tried(store.versions.current)
    tried(lambda: store.policy)
    n_versions = 0
    for version in store.catalogue.versions():
        if version.id != version_id(version.ordinal, version.manifest_sha256):
            problems.append(f"catalogue: version {version.id} has another manifest hash")
        if version.state not in GONE:
            problems += _not_as_written(store, version.id)
            n_versions += 1
    for log, head in ((store.catalogue.writes, expected_head), (store.retrievals, None)):
        try:
            n_lines += log.verify(head)
        except InputError as error:  # noqa: PERF203  # two logs
            problems.append(str(error))
    with store.catalogue.database.reading() as connection:
        lines = store.catalogue.writes.lines(connection=connection)
        problems += changed_rows(connection, lines)
    problems += _moves_not_logged(store)
    problems += _open_to_others(store)
    return Integrity(tuple(problems), n_versions, n_lines)


def _not_as_written(store: IndexStore, version: str) -> Iterator[str]:
    try:
        store.versions.open(version)
    except InputError as error:
        yield str(error)
        for passage in store.versions.changed_passages(version):
            yield f"version {version}: passage {passage!r} was changed"


def _moves_not_logged(store: IndexStore) -> Iterator[str]:
    """Find moves of the pointer that the write log tells otherwise, where it still reaches back."""
    lines = {line.body["number"]: line for line in store.catalogue.writes.lines(MOVES)}
    for promotion in store.catalogue.promotions():
        line = lines.get(promotion.number)
        if line is None:
            if lines and promotion.number > min(lines):
                yield f"catalogue: promotion {promotion.number} is not in the write log"
        elif line.body["version"] != promotion.version and promotion.state != ABANDONED:
            version = line.body["version"]
            yield (
                f"catalogue: promotion {promotion.number} is of {promotion.version}, and of "
                f"{version} in the write log"
            )


def _open_to_others(store: IndexStore) -> Iterator[str]:
    for path in sorted(store.versions.folder.rglob("*")):
        if not path.exists():  # a writer's temporary file
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        wanted = _files.PRIVATE_FOLDER if path.is_dir() else _files.PRIVATE_FILE
        if mode & ~wanted:
            yield f"{path}: expected mode {wanted:o}, got {mode:o}"
