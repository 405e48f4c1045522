"""Each statement of Theorems 1 to 3, checked: what was computed, and whether it holds.

Owns what counts as holding. In: settings of the run. Out: plain values with every number that a
verdict rests on. How they are worded and drawn is `theory_page`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from epibias.experiment.listener import Listener
from epibias.experiment.theory_population import (
    LEAST_MASS,
    Scores,
    Similarities,
    linear_scores,
    maximizer,
    normal_scores,
    overlapping,
    population,
    touching,
    uniform_scores,
)
from epibias.experiment.theory_samples import RULES, Case, case, decay, errors_at, thresholds

RATE = -0.4  # of Theorem 2: n^(−2/5)
SHARES = (0.05, 0.2, 0.33, 0.5)
MAJORITIES = (0.8, 0.95)
SHIFTS = (1.0, 2.0, 3.0)
DISTANCES = (1.0, 2.0, 3.0, 4.0, 5.0)
QUANTILES = (0.5, 0.95)
TOO_FEW = "too few samples"
LEAST_SIZE, LEAST_REPEATS = 1000, 200  # for a verdict on a rate
EQUAL = 1e-9  # nats, or a share: what quadrature cannot tell apart


def check_theorem_1() -> dict[str, Any]:
    """Disjoint similarities: where L is largest, whether there alone, and the errors there."""
    scores = [normal_scores(shift) for shift in (0.5, *SHIFTS)]
    scores += [normal_scores(1.0, 0.7), normal_scores(1.0, 2.0), linear_scores(0.9)]
    rows = [
        {"similarities": "touching", **_disjoint(touching(), one, w2)}
        for one in scores
        for w2 in (0.05, 0.25, 0.5)
    ]
    gap = {"similarities": "gap of 0.2", **_disjoint(touching(0.5, 0.2), normal_scores(2.0), 0.25)}
    beyond = {
        "similarities": "touching, infinite KL",
        **_disjoint(touching(), uniform_scores(0.2), 0.25),
    }
    every = [*rows, gap, beyond]
    return {
        "cases": every,
        "n_touching": len(rows),
        "largest_at_split": sum(row["largest_at_split"] for row in every),
        "unique_when_touching": sum(row["width"] == 0 for row in rows),
        "zero_error": sum(row["fdr"] == row["omission"] == 0 for row in every),
        "gap": gap,
        "beyond": beyond,
    }


def _disjoint(similarities: Similarities, scores: Scores, w2: float) -> dict[str, Any]:
    split = similarities.benign[1]
    found = population(similarities, scores, w2, np.linspace(0.0, 1.0, 1001))
    at = int(np.argmin(np.abs(found.thresholds - split)))
    largest = found.divergence.max()
    ties = found.thresholds[found.divergence >= largest - EQUAL]
    fdr, omission = errors_at(Case("", similarities, scores, w2, split), np.array([split]))
    return {
        "scores": scores.name,
        "w2": w2,
        "split": split,
        "divergence": _plain(found.divergence[at]),
        "largest_at_split": bool(found.divergence[at] >= largest - EQUAL),
        "width": round(float(ties.max() - ties.min()), 6),
        "fdr": float(fdr[0]),
        "omission": float(omission[0]),
        "worst_fdr_of_ties": _plain(found.fdr[found.divergence >= largest - EQUAL].max()),
    }


def sample_cases() -> list[Case]:
    """Give the settings of the finite samples."""
    bounded = linear_scores(0.9)
    return [
        case("touching", touching(), bounded, 0.25),
        case("overlap", overlapping(4.0), bounded, 0.33),
        case("overlap, normal scores", overlapping(4.0), normal_scores(1.5), 0.25),
    ]


def check_theorem_2(
    sizes: Sequence[int], repeats: Sequence[int], seed: int, listener: Listener
) -> dict[str, Any]:
    """Draw finite samples: the error of the threshold, FDR and FOR by n, rule and setting."""
    cases = sample_cases()
    listener.start("samples", len(cases) * len(RULES) * len(sizes))
    found = []
    for one in cases:
        for rule in RULES:
            rows, errors = [], []
            for n, times in zip(sizes, repeats, strict=True):
                at = thresholds(one, rule, n, times, seed)
                errors.append(np.abs(at - one.best))
                rows.append(_sample_row(one, n, at))
                listener.advance(1)
            slopes = _slopes(sizes, errors, seed)
            limits = [float(value[0]) for value in errors_at(one, np.array([one.best]))]
            limit = dict(zip(("fdr", "omission"), limits, strict=True))
            found.append(
                {
                    "case": one.name,
                    "scores": one.scores.name,
                    "w2": one.w2,
                    "best": round(one.best, 6),
                    "limit": limit,
                    "rule": rule,
                    "sizes": rows,
                    "slopes": slopes,
                    "verdict": rate_verdict(slopes["0.95"], errors, max(sizes)),
                }
            )
    return {"rate": RATE, "rules": dict(RULES), "runs": found}


def _sample_row(one: Case, n: int, at: np.ndarray) -> dict[str, Any]:
    errors = np.abs(at - one.best)
    fdr, omission = errors_at(one, at)
    row: dict[str, Any] = {"n": n, "repeats": len(at)}
    for name, values in (("error", errors), ("fdr", fdr), ("omission", omission)):
        spread = 1.96 * float(values.std(ddof=1)) / np.sqrt(len(values))
        row[name] = {
            "mean": float(values.mean()),
            "low": float(values.mean()) - spread,
            "high": float(values.mean()) + spread,
            **{f"{q:g}": float(np.quantile(values, q)) for q in QUANTILES},
        }
    return row


def _slopes(sizes: Sequence[int], errors: Sequence[np.ndarray], seed: int) -> dict[str, Any]:
    """Slopes over the three largest sizes: a rate is a statement on large n."""
    chosen, kept = list(sizes)[-3:], list(errors)[-3:]
    found: dict[str, Any] = {f"{q:g}": decay(chosen, kept, q, seed) for q in QUANTILES}
    return {"sizes": [int(chosen[0]), int(chosen[-1])], **found}


def rate_verdict(slope: dict[str, float], errors: Sequence[np.ndarray], largest: int) -> str:
    """Say what the slope of the 95 % quantile shows of the rate n^(−2/5).

    Parameters
    ----------
    slope : mapping
        As `decay` gives it.
    errors : sequence of float64 [repeats]
        At each size.
    largest : int
        The largest size. A rate speaks of large n, and a 95 % quantile needs some samples above
        it: below `LEAST_SIZE` or `LEAST_REPEATS` nothing is decided.

    Examples
    --------
    >>> shrinking = [np.full(200, 0.3), np.full(200, 0.1)]
    >>> rate_verdict({"slope": -1.0, "low": -1.2, "high": -0.8}, shrinking, 1000)
    'as fast, or faster'
    >>> rate_verdict({"slope": 0.1, "low": 0.0, "high": 0.2}, shrinking[::-1], 1000)
    'does not shrink'
    >>> rate_verdict({"slope": 0.1, "low": 0.0, "high": 0.2}, shrinking[::-1], 200)
    'too few samples'
    """
    if largest < LEAST_SIZE or min(map(len, errors)) < LEAST_REPEATS:
        return TOO_FEW
    first, last = (float(np.quantile(errors[i], 0.95)) for i in (0, -1))
    if last >= first or slope["low"] >= -0.1:
        return "does not shrink"
    if slope["high"] <= RATE:
        return "as fast, or faster"
    return "slower" if slope["low"] > RATE else "not decided"


def check_theorem_3() -> dict[str, Any]:
    """Overlapping similarities in population: both bounds at the maximizer of L, case by case."""
    families = [(normal_scores(shift), w2) for w2 in SHARES for shift in SHIFTS]
    equal = [_overlap(scores, w2, d) for scores, w2 in families for d in DISTANCES]
    wide = [(normal_scores(1.0, 2.0), w2) for w2 in (*SHARES, *MAJORITIES)]
    wide += [(normal_scores(shift), w2) for w2 in MAJORITIES for shift in SHIFTS]
    others = [_overlap(scores, w2, d) for scores, w2 in wide for d in DISTANCES]
    every = [*equal, *others]
    inside = [row for row in every if not row["at_edge"]]
    return {
        "least_mass": LEAST_MASS,
        "cases": every,
        "groups": [
            _counts("equal spreads, at most half adversarial", equal),
            _counts("wider adversarial scores, or a majority of adversarial passages", others),
            _counts("of all: the maximum lies where both sides have mass", inside),
        ],
        "worst_fdr": _worst(every, "fdr", "fdr_bound"),
        "worst_omission": _worst(every, "omission", "omission_bound"),
        "one_holds": sum(row["fdr_holds"] or row["omission_holds"] for row in every),
        "fdr_explained": sum(row["fdr_holds"] or row["past_crossing"] for row in every),
        "omission_explained": sum(
            row["omission_holds"] or not row["past_crossing"] for row in every
        ),
        "monotone": _monotone(every),
    }


def _overlap(scores: Scores, w2: float, distance: float) -> dict[str, Any]:
    similarities = overlapping(distance)
    best, at_edge = maximizer(similarities, scores, w2)
    w1, rho = 1 - w2, similarities.overlap
    at = np.array([best])
    alpha, beta = (float(value[0]) for value in similarities.below(at))
    above = [float(value[0]) for value in similarities.above(at)]
    fdr, omission = (
        float(value[0]) for value in errors_at(Case("", similarities, scores, w2, best), at)
    )
    fdr_bound = w2 * rho / (w1 * alpha + w2 * rho)
    omission_bound = w1 * rho / (w1 * rho + w2 * above[1])
    bayes = similarities.crossing(w2)
    at_bayes = errors_at(Case("", similarities, scores, w2, best), np.array([bayes]))
    return {
        "scores": scores.name,
        "w2": w2,
        "distance": distance,
        "rho": rho,
        "threshold": best,
        "at_edge": at_edge,
        "crossing": similarities.crossing(),
        "bayes": bayes,
        "past_crossing": best > similarities.crossing(),
        "alpha": alpha,
        "beta": beta,
        "fdr": fdr,
        "fdr_bound": fdr_bound,
        "fdr_holds": fdr <= fdr_bound + EQUAL,
        "omission": omission,
        "omission_bound": omission_bound,
        "omission_holds": omission <= omission_bound + EQUAL,
        "fdr_at_bayes": float(at_bayes[0][0]),
        "omission_at_bayes": float(at_bayes[1][0]),
    }


def _counts(name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "group": name,
        "n": len(rows),
        "fdr_holds": sum(row["fdr_holds"] for row in rows),
        "omission_holds": sum(row["omission_holds"] for row in rows),
        "at_edge": sum(row["at_edge"] for row in rows),
    }


def _worst(rows: Sequence[dict[str, Any]], value: str, bound: str) -> dict[str, Any]:
    """Give the case in which the bound is exceeded most, where both sides have mass."""
    inside = [row for row in rows if not row["at_edge"]]
    return max(inside, key=lambda row: row[value] - row[bound])


def _monotone(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count the families (scores, w2) in which a bound grows with ρ, as the paper sums up."""
    families: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault((row["scores"], row["w2"]), []).append(row)
    found = {"n": len(families)}
    for name in ("fdr_bound", "omission_bound", "fdr", "omission"):
        grows = 0
        for one in families.values():
            values = [row[name] for row in sorted(one, key=lambda row: row["rho"])]
            grows += all(b >= a - EQUAL for a, b in pairwise(values))
        found[name] = grows
    return found


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None  # JSON has no infinity
