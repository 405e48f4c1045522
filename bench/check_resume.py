"""`epibias demo` killed at 20 random moments and resumed gives the same tables, to the bit.

Rounds of five kills (SIGKILL), each with a folder and an embedding cache of its own, on the real
encoder and all topics; the moments are drawn from a fixed seed. After each round the run is
finished and compared with one that was never disturbed. Run alone: `python bench/check_resume.py`.
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

N_ROUNDS = 4
KILLS_A_ROUND = 5
SEED = 20_251_204
# A first process of each round dies at most this share of an undisturbed run after its start.
LATEST_SHARE = 0.6


def start(out: Path, cache: Path) -> subprocess.Popen[bytes]:
    """Start the demo as a user would, with a cache that no other round has filled."""
    environment = {**os.environ, "EPIBIAS_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-m", "epibias.cli", "demo", "--out", str(out), "--json"],
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


def run() -> dict[str, Any]:
    """Kill, resume, compare."""
    generator = np.random.default_rng(SEED)
    kills: list[dict[str, Any]] = []
    same: list[bool] = []
    leftovers = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        seconds = finish(root / "reference", root / "reference-cache")
        expected = comparable(root / "reference")
        for number in range(N_ROUNDS):
            out, cache = root / f"run-{number}", root / f"cache-{number}"
            done = 0
            while done < KILLS_A_ROUND:
                delay = float(generator.uniform(0.2, LATEST_SHARE * seconds))
                process = start(out, cache)
                try:
                    process.communicate(timeout=delay)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    done += 1
                    kills.append({"after_s": round(delay, 2), "fell": stage(out)})
                    continue
                if process.returncode != 0:
                    raise RuntimeError(f"exit code {process.returncode} when resumed")
                break  # it came to its end before the kill; the next round starts cold
            finish(out, cache)
            same.append(comparable(out) == expected)
            leftovers += len(list(out.rglob(".unfinished-*")))
    return {
        "passed": all(same) and len(kills) >= 20 and leftovers == 0,
        "n_kills": len(kills),
        "rounds_equal_to_the_undisturbed_run": same,
        "leftover_files": leftovers,
        "undisturbed_run_s": round(seconds, 1),
        "kills": kills,
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
