"""Evidence for claims: the most similar texts of a reference that are not the claim's own.

Owns which texts of an index may speak for a claim; `fact_reference` searches through it. In: an
index, who owns each text, rows of claims. Out: rows of the index with their similarities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from epibias._validate import Float32Array
from epibias.retrieval import CosineIndex


def nearest_of_others(
    index: CosineIndex,
    owners: Sequence[Set[str]],
    claims: Float32Array,
    own: Sequence[str | None],
    n: int,
) -> list[list[tuple[int, float]]]:
    """Find the texts nearest to each claim, without those that stand in its own passage alone.

    Parameters
    ----------
    index : CosineIndex
        Of the reference's texts.
    owners : sequence of set of str
        The passages that each text stands in.
    claims : float32 [n_claims, dim]
        At least one.
    own : sequence of str or None
        The passage of each claim; None where the reference does not have it.
    n : int
        At most so many texts a claim.

    Returns
    -------
    list of list of (int, float)
        Row of the index and cosine, the most similar first.

    Examples
    --------
    >>> import numpy as np
    >>> index = CosineIndex(np.array([[1, 0], [4, 1], [0, 1]], np.float32))
    >>> owners = [{"a"}, {"a", "b"}, {"c"}]  # the second text stands in two passages
    >>> claims = np.array([[1, 0], [1, 0]], np.float32)
    >>> found = nearest_of_others(index, owners, claims, ["a", None], n=2)
    >>> [[row for row, _ in some] for some in found]
    [[1, 2], [0, 1]]
    """
    alone = Counter(next(iter(one)) for one in owners if len(one) == 1)
    # As many more as a claim's own passage could take up.
    most = max((alone[one] for one in own if one is not None), default=0)
    found = index.search(claims, k=min(n + most, len(owners)))
    rows_of_claims = zip(found.indices.tolist(), found.similarities.tolist(), own, strict=True)
    return [
        [
            (row, similarity)
            for row, similarity in zip(rows, similarities, strict=True)
            if owners[row] != {passage}
        ][:n]
        for rows, similarities, passage in rows_of_claims
    ]
