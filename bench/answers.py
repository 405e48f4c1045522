"""Is an answer right? Asked before anything is timed.

Ours must be right to the bit: each similarity is that of the oracle of the tests, and no passage
left out would rank before the last. A peer sums in float32, so it may swap passages whose
similarities differ by less than its sums may be off; anything else is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import reference  # tests/reference.py: the definition

Rows = NDArray[np.float32]
Answer = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]

N_QUERIES_OF_OURS = 2
N_QUERIES_OF_PEERS = 16


class WrongAnswerError(AssertionError):
    """A contender found what is not the answer; nothing is timed."""


def cosines(query: Rows, passages: Rows) -> NDArray[np.float64]:
    """Give the float64 cosine of a query and every passage."""
    wide = query.astype(np.float64)
    found = np.empty(len(passages))
    for first in range(0, len(passages), 16_384):
        rows = passages[first : first + 16_384].astype(np.float64)
        found[first : first + len(rows)] = rows @ wide / np.linalg.norm(rows, axis=1)
    return found / np.linalg.norm(wide)


def check_ours(answer: Answer, queries: Rows, passages: Rows) -> None:
    """Check some queries of ours: bits, order, and that nothing better was left out."""
    for indices, similarities, query in zip(
        *(part[:N_QUERIES_OF_OURS] for part in answer), queries, strict=False
    ):
        expected = [reference.cosine(query, passages[i]) for i in indices]
        if not np.array_equal(np.array(expected, np.float32), similarities):
            raise WrongAnswerError("ours: similarities are not the oracle's")
        last = (-similarities[-1], indices[-1])
        if not np.array_equal(np.lexsort((indices, -similarities)), np.arange(len(indices))):
            raise WrongAnswerError("ours: not in the order of rank")
        near = np.flatnonzero(cosines(query, passages) > float(similarities[-1]) - 1e-6)
        for i in np.setdiff1d(near, indices):
            if (-reference.cosine(query, passages[i]), i) < last:
                raise WrongAnswerError(f"ours: passage {i} was left out")


def check_peer(answer: Answer, exact: Answer, queries: Rows, passages: Rows) -> dict[str, float]:
    """Give how many ids of a query differ from ours, and the largest error of a similarity."""
    indices, similarities = answer
    # A float32 sum of `dim` products of unit rows is off by at most dim · 2⁻²⁴; two are compared,
    # and twice that where rows were rotated before.
    allowed = 4 * passages.shape[1] * 2.0**-24
    n_other, worst = 0, 0.0
    some = np.linspace(0, len(indices) - 1, min(len(indices), N_QUERIES_OF_PEERS)).astype(int)
    for row in some:
        true = cosines(queries[row], passages[indices[row]])
        n_distinct, kth = len(np.unique(indices[row])), float(exact[1][row, -1])
        if indices.shape != exact[0].shape or n_distinct != indices.shape[1]:
            raise WrongAnswerError(f"query {row}: {n_distinct} distinct ids of {exact[0].shape[1]}")
        if not true.min() >= kth - allowed:
            raise WrongAnswerError(f"query {row}: an id of {true.min()}, the k-th has {kth}")
        n_other += len(np.setdiff1d(indices[row], exact[0][row]))
        error = float(np.abs(true - similarities[row]).max())
        if not error <= allowed:  # nor is a NaN
            raise WrongAnswerError(f"query {row}: a similarity is off by {error:.3g}")
        worst = max(worst, error)
    return {
        "other_ids_a_query": round(n_other / len(some), 3),
        "largest_error": float(f"{worst:.2g}"),
    }
