"""From trials to pools, through a defence, to outcomes: the loop of the defence evaluation.

In: trials (`defense_protocol.py`) and one axis a question. Out: one outcome a trial. Everything a
defence may see goes into the pool here; the truth stays outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from defense_baselines import OfTrial
from defense_protocol import K, Outcome, Trial, outcome
from epibias.defenses import Defense
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool

NOT_RUN = Outcome(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan)
Axes = Mapping[str, PolarizationAxis]


def stacked(axes: Sequence[PolarizationAxis]) -> PolarizationAxis:
    """One batch of single axes."""
    return PolarizationAxis(
        axis=np.stack([one.axis for one in axes]),
        method=axes[0].method,
        explained_variance_ratio=np.array([one.explained_variance_ratio for one in axes], float),
        relative_gap=np.array([one.relative_gap for one in axes], float),
        validity=None,
        neutral_centre=np.array([one.neutral_centre for one in axes], float),
        mean_anchor_score=np.zeros(len(axes)),
        normalize=True,
        n_anchors=np.array([one.n_anchors for one in axes]),
    )


def pool_of(trials: Sequence[Trial], axes: Axes, *, provenance: bool, texts: bool) -> CandidatePool:
    """Return the pool that a defence sees, one query a trial."""
    return CandidatePool.from_vectors(
        np.stack([trial.query for trial in trials]),
        [trial.rows for trial in trials],
        stacked([axes[trial.case.name] for trial in trials]),
        k=K,
        indices=[trial.numbers for trial in trials],
        topics=[trial.case.name for trial in trials],
        query_texts=[trial.case.question for trial in trials],
        passage_texts=[trial.texts for trial in trials] if texts else None,
        metadata={
            "source": [trial.sources for trial in trials],
            "time": [trial.times for trial in trials],
        }
        if provenance
        else None,
    )


@dataclass(frozen=True)
class Reference:
    """Of a question's clean index without a defence: what shifts are measured from."""

    score: float
    stance: float
    spread: float


def references(
    clean: Sequence[Trial], axes: Axes, rows: Mapping[str, np.ndarray]
) -> dict[str, Reference]:
    """Mean PS and stance of the clean top k, and the SD of the PS of the question's passages."""
    found = {}
    for trial in clean:
        axis = axes[trial.case.name]
        own = np.stack([rows[text] for text in trial.case.passages])
        spread = axis.score(own).astype(np.float64).std(ddof=1) if len(own) > 1 else np.nan
        stances = trial.stances[:K]
        found[trial.case.name] = Reference(
            float(axis.score(trial.rows[:K]).astype(np.float64).mean()),
            float(np.nanmean(stances)) if np.isfinite(stances).any() else np.nan,
            float(spread),
        )
    return found


def run(
    trials: Sequence[Trial],
    axes: Axes,
    defense_of: Callable[[str], Defense | OfTrial],
    reference: Mapping[str, Reference],
    *,
    provenance: bool = False,
    texts: bool = True,
    seen: Axes | None = None,
) -> list[Outcome]:
    """Outcome of every trial; `defense_of` gives the defence that a question's fold is judged by.

    `axes` judge; the defence sees them too, or those of `seen`. A trial that a defence is not run
    on has an outcome of nothing but nan.
    """
    by_defense: dict[int, tuple[Defense | OfTrial, list[int]]] = {}
    for place, trial in enumerate(trials):
        defense = defense_of(trial.case.name)
        by_defense.setdefault(id(defense), (defense, []))[1].append(place)
    results = [NOT_RUN] * len(trials)

    def select(defense: Defense, places: Sequence[int]) -> None:
        some = [trials[place] for place in places]
        pool = pool_of(some, seen or axes, provenance=provenance, texts=texts)
        chosen = defense.select(pool)
        for row, (place, trial) in enumerate(zip(places, some, strict=True)):
            order = np.argsort(trial.numbers)
            positions = order[np.searchsorted(trial.numbers[order], chosen[row])]
            scores = axes[trial.case.name].score(trial.rows).astype(np.float64)
            one = reference[trial.case.name]
            results[place] = outcome(trial, positions, scores, (one.score, one.stance, one.spread))

    for defense, places in by_defense.values():
        if not isinstance(defense, OfTrial):
            select(defense, places)
            continue
        for place in places:
            own = defense.make(trials[place])
            if own is not None:
                select(own, [place])
    return results


def columns(outcomes: Sequence[Outcome]) -> dict[str, np.ndarray]:
    """Metrics as arrays; both tilts as magnitudes, and whether anything clean was lost."""
    rows: list[dict[str, Any]] = [asdict(one) for one in outcomes]
    found = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
    for name in ("tilt", "stance_tilt"):
        found[name] = np.abs(found[name])
    found["touched"] = np.where(np.isnan(found["kept"]), np.nan, found["kept"] < 1)
    return found
