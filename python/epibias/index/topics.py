"""Which topic a query belongs to: as the caller says, by keyword, or as its nearest golden query.

A query that is placed wrongly meets no ownership gate of its topic, so where the caller knows the
topic it should say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epibias._validate import Float32Array
from epibias.data_sets import GoldenQuery
from epibias.index.policy import Policy
from epibias.index.signals import words
from epibias.retrieval import CosineIndex


@dataclass(frozen=True)
class Placed:
    """Topic of a query, and how it was found.

    Attributes
    ----------
    topic : str or None
        None: general search.
    how : str
        "caller", "keyword", "nearest golden query" or "none".
    """

    topic: str | None
    how: str


def topic_by_keyword(text: str, policy: Policy) -> str | None:
    """Give the first topic, in the policy's order, one of whose keywords stands in a text.

    Examples
    --------
    >>> from epibias.index.policy_file import opswiki_policy
    >>> topic_by_keyword("May I split this refund?", opswiki_policy())
    'refunds'
    """
    asked = words(text)
    for name, topic in policy.topics.items():
        for keyword in topic.keywords:
            wanted = words(keyword)
            starts = range(len(asked) - len(wanted) + 1)
            if wanted and any(asked[n : n + len(wanted)] == wanted for n in starts):
                return name
    return None


def place_query(
    text: str | None,
    query_embedding: Float32Array,
    policy: Policy,
    golden: Sequence[GoldenQuery],
    golden_embeddings: Float32Array | None,
) -> Placed:
    """Find the topic of a query that the caller did not place.

    Parameters
    ----------
    text : str or None
    query_embedding : float32 [1, dim]
    policy : Policy
    golden : sequence of GoldenQuery
    golden_embeddings : float32 [n_golden, dim] or None
    """
    if text is not None and (found := topic_by_keyword(text, policy)) is not None:
        return Placed(found, "keyword")
    if golden and golden_embeddings is not None:
        nearest = CosineIndex(np.ascontiguousarray(golden_embeddings)).search(query_embedding, 1)
        if float(nearest.similarities[0, 0]) >= policy.nearest_golden:
            return Placed(golden[int(nearest.indices[0, 0])].topic, "nearest golden query")
    return Placed(None, "none")
