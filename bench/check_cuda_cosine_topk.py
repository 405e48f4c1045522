"""cosine_topk on the emulated device: ids, order and bits of the oracle on the 1,000 random cases.

The cases are those of check_cosine_topk.py, the large ones cut to what the emulation can do. Each
runs through the Python wrapper with every storage (float32, bf16, int8), every other case on
emulated tensor cores and the rest on the portable path, with rounds so small that most take
several. Needs the emulated module (-DEPIBIAS_CUDA_EMULATED=ON); a run in which it
does not load fails. Run alone: `python bench/check_cuda_cosine_topk.py`.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

import reference  # tests/reference.py: the definition
from check_cosine_topk import KINDS, LARGE_EVERY, N_CASES, SEED, draw, same
from epibias.device import status
from epibias.device.cosine_topk import STORAGES, Options, cosine_topk

# Pairs of a large case: a canonical score takes 12 us under emulation.
MOST_PAIRS = 20_000


def options_of(case: int) -> Options:
    """Choose tensor cores or not; rounds of few rows: sample, capacity, growth."""
    return (case % 2 == 0, 64, 256, 4)


def run(n_cases: int = N_CASES) -> dict[str, Any]:
    """Run the cases in every way; `passed` is true when no run differed from the oracle."""
    started = time.perf_counter()
    rng = np.random.default_rng(SEED)
    cases: Counter[str] = Counter()
    n_runs, n_rescored, n_pairs, differing = 0, 0, 0, []
    with status.emulated():  # raises where the emulated module is not there
        for case in range(n_cases):
            kind = KINDS[case % len(KINDS)]
            queries, passages, k = draw(rng, kind, large=case % LARGE_EVERY == 0)
            passages = passages[: max(k, MOST_PAIRS // len(queries))]
            options = options_of(case)
            expected = reference.cosine_topk_batched(queries, passages, k)
            cases[kind] += 1
            for storage in STORAGES:
                n_runs += 1
                found = cosine_topk(queries, passages, k, storage=storage, options=options)
                n_rescored += found[2]
                n_pairs += len(queries) * len(passages)
                if not same(found, expected):
                    differing.append([case, kind, storage, options[0]])
    return {
        "passed": not differing and sum(cases.values()) == n_cases,
        "cases": dict(cases),
        "storages": STORAGES,
        "runs": n_runs,
        "runs_that_differ": len(differing),
        "first_differing": differing[:5],
        "share_rescored": round(n_rescored / n_pairs, 3),
        "seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
