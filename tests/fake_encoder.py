"""A deterministic encoder for tests of everything around encoders: hashed words, no model."""

from __future__ import annotations

import re
import zlib

import numpy as np

DIM = 48
_rows: dict[str, np.ndarray] = {}


def _word_row(word: str) -> np.ndarray:
    if word not in _rows:
        _rows[word] = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIM)
    return _rows[word]


class FakeEncoder:
    """Sums one random row a word: texts that share words are similar."""

    identity = {"name": "fake", "dim": DIM}  # noqa: RUF012 (read only)

    def __init__(self) -> None:
        self.n_encoded = 0

    def encode(self, texts: list[str]) -> np.ndarray:
        self.n_encoded += len(texts)
        rows = [
            np.sum([_word_row(word) for word in re.findall(r"\w+", text.lower())], axis=0)
            for text in texts
        ]
        return np.asarray(rows, dtype=np.float32)


FACTS = {"identity": FakeEncoder.identity, "note": "A fake encoder, for tests only."}
