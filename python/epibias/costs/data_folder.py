"""The folder that holds what a stress run makes: corpus and prepared index, until it is removed.

Owns what lies there and whether it may be touched: only a folder that is empty, or that a manifest
of ours names, is written to or cleared. One process at a time.

    stress-data.json   settings of the data, with their hash; written first, removed last
    passages.npy       the synthetic corpus (passages.npy.unfinished while it is written)
    index/             norms and codes of the index
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from epibias import _files
from epibias._plain import first_difference
from epibias.costs.corpus_file import unfinished
from epibias.costs.sizes import size_text
from epibias.errors import InputError
from epibias.experiment.manifest import settings_hash

MANIFEST, CORPUS, INDEX, LOCK = "stress-data.json", "passages.npy", "index", ".lock"
_MARGIN = 64 * 1024**2  # left free on the disk


class DataFolder:
    """A folder for the data of stress runs.

    Parameters
    ----------
    path : Path
        Made when it is first locked.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = DataFolder(Path(folder) / "data")
    ...     with data.locked():
    ...         print(data.open({"seed": 0}), data.open({"seed": 0}))
    ...         data.remove()
    ...     data.path.exists()
    False True
    False
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.corpus = self.path / CORPUS
        self.index = self.path / INDEX

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process; the lock goes with the process.

        Raises
        ------
        InputError
            A file in place of the folder, one that holds something else, or one in which another
            process works.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError("--data", "a folder", "a file", str(self.path))
        self._refuse_foreign()
        _files.make_folder(self.path)
        lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR, _files.PRIVATE_FILE)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                found = "one that another process works in"
                raise InputError("--data", "a free folder", found, str(self.path)) from None
            yield
        finally:
            os.close(lock)

    def check(self, settings: Mapping[str, Any], n_bytes: int) -> None:
        """Refuse, before anything is made, what `open` would refuse, and a disk that is too full.

        Parameters
        ----------
        settings : mapping
            What decides the data.
        n_bytes : int
            What will be written at most.

        Raises
        ------
        InputError
            A folder that holds something else, or data of other settings; too little space.
        """
        self._refuse_foreign()
        self._refuse_other(settings)
        self.check_space(n_bytes)

    def check_space(self, n_bytes: int) -> None:
        """Refuse a disk that has not so many bytes left, and a margin.

        Raises
        ------
        InputError
            With what is needed and what is free.
        """
        folder = self.path.absolute()
        while not folder.is_dir():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if free < n_bytes + _MARGIN:
            expected = f"a disk with {size_text(n_bytes + _MARGIN)} free"
            raise InputError("--data", expected, size_text(free), str(self.path))

    def open(self, settings: Mapping[str, Any]) -> bool:
        """Claim the folder for data of these settings; data of others are refused.

        Returns
        -------
        bool
            Whether such data, perhaps unfinished, are there from before.

        Raises
        ------
        InputError
            Data of other settings, or a manifest that is not ours.
        """
        self._refuse_other(settings)
        if self._manifest() is not None:
            return True
        wanted = _as_json(settings)
        content = {"settings": wanted, "settings_sha256": settings_hash(wanted)}
        _files.write_json(self.path / MANIFEST, content)
        return False

    def remove(self) -> None:
        """Remove the data, and the folder where nothing else is in it; never what is not ours.

        Raises
        ------
        InputError
            A manifest that is not ours: nothing was removed.
        OSError
            What the system does not let go.
        """
        if self._manifest() is None:
            return
        if self.index.is_dir() and not self.index.is_symlink():
            shutil.rmtree(self.index)
        for path in (self.corpus, unfinished(self.corpus)):
            path.unlink(missing_ok=True)
        _files.remove_leftovers(self.path)
        (self.path / MANIFEST).unlink()
        (self.path / LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something of the user's is in it
            self.path.rmdir()

    def _manifest(self) -> dict[str, Any] | None:
        path = self.path / MANIFEST
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise InputError(MANIFEST, "a JSON object", str(error)[:120], str(path)) from None
        manifest: dict[str, Any] = found if isinstance(found, dict) else {}
        settings = manifest.get("settings")
        is_ours = isinstance(settings, dict)
        if not is_ours or manifest.get("settings_sha256") != settings_hash(settings or {}):
            where = f"{path}; choose another --data, nothing here is touched"
            raise InputError(MANIFEST, "one that epibias stress wrote", "another", where)
        return manifest

    def _refuse_foreign(self) -> None:
        if not self.path.is_dir() or self._manifest() is not None:
            return
        names = sorted(entry.name for entry in self.path.iterdir())
        foreign = [
            name for name in names if name != LOCK and not name.startswith(_files.TEMPORARY_PREFIX)
        ]
        if foreign:
            found = f"{foreign[0]!r} in it and no {MANIFEST}"
            expected = "an empty folder, or one of epibias stress"
            raise InputError("--data", expected, found, str(self.path))

    def _refuse_other(self, settings: Mapping[str, Any]) -> None:
        recorded = self._manifest() if self.path.is_dir() else None
        difference = recorded and first_difference(recorded["settings"], _as_json(settings))
        if difference:
            name, old, new = difference
            where = f"{self.path}; choose another --data, or remove that folder"
            raise InputError(f"{MANIFEST}, {name}", f"{old!r}, as the data there", repr(new), where)


def _as_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give settings as they come back from a file: a tuple is a list there."""
    found: dict[str, Any] = json.loads(json.dumps(dict(settings), allow_nan=False))
    return found
