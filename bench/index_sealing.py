"""What encryption at rest costs a governed index: staging and opening, sealed and not.

`python bench/index_sealing.py [N_PASSAGES]`. Both stores hold the same synthetic passages
(384 dimensions); each is staged once and opened three times, in turn. Opening checks all hashes,
and opens a sealed version into memory of the process. Processor seconds of the best of three, and
the memory that is the process's own after opening (of a mapped version it is next to none).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from check_index_drift import DIM, IDENTITY, pages, policy
from epibias.index import IndexStore
from epibias.index.sealing import new_key


def private_bytes() -> int:
    """Memory that only this process has."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("no RssAnon in /proc/self/status")


def main() -> int:
    """Make both stores, open each."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    vectors = np.random.default_rng(0).standard_normal((n, DIM), dtype=np.float32)
    result: dict[str, Any] = {"n_passages": n, "bytes_of_vectors": vectors.nbytes}
    with tempfile.TemporaryDirectory() as made:
        opened: dict[str, list[float]] = {"plain": [], "sealed": []}
        versions = {}
        for name, key in (("plain", None), ("sealed", new_key())):
            store = IndexStore.create(Path(made) / name, policy(), by="bench", key=key)
            started = time.process_time()
            version = store.stage(
                pages(0, n), by="b", reason="b", embeddings=vectors, encoder_identity=IDENTITY
            )
            result[f"stage_{name}"] = round(time.process_time() - started, 2)
            versions[name] = store, version.id
        del vectors
        for _ in range(3):
            for name, (store, version_id) in versions.items():
                before, started = private_bytes(), time.process_time()
                files = store.versions.open(version_id)
                opened[name].append(time.process_time() - started)
                result[f"private_bytes_{name}"] = private_bytes() - before
                del files
        result |= {f"open_{name}": round(min(seconds), 2) for name, seconds in opened.items()}
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
