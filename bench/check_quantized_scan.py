"""The scans of codes against the oracle: 1,000 random cases, and 125 searches of 200,000 passages.

The cases are those of `check_cosine_topk`. Each runs with codes of 8 bits, of 4 bits or of
principal axes before them, and made on the way, with every kernel of the machine (each SIMD
level, AVX-512 also without VNNI) and 1, 2 and 3 threads. The large searches, of normal and of
clustered rows with 384 and 768 columns, and of rows of which few axes tell most, run with the
float32 scan too. Run alone: `python bench/check_quantized_scan.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from check_cosine_topk import KINDS, LARGE_EVERY, N_CASES, SEED, draw, placed, same

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import reference  # tests/reference.py: the definition
from epibias import _core
from epibias.retrieval import principal

THREADS = (1, 2, 3)
N_PASSAGES = 200_000
RUNS_A_CORPUS = 25
CORPORA = [
    ("iid", 384),
    ("clustered", 384),
    ("iid", 768),
    ("clustered", 768),
    ("few axes", 384),
]
K = 20


def kernels() -> Iterator[tuple[str, bool]]:
    """Give every kernel of this machine: SIMD level, and whether with VNNI."""
    for level in _core.simd_levels():
        _core.set_simd_level(level)
        yield level, True
        if level == "avx512":
            yield level, False


def principal_codes(passages: np.ndarray, norms: np.ndarray) -> tuple[Any, ...]:
    """Code passages along the axes that an index would choose."""
    axes, n_leading = principal.axes_of(passages)
    return axes, n_leading, *_core.quantize_principal(passages, norms, axes, n_leading)


def searches(
    queries: np.ndarray, passages: np.ndarray, k: int, norms: np.ndarray, vnni: bool
) -> Iterator[tuple[str, Any]]:
    """Run one search through codes of 8 bits, others before them, and codes made on the way."""
    eight = _core.quantize_passages(passages, norms)
    four = _core.quantize_passages(passages, norms, 4)
    along = principal_codes(passages, norms)
    for n_threads in THREADS:
        _core.set_n_threads(n_threads)
        yield "int8", _core.quantized_scan(queries, passages, k, norms, eight, vnni=vnni)
        yield "int4", _core.quantized_scan(queries, passages, k, norms, eight, four, vnni=vnni)
        found = _core.quantized_scan(queries, passages, k, norms, eight, vnni=vnni, principal=along)
        yield "principal", found
        yield "int8_once", _core.quantized_scan_once(queries, passages, k, norms, vnni=vnni)


def normal(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    """Independent normal rows, the worst case."""
    return rng.standard_normal((n, dim), np.float32)


def clustered(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    """Clusters with a decaying spectrum, as sentence encoders give them."""
    spectrum = (np.arange(1, dim + 1) ** -0.35).astype(np.float32)
    centres = rng.standard_normal((n // 100, dim), np.float32) * spectrum
    within = rng.standard_normal((n, dim), np.float32) * spectrum * np.float32(0.8)
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32)
    return (centres[rng.integers(0, len(centres), n)] + within) @ rotation


def few_axes(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    """Clusters of which few axes tell most."""
    turned = np.linalg.qr(rng.standard_normal((dim, dim)))[0][:64].astype(np.float32)
    return clustered(rng, n, 64) @ turned + np.float32(0.1) * rng.standard_normal((n, dim), "f4")


ROWS = {"iid": normal, "clustered": clustered, "few axes": few_axes}


def exact_answer(queries: np.ndarray, passages: np.ndarray, k: int) -> list[tuple[Any, Any]]:
    """Rank by the oracle all that a float64 product cannot tell from the k-th."""
    wide = passages.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    unit = queries.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    answers = []
    for query, near in zip(queries, unit @ wide.T, strict=True):
        least = np.partition(near, len(near) - k)[len(near) - k] - 1e-6  # float32 rounds by 6e-8
        possible = np.flatnonzero(near >= least)
        order, similarities = reference.cosine_topk_batched(query[None], passages[possible], k)
        answers.append((possible[order[0]], similarities[0]))
    return answers


def large_searches() -> tuple[Counter[str], list[Any]]:
    """Search 200,000 passages 125 times, in every way; runs by scan, and those that differ."""
    runs: Counter[str] = Counter()
    differing: list[Any] = []
    for number, (kind, dim) in enumerate(CORPORA):
        rng = np.random.default_rng(SEED + number)
        n = N_PASSAGES + RUNS_A_CORPUS
        values = ROWS[kind](rng, n, dim)
        queries, passages = values[:RUNS_A_CORPUS].copy(), values[RUNS_A_CORPUS:].copy()
        answers = exact_answer(queries, passages, K)
        norms = _core.inverse_norms(passages)
        eight = _core.quantize_passages(passages, norms)
        four = _core.quantize_passages(passages, norms, 4)
        along = principal_codes(passages, norms)
        for level, vnni in kernels():
            for query, (indices, similarities) in enumerate(answers):
                one = queries[query : query + 1].copy()
                _core.set_n_threads(1 + query % 2)
                found = {
                    "float32": _core.cosine_topk(one, passages, K, norms),
                    "int8": _core.quantized_scan(one, passages, K, norms, eight, vnni=vnni),
                    "int4": _core.quantized_scan(one, passages, K, norms, eight, four, vnni=vnni),
                    "principal": _core.quantized_scan(
                        one, passages, K, norms, eight, vnni=vnni, principal=along
                    ),
                    "int8_once": _core.quantized_scan_once(one, passages, K, norms, vnni=vnni),
                }
                for scan, answer in found.items():
                    runs[scan] += 1
                    if not same(answer, (indices[None], similarities[None])):
                        differing.append([kind, dim, level, vnni, query, scan])
    return runs, differing


def run() -> dict[str, Any]:
    """Run everything; `passed` is true when no answer differed from the oracle."""
    started = time.perf_counter()
    rng = np.random.default_rng(SEED)
    before = _core.simd_level(), _core.n_threads()
    runs: Counter[str] = Counter()
    differing: list[Any] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for case in range(N_CASES):
                kind = KINDS[case % len(KINDS)]
                queries, passages, k = draw(rng, kind, large=case % LARGE_EVERY == 0)
                expected = reference.cosine_topk_batched(queries, passages, k)
                queries, passages = placed(kind, queries, passages, Path(folder), case)
                norms = _core.inverse_norms(passages)
                for level, vnni in kernels():
                    for scan, found in searches(queries, passages, k, norms, vnni):
                        runs[scan] += 1
                        if not same(found, expected):
                            differing.append([case, kind, level, vnni, scan])
                del passages
        large_runs, large_differing = large_searches()
        n_kernels = len(list(kernels()))
    finally:
        _core.set_simd_level(before[0])
        _core.set_n_threads(before[1])
    n_large = len(CORPORA) * RUNS_A_CORPUS
    return {
        "passed": not differing
        and not large_differing
        and all(runs[scan] == N_CASES * n_kernels * len(THREADS) for scan in runs)
        and len(large_runs) == 5
        and all(count == n_large * n_kernels for count in large_runs.values()),
        "cases": N_CASES,
        "kernels": n_kernels,
        "runs": dict(runs),
        "runs_that_differ": len(differing),
        "first_differing": differing[:5],
        "large_searches": {
            "passages": N_PASSAGES,
            "k": K,
            "corpora": [f"{kind} {dim}" for kind, dim in CORPORA],
            "searches": n_large,
            "runs": dict(large_runs),
            "runs_that_differ": len(large_differing),
            "first_differing": large_differing[:5],
        },
        "seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
