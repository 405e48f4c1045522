"""What an axis is made of, and what tells that it works: chosen on Perspectrum's training claims.

    python bench/choose_axis.py --external DIR --encoder FOLDER --claims 200

Each claim with six labelled perspectives a side is reported with pooled axes that were learnt on
unrelated claims of other folds, and with three anchors a side in five seeded draws; all its other
perspectives are scored. Nothing that docs/evaluation_protocol.md reports on is read.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import defense_methods as methods
from defense_rows import encoded
from defense_texts import SEED, Case, perspectrum, unrelated
from epibias import SentenceTransformerEncoder
from epibias.errors import ValidityWarning
from epibias.metrics import auc
from epibias.polarization import PolarizationAxis
from epibias.polarization.agreement import agreement, coverage
from epibias.polarization.combined import combined_axis
from epibias.polarization.guided import guided_axis
from epibias.polarization.validity_report import validity_report

FOLDS, DRAWS, ANCHORS, LEAST = 4, 5, 3, 6
WEIGHTS = ((0.0, 0.25), (0.25, 0.1), (0.5, 0.25), (0.5, 0.5), (1.0, 0.5))  # of poles and pooled
TRUST = (0.0, 1.0, 2.0, 3.0, 10.0)
USED = "guided .5 .25, trust 2"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--external", type=Path, required=True, help="folder of the public data")
parser.add_argument("--encoder", required=True, help="package or folder")
parser.add_argument("--claims", type=int, default=200)


def axes_of(
    poles: PolarizationAxis, pooled: PolarizationAxis, rows: np.ndarray, signs: np.ndarray
) -> dict[str, PolarizationAxis]:
    """Every axis that was compared."""
    pair = [poles, pooled]
    made = {
        "poles": poles,
        "pooled": pooled,
        "ridge": PolarizationAxis.fit(rows, signs, "ridge"),
        "sum of unit vectors": combined_axis(pair, rows, signs),
        "sum, .5 .5 1": combined_axis(pair, rows, signs, weights=[0.5, 0.5, 1]),
        "sum, .5 .25 1": combined_axis(pair, rows, signs, weights=[0.5, 0.25, 1]),
    }
    for weights in WEIGHTS:
        for trust in TRUST:
            name = f"guided {weights[0]:g} {weights[1]:g}, trust {trust:g}".replace(" 0.", " .")
            made[name] = guided_axis(pair, rows, signs, weights=weights, trust=trust)
    return made


def draws(texts: np.ndarray, stances: np.ndarray, number: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Numbers of the anchors and of the rest, as often as asked."""
    for draw in range(DRAWS):
        generator = np.random.default_rng([SEED, number, draw])
        sides = [generator.permutation(np.flatnonzero(stances * s > 0))[:ANCHORS] for s in (1, -1)]
        anchors = np.concatenate(sides)
        yield anchors, np.setdiff1d(np.arange(len(texts)), anchors)


def main() -> int:
    """Print the mean AUC of each axis over claims, and what tells that the used one works."""
    options = parser.parse_args()
    warnings.simplefilter("ignore", ValidityWarning)  # six anchors: told in the tables
    encoder = SentenceTransformerEncoder(options.encoder, progress=False)
    claims = perspectrum(options.external / "perspectrum_dev", "train")[: options.claims]
    rows, _ = encoded(encoder, claims, only_cached=True)
    claims = [case for case in claims if all(text in rows for text in case.plain_texts())]
    judged = [case for case in claims if _is_rich(case, rows)]
    print(f"{len(claims)} claims encoded, {len(judged)} judged", file=sys.stderr, flush=True)
    found: dict[str, list[float]] = {}
    tells: dict[str, list[float]] = {"validity": [], "agreement": [], "coverage": [], "both": []}
    number = 0
    for fold in range(FOLDS):
        group = judged[fold::FOLDS]
        pooled = methods.pooled_from(unrelated(claims, group), rows)
        for case in group:
            passages, stances = methods.labelled(case, rows) or (np.empty(0), np.empty(0))
            poles, general = methods.pole_axis(case, rows), pooled.axis(rows[case.question])
            for own, rest in draws(passages, stances, number):
                axes = axes_of(poles, general, passages[own], stances[own])
                for name, axis in axes.items():
                    scores = axis.score(passages[rest])
                    sides = (scores[stances[rest] > 0], scores[stances[rest] < 0])
                    found.setdefault(name, []).append(float(auc(*sides)))
                validity = axes[USED].validity
                alike = agreement([axes[n] for n in ("ridge", "poles", "pooled")], passages[rest])
                near = coverage(passages[own], passages[rest])
                values = (float(validity or 0), alike, near, (alike + near) / 2)
                for name, value in zip(tells, values, strict=True):
                    tells[name].append(value)
            number += 1
    for name, values in found.items():
        print(f"{name:26} {np.mean(values):.4f}")
    of = np.arange(len(found[USED])) // DRAWS
    for works_above in (0.75, 0.85):
        for name, values in tells.items():
            report = validity_report(
                values, found[USED], of, works_above=works_above, aim="balanced"
            )
            print(f"works above {works_above}: {name:10} discrimination {report.discrimination:.3f}"
                  f" precision {report.precision:.3f} recall {report.recall:.3f}"
                  f" base rate {report.base_rate:.3f}")  # fmt: skip
    return 0


def _is_rich(case: Case, rows: methods.Rows) -> bool:
    known = methods.labelled(case, rows)
    return known is not None and all((known[1] * side > 0).sum() >= LEAST for side in (1, -1))


if __name__ == "__main__":
    sys.exit(main())
