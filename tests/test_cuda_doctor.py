"""`epibias doctor` on CUDA: there or not and why, and emulation said where nobody overlooks it."""

from __future__ import annotations

import json
import sys

import pytest

from epibias.cli import main
from epibias.device import status


@pytest.fixture
def missing(monkeypatch):
    """An installation without `_cuda`, whatever this one has."""
    monkeypatch.setitem(sys.modules, "epibias._cuda", None)
    status._status.cache_clear()
    yield
    status._status.cache_clear()


def doctor(capsys, *options, code=0):
    assert main(["doctor", *options]) == code
    return capsys.readouterr().out


def test_an_installation_without_the_module_says_so(missing, capsys):
    text = " ".join(doctor(capsys).split())
    assert "cuda no: this installation has no epibias._cuda" in text
    assert "NOT FOR USE" not in text
    backend = json.loads(doctor(capsys, "--json"))["backend"]
    assert (backend["backend"], backend["cuda"], backend["cuda_emulated"]) == ("cpu", False, False)
    assert backend["cuda_reason"].startswith("this installation has no epibias._cuda")


def test_a_device_is_said(monkeypatch, capsys):
    found = status.CudaStatus(True, "2 CUDA devices")
    monkeypatch.setattr(status, "_status", lambda: found)
    assert "cuda yes: 2 CUDA devices" in " ".join(doctor(capsys).split())


def test_emulation_is_the_first_thing_said(emulation, capsys):
    first = doctor(capsys).splitlines()[0]
    assert first.startswith("NOT FOR USE: EPIBIAS_CUDA_EMULATED=1: numpy arrays go to CUDA kernels")
    backend = json.loads(doctor(capsys, "--json"))["backend"]
    assert (backend["backend"], backend["cuda_emulated"]) == ("cuda, emulated", True)


def test_emulation_that_was_asked_for_and_is_missing_fails(monkeypatch, capsys):
    monkeypatch.setattr(status.emulation, "asked", "1")
    monkeypatch.setattr(status.emulation, "on", True)
    monkeypatch.setitem(sys.modules, "epibias._cuda_emulated", None)
    found = json.loads(doctor(capsys, "--json", code=1))
    assert "the module epibias._cuda_emulated; pip install with" in found["self_check"]
    assert found["backend"]["cuda_emulated"] is False
