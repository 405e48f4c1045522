"""The sweep against the oracle on 20,000 random queries, and the p-value's type-I error.

    python bench/check_threshold_sweep.py

Queries: 2 to 200 candidates, one or two groups of scores of several shapes and scales; a quarter
have tied similarities, a quarter scores on a coarse lattice. The oracle is the vectorised twin
`tests/reference_sweep.py`, which `tests/test_threshold_sweep.py` compares with the naive one.

Where two splits are equal in exact arithmetic (scores on a lattice), rounding must not say which is
the maximum: the first within 1e-12 is, in kernel and oracle.

With precision="float32", at every SIMD level: the same threshold and number kept for each of these
queries, the same p-value for some of them, and divergences within the bound that the header of the
core states. How often float32 left the decision to float64 is reported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import reference_sweep
from epibias import _core, kernels

N_QUERIES = 20_000
MAX_DIFFERENCE = 1e-5
N_NULL_POOLS = 2_000
N_ORACLE_P_VALUES = 150
PERMUTATIONS = 199
LEVELS = (0.01, 0.05, 0.10)
N_FLOAT32_P_VALUES = 300
MAX_FLOAT32_DIFFERENCE = 2e-6  # a tenth of what the bound allows at 20 candidates


def random_query(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """One query and the options it is swept with."""
    n = int(rng.integers(2, 201))
    similarities = rng.beta(5, 3, n) if rng.random() < 0.5 else rng.uniform(-1, 1, n)
    scale = 10.0 ** rng.uniform(-4, 1)
    scores = rng.standard_t(3, n) if rng.random() < 0.2 else rng.normal(size=n)
    if rng.random() < 0.6:  # a second group, more or less bound to the similarity
        share = rng.random() * 0.5
        rank = np.argsort(np.argsort(similarities + rng.normal(0, rng.random(), n)))
        scores = scores + rng.uniform(0, 8) * (rank >= n * (1 - share))
    if rng.random() < 0.25:
        similarities = np.round(similarities * 10) / 10
    if rng.random() < 0.25:
        scores = np.round(scores * 2) / 2
    options = {
        "criterion": "mi" if rng.random() < 0.3 else "kl",
        "min_kept": int(rng.integers(1, 6)),
        "min_dropped": 1 + n // 20,
        "kappa": float(rng.choice([0.025, 0.01 / n, 0.2])),
    }
    return similarities.astype(np.float32), (scores * scale).astype(np.float32), options


def compare_with_oracle(n_queries: int) -> dict[str, Any]:
    """Thresholds, counts and divergences of `n_queries` random queries."""
    rng = np.random.default_rng(20_000)
    counts = {"same_threshold": 0, "different": 0, "kept_everything": 0}
    largest = 0.0
    for _ in range(n_queries):
        similarities, scores, options = random_query(rng)
        threshold, n_kept, divergence, *_ = kernels.threshold_sweep(
            similarities[None], scores[None], **options
        )
        expected = reference_sweep.threshold_sweep(similarities, scores, **options)
        difference = abs(float(divergence[0]) - expected.divergence)
        largest = max(largest, difference) if np.isfinite(difference) else np.inf
        counts["kept_everything"] += int(expected.n_kept == len(scores))
        if threshold[0] == np.float32(expected.threshold) and n_kept[0] == expected.n_kept:
            counts["same_threshold"] += 1
        else:
            counts["different"] += 1
    passed = counts["different"] == 0 and largest <= MAX_DIFFERENCE
    return {
        "n_queries": n_queries,
        **counts,
        "largest_difference": largest,
        "passed": bool(passed),
    }


def compare_float32(n_queries: int) -> dict[str, Any]:
    """Sweep the same queries in float32; float64 with a curve, the reference, does without it."""
    rng = np.random.default_rng(20_000)
    counts = {"compared": 0, "different": 0, "left_to_float64": 0, "p_values_differing": 0}
    largest = 0.0
    n_shuffles = 0
    for number in range(n_queries):
        similarities, scores, options = random_query(rng)
        pair = similarities[None], scores[None]
        expected = kernels.threshold_sweep(*pair, curve=True, **options)
        test = number < N_FLOAT32_P_VALUES
        p_value = 1.0
        if test:
            options |= {"permutations": 49, "seed": number}
            p_value = reference_sweep.threshold_sweep(similarities, scores, **options).p_value
        for level in _core.simd_levels():
            _core.set_simd_level(level)
            got = kernels.threshold_sweep(*pair, precision="float32", **options)
            same = got[0][0] == expected[0][0] and got[1][0] == expected[1][0]
            counts["compared"] += 1
            counts["different"] += int(not same)
            counts["p_values_differing"] += int(test and got[3][0] != p_value)
            counts["left_to_float64"] += int(got[5][0])
            n_shuffles += 49 * test
            difference = abs(float(got[2][0] - expected[2][0]))
            largest = max(largest, difference) if np.isfinite(difference) else np.inf
    passed = counts["different"] == 0 and counts["p_values_differing"] == 0
    return {
        **counts,
        "share_left_to_float64": counts["left_to_float64"] / (counts["compared"] + n_shuffles),
        "p_values_compared": N_FLOAT32_P_VALUES * len(_core.simd_levels()),
        "largest_difference": largest,
        "passed": bool(passed and largest <= MAX_FLOAT32_DIFFERENCE),
    }


def type_one_error(n_pools: int) -> dict[str, Any]:
    """Rejections among pools without any structure, with bounds that hold in 99.9 %."""
    rng = np.random.default_rng(199)
    similarities = rng.random((n_pools, 20)).astype(np.float32)
    scores = rng.normal(size=(n_pools, 20)).astype(np.float32)
    options = {"min_kept": 5, "min_dropped": 1, "permutations": PERMUTATIONS, "seed": 1}
    p_values = kernels.threshold_sweep(similarities, scores, **options)[3]
    rates, passed = {}, True
    for level in LEVELS:
        low, high = stats.binom.interval(0.999, n_pools, level)
        rejected = int((p_values <= level).sum())
        rates[str(level)] = {"rejected": rejected, "bounds": [int(low), int(high)]}
        passed = passed and bool(low <= rejected <= high)
    differing = 0
    for row in range(N_ORACLE_P_VALUES):
        expected = reference_sweep.threshold_sweep(
            similarities[row], scores[row], query_id=row, **options
        )
        differing += int(p_values[row] != expected.p_value)
    return {
        "n_pools": n_pools,
        "permutations": PERMUTATIONS,
        "rates": rates,
        "p_values_compared": N_ORACLE_P_VALUES,
        "p_values_differing": int(differing),
        "passed": passed and differing == 0,
    }


def run() -> dict[str, Any]:
    """Run all parts."""
    parts = {
        "oracle": compare_with_oracle(N_QUERIES),
        "float32": compare_float32(N_QUERIES),
        "type_one_error": type_one_error(N_NULL_POOLS),
    }
    return {"passed": all(part["passed"] for part in parts.values()), **parts}


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
