"""Where the index of a stress run is made: once, for all passages."""

from __future__ import annotations

from pathlib import Path

from epibias import kernels_quantized
from epibias._validate import Float32Array
from epibias.errors import InputError
from epibias.experiment.listener import Listener
from epibias.retrieval import CosineIndex, prepared, principal, scans

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


def index_bytes(n_passages: int, dim: int, scan: str) -> int:
    """Bytes that norms and codes of an index take on disk, at most.

    Examples
    --------
    >>> index_bytes(1_000_000, 384, "int4") / 1e6 < 602
    True
    """
    kept = scans.kept_codes(scan, n_passages, dim, mapped=False)
    codes = sum(kernels_quantized.codes_size(n_passages, dim, bits) for bits in kept)
    if scans.keeps_principal(scan, n_passages, dim, mapped=False) != "no":
        codes = max(codes, principal.most_bytes(n_passages, dim))
    return 8 * n_passages + codes + _HEADERS
