"""Which axes of a corpus tell most of its passages, and how many of them a scan should read.

In: embeddings. Out: axes for `kernels_principal.quantize_principal`. They come from a sample; the
answer of a search does not depend on them, only its time does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epibias import kernels, kernels_principal, kernels_quantized
from epibias._validate import Float32Array
from epibias.errors import InputError

LARGEST_DIM = 2048  # the axes of more columns would take longer than the codes
_SAMPLED_ROWS = 4096
# Of the variance, so much may lie beyond the leading axes, and beyond all. (Of the squared length
# would not do: where passages are much alike, their mean has most of that.) Measured with
# `bench/cosine_topk.py`: fewer leading axes leave more passages to look at again.
_BEYOND_LEADING = 0.115
_BEYOND_ALL = 0.033
_STEP = 32  # leading axes come in so many
_LINE, _LINE_NUMBERS, _MOST_LINES = 64, 16, 4  # of the record of the others (principal_codes.hpp)


def axes_of(embeddings: Float32Array) -> tuple[Float32Array, int]:
    """Give the principal axes of a corpus that are worth keeping, and how many lead.

    Parameters
    ----------
    embeddings : float32 [n_passages, dim]
        4,096 rows, evenly spread, are read.

    Returns
    -------
    axes : float32 [n_axes, dim]
        Orthonormal; leading eigenvectors of the second moment of the unit rows, not centred.
    n_leading : int

    Raises
    ------
    InputError
        More than 2,048 columns, or a row of the sample that is zero or not finite.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> flat = rng.standard_normal((1000, 4), np.float32) @ rng.standard_normal((4, 96), np.float32)
    >>> axes, n_leading = axes_of(flat)
    >>> axes.shape, n_leading
    ((80, 96), 32)
    """
    n_passages, dim = embeddings.shape
    if dim > LARGEST_DIM:
        expected = f"at most {LARGEST_DIM} columns for a scan along principal axes"
        raise InputError("passage_embeddings", expected, str(dim))
    chosen = np.unique(np.linspace(0, max(0, n_passages - 1), _SAMPLED_ROWS).astype(np.int64))
    rows = np.ascontiguousarray(embeddings[chosen[:n_passages]])
    norms = kernels.inverse_norms(rows, "passage_embeddings")
    unit = rows.astype(np.float64) * norms[:, None]
    moments, vectors = np.linalg.eigh(unit.T @ unit)
    n_rows = max(1, len(rows))
    variance = 1 - float(np.sum((unit.sum(axis=0) / n_rows) ** 2))
    beyond = 1 - np.cumsum(moments[::-1]) / n_rows
    n_leading = min(dim, -(-_first(beyond <= _BEYOND_LEADING * variance, dim) // _STEP) * _STEP)
    wanted = max(0, _first(beyond <= _BEYOND_ALL * variance, dim) - n_leading)
    lines = min(_MOST_LINES, -(-(wanted + _LINE_NUMBERS) // _LINE))
    n_axes = min(dim, n_leading + _LINE * lines - _LINE_NUMBERS)
    axes = np.ascontiguousarray(vectors[:, ::-1][:, :n_axes].T, np.float32)
    return axes, n_leading


def pays(axes: Float32Array, n_leading: int) -> bool:
    """Say whether a scan along these axes reads less than one of 4 bits of all columns.

    Examples
    --------
    >>> pays(np.empty((368, 768), np.float32), 192), pays(np.empty((768, 768), np.float32), 600)
    (True, False)
    """
    return n_leading <= int(axes.shape[1]) // 2


def most_bytes(n_passages: int, dim: int) -> int:
    """Bytes that the codes of all columns and those along axes that pay take, at most.

    Examples
    --------
    >>> most_bytes(1_000_000, 384) / 1e6 < 860
    True
    """
    n_leading = -(-dim // 2)
    n_axes = n_leading + _MOST_LINES * _LINE - _LINE_NUMBERS
    sizes = kernels_principal.principal_sizes(n_passages, n_axes, n_leading)
    return kernels_quantized.codes_size(n_passages, dim) + sum(sizes) + 4 * n_axes * dim


def _first(holds: NDArray[np.bool_], otherwise: int) -> int:
    """Count the axes up to the first for which it holds."""
    return int(np.argmax(holds)) + 1 if holds.any() else otherwise
