"""Array in, array out: codes of passages along the principal axes of their corpus.

Beside `kernels_quantized`, and by the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epibias import _core, _validate
from epibias._dispatch import core_errors, on_cpu
from epibias._validate import Float32Array, Float64Array


@dataclass(frozen=True, eq=False)
class PrincipalCodes:
    """Codes of passages along principal axes, and the axes.

    Attributes
    ----------
    axes : float32 [n_axes, dim]
        Orthonormal rows, by descending variance of the corpus along them.
    n_leading : int
        Axes that a scan reads for every passage; the others, only for passages that these leave.
    leading : uint8 [size]
        Codes of the leading axes, about n_leading + 12 bytes a passage.
    rest : uint8 [size]
        Codes of the others, 64 bytes a passage or a multiple.

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> codes = quantize_principal(passages, np.array([1, 1, 0.5**0.5]), np.eye(2, dtype="f4"), 1)
    >>> codes.n_leading, codes.nbytes
    (1, 1488)
    """

    axes: Float32Array
    n_leading: int
    leading: NDArray[np.uint8]
    rest: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """Bytes of axes and codes."""
        return self.axes.nbytes + self.leading.nbytes + self.rest.nbytes

    def prefix(self, n_passages: int) -> PrincipalCodes:
        """View the codes of the first passages: all, or a multiple of 64.

        Parameters
        ----------
        n_passages : int

        Returns
        -------
        PrincipalCodes

        Examples
        --------
        >>> passages = np.ones((70, 2), np.float32)
        >>> axes = np.eye(2, dtype=np.float32)
        >>> codes = quantize_principal(passages, np.full(70, 0.5**0.5), axes, 1)
        >>> codes.prefix(64).rest.size
        4096
        """
        leading, rest = principal_sizes(n_passages, len(self.axes), self.n_leading)
        return PrincipalCodes(self.axes, self.n_leading, self.leading[:leading], self.rest[:rest])


def principal_sizes(n_passages: int, n_axes: int, n_leading: int) -> tuple[int, int]:
    """Bytes of the codes of the leading axes of so many passages, and of the others.

    Raises
    ------
    InputError
        No axes, or more leading ones than there are.

    Examples
    --------
    >>> leading, rest = principal_sizes(1_000_000, n_axes=368, n_leading=192)
    >>> leading / 1e6, rest / 1e6  # megabytes
    (204.0, 192.0)
    """
    n_passages = _validate.integer("n_passages", n_passages, low=0)
    n_axes = _validate.integer("n_axes", n_axes, low=1)
    n_leading = _validate.integer("n_leading", n_leading, low=1)
    with core_errors():
        return _core.principal_sizes(n_passages, n_axes, n_leading)


def quantize_principal(
    passages: Float32Array, inverse_norms: Float64Array, axes: Float32Array, n_leading: int
) -> PrincipalCodes:
    """Return the codes of unit-scaled passages along axes, each with its measured errors.

    Parameters
    ----------
    passages : float32 [n_passages, dim]
    inverse_norms : float64 [n_passages]
        From `kernels.inverse_norms(passages)`.
    axes : float32 [n_axes, dim]
        Orthonormal rows. Any will do; a scan is fast where the first hold most of each passage.
    n_leading : int
        How many of them are scanned, at least 1.

    Returns
    -------
    PrincipalCodes
        The layout is that of `principal_codes.hpp`. The codes of passages 64 a … 64 b are a part of
        it: codes can be made piece by piece.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout, axes that are not orthonormal, an inverse norm that is none.

    References
    ----------
    Jolliffe, *Principal Component Analysis*, 2nd ed., section 3.2, doi:10.1007/b98835.

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> inverse_norms = np.array([1, 1, 0.5**0.5])
    >>> codes = quantize_principal(passages, inverse_norms, np.eye(2, dtype=np.float32), 1)
    >>> codes.leading.size, codes.rest.size
    (1280, 192)
    """
    passages = on_cpu("passages", passages, np.float32, 2)
    inverse_norms = on_cpu("inverse_norms", inverse_norms, np.float64, 1)
    axes = on_cpu("axes", axes, np.float32, 2)
    n_leading = _validate.integer("n_leading", n_leading, low=1)
    with core_errors():
        leading, rest = _core.quantize_principal(passages, inverse_norms, axes, n_leading)
    return PrincipalCodes(axes, n_leading, leading, rest)
