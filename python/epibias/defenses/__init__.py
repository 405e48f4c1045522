"""Defences: one class each, one method, `select(pool) -> Selection`."""

from epibias.defenses.base import Defense
from epibias.defenses.biasdef import BiasDef
from epibias.defenses.brra import BRRA
from epibias.defenses.chain import Chain
from epibias.defenses.fact_check import FactCheckFilter
from epibias.defenses.facts import FactReference
from epibias.defenses.grada import GRADA
from epibias.defenses.known_answer import KnownAnswerDetection
from epibias.defenses.mmr import MMR
from epibias.defenses.none import NoDefense
from epibias.defenses.ragdefender import RAGDefender
from epibias.defenses.registry import build_defense
from epibias.defenses.smart import SMART
from epibias.defenses.tilt_bound import TiltBound
from epibias.defenses.trustrag import TrustRAGClusters

__all__ = [
    "BRRA",
    "GRADA",
    "MMR",
    "SMART",
    "BiasDef",
    "Chain",
    "Defense",
    "FactCheckFilter",
    "FactReference",
    "KnownAnswerDetection",
    "NoDefense",
    "RAGDefender",
    "TiltBound",
    "TrustRAGClusters",
    "build_defense",
]
