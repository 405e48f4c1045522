"""What a defence selects: ragged, in order, never padded.

Query i owns the rows `offsets[i]` to `offsets[i + 1]` of the flat arrays. Passages are rows of the
corpus; positions count from 0 within the query's candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias._validate import Int64Array


@dataclass(frozen=True, eq=False)
class Selection:
    """The passages selected for each query, and why the others were not.

    Attributes
    ----------
    indices : int64 [n_selected in all]
        Rows of the corpus, in the order of selection: similarity descending for filters.
    offsets : int64 [n_queries + 1]
        Where each query's rows start.
    positions : int64 [n_selected in all]
        The same passages as positions among the query's candidates.
    dropped : tuple of int64 arrays
        For each query the rows of the corpus that were judged suspicious and not selected.
    kept : tuple of int64 arrays
        For each query the positions, ascending, that a later defence of a `Chain` may choose from.
        A filter keeps all that it did not drop, also beyond its `k`; a defence that only selects
        keeps what it selected.
    diagnostics : dict
        Name to one value a query. Every defence has `n_selected` and `short` (fewer than the `k`
        asked for); BiasDef adds threshold, divergence, p_value, n_kept, side and more.

    Examples
    --------
    >>> chosen = Selection.of_queries([np.array([7, 8, 9])], [np.array([0, 2])], k=2)
    >>> chosen[0], chosen.n_selected
    (array([7, 9]), array([2]))
    """

    indices: Int64Array
    offsets: Int64Array
    positions: Int64Array
    dropped: tuple[Int64Array, ...]
    kept: tuple[Int64Array, ...]
    diagnostics: dict[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of_queries(
        cls,
        candidate_indices: Sequence[Int64Array],
        selected_positions: Sequence[Int64Array],
        *,
        k: int,
        dropped_positions: Sequence[Int64Array] | None = None,
        kept_positions: Sequence[Int64Array] | None = None,
        diagnostics: Mapping[str, NDArray[Any]] | None = None,
    ) -> Selection:
        """Join positions to passages, once, and count.

        Parameters
        ----------
        candidate_indices : sequence of int64 [n_i]
            Rows of the corpus that are each query's candidates.
        selected_positions : sequence of int64 arrays
            Positions among them, in the order of selection.
        k : int
            How many were asked for; a query with fewer is flagged `short`.
        dropped_positions : sequence of int64 arrays, optional
            Positions judged suspicious and not selected: what a filter drops. Absent for a
            defence that only selects.
        kept_positions : sequence of int64 arrays, optional
            Positions that a later defence may choose from. If absent, all but the dropped ones of
            a filter, and the selected ones of a defence that only selects.
        diagnostics : mapping, optional
            More values a query.

        Returns
        -------
        Selection

        Examples
        --------
        >>> chosen = Selection.of_queries([np.array([7, 8])], [np.array([1])], k=2)
        >>> chosen.diagnostics["short"]
        array([ True])
        """
        empty = np.empty(0, np.int64)
        pairs = list(zip(candidate_indices, selected_positions, strict=True))
        sizes = np.array([len(positions) for _, positions in pairs], np.int64)
        if dropped_positions is None:
            dropped = tuple(empty for _ in pairs)
            left = tuple(np.sort(positions) for _, positions in pairs)
        else:
            dropped_pairs = list(zip(candidate_indices, dropped_positions, strict=True))
            dropped = tuple(indices[positions] for indices, positions in dropped_pairs)
            left = tuple(np.setdiff1d(np.arange(len(i)), gone) for i, gone in dropped_pairs)
        if kept_positions is not None:
            left = tuple(np.sort(positions) for positions in kept_positions)
        return cls(
            np.concatenate([empty, *(indices[positions] for indices, positions in pairs)]),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([empty, *(positions for _, positions in pairs)]),
            dropped,
            left,
            {"n_selected": sizes, "short": sizes < k, **(diagnostics or {})},
        )

    @classmethod
    def of_arrays(
        cls,
        indices: Int64Array,
        offsets: Int64Array,
        positions: Int64Array,
        dropped: Int64Array,
        dropped_offsets: Int64Array,
        kept: Int64Array,
        kept_offsets: Int64Array,
        diagnostics: dict[str, NDArray[Any]],
    ) -> Selection:
        """Take all queries' values as flat arrays, as the core gives them.

        `dropped` and `kept` are cut into one array a query when they are first asked for.

        Parameters
        ----------
        indices, offsets, positions
            As the attributes.
        dropped, kept : int64 [n_dropped in all], int64 [n_kept in all]
        dropped_offsets, kept_offsets : int64 [n_queries + 1]
            Where each query's values start.
        diagnostics : dict
            With `n_selected` and `short`.

        Returns
        -------
        Selection

        Examples
        --------
        >>> one, starts = np.array([0]), np.array([0, 1])
        >>> Selection.of_arrays(one, starts, one, one + 7, starts, one, starts, {}).dropped
        (array([7]),)
        """
        chosen = object.__new__(cls)
        chosen.__dict__.update(
            indices=indices,
            offsets=offsets,
            positions=positions,
            diagnostics=diagnostics,
            _flat={"dropped": (dropped, dropped_offsets), "kept": (kept, kept_offsets)},
        )
        return chosen

    if not TYPE_CHECKING:  # a checker would take any name for an attribute

        def __getattr__(self, name: str) -> tuple[Int64Array, ...]:
            """Cut `dropped` or `kept` of `of_arrays` into one array a query, once."""
            flat = self.__dict__.get("_flat", {})
            if name not in flat:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            values, offsets = flat[name]
            arrays = tuple(values[first:last] for first, last in pairwise(offsets.tolist()))
            return self.__dict__.setdefault(name, arrays)

    @property
    def n_selected(self) -> Int64Array:
        """Passages selected for each query, int64 [n_queries]."""
        return np.diff(self.offsets)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return self.n_queries

    def __getitem__(self, query: int) -> Int64Array:
        return self.indices[self._rows(query)]

    def __iter__(self) -> Iterator[Int64Array]:
        return (self[query] for query in range(self.n_queries))

    def positions_of(self, query: int) -> Int64Array:
        """Positions of one query's selected passages among its candidates.

        Parameters
        ----------
        query : int

        Returns
        -------
        int64 [n_selected[query]]

        Raises
        ------
        InputError
            No such query.

        Examples
        --------
        >>> Selection.of_queries([np.array([7, 8])], [np.array([1])], k=1).positions_of(0)
        array([1])
        """
        return self.positions[self._rows(query)]

    def _rows(self, query: int) -> slice:
        query = _validate.row("query", query, self.n_queries)
        return slice(int(self.offsets[query]), int(self.offsets[query + 1]))
