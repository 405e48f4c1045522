"""Exact cosine top-k of every scan against its peers: answers first, then ratios of one run.

    python bench/cosine_topk.py --json bench/results/cosine_topk.json     # up to 15 minutes
    python bench/cosine_topk.py --quick
    python bench/cosine_topk.py --embeddings mine.npy

Our scans must agree to the bit with each other and, for some queries, with the oracle of the tests.
A peer must find the same passages, but for those whose similarity is that of the k-th within what
float32 sums may be off. Then all are timed in turn (interleave.py), each in the configuration that
was fastest in a trial of this very case. Peers get unit rows, prepared outside the time; ours takes
the rows as they are.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import embeddings
import machine
import peers
from answers import WrongAnswerError, check_ours, check_peer
from contenders import ONCE, batches, best_core_type, our_process, peer_process
from interleave import IDLE_SECONDS, Process, interleaved

Name = tuple[str, str]  # contender and SIMD level; "" for a peer

QUERIES = (1, 16, 256, 1024)
K = (20, 1000)
# At large k, so many queries, and these peers.
QUERIES_AT_LARGE_K = (1, 256)
PEERS_AT_LARGE_K = ("numpy", "torch", "FAISS", "FAISS Panorama")
TRIED_TWICE_S = 0.5
# Lower SIMD levels run on one thread, and up to so many queries.
MOST_QUERIES_AT_LEVEL = {"avx2": 256, "scalar": 16}
FEW_QUERIES = 16
HOPELESS = 3  # a peer so many times slower than another is not run with more queries,
ALWAYS = ("numpy", "torch", "FAISS")  # but these are
# Groups that share a process, and the environment of those that want one.
GROUPS: dict[str, tuple[str, ...]] = {
    "FAISS default": ("FAISS default",),
    "FAISS": ("FAISS", "FAISS Panorama"),
    "arrays": ("numpy", "torch", "usearch", "NumKong", "scikit-learn"),
}


# ---- the cases --------------------------------------------------------------------------------


class Arena:
    """The processes of all contenders over one set of rows, with one number of threads."""

    def __init__(
        self,
        data: tuple[np.memmap, np.memmap],
        scans: Sequence[str],
        wanted: Sequence[str],
        n_threads: int,
        core_type: str | None,
    ) -> None:
        self.passages, self.queries = data
        files = str(self.passages.filename), str(self.queries.filename)
        self.ours = Process(our_process, *files, scans, n_threads=n_threads)
        self.facts: dict[str, Any] = {"ours": self.ours.ask("facts"), "peers": {}, "blas": {}}
        self.processes: dict[str, Process] = {}
        for group, members in GROUPS.items():
            names = [name for name in members if name in wanted]
            if names:
                own = {"OPENBLAS_CORETYPE": core_type} if core_type and group == "FAISS" else {}
                process = Process(
                    peer_process, *files, names, n_threads, n_threads=n_threads, environment=own
                )
                facts = process.ask("facts")
                self.facts["peers"] |= facts["peers"]
                self.facts["blas"][group] = facts["blas"]
                present = [name for name in names if "missing" not in facts["peers"][name]]
                self.processes |= dict.fromkeys(present, process)
        self.n_threads = n_threads
        self.seconds_a_query: dict[Name, float] = {}

    def close(self) -> None:
        for process in {self.ours, *self.processes.values()}:
            process.close()

    def process(self, name: Name) -> Process:
        return self.ours if name[1] else self.processes[name[0]]

    def configure(self, name: Name, n_queries: int, k: int) -> None:
        """Choose a peer's fastest configuration by a trial of each; the answer stays there."""
        process = self.process(name)
        settings = process.ask("configurations", name, n_queries, k)
        trials = {}
        for setting in settings:
            process.ask("configure", name, n_queries, k, setting)
            trials[setting] = process.ask("search", name, n_queries, k)
            if len(settings) > 1 and trials[setting][0] < TRIED_TWICE_S:
                trials[setting] = min(trials[setting], process.ask("search", name, n_queries, k))
        # Wall time of one thread is CPU time but for what else the machine does.
        by_cpu = self.n_threads == 1
        best = min(trials, key=lambda setting: trials[setting][by_cpu])
        if setting != best:
            process.ask("configure", name, n_queries, k, best)
            process.ask("search", name, n_queries, k)
        if n_queries >= FEW_QUERIES and k == K[0]:
            self.seconds_a_query[name] = trials[best][by_cpu] / n_queries

    def why_not(self, name: Name, n_queries: int, most_seconds: float) -> str:
        """Say why a contender is left out; empty if it is not. Known from fewer queries."""
        known = self.seconds_a_query
        if name not in known:
            return ""
        if known[name] * n_queries > most_seconds:
            return f"a call would take about {known[name] * n_queries:.0f} s"
        fastest = min(seconds for other, seconds in known.items() if not other[1])
        hopeless = name[0] not in ALWAYS and known[name] > HOPELESS * fastest
        if not name[1] and n_queries > FEW_QUERIES and hopeless:
            return f"took {known[name] / fastest:.1f} times as long as the fastest peer before"
        return ""

    def case(
        self, names: Sequence[Name], n_queries: int, k: int, options: argparse.Namespace
    ) -> list[dict[str, Any]]:
        """Check the answers of all, then time them: a row for each."""
        rows, running = [], {}
        queries = np.array(self.queries[: batches(n_queries) * n_queries])
        exact = None
        for name in names:
            row = {"contender": name[0], "level": name[1], "n_queries": n_queries, "k": k}
            why_not = self.why_not(name, n_queries, options.most_seconds)
            if why_not:
                rows.append(row | {"not_run": why_not})
                continue
            self.configure(name, n_queries, k)
            *answer, notes = self.process(name).ask("answer", name, n_queries, k)
            if exact is None:
                exact = answer
                check_ours(exact, queries, self.passages)
            if not name[1]:
                notes |= check_peer(answer, exact, queries, self.passages)
            elif not all(np.array_equal(a, b) for a, b in zip(answer, exact, strict=True)):
                raise WrongAnswerError(f"{name} differs from {names[0]}: {n_queries} queries, {k=}")
            running[name] = row | notes
        calls = {
            name: partial(self.process(name).ask, "search", name, n_queries, k) for name in running
        }
        # With one thread a call leaves no threads behind that spin.
        idle = IDLE_SECONDS if self.n_threads > 1 else IDLE_SECONDS / 8
        times = interleaved(calls, options.rounds, options.budget, idle)
        return rows + [row | times[name].summary() for name, row in running.items()]


def cases(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Give every set of rows with its cases, in the order in which they run."""
    every: list[dict[str, Any]] = [
        {"data": "text" if options.embeddings is None else "file"}
        | {"dim": dim, "n_threads": n_threads}
        for n_threads in options.threads
        for dim in options.dims
    ]
    if not options.quick and options.embeddings is None:
        # The worst case, and only what stands at the top elsewhere.
        worst = {"data": "normal", "dim": options.dims[0], "n_threads": 1, "queries": (1, 256)}
        every.append(worst | {"peers": ("numpy", "FAISS", "FAISS Panorama"), "k": (20,)})
    return every


def rows_of(case: dict[str, Any], options: argparse.Namespace) -> Any:
    """Give passages, queries and their name."""
    if options.embeddings is not None:
        return embeddings.from_file(options.embeddings, max(64, *options.queries))
    make = embeddings.worst_case if case["data"] == "normal" else embeddings.realistic
    return make(options.passages, case["dim"], max(QUERIES))


def run_case(
    case: dict[str, Any], options: argparse.Namespace, core_type: str | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run all queries and k of one set of rows; rows, and the facts of its contenders."""
    passages, queries, named = rows_of(case, options)
    arena = Arena(
        (passages, queries),
        options.scans,
        case.get("peers", options.peers),
        case["n_threads"],
        core_type,
    )
    found = []
    try:
        *lower, best = arena.facts["ours"]["levels"]
        for n_queries in case.get("queries", options.queries):
            for k in case.get("k", options.k):
                if k > 100 and n_queries not in QUERIES_AT_LARGE_K:
                    continue
                levels = [best]
                with_lower = case["n_threads"] == 1 and case["data"] != "normal" and k == K[0]
                if options.levels and with_lower:
                    most = MOST_QUERIES_AT_LEVEL
                    levels += [level for level in lower if n_queries <= most.get(level, 0)]
                # ONCE is for many queries.
                scans = [scan for scan in options.scans if scan != ONCE or n_queries > 1]
                names = [(scan, level) for level in levels for scan in scans]
                names = [name for name in names if name[0] != ONCE or name[1] == best]
                names += [
                    (peer, "") for peer in arena.processes if k <= 100 or peer in PEERS_AT_LARGE_K
                ]
                rows = arena.case(names, n_queries, k, options)
                found += [
                    {"data": case["data"], "dim": int(passages.shape[1])}
                    | {"n_threads": case["n_threads"]}
                    | row
                    for row in rows
                ]
                print(summary(found[-len(rows) :]), flush=True)
    finally:
        arena.close()
    return found, arena.facts | {
        "rows_are": named,
        "n_passages": len(passages),
        "dim": found[0]["dim"],
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """Give one line of a case: our first scan, and how many times longer each other took."""
    ours, *others = [row for row in rows if "median_ms" in row]
    line = f"{ours['data']} {ours['dim']}, {ours['n_threads']} threads, B={ours['n_queries']} "
    line += (
        f"k={ours['k']}: {ours['contender']} {ours['median_ms']:.2f} ms (CPU {ours['cpu_ms']:.2f})"
    )
    for row in others:
        level = f" {row['level']}" if row["level"] not in ("", ours["level"]) else ""
        line += f", {row['contender']}{level} ×{row['median_ms'] / ours['median_ms']:.2f}"
        line += f" (CPU ×{row['cpu_ms'] / ours['cpu_ms']:.2f})"
    return line


def parsed() -> argparse.Namespace:
    """Read the command line."""
    from epibias.retrieval import SCANS

    def integers(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(",")))

    def words(text: str) -> tuple[str, ...]:
        return tuple(text.split(","))

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--quick", action="store_true", help="50,000 passages, few cases")
    parser.add_argument(
        "--embeddings", type=Path, help="float32 [n, dim] .npy instead of drawn rows"
    )
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--dims", type=integers, default=(384, 768))
    parser.add_argument("--threads", type=integers, default=(1, 2))
    parser.add_argument("--queries", type=integers, default=QUERIES)
    parser.add_argument("--k", type=integers, default=K)
    parser.add_argument(
        "--scans", type=words, default=(*SCANS, ONCE), help="ours; the first is the base"
    )
    parser.add_argument("--peers", type=words, default=tuple(peers.PEERS))
    parser.add_argument("--levels", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for one in one case")
    parser.add_argument(
        "--most-seconds", type=float, default=5.0, help="a call; longer is left out"
    )
    options = parser.parse_args()
    if options.quick:
        options.passages, options.dims, options.threads = 50_000, (384,), (1,)
        options.queries, options.k, options.rounds = (1, 16, 256), (20,), 3
    if options.embeddings is not None:
        options.dims = (0,)  # the file's own
    return options


def as_text(results: dict[str, Any]) -> str:
    """Give results as JSON with a line for each row, so that two runs can be compared."""
    lines = ",\n  ".join(json.dumps(row) for row in results["rows"])
    head = json.dumps({**results, "rows": []}, indent=1)
    return head.replace('"rows": []', f'"rows": [\n  {lines}\n ]') + "\n"


def main() -> None:
    """Run, print, and write the results."""
    options = parsed()
    where = machine.facts()
    for case in cases(options):
        rows_of(case, options)  # drawn or cached now, not in the time that is reported
    started = time.perf_counter()
    core_type, core_types = best_core_type()
    results: dict[str, Any] = {
        "bench": "cosine_topk",
        "command": "python bench/cosine_topk.py " + " ".join(sys.argv[1:]),
        "machine": where,
        "peers": peers.versions(),
        "faiss_core_types": {"taken": core_type or "its own choice", "tried": core_types},
        "sets": [],
        "rows": [],
    }
    print(json.dumps({name: results[name] for name in ("machine", "peers", "faiss_core_types")}))
    if not options.quick and options.embeddings is None:
        results["drawn_rows"] = embeddings.compare(options.passages)
    for case in cases(options):
        rows, facts = run_case(case, options, core_type)
        results["rows"] += rows
        results["sets"].append(case | facts)
        results["minutes"] = round((time.perf_counter() - started) / 60, 1)
        if options.json is not None:  # after each set: a run that is stopped leaves what it has
            temporary = options.json.with_suffix(".tmp")
            temporary.write_text(as_text(results), encoding="utf-8")
            temporary.replace(options.json)
    print(f"{results['minutes']} minutes")


if __name__ == "__main__":
    main()
