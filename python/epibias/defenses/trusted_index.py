"""Which passages were in an index while it was trusted, told by a few numbers of each vector.

A passage is known again by eight sums of its unit vector's values with fixed signs, a count sketch:
no text, no name and no time is needed, and no question asked before. In: the vectors of the index;
later candidates' vectors. Out: marks of those that were not there. Vectors have to come from one's
own encoder: who writes them himself can write one with any eight sums. From these no text can be
read, but who guesses a passage, and has the encoder, can confirm the guess. What a vector does not
hold no fingerprint tells: text behind the encoder's length is not known again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from epibias import _validate
from epibias._dispatch import renamed
from epibias._plain import described
from epibias._validate import Float32Array
from epibias.defenses.newcomers import BoolArray
from epibias.errors import InputError
from epibias.kernels_trusted import TrustedTable, fingerprints, mark_untrusted
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex

N_NUMBERS = 8  # of a passage, or as many as its vector has
# Through float16 they move by less than a third of it, by a changed digit, article or final stop by
# more than all of it: tests/test_trusted_index.py.
SAME = 1e-3
_MOST_CELLS = 2048  # a side of the grid


@dataclass(frozen=True, eq=False)
class TrustedIndex:
    """The passages of a trusted index, each by eight numbers (of fewer columns, as many).

    Parameters
    ----------
    dim : int
        Of the vectors.
    numbers : float32 [n_passages, min(8, dim)]
        As `epibias.kernels_trusted.fingerprints` gives them, in any order.

    Raises
    ------
    InputError
        Numbers of another shape, or that are not finite; no passage.

    Examples
    --------
    >>> rows = np.eye(3, dtype=np.float32)
    >>> trusted = TrustedIndex.of(rows[:2])
    >>> len(trusted), trusted == TrustedIndex.of(rows[[1, 0]])
    (2, True)
    """

    dim: int
    numbers: Float32Array = field(compare=False)  # by `__eq__`, below
    table: TrustedTable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.integer("dim", self.dim, low=2)
        numbers = _validate.array("numbers", self.numbers, dtype=np.float32, ndim=2)
        width = min(N_NUMBERS, self.dim)
        if numbers.shape[1] != width or not len(numbers):
            expected = f"shape (n, {width}), n at least 1"
            raise InputError("numbers", expected, str(numbers.shape))
        if not np.isfinite(numbers).all():
            raise InputError("numbers", "finite values", "others")
        table = _table(numbers[np.lexsort(numbers.T[::-1])])
        for array in table[:5]:
            array.flags.writeable = False
        object.__setattr__(self, "numbers", table.fingerprints)
        object.__setattr__(self, "table", table)

    @classmethod
    def of(cls, index: CosineIndex | Float32Array) -> TrustedIndex:
        """Remember the passages of an index.

        Parameters
        ----------
        index : CosineIndex, or float32 [n_passages, dim]
            All that may be retrieved: a candidate that is not among them counts as new.

        Returns
        -------
        TrustedIndex

        Raises
        ------
        InputError
            A row that is 0 or not finite; no passage; vectors of two columns at least.

        Examples
        --------
        >>> len(TrustedIndex.of(CosineIndex(np.eye(3, dtype=np.float32))))
        3
        """
        embeddings = index.embeddings if isinstance(index, CosineIndex) else index
        _validate.array("embeddings", embeddings, dtype=np.float32, ndim=2)
        with renamed(rows="embeddings"):
            numbers = fingerprints(embeddings, _signs(embeddings.shape[1]))
        return cls(embeddings.shape[1], numbers)

    @classmethod
    def of_plain(cls, plain: object) -> TrustedIndex:
        """Make it of what `plain` gave.

        Parameters
        ----------
        plain : mapping

        Returns
        -------
        TrustedIndex

        Raises
        ------
        InputError
            Anything else.

        Examples
        --------
        >>> trusted = TrustedIndex.of(np.eye(3, dtype=np.float32))
        >>> TrustedIndex.of_plain(trusted.plain()) == trusted
        True
        """
        if not isinstance(plain, Mapping) or set(plain) != {"dim", "numbers"}:
            expected = "a TrustedIndex, or its dim and numbers"
            raise InputError("trusted_index", expected, described(plain))
        numbers = plain["numbers"]
        try:
            content = base64.b64decode(numbers, validate=True)
        except (TypeError, ValueError, binascii.Error):
            expected = "base64 of float32 numbers"
            raise InputError("trusted_index.numbers", expected, described(numbers)) from None
        dim = _validate.integer("trusted_index.dim", plain["dim"], low=2)
        width = min(N_NUMBERS, dim)
        if len(content) % (4 * width):
            expected = f"{4 * width} bytes a passage"
            raise InputError("trusted_index.numbers", expected, f"{len(content)} bytes")
        rows = np.frombuffer(content, "<f4").astype(np.float32).reshape(-1, width)
        with renamed(numbers="trusted_index.numbers"):
            return cls(dim, rows)

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, for a file: 43 letters a passage.

        Returns
        -------
        dict
        """
        content = self.numbers.astype("<f4").tobytes()
        return {"dim": self.dim, "numbers": base64.b64encode(content).decode("ascii")}

    def identity(self) -> dict[str, Any]:
        """Tell which index it is, for a manifest, without its numbers.

        Returns
        -------
        dict
        """
        digest = hashlib.sha256(self.numbers.astype("<f4").tobytes()).hexdigest()
        return {"n_passages": len(self), "dim": self.dim, "sha256": digest}

    def newcomers(self, pool: CandidatePool, queries: BoolArray) -> BoolArray:
        """Mark the candidates of these queries that were not in the index.

        A copy of a passage is one of them, unless it stood there as often.

        Parameters
        ----------
        pool : CandidatePool
            Its `embeddings` are read.
        queries : bool [n_queries]

        Returns
        -------
        bool [n_candidates]

        Raises
        ------
        InputError
            Vectors of another dimension, or a zero row.

        Examples
        --------
        >>> from epibias.polarization import PolarizationAxis
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> rows = np.array([[1, 0.1], [1, 0.2], [1, 0.3]], np.float32)
        >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis)
        >>> TrustedIndex.of(rows[:2]).newcomers(pool, np.array([True]))
        array([False, False,  True])
        """
        if pool.embeddings.shape[1] != self.dim:
            expected = f"vectors of {self.dim} columns, as the trusted index has"
            raise InputError("pool.embeddings", expected, str(pool.embeddings.shape[1]))
        if np.count_nonzero(queries) == len(queries):
            return mark_untrusted(self.table, _of_pool(pool.embeddings), pool.offsets)
        some = np.repeat(queries, pool.sizes)
        offsets = np.concatenate([[0], np.cumsum(np.where(queries, pool.sizes, 0))])
        marks = np.zeros(len(some), np.bool_)
        marks[some] = mark_untrusted(self.table, _of_pool(pool.embeddings[some]), offsets)
        return marks

    def __len__(self) -> int:
        return len(self.numbers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TrustedIndex):
            return NotImplemented
        return self.dim == other.dim and np.array_equal(self.numbers, other.numbers)

    def __hash__(self) -> int:
        return hash((self.dim, len(self)))

    def __repr__(self) -> str:
        return f"TrustedIndex({len(self)} passages, dim={self.dim})"


@lru_cache(maxsize=16)
def _signs(dim: int) -> Float32Array:
    """Signs of the columns, the same for every index of this `dim`: files are read for years."""
    bits = hashlib.shake_128(f"epibias trusted index {dim}".encode()).digest((dim + 7) // 8)
    signs = np.where(np.unpackbits(np.frombuffer(bits, np.uint8))[:dim], 1.0, -1.0)
    made: Float32Array = signs.astype(np.float32)
    made.flags.writeable = False
    return made


def _of_pool(embeddings: Float32Array) -> Float32Array:
    try:
        return fingerprints(embeddings, _signs(embeddings.shape[1]))
    except InputError as error:
        raise InputError("pool.embeddings", error.expected, error.got, error.where) from None


def _table(numbers: Float32Array) -> TrustedTable:
    """Order passages by the cells of a grid over the two widest numbers, about one a cell."""
    n_cells = min(max(int(np.sqrt(len(numbers))), 1), _MOST_CELLS)
    columns = np.sort(np.argsort(-np.ptp(numbers, axis=0), kind="stable")[:2])
    wide = numbers[:, columns].astype(np.float64)
    low = wide.min(axis=0)
    step = np.maximum((wide.max(axis=0) - low) / n_cells, 2 * SAME)
    cells = np.clip(np.floor((wide - low) / step), 0, n_cells - 1).astype(np.int64)
    key = cells[:, 0] * n_cells + cells[:, 1]
    order = np.argsort(key, kind="stable")
    starts = np.searchsorted(key[order], np.arange(n_cells * n_cells + 1)).astype(np.int64)
    return TrustedTable(numbers[order], starts, columns, low, step, n_cells, SAME)
