"""A stress run: make or open a corpus on disk, search it memory-mapped, check every answer.

In: a plan and a data folder. Out: one document of plain values. Owns the order of the steps and
what is measured of each; the corpus, the index, the check and the memory have modules of their own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _validate, kernels
from epibias._validate import Float32Array
from epibias.costs import corpus_file, stress_index
from epibias.costs.clock import seconds_of
from epibias.costs.data_folder import DataFolder
from epibias.costs.embeddings import opened_embeddings
from epibias.costs.exactness import Answer, compared, true_answers
from epibias.costs.linearity import linearity
from epibias.costs.memory import PeakMemory, resident_memory
from epibias.costs.synthetic import ROWS_MULTIPLE, SyntheticRows, queries_near
from epibias.errors import InputError
from epibias.experiment.listener import Listener, Silent
from epibias.experiment.manifest import environment, now
from epibias.retrieval import SCANS, CosineIndex

FORMAT = 1
DEFAULT_SHARES = (0.1, 0.2, 0.5, 1.0)
PASSED, FAILED, NOT_ASKED = "passed", "failed", "not asked"


@dataclass(frozen=True)
class StressPlan:
    """What a stress run makes, searches and asks for.

    Parameters
    ----------
    n_passages, dim, seed : int
        Of the synthetic corpus; `n_passages` and `dim` of the file with `embeddings`.
    points : tuple of int
        Numbers of passages that are searched, ascending: multiples of 64, or all of them.
    k : int
        Passages to find; at most the smallest point.
    n_check : int
        Queries whose answers are checked, at every point.
    n_timed : int
        How many of these are timed, one a call.
    rounds : int
        Times that each of them is timed, after a first that is not.
    scan : str
        Of `CosineIndex`.
    memory_limit : int, optional
        Bytes of anonymous memory that the run may hold.
    linear_within : float, optional
        Largest share by which a time may differ from proportional to the number of passages; needs
        two points.
    embeddings : Path, optional
        A corpus of one's own, float32 .npy, instead of the synthetic one.

    Raises
    ------
    InputError
        A number out of range, `k` above `n_passages`, points that are not as said, a limit on a
        system that does not tell its memory.
    """

    n_passages: int
    dim: int
    points: tuple[int, ...]
    seed: int = 0
    k: int = 20
    n_check: int = 200
    n_timed: int = 20
    rounds: int = 5
    scan: str = "auto"
    memory_limit: int | None = None
    linear_within: float | None = None
    embeddings: Path | None = None

    def __post_init__(self) -> None:
        counts = {"passages": self.n_passages, "dim": self.dim, "k": self.k}
        counts |= {"check": self.n_check, "timed": self.n_timed, "rounds": self.rounds}
        for name, value in counts.items():
            _validate.integer(name, value, low=1)
        _validate.integer("seed", self.seed, low=0)
        _validate.choice("scan", self.scan, SCANS)
        if self.linear_within is not None:
            _validate.number("linear_within", self.linear_within, above=0)
        if self.memory_limit is not None and resident_memory() is None:
            expected = "a system whose /proc/self/status tells anonymous memory"
            raise InputError("memory_limit", expected, "none")
        if self.k > self.n_passages:
            expected = f"1 to {self.n_passages} (the number of passages)"
            raise InputError("k", expected, str(self.k))
        for point in self.points:
            if not self.k <= point <= self.n_passages or (
                point % ROWS_MULTIPLE and point != self.n_passages
            ):
                expected = (
                    f"multiples of {ROWS_MULTIPLE} from k = {self.k} on, or all "
                    f"{self.n_passages} passages"
                )
                raise InputError("points", expected, str(point))
        if list(self.points) != sorted(set(self.points)) or not self.points:
            raise InputError("points", "one or more, ascending", str(list(self.points)))
        if self.linear_within is not None and len(self.points) < 2:
            found = f"one, {self.points[0]}, which tells nothing of growth"
            raise InputError("points", "two or more with linear_within", found)

    @property
    def data_settings(self) -> dict[str, Any]:
        """What decides the files in the data folder."""
        if self.embeddings is None:
            source: dict[str, Any] = {"source": "synthetic", "seed": self.seed}
        else:
            status = self.embeddings.stat()
            source = {"source": self.embeddings.name, "bytes": status.st_size}
            source["mtime_ns"] = status.st_mtime_ns
        shape = {"n_passages": self.n_passages, "dim": self.dim}
        return {"format": FORMAT, **source, **shape, "scan": self.scan}

    def bytes_to_write(self, data: DataFolder) -> int:
        """Bytes that the data folder still has to take, at most."""
        n_bytes = stress_index.index_bytes(self.n_passages, self.dim, self.scan)
        if self.embeddings is None:
            n_bytes += corpus_file.bytes_missing(data.corpus, self.n_passages, self.dim)
        return n_bytes


def default_points(n_passages: int, k: int) -> tuple[int, ...]:
    """Give a tenth, a fifth, half and all of the passages, in multiples of 64.

    Examples
    --------
    >>> default_points(10_000_000, 20)
    (1000000, 2000000, 5000000, 10000000)
    """
    shares = [int(n_passages * share) // ROWS_MULTIPLE * ROWS_MULTIPLE for share in DEFAULT_SHARES]
    return tuple(sorted({point for point in [*shares[:-1], n_passages] if point >= k}))


def run_stress(
    plan: StressPlan, data: DataFolder, listener: Listener | None = None
) -> dict[str, Any]:
    """Run a plan in a data folder, which the caller holds and clears.

    Parameters
    ----------
    plan : StressPlan
    data : DataFolder
        Locked and opened for the plan's `data_settings`.
    listener : Listener, optional

    Returns
    -------
    dict
        Ready for JSON: plan, environment, corpus, index, points, linearity, exactness, memory,
        verdicts, seconds.
    """
    listener = listener or Silent()
    begun, started = time.perf_counter(), now()
    peak = PeakMemory()
    with peak.phase("corpus"):
        passages, corpus = _corpus(plan, data, listener)
    with peak.phase("index"):
        seconds, index = seconds_of(
            lambda: stress_index.make_index(passages, data.index, plan.scan, listener)
        )
        indexes = {point: index.prefix(point) for point in plan.points}
    about_index = {
        "scan": index.scan,
        "seconds": seconds,
        "bytes_beside_the_embeddings": index.diagnostics["bytes_beside_the_embeddings"],
    }
    queries = queries_near(passages[: plan.points[0]], plan.n_check, plan.seed)
    with peak.phase("search"):
        points, answers = _time_points(indexes, queries, plan, listener)
        answers += _search_batches(indexes, queries, plan.k, points)
    listener.start("checking against float64", plan.points[-1])
    with peak.phase("check"):
        seconds, truth = seconds_of(
            lambda: true_answers(queries, passages, plan.k, plan.points, listener.advance)
        )
    exactness = {
        "n_queries": plan.n_check,
        "n_single": min(plan.n_timed, plan.n_check),
        "n_points": len(plan.points),
        **compared(answers, truth),
        "seconds": seconds,
    }
    line = linearity(plan.points, [point["ms"] for point in points])
    return {
        "made_by": "epibias stress",
        "format": FORMAT,
        "started": started,
        "plan": _plain_plan(plan),
        "environment": environment(),
        "n_threads": kernels.backend_info()["n_threads"],
        "corpus": corpus,
        "index": about_index,
        "points": points,
        "linearity": line,
        "exactness": exactness,
        "memory": _about_memory(peak),
        "verdicts": _verdicts(plan, exactness, line, peak.anonymous),
        "seconds": time.perf_counter() - begun,
    }


def _corpus(
    plan: StressPlan, data: DataFolder, listener: Listener
) -> tuple[Float32Array, dict[str, Any]]:
    """Map the corpus from disk; the synthetic one is written first, as far as it is not there."""
    about: dict[str, Any] = {"n_passages": plan.n_passages, "dim": plan.dim}
    if plan.embeddings is None:
        listener.start("writing the corpus", plan.n_passages)
        rows = SyntheticRows(plan.seed, plan.dim)
        seconds, n_before = seconds_of(
            lambda: corpus_file.write_corpus(data.corpus, rows, plan.n_passages, listener.advance)
        )
        about |= {"source": "synthetic", "n_before": n_before, "seconds": seconds}
        path = data.corpus
    else:
        path = plan.embeddings
        about |= {"source": path.name, "n_before": plan.n_passages, "seconds": 0.0}
    about["bytes"] = path.stat().st_size
    return opened_embeddings(path), about


def _time_points(
    indexes: Mapping[int, CosineIndex],
    queries: Float32Array,
    plan: StressPlan,
    listener: Listener,
) -> tuple[list[dict[str, Any]], list[Answer]]:
    """Time single queries at every point, one point after the other, round after round.

    Other work on the machine only ever adds time, so a query counts with its fastest round. The
    first round is not timed: it brings codes and rows into memory, and its answers are kept.
    """
    n_timed = min(plan.n_timed, len(queries))
    shape = plan.rounds, n_timed
    wall = {point: np.empty(shape) for point in indexes}
    cpu = {point: np.empty(shape) for point in indexes}
    answers, scan_of = [], {}
    listener.start("searching", (plan.rounds + 1) * n_timed)
    for number in range(plan.rounds + 1):
        for query in range(n_timed):
            for point, index in indexes.items():
                before, cpu_before = time.perf_counter(), time.process_time()
                found = index.search(queries[query : query + 1], plan.k)
                if number:
                    wall[point][number - 1, query] = time.perf_counter() - before
                    cpu[point][number - 1, query] = time.process_time() - cpu_before
                else:
                    answers.append(Answer(point, query, found.indices, found.similarities))
                scan_of[point] = found.diagnostics["scan"]
            listener.advance(1)
    return [
        {
            "n_passages": point,
            "scan": scan_of[point],
            "ms": 1e3 * float(wall[point].min(axis=0).mean()),
            "cpu_ms": 1e3 * float(cpu[point].min(axis=0).mean()),
            "p50_ms": 1e3 * float(np.percentile(wall[point], 50)),
            "p95_ms": 1e3 * float(np.percentile(wall[point], 95)),
            "n_calls": wall[point].size,
        }
        for point in indexes
    ], answers


def _search_batches(
    indexes: Mapping[int, CosineIndex],
    queries: Float32Array,
    k: int,
    points: Sequence[dict[str, Any]],
) -> list[Answer]:
    """Search for all queries in one call at every point; adds the time to the point."""
    answers = []
    for point, (n_passages, index) in zip(points, indexes.items(), strict=True):
        begun = time.perf_counter()
        found = index.search(queries, k)
        seconds = time.perf_counter() - begun
        point["batch_size"], point["batch_ms"] = len(queries), 1e3 * seconds
        point["batch_scan"] = found.diagnostics["scan"]
        point["batch_queries_per_second"] = len(queries) / seconds
        answers.append(Answer(n_passages, 0, found.indices, found.similarities))
    return answers


def _verdicts(
    plan: StressPlan,
    exactness: Mapping[str, Any],
    line: Mapping[str, Any],
    anonymous: int | None,
) -> dict[str, str]:
    def verdict(asked: bool, good: bool) -> str:
        return NOT_ASKED if not asked else PASSED if good else FAILED

    limit, within, largest = plan.memory_limit, plan.linear_within, line["largest_deviation"]
    return {
        "exact": verdict(True, exactness["n_wrong"] == 0),
        "memory": verdict(limit is not None, _is_within(anonymous, limit)),
        "linear": verdict(within is not None, _is_within(largest, within)),
    }


def _is_within(found: float | None, limit: float | None) -> bool:
    """Compare; what was not measured shows nothing."""
    return found is not None and limit is not None and found <= limit


def _about_memory(peak: PeakMemory) -> dict[str, Any]:
    phases = {name: None if one is None else asdict(one) for name, one in peak.phases.items()}
    return {"peak_anonymous": peak.anonymous, "phases": phases}


def _plain_plan(plan: StressPlan) -> dict[str, Any]:
    name = None if plan.embeddings is None else plan.embeddings.name
    return {**asdict(plan), "points": list(plan.points), "embeddings": name}
