"""Three public sets at full size are read, written and read back without loss.

They are share-alike data of others, so they are no part of the repository: they lie in
`../shared/data/external` beside the checkout. Run alone: `python bench/check_external_data.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from epibias.corpus import BeirData, Corpus

EXTERNAL = Path(__file__).parents[2] / "shared" / "data" / "external"
# Folder to its passages, queries, judgements, and passages with a blank text.
COUNTS = {
    "hotpotqa_50": (500, 50, 100, 0),
    "perspectrum_dev": (6135, 426, 6135, 0),
    "wikibalance_sample": (348, 285, 348, 5),
}


def run() -> dict[str, Any]:
    """Read every set, count, and write and read its passages once more."""
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
        found[name] = {"counts": list(counts), "same_when_read_back": same}
        passed &= counts == expected and same
    return {"passed": passed, "sets": found}


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
