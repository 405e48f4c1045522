"""The first call of a fresh process: what a query pays after a restart.

Cold means: a new Python process in which no stage has run. Its own start (imports, model, mapping
of the index) is told apart. The page cache is as it is: files read before, by whatever process, may
still be in memory, and nothing here empties it.

`main`, started by `run_cold`, is that process; it prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from epibias.errors import InputError

SETTINGS, PASSAGES, QUERIES, AXIS = "cold.json", "passages.npy", "queries.npy", "axis.json"
INDEX = "index"
LONGEST_SECONDS = 600.0  # of a fresh process: one that hangs must not hang the command

# Not `-m`: that would look for modules in the working directory first, and run an `epibias.py` or
# `json.py` that lies there. `-c` begins with an empty entry for it, which goes before any import.
_START = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from epibias.costs.cold import main; main(*sys.argv[1:])"
)


@dataclass(frozen=True)
class ColdStart:
    """What a fresh process measured.

    Parameters
    ----------
    before : dict
        Seconds of what comes before the call: interpreter and imports, encoder, index.
    stages : dict
        Seconds of every stage of the first call.
    """

    before: dict[str, float]
    stages: dict[str, float]


@dataclass(frozen=True)
class ColdSettings:
    """What the fresh process loads; arrays lie beside it.

    Parameters
    ----------
    defense : str
        By its name in the demo.
    k, pool_factor : int
    n_threads : int
        Of the kernels.
    text : str
        The query, for the encoder.
    encoder : str or None
        By name or path.
    passages : str
        File of the passages.
    """

    defense: str
    k: int
    pool_factor: int
    n_threads: int
    text: str
    encoder: str | None
    passages: str

    def write(self, folder: Path) -> None:
        """Put the settings where the process looks for them."""
        from epibias import _files

        _files.write_json(folder / SETTINGS, asdict(self))


def run_cold(folder: Path) -> ColdStart:
    """Start a process on a folder of settings and arrays, and read what it measured.

    Raises
    ------
    InputError
        The process failed, with its last line; or it took longer than ten minutes and was ended.
    """
    # The same packages as here, however they came to be importable.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    expected = "a fresh process that measures"
    try:
        done = subprocess.run(  # noqa: S603 (this program itself)
            # The clock runs for all processes of a machine: the child counts from here.
            [sys.executable, "-c", _START, str(folder), repr(time.monotonic())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        found = f"nothing within {LONGEST_SECONDS:g} s"
        raise InputError("cold", expected, found) from None
    try:
        measured = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (IndexError, ValueError):
        measured = None
    if not isinstance(measured, dict):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        raise InputError("cold", expected, f"exit code {done.returncode}: {last}")
    return ColdStart(measured["before"], measured["stages"])


def main(folder: str, started: str) -> None:
    """Measure in this process, which has to be a fresh one, and print a line of JSON.

    Parameters
    ----------
    folder : str
        Settings and arrays, under the names of this module.
    started : str
        `time.monotonic()` of the process that started this one, in seconds.
    """
    print(json.dumps(_measure(Path(folder), float(started))))


def _measure(folder: Path, started: float) -> dict[str, Any]:
    import numpy as np

    from epibias.costs.clock import seconds_of
    from epibias.costs.latency import defense_of
    from epibias.costs.stages import Batch, Deployment
    from epibias.kernels_threads import using_threads
    from epibias.polarization.axis_file import read_axis
    from epibias.retrieval import CosineIndex

    before = {"interpreter and imports": time.monotonic() - started}
    settings = ColdSettings(**json.loads((folder / SETTINGS).read_text(encoding="utf-8")))
    encoder = None
    if settings.encoder is not None:
        from epibias.encoder import SentenceTransformerEncoder

        name = settings.encoder
        before["encoder"], encoder = seconds_of(
            lambda: SentenceTransformerEncoder(name, cache=False, progress=False)
        )
    passages = np.load(settings.passages, mmap_mode="r")
    queries = np.load(folder / QUERIES)
    with using_threads(settings.n_threads):
        before["index"], index = seconds_of(lambda: CosineIndex.load(folder / INDEX, passages))
        deployment = Deployment(
            index,
            read_axis(folder / AXIS).axis,
            defense_of(settings.defense, settings.k),
            settings.k,
            settings.pool_factor,
            encoder,
        )
        batch = Batch([settings.text], queries, np.zeros(1, np.int64))
        return {"before": before, "stages": deployment.timed_first(batch)}
