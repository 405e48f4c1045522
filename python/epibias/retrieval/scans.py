"""Which scan runs when: the answer is the same with each, the time is not.

In: how many queries, passages and results. Out: the name of a scan. The numbers were measured with
`bench/cosine_topk.py`; none of them decides what is found.
"""

from __future__ import annotations

from collections.abc import Collection

SCANS = ("auto", "float32", "int8", "int4")
ONCE = "int8_once"  # what "auto" may choose where no codes are kept

# Below so many numbers a float32 scan takes less time than a wake-up of the threads.
_FEWEST_NUMBERS = 1 << 22
_MOST_DIM = 65_536
# 4 bits save memory traffic, of which many queries share the cost anyway, and leave ten times as
# many passages to score.
_MOST_QUERIES_INT4 = 4
_MOST_RESULTS_INT4 = 100
# Codes that serve one search must be made first: as dear as a scan for some forty queries.
_FEWEST_QUERIES_ONCE = 64
_MOST_RESULTS_ONCE = 256
# Without instructions for bytes, codes win only where memory is what limits.
_MOST_QUERIES_PORTABLE = 8


def kept_codes(scan: str, n_passages: int, dim: int, *, mapped: bool) -> tuple[int, ...]:
    """Bits of the codes that an index keeps.

    Parameters
    ----------
    scan : str
        One of `SCANS`.
    n_passages, dim : int
    mapped : bool
        The embeddings are a file: "auto" then keeps nothing of that size in memory.

    Returns
    -------
    tuple of int
        8, or 8 and 4, or nothing.

    Examples
    --------
    >>> kept_codes("auto", 1_000_000, 384, mapped=False), kept_codes("auto", 99, 384, mapped=False)
    ((8, 4), ())
    """
    if scan == "int8":
        return (8,)
    if scan == "int4":
        return (8, 4)
    large = n_passages * dim >= _FEWEST_NUMBERS and dim <= _MOST_DIM
    return (8, 4) if scan == "auto" and large and not mapped else ()


def for_search(
    scan: str, bits: Collection[int], n_queries: int, k: int, *, hopeless: bool, portable: bool
) -> str:
    """Name the scan that one search goes through.

    Parameters
    ----------
    scan : str
        What the index was made with.
    bits : collection of int
        Of the codes that it keeps.
    n_queries, k : int
    hopeless : bool
        Searches before this one found that 4 bits leave too many passages of this corpus.
    portable : bool
        The SIMD level is the one without intrinsics.

    Returns
    -------
    str
        "float32", "int8", "int4" or "int8_once".

    Examples
    --------
    >>> for_search("auto", (8, 4), 1, 20, hopeless=False, portable=False)
    'int4'
    >>> for_search("auto", (8, 4), 256, 20, hopeless=False, portable=False)
    'int8'
    """
    if scan != "auto":
        return scan
    if not bits:
        once = n_queries >= _FEWEST_QUERIES_ONCE and k <= _MOST_RESULTS_ONCE and not portable
        return ONCE if once else "float32"
    if portable:  # 4 bits cost it more to unpack than to read the other four
        return "int8" if n_queries <= _MOST_QUERIES_PORTABLE else "float32"
    if 4 in bits and n_queries <= _MOST_QUERIES_INT4 and k <= _MOST_RESULTS_INT4 and not hopeless:
        return "int4"
    return "int8"
