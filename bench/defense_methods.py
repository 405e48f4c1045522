"""Axes and defences of the evaluation, each made for a question without having seen it.

In: cases, the rows of their texts, and the folds. Out: one axis a question and one defence a
question and method. Anything learnt (pooled axes, the echo threshold) comes from other folds; a
memory is of the question's own index before the attack, which is what it means.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from defense_baselines import OfTrial, brra, nli_methods
from defense_protocol import (
    CHURN,
    CLEAN,
    OLD,
    TRUSTED_UNTIL,
    BenignIndex,
    K,
    Rows,
    Trial,
    trials,
)
from defense_texts import Case
from defense_trials import Axes, pool_of
from epibias.defenses import (
    GRADA,
    MMR,
    BiasDef,
    Defense,
    NoDefense,
    RAGDefender,
    TiltBound,
    TrustRAGClusters,
)
from epibias.defenses.clean_memory import CleanMemory
from epibias.defenses.trusted_index import TrustedIndex
from epibias.errors import ValidityWarning
from epibias.polarization import PolarizationAxis
from epibias.polarization.combined import combined_axis
from epibias.polarization.guided import guided_axis
from epibias.polarization.pooled import PooledStance

FALSE_REMOVAL = 0.05  # of clean questions
LEAST_LABELLED = 4  # passages of a question that the pooled axis learns from
SWEEP = (0.02, 0.1, 0.2, 0.3, 0.5)
PENALTY, SHARED = 1.0, 0.5  # of the pooled axis; chosen on the development half
GUIDES = (0.5, 0.25)  # weights of poles and pooled axis; chosen on Perspectrum's training claims
Of = Callable[[str], Defense | OfTrial]


def pole_axis(case: Case, rows: Rows) -> PolarizationAxis:
    """Axis between the template's statements of both sides."""
    opposing, supporting = case.poles
    both = np.stack([rows[text] for text in (*opposing, *supporting)])
    labels = [-1.0] * len(opposing) + [1.0] * len(supporting)
    return PolarizationAxis.fit(both, labels, "mean_difference")


def labelled(case: Case, rows: Rows) -> tuple[np.ndarray, np.ndarray] | None:
    """Labelled texts of a question, for the axis of another; None where there are too few."""
    signs = {"positive": 1.0, "negative": -1.0}
    pairs = list(zip(case.passages, case.stances, strict=True))
    pairs += zip(case.anchors, case.anchor_stances, strict=True)
    if case.family == "perspectrum":  # people's perspectives: what is injected is as good a label
        pairs += [(text, signs[side]) for side, texts in case.adversarial.items() for text in texts]
    pairs = [(text, stance) for text, stance in pairs if stance and text in rows]
    stances = np.array([stance for _, stance in pairs])
    if len(pairs) < LEAST_LABELLED or not (stances.min() < 0 < stances.max()):
        return None
    return np.stack([rows[text] for text, _ in pairs]), stances


def pooled_from(cases: Sequence[Case], rows: Rows) -> PooledStance:
    """Learn the pooled axis from other questions."""
    known = [(case, labelled(case, rows)) for case in cases if case.question in rows]
    used = [(case, found) for case, found in known if found is not None]
    return PooledStance.fit(
        [found[0] for _, found in used],
        [found[1].tolist() for _, found in used],
        np.stack([rows[case.question] for case, _ in used]),
        shared=SHARED,
        penalty=PENALTY,
    )


def axes_of(case: Case, rows: Rows, pooled: PooledStance) -> dict[str, PolarizationAxis]:
    """Every axis of a question; those that need anchors are missing where it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        poles = pole_axis(case, rows)
        found = {"poles": poles}
        if not case.anchors:
            return {**found, "pooled": pooled.axis(rows[case.question])}
        anchors = np.stack([rows[text] for text in case.anchors])
        labels = case.anchor_stances
        general = pooled.axis(rows[case.question], anchors, labels)
        return {
            "pca": PolarizationAxis.fit(anchors, labels, "pca"),
            "ridge": PolarizationAxis.fit(anchors, labels, "ridge"),
            "poles": combined_axis([poles], anchors, labels, method=None),
            "pooled": general,
            "combined": combined_axis([poles, general], anchors, labels),
            "guided": guided_axis([poles, general], anchors, labels, weights=GUIDES),
        }


def used_axis(found: Mapping[str, PolarizationAxis]) -> PolarizationAxis:
    """Give the axis that TiltBound and the judge use: the guided one, or poles without anchors."""
    return found.get("guided", found["poles"])


def fixed(defense: Defense | OfTrial) -> Of:
    """One defence for every question."""
    return lambda _: defense


def plain_methods(nli_cache: Path | None = None) -> dict[str, Of]:
    """Make what needs no calibration; what asks about pairs of texts where they were judged."""
    asking = {} if nli_cache is None else nli_methods(nli_cache)
    return {
        "none": fixed(NoDefense(K)),
        "mmr": fixed(MMR(K)),
        "biasdef": fixed(BiasDef(K)),
        "biasdef gate .1": fixed(BiasDef(K, gate=0.1)),
        "biasdef auto": fixed(BiasDef(K, side="auto")),
        "biasdef bare": fixed(BiasDef.bare(K)),
        "biasdef printed": fixed(BiasDef.printed(K)),
        "grada": fixed(GRADA(K)),
        "ragdefender": fixed(RAGDefender(K)),
        "trustrag": fixed(TrustRAGClusters(K)),
        "brra": fixed(brra()),
        **{name: fixed(one) for name, one in asking.items()},
    }


def calibrations(
    clean: Sequence[Trial], axes: Axes, groups: Sequence[Sequence[str]], **options: Any
) -> Of:
    """TiltBound for each question, its thresholds from the clean pools of other groups."""
    made: dict[str, Defense] = {}
    options = {"false_removal": FALSE_REMOVAL, "remember": False, **options}
    for group in groups:
        others = [trial for trial in clean if trial.case.name not in group]
        pool = pool_of(others, axes, provenance=False, texts=True)
        defense = TiltBound.calibrated(pool, K, **options)
        made |= dict.fromkeys(group, defense)
    return made.__getitem__


def remembering(of: Of, memory: CleanMemory) -> Of:
    """Add a memory to every question's TiltBound; one object a threshold, so that pools batch."""
    made: dict[int, Defense] = {}

    def with_memory(name: str) -> Defense:
        defense = of(name)
        if id(defense) not in made:
            made[id(defense)] = replace(defense, memory=memory)  # type: ignore[type-var]
        return made[id(defense)]

    return with_memory


def changed(of: Of, **values: Any) -> Of:
    """Set parameters of every question's TiltBound."""
    made: dict[int, Defense] = {}

    def with_values(name: str) -> Defense:
        defense = of(name)
        if id(defense) not in made:
            made[id(defense)] = replace(defense, **values)  # type: ignore[type-var]
        return made[id(defense)]

    return with_values


def memories(
    cases: Sequence[Case], rows: Rows, clean: Sequence[Trial], axes: Axes
) -> dict[str, CleanMemory]:
    """Of the index as it was before the attack, and of its last trusted version (10 % less)."""
    old = [_without_late(trial) for trial in trials(cases, rows, replace(CLEAN, pool=10_000))]
    made = {
        "fresh": CleanMemory.of(pool_of(clean, axes, provenance=False, texts=True), K),
        "stale": CleanMemory.of(pool_of(old, axes, provenance=False, texts=True), K),
    }
    for name, of in (("no candidates", "fresh"), ("stale, no candidates", "stale")):
        records = {key: one._replace(candidates=()) for key, one in made[of].records.items()}
        made[name] = CleanMemory(records, K)
    return made


def _without_late(trial: Trial) -> Trial:
    """Give the clean pool of 20 of the last trusted version."""
    keep = np.flatnonzero(np.array(trial.times) == OLD)[:20]
    return replace(
        trial,
        rows=trial.rows[keep],
        numbers=trial.numbers[keep],
        texts=tuple(trial.texts[i] for i in keep),
        times=tuple(trial.times[i] for i in keep),
        sources=tuple(trial.sources[i] for i in keep),
    )


NO_BOUND = 1e9


def trusted_indexes(cases: Sequence[Case], rows: Rows) -> dict[str, TrustedIndex]:
    """All benign passages before the attack, and those of the last trusted version (10 % less)."""
    index = BenignIndex.of(cases, rows)
    old = np.array(index.times) == OLD
    return {"fresh": TrustedIndex.of(index.rows), "stale": TrustedIndex.of(index.rows[old])}


def tilt_methods(
    base: Of, memory: Mapping[str, CleanMemory], index: Mapping[str, TrustedIndex]
) -> dict[str, tuple[Of, bool]]:
    """TiltBound in its settings, and each part left out; the flag says whether it sees origins."""
    known = remembering(base, memory["fresh"])
    stale = remembering(changed(base, newcomer_share=CHURN), memory["stale"])
    version = changed(base, trusted_until=TRUSTED_UNTIL, newcomer_share=CHURN)
    both = remembering(version, memory["stale"])
    off = {"bound": NO_BOUND}
    silent = {"echo": None, "echo_of_two": None}
    return {
        "tilt_bound": (base, False),
        "tilt_bound memory": (known, False),
        "tilt_bound index": (changed(base, trusted_index=index["fresh"]), False),
        "tilt_bound stale memory": (stale, False),
        "tilt_bound stale index": (
            changed(base, trusted_index=index["stale"], newcomer_share=CHURN),
            False,
        ),
        "tilt_bound version": (version, True),
        "tilt_bound version + memory": (both, True),
        "one echo limit": (changed(base, echo_of_two=None), False),
        "memory, no echo": (changed(known, **silent), False),
        "memory, no bound": (changed(known, **off), False),
        "memory, tells no newcomer": (remembering(base, memory["no candidates"]), False),
        "stale memory, tells no newcomer": (
            remembering(base, memory["stale, no candidates"]),
            False,
        ),
        "memory, repeats .98": (changed(known, repeat=0.98), False),
        "version, no echo": (changed(version, **silent), True),
        "version, no bound": (changed(version, **off), True),
        "version, any newcomer": (changed(version, newcomer_share=1.0), True),
        "version, no source cap": (changed(version, per_source=None), True),
    }
