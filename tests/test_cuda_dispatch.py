"""Where a call of `epibias.kernels` goes: numpy to the CPU, arrays on a device to CUDA, and back.

With stand-ins for torch and cupy whose arrays reach the emulated kernels, so the numbers are those
of kernels. A run without the emulated module fails, in the fixture and in a test of its own.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from epibias import _core, device, kernels
from epibias.device import status


def run_python(code, **environment):
    import os

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


def test_emulated_kernels_are_reached_and_not_the_core(emulation, monkeypatch):
    def core(*arguments):
        raise AssertionError("the core was called")

    monkeypatch.setattr(_core, "inverse_norms", core)
    rows = np.array([[3, 4], [0, 2]], np.float32)
    np.testing.assert_array_equal(kernels.inverse_norms(rows), [0.2, 0.5])


# ---- a stage on a device ---------------------------------------------------------------------


def test_the_same_kind_comes_out_on_the_callers_device(torch, cupy, emulated_device):
    rows = np.array([[3, 4], [0, 2]], np.float32)
    for array, framework, kind in (
        (torch.tensor(rows), torch, torch.Tensor),
        (cupy.asarray(rows), cupy, cupy.ndarray),
    ):
        norms = kernels.inverse_norms(array)
        assert type(norms) is kind
        np.testing.assert_array_equal(norms._memory, [0.2, 0.5])
        assert device.check() == 1
        assert framework.current_device == 0
