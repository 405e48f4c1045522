"""The sweep against SciPy, KDEpy, careful numpy and its own floor: one interleaved run.

    python bench/threshold_sweep.py --levels avx512,avx2,scalar --json

Answers are checked first: the sweep and numpy against the float64 oracle, SciPy's and KDEpy's loops
against the divergences of the splits that they see. Times are the least CPU time of the rounds, in
microseconds a query, one thread (on a shared machine wall time says little). The contenders:

    float64, float32   `epibias.kernels.threshold_sweep`, a batch at a time
    numpy              one query at a time, all splits at once, kernel rows and cumulative sums
    scipy              as one would write Algorithm 1: 100 thresholds, a gaussian_kde a side, 1000
                       points of the scores; with the sweep's bandwidth and floor, so that it can
                       be checked
    kdepy              the same loop with FFTKDE

The floor: kernel cells (n * n_grid) times one exponential, and split cells (n_splits * n_grid)
times one logarithm of a quotient, both as the sweep has them and from the first cache
(`sweep_floor.cpp`, built by this script where there is a compiler and the sources lie beside it).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # read once, when numpy loads

import numpy as np  # noqa: E402 (after the number of its threads)

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import reference  # noqa: E402
import reference_sweep  # noqa: E402
from epibias import _core  # noqa: E402
from machine import facts  # noqa: E402

RESULTS = ROOT / "bench" / "results" / "threshold_sweep.json"
N_THRESHOLDS, N_POINTS, KAPPA = 100, 1000, 0.025
# Candidates → queries of a batch, and which slow peers still run.
SIZES = {20: (2000, ("numpy", "scipy", "kdepy")), 100: (400, ("numpy", "scipy", "kdepy")),
         1000: (20, ("numpy", "scipy"))}  # fmt: skip
FLAGS = {
    "scalar": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"],
}


def pools(n_queries: int, n: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Similarities, and scores of which the nearest quarter leans to one side in half the pools."""
    rng = np.random.default_rng([seed, n])
    similarities = rng.uniform(0.05, 0.95, (n_queries, n)).astype(np.float32)
    leaning = (rng.random((n_queries, 1)) < 0.5) & (similarities > 0.7)
    scores = rng.normal(0, 0.1, (n_queries, n)) + 0.3 * leaning
    return similarities, scores.astype(np.float32)


def limits(n: int) -> dict[str, int]:
    return {"min_kept": max(5, -(-n // 20)), "min_dropped": -(-n // 20)}


# ---- the contenders ------------------------------------------------------------------------


def by_numpy(similarities: np.ndarray, scores: np.ndarray) -> list[tuple[int, float]]:
    """Careful numpy: number kept and divergence of each query."""
    found = []
    n = similarities.shape[1]
    first, last = limits(n)["min_kept"], n - limits(n)["min_dropped"]
    m = np.arange(first, last + 1)[:, None]
    for x, y32 in zip(similarities, scores, strict=True):
        order = np.argsort(x, kind="stable")
        x_sorted, y = x[order], y32[order].astype(np.float64)
        h = 1.06 * y.std(ddof=1) * n**-0.2
        grid = reference.score_grid(y, h)
        rows = np.exp(-0.5 * ((grid - y[:, None]) / h) ** 2)
        left = np.cumsum(rows, axis=0)
        right = left[-1] - left[first - 1 : last] + KAPPA * left[-1]
        left = left[first - 1 : last]
        weight = (n - m + KAPPA * n) / m
        curve = (left * np.log(left * weight / right)).sum(axis=1) / m[:, 0]
        curve *= (grid[1] - grid[0]) / (h * np.sqrt(2 * np.pi))
        curve[x_sorted[first - 1 : last] >= x_sorted[first : last + 1]] = -np.inf
        best = int(np.argmax(curve))
        found.append((best + first, float(curve[best])))
    return found


def by_loop(
    density: Callable[[np.ndarray, np.ndarray, float], np.ndarray],
    similarities: np.ndarray,
    scores: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Algorithm 1 of one query: the largest divergence, and how many each threshold keeps."""
    y = scores.astype(np.float64)
    n = len(y)
    h = reference.bandwidth(y)
    points = np.linspace(y.min() - 5 * h, y.max() + 5 * h, N_POINTS)
    step = points[1] - points[0]
    best, kept = -np.inf, []
    for threshold in np.linspace(0.05, 0.95, N_THRESHOLDS):
        left = similarities < threshold
        m = int(left.sum())
        if m < limits(n)["min_kept"] or n - m < max(2, limits(n)["min_dropped"]):
            continue  # scipy wants two points on a side
        on_left, on_right = density(y[left], points, h), density(y[~left], points, h)
        pooled = (m * on_left + (n - m) * on_right) / n
        floored = ((n - m) * on_right + KAPPA * n * pooled) / (n - m + KAPPA * n)
        ratio = np.divide(on_left, floored, out=np.ones(N_POINTS), where=on_left > 1e-300)
        best = max(best, float((on_left * np.log(ratio)).sum() * step))
        kept.append(m)
    return best, np.unique(kept)


def scipy_density(values: np.ndarray, points: np.ndarray, h: float) -> np.ndarray:
    from scipy.stats import gaussian_kde

    return gaussian_kde(values, bw_method=h / values.std(ddof=1))(points)


def kdepy_density(values: np.ndarray, points: np.ndarray, h: float) -> np.ndarray:
    from KDEpy import FFTKDE

    return FFTKDE(kernel="gaussian", bw=h).fit(values).evaluate(points)


LOOPS = {"scipy": scipy_density, "kdepy": kdepy_density}


def installed(names: tuple[str, ...]) -> list[str]:
    """Which of the peers can be imported; the others are named."""
    from importlib.util import find_spec

    modules = {"numpy": "numpy", "scipy": "scipy", "kdepy": "KDEpy"}
    missing = [name for name in names if find_spec(modules[name]) is None]
    if missing:
        print(f"# not installed, left out: {', '.join(missing)}")
    return [name for name in names if name not in missing]


# ---- answers -------------------------------------------------------------------------------


def check_answers(n: int, similarities: np.ndarray, scores: np.ndarray, peers: list[str]) -> dict:
    """Compare every contender with the oracle; stop where one is wrong."""
    some = slice(0, 40 if n <= 100 else 4)
    wide = _core.threshold_sweep(similarities[some], scores[some], curve=True, **limits(n))
    narrow = _core.threshold_sweep(
        similarities[some], scores[some], precision="float32", **limits(n)
    )
    errors = {"float64": 0.0, "float32": 0.0}
    for row in range(len(wide[0])):
        expected = reference_sweep.threshold_sweep(
            similarities[row], scores[row], kappa=KAPPA, **limits(n)
        )
        for name, got in (("float64", wide), ("float32", narrow)):
            if got[1][row] != expected.n_kept:
                sys.exit(f"WRONG: {name} n = {n}, query {row}")
            errors[name] = max(errors[name], abs(float(got[2][row]) - expected.divergence))
    if "numpy" in peers:
        for row, (n_kept, divergence) in enumerate(by_numpy(similarities[some], scores[some])):
            if n_kept != wide[1][row] or abs(divergence - wide[2][row]) > 1e-9:
                sys.exit(f"WRONG: numpy n = {n}, query {row}")
    for name in set(peers) & set(LOOPS):
        best, kept = by_loop(LOOPS[name], similarities[0], scores[0])
        errors[name] = abs(best - float(np.nanmax(wide[4][0][kept - 1])))
        if errors[name] > 2e-3:
            sys.exit(f"WRONG: {name} n = {n}: off by {errors[name]:.1e}")
    if errors["float64"] > 1e-9 or errors["float32"] > 1e-5:
        sys.exit(f"WRONG: divergences are off by {errors}")
    return errors


# ---- time ----------------------------------------------------------------------------------


def interleaved(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Least CPU seconds of each, A B A B … after one round unmeasured."""
    least = dict.fromkeys(calls, np.inf)
    for number in range(rounds + 1):
        for name, call in calls.items():
            started = time.process_time()
            call()
            if number:
                least[name] = min(least[name], time.process_time() - started)
    return least


def floor_library(level: str, folder: Path) -> ctypes.CDLL | None:
    """Build the floor's loops; None without a compiler."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None or platform.machine() not in ("x86_64", "AMD64"):
        return None
    library = folder / f"sweep_floor_{level}.so"
    command = [compiler, "-std=c++20", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-w",
               f"-DEPIBIAS_LEVEL={level}", f"-I{ROOT / 'cpp' / 'src'}", *FLAGS[level],
               str(ROOT / "bench" / "sweep_floor.cpp"), "-o", str(library)]  # fmt: skip
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    for function in (loaded.exponentials, loaded.logarithms):
        function.argtypes, function.restype = [ctypes.c_int64], ctypes.c_float
    loaded.cells_a_round.restype = ctypes.c_int64
    return loaded


def cells(scores: np.ndarray) -> tuple[float, float]:
    """Kernel cells and split cells of a query, on average."""
    n = scores.shape[1]
    sizes = [len(reference.score_grid(y, reference.bandwidth(y))) for y in scores.astype(float)]
    n_splits = n - limits(n)["min_dropped"] - limits(n)["min_kept"] + 1
    return n * float(np.mean(sizes)), n_splits * float(np.mean(sizes))


def compare(n: int, level: str, rounds: int, floor: ctypes.CDLL | None) -> dict[str, Any]:
    n_queries, peers = SIZES[n]
    similarities, scores = pools(n_queries, n)
    # The slow ones do not hang on the level: beside the best one they are timed.
    slow = installed(peers) if level == _core.simd_levels()[-1] else []
    errors = check_answers(n, similarities, scores, slow)
    sweep = partial(_core.threshold_sweep, similarities, scores, **limits(n))
    calls: dict[str, Callable[[], object]] = {
        "float64": sweep,
        "float32": partial(sweep, precision="float32"),
    }
    repeats = {"float64": n_queries, "float32": n_queries}
    if "numpy" in slow:
        repeats["numpy"] = max(1, 2000 // n)
        some = slice(0, repeats["numpy"])
        calls["numpy"] = partial(by_numpy, similarities[some], scores[some])
    for name in (name for name in slow if name in LOOPS):
        repeats[name] = 1
        calls[name] = partial(by_loop, LOOPS[name], similarities[0], scores[0])
    n_rounds = 4000
    if floor is not None:
        calls["exp"] = partial(floor.exponentials, n_rounds)
        calls["log"] = partial(floor.logarithms, n_rounds)
        repeats |= dict.fromkeys(("exp", "log"), n_rounds * floor.cells_a_round())
    spent = interleaved(calls, rounds)
    micros = {name: 1e6 * spent[name] / repeats[name] for name in calls}
    undecided = float(np.mean(calls["float32"]()[5]))  # type: ignore[index]
    result: dict[str, Any] = {
        "n": n, "level": level, "errors": errors, "undecided_a_query": undecided,
        "microseconds": {k: v for k, v in micros.items() if k not in ("exp", "log")},
    }  # fmt: skip
    result["ratio_to_float32"] = {
        name: micros[name] / micros["float32"] for name in result["microseconds"]
    }
    if floor is not None:
        kernel_cells, split_cells = cells(scores)
        least = kernel_cells * micros["exp"] + split_cells * micros["log"]
        result["floor"] = {
            "exp_nanoseconds": 1e3 * micros["exp"], "log_nanoseconds": 1e3 * micros["log"],
            "microseconds": least, "share_reached": least / micros["float32"],
        }  # fmt: skip
    return result


def permutations(level: str, rounds: int) -> dict[str, Any]:
    """Microseconds a query of a p-value, n = 20: clean pools, and pools that lean."""
    result: dict[str, Any] = {"level": level}
    for kind, shift in (("clean", 0.0), ("leaning", 0.3)):
        similarities, scores = pools(50, 20, seed=1)
        rng = np.random.default_rng(2)
        scores = rng.normal(0, 0.1, scores.shape) + shift * (similarities > 0.7)
        test = partial(_core.threshold_sweep, similarities, scores.astype(np.float32), **limits(20))
        calls = {
            f"{number}, {precision}": partial(test, permutations=number, precision=precision)
            for number in (199, 999)
            for precision in ("float64", "float32")
        }
        calls["999, stop at 10"] = partial(test, permutations=999, max_exceedances=10)
        p_values = [calls[name]()[3] for name in ("999, float64", "999, float32")]
        expected = reference_sweep.threshold_sweep(
            similarities[7], scores[7].astype(np.float32), permutations=199, query_id=7,
            kappa=KAPPA, **limits(20),
        )  # fmt: skip
        same = np.array_equal(*p_values) and calls["199, float32"]()[3][7] == expected.p_value
        if not same:
            sys.exit(f"WRONG: p-values of {kind} pools")
        spent = interleaved(calls, rounds)
        result[kind] = {name: 1e6 * seconds / 50 for name, seconds in spent.items()}
    return result


def large(level: str, rounds: int) -> dict[str, Any]:
    """Milliseconds a query of the binned sweep."""
    result: dict[str, Any] = {"level": level}
    for n in (10_000, 100_000):
        similarities, scores = pools(2, n)
        test = partial(_core.threshold_sweep, similarities[1:], scores[1:], method="binned")
        got = test(**limits(n))
        expected = reference_sweep.binned_sweep(similarities[1], scores[1], **limits(n))
        if got[1][0] != expected.n_kept or abs(got[2][0] - expected.divergence) > 1e-9:
            sys.exit(f"WRONG: binned n = {n}")
        spent = interleaved({"binned": partial(test, **limits(n))}, rounds)
        result[str(n)] = 1e3 * spent["binned"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", default="", help="SIMD levels; empty: the best")
    parser.add_argument("--sizes", default="20,100,1000")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    _core.set_n_threads(1)
    results: dict[str, Any] = {
        "command": "python bench/threshold_sweep.py " + " ".join(sys.argv[1:]),
        "machine": facts() | {"threads": 1, "numpy": np.__version__},
        "sweeps": [], "permutations": [], "binned_milliseconds": [],
    }  # fmt: skip
    levels = options.levels.split(",") if options.levels else _core.simd_levels()[-1:]
    with tempfile.TemporaryDirectory() as folder:
        for level in levels:
            _core.set_simd_level(level)
            floor = floor_library(level, Path(folder))
            for n in map(int, options.sizes.split(",")):
                found = compare(n, level, options.rounds, floor)
                results["sweeps"].append(found)
                line = ", ".join(f"{k} {v:.3g} µs" for k, v in found["microseconds"].items())
                print(f"{level} n={n}: {line}", flush=True)
                if "floor" in found:
                    share = found["floor"]["share_reached"]
                    print(f"    floor {found['floor']['microseconds']:.3g} µs, reached {share:.0%}")
            for name, measure in (("permutations", permutations), ("binned_milliseconds", large)):
                found = measure(level, options.rounds)
                results[name].append(found)
                print(f"{level} {name}: {json.dumps(found)}", flush=True)
    if options.json:
        temporary = RESULTS.with_suffix(".tmp")
        temporary.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        temporary.replace(RESULTS)


if __name__ == "__main__":
    main()
