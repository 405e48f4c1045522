"""Many texts through any encoder, block by block, with progress and one word on truncation."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from epibias._validate import Float32Array
from epibias.encoder.sentence_transformer import Encoder
from epibias.errors import TruncationWarning

BATCH = 32  # texts between two reports of progress
# Tokenizers change their own state while they read, and `catch_warnings` that of the process:
# threads take turns. A model uses all cores for one block anyway.
_ONE_THREAD = threading.RLock()


def encode_in_batches(
    encoder: Encoder,
    texts: Sequence[str],
    role: str,
    progress: Callable[[int], None] | None = None,
) -> Float32Array:
    """Encode texts block by block, float32 `[n_texts, dim]`, reporting each block.

    Threads that call it take turns, so an encoder need not be safe for several at once.

    Parameters
    ----------
    encoder : Encoder
        Its `encode_queries` or `encode_passages` is used where it has them, else `encode`.
    texts : sequence of str
        What to encode; at least one.
    role : {"queries", "passages"}
        Which prompt they get.
    progress : callable, optional
        Called with the number of texts done since the last call.

    Warns
    -----
    TruncationWarning
        Once, with the number of texts that are longer than the encoder reads.

    Examples
    --------
    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[len(text)] for text in texts], np.float32)
    >>> encode_in_batches(Lengths(), ["a", "bb"], "passages").tolist()
    [[1.0], [2.0]]
    """
    encode = getattr(encoder, f"encode_{role}", encoder.encode)
    blocks = []
    with _ONE_THREAD:
        before = getattr(encoder, "n_truncated", 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)  # one a block; said once below
            for start in range(0, len(texts), BATCH):
                block = list(texts[start : start + BATCH])
                blocks.append(encode(block))
                if progress is not None:
                    progress(len(block))
        n_truncated = getattr(encoder, "n_truncated", 0) - before
        if n_truncated:
            message = (
                f"{n_truncated} of {len(texts)} {role} are longer than the encoder reads; what "
                "lies beyond does not count"
            )
            warnings.warn(message, TruncationWarning, stacklevel=2)
    return np.ascontiguousarray(np.concatenate(blocks))
