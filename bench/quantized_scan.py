"""The int8 scan against the float32 scan and numpy: ratios of one interleaved run, answers first.

Wall time is the median of the rounds, CPU time their minimum (on a shared machine only the second
says much). numpy is what one would write: a float32 product with unit passages in blocks of 64
queries, then argpartition, neither sorted nor exact. Run alone:
`python bench/quantized_scan.py --threads 1 --levels avx512,avx2,scalar`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--passages", type=int, default=200_000)
parser.add_argument("--dims", default="384,768")
parser.add_argument("--data", default="iid,clustered")
parser.add_argument("--queries", default="1,16,256,1024")
parser.add_argument("--k", default="20,1000")
parser.add_argument("--levels", default="", help="SIMD levels of both scans; empty: the best")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--most-numpy", type=int, default=256, help="queries that numpy still runs")
options = parser.parse_args()
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = str(options.threads)  # read once, when numpy loads

import numpy as np  # noqa: E402 (after the number of its threads)

from epibias import _core  # noqa: E402


def embeddings(kind: str, n: int, dim: int, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Give passages and queries: normal, or clusters with a decaying spectrum and queries near."""
    rng = np.random.default_rng(1)
    if kind == "iid":
        every = rng.standard_normal((n + n_queries, dim), np.float32)
        return every[n_queries:].copy(), every[:n_queries].copy()
    spectrum = (np.arange(1, dim + 1) ** -0.35).astype(np.float32)
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32)
    centres = rng.standard_normal((max(n // 100, 1), dim), np.float32) * spectrum
    within = rng.standard_normal((n, dim), np.float32) * spectrum * np.float32(0.8)
    passages = (centres[rng.integers(0, len(centres), n)] + within) @ rotation
    noise = rng.standard_normal((n_queries, dim), np.float32) * spectrum * np.float32(0.7)
    return passages, passages[rng.integers(0, n, n_queries)] + noise @ rotation


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_numpy(queries: np.ndarray, passages: np.ndarray, k: int) -> None:
    for first in range(0, len(queries), 64):
        similarities = queries[first : first + 64] @ passages.T
        np.argpartition(similarities, len(passages) - k, axis=1)[:, -k:]


def interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Median wall and least CPU milliseconds of each, A B A B … after one round unmeasured."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for number in range(options.rounds + 1):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            spent = (time.perf_counter() - wall, time.process_time() - cpu)
            if number:
                times[name].append(spent)
    return {
        name: (
            1e3 * statistics.median(wall for wall, _ in spent),
            1e3 * min(cpu for _, cpu in spent),
        )
        for name, spent in times.items()
    }


def compare(kind: str, dim: int, level: str) -> None:
    passages, queries = embeddings(kind, options.passages, dim, 1024)
    norms = _core.inverse_norms(passages)
    started = time.perf_counter()
    codes = _core.quantize_passages(passages, norms)
    seconds = time.perf_counter() - started
    per_row = codes.nbytes / len(passages)
    print(f"# {kind} {dim} {level}: codes in {seconds:.2f} s, {per_row:.0f} bytes a row")
    unit_passages = unit(passages)
    for n_queries in map(int, options.queries.split(",")):
        some = queries[:n_queries].copy()
        for k in map(int, options.k.split(",")):
            exact = _core.cosine_topk(some, passages, k, norms)
            found = _core.quantized_scan(some, passages, k, norms, codes)
            if not all(np.array_equal(a, b) for a, b in zip(found[:2], exact[:2], strict=True)):
                sys.exit(f"WRONG: {kind} {dim} {level} {n_queries} queries, k = {k}")
            calls: dict[str, Callable[[], object]] = {
                "int8": partial(_core.quantized_scan, some, passages, k, norms, codes),
                "float32": partial(_core.cosine_topk, some, passages, k, norms),
            }
            if n_queries <= options.most_numpy:
                calls["numpy"] = partial(by_numpy, unit(some), unit_passages, k)
            times = interleaved(calls)
            wall, cpu = times["int8"]
            line = f"{kind} {dim} {level} B={n_queries} k={k}: int8 {wall:.1f} ms (CPU {cpu:.1f})"
            for name in ("float32", "numpy"):
                if name in times:
                    peer_wall, peer_cpu = times[name]
                    line += f", {name} x{peer_wall / wall:.2f} (CPU x{peer_cpu / cpu:.2f})"
            line += f"; re-scored {found[2] / n_queries:.0f} a query, {found[3]} repeated"
            print(line, flush=True)


def main() -> None:
    _core.set_n_threads(options.threads)
    levels = options.levels.split(",") if options.levels else _core.simd_levels()[-1:]
    print(f"# {options.threads} threads, {options.passages} passages, {os.cpu_count()} processors")
    for dim in map(int, options.dims.split(",")):
        for kind in options.data.split(","):
            for level in levels:
                _core.set_simd_level(level)
                compare(kind, dim, level)


if __name__ == "__main__":
    main()
