"""Exact cosine search over a corpus of embeddings.

In: passage embeddings, float32 [n_passages, dim], in memory or memory-mapped, and query
embeddings. Out: `Candidates`, ranked by similarity descending, then index ascending. The index
keeps the array it was given and never copies or changes it.
"""

from __future__ import annotations

import contextlib
import mmap
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epibias import _validate, kernels, kernels_quantized
from epibias._dispatch import renamed
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError

SCANS = ("auto", "float32", "int8")
PLANNED_SCANS = ("int4",)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The `k` passages most similar to each query.

    Attributes
    ----------
    indices : int64 [n_queries, k]
        Rows of the passage embeddings.
    similarities : float32 [n_queries, k]
        Cosine, in [−1, 1].
    diagnostics : dict
        scan: which scan ran; n_rescored: pairs whose similarity was computed in float64 after it;
        with "int8" also n_repeated: queries that were scanned twice (a guess was too high).

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> CosineIndex(passages).search(passages[:1], k=2).indices
    array([[0, 2]])
    """

    indices: Int64Array
    similarities: Float32Array
    diagnostics: dict[str, object] = field(default_factory=dict)


class CosineIndex:
    """A corpus prepared for exact cosine search.

    Similarity is the float32 of the cosine summed in float64 in one fixed order, so the answer is
    the same to the bit for every tile, batch, thread count and SIMD level.

    Parameters
    ----------
    passage_embeddings : float32 [n_passages, dim]
        C-contiguous; a `numpy.memmap` is read where it lies. It must not change while the index
        lives: norms and codes are computed here, once, and no search would notice.
    scan : {"auto", "float32", "int8"}
        Precision of the first pass. The answer is the same, to the bit, with each. "int8" keeps
        codes of about dim + 8 bytes a passage, made here, and is several times faster after that;
        "auto" is "float32" as yet.

    Raises
    ------
    InputError
        Wrong dtype, shape or layout; a zero or non-finite row, named.

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> index = CosineIndex(passages)
    >>> found = index.search(np.array([[2, 0.1]], np.float32), k=2)
    >>> found.indices
    array([[0, 2]])
    """

    def __init__(self, passage_embeddings: Float32Array, scan: str = "auto") -> None:
        if scan in PLANNED_SCANS:
            expected = f"a scan that is built: {', '.join(SCANS)}"
            raise InputError("scan", expected, f"{scan!r}, not built yet")
        _validate.choice("scan", scan, SCANS)
        # inverse_norms is also the check of every row: what passes can be ranked.
        self._inverse_norms: Float64Array = kernels.inverse_norms(
            passage_embeddings, "passage_embeddings"
        )
        self._embeddings = passage_embeddings
        self._file = _mapped_file(passage_embeddings)
        self._file_size = None if self._file is None else self._file.size()
        self._codes: NDArray[np.uint8] | None = None
        if scan == "int8":
            with renamed(passages="passage_embeddings"):
                self._codes = kernels_quantized.quantize_passages(
                    passage_embeddings, self._inverse_norms
                )

    @property
    def embeddings(self) -> Float32Array:
        """The array given, float32 [n_passages, dim]; not a copy."""
        return self._embeddings

    @property
    def n_passages(self) -> int:
        """Number of passages."""
        return len(self._embeddings)

    @property
    def dim(self) -> int:
        """Columns of an embedding."""
        return int(self._embeddings.shape[1])

    @property
    def scan(self) -> str:
        """Precision of the first pass."""
        return "float32" if self._codes is None else "int8"

    @property
    def diagnostics(self) -> dict[str, object]:
        """Size of the index, its scan, and whether the corpus is memory-mapped."""
        codes_bytes = 0 if self._codes is None else self._codes.nbytes
        return {
            "n_passages": self.n_passages,
            "dim": self.dim,
            "scan": self.scan,
            "memory_mapped": isinstance(self._embeddings, np.memmap),
            "bytes_beside_the_embeddings": self._inverse_norms.nbytes + codes_bytes,
        }

    def __len__(self) -> int:
        return self.n_passages

    def __repr__(self) -> str:
        return f"CosineIndex(n_passages={self.n_passages}, dim={self.dim}, scan={self.scan!r})"

    def search(
        self, query_embeddings: Float32Array, k: int = 20, *, allow_fewer: bool = False
    ) -> Candidates:
        """Return the `k` most similar passages of each query.

        Parameters
        ----------
        query_embeddings : float32 [n_queries, dim]
        k : int
            How many, at least 1; more than there are passages is an error. An empty corpus gives
            empty rows.
        allow_fewer : bool
            Return all `n_passages` instead of that error: fewer columns, never padding.

        Returns
        -------
        Candidates
            indices and similarities of shape [n_queries, min(k, n_passages)].

        Raises
        ------
        InputError
            Wrong dtype, shape, layout or `k`; a zero or non-finite query; a memory-mapped file
            that has become shorter since the index was made.

        Examples
        --------
        >>> passages = np.eye(3, dtype=np.float32)
        >>> CosineIndex(passages).search(passages[2:], k=9, allow_fewer=True).indices
        array([[2, 0, 1]])
        """
        _validate.array("query_embeddings", query_embeddings, dtype=np.float32, ndim=2)
        if query_embeddings.shape[1] != self.dim:
            found = f"shape {query_embeddings.shape}"
            raise InputError(
                "query_embeddings", f"{self.dim} columns, as many as the passages", found
            )
        k = _validate.integer("k", k, low=1)
        allow_fewer = _validate.flag("allow_fewer", allow_fewer)
        if k > self.n_passages:
            if self.n_passages > 0 and not allow_fewer:
                expected = (
                    f"at most {self.n_passages} (the number of passages), or allow_fewer=True"
                )
                raise InputError("k", expected, str(k))
            k = self.n_passages
        self._check_file()
        diagnostics: dict[str, object] = {"scan": self.scan}
        with renamed(queries="query_embeddings", passages="passage_embeddings"):
            if self._codes is None:
                indices, similarities, diagnostics["n_rescored"] = kernels.cosine_topk(
                    query_embeddings, self._embeddings, k, inverse_norms=self._inverse_norms
                )
            else:
                indices, similarities, diagnostics["n_rescored"], diagnostics["n_repeated"] = (
                    kernels_quantized.quantized_scan(
                        query_embeddings, self._embeddings, k, self._inverse_norms, self._codes
                    )
                )
        _validate.sealed(indices, similarities)
        return Candidates(indices, similarities, diagnostics)

    def _check_file(self) -> None:
        """Refuse a mapped file that was cut off: to read beyond its end kills the process."""
        if self._file is not None and self._file_size is not None:
            size = self._file.size()
            if size < self._file_size:
                expected = f"a file of {self._file_size} bytes, as when the index was made"
                raise InputError("passage_embeddings", expected, f"{size} bytes")


def _mapped_file(array: object) -> mmap.mmap | None:
    """Give the file that an array, or what it is a view of, is mapped from."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    if array is not None:
        with contextlib.suppress(OSError, ValueError):  # a map that knows no file
            array.size()
            return array
    return None
