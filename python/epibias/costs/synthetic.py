"""Synthetic embeddings of any number, chunk by chunk: clusters with a decaying spectrum.

A row depends on the seed, the dimension and its number alone, so the first rows of a large corpus
are those of a small one. Real embeddings crowd together in cones and spread over few directions;
independent normal numbers do neither and would make every search look easy to prune.

    row = (centre[random] + 0.8 · noise) · rotation,  both with the spectrum (1 + column)^-0.35
"""

from __future__ import annotations

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array

N_CENTRES = 1024
LARGEST_DIM = 4096  # beyond it the rotation takes longer than the rows
SPREAD = np.float32(0.8)
DECAY = -0.35
ROWS_MULTIPLE = 64  # a tile of the codes
_CHUNK_FLOATS = 1 << 23  # 32 MiB: three such arrays are held while a chunk is made
_SHARED, _CHUNK, _QUERIES = range(3)  # streams of random numbers


def chunk_rows(dim: int) -> int:
    """Rows of a chunk, a multiple of 64.

    Examples
    --------
    >>> chunk_rows(384)
    21824
    """
    return max(_CHUNK_FLOATS // dim // ROWS_MULTIPLE, 1) * ROWS_MULTIPLE


class SyntheticRows:
    """Rows of a synthetic corpus.

    Parameters
    ----------
    seed : int
        At least 0.
    dim : int
        1 to 4096.

    Examples
    --------
    >>> rows = SyntheticRows(seed=0, dim=8)
    >>> rows.chunk(3).shape == (chunk_rows(8), 8)
    True
    """

    def __init__(self, seed: int, dim: int) -> None:
        self.seed = _validate.integer("seed", seed, low=0)
        self.dim = _validate.integer("dim", dim, low=1, high=LARGEST_DIM)
        generator = np.random.default_rng([self.seed, _SHARED])
        spectrum = np.arange(1, self.dim + 1, dtype=np.float64) ** DECAY
        rotation = np.linalg.qr(generator.standard_normal((self.dim, self.dim)))[0]
        # Noise · turned = (noise · spectrum) · rotation, so no chunk is scaled by itself.
        self._turned = (spectrum[:, None] * rotation).astype(np.float32)
        centres = generator.standard_normal((N_CENTRES, self.dim), np.float32)
        self._centres = centres @ self._turned

    def chunk(self, number: int) -> Float32Array:
        """Make the rows from `number * chunk_rows(dim)` on, float32 [chunk_rows(dim), dim]."""
        generator = np.random.default_rng([self.seed, _CHUNK, number])
        n_rows = chunk_rows(self.dim)
        centre_of_row = generator.integers(0, N_CENTRES, n_rows)
        noise = generator.standard_normal((n_rows, self.dim), np.float32)
        noise *= SPREAD
        rows: Float32Array = noise @ self._turned
        rows += np.take(self._centres, centre_of_row, axis=0, out=noise, mode="clip")
        return rows

    def rows(self, n_rows: int) -> Float32Array:
        """Make the first rows in memory, float32 [n_rows, dim]."""
        parts, step = np.empty((n_rows, self.dim), np.float32), chunk_rows(self.dim)
        for start in range(0, n_rows, step):
            part = parts[start : start + step]
            part[:] = self.chunk(start // step)[: len(part)]
        return parts


def queries_near(rows: Float32Array, n_queries: int, seed: int) -> Float32Array:
    """Make queries that lie near some rows: a row, and half the difference of two others.

    Parameters
    ----------
    rows : float32 [n_rows, dim]
        In memory or memory-mapped; 3 · `n_queries` of them are read, perhaps one twice.
    n_queries, seed : int

    Returns
    -------
    float32 [n_queries, dim]
        None of them zero.

    Examples
    --------
    >>> queries_near(np.eye(4, dtype=np.float32), 2, seed=0).shape
    (2, 4)
    """
    generator = np.random.default_rng([seed, _QUERIES])
    picked = rows[generator.integers(0, len(rows), (3, n_queries))]
    queries = picked[0] + np.float32(0.5) * (picked[1] - picked[2])
    zero = ~queries.any(axis=1)
    queries[zero] = picked[0][zero]  # rows of an index are never zero
    return np.ascontiguousarray(queries)
