"""One index version on disk: an immutable folder of three files, each with its hash.

Owns `vectors.npy` (float32, mapped where it lies), `rows.parquet` (what `rows` reads) and
`manifest.json` (sizes and SHA-256 of both, the encoder, the parent version). In a sealed store both
are sealed, their names end in `.sealed`, and they are opened into memory. A version is written
under a temporary name, synced and renamed, so a folder under its own name is a whole one; it is
checked again whenever it is opened. Needs pyarrow (extra ``index``).
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _files, _validate
from epibias._validate import Float32Array
from epibias.errors import InputError
from epibias.index import rows as row_columns
from epibias.index.hashed_file import SEALED, HashedFile
from epibias.index.rows import Row, VersionRows
from epibias.index.sealing import Sealer

LAYOUT = 1
VECTORS, ROWS, MANIFEST = "vectors.npy", "rows.parquet", "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a version is: everything that its files do not say themselves.

    Attributes
    ----------
    ordinal : int
        1, 2, … in the order of staging.
    parent : str or None
        Id of the version it was made from.
    reason, author, time : str
        Why, by whom, and when (ISO 8601) it was staged.
    n_passages, dim : int
    encoder : mapping
        Identity of the encoder; another encoder's vectors are refused.
    content_sha256 : str
        Hash over the hashes of all rows, in order.
    files : mapping
        Name to `bytes` and `sha256`.
    tombstones : tuple of mapping
        Sources that were deleted: what must never come back by a rollback.
    key_id : str or None
        Of the key that the files are sealed with.
    """

    ordinal: int
    parent: str | None
    reason: str
    author: str
    time: str
    n_passages: int
    dim: int
    encoder: Mapping[str, Any]
    content_sha256: str = ""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tombstones: tuple[Mapping[str, Any], ...] = ()
    key_id: str | None = None
    layout: int = LAYOUT

    def to_bytes(self) -> bytes:
        """Give the bytes of `manifest.json`: one manifest, one text."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, allow_nan=False)
        return text.encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Manifest:
        """Read what `to_bytes` wrote."""
        try:
            values = json.loads(content)
            values["tombstones"] = tuple(values["tombstones"])
            return cls(**values)
        except (ValueError, TypeError, KeyError) as error:
            found = str(error) or type(error).__name__
            raise InputError("manifest", "the manifest of a version", found, where) from None


def version_id(ordinal: int, manifest_sha256: str) -> str:
    """Name a version by its number and its content.

    Examples
    --------
    >>> version_id(3, "ab12" * 16)
    '000003-ab12ab12ab12'
    """
    return f"{ordinal:06d}-{manifest_sha256[:12]}"


def write_version(
    versions: Path,
    manifest: Manifest,
    batches: Iterable[tuple[Any, Float32Array]],
    sealer: Sealer | None = None,
) -> tuple[str, str, Manifest]:
    """Write a version whole, or not at all.

    Parameters
    ----------
    versions : Path
        Folder of all versions.
    manifest : Manifest
        With the number of passages that will come; content and files are filled in.
    batches : iterable of (list of Row or Arrow table, float32 [n, dim])
        The passages in order, some thousand at a time; a table is copied from another version.
    sealer : Sealer, optional
        Seals both large files.

    Returns
    -------
    tuple of (str, str, Manifest)
        Id of the version, SHA-256 of its manifest, and the manifest as written.

    Raises
    ------
    InputError
        A row that is zero or not finite, another number of passages, no space left.
    """
    _validate.extra("epibias.index", "pyarrow", "index")
    temporary = versions / f"{_files.TEMPORARY_PREFIX}{manifest.ordinal:06d}-{os.getpid()}"
    _files.make_folder(temporary)
    try:
        with _files.disk_errors(temporary):
            content, files = _write_parts(temporary, manifest, batches, sealer)
            key_id = None if sealer is None else sealer.key_id
            done = replace(manifest, content_sha256=content, files=files, key_id=key_id)
            digest = hashlib.sha256(done.to_bytes()).hexdigest()
            _files.write_bytes(temporary / MANIFEST, done.to_bytes())
            name = version_id(manifest.ordinal, digest)
            _files.sync_folder(temporary)
            os.rename(temporary, versions / name)
            _files.sync_folder(versions)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return name, digest, done


def _write_parts(
    folder: Path,
    manifest: Manifest,
    batches: Iterable[tuple[Any, Float32Array]],
    sealer: Sealer | None,
) -> tuple[str, dict[str, dict[str, Any]]]:
    content = hashlib.sha256()
    shape = (manifest.n_passages, manifest.dim)
    n_written = 0
    with (
        HashedFile(folder, VECTORS, sealer) as vector_file,
        HashedFile(folder, ROWS, sealer) as row_file,
        row_columns.writer(row_file) as row_writer,
    ):
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(vector_file, header)
        for rows, vectors in batches:
            if isinstance(rows, list):  # a table's were checked when its version was written
                _check_vectors(rows, vectors, manifest.dim)
            vector_file.write(np.ascontiguousarray(vectors, "<f4").data.cast("B"))
            add = row_writer.write if isinstance(rows, list) else row_writer.copy
            content.update("".join(add(rows)).encode())
            n_written += len(rows)
    _validate.same_length("passages", n_written, "announced", manifest.n_passages)
    files = {
        file.path.name: {"bytes": file.n_stored, "sha256": file.digest.hexdigest()}
        for file in (vector_file, row_file)
    }
    return content.hexdigest(), files


def _check_vectors(rows: list[Row], vectors: Float32Array, dim: int) -> None:
    _validate.array("embeddings", vectors, dtype=np.float32, ndim=2)
    _validate.same_length("embeddings", len(vectors), "passages", len(rows))
    if vectors.shape[1] != dim:
        raise InputError("embeddings", f"{dim} columns", f"shape {vectors.shape}")
    wrong = ~np.isfinite(vectors).all(axis=1) | ~vectors.any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        where = f"passage {rows[row].passage.id!r}"
        raise InputError("embeddings", "a finite row that is not zero", "another", where)


@dataclass(frozen=True, eq=False)
class VersionFiles:
    """A version that was opened and found whole.

    Attributes
    ----------
    id, manifest_sha256 : str
    manifest : Manifest
    vectors : float32 [n_passages, dim]
        Mapped from the file, read-only: kernels take it without a copy.
    rows : VersionRows
    """

    id: str
    manifest_sha256: str
    manifest: Manifest
    vectors: Float32Array = field(repr=False)
    rows: VersionRows


def open_version(
    versions: Path,
    name: str,
    manifest_sha256: str,
    *,
    hashes: bool = True,
    sealer: Sealer | None = None,
) -> VersionFiles:
    """Open a version, and refuse one that is not what was written.

    Parameters
    ----------
    versions : Path
        Folder of all versions.
    name : str
    manifest_sha256 : str
        What the catalogue says of the manifest, which says everything of the other files.
    hashes : bool
        Read and hash both large files. Without it only their sizes are checked (a map of a file
        that was cut off would kill the process).
    sealer : Sealer, optional
        Of the store that is sealed; a sealed file is opened into memory.

    Raises
    ------
    InputError
        Names the file; which passage was changed, `changed_passages` of `rows` says.
    """
    _validate.extra("epibias.index", "pyarrow", "index")
    manifest = read_manifest(versions, name, manifest_sha256)
    folder = versions / name
    key_id = None if sealer is None else sealer.key_id
    if manifest.key_id != key_id:
        expected = f"files sealed with the key {key_id}" if key_id else "files that are not sealed"
        found = f"the key {manifest.key_id}" if manifest.key_id else "files that are not sealed"
        raise InputError("version", expected, found, str(folder))
    for file_name, about in manifest.files.items():
        path = folder / file_name
        try:
            size = path.stat().st_size
        except OSError as error:
            found = error.strerror or str(error)
            raise InputError(file_name, "a file that can be read", found, str(path)) from None
        if size != about["bytes"]:
            raise InputError(file_name, f"{about['bytes']} bytes", f"{size} bytes", str(path))
        if hashes and (found := _files.sha256_of(path)) != about["sha256"]:
            expected = f"SHA-256 {about['sha256'][:12]}…, as the manifest has it"
            raise InputError(file_name, expected, f"{found[:12]}…: it was changed", str(path))
    if sealer is None:
        vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
        rows = VersionRows(folder / ROWS)
    else:
        vectors = _array_in(sealer.open_file(folder / (VECTORS + SEALED), VECTORS))
        path = folder / (ROWS + SEALED)
        rows = VersionRows(path, memoryview(sealer.open_file(path, ROWS)))
    shape = (manifest.n_passages, manifest.dim)
    if vectors.shape != shape or vectors.dtype != np.float32:
        found = f"{vectors.dtype} {vectors.shape}"
        raise InputError(VECTORS, f"float32 {shape}", found, str(folder))
    return VersionFiles(name, manifest_sha256, manifest, vectors, rows)


def _array_in(memory: mmap.mmap) -> Float32Array:
    """Take the array of an NPY file that lies in memory, without a copy, read-only."""
    memory.seek(0)
    np.lib.format.read_magic(memory)
    shape, _, dtype = np.lib.format.read_array_header_1_0(memory)
    array = np.frombuffer(memory, dtype, int(np.prod(shape)), memory.tell()).reshape(shape)
    array.flags.writeable = False
    return array


def read_manifest(versions: Path, name: str, manifest_sha256: str) -> Manifest:
    """Read a version's manifest and compare it with the hash that the catalogue has."""
    path = versions / name / MANIFEST
    try:
        content = path.read_bytes()
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("version", "a version folder", found, str(path)) from None
    found = hashlib.sha256(content).hexdigest()
    if found != manifest_sha256:
        expected = f"SHA-256 {manifest_sha256[:12]}…, as the catalogue has it"
        raise InputError(MANIFEST, expected, f"{found[:12]}…", str(path))
    return Manifest.from_bytes(content, str(path))


def destroy_version(versions: Path, name: str) -> None:
    """Remove a version's files: first its name, so that nobody opens half of it.

    Who has it mapped keeps it until they close it; blocks on the disk are not overwritten.
    """
    folder = versions / name
    if folder.is_dir():
        doomed = versions / f"{_files.TEMPORARY_PREFIX}destroyed-{name}"
        os.rename(folder, doomed)
        _files.sync_folder(versions)
        shutil.rmtree(doomed)
        _files.sync_folder(versions)
