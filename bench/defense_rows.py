"""Rows of every text: from the encoder's cache, else from one of rows that were made in batches.

    python bench/defense_rows.py --external DIR --encoder FOLDER

On a CPU the encoder reads each text alone, so that a row's bits depend on nothing else. In batches
of exactly equal length it takes a third of the time (mpnet, one thread: 31 ms of CPU a perspective
instead of 87), and a row differs from the other by at most 1e-7. Where time is short, this command
fills a cache with an identity of its own; the encoder's cache never sees such a row, and the
results file counts how many were used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from defense_texts import Case, debates, perspectrum
from epibias import SentenceTransformerEncoder
from epibias.encoder.cache import EmbeddingCache

BATCH = 16
AT_A_TIME = 256  # texts between two writes

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--external", type=Path, required=True, help="folder of the public data")
parser.add_argument("--encoder", required=True, help="package or folder")
parser.add_argument("--claims", type=int, default=60, help="of Perspectrum's training split")


def encoded(
    encoder: SentenceTransformerEncoder, cases: Sequence[Case], *, only_cached: bool
) -> tuple[dict[str, np.ndarray], int]:
    """Give unit rows of every text, and how many of them were made in batches."""
    texts = in_order(text for case in cases for text in case.texts())
    batched = _known(batched_cache(encoder), texts)
    own = _known(encoder._cache(""), texts)
    rows = {**batched, **own}
    if not only_cached:
        missing = [text for text in texts if text not in rows]
        rows |= zip(missing, encoder.encode(missing), strict=True) if missing else ()
    return {text: _unit(row) for text, row in rows.items()}, len(batched.keys() - own.keys())


def batched_cache(encoder: SentenceTransformerEncoder) -> EmbeddingCache:
    """Open the cache of rows made in batches."""
    identity = {**encoder._identity_without_prompts(), "prompt": "", "batch": BATCH}
    return EmbeddingCache(None, identity, encoder.dim)


def fill(encoder: SentenceTransformerEncoder, texts: Iterable[str]) -> int:
    """Encode in batches what neither cache has; a killed run loses `AT_A_TIME` texts."""
    cache, texts = batched_cache(encoder), in_order(texts)
    known = _known(cache, texts).keys() | _known(encoder._cache(""), texts).keys()
    missing = [text for text in texts if text not in known]
    for start in range(0, len(missing), AT_A_TIME):
        some = missing[start : start + AT_A_TIME]
        short, truncated = encoder._model.shorten(some, "")
        cache.put(cache.keys_of(some), encoder._model._equal_lengths(short, "", BATCH), truncated)
    return len(missing)


def in_order(texts: Iterable[str]) -> list[str]:
    """Give each text once, the short ones first."""
    return sorted(set(texts), key=lambda text: (len(text), text))


def _known(cache: EmbeddingCache | None, texts: Sequence[str]) -> dict[str, np.ndarray]:
    if cache is None:
        return {}
    found = cache.get(cache.keys_of(texts))
    return {texts[i]: row for i, row in zip(found.positions, found.embeddings, strict=True)}


def _unit(row: np.ndarray) -> np.ndarray:
    wide = row.astype(np.float64)
    return (wide / np.sqrt(wide @ wide)).astype(np.float32)


def main() -> int:
    """Fill the cache, the most needed texts first."""
    options = parser.parse_args()
    encoder = SentenceTransformerEncoder(options.encoder, progress=False)
    folder = options.external / "perspectrum_dev"
    train, reported = perspectrum(folder, "train"), perspectrum(folder, "dev")
    shipped = debates()
    parts = {
        "reported claims": [text for case in reported for text in case.plain_texts()],
        "training claims": [t for case in train[: options.claims] for t in case.plain_texts()],
        "debates": [text for case in shipped for text in case.plain_texts()],
        "other forms": [text for case in (*shipped, *reported) for text in case.texts()],
    }
    for name, texts in parts.items():
        print(name, fill(encoder, texts), "encoded", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
