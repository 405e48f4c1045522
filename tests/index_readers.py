"""Readers of a governed index while its pointer moves: each must see one whole version.

`python tests/index_readers.py STORE N_READERS N_PROMOTIONS` prints one JSON object. Every version
holds vectors and texts that say which version they are of.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from epibias.index import IndexStore
from fake_encoder import DIM, FakeEncoder
from index_stores import POLICY, page

N_PAGES = 20


def make(folder):
    """Two versions to go to and fro between: all of each is marked with its number."""
    store = IndexStore.create(folder, POLICY, FakeEncoder(), by="ops")
    names = []
    for number in (1, 2):
        vectors = np.full((N_PAGES, DIM), number, np.float32)
        pages = [
            page(f"p{n}", f"text of {number}", replaces=f"p{n}" if number > 1 else None)
            for n in range(N_PAGES)
        ]
        version = store.stage(
            pages,
            by="ops",
            reason=f"number {number}",
            embeddings=vectors,
            encoder_identity=FakeEncoder.identity,
        )
        store.promote(version.id, by="ops", reason="r")
        names.append(version.id)
    return store, names


def read_until_told(folder):
    """Open the current version again and again; how often it was read, and what was mixed."""
    store = IndexStore(folder, FakeEncoder())
    n_read, mixed, seen = 0, [], set()
    while not n_read or not (Path(folder) / "stop").exists():
        files = store.versions.open_current()
        number = int(files.manifest.reason.split()[1])
        vectors = set(np.unique(files.vectors).tolist())
        texts = {row.passage.text for row in files.rows.read(range(N_PAGES))}
        if vectors != {float(number)} or texts != {f"text of {number}"}:
            mixed.append(f"{files.id}: vectors {vectors}, texts {texts}")
        seen.add(number)
        n_read += 1
        if n_read == 1:
            print("ready", flush=True)
    print(json.dumps({"n_read": n_read, "mixed": mixed, "seen": sorted(seen)}))


def main(folder, n_readers, n_promotions):
    """Move the pointer while readers read."""
    store, names = make(folder)
    command = [sys.executable, __file__, str(folder)]
    readers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(n_readers)
    ]
    for reader in readers:
        reader.stdout.readline()
    for number in range(n_promotions):
        store.rollback(names[number % 2], by="ops", reason="to and fro")
    (Path(folder) / "stop").touch(mode=0o600)
    found = [json.loads(reader.communicate()[0]) for reader in readers]
    mixed = [one for result in found for one in result["mixed"]]
    result = {
        "readers": n_readers,
        "promotions": n_promotions,
        "n_read": [result["n_read"] for result in found],
        "both_seen": all(result["seen"] == [1, 2] for result in found),
        "mixed": mixed,
        "passed": not mixed and all(reader.returncode == 0 for reader in readers),
    }
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    if len(sys.argv) == 2:
        read_until_told(Path(sys.argv[1]))
    else:
        sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
