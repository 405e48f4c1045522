"""A copy of a store to attack: the current version, the catalogue, and a mark that it is a copy.

Owns the promise that an attack never touches a store that anybody reads: attacks ask `require_copy`
first, and only `copy_store` sets its mark. Version files are linked where the file system can (they
never change), else copied.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

from epibias import _files
from epibias.errors import InputError
from epibias.index.catalogue import GONE
from epibias.index.pointer import CURRENT
from epibias.index.store import IndexStore

MARK = "STAGING-COPY"
_DATABASES = ("catalogue.sqlite", "retrievals.sqlite")


def copy_store(store: IndexStore, folder: Path) -> IndexStore:
    """Copy a store's current version into a folder, for attacks and drills.

    Parameters
    ----------
    store : IndexStore
    folder : Path
        Must not exist.

    Returns
    -------
    IndexStore
        Of the copy, with the same encoder.

    Raises
    ------
    InputError
        Nothing was promoted yet, or the folder is there.
    """
    pointer = store.current
    if pointer is None:
        raise InputError("store", "a promoted version", "none")
    if folder.exists():
        raise InputError("folder", "one that does not exist", repr(str(folder)))
    source = store.versions.folder
    _files.make_folder(folder / "versions")
    _files.write_text(folder / MARK, f"copy of {pointer.version}\n")
    with store.versions.lock():
        pointer = store.current or pointer
        for name in _DATABASES:
            _copy_database(source / name, folder / name)
        _copy_version(source / "versions" / pointer.version, folder / "versions" / pointer.version)
        _files.write_bytes(folder / CURRENT, (source / CURRENT).read_bytes())
    sealer = store.versions.sealer
    copy = IndexStore(folder, store.encoder, key=None if sealer is None else sealer.key)
    # The versions that were not copied are not there: the copy's catalogue must say so.
    with copy.catalogue.database.writing() as connection:
        for version in copy.catalogue.versions():
            if version.id != pointer.version and version.state not in GONE:
                body = {"reason": "not copied"}
                copy.catalogue.set_state(connection, version.id, "retired", body)
    return copy


def require_copy(store: IndexStore) -> None:
    """Refuse a store that is not a copy made for attacks.

    Raises
    ------
    InputError
        It has a pointer that somebody may read.
    """
    if not (store.versions.folder / MARK).exists():
        expected = "a staging copy; attacks never run on a production pointer"
        raise InputError("store", expected, str(store.versions.folder))


def _copy_database(source: Path, target: Path) -> None:
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, _files.PRIVATE_FILE))
    with (
        contextlib.closing(sqlite3.connect(source)) as old,
        contextlib.closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)


def _copy_version(source: Path, target: Path) -> None:
    _files.make_folder(target)
    for path in source.iterdir():
        try:
            os.link(path, target / path.name)
        except OSError:  # noqa: PERF203  # another file system, three files
            shutil.copyfile(path, target / path.name)
            (target / path.name).chmod(_files.PRIVATE_FILE)
