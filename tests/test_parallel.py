"""Threads, forks, and the choice of SIMD level: none of them changes a result."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from compare import assert_same_topk
from epibias import _core

LEVELS = _core.simd_levels()


@pytest.fixture(autouse=True)
def _restore_level_and_threads():
    level, n_threads = _core.simd_level(), _core.n_threads()
    yield
    _core.set_simd_level(level)
    _core.set_n_threads(n_threads)


def rows(rng, n, dim):
    return rng.standard_normal((n, dim)).astype(np.float32)


def test_several_python_threads_at_once():
    rng = np.random.default_rng(8)
    queries, passages = rows(rng, 20, 32), rows(rng, 30_000, 32)
    _core.set_n_threads(2)
    expected = _core.cosine_topk(queries, passages, 10)[:2]
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(_core.cosine_topk, queries, passages, 10) for _ in range(20)]
        for job in jobs:
            assert_same_topk(job.result()[:2], expected)


def run_python(code, **environment):
    # -W error is not passed on: from 3.12 os.fork() warns in a process that has threads.
    command = [sys.executable, "-c", code]
    variables = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)


FORK = """
import os, signal, sys
import numpy as np
from epibias import _core
rng = np.random.default_rng(0)
queries, passages = (rng.standard_normal((n, 64)).astype(np.float32) for n in (20, 20_000))
_core.set_n_threads(2)
before = _core.cosine_topk(queries, passages, 5)[0]
child = os.fork()
if child == 0:
    signal.alarm(30)  # a hang ends here and is reported by the parent
    os._exit(0 if np.array_equal(_core.cosine_topk(queries, passages, 5)[0], before) else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
after = _core.cosine_topk(queries, passages, 5)[0]
sys.exit(status if np.array_equal(after, before) else 2)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_can_search():
    done = run_python(FORK)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        (
            "EPIBIAS_THREADS",
            "abc",
            "EPIBIAS_THREADS: expected an integer from 1 to 1024, got 'abc'",
        ),
        ("EPIBIAS_THREADS", "0", "got '0'"),
        ("EPIBIAS_THREADS", "-1", "got '-1'"),
        ("EPIBIAS_THREADS", "2.5", "got '2.5'"),
        ("EPIBIAS_SIMD", "sse9", "EPIBIAS_SIMD: expected a SIMD level of this machine (scalar"),
        ("EPIBIAS_SIMD", "AVX2", "got 'AVX2'"),
    ],
)
def test_a_wrong_environment_is_an_error_at_first_use(variable, value, words):
    code = (
        "import numpy as np\nfrom epibias import _core\n"
        "rows = np.eye(3, dtype=np.float32)\n_core.cosine_topk(rows, rows, 1)\n"
    )
    done = run_python(code, **{variable: value})
    assert done.returncode == 1
    assert "ValueError: " in done.stderr
    assert words in done.stderr


@pytest.mark.parametrize("level_name", LEVELS)
def test_the_environment_chooses_level_and_threads(level_name):
    code = "from epibias import _core; print(_core.simd_level(), _core.n_threads())"
    done = run_python(code, EPIBIAS_SIMD=level_name, EPIBIAS_THREADS="3")
    assert done.stdout.split() == [level_name, "3"], done.stderr


def test_level_and_thread_setters_check():
    assert LEVELS[0] == "scalar"
    with pytest.raises(ValueError, match=r"^level: expected .*scalar.* got 'neon9'"):
        _core.set_simd_level("neon9")
    for n_threads in (-1, 1025):
        with pytest.raises(
            ValueError,
            match=f"^n_threads: expected .* 1 to 1024, or 0 to undo .*, got {n_threads}$",
        ):
            _core.set_n_threads(n_threads)
