"""Exact cosine search over a corpus of embeddings.

In: passage embeddings, float32 [n_passages, dim], in memory or memory-mapped, and query
embeddings. Out: `Candidates`, ranked by similarity descending, then index ascending. The index
keeps the array it was given and never copies or changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from epibias import _validate, kernels, kernels_quantized
from epibias._dispatch import renamed
from epibias._frameworks import is_on_device
from epibias._validate import Float32Array, Int64Array
from epibias.errors import InputError
from epibias.retrieval import on_device, prepared, scans
from epibias.retrieval.mapped import mapped_file


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
        scan: which scan ran, "float32", "int8", "int4", "principal" or "int8_once"; n_rescored:
        pairs whose similarity was computed in float64 after it; n_repeated: queries that were
        scanned twice (a guess was too high, or the codes left too many passages).

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
        lives: norms and codes are computed here, once, and no search would notice. Of a torch CUDA
        tensor or a cupy array everything stays on its device, queries and candidates too.
    scan : {"auto", "float32", "int8", "int4", "principal"}
        Precision of the first pass. The answer is the same, to the bit, with each. "int8" keeps
        codes of about dim + 8 bytes a passage, made here, and is several times faster after that;
        "int4" keeps dim / 2 + 8 more, and reads those first; "principal" keeps codes along the
        principal axes of the corpus beside those of "int8", and reads the leading ones first.
        "auto" keeps the last, or 4 bits where no few axes tell most, if the corpus is large and in
        memory, and takes for each search what is fastest for its size (`diagnostics` of the
        candidates say which); of a file it keeps none: see `prepare`. On a
        device there are neither "int4" nor "principal".

    Raises
    ------
    InputError
        Wrong dtype, shape or layout; a zero or non-finite row, named; more than 65,536 columns
        for codes, 2,048 for "principal".

    Examples
    --------
    >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    >>> index = CosineIndex(passages)
    >>> found = index.search(np.array([[2, 0.1]], np.float32), k=2)
    >>> found.indices
    array([[0, 2]])
    """

    def __init__(self, passage_embeddings: Float32Array, scan: str = "auto") -> None:
        if is_on_device(passage_embeddings):
            self._set(passage_embeddings, scan, on_device.prepare(passage_embeddings, scan))
            return
        mapped = mapped_file(passage_embeddings) is not None
        kept = _codes_to_keep(passage_embeddings, scan, mapped=mapped)
        self._set(passage_embeddings, scan, prepared.in_memory(passage_embeddings, *kept))

    def _set(
        self,
        embeddings: Float32Array,
        scan: str,
        parts: prepared.Prepared | on_device.PreparedOnDevice,
    ) -> None:
        self._embeddings = embeddings
        self._wanted_scan = scan
        self._parts = parts
        # Queries through 4 bits or principal axes, and those they did not decide. Threads may lose
        # a count: it only advises which scan to take.
        self._searched = self._repeated = 0
        arrays: list[tuple[str, object]] = [("passage_embeddings", embeddings)]
        if isinstance(parts, prepared.Prepared):
            arrays += [("folder", part) for part in parts.arrays().values()]
        maps = ((name, mapped_file(array)) for name, array in arrays)
        self._files = [(name, file, file.size()) for name, file in maps if file is not None]

    @classmethod
    def prepare(
        cls,
        passage_embeddings: Float32Array,
        folder: Path | str,
        scan: str = "auto",
        progress: Callable[[int, int], None] | None = None,
    ) -> CosineIndex:
        """Make an index whose codes lie in files, for corpora larger than memory.

        Embeddings are read once, some 64 MiB at a time.

        Parameters
        ----------
        passage_embeddings : float32 [n_passages, dim]
            As in `CosineIndex`; usually a `numpy.memmap`.
        folder : path
            Made if it is not there, mode 0700; an index that lies in it is replaced.
        scan : {"auto", "float32", "int8", "int4", "principal"}
            As in `CosineIndex`; "auto" keeps codes of a large corpus, mapped or not.
        progress : callable, optional
            Called with the passages done so far and their number.

        Returns
        -------
        CosineIndex
            Its codes are memory-mapped.

        Raises
        ------
        InputError
            As in `CosineIndex`; or no space left.

        Examples
        --------
        >>> import tempfile
        >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     index = CosineIndex.prepare(passages, folder, scan="int8")
        ...     index.search(passages[:1], k=2).indices
        array([[0, 2]])
        """
        kept = _codes_to_keep(passage_embeddings, scan, mapped=False)
        with renamed(passages="passage_embeddings"):
            prepared.write(passage_embeddings, folder, *kept, progress=progress)
        return cls.load(folder, passage_embeddings)

    @classmethod
    def load(
        cls, folder: Path | str, passage_embeddings: Float32Array, *, verify: bool = False
    ) -> CosineIndex:
        """Map an index that `prepare` or `save` wrote.

        Parameters
        ----------
        folder : path
        passage_embeddings : float32 [n_passages, dim]
            Those of which it was made: up to 1,024 rows are compared, the others are trusted.
        verify : bool
            Read all norms and codes, and compare them with the hashes of when they were written.
            Without it they are trusted: a damaged file gives wrong answers.

        Returns
        -------
        CosineIndex
            With scan "auto".

        Raises
        ------
        InputError
            No finished index in the folder, parts of another size or content, other embeddings.

        Examples
        --------
        >>> import tempfile
        >>> passages = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CosineIndex(passages, scan="int4").save(folder)
        ...     CosineIndex.load(folder, passages)
        CosineIndex(n_passages=3, dim=2, scan='int4')
        """
        _validate.array("passage_embeddings", passage_embeddings, dtype=np.float32, ndim=2)
        verify = _validate.flag("verify", verify)
        parts = prepared.load(folder, passage_embeddings, verify=verify)
        index = cls.__new__(cls)
        index._set(passage_embeddings, "auto", parts)
        return index

    def save(self, folder: Path | str) -> None:
        """Write norms and codes to a folder, to be mapped by `load`; the embeddings are not copied.

        Codes can be turned back into text as embeddings can: files get mode 0600, the folder 0700.

        Parameters
        ----------
        folder : path
            Made if it is not there; an index that lies in it is replaced.

        Raises
        ------
        InputError
            The folder cannot be written, or has too little space.
        """
        if isinstance(self._parts, on_device.PreparedOnDevice):
            raise on_device.refusal("save", "files are the CPU's", self._embeddings)
        prepared.save(self._parts, self._embeddings, folder)

    def prefix(self, n_passages: int) -> CosineIndex:
        """Index of the first passages: a view of the same arrays or files, nothing is computed.

        Parameters
        ----------
        n_passages : int
            All, or a multiple of 64 (passages that share a block of codes).

        Returns
        -------
        CosineIndex

        Raises
        ------
        InputError
            Another number.

        Examples
        --------
        >>> index = CosineIndex(np.eye(100, dtype=np.float32), scan="int8")
        >>> len(index.prefix(64))
        64
        """
        n_passages = _validate.integer("n_passages", n_passages, low=0, high=self.n_passages)
        if n_passages % prepared.TILE and n_passages != self.n_passages:
            expected = f"a multiple of {prepared.TILE}, or {self.n_passages} (all)"
            raise InputError("n_passages", expected, str(n_passages))
        part, rows = CosineIndex.__new__(CosineIndex), self._embeddings[:n_passages]
        if isinstance(self._parts, on_device.PreparedOnDevice):
            part._set(rows, self._wanted_scan, self._parts.prefix(n_passages))
        else:
            parts = prepared.prefix(self._parts, n_passages, self.dim)
            part._set(rows, self._wanted_scan, parts)
        return part

    @property
    def embeddings(self) -> Float32Array:
        """The array given, float32 [n_passages, dim]; not a copy."""
        return self._embeddings

    @property
    def n_passages(self) -> int:
        """Number of passages."""
        return int(self._embeddings.shape[0])

    @property
    def dim(self) -> int:
        """Columns of an embedding."""
        return int(self._embeddings.shape[1])

    @property
    def scan(self) -> str:
        """Narrowest scan that the index can go through; a search may choose another."""
        if self._parts.principal is not None:
            return "principal"
        return f"int{min(self._parts.codes)}" if self._parts.codes else "float32"

    @property
    def diagnostics(self) -> dict[str, object]:
        """Size of the index, its scan, and whether the corpus is memory-mapped."""
        return {
            "n_passages": self.n_passages,
            "dim": self.dim,
            "scan": self.scan,
            "memory_mapped": isinstance(self._embeddings, np.memmap),
            "bytes_beside_the_embeddings": self._parts.nbytes,
            "folder": self._parts.folder,
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
        if isinstance(self._parts, on_device.PreparedOnDevice):
            on_device.check_queries(query_embeddings, self._embeddings)
        else:
            _validate.array("query_embeddings", query_embeddings, dtype=np.float32, ndim=2)
        if query_embeddings.shape[1] != self.dim:
            expected = f"{self.dim} columns, as many as the passages"
            raise InputError("query_embeddings", expected, f"shape {query_embeddings.shape}")
        k = _validate.integer("k", k, low=1)
        allow_fewer = _validate.flag("allow_fewer", allow_fewer)
        if k > self.n_passages:
            if self.n_passages > 0 and not allow_fewer:
                expected = (
                    f"at most {self.n_passages} (the number of passages), or allow_fewer=True"
                )
                raise InputError("k", expected, str(k))
            k = self.n_passages
        self._check_files()
        with renamed(queries="query_embeddings", passages="passage_embeddings"):
            if isinstance(self._parts, on_device.PreparedOnDevice):
                found = on_device.search(query_embeddings, self._embeddings, k, self._parts)
                return Candidates(*found)
            candidates = self._search(query_embeddings, k, self._parts)
        _validate.sealed(candidates.indices, candidates.similarities)
        return candidates

    def _search(self, queries: Float32Array, k: int, parts: prepared.Prepared) -> Candidates:
        norms, codes, principal = parts.inverse_norms, parts.codes, parts.principal
        scan = scans.for_search(
            self._wanted_scan,
            codes,
            len(queries),
            k,
            # A quarter may go wrong before it costs more than it saves; a few prove nothing.
            hopeless=4 * self._repeated > self._searched + 16,
            portable=kernels.simd_level() == "scalar",
            principal=principal is not None,
        )
        if scan == "float32":
            indices, similarities, n_rescored = kernels.cosine_topk(
                queries, self._embeddings, k, inverse_norms=norms
            )
            n_repeated = 0
        elif scan == scans.ONCE:
            indices, similarities, n_rescored, n_repeated = kernels_quantized.quantized_scan_once(
                queries, self._embeddings, k, norms
            )
        else:
            four_bits = codes[4] if scan == "int4" else None
            along = principal if scan == "principal" else None
            indices, similarities, n_rescored, n_repeated = kernels_quantized.quantized_scan(
                queries, self._embeddings, k, norms, codes[8], four_bits, along
            )
        if scan in ("int4", "principal"):
            self._searched += len(queries)
            self._repeated += n_repeated
        diagnostics = {"scan": scan, "n_rescored": n_rescored, "n_repeated": n_repeated}
        return Candidates(indices, similarities, diagnostics)

    def _check_files(self) -> None:
        """Refuse a mapped file that was cut off: to read beyond its end kills the process."""
        for name, file, expected_size in self._files:
            size = file.size()
            if size < expected_size:
                expected = f"a file of {expected_size} bytes, as when the index was made"
                raise InputError(name, expected, f"{size} bytes")


def _codes_to_keep(embeddings: Float32Array, scan: str, *, mapped: bool) -> prepared.Kept:
    _validate.choice("scan", scan, scans.SCANS)
    _validate.array("passage_embeddings", embeddings, dtype=np.float32, ndim=2)
    given = scan, *embeddings.shape
    return scans.kept_codes(*given, mapped=mapped), scans.keeps_principal(*given, mapped=mapped)
