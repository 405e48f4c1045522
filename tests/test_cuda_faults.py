"""Faults that kernels leave on the device: packed, told at `check`, bounded; on stand-ins."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

from device_stand_ins import STREAM, rows
from epibias import device
from epibias.device import faults
from epibias.device.call import DeviceCall
from epibias.errors import InputError

NO_FAULT = (faults.NONE, 0)
UNIT_ROWS = (faults.unit_rows("queries"), faults.unit_rows("passages"))


def refusal(caught):
    return caught.value.argument, caught.value.expected, caught.value.got


def word(argument, row, column=0):
    """As fault.hpp packs it, read as int64."""
    packed = argument << 56 | row << 20 | column
    return packed - 2**64 if packed >= 2**63 else packed


def bits(value):
    return struct.unpack("<q", struct.pack("<d", value))[0]


def finished(call, fake_cuda, fault=NO_FAULT, stage="cosine_topk"):
    view = call.fault()
    fake_cuda.records[view[0]] = fault
    call.finish(stage, UNIT_ROWS)


def test_a_record_is_cleared_on_the_stream_and_told_at_check(torch, fake_cuda):
    call = DeviceCall.of(rows=torch.tensor(rows(), 1))
    finished(call, fake_cuda, (word(1, 2**35 + 7), bits(np.nan)))
    ((view, stream),) = fake_cuda.cleared
    assert view[1:] == ((2,), "int64", 1)
    assert stream == STREAM + 1
    with pytest.raises(InputError) as caught:
        device.check()
    text = "passages: expected finite rows of non-zero norm, got NaN in row 34359738375"
    assert str(caught.value) == f"{text} (cosine_topk)"
    assert device.check() == 0


@pytest.mark.parametrize(
    ("value", "got"), [(np.nan, "NaN in row 3"), (-np.inf, "Inf in row 3"), (0.0, "a zero row 3")]
)
def test_the_words_are_those_of_the_cpu(value, got):
    error = faults.explained(word(0, 3), bits(value), UNIT_ROWS)
    assert refusal(SimpleNamespace(value=error)) == ("queries", "finite rows of non-zero norm", got)


def test_a_value_is_told_with_its_place():
    explanations = [None] * 129 + [faults.finite_values("scores")]
    error = faults.explained(word(129, 4, 2**20 - 1), bits(np.inf), explanations)
    assert str(error) == "scores: expected finite values, got inf (row 4, column 1048575)"


def test_check_raises_the_first_and_looks_at_all(torch, cupy, fake_cuda):
    tensor, array = torch.tensor(rows()), cupy.asarray(rows(), 1)
    finished(DeviceCall.of(a=tensor), fake_cuda)
    finished(DeviceCall.of(a=tensor), fake_cuda, (word(0, 5), bits(0.0)))
    finished(DeviceCall.of(a=tensor), fake_cuda, (word(0, 6), bits(0.0)))
    finished(DeviceCall.of(a=array), fake_cuda, (word(0, 7), bits(0.0)), "rerank")
    with pytest.raises(InputError, match=r"a zero row 5 \(cosine_topk\)"):
        device.check(0)
    assert device.check(0) == 0
    with pytest.raises(InputError, match=r"a zero row 7 \(rerank\)"):
        device.check()
    finished(DeviceCall.of(a=tensor), fake_cuda)
    assert device.check(device=1) == 0
    assert device.check(device=0) == 1


def test_what_waits_is_bounded_and_the_loss_is_told(torch, fake_cuda, monkeypatch):
    monkeypatch.setattr(faults, "MOST_PENDING", 3)
    tensor = torch.tensor(rows())
    for _ in range(5):
        finished(DeviceCall.of(a=tensor), fake_cuda)
    with pytest.warns(UserWarning, match="faults of 2 older calls were not looked at"):
        assert device.check() == 3


def test_a_call_without_a_record_leaves_nothing_to_check(torch, fake_cuda):
    DeviceCall.of(a=torch.tensor(rows())).finish("inverse_norms", ())
    assert device.check() == 0


def test_check_refuses_a_device_that_is_none():
    with pytest.raises(InputError, match=r"^device: "):
        device.check("cuda:0")
