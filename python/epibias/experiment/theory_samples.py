"""Finite samples in the setting of the theorems, with the thresholds that the real sweep finds.

Owns the draws, the three rules that are compared, and how an error's decay with n is measured. The
errors are those of the population at the threshold of the sample: FDR(t̂) and FOR(t̂) of the
theorems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epibias._validate import Float64Array, Int64Array
from epibias.experiment.theory_population import Scores, Similarities, maximizer
from epibias.metrics.intervals import interval_of
from epibias.threshold import threshold_sweep

RESAMPLES = 500  # of a slope
# Name of a rule, what it is, and the options of the sweep. The kernel width is 1.06·sd·n^(−1/5) in
# all of them, as Theorem 2 has it. A floor of 0.01 points vanishes as n grows; one that is 0 would
# make the divergence infinite.
RULES = {
    "all thresholds": "argmax over every split, floor of 0.01 points: as the theorem states it",
    "with slack": "at least 5 % of the points on a side, floor of 0.01 points",
    "default": "at least 5 % on a side, floor of 2.5 % of the points: BiasDef's sweep",
}


@dataclass(frozen=True, eq=False)
class Case:
    """A setting to draw from.

    Attributes
    ----------
    name : str
    similarities : Similarities
    scores : Scores
    w2 : float
        Probability of an adversarial passage.
    best : float
        x′, where L is largest in population.
    """

    name: str
    similarities: Similarities
    scores: Scores
    w2: float
    best: float


def case(name: str, similarities: Similarities, scores: Scores, w2: float) -> Case:
    """Make a case; x′ is the touching point, or found by quadrature."""
    if similarities.kind == "uniform":
        return Case(name, similarities, scores, w2, similarities.benign[1])
    return Case(name, similarities, scores, w2, maximizer(similarities, scores, w2)[0])


def options(rule: str, n: int) -> dict[str, float]:
    """Give the options of the sweep of a rule for n points."""
    if rule == "default":
        return {"min_kept": 1, "slack": 0.05}
    return {"min_kept": 1, "slack": 0.05 if rule == "with slack" else 0.0, "kappa": 0.01 / n}


def thresholds(one: Case, rule: str, n: int, repeats: int, seed: int) -> Float64Array:
    """Draw `repeats` samples of n passages; the threshold of each, float64 [repeats].

    The samples of a case and an n are the same for every rule. A sample without any split (none of
    the cases draws one from 20 points on) would count as a threshold of 1.
    """
    generator = np.random.default_rng([seed, n])
    found = []
    at_once = max(1, 1_000_000 // n)
    for start in range(0, repeats, at_once):
        shape = (min(at_once, repeats - start), n)
        is_adversarial = generator.random(shape) < one.w2
        x = one.similarities.draw(is_adversarial, generator).astype(np.float32)
        y = one.scores.draw(is_adversarial, generator).astype(np.float32)
        cut = threshold_sweep(x, y, precision="float32", **options(rule, n))  # type: ignore[arg-type]
        found.append(np.minimum(cut.threshold.astype(np.float64), 1.0))
    return np.concatenate(found)


def errors_at(one: Case, at: Float64Array) -> tuple[Float64Array, Float64Array]:
    """FDR and FOR in population at thresholds (equation 11); 0 where a side is empty."""
    below, above = one.similarities.below(at), one.similarities.above(at)
    w1 = 1 - one.w2
    kept, dropped = w1 * below[0] + one.w2 * below[1], w1 * above[0] + one.w2 * above[1]
    fdr = np.divide(one.w2 * below[1], kept, out=np.zeros_like(kept), where=kept > 0)
    omission = np.divide(w1 * above[0], dropped, out=np.zeros_like(kept), where=dropped > 0)
    return fdr, omission


def decay(
    sizes: Sequence[int], values: Sequence[Float64Array], quantile: float, seed: int = 0
) -> dict[str, Any]:
    """Slope of log quantile against log n, with a 95 % bootstrap interval over the repeats.

    Parameters
    ----------
    sizes : sequence of int
        At least two.
    values : sequence of float64 [repeats]
        Positive errors at each size.
    quantile : float
        Which quantile of the errors.

    Returns
    -------
    dict
        `slope`, `low`, `high`.

    Examples
    --------
    >>> n = [100, 400, 1600]
    >>> found = decay(n, [np.full(10, size**-0.5) for size in n], 0.5)
    >>> round(found["slope"], 6), round(found["high"], 6)
    (-0.5, -0.5)
    """
    logs = np.log(np.asarray(sizes, np.float64))
    centred = logs - logs.mean()

    def slope(rows: Sequence[Float64Array]) -> Float64Array:
        quantiles = np.stack([np.quantile(row, quantile, axis=-1) for row in rows], axis=-1)
        found: Float64Array = np.log(np.maximum(quantiles, 1e-12)) @ centred / (centred @ centred)
        return found

    def of_resamples(*drawn: Int64Array) -> Float64Array:
        return slope([row[part] for row, part in zip(values, drawn, strict=True)])

    value = float(slope(values))
    found = interval_of(
        value, of_resamples, [len(row) for row in values], n_resamples=RESAMPLES, seed=seed
    )
    return {"slope": value, "low": found.low, "high": found.high}
