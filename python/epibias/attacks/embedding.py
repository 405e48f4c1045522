"""What attacks ask of an encoder: rows of unit length, cosines, and its name for provenance.

Owns the float64 arithmetic of a handful of texts. Searches over a corpus go through `CosineIndex`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epibias import _validate, kernels
from epibias._validate import Float32Array, Float64Array
from epibias.corpus import Passage
from epibias.corpus.passages import encoded_text
from epibias.encoder import Encoder, encode_in_batches


def embedded(encoder: Encoder, texts: Sequence[str], role: str, argument: str) -> Float32Array:
    """Embed texts, float32 `[n_texts, dim]`, as queries or passages; every text is checked."""
    for row, text in enumerate(texts):
        _validate.text(argument, text, f"row {row}")
    rows = encode_in_batches(encoder, texts, role)
    return _validate.finite(argument, _validate.array(argument, rows, dtype=np.float32, ndim=2))


def embedded_passages(encoder: Encoder, passages: Sequence[Passage], argument: str) -> Float32Array:
    """Embed passages as an index does, with their titles, float32 `[n_passages, dim]`."""
    texts = [encoded_text(one.title, one.text) for one in passages]
    return embedded(encoder, texts, "passages", argument)


def cosines(rows: Float32Array, others: Float32Array) -> Float64Array:
    """Cosine of every row with every other, float64 `[n_rows, n_others]`, never beyond ±1."""
    values: Float64Array = np.clip(unit(rows) @ unit(others).T, -1.0, 1.0)
    return values


def unit(rows: Float32Array) -> Float64Array:
    """Rows scaled to unit length, float64."""
    norms = kernels.inverse_norms(np.ascontiguousarray(rows), "embeddings")
    scaled: Float64Array = rows.astype(np.float64) * norms[:, None]
    return scaled


def identity_of(one: object) -> dict[str, Any]:
    """Give the identity of an encoder or generator for provenance; its class where it has none."""
    identity = getattr(one, "identity", None)
    return dict(identity) if isinstance(identity, Mapping) else {"name": type(one).__name__}


def digest(texts: Sequence[str]) -> str:
    """Give one SHA-256 over texts and their order."""
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


def normal_form(text: str) -> str:
    """Give a text without what does not make it another: case, blanks, marks at words' ends.

    Examples
    --------
    >>> normal_form("Only  Trams!") == normal_form("only trams")
    True
    """
    return " ".join(word.strip(".,;:!?\"'“”‘’()[]*") for word in text.casefold().split()).strip()
