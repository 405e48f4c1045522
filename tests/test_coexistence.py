"""One process with torch and faiss: neither changes our results, our threads, or our forks.

Both bring an OpenMP and a BLAS of their own. Each order of import runs in a process of its own,
and with a time limit, since what goes wrong here is mostly a hang.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("faiss")

SECONDS = 120
# 20 queries × 20,000 passages × 64 columns: work enough that the core wakes its threads.
OURS = """
import hashlib
import os
import signal
import sys
import numpy as np

rng = np.random.default_rng(0)
queries, passages = (rng.standard_normal((n, 64)).astype(np.float32) for n in (20, 20_000))
# Rows so short that their columns are subnormal: flushed to zero, they would be refused.
passages[:300] *= np.float32(1e-39)
anchors = rng.standard_normal((40, 8, 64)).astype(np.float32)
anchors[:10] *= np.float32(1e-39)
scores, ascending = rng.random((2, 200, 40), dtype=np.float32)
ascending = np.sort(ascending)
scores[:50] *= np.float32(1e-39)


def arrays_of_ours():
    import epibias as eb
    from epibias.retrieval import SCANS

    yield from (
        part
        for scan in SCANS
        for found in [eb.CosineIndex(passages, scan=scan).search(queries, k=400)]
        for part in (found.indices, found.similarities)
    )
    kernels = eb.kernels
    axes, *others = kernels.polarization_axis(anchors)
    yield from (axes, *others)
    yield kernels.polarization_scores(passages, axes)
    yield from kernels.threshold_sweep(ascending, scores, permutations=99, curve=True)
    yield kernels.mmr(-ascending[:, :20], passages[:4000].reshape(200, 20, 64), 5)


def ours():
    digest = hashlib.sha256()
    for part in arrays_of_ours():
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def theirs_torch():
    import torch

    pair = torch.from_numpy(passages), torch.from_numpy(queries)
    return (pair[1] @ pair[0].T).topk(5).indices.numpy().tobytes()


def theirs_faiss():
    import faiss

    index = faiss.IndexFlatIP(64)
    index.add(passages)
    return index.search(queries, 5)[1].tobytes()


USE = {"epibias": ours, "torch": theirs_torch, "faiss": theirs_faiss}
"""


def run(code: str, **environment: str) -> str:
    """Run code after OURS in a fresh process; its standard output."""
    # -W error is not passed on: from 3.12 os.fork() warns in a process that has threads.
    variables = {
        **{name: value for name, value in os.environ.items() if name != "EPIBIAS_THREADS"},
        **environment,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", OURS + code],
        env=variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def alone() -> str:
    """Digest of our results in a process without the others."""
    printed = run(
        "print(ours(), 'torch' in sys.modules, 'faiss' in sys.modules)", EPIBIAS_THREADS="2"
    )
    digest, *others = printed.split()
    assert others == ["False", "False"]
    return digest


ORDERS = [
    ("epibias", "torch", "faiss"),
    ("epibias", "faiss", "torch"),
    ("torch", "epibias", "faiss"),
    ("faiss", "epibias", "torch"),
    ("torch", "faiss", "epibias"),
    ("faiss", "torch", "epibias"),
]


# What one process is asked once its modules are imported, each answer by name.
ASKED = """
import json
import torch

said = {"imported": ours(), "children": []}
# A child is forked after each library in turn has started its threads, and searches.
for name in ORDER:
    USE[name]()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS // 2)  # a hang ends here and is reported by the parent
        os._exit(0 if ours() == said["imported"] else 1)
    said["children"].append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
said["used"] = ours()

assert torch.set_flush_denormal(True)
tiny = np.full(4, 1e-39, np.float32)
said["flushed"] = float((torch.from_numpy(tiny) * 1).sum())
said["while flushing"] = ours()
said["still flushed"] = float((torch.from_numpy(tiny) * 1).sum())
torch.set_flush_denormal(False)

from concurrent.futures import ThreadPoolExecutor

expected = {name: use() for name, use in USE.items()}
with ThreadPoolExecutor(4) as pool:
    jobs = [(name, pool.submit(use)) for _ in range(2) for name, use in USE.items()]
    said["wrong at once"] = [name for name, job in jobs if job.result() != expected[name]]
said["at once"] = expected["epibias"]
print(json.dumps(said))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_one_process_has_all_three_in_every_order_of_import(order, alone):
    """The same bits before and after the others work, in forks, while torch flushes, at once.

    All in one process an order: importing torch takes longer than what is asked.
    """
    code = f"""
import importlib
ORDER, SECONDS = {order!r}, {SECONDS}
for name in ORDER:
    importlib.import_module(name)
"""
    said = json.loads(run(code + ASKED, EPIBIAS_THREADS="2", OMP_NUM_THREADS="2"))
    assert said == {
        "imported": alone,
        "children": [0, 0, 0],
        "used": alone,
        # The setting was real, and it is still the caller's own after our calls.
        "flushed": 0,
        "while flushing": alone,
        "still flushed": 0,
        "wrong at once": [],
        "at once": alone,
    }


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_each_keeps_its_own_number_of_threads(n_threads, alone):
    code = """
import faiss
import torch
from epibias import kernels

torch.set_num_threads(2)
faiss.omp_set_num_threads(2)
before = torch.get_num_threads(), faiss.omp_get_max_threads()
USE["torch"](), USE["faiss"]()
running = len(os.listdir("/proc/self/task"))
digest = ours()
started = len(os.listdir("/proc/self/task")) - running
same = before == (torch.get_num_threads(), faiss.omp_get_max_threads())
torch.set_num_threads(1)
faiss.omp_set_num_threads(1)
print(digest, same, kernels.backend_info()["n_threads"], started)
"""
    # The other libraries' variable is not ours: we listen to EPIBIAS_THREADS alone.
    printed = run(code, EPIBIAS_THREADS=str(n_threads), OMP_NUM_THREADS="2").split()
    assert printed == [alone, "True", str(n_threads), str(n_threads - 1)]
