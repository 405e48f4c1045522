"""A synthetic corpus on disk: float32 .npy, written chunk by chunk, resumed, renamed when whole.

The unfinished file has the header of the finished one and then whole chunks; each is synced before
the next is begun. A killed process so leaves a file whose length says how far it came.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from epibias import _files
from epibias._validate import Float32Array
from epibias.costs.synthetic import SyntheticRows, chunk_rows
from epibias.errors import InputError

UNFINISHED = ".unfinished"
_BYTES = 4  # of a float32


def header_of(n_rows: int, dim: int) -> bytes:
    """Header of a .npy file of float32 rows; its length is a multiple of 64.

    Examples
    --------
    >>> len(header_of(10, 384)) % 64
    0
    """
    buffer = io.BytesIO()
    fields = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, dim)}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


def file_size(n_rows: int, dim: int) -> int:
    """Bytes of the finished file.

    Examples
    --------
    >>> file_size(10, 384) - len(header_of(10, 384))
    15360
    """
    return len(header_of(n_rows, dim)) + n_rows * dim * _BYTES


def rows_of_size(argument: str, n_bytes: int, dim: int) -> int:
    """Rows of the largest file that is not larger than this.

    Parameters
    ----------
    argument : str
        What a message calls the size.
    n_bytes, dim : int

    Raises
    ------
    InputError
        A size below that of one row.

    Examples
    --------
    >>> rows_of_size("size", 1_000_000, 384)
    650
    """
    n_rows = (n_bytes - len(header_of(1, dim))) // (dim * _BYTES)
    if n_rows < 1:
        raise InputError(argument, f"at least {file_size(1, dim)} bytes", str(n_bytes))
    return n_rows


def unfinished(path: Path) -> Path:
    """Name of the file while it is being written."""
    return path.with_name(path.name + UNFINISHED)


def bytes_missing(path: Path, n_rows: int, dim: int) -> int:
    """Bytes that are still to be written."""
    if path.exists():
        return 0
    partial = unfinished(path)
    done = partial.stat().st_size if partial.exists() else 0
    return max(file_size(n_rows, dim) - done, 0)


def write_corpus(
    path: Path, rows: SyntheticRows, n_rows: int, advance: Callable[[int], None]
) -> int:
    """Write the first rows of a synthetic corpus, or go on where a killed process stopped.

    Parameters
    ----------
    path : Path
        The finished file. Where it is there already, nothing is written.
    rows : SyntheticRows
        What the rows are.
    n_rows : int
        How many.
    advance : callable
        Called with numbers of rows that are done.

    Returns
    -------
    int
        Rows that were there before.

    Raises
    ------
    InputError
        A file of another size or header; rows that are not those of this seed; a full disk.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "passages.npy"
    ...     n_before = write_corpus(path, SyntheticRows(seed=0, dim=8), 100, lambda n_rows: None)
    ...     np.load(path).shape, n_before
    ((100, 8), 0)
    """
    header, step = header_of(n_rows, rows.dim), chunk_rows(rows.dim)
    if path.exists():
        _check_size(path, file_size(n_rows, rows.dim))
        advance(n_rows)
        return n_rows
    partial = unfinished(path)
    with _files.disk_errors(partial):
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT, _files.PRIVATE_FILE)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            n_before = _rows_there(file, partial, header, rows, n_rows)
            advance(n_before)
            if n_before == 0:
                file.truncate(0)
                file.seek(0)
                file.write(header)
            for start in range(n_before, n_rows, step):
                part = rows.chunk(start // step)[: n_rows - start]
                file.seek(len(header) + start * rows.dim * _BYTES)
                _write_all(file, part)
                os.fsync(file.fileno())
                advance(len(part))
        os.replace(partial, path)
        _files.sync_folder(path.parent)
    return n_before


def _rows_there(
    file: io.FileIO, path: Path, header: bytes, rows: SyntheticRows, n_rows: int
) -> int:
    """Rows of whole chunks in an unfinished file; what comes after them is written again."""
    step, row_bytes = chunk_rows(rows.dim), rows.dim * _BYTES
    found = file.read(len(header))
    if len(found) < len(header):
        return 0
    if found != header:
        expected = f"the header of {n_rows} rows of {rows.dim} columns"
        raise InputError("corpus", expected, "another", str(path))
    size = os.fstat(file.fileno()).st_size - len(header)
    n_chunks = min(size // row_bytes, n_rows) // step
    if n_chunks == 0:
        return 0
    # One chunk is made again: is this the file, and did its last chunk reach the disk?
    file.seek(len(header) + (n_chunks - 1) * step * row_bytes)
    last = np.frombuffer(file.read(step * row_bytes), np.float32).reshape(step, rows.dim)
    # Not to the bit: another number of BLAS threads may have rounded otherwise.
    if not np.allclose(last, rows.chunk(n_chunks - 1), rtol=1e-4, atol=1e-4):
        expected = f"rows of seed {rows.seed}; remove the file to begin anew"
        raise InputError("corpus", expected, f"others in chunk {n_chunks - 1}", str(path))
    return int(n_chunks * step)


def _write_all(file: io.FileIO, part: Float32Array) -> None:
    left = memoryview(np.ascontiguousarray(part, dtype="<f4").data).cast("B")
    while left:
        left = left[file.write(left) :]


def _check_size(path: Path, expected: int) -> None:
    found = path.stat().st_size
    if found != expected:
        raise InputError("corpus", f"a file of {expected} bytes", f"{found} bytes", str(path))
