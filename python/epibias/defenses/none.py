"""No defence: the passages of highest similarity, what an undefended retriever returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from epibias import _validate
from epibias.pool import CandidatePool
from epibias.selection import Selection


@dataclass(frozen=True)
class NoDefense:
    """Select the `k` candidates of highest similarity.

    Parameters
    ----------
    k : int
        At least 1; the `k` of a pool is not asked.

    Raises
    ------
    InputError
        `k` below 1.

    Examples
    --------
    >>> from epibias.pool import CandidatePool
    >>> from epibias.polarization import PolarizationAxis
    >>> rows = np.array([[1, 0.1], [1, -0.2], [1, 0.5], [0.1, 1]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> NoDefense(k=2).select(CandidatePool.from_vectors(rows[:1], rows, axis))[0]
    array([0, 1])
    """

    k: int = 5

    def __post_init__(self) -> None:
        _validate.integers_of(self, k=1)

    @property
    def name(self) -> str:
        """Always "none"."""
        return "none"

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values.

        Returns
        -------
        dict
        """
        return {"defense": "none", **asdict(self)}

    def select(self, pool: CandidatePool) -> Selection:
        """Select the first `k` candidates of each query.

        Parameters
        ----------
        pool : CandidatePool

        Returns
        -------
        Selection
        """
        positions = [np.arange(min(self.k, size)) for size in pool.sizes.tolist()]
        return Selection.of_queries(pool.candidates_of_queries(), positions, k=self.k)
