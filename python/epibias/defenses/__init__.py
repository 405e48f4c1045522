"""Defences: one class each, one method, `select(pool) -> Selection`.

BiasDef, TiltBound, MMR and no defence come with `import epibias`; the baselines, which bring the
protocols of language and NLI models with them, are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from epibias.defenses.base import Defense
from epibias.defenses.biasdef import BiasDef
from epibias.defenses.chain import Chain
from epibias.defenses.mmr import MMR
from epibias.defenses.none import NoDefense
from epibias.defenses.tilt_bound import TiltBound

if TYPE_CHECKING:
    from epibias.defenses.brra import BRRA
    from epibias.defenses.fact_check import FactCheckFilter
    from epibias.defenses.grada import GRADA
    from epibias.defenses.known_answer import KnownAnswerDetection
    from epibias.defenses.ragdefender import RAGDefender
    from epibias.defenses.registry import build_defense
    from epibias.defenses.smart import SMART
    from epibias.defenses.trustrag import TrustRAGClusters
    from epibias.nli.fact_reference import FactReference

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

_MODULES = {
    "BRRA": "brra",
    "FactCheckFilter": "fact_check",
    "FactReference": "fact_check",  # it filters by one
    "GRADA": "grada",
    "KnownAnswerDetection": "known_answer",
    "RAGDefender": "ragdefender",
    "SMART": "smart",
    "TrustRAGClusters": "trustrag",
    "build_defense": "registry",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
