"""A memory-mapped corpus is searched within a memory limit far below its size, exactly.

A child process maps 6 GiB of passages, allows itself 512 MiB of data (RLIMIT_DATA: everything but
mapped files) beyond what the imports took, and searches. The ids are compared with float64 cosines
of every passage, computed chunk by chunk.

    python bench/check_memory_mapped.py
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DIM = 384
N_PASSAGES = 4 * 1024 * 1024
N_QUERIES, K = 8, 20
CHUNK = 65_536
LIMIT = 512 * 1024 * 1024
SEED = 20_251_204


def write_corpus(path: Path) -> None:
    """Write the passages, a chunk at a time; every 1,000th repeats the first, so there are ties."""
    rng = np.random.default_rng(SEED)
    shape = (N_PASSAGES, DIM)
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, N_PASSAGES, CHUNK):
        rows[start : start + CHUNK] = rng.standard_normal((CHUNK, DIM), dtype=np.float32)
    rows[::1_000] = rows[0]
    rows.flush()


def queries(rows: np.ndarray) -> np.ndarray:
    """Draw the queries: the repeated passage, and random ones."""
    drawn = np.random.default_rng(SEED + 1).standard_normal((N_QUERIES, DIM), dtype=np.float32)
    drawn[0] = rows[0]
    return drawn


def anonymous_bytes() -> int:
    """Memory of this process that is not a mapped file."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmData"))
    return int(line.split()[1]) * 1024


def search(path: str) -> None:
    """Search under the limit; the child's part. Prints ids and what it took."""
    import epibias as eb

    rows = np.load(path, mmap_mode="r")
    drawn = queries(rows)
    eb.CosineIndex(rows[:1_000]).search(drawn, k=K)  # wakes the threads, before the limit
    before = anonymous_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (before + LIMIT, before + LIMIT))
    started = time.perf_counter()
    found = eb.CosineIndex(rows).search(drawn, k=K)
    seconds = time.perf_counter() - started
    grown = anonymous_bytes() - before
    print(json.dumps({"ids": found.indices.tolist(), "seconds": seconds, "grown": grown}))


def expected_ids(rows: np.ndarray) -> np.ndarray:
    """Ids by float64 cosines rounded to float32, chunk by chunk: similarity, then index."""
    drawn = queries(rows).astype(np.float64)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    similarities = np.empty((N_QUERIES, N_PASSAGES), np.float32)
    for start in range(0, N_PASSAGES, CHUNK):
        chunk = rows[start : start + CHUNK].astype(np.float64)
        chunk /= np.linalg.norm(chunk, axis=1, keepdims=True)
        similarities[:, start : start + CHUNK] = drawn @ chunk.T
    return np.stack([np.lexsort((np.arange(N_PASSAGES), -row))[:K] for row in similarities])


def run() -> dict[str, Any]:
    """Write, search under the limit, compare."""
    with tempfile.TemporaryDirectory(prefix="epibias-") as folder:
        path = Path(folder) / "passages.npy"
        write_corpus(path)
        child = [sys.executable, __file__, "--search", str(path)]
        finished = subprocess.run(child, capture_output=True, text=True)
        if finished.returncode != 0:
            return {"passed": False, "reason": finished.stderr[-2000:]}
        found = json.loads(finished.stdout)
        same = np.array_equal(found["ids"], expected_ids(np.load(path, mmap_mode="r")))
    return {
        "passed": same and found["grown"] < LIMIT,
        "ids_equal": same,
        "corpus_mib": N_PASSAGES * DIM * 4 // 2**20,
        "limit_mib": LIMIT // 2**20,
        "data_grown_mib": round(found["grown"] / 2**20, 1),
        "seconds_first_search_with_norms": round(found["seconds"], 2),
        "n_queries": N_QUERIES,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--search"]:
        search(sys.argv[2])
    else:
        result = run()
        print(json.dumps(result, indent=2))
        sys.exit(0 if result["passed"] else 1)
