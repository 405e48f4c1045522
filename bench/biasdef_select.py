"""BiasDef from candidate vectors to the selection: one call of the core against pool and defence.

    python bench/biasdef_select.py                       # table
    python bench/biasdef_select.py --json bench/results/biasdef_select.json

Contenders, in turns of 2 ms (A…A B…B C…C A…A …), the same answers checked first: `fused`,
`BiasDef.select_vectors`; the same with the sweep in float32; `general`,
`BiasDef.select(CandidatePool.from_vectors(…))`; `staged`, the kernels called one by one from Python
with the selection in numpy (what `general` was before the core did it).

Percentiles are those of single calls. On a machine that others use too they are those of its
scheduler (a time slice is 4 ms), so the p99 of the quietest tenth of the run stands beside. The
split is the CPU time of the core's stages on the same arrays, least over the rounds: `rank` is
similarity, projection and order in one reading of the rows (`project_alone`: the projection as a
call of its own), then `sweep`, and `select` is all else. Each contains a call from Python, 2 us.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _core, kernels
from epibias.defenses import BiasDef
from epibias.errors import ValidityWarning
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.selection import Selection
from machine import facts

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--dims", default="384,768,1024")
parser.add_argument("--pools", default="20,100")
parser.add_argument("--queries", default="1,16,256,1024")
parser.add_argument("--seconds", type=float, default=1.5, help="of calls, for each contender")
parser.add_argument("--threads", type=int, default=0, help="0: as many as there are processors")
parser.add_argument("--json", type=Path, help="write the figures there")

GOAL = {"n_queries": 1, "dim": 768, "pool": 20, "wall_p99_us": 100.0}
K = 5
PERCENTILES = (50, 95, 99)
TURN = 2e-3  # seconds
LEAST_CALLS = 20
Case = tuple[np.ndarray, np.ndarray, PolarizationAxis]


def make_case(n_queries: int, n: int, dim: int) -> Case:
    """Candidates near their query, a fifth of them one-sided and nearer; and a labelled axis."""
    rng = np.random.default_rng(dim + n)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal((*shape, dim), np.float32) / np.float32(np.sqrt(dim))

    direction, queries, candidates = normal(), normal(n_queries), normal(n_queries, n)
    one_sided = slice(n // 5)
    candidates[:, one_sided] *= np.float32(0.7)
    weight = rng.uniform(0.3, 1.0, (n_queries, n, 1)).astype(np.float32)
    weight[:, one_sided] = 1.2
    candidates += weight * queries[:, None]
    candidates[:, one_sided] += direction
    stances = np.resize(np.array([1.0, -1.0], np.float32), 8)
    anchors = 0.5 * stances[:, None] * direction + normal(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        axis = PolarizationAxis.fit(anchors, stances, "mean_difference")
    return queries, candidates, axis


def staged(
    defense: BiasDef, queries: np.ndarray, candidates: np.ndarray, axis: PolarizationAxis
) -> Selection:
    """Stage by stage from Python, defaults only: a query at a time, then numpy on rectangles."""
    n_queries, n, _ = candidates.shape
    order = np.empty((n_queries, n), np.int64)
    similarities = np.empty((n_queries, n), np.float32)
    scores = np.empty((n_queries, n), np.float32)
    for query in range(n_queries):
        row = slice(query, query + 1)
        order[row], similarities[row], _ = kernels.cosine_topk(queries[row], candidates[query], n)
        scores[query] = axis.score(candidates[query])[order[query]]
    cut = defense.sweep(similarities, scores)
    dropped = similarities >= cut.threshold[:, None]
    kept_first = np.argsort(dropped, axis=1, kind="stable")
    n_kept = n - dropped.sum(axis=1)
    return Selection.of_queries(
        list(order),
        [row[: min(defense.k, kept)] for row, kept in zip(kept_first, n_kept, strict=True)],
        k=defense.k,
        dropped_positions=[row[kept:] for row, kept in zip(kept_first, n_kept, strict=True)],
    )


def contenders(case: Case) -> dict[str, Callable[[], Selection]]:
    defense = BiasDef(K)
    return {
        "fused": lambda: defense.select_vectors(*case),
        "fused_float32": lambda: defense.select_vectors(*case, precision="float32"),
        "general": lambda: defense.select(CandidatePool.from_vectors(*case)),
        "staged": lambda: staged(defense, *case),
    }


def check_answers(calls: dict[str, Callable[[], Selection]], where: str) -> float:
    """Stop where one selects otherwise; give the share of queries in which something is dropped."""
    answers = {name: call() for name, call in calls.items()}
    expected = answers["staged"]
    for name, got in answers.items():
        same = all(
            np.array_equal(getattr(got, field), getattr(expected, field))
            for field in ("indices", "offsets", "positions")
        ) and all(
            np.array_equal(one, other)
            for one, other in zip(got.dropped, expected.dropped, strict=True)
        )
        if not same:
            sys.exit(f"WRONG: {name}, {where}")
    return float(np.mean([len(part) > 0 for part in expected.dropped]))


def interleaved(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, np.ndarray]:
    """Wall and CPU seconds of every call, [n_calls, 2], in turns until each has had its share.

    A turn of several short calls, for one alone would find the caches as another left them.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    lengths = {}
    for name, call in calls.items():
        call()
        started = time.perf_counter()
        call()
        lengths[name] = max(1, int(TURN / (time.perf_counter() - started)))
    deadline = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < deadline or len(next(reversed(times.values()))) < LEAST_CALLS:
        for name, call in calls.items():
            for _ in range(lengths[name]):
                cpu, wall = time.process_time(), time.perf_counter()
                call()
                wall = time.perf_counter() - wall
                times[name].append((wall, time.process_time() - cpu))
    return {name: np.array(spent) for name, spent in times.items()}


def quietest_p99(wall: np.ndarray) -> float:
    """Give the least p99 of ten blocks of calls that follow each other."""
    return min(float(np.percentile(block, 99)) for block in np.array_split(wall, 10))


def split_of(case: Case) -> dict[str, Callable[[], object]]:
    """Give the calls of the core whose differences are the stages."""
    queries, candidates, axis = case
    n_queries, n, dim = candidates.shape
    flat, offsets = candidates.reshape(-1, dim), np.arange(n_queries + 1) * n
    pool = CandidatePool.from_vectors(*case)
    similarities, scores = (a.reshape(n_queries, n) for a in (pool.similarities, pool.scores))
    axes = axis.axis[None]
    fields = vars(BiasDef(K))
    given = (pool.similarities, pool.scores, pool.offsets, pool.indices, fields)
    return {
        "rank": lambda: _core.rank_candidates(queries, flat, offsets, None, None, axes),
        "project": lambda: _core.polarization_scores(flat, axes),
        "sweep": lambda: _core.threshold_sweep(similarities, scores, min_kept=K),
        "select": lambda: _core.biasdef_select(*given),
    }


def measure(case: Case, seconds: float) -> dict[str, Any]:
    n_queries, n, dim = case[1].shape
    where = f"{n_queries} queries, {n} candidates, dim {dim}"
    calls = contenders(case)
    filtered = check_answers(calls, where)
    result: dict[str, Any] = {
        "n_queries": n_queries, "pool": n, "dim": dim, "share_filtered": filtered
    }  # fmt: skip
    for name, spent in interleaved(dict(calls), seconds).items():
        wall, cpu = 1e6 * spent.T
        result[name] = {
            "calls": len(wall),
            **{f"wall_p{p}_us": round(float(np.percentile(wall, p)), 2) for p in PERCENTILES},
            **{f"cpu_p{p}_us": round(float(np.percentile(cpu, p)), 2) for p in PERCENTILES},
            "wall_p99_quietest_us": round(quietest_p99(wall), 2),
        }
    stages = interleaved(split_of(case), seconds / 4)
    least = {name: 1e6 * float(spent[:, 1].min()) for name, spent in stages.items()}
    result["split_cpu_us"] = {
        "rank": round(least["rank"], 2),
        "project_alone": round(least["project"], 2),
        "sweep": round(least["sweep"], 2),
        "select": round(max(least["select"] - least["sweep"], 0.0), 2),
    }
    fused = result["fused"]["cpu_p50_us"]
    result["ratio_float32"] = round(result["fused_float32"]["cpu_p50_us"] / fused, 2)
    result["ratio_general"] = round(result["general"]["cpu_p50_us"] / fused, 2)
    result["ratio_staged"] = round(result["staged"]["cpu_p50_us"] / fused, 2)
    return result


def line(result: dict[str, Any]) -> str:
    fused, split = result["fused"], result["split_cpu_us"]
    percentiles = " / ".join(f"{fused[f'wall_p{p}_us']:.0f}" for p in PERCENTILES)
    quietest = fused["wall_p99_quietest_us"]
    stages = ", ".join(f"{name} {value:.1f}" for name, value in split.items())
    return (
        f"B={result['n_queries']} pool={result['pool']} dim={result['dim']}: fused p50/p95/p99 "
        f"{percentiles} us (quietest p99 {quietest:.0f}), CPU {fused['cpu_p50_us']:.0f}; float32 "
        f"x{result['ratio_float32']}, general x{result['ratio_general']}, "
        f"staged x{result['ratio_staged']}; {stages}"
    )


def main() -> None:
    options = parser.parse_args()
    if options.threads:
        _core.set_n_threads(options.threads)
    machine = facts() | {
        "threads": _core.n_threads(),
        "simd_level": _core.simd_level(),
        "numpy": np.__version__,
    }
    print("#", json.dumps(machine))
    cases = []
    for dim in map(int, options.dims.split(",")):
        for n in map(int, options.pools.split(",")):
            for n_queries in map(int, options.queries.split(",")):
                cases.append(measure(make_case(n_queries, n, dim), options.seconds))
                print(line(cases[-1]), flush=True)
    goal = [c for c in cases if all(c[key] == GOAL[key] for key in ("n_queries", "dim", "pool"))]
    for case in goal:
        got, quietest = (case["fused"][f"wall_p99_{name}"] for name in ("us", "quietest_us"))
        print(
            f"# goal: p99 of {GOAL['wall_p99_us']:.0f} us at most, got {got:.0f}; "
            f"in the quietest tenth {quietest:.0f}"
        )
    if options.json:
        command = "python bench/biasdef_select.py " + " ".join(sys.argv[1:])
        report = {"command": command, "machine": machine, "goal": GOAL, "cases": cases}
        temporary = options.json.with_suffix(".tmp")
        temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        temporary.replace(options.json)


if __name__ == "__main__":
    main()
