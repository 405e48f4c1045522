"""`epibias demo` killed at 20 random moments and resumed gives the same tables, to the bit.

Ten kills (SIGKILL) fall on runs that have to encode, ten on runs whose embeddings are cached, so
that loading, encoding, measuring and writing are all hit; the moments are drawn from a fixed seed.
The real encoder, all topics. A run is killed and resumed until it comes to its end, then compared
with one that was never disturbed. Run alone: `python bench/check_resume.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from compare_runs import comparable

KILLS_A_KIND = 10
SEED = 20_251_204


def start(out: Path, cache: Path) -> subprocess.Popen[bytes]:
    """Start the demo as a user would, with a cache that no other round has filled."""
    environment = {**os.environ, "EPIBIAS_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-m", "epibias", "demo", "--out", str(out), "--json"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(out: Path, cache: Path) -> float:
    """Run the demo to its end; seconds."""
    begun = time.perf_counter()
    process = start(out, cache)
    _, errors = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(errors.decode()[-2000:])
    return time.perf_counter() - begun


def stage(out: Path) -> str:
    """Where a kill fell, read off what it left behind."""
    if not (out / "manifest.json").exists():
        return "before the manifest"
    if (out / "complete.json").exists():
        return "after the marker"
    if (out / "raw.parquet").exists():
        return "writing tables and report"
    n_parts = len(list((out / "parts").glob("*.parquet")))
    return f"measuring, {n_parts} topics kept" if n_parts else "encoding"


def disturb(
    out: Path, cache: Path, seconds: float, at_most: int, generator: np.random.Generator
) -> list[dict[str, Any]]:
    """Kill a run, resume and kill it again, until it ends before its kill; what the kills hit."""
    kills: list[dict[str, Any]] = []
    while len(kills) < at_most:
        delay = float(generator.uniform(0, seconds))
        process = start(out, cache)
        try:
            process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills.append({"after_s": round(delay, 2), "fell": stage(out)})
            continue
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode} when resumed")
        break
    return kills


def run() -> dict[str, Any]:
    """Kill, resume, compare."""
    generator = np.random.default_rng(SEED)
    kills: dict[str, list[dict[str, Any]]] = {"cold": [], "warm": []}
    same: list[bool] = []
    seconds: dict[str, float] = {}
    leftovers = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        warm_cache = root / "cache"
        seconds["cold"] = finish(root / "reference", warm_cache)
        seconds["warm"] = finish(root / "warm-reference", warm_cache)
        expected = comparable(root / "reference")
        same.append(comparable(root / "warm-reference") == expected)
        for kind, found in kills.items():
            while len(found) < KILLS_A_KIND:
                out = root / f"{kind}-{len(same)}"
                cache = warm_cache if kind == "warm" else root / f"cache-{len(same)}"
                wanted = KILLS_A_KIND - len(found)
                found += disturb(out, cache, seconds[kind], wanted, generator)
                finish(out, cache)
                same.append(comparable(out) == expected)
                leftovers += len(list(out.rglob(".unfinished-*")))
    n_kills = sum(len(found) for found in kills.values())
    return {
        "passed": all(same) and n_kills >= 20 and leftovers == 0,
        "n_kills": n_kills,
        "n_runs_compared": len(same),
        "n_runs_equal": sum(same),
        "leftover_files": leftovers,
        "undisturbed_s": {kind: round(value, 1) for kind, value in seconds.items()},
        "kills": kills,
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
