"""`CosineIndex` of passages on a device: all stays there; what serves the CPU alone is refused."""

from __future__ import annotations

import numpy as np
import pytest

import epibias as eb
from epibias import device
from epibias.defenses import BRRA
from epibias.device import status
from epibias.errors import InputError

AXIS = eb.PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))


@pytest.fixture
def passages():
    return np.random.default_rng(1).standard_normal((200, 24)).astype(np.float32)


def on_cpu(passages, k, n_queries=3):
    with status.emulated(False):
        return eb.CosineIndex(passages, scan="float32").search(passages[:n_queries].copy(), k)


@pytest.mark.parametrize("scan", ["auto", "float32", "int8"])
def test_candidates_are_the_cpus_in_the_callers_framework(scan, torch, passages, emulated_device):
    expected = on_cpu(passages, 7)
    index = eb.CosineIndex(torch.tensor(passages, 1), scan=scan)
    found = index.search(torch.tensor(passages[:3], 1), k=7)
    assert type(found.indices) is type(found.similarities) is torch.Tensor
    np.testing.assert_array_equal(found.indices._memory, expected.indices)
    np.testing.assert_array_equal(found.similarities._memory, expected.similarities)
    assert found.diagnostics["scan"] == index.scan == ("int8" if scan == "int8" else "float32")
    assert len(index) == 200
    assert index.diagnostics["bytes_beside_the_embeddings"] >= 200 * 8
    assert "on cuda" not in repr(index)
    assert device.check() == 2  # norms, search


def test_cupy_arrays_too(cupy, passages, emulated_device):
    found = eb.CosineIndex(cupy.asarray(passages)).search(cupy.asarray(passages[:3]), k=7)
    np.testing.assert_array_equal(found.indices._memory, on_cpu(passages, 7).indices)


@pytest.mark.parametrize("scan", ["float32", "int8"])
def test_a_prefix_is_a_view(scan, torch, passages, emulated_device):
    index = eb.CosineIndex(torch.tensor(passages), scan=scan).prefix(128)
    found = index.search(torch.tensor(passages[:3]), k=128)
    np.testing.assert_array_equal(found.indices._memory, on_cpu(passages[:128], 128).indices)


def test_a_zero_row_is_told_at_check(torch, passages, emulated_device):
    passages[5] = 0
    eb.CosineIndex(torch.tensor(passages))
    with pytest.raises(InputError, match=r"^passage_embeddings: .* got a zero row 5 \(inverse_no"):
        device.check()


def refused(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_what_is_refused(torch, passages, emulated_device, tmp_path):
    tensor = torch.tensor(passages)
    index = eb.CosineIndex(tensor)
    text = refused(lambda: index.search(passages[:2], k=3))
    assert text.startswith("query_embeddings: expected a torch tensor on cuda:0, as passage_embedd")
    text = refused(lambda: index.search(torch.tensor(passages[:2, :8]), k=3))
    assert text.startswith("query_embeddings: expected 24 columns, as many as the passages, got ")
    assert refused(lambda: index.search(tensor, k=201)).startswith("k: expected at most 200 (the ")
    assert index.search(tensor, k=201, allow_fewer=True).indices.shape == (200, 200)
    for words, call in (
        ("scan: expected 'auto' or 'float32' or 'int8'", lambda: eb.CosineIndex(tensor, "int4")),
        ("save: expected an index of a numpy array", lambda: index.save(tmp_path)),
        (
            "passage_embeddings: expected a numpy array, 2-d float32; call .cpu().numpy(), got a t",
            lambda: eb.CosineIndex.prepare(tensor, tmp_path),
        ),
        (
            "index: expected an index of a numpy array, for pools are the CPU's, got one of a torc",
            lambda: eb.CandidatePool.build(index, tensor, AXIS, k=5),
        ),
        (
            "index: expected an index of a numpy array, for pools are the CPU's, got one of a torc",
            lambda: BRRA(index),
        ),
    ):
        assert refused(call).startswith(words)
