"""Where the index of a stress run is made: once for all passages, and as a view for fewer.

The codes of the first 64 n passages are the first n tiles (quantized_scan.hpp, layout), so a prefix
needs neither time nor memory of its own.
"""

from __future__ import annotations

from pathlib import Path

from epibias import kernels_quantized
from epibias._validate import Float32Array
from epibias.costs.synthetic import ROWS_MULTIPLE
from epibias.errors import InputError
from epibias.experiment.listener import Listener
from epibias.retrieval import CosineIndex, prepared, scans

_HEADERS = 1 << 20  # of the files of an index, and what the disk rounds up


def make_index(
    embeddings: Float32Array, folder: Path, scan: str, listener: Listener
) -> CosineIndex:
    """Prepare the index of all passages in files of `folder`, or map what is there whole."""
    if (folder / prepared.MANIFEST).exists():
        try:
            return CosineIndex.load(folder, embeddings)
        except InputError:  # damaged, and ours: made anew
            listener.say(f"{folder} holds no whole index of these passages: it is made anew")
    listener.start("preparing the index", len(embeddings))
    done = 0

    def progress(so_far: int, _: int) -> None:
        nonlocal done
        listener.advance(so_far - done)
        done = so_far

    return CosineIndex.prepare(embeddings, folder, scan, progress)


def prefix_of(index: CosineIndex, n_passages: int) -> CosineIndex:
    """View the index of the first passages: the same files, nothing is computed.

    Raises
    ------
    InputError
        A number that is no multiple of 64 (all passages may be any number).
    """
    if n_passages == index.n_passages:
        return index
    if n_passages % ROWS_MULTIPLE or not 0 < n_passages < index.n_passages:
        expected = f"multiples of {ROWS_MULTIPLE} up to {index.n_passages}"
        raise InputError("points", expected, str(n_passages))
    whole = index._parts
    codes = {
        bits: codes[: kernels_quantized.codes_size(n_passages, index.dim, bits)]
        for bits, codes in whole.codes.items()
    }
    parts = prepared.Prepared(whole.inverse_norms[:n_passages], codes, whole.folder)
    part = CosineIndex.__new__(CosineIndex)
    part._set(index.embeddings[:n_passages], index._wanted_scan, parts)
    return part


def index_bytes(n_passages: int, dim: int, scan: str) -> int:
    """Bytes that norms and codes of an index take on disk, at most.

    Examples
    --------
    >>> index_bytes(1_000_000, 384, "auto") / 1e6 < 602
    True
    """
    kept = scans.kept_codes(scan, n_passages, dim, mapped=False)
    codes = sum(kernels_quantized.codes_size(n_passages, dim, bits) for bits in kept)
    return 8 * n_passages + codes + _HEADERS
