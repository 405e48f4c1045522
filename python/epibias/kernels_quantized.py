"""Array in, array out: cosine top-k through codes of 8 or 4 bits.

Beside `kernels`, and by the same rules.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epibias import _core, _validate
from epibias._dispatch import core_errors, on_cpu, on_cpu_or_none
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.kernels_principal import PrincipalCodes

LARGEST_DIM = 65_536  # sums of 8-bit products stay within 32 bits


def codes_size(n_passages: int, dim: int, bits: int = 8) -> int:
    """Bytes of the codes of so many passages.

    Raises
    ------
    InputError
        Other bits than 8 or 4, too many columns.

    Examples
    --------
    >>> codes_size(1_000_000, 384) / 1e6, codes_size(1_000_000, 384, bits=4) / 1e6  # megabytes
    (392.0, 200.0)
    """
    n_passages = _validate.integer("n_passages", n_passages, low=0)
    dim, bits = _validate.integer("dim", dim, low=1), _validate.integer("bits", bits)
    with core_errors():
        return _core.quantized_size(n_passages, dim, bits)


def quantize_passages(
    passages: Float32Array, inverse_norms: Float64Array, bits: int = 8
) -> NDArray[np.uint8]:
    """Return the codes of unit-scaled passages, each with its scale and measured error.

    Parameters
    ----------
    passages : float32 [n_passages, dim]
        `dim` at most 65,536.
    inverse_norms : float64 [n_passages]
        From `kernels.inverse_norms(passages)`.
    bits : {8, 4}
        Of a code.

    Returns
    -------
    uint8 [size]
        About dim + 8 bytes a passage, or dim / 2 + 8; the layout is that of `quantized_scan.hpp`.
        It depends on no machine: it can be saved, and memory-mapped later. The codes of passages
        64 a … 64 b are a part of it: codes can be made piece by piece.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout, too many columns, an inverse norm that is none.

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> codes = quantize_passages(passages, np.array([1, 1, 0.5**0.5]))
    >>> codes.dtype, codes.size  # 64 rows of 8 columns, with 8 bytes a row for scale and error
    (dtype('uint8'), 1024)
    >>> quantize_passages(passages, np.array([1, 1, 0.5**0.5]), bits=4).size
    768
    """
    passages = on_cpu("passages", passages, np.float32, 2)
    inverse_norms = on_cpu("inverse_norms", inverse_norms, np.float64, 1)
    bits = _validate.integer("bits", bits)
    with core_errors():
        return _core.quantize_passages(passages, inverse_norms, bits)


def quantized_scan(
    queries: Float32Array,
    passages: Float32Array,
    k: int,
    inverse_norms: Float64Array,
    codes: NDArray[np.uint8],
    four_bits: NDArray[np.uint8] | None = None,
    principal: PrincipalCodes | None = None,
) -> tuple[Int64Array, Float32Array, int, int]:
    """Return what `kernels.cosine_topk` returns, to the bit, through a scan of codes.

    Every passage whose similarity may reach the `k`-th, by the measured errors of both codes, is
    scored again in float64; only those rows of `passages` are read.

    Parameters
    ----------
    queries, passages : float32 [n_queries, dim], float32 [n_passages, dim]
        Memory-mapped arrays are welcome.
    k : int
        At most `n_passages`.
    inverse_norms, codes : float64 [n_passages], uint8 [size]
        Those of these passages, from `kernels.inverse_norms` and `quantize_passages`.
    four_bits : uint8 [size], optional
        Their codes of 4 bits, to be scanned first. For few queries: half the memory is read.
    principal : PrincipalCodes, optional
        Their codes along principal axes, to be scanned first instead.

    Returns
    -------
    indices, similarities : [n_queries, k] of int64, float32
    n_rescored : int
        Pairs whose similarity was computed in float64 after the scan.
    n_repeated : int
        Queries that were scanned twice: the threshold guessed from a sample was too high, or what
        was scanned first left too many passages.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout, `k` above `n_passages`, a zero or non-finite query.

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> inverse_norms = np.array([1, 1, 0.5**0.5])
    >>> codes = quantize_passages(passages, inverse_norms)
    >>> quantized_scan(passages[:1], passages, 2, inverse_norms, codes)[0]
    array([[0, 2]])
    """
    queries = on_cpu("queries", queries, np.float32, 2)
    passages = on_cpu("passages", passages, np.float32, 2)
    k = _validate.integer("k", k, low=0)
    inverse_norms = on_cpu("inverse_norms", inverse_norms, np.float64, 1)
    codes = on_cpu("codes", codes, np.uint8, 1)
    four_bits = on_cpu_or_none("four_bits", four_bits, np.uint8, 1)
    along = None
    if principal is not None:
        axes = on_cpu("axes", principal.axes, np.float32, 2)
        along = axes, principal.n_leading, principal.leading, principal.rest
    with core_errors():
        return _core.quantized_scan(
            queries, passages, k, inverse_norms, codes, four_bits, principal=along
        )


def quantized_scan_once(
    queries: Float32Array, passages: Float32Array, k: int, inverse_norms: Float64Array
) -> tuple[Int64Array, Float32Array, int, int]:
    """Return what `quantized_scan` returns, without codes at hand: they are made on the way.

    For some sixty queries or more that share the cost; they need 4 MiB at a time.

    Parameters
    ----------
    queries, passages : float32 [n_queries, dim], float32 [n_passages, dim]
        Memory-mapped arrays are welcome.
    k : int
        At most `n_passages`.
    inverse_norms : float64 [n_passages]
        From `kernels.inverse_norms(passages)`.

    Returns
    -------
    indices, similarities, n_rescored, n_repeated
        As in `quantized_scan`.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout, `k` above `n_passages`, a zero or non-finite query.

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> quantized_scan_once(passages[:1], passages, 2, np.array([1, 1, 0.5**0.5]))[0]
    array([[0, 2]])
    """
    queries = on_cpu("queries", queries, np.float32, 2)
    passages = on_cpu("passages", passages, np.float32, 2)
    k = _validate.integer("k", k, low=0)
    inverse_norms = on_cpu("inverse_norms", inverse_norms, np.float64, 1)
    with core_errors():
        return _core.quantized_scan_once(queries, passages, k, inverse_norms)
