"""Measure, attack and defend one-sided retrieval, on an exact C++ core.

Start with `CosineIndex`, `PolarizationAxis`, `CandidatePool` and `BiasDef`; every page of `docs/`
begins with an example.
"""

from epibias.attacks import inject
from epibias.corpus import Corpus, Passage
from epibias.defenses import MMR, BiasDef, Chain, Defense, NoDefense, TiltBound
from epibias.encoder import Encoder, SentenceTransformerEncoder
from epibias.errors import InputError, MissingExtraError, TruncationWarning, ValidityWarning
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.retrieval import Candidates, CosineIndex
from epibias.selection import Selection
from epibias.threshold import ThresholdSweep, threshold_sweep

__all__ = [
    "MMR",
    "BiasDef",
    "CandidatePool",
    "Candidates",
    "Chain",
    "Corpus",
    "CosineIndex",
    "Defense",
    "Encoder",
    "InputError",
    "MissingExtraError",
    "NoDefense",
    "Passage",
    "PolarizationAxis",
    "Selection",
    "SentenceTransformerEncoder",
    "ThresholdSweep",
    "TiltBound",
    "TruncationWarning",
    "ValidityWarning",
    "inject",
    "threshold_sweep",
]
