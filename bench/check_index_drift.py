"""Drift of 24 golden queries on a million passages: at most 5 seconds, on two cores.

A store of synthetic passages (384 dimensions, 40 sources in three tiers, six topics) is staged and
promoted, then a successor with 100 new pages is staged. Timed, with the versions open and nothing
prepared: the drift of every golden query (selected and raw); beside it, for information, the whole
gate and what opening and staging cost. `python bench/check_index_drift.py [N_PASSAGES]`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from epibias import Passage
from epibias.data_sets import GoldenQuery
from epibias.index import Addition, IndexStore
from epibias.index.drift import drift_of, golden_answers

DIM, N_QUERIES, N_TOPICS, N_SOURCES, N_NEW, SEED = 384, 24, 6, 40, 100, 5
LIMIT_S = 5.0
IDENTITY = {"name": "synthetic", "dim": DIM}


def policy() -> bytes:
    """Six topics with two sources each; the others have no topic."""
    tables = [
        f'[sources.s{n}]\ntier = {1 + min(n // 8, 2)}\nowner = "team {n}"' for n in range(N_SOURCES)
    ]
    tables += [
        f'[topics.t{n}]\nowner = "team {n}"\nsources = ["s{n}", "s{n + 8}"]'
        for n in range(N_TOPICS)
    ]
    return "\n".join(tables).encode()


def pages(start: int, n: int) -> list[Addition]:
    """Short pages, spread over the sources; new ones are in the open ones."""
    months = [f"2026-{1 + number % 9:02d}-01" for number in range(start, start + n)]
    return [
        Addition(
            Passage(
                f"p{start + number}",
                f"page {start + number}",
                source=f"s{(start + number) % N_SOURCES}",
                author=f"author {number % 500}",
                time=month,
            )
        )
        for number, month in enumerate(months)
    ]


def main() -> int:
    """Make the store, time the check."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(SEED)
    seconds: dict[str, float] = {}
    processor: dict[str, float] = {}
    started = time.perf_counter(), time.process_time()

    def lap(name: str) -> None:
        nonlocal started
        now = time.perf_counter(), time.process_time()
        seconds[name], processor[name] = (
            round(after - before, 2) for after, before in zip(now, started, strict=True)
        )
        started = now

    with tempfile.TemporaryDirectory() as made:
        store = IndexStore.create(Path(made) / "store", policy(), by="bench")
        vectors = rng.standard_normal((n, DIM), dtype=np.float32)
        centres = rng.standard_normal((N_QUERIES, DIM), dtype=np.float32)
        vectors[: 100 * N_QUERIES] += 2 * np.repeat(centres, 100, axis=0)
        lap("make vectors")
        keep: dict[str, Any] = {"by": "bench", "reason": "bench"}
        first = store.stage(pages(0, n), embeddings=vectors, encoder_identity=IDENTITY, **keep)
        del vectors
        lap("stage all")
        store.promote(first.id, **keep)
        lap("promote")
        queries = [
            GoldenQuery(f"q{number}", f"query {number}", f"t{topic}", f"team {topic}", ())
            for number, topic in enumerate(n % N_TOPICS for n in range(N_QUERIES))
        ]
        store.golden.add(queries, store.policy, by="bench")
        texts = [query.text for query in queries]
        store.golden.embeddings(texts, "queries", IDENTITY, lambda _: centres)
        for topic, rule in store.policy.topics.items():
            store.review_baselines(topic, by=rule.owner, reason="bench")
        lap("review baselines")
        new = rng.standard_normal((N_NEW, DIM), dtype=np.float32)
        second = store.stage(pages(n, N_NEW), embeddings=new, encoder_identity=IDENTITY, **keep)
        lap("stage successor")
        staged = store.read_version(second.id, everything=True)
        lap("open, all hashes")
        answers = golden_answers(staged, queries, centres)
        baselines = store.golden.baselines()
        drifts = [drift_of(answer, baselines[answer.query.id]) for answer in answers]
        lap("drift")
        report = store.check(second.id)
        lap("whole gate")
        store.promote(second.id, **keep)
        lap("promote successor")
        if store.current is not None and store.current.version == second.id:
            store.rollback(**keep)
            lap("rollback, all hashes")
    result = {
        "n_passages": n,
        "wall_seconds": seconds,
        "processor_seconds": processor,
        "limit_s": LIMIT_S,
        "drift": [one.raw_drift for one in drifts],
        "findings": [] if report is None else [one.text for one in report.findings],
        "passed": len(drifts) == N_QUERIES and seconds["drift"] <= LIMIT_S,
    }
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
