"""The sweep on the emulated device: the oracle's threshold in each of 5,000 queries.

    python bench/check_cuda_threshold_sweep.py

The queries are those of check_threshold_sweep.py (2 to 200 candidates, ties, lattices, both
criteria). Each is also compared with the CPU: threshold, number kept, divergence, the whole curve
and, for some, the p-value are equal to the bit. A ragged batch of them goes through BiasDef in the
same way. Needs the emulated module (-DEPIBIAS_CUDA_EMULATED=ON); a run in which it does not load
fails.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

import epibias as eb
import reference_sweep
from check_threshold_sweep import random_query
from epibias import kernels, kernels_select
from epibias.device import status

N_QUERIES = 5_000
CURVE_EVERY = 5
P_VALUE_EVERY = 25
PERMUTATIONS = 29
N_POOLS = 400
MAX_DIFFERENCE = 1e-5  # from the oracle, which adds up in another order


def same(got: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Compare all parts but n_undecided, which counts what the CPU left to float64."""
    return all(
        left is right is None or np.array_equal(left, right, equal_nan=True)
        for left, right in zip(got[:5], expected[:5], strict=True)
    )


def compare_queries(n_queries: int) -> dict[str, Any]:
    """Every query against the oracle and the CPU."""
    rng = np.random.default_rng(20_000)
    counts = {"same_threshold": 0, "different": 0, "kept_everything": 0, "other_bits_than_cpu": 0}
    curves, p_values = 0, 0
    largest = 0.0
    for number in range(n_queries):
        similarities, scores, options = random_query(rng)
        pair = similarities[None], scores[None]
        expected = reference_sweep.threshold_sweep(similarities, scores, **options)
        options["curve"] = number % CURVE_EVERY == 0
        if number % P_VALUE_EVERY == 0:
            options |= {"permutations": PERMUTATIONS, "seed": number}
        curves += options["curve"]
        p_values += "permutations" in options
        got = kernels.threshold_sweep(*pair, **options)
        with status.emulated(False):
            counts["other_bits_than_cpu"] += not same(
                got, kernels.threshold_sweep(*pair, **options)
            )
        difference = abs(float(got[2][0]) - expected.divergence)
        largest = max(largest, difference) if np.isfinite(difference) else np.inf
        counts["kept_everything"] += int(expected.n_kept == len(scores))
        if got[0][0] == np.float32(expected.threshold) and got[1][0] == expected.n_kept:
            counts["same_threshold"] += 1
        else:
            counts["different"] += 1
    passed = counts["different"] == 0 and counts["other_bits_than_cpu"] == 0
    return {
        "n_queries": n_queries,
        **counts,
        "curves_compared": curves,
        "p_values_compared": p_values,
        "largest_difference": largest,
        "passed": bool(passed and largest <= MAX_DIFFERENCE),
    }


def compare_pools(n_pools: int) -> dict[str, Any]:
    """BiasDef of the queries as one ragged batch, by several rules, against the CPU."""
    rng = np.random.default_rng(5)
    pools = [random_query(rng)[:2] for _ in range(n_pools)]
    offsets = np.concatenate([[0], np.cumsum([len(scores) for _, scores in pools])])
    descending = [np.argsort(-x, kind="stable") for x, _ in pools]
    similarities = np.concatenate([x[o] for (x, _), o in zip(pools, descending, strict=True)])
    scores = np.concatenate([y[o] for (_, y), o in zip(pools, descending, strict=True)])
    arrays = similarities, scores, offsets, np.arange(len(scores))
    centres = np.zeros(n_pools)
    differing = []
    rules: tuple[dict[str, Any], ...] = (
        {},
        {"side": "auto", "mitigation": "mahalanobis"},
        {"fill": "refill", "min_kept": 1, "criterion": "mi"},
        {"rule": "printed"},
        {"gate": 0.1, "permutations": 19},
    )
    for rule in rules:
        parameters = vars(eb.BiasDef(k=5, **rule))
        given = {"parameters": parameters, "neutral_centres": centres}
        got = kernels_select.biasdef_select(*arrays, **given)
        with status.emulated(False):
            expected = kernels_select.biasdef_select(*arrays, **given)
        parts = [*zip(got[:7], expected[:7], strict=True)]
        parts += [(got[7][name], expected[7][name]) for name in expected[7]]
        if not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in parts):
            differing.append(rule)
    return {
        "n_pools": n_pools,
        "rules": len(rules),
        "rules_that_differ": differing,
        "passed": not differing,
    }


def run(n_queries: int = N_QUERIES, n_pools: int = N_POOLS) -> dict[str, Any]:
    """Both comparisons; `passed` where nothing differs."""
    started = time.perf_counter()
    with status.emulated():  # raises where the emulated module is not there
        queries, pools = compare_queries(n_queries), compare_pools(n_pools)
    return {
        "passed": queries["passed"] and pools["passed"],
        "queries": queries,
        "biasdef_select": pools,
        "seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
