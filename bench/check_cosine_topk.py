"""cosine_topk on 1,000 random cases: ids, order and bits of the oracle, everywhere and every time.

Each case is drawn with its kind (plain, duplicates, ties, 1-d, k = n, unaligned, memory-mapped) and
runs at every SIMD level of the machine, with 1, 2 and 3 threads, three tile sizes, with and without
prepared norms. Run alone: `python bench/check_cosine_topk.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import reference  # tests/reference.py: the definition
from epibias import _core

N_CASES = 1_000
SEED = 20_251_204
THREADS = (1, 2, 3)
TILES = (0, 5, 64)
KINDS = ("plain", "duplicates", "ties", "one_dimensional", "k_is_n", "unaligned", "memory_mapped")
# Every tenth case is so large that the core wakes its threads (12 million multiply-adds).
LARGE_EVERY = 10


def draw(rng: np.random.Generator, kind: str, large: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Draw queries, passages and k of one case."""
    dim = 1 if kind == "one_dimensional" else int(rng.choice((2, 3, 7, 8, 16, 31, 33, 64, 97)))
    n_queries = int(rng.integers(1, 50))
    n = int(rng.integers(1, 250))
    if large:
        dim = max(dim, 16) if kind != "one_dimensional" else 1
        n_queries = 40
        n = min(13_000_000 // (n_queries * dim), 20_000)
    if kind == "ties":
        values = rng.integers(-2, 3, (n + n_queries, dim)).astype(np.float32)
        values[~values.any(axis=1), 0] = 1
    else:
        values = rng.standard_normal((n + n_queries, dim)).astype(np.float32)
    queries, passages = values[:n_queries].copy(), values[n_queries:].copy()
    if kind == "duplicates":
        passages = passages[rng.integers(0, max(1, n // 4), n)]
        queries[: n_queries // 2] = passages[rng.integers(0, n, n_queries // 2)]
    k = n if kind == "k_is_n" and not large else int(rng.integers(1, min(n, 60) + 1))
    return queries, passages, k


def unaligned(values: np.ndarray, offset: int) -> np.ndarray:
    """Give the same values at an address that is no multiple of four."""
    raw = bytearray(values.nbytes + offset)
    raw[offset:] = values.tobytes()
    return np.frombuffer(raw, np.float32, values.size, offset).reshape(values.shape)


def placed(
    kind: str, queries: np.ndarray, passages: np.ndarray, folder: Path, case: int
) -> tuple[np.ndarray, np.ndarray]:
    """Put the arrays where the kind of case wants them."""
    if kind == "unaligned":
        return unaligned(queries, 1 + case % 3), unaligned(passages, 1 + case % 3)
    if kind == "memory_mapped":
        path = folder / "passages.npy"
        np.save(path, passages)
        return queries, np.load(path, mmap_mode="r")
    return queries, passages


def same(found: tuple[Any, ...], expected: tuple[np.ndarray, np.ndarray]) -> bool:
    """Tell whether ids, their order and all bits agree, with no NaN."""
    return (
        found[0].dtype == np.int64
        and found[1].dtype == np.float32
        and bool(np.isfinite(found[1]).all())
        and np.array_equal(found[0], expected[0])
        and np.array_equal(found[1].view(np.uint32), expected[1].view(np.uint32))
    )


def run() -> dict[str, Any]:
    """Run every case everywhere; `passed` is true when no run differed from the oracle."""
    started = time.perf_counter()
    rng = np.random.default_rng(SEED)
    before = _core.simd_level(), _core.n_threads()
    cases: Counter[str] = Counter()
    n_runs, differing = 0, []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for case in range(N_CASES):
                kind = KINDS[case % len(KINDS)]
                queries, passages, k = draw(rng, kind, large=case % LARGE_EVERY == 0)
                expected = reference.cosine_topk_batched(queries, passages, k)
                queries, passages = placed(kind, queries, passages, Path(folder), case)
                cases[kind] += 1
                for level in _core.simd_levels():
                    _core.set_simd_level(level)
                    norms = _core.inverse_norms(passages)
                    for n_threads in THREADS:
                        _core.set_n_threads(n_threads)
                        for tile_rows in TILES:
                            for prepared in (None, norms):
                                n_runs += 1
                                found = _core.cosine_topk(queries, passages, k, prepared, tile_rows)
                                if not same(found, expected):
                                    differing.append([case, kind, level, n_threads, tile_rows])
                del passages
    finally:
        _core.set_simd_level(before[0])
        _core.set_n_threads(before[1])
    return {
        "passed": not differing and sum(cases.values()) == N_CASES,
        "cases": dict(cases),
        "levels": _core.simd_levels(),
        "threads": THREADS,
        "tile_rows": TILES,
        "runs": n_runs,
        "runs_that_differ": len(differing),
        "first_differing": differing[:5],
        "seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
