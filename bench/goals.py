"""The speed goals of the CPU core beside what the results files say was reached; for tables.py.

A goal is met by the worst case it speaks of: the slowest ratio over dimensions and peers, the
largest time. Nothing here is measured; a result that is missing is said to be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from stage_tables import figure, markdown

Found = dict[str, dict[str, Any] | None]
FLAT = ("numpy", "torch", "FAISS", "usearch", "NumKong", "scikit-learn")
PANORAMA = ("FAISS Panorama",)


@dataclass(frozen=True)
class Goal:
    """What was aimed at, in which results file it is found, and how.

    `reached` gives the values of all cases the goal speaks of, each with its name.
    """

    what: str
    results: str
    limit: float
    at_least: bool
    reached: Callable[[dict[str, Any]], dict[str, float]]

    def line(self, found: Found) -> list[str]:
        """Give the goal's line of the table."""
        sign = "≥" if self.at_least else "≤"
        aim = f"{sign} {figure(self.limit)}"
        results = found.get(self.results)
        values = self.reached(results) if results else {}
        if not values:
            return [self.what, aim, "not measured", "no"]
        worst = (min if self.at_least else max)(values, key=lambda name: values[name])
        value = values[worst]
        met = value >= self.limit if self.at_least else value <= self.limit
        return [self.what, aim, f"{figure(value)} ({worst})", "yes" if met else "**no**"]


def ratios(
    peers: Iterable[str], n_threads: int, n_queries: Iterable[int], k: int, dims: Iterable[int]
) -> Callable[[dict[str, Any]], dict[str, float]]:
    """Look up how many times as long each peer took as `scan="auto"`."""
    peers, n_queries, dims = tuple(peers), tuple(n_queries), tuple(dims)

    def reached(results: dict[str, Any]) -> dict[str, float]:
        best = results["machine"]["simd_levels"][-1]
        times = {
            (row["dim"], row["n_queries"], row["contender"]): row["median_ms"]
            for row in results["rows"]
            if row["data"] != "normal"
            and (row["n_threads"], row["k"]) == (n_threads, k)
            and row["level"] in ("", best)
            and "median_ms" in row
        }
        return {
            f"{peer}, dim {dim}, {n} {'query' if n == 1 else 'queries'}": times[dim, n, peer]
            / times[dim, n, "auto"]
            for dim in dims
            for n in n_queries
            for peer in peers
            if (dim, n, peer) in times
        }

    return reached


def sweeps(
    n: int, value: Callable[[dict[str, Any]], float]
) -> Callable[[dict[str, Any]], dict[str, float]]:
    """Look up one number of the float32 sweep of `n` candidates at the best level."""

    def reached(results: dict[str, Any]) -> dict[str, float]:
        best = results["machine"]["simd_levels"][-1]
        return {
            f"{sweep['level']}, n = {n}": value(sweep)
            for sweep in results["sweeps"]
            if (sweep["n"], sweep["level"]) == (n, best)
        }

    return reached


def permutations(results: dict[str, Any]) -> dict[str, float]:
    """Look up the microseconds of 999 permutations of a pool of 20."""
    at_best = results["permutations"][0]
    return {f"{kind} pool": at_best[kind]["999, float32"] for kind in ("clean", "leaning")}


def binned(results: dict[str, Any]) -> dict[str, float]:
    """Look up the milliseconds of a binned sweep of 1e5 candidates."""
    return {"binned": results["binned_milliseconds"][0]["100000"]}


def axis(results: dict[str, Any]) -> dict[str, float]:
    """Look up the microseconds of a topic of 8 anchors of 1024 columns."""
    wanted = [case for case in results["cases"] if "topics of 8 x 1024" in case["case"]]
    return {
        name: facts["cpu_us_a_topic"]
        for case in wanted
        for name, facts in case["contenders"].items()
        if name.startswith("epibias")
    }


def biasdef(results: dict[str, Any]) -> dict[str, float]:
    """Look up the 99th percentile of one query's selection from candidate vectors."""
    goal = results["goal"]
    same = ("n_queries", "dim", "pool")
    return {
        f"dim {case['dim']}, {case['pool']} candidates": case["fused"]["wall_p99_us"]
        for case in results["cases"]
        if all(case[name] == goal[name] for name in same)
    }


BOTH = (384, 768)
ALL = FLAT + PANORAMA


def search(
    what: str,
    limit: float,
    peers: Iterable[str],
    n_queries: Iterable[int] = (1,),
    *,
    n_threads: int = 1,
    k: int = 20,
    dims: Iterable[int] = BOTH,
) -> Goal:
    """Make a goal of how many times as long as ours some peers' searches take."""
    name = f"{what}, k = {k}, {n_threads} thread{'s' * (n_threads > 1)}, ×"
    return Goal(name, "cosine_topk", limit, True, ratios(peers, n_threads, n_queries, k, dims))


def sweep(what: str, limit: float, at_least: bool, *path: str) -> Goal:
    """Make a goal of one number of the sweep of 20 candidates."""

    def value(of_sweep: dict[str, Any]) -> float:
        found: Any = of_sweep
        for name in path:
            found = found[name]
        return float(found)

    return Goal(what, "threshold_sweep", limit, at_least, sweeps(20, value))


GOALS = (
    search("flat peers, 1 query", 6, FLAT),
    search("Panorama, 1 query, dim 384", 2.5, PANORAMA, dims=(384,)),
    search("Panorama, 1 query, dim 768", 2, PANORAMA, dims=(768,)),
    search("numpy, 1 query", 4, ("numpy",), n_threads=2),
    search("Panorama, 1 query", 3, PANORAMA, n_threads=2),
    search("all peers, 16 queries", 6.5, ALL, (16,)),
    search("all peers, 256 and 1024 queries", 4, ALL, (256, 1024)),
    search("flat peers, 1 query", 3, FLAT, k=1000),
    search("Panorama, 1 query", 3, PANORAMA, k=1000),
    search("all peers, 256 queries", 3, ALL, (256,), k=1000),
    sweep("sweep of 20 candidates, µs", 1, False, "microseconds", "float32"),
    sweep("the SciPy loop, 20 candidates, ×", 40_000, True, "ratio_to_float32", "scipy"),
    sweep("share of the sweep's floor", 0.6, True, "floor", "share_reached"),
    Goal("sweep of 1e5 candidates, ms", "threshold_sweep", 1.5, False, binned),
    Goal("999 permutations, 20 candidates, µs", "threshold_sweep", 300, False, permutations),
    Goal("axis of a topic, 8 × 1024, µs", "polarization_axis", 12, False, axis),
    Goal("BiasDef of one query, p99, µs", "biasdef_select", 100, False, biasdef),
)


def table(found: Found) -> str:
    """Give the table of all goals."""
    columns = ["goal", "aim", "reached, in the worst case", "met"]
    return markdown(columns, [goal.line(found) for goal in GOALS])
