"""Which scan runs when: the answer is the same with each, the time is not.

In: how many queries, passages and results. Out: the name of a scan. The numbers were measured with
`bench/cosine_topk.py`; none of them decides what is found.
"""

from __future__ import annotations

from collections.abc import Collection

from epibias.retrieval.principal import LARGEST_DIM

SCANS = ("auto", "float32", "int8", "int4", "principal")
ONCE = "int8_once"  # what "auto" may choose where no codes are kept

# Below so many numbers a float32 scan takes less time than a wake-up of the threads.
_FEWEST_NUMBERS = 1 << 22
_MOST_DIM = 65_536
# 4 bits save memory traffic, of which many queries share the cost anyway, and leave ten times as
# many passages to score.
_MOST_QUERIES_INT4 = 4
_MOST_RESULTS_INT4 = 100
# Along principal axes a quarter is read and multiplied, but many results leave many passages to
# look at again.
_MOST_RESULTS_PRINCIPAL = 100
_MOST_RESULTS_PRINCIPAL_FEW_QUERIES = 1_000
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
        8, or 8 and 4, or nothing. With `keeps_principal`, more or others.

    Examples
    --------
    >>> kept_codes("auto", 1_000_000, 384, mapped=False), kept_codes("auto", 99, 384, mapped=False)
    ((8, 4), ())
    """
    if scan in ("int8", "principal"):
        return (8,)
    if scan == "int4":
        return (8, 4)
    large = n_passages * dim >= _FEWEST_NUMBERS and dim <= _MOST_DIM
    return (8, 4) if scan == "auto" and large and not mapped else ()


def keeps_principal(scan: str, n_passages: int, dim: int, *, mapped: bool) -> str:
    """Say whether an index keeps codes along principal axes.

    Returns
    -------
    str
        "yes", "no", or "if it pays": in the place of 4 bits, where few axes tell most.

    Examples
    --------
    >>> keeps_principal("auto", 1_000_000, 384, mapped=False)
    'if it pays'
    >>> keeps_principal("principal", 99, 384, mapped=True)
    'yes'
    """
    if scan == "principal":
        return "yes"
    kept = kept_codes(scan, n_passages, dim, mapped=mapped)
    return "if it pays" if scan == "auto" and kept and dim <= LARGEST_DIM else "no"


def for_search(
    scan: str,
    bits: Collection[int],
    n_queries: int,
    k: int,
    *,
    hopeless: bool,
    portable: bool,
    principal: bool = False,
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
        Searches before this one found that 4 bits, or principal axes, leave too many passages of
        this corpus.
    portable : bool
        The SIMD level is the one without intrinsics.
    principal : bool
        The index keeps codes along principal axes.

    Returns
    -------
    str
        "float32", "int8", "int4", "principal" or "int8_once".

    Examples
    --------
    >>> for_search("auto", (8, 4), 1, 20, hopeless=False, portable=False)
    'int4'
    >>> for_search("auto", (8, 4), 256, 20, hopeless=False, portable=False)
    'int8'
    >>> for_search("auto", (8,), 256, 20, hopeless=False, portable=False, principal=True)
    'principal'
    """
    if scan != "auto":
        return scan
    if not bits:
        once = n_queries >= _FEWEST_QUERIES_ONCE and k <= _MOST_RESULTS_ONCE and not portable
        return ONCE if once else "float32"
    few = n_queries <= _MOST_QUERIES_INT4
    most = _MOST_RESULTS_PRINCIPAL_FEW_QUERIES if few else _MOST_RESULTS_PRINCIPAL
    if principal and k <= most and not hopeless:
        return "principal"
    if portable:  # 4 bits cost it more to unpack than to read the other four
        return "int8" if n_queries <= _MOST_QUERIES_PORTABLE else "float32"
    if 4 in bits and few and k <= _MOST_RESULTS_INT4 and not hopeless:
        return "int4"
    return "int8"
