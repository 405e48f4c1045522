"""Numbers that stand for ids, where arrays cannot hold texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from epibias._validate import Int64Array


def query_keys(ids: Iterable[str]) -> Int64Array:
    """Give the number that keys a query's permutation test: it depends on the id alone.

    So a p-value is the same whichever other queries are asked, and in whatever order.

    Parameters
    ----------
    ids : iterable of str
        Ids of the queries.

    Returns
    -------
    int64 [n_queries]
        56 bits of the SHA-256 of each id.

    Examples
    --------
    >>> query_keys(["a", "b"]).tolist() == query_keys(["b", "a"]).tolist()[::-1]
    True
    """
    digests = (hashlib.sha256(one.encode()).digest() for one in ids)
    return np.array([int.from_bytes(digest[:7], "big") for digest in digests], dtype=np.int64)
