"""Where a call of `epibias.kernels` goes: numpy to the CPU, arrays on a device to CUDA, and back.

With stand-ins for torch and cupy whose arrays reach the emulated kernels, so the numbers are those
of kernels. A run without the emulated module fails, in the fixture and in a test of its own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import epibias as eb
from device_stand_ins import STREAM
from epibias import _core, device, kernels, kernels_polarization, kernels_select
from epibias.device import stages, status
from epibias.errors import InputError


def run_python(code, **environment):
    finished = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_emulated_module_is_in_this_installation():
    """Without it no test of a kernel tests anything: README's test command builds it."""
    try:
        importlib.import_module("epibias._cuda_emulated")
    except ImportError as error:
        pytest.fail(f"{error}: {status.BUILD_EMULATED}, as README's test command does")


# ---- why CUDA is off -------------------------------------------------------------------------


def status_with(monkeypatch, module=None, error=None):
    def cuda_module():
        if error is not None:
            raise error
        return module

    monkeypatch.setattr(status, "cuda_module", cuda_module)
    status._status.cache_clear()
    try:
        return device.cuda_status()
    finally:
        status._status.cache_clear()


def driver(n_devices, reason):
    return SimpleNamespace(device_status=lambda: (n_devices, reason))


def broken():
    raise RuntimeError("CUDA error 999")


@pytest.mark.parametrize(
    ("module", "error", "usable", "words"),
    [
        (None, ModuleNotFoundError("no"), False, "has no epibias._cuda"),
        (None, ImportError("libc.so.9: not found"), False, "does not load: libc.so.9: not found"),
        (driver(0, "no NVIDIA driver"), None, False, "no NVIDIA driver"),
        (driver(0, "driver 11.4 is older than 12.0"), None, False, "driver 11.4 is older"),
        (driver(0, ""), None, False, "no CUDA device"),
        (SimpleNamespace(device_status=broken), None, False, "cannot ask the driver: CUDA error"),
        (SimpleNamespace(), None, False, "cannot ask the driver"),
        (driver(1, ""), None, True, "1 CUDA device"),
        (driver(8, ""), None, True, "8 CUDA devices"),
    ],
)
def test_the_status_has_a_reason_and_never_raises(module, error, usable, words, monkeypatch):
    found = status_with(monkeypatch, module, error)
    assert found.usable is usable
    assert words in found.reason


def test_the_driver_is_asked_once(monkeypatch):
    asked = []
    module = SimpleNamespace(device_status=lambda: asked.append(1) or (1, ""))
    monkeypatch.setattr(status, "cuda_module", lambda: module)
    status._status.cache_clear()
    try:
        assert device.cuda_status() == device.cuda_status()
    finally:
        status._status.cache_clear()
    assert asked == [1]


NUMPY_ONLY = """
import sys, numpy as np, epibias as eb
from epibias import kernels
rows = np.eye(40, dtype=np.float32) + 0.1
index = eb.CosineIndex(rows, scan="int8")
axis = eb.PolarizationAxis.fit(rows[:8], [1, 1, 1, 1, -1, -1, -1, -1], method="ridge")
pool = eb.CandidatePool.build(index, rows[:3], axis, k=3)
eb.BiasDef(k=3).select(pool), eb.MMR(3).select(pool)
kernels.inverse_norms(rows), kernels.cosine_topk(rows, rows, 3)
names = ("torch", "cupy", "epibias._cuda", "epibias._cuda_emulated")
print(sorted(name for name in names if name in sys.modules))
"""


def test_numpy_arrays_never_touch_cuda_nor_a_framework():
    code = "import warnings; warnings.simplefilter('ignore')\n" + NUMPY_ONLY
    assert run_python(code, EPIBIAS_CUDA_EMULATED="") == "[]\n"


# ---- emulation: chosen by hand, never silently -----------------------------------------------

SAYS = """
import json
from epibias import kernels
import numpy as np
rows = np.eye(3, dtype=np.float32)
try:
    said = kernels.inverse_norms(rows).tolist()
except Exception as error:
    said = [type(error).__name__, str(error)]
print(json.dumps([said, kernels.backend_info()]))
"""


def test_the_variable_sends_numpy_arrays_to_the_emulated_kernels():
    said, info = json.loads(run_python(SAYS, EPIBIAS_CUDA_EMULATED="1"))
    assert said == [1, 1, 1]
    assert info["backend"] == "cuda, emulated"
    assert info["cuda_emulated"] is True
    assert "EPIBIAS_CUDA_EMULATED=1" in info["cuda_emulated_reason"]


@pytest.mark.parametrize("value", ["", "0"])
def test_without_the_variable_they_stay_on_the_cpu(value):
    said, info = json.loads(run_python(SAYS, EPIBIAS_CUDA_EMULATED=value))
    assert said == [1, 1, 1]
    assert (info["backend"], info["cuda_emulated"]) == ("cpu", False)
    assert info["cuda_emulated_reason"] == "EPIBIAS_CUDA_EMULATED is not set"


def test_another_value_of_the_variable_is_an_error():
    said, info = json.loads(run_python(SAYS, EPIBIAS_CUDA_EMULATED="yes"))
    text = "EPIBIAS_CUDA_EMULATED: expected 1, or 0 or nothing for none, got 'yes'"
    assert said == ["InputError", text]
    assert (info["backend"], info["cuda_emulated"]) == ("cpu", False)
    assert info["cuda_emulated_reason"] == text


def test_asked_for_and_missing_is_an_error_and_no_silent_fall_back():
    hidden = "import sys; sys.modules['epibias._cuda_emulated'] = None\n"
    said, info = json.loads(run_python(hidden + SAYS, EPIBIAS_CUDA_EMULATED="1"))
    assert said[0] == "InputError"
    assert "the module epibias._cuda_emulated; pip install with -C" in said[1]
    assert info["cuda_emulated"] is False
    assert "the module epibias._cuda_emulated" in info["cuda_emulated_reason"]


def test_the_block_ends_as_it_began(emulation):
    with status.emulated(False):
        assert kernels.backend_info()["backend"] == "cpu"
    assert kernels.backend_info()["backend"] == "cuda, emulated"


# ---- a stage on a device ---------------------------------------------------------------------


def stage_calls():
    """Each function of `epibias.kernels…` that has kernels, with small arguments."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 4)).astype(np.float32)
    anchors = rng.standard_normal((2, 5, 4)).astype(np.float32)
    similarities = np.sort(rng.uniform(0, 1, (3, 8)).astype(np.float32))[:, ::-1].copy()
    embeddings = rng.standard_normal((3, 8, 4)).astype(np.float32)
    return {
        "inverse_norms": (kernels.inverse_norms, (rows,), {}),
        "cosine_topk": (kernels.cosine_topk, (rows[:2].copy(), rows, 3), {}),
        "polarization_axis": (kernels.polarization_axis, (anchors,), {}),
        "polarization_scores": (kernels.polarization_scores, (rows, rows[:2].copy()), {}),
        "anchor_scores": (kernels_polarization.anchor_scores, (anchors, rows[:2].copy()), {}),
        # kappa beyond float32's, so that float64 decides on the CPU too and n_undecided is the same
        "threshold_sweep": (kernels.threshold_sweep, (rows, rows[::-1].copy()), {"kappa": 1e-7}),
        "printed_sweep": (kernels.printed_sweep, (rows, rows[::-1].copy()), {}),
        "rank_candidates": (
            kernels_select.rank_candidates,
            (rows[:2].copy(), rows, np.array([0, 4, 6]), rows[2:3].copy()),
            {},
        ),
        "mmr": (kernels.mmr, (similarities, embeddings, 3), {}),
    }


STAGES = sorted(stages.__all__)


def flattened(results):
    return [r for r in (results if isinstance(results, tuple) else (results,)) if r is not None]


def test_every_stage_with_kernels_is_in_this_test():
    assert set(STAGES) <= set(stage_calls())


@pytest.mark.parametrize("name", STAGES)
def test_emulated_kernels_are_reached_and_not_the_core(name, emulation, monkeypatch):
    def core(*arguments, **keywords):
        raise AssertionError("the core was called")

    monkeypatch.setattr(_core, name, core)
    function, arguments, keywords = stage_calls()[name]
    function(*arguments, **keywords)


def to_framework(arguments, make):
    return [make(a) if isinstance(a, np.ndarray) else a for a in arguments]


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_the_same_kind_comes_out_with_the_cpus_numbers(
    name, framework, torch, cupy, emulated_device
):
    function, arguments, keywords = stage_calls()[name]
    with status.emulated(False):
        expected = flattened(function(*arguments, **keywords))
    module = torch if framework == "torch" else cupy
    kind = torch.Tensor if framework == "torch" else cupy.ndarray
    make = (lambda a: torch.tensor(a, 2)) if framework == "torch" else lambda a: cupy.asarray(a, 2)
    arrays_in = to_framework(arguments, make)
    before = [a._memory.copy() for a in arrays_in if isinstance(a, kind)]
    found = flattened(function(*arrays_in, **keywords))
    for got, wanted in zip(found, expected, strict=True):
        assert type(got) is kind
        if isinstance(wanted, np.ndarray):  # n_rescored counts what the scan chose to re-score
            assert got.shape == wanted.shape
            assert got._memory.dtype == wanted.dtype
            np.testing.assert_allclose(got._memory, wanted, rtol=1e-6, atol=1e-7)
    for array, copy in zip([a for a in arrays_in if isinstance(a, kind)], before, strict=True):
        np.testing.assert_array_equal(array._memory, copy)
    assert module.current_device == 0
    assert module.log.of("current_stream") == [(2,)] * len(module.log.of("current_stream"))
    streams = [call[1][-1] for call in emulated_device.calls if call[0] == "clear_fault"]
    assert streams == [STREAM + 2] * len(streams)
    assert {entry[2] for entry in module.log.of("empty")} == {"cuda:2"}
    assert device.check() >= 1


@pytest.mark.parametrize("name", STAGES)
def test_a_fault_waits_for_check_and_the_results_are_no_numbers(name, torch, emulated_device):
    function, arguments, keywords = stage_calls()[name]
    broken = arguments[0].copy()
    broken.reshape(-1)[1] = np.nan
    with status.emulated(False), pytest.raises(InputError) as by_the_cpu:
        function(broken, *arguments[1:], **keywords)
    found = flattened(function(*to_framework((broken, *arguments[1:]), torch.tensor), **keywords))
    flawed = [a._memory for a in found if a.shape != (1,)]
    assert all(np.isnan(a).any() if a.dtype.kind == "f" else (a == -1).any() for a in flawed)
    with pytest.raises(InputError) as later:
        device.check()
    error, expected = later.value, by_the_cpu.value
    assert (error.argument, error.expected, error.got) == (
        expected.argument,
        expected.expected,
        expected.got,
    )
    assert error.where == ", ".join(filter(None, (expected.where, name)))


@pytest.mark.parametrize("name", [*STAGES, "biasdef_select_vectors"])
def test_what_waits_for_check_does_not_hold_the_callers_arrays(name, torch, emulated_device):
    if name in STAGES:
        function, arguments, keywords = stage_calls()[name]
    else:
        _, arguments, keywords = stage_calls()["rank_candidates"]
        function, keywords = kernels_select.biasdef_select_vectors, dict(keywords)
        keywords["parameters"] = vars(eb.BiasDef(k=2))
    given = to_framework(arguments, torch.tensor)
    held = [weakref.ref(array) for array in given if isinstance(array, torch.Tensor)]
    assert held
    function(*given, **keywords)
    del given
    gc.collect()
    assert not [ref for ref in held if ref() is not None]
    assert device.check() == 1


@pytest.mark.parametrize("name", STAGES)
def test_mixed_arrays_are_refused_by_every_stage(name, torch, emulated_device):
    function, arguments, keywords = stage_calls()[name]
    if sum(isinstance(a, np.ndarray) for a in arguments) < 2:
        mixed = [[1.0]]
        with pytest.raises(InputError, match=r"expected a.* got list"):
            function(*mixed, **keywords)
        return
    mixed = [torch.tensor(arguments[0]), *arguments[1:]]
    with pytest.raises(InputError, match=r"expected a torch tensor on cuda:0, as .* a numpy array"):
        function(*mixed, **keywords)


@pytest.mark.parametrize("name", STAGES)
def test_without_cuda_every_stage_says_why(name, torch, monkeypatch):
    monkeypatch.setattr(status, "_status", lambda: status.CudaStatus(False, "no NVIDIA driver"))
    function, arguments, keywords = stage_calls()[name]
    with pytest.raises(InputError) as caught:
        function(*to_framework(arguments, torch.tensor), **keywords)
    assert caught.value.expected == "a numpy array; call .cpu().numpy()"
    assert caught.value.got.endswith("and CUDA cannot be used here: no NVIDIA driver")


# ---- what runs on the CPU alone --------------------------------------------------------------


def test_a_stage_without_kernels_refuses_arrays_on_a_device(torch, emulated_device):
    kernel = torch.tensor(np.eye(3)[None])
    with pytest.raises(InputError) as caught:
        kernels.dpp_greedy(kernel, 2)
    expected = "a numpy array, for this runs on the CPU alone; call .cpu().numpy()"
    assert (caught.value.argument, caught.value.expected) == ("kernel", expected)
    assert caught.value.got == "a torch tensor on cuda:0"


def test_under_emulation_it_stays_on_the_cpu(emulation):
    assert kernels.dpp_greedy(np.diag([1.0, 3.0, 2.0])[None], 2)[0].tolist() == [[1, 2]]


def test_classes_of_the_cpu_name_the_way_there(torch, cupy):
    rows = np.eye(4, dtype=np.float32) + 0.1
    rows[0] *= 3
    axis = eb.PolarizationAxis.fit(np.array([[1, 0, 0, 1], [1, 0, 0, -1]] * 2, np.float32))
    tensor, array = torch.tensor(rows), cupy.asarray(rows)
    for call, argument, fix in (
        (lambda: eb.PolarizationAxis.fit(tensor), "anchors", "call .cpu().numpy()"),
        (lambda: axis.score(array), "embeddings", "call .get()"),
        (lambda: eb.CosineIndex(rows).search(tensor, 2), "query_embeddings", "call .cpu().numpy()"),
        (
            lambda: eb.CandidatePool.from_vectors(tensor, rows, axis),
            "query_embeddings",
            "call .cpu().numpy()",
        ),
        (
            lambda: eb.BiasDef(k=2).select_vectors(rows[0], array, axis),
            "candidate_embeddings",
            "call .get()",
        ),
        (lambda: eb.threshold_sweep(tensor, rows), "similarities", "call .cpu().numpy()"),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.argument == argument
        assert fix in caught.value.expected
        assert caught.value.got.startswith(("a torch tensor on cuda:0", "a cupy array on cuda:0"))
