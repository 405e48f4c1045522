"""Embeddings of one's own, mapped from a .npy file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.errors import InputError


def opened_embeddings(path: Path) -> Float32Array:
    """Map a .npy file of embeddings, read only.

    Raises
    ------
    InputError
        No such file, not a .npy file, one that was cut off, or not float32 [n_passages, dim].
    """
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        found = getattr(error, "strerror", None) or str(error).split("\n")[0][:120]
        raise InputError("embeddings", "a .npy file of float32 rows", found, str(path)) from None
    if not isinstance(rows, np.ndarray):  # an .npz archive
        rows.close()
        raise InputError("embeddings", "a .npy file of float32 rows", "an archive", str(path))
    found_rows: Float32Array = _validate.array("embeddings", rows, dtype=np.float32, ndim=2)
    if 0 in rows.shape:
        raise InputError("embeddings", "one row and one column or more", f"shape {rows.shape}")
    return found_rows
