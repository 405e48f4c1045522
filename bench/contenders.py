"""What runs in the processes of cosine_topk.py: our scans, peers, and a trial of FAISS's BLAS.

Each function is called in a process of its own and gives what answers its requests:
("facts"), ("configurations", name, n_queries, k), ("configure", name, n_queries, k, setting),
("search", name, n_queries, k) → wall and CPU seconds, ("answer", name, n_queries, k).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import embeddings
import peers
from interleave import Handler, Process, timed

ONCE = "int8 once"  # codes of 8 bits made on the way, for one search
SINGLE_QUERIES = 8


def our_process(passages: str, queries: str, scans: Sequence[str]) -> Handler:
    """Serve our scans over the rows in a file; ONCE is the search that finds no codes made."""
    from epibias import Candidates, CosineIndex, _core, kernels, kernels_quantized

    rows, asked = np.array(np.load(passages)), np.array(np.load(queries))
    searches, facts = {}, {}
    for scan in scans:
        if scan == ONCE:
            continue
        index, seconds, _ = timed(partial(CosineIndex, rows, scan))
        searches[scan] = index.search
        per_passage = index.diagnostics["bytes_beside_the_embeddings"] / len(rows)
        facts[scan] = {"prepare_s": round(seconds, 2), "bytes_a_passage": round(per_passage, 1)}
    if ONCE in scans:
        norms, seconds, _ = timed(partial(kernels.inverse_norms, rows))
        facts[ONCE] = {"prepare_s": round(seconds, 2), "bytes_a_passage": 8.0}

        def once(some: embeddings.Rows, k: int) -> Candidates:
            indices, similarities, n_rescored, _ = kernels_quantized.quantized_scan_once(
                some, rows, k, norms
            )
            return Candidates(indices, similarities, {"scan": ONCE, "n_rescored": n_rescored})

        searches[ONCE] = once
    answers: dict[Any, Any] = {}

    def handle(name: str, request: tuple[Any, ...]) -> Any:
        if name == "facts":
            return {"scans": facts, "levels": _core.simd_levels(), "threads": _core.n_threads()}
        (scan, level), n_queries, k, *_ = request
        if name == "configurations":
            return [""]
        if name == "configure":
            return None
        if name == "answer":
            found = answers[scan, level]
            arrays = [(one.indices, one.similarities) for one in found]
            return *stacked(arrays), dict(found[0].diagnostics)
        _core.set_simd_level(level)
        found, wall, cpu = in_batches(searches[scan], asked, n_queries, k)
        answers[scan, level] = found
        return wall, cpu

    return handle


def peer_process(passages: str, queries: str, names: Sequence[str], n_threads: int) -> Handler:
    """Serve peers over the rows in a file, scaled to unit length here."""
    rows, asked = unit(np.load(passages)), unit(np.load(queries))
    made, facts, chosen, answers = {}, {}, {}, {}
    for name in names:
        try:
            made[name], seconds, _ = timed(partial(peers.PEERS[name], rows, n_threads))
            facts[name] = {"prepare_s": round(seconds, 2)}
        except ImportError as missing:
            facts[name] = {"missing": str(missing)}
    blas = peers.blas()

    def handle(name: str, request: tuple[Any, ...]) -> Any:
        if name == "facts":
            return {"peers": facts, "blas": blas}
        (peer, _), n_queries, k, *more = request
        if name == "configurations":
            return list(made[peer].configurations(n_queries, k))
        if name == "configure":
            (chosen[peer],) = more
            return None
        if name == "answer":
            return *stacked(answers[peer]), {"configuration": str(chosen[peer])}
        search = partial(made[peer].search, configuration=chosen[peer])
        answers[peer], wall, cpu = in_batches(search, asked, n_queries, k)
        return wall, cpu

    return handle


def in_batches(
    search: Callable[..., Any], queries: embeddings.Rows, n_queries: int, k: int
) -> tuple[list[Any], float, float]:
    """Time `search` on the first batches of queries; answers, and mean wall and CPU seconds."""
    n_batches = batches(n_queries)
    some = np.split(queries[: n_batches * n_queries], n_batches)
    found, wall, cpu = timed(lambda: [search(batch, k) for batch in some])
    return found, wall / n_batches, cpu / n_batches


def batches(n_queries: int) -> int:
    """Give how many batches are one measurement: bounds prune more for one query than another."""
    return max(1, SINGLE_QUERIES // n_queries)


def stacked(found: list[Any]) -> tuple[np.ndarray, ...]:
    """Give indices and similarities of all batches."""
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def core_type_process() -> Handler:
    """Serve the time of FAISS's BLAS under the environment of this process."""
    return lambda name, request: (peers.faiss_milliseconds(), peers.blas())


def unit(rows: embeddings.Rows) -> embeddings.Rows:
    """Give a copy of the rows, scaled to unit length."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def best_core_type() -> tuple[str | None, dict[str, Any]]:
    """Try the core types of FAISS's BLAS: the fastest (None: its own choice), and all figures."""
    seen: dict[str, Any] = {}
    for core_type in (None, *peers.CORE_TYPES):
        environment = {"OPENBLAS_CORETYPE": core_type} if core_type else {}
        try:
            process = Process(core_type_process, n_threads=1, environment=environment)
            milliseconds, blas = process.ask("time")
            process.close()
            seen[core_type or "its own choice"] = {"ms": round(milliseconds, 1), "blas": blas}
        except RuntimeError as error:  # not installed, or instructions that there are not
            seen[core_type or "its own choice"] = {"failed": str(error).splitlines()[-1]}
    timed_ones = {name: found["ms"] for name, found in seen.items() if "ms" in found}
    best = min(timed_ones, key=timed_ones.__getitem__, default=None)
    return (best if best in peers.CORE_TYPES else None), seen
