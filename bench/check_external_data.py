"""Three public sets at full size are read, written and read back without loss.

They are share-alike data of others, so they are no part of the repository: they lie in
`../shared/data/external` beside the checkout. Each is read as a corpus and as a question set, and
comes back from files unchanged. Run alone: `python bench/check_external_data.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from epibias.corpus import BeirData, Corpus
from epibias.data_sets import QuestionSet, labelled_anchors, load_questions, write_questions

EXTERNAL = Path(__file__).parents[2] / "shared" / "data" / "external"
# Folder to its passages, queries, judgements, and passages with a blank text.
COUNTS = {
    "hotpotqa_50": (500, 50, 100, 0),
    "perspectrum_dev": (6135, 426, 6135, 0),
    "wikibalance_sample": (348, 285, 348, 5),
}
# Folder to its topics, and to the questions that get one labelled anchor a side (None: no labels).
QUESTIONS = {
    "hotpotqa_50": (50, None),
    "perspectrum_dev": (206, 346),
    "wikibalance_sample": (175, 44),
}
PARTS = ("name", "corpus", "questions", "relevant", "licence", "notes")


def run() -> dict[str, Any]:
    """Read every set, count, and write and read its passages and its questions once more."""
    if not EXTERNAL.is_dir():
        return {"passed": False, "reason": "no ../shared/data/external beside the checkout"}
    found: dict[str, Any] = {}
    passed = True
    for name, expected in COUNTS.items():
        data = BeirData.read(EXTERNAL / name, blank="skip")
        corpus = data.corpus
        counts = (len(corpus), len(data.queries), data.qrels.n_judgements, len(corpus.skipped_ids))
        with tempfile.TemporaryDirectory() as folder:
            corpus.to_jsonl(Path(folder) / "corpus.jsonl")
            same = Corpus.from_jsonl(Path(folder) / "corpus.jsonl") == corpus
        asked = questions(name, data)
        found[name] = {"counts": list(counts), "same_when_read_back": same, **asked}
        passed &= counts == expected and same and asked["passed"]
    return {"passed": passed, "sets": found}


def questions(name: str, data: BeirData) -> dict[str, Any]:
    """Load a set through its loader: the same passages, its topics, anchors from its labels."""
    loaded = load_questions(EXTERNAL / name, blank="skip")
    n_topics, n_anchored = QUESTIONS[name]
    anchored = None if n_anchored is None else labelled_anchors(loaded, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "questions.jsonl"
        same = all(comes_back(one, path) for one in (loaded, anchored) if one is not None)
    found = {
        "topics": len({one.topic for one in loaded.questions}),
        "anchored": None if anchored is None else sum(bool(q.anchors) for q in anchored.questions),
        "licence": loaded.licence,
        "questions_same_when_read_back": same,
    }
    passed = (
        same
        and loaded.corpus == data.corpus
        and len(loaded.questions) == len(data.queries)
        and sum(map(len, loaded.relevant.values())) == data.qrels.n_judgements
        and loaded.licence == "CC BY-SA 4.0"
        and (found["topics"], found["anchored"]) == (n_topics, n_anchored)
    )
    return {**found, "passed": passed}


def comes_back(one: QuestionSet, path: Path) -> bool:
    """Write a set and read it again."""
    write_questions(one, path)
    again = load_questions(path)
    return all(getattr(again, name) == getattr(one, name) for name in PARTS)


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
