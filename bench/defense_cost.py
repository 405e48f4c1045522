"""CPU time of TiltBound against BiasDef on the same pools, in turns, as `biasdef_select.py` does.

    python bench/defense_cost.py
    python bench/defense_cost.py --into bench/results/defense_frontier.json   # its "cost"

From vectors to the selection (`CandidatePool.from_vectors`, then `select`) for both, and the
selection alone. Every question is remembered. Every second one, the first among them, has two
newcomers, as many as pass for honest, and a mean that lies off its centre: they are read, and the
selection is exchanged. `newcomers`: in their place five passages of every second question are new,
like its one-sided ones and more similar: a wave. `clean`: the index is as it was. `index`: no
question is remembered, but all passages less the two newcomers of every second question, whose
trusted candidates are read for the limit of these two. `unknown`: nothing is known, so that the
first k of every question are read, and none is exchanged.
Passages have 800 letters and are read anew each time; they are those of the shipped debates, joined
in some order.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from biasdef_select import K, interleaved, make_case
from defense_protocol import CHURN
from epibias._files import write_text
from epibias.data_sets import load_debates
from epibias.defenses import BiasDef, TiltBound
from epibias.defenses.clean_memory import CleanMemory
from epibias.defenses.trusted_index import TrustedIndex
from epibias.kernels_tilt import echo_shares
from epibias.pool import CandidatePool

CASES = ((1, 20), (16, 20), (256, 20), (1, 100), (16, 100), (256, 100))
DIM, LETTERS, SECONDS = 384, 800, 0.6
N_HONEST, N_NEW = 2, 5  # newcomers of an attacked question: that pass for honest; that do not


def cost_rows(seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Median CPU µs a query of both defences, and their ratio."""
    made = []
    for n_queries, n in CASES:
        queries, candidates, axis = make_case(n_queries, n, DIM)
        rng = np.random.default_rng(n)
        asked, texts = _texts(rng, n_queries, n)
        given = {"query_texts": asked, "passage_texts": texts}
        clean = CandidatePool.from_vectors(queries, candidates, axis, **given)
        memory = CleanMemory.of(clean, K)
        tilt = TiltBound(
            K, echo=0.9, echo_of_two=0.5, memory=_attacked(memory), newcomer_share=CHURN
        )
        quiet = TiltBound(K, echo=0.9, memory=memory)
        unknown = TiltBound(K, echo=0.9, echo_of_two=0.5)
        indexed = replace(unknown, trusted_index=_index_before(clean), newcomer_share=CHURN)
        attacked = candidates.copy()
        attacked[::2, -N_NEW:] = candidates[::2, :N_NEW] + 2 * queries[::2, None]
        new = (queries, attacked, axis)
        biasdef = BiasDef(K)

        def pool(made_with: tuple = (queries, candidates, axis), texts: dict = given) -> Any:  # type: ignore[type-arg]
            return CandidatePool.from_vectors(*made_with, **texts)

        times = interleaved(
            {
                "biasdef": lambda pool=pool, one=biasdef: one.select(pool()),
                "tilt_bound": lambda pool=pool, one=tilt: one.select(pool()),
                "tilt_bound, clean": lambda pool=pool, one=quiet: one.select(pool()),
                "tilt_bound, newcomers": lambda pool=pool, one=quiet, v=new: one.select(pool(v)),
                "tilt_bound, index": lambda pool=pool, one=indexed: one.select(pool()),
                "tilt_bound, unknown": lambda pool=pool, one=unknown: one.select(pool()),
                "biasdef, select": lambda pool=clean, one=biasdef: one.select(pool),
                "tilt_bound, select": lambda pool=clean, one=tilt: one.select(pool),
            },
            seconds,
        )
        micro = {name: float(np.median(t[:, 1])) / n_queries * 1e6 for name, t in times.items()}
        row: dict[str, Any] = {"n_queries": n_queries, "pool": n}
        row |= {name: round(value, 2) for name, value in micro.items()}
        row["ratio"] = round(micro["tilt_bound"] / micro["biasdef"], 2)
        row["ratio, clean"] = round(micro["tilt_bound, clean"] / micro["biasdef"], 2)
        row["ratio, newcomers"] = round(micro["tilt_bound, newcomers"] / micro["biasdef"], 2)
        row["ratio, index"] = round(micro["tilt_bound, index"] / micro["biasdef"], 2)
        row["ratio, unknown"] = round(micro["tilt_bound, unknown"] / micro["biasdef"], 2)
        row["ratio, select"] = round(micro["tilt_bound, select"] / micro["biasdef, select"], 2)
        made.append(row)
    return made


def _attacked(memory: CleanMemory) -> CleanMemory:
    """Let every second question, the first among them, have two newcomers and another centre."""
    records = dict(memory.records)
    for key, one in list(records.items())[::2]:
        centre, candidates = one.centre + one.spread, one.candidates[N_HONEST:]
        records[key] = one._replace(centre=centre, candidates=candidates)
    return CleanMemory(records, K)


def _index_before(clean: CandidatePool) -> TrustedIndex:
    """All candidates but the first `N_HONEST` of every second question."""
    place = np.arange(len(clean.indices)) - np.repeat(clean.offsets[:-1], clean.sizes)
    is_new = (place < N_HONEST) & (np.repeat(np.arange(clean.n_queries), clean.sizes) % 2 == 0)
    return TrustedIndex.of(clean.embeddings[~is_new])


def cost_report(seconds: float = SECONDS) -> dict[str, Any]:
    """Rows, what a letter costs, and how busy the machine was."""
    load = round(os.getloadavg()[0], 1)
    return {"rows": cost_rows(seconds), "load_when_it_began": load, "letter_ns": letter_ns()}


def letter_ns() -> float:
    """CPU ns to read a letter of a passage for its echo, as `select` reads it."""
    (asked, texts), spent = _texts(np.random.default_rng(0), 1, 100), []
    offsets, query = np.array([0, len(texts[0])]), np.zeros(1, np.int64)
    for _ in range(200):
        started = time.process_time()
        echo_shares(asked, texts[0], offsets, query, np.full(1, 0.5))
        spent.append(time.process_time() - started)
    return round(float(np.median(spent)) / sum(map(len, texts[0])) * 1e9, 2)


def _texts(rng: np.random.Generator, n_queries: int, n: int) -> tuple[list[str], list[list[str]]]:
    """Questions of the shipped debates, each once, and passages on them: 800 letters of theirs."""
    topics = load_debates()
    asked = [f"{topics[i % len(topics)].query} ({i})" for i in range(n_queries)]
    texts = []
    for query in range(n_queries):
        said = [passage.text for passage in topics[query % len(topics)].benign]
        texts.append([" ".join(rng.permutation(said))[:LETTERS] for _ in range(n)])
    return asked, texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, help="a report of defense_frontier.py")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of calls, each contender")
    options = parser.parse_args()
    cost = cost_report(options.seconds)
    json.dump(cost, sys.stdout, indent=1)
    if options.into:
        report = json.loads(options.into.read_text(encoding="utf-8"))
        text = json.dumps({**report, "cost": cost}, separators=(",", ":")) + "\n"
        write_text(options.into, text)


if __name__ == "__main__":
    main()
