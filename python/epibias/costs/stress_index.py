"""Where the index of a stress run is made: once for all passages, and as a view for fewer.

The codes of the first n rows are the first codes, where n is a multiple of 64 (quantized_scan.hpp,
layout), so a prefix needs neither time nor memory of its own.
"""

from __future__ import annotations

import copy
from pathlib import Path

from epibias._validate import Float32Array
from epibias.costs.synthetic import ROWS_MULTIPLE
from epibias.errors import InputError
from epibias.retrieval import CosineIndex


def make_index(embeddings: Float32Array, folder: Path, scan: str) -> CosineIndex:
    """Prepare the index of all passages, its norms and codes in files of `folder`."""
    del folder
    return CosineIndex(embeddings, scan="int8" if scan == "auto" else scan)


def prefix_of(index: CosineIndex, n_passages: int) -> CosineIndex:
    """View the index of the first passages: the same files, nothing is computed.

    Raises
    ------
    InputError
        A number that is no multiple of 64 (all passages may be any number).
    """
    if n_passages == index.n_passages:
        return index
    if n_passages % ROWS_MULTIPLE or not 0 < n_passages < index.n_passages:
        expected = f"multiples of {ROWS_MULTIPLE} up to {index.n_passages}"
        raise InputError("points", expected, str(n_passages))
    part = copy.copy(index)
    part._embeddings = index._embeddings[:n_passages]
    part._inverse_norms = index._inverse_norms[:n_passages]
    if index._codes is not None:
        n_tiles = -(-index.n_passages // ROWS_MULTIPLE)
        tile_bytes = index._codes.size // n_tiles
        part._codes = index._codes[: n_passages // ROWS_MULTIPLE * tile_bytes]
    return part


def index_bytes(n_passages: int, dim: int) -> int:
    """Bytes that norms and codes of an index take on disk, at most."""
    return n_passages * (2 * dim + 64) + (1 << 20)
