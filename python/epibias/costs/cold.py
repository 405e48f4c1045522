"""The first call of a fresh process: what a query pays after a restart.

Cold means: a new Python process in which no stage has run. Its own start (imports, model, mapping
of the index) is told apart. The page cache is as it is: files read before, by whatever process, may
still be in memory, and nothing here empties it.

`python -m epibias.costs.cold FOLDER STARTED` is that process; it prints one line of JSON.
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
    scan : str
    n_threads : int
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
        The process failed; with its last line.
    """
    # The same packages as here, however they came to be importable.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(  # noqa: S603 (this program itself)
        # The clock runs for all processes of a machine: the child counts from here.
        [sys.executable, "-m", "epibias.costs.cold", str(folder), repr(time.monotonic())],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    try:
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (IndexError, ValueError):
        found = None
    if not isinstance(found, dict):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        expected = "a fresh process that measures"
        raise InputError("cold", expected, f"exit code {done.returncode}: {last}")
    return ColdStart(found["before"], found["stages"])


def _measure(folder: Path, started: float) -> dict[str, Any]:
    import numpy as np

    from epibias.costs.latency import defense_of
    from epibias.costs.stages import Batch, Deployment, seconds_of
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


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), float(sys.argv[2]))))
