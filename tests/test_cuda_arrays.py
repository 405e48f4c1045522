"""Arrays on a device, on stand-ins: pointers, streams, allocators, guards and checks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from device_stand_ins import STREAM, OtherArray, rows
from epibias import device
from epibias._frameworks import is_on_device
from epibias.device import arrays, status
from epibias.device.call import DeviceCall
from epibias.errors import InputError


def refusal(caught):
    return caught.value.argument, caught.value.expected, caught.value.got


# ---- pointers, streams, allocators, guards ---------------------------------------------------


def on_torch(torch, cupy, number):
    return torch.tensor(rows(), number), torch


def on_cupy(torch, cupy, number):
    return cupy.asarray(rows(), number), cupy


@pytest.mark.parametrize("make", [on_torch, on_cupy])
@pytest.mark.parametrize("number", [0, 3])
def test_a_call_uses_the_pointer_stream_allocator_and_device_of_the_caller(
    make, number, torch, cupy, fake_cuda
):
    array, framework = make(torch, cupy, number)
    call = DeviceCall.of(rows=array)
    assert call.array("rows", array, "float32", 2) == (
        array._memory.ctypes.data,
        (3, 4),
        "float32",
        number,
    )
    assert (call.stream, call.device, call.module) == (STREAM + number, number, fake_cuda)
    assert framework.log.of("current_stream") == [(number,)]

    output = call.empty((3, 2), "int64")
    assert type(output) is type(array)
    assert call.view(output) == (output._memory.ctypes.data, (3, 2), "int64", number)
    workspace = call.workspace(96)
    assert workspace[1:] == ((96,), "uint8", number)
    places = [entry[2] for entry in framework.log.of("empty")]
    assert places == [f"cuda:{number}"] * 2

    assert framework.current_device == 0
    with call.guard():
        assert framework.current_device == number
    assert framework.current_device == 0
    assert [name for name, *_ in framework.log if name in ("enter", "exit")][-2:] == [
        "enter",
        "exit",
    ]


def test_the_guard_lets_go_when_the_launch_fails(torch, fake_cuda):
    array = torch.tensor(rows(), 2)
    call = DeviceCall.of(rows=array)
    with pytest.raises(InputError, match=r"^k: expected at most 3, got 4$"), call.guard():
        raise ValueError("k: expected at most 3, got 4")
    assert torch.current_device == 0


def test_the_workspace_lives_as_long_as_the_call(torch, fake_cuda):
    call = DeviceCall.of(rows=torch.tensor(rows()))
    view = call.workspace(64)
    assert any(kept._memory.ctypes.data == view[0] for kept in call._kept)


def test_a_tensor_of_a_derived_class_is_torchs(torch, fake_cuda):
    derived = type("Parameter", (torch.Tensor,), {"__module__": "my.models"})
    call = DeviceCall.of(rows=derived(rows(), 1))
    assert (call.device, call.stream) == (1, STREAM + 1)


def test_arguments_that_are_left_out_are_not_looked_at(torch, fake_cuda):
    array = torch.tensor(rows())
    call = DeviceCall.of(rows=array, norms=None)
    assert call.array_or_none("norms", None, "float64", 1) is None
    assert call.array_or_none("rows", array, "float32", 2) is not None


# ---- refusals --------------------------------------------------------------------------------


def test_another_dtype_is_refused_with_the_call_that_converts(torch, cupy, fake_cuda):
    tensor, array = torch.tensor(rows(dtype=np.float64)), cupy.asarray(rows(dtype=np.float16))
    with pytest.raises(InputError) as caught:
        DeviceCall.of(a=tensor).array("a", tensor, "float32", 2)
    expected = "dtype float32; call a.to(torch.float32)"
    assert refusal(caught) == ("a", expected, "dtype float64")
    with pytest.raises(InputError) as caught:
        DeviceCall.of(a=array).array("a", array, "float32", 2)
    expected = "dtype float32; call a.astype(cupy.float32)"
    assert refusal(caught) == ("a", expected, "dtype float16")


def test_another_layout_is_refused_with_the_call_that_makes_it_contiguous(torch, cupy, fake_cuda):
    for array, fix in ((torch.tensor(rows()), "a.contiguous()"),
                       (cupy.asarray(rows()), "cupy.ascontiguousarray(a)")):  # fmt: skip
        array._memory = array._memory[:, ::2]
        with pytest.raises(InputError) as caught:
            DeviceCall.of(a=array).array("a", array, "float32", 2)
        argument, expected, got = refusal(caught)
        assert (argument, expected) == ("a", f"a C-contiguous array; call {fix}")
        assert got.startswith("strides (")


def test_another_number_of_dimensions_is_refused(cupy, fake_cuda):
    array = cupy.asarray(rows())
    call = DeviceCall.of(a=array)
    with pytest.raises(InputError, match=r"^a: expected a 3-d array, got shape \(3, 4\)$"):
        call.array("a", array, "float32", 3)
    with pytest.raises(InputError, match=r"a: expected a 1-d or 3-d array"):
        call.array("a", array, "float32", (1, 3))
    assert call.array("a", array, "float32", (1, 2))[1] == (3, 4)


def test_a_tensor_that_wants_a_gradient_is_refused(torch, fake_cuda):
    tensor = torch.tensor(rows())
    tensor.requires_grad = True
    with pytest.raises(InputError, match=r"call queries\.detach\(\), got requires_grad=True"):
        DeviceCall.of(queries=tensor).array("queries", tensor, "float32", 2)


def test_what_no_pointer_describes_is_refused(torch, fake_cuda):
    sparse, negated = torch.tensor(rows()), torch.tensor(rows())
    sparse.layout, negated.negated = torch.sparse_coo, True
    with pytest.raises(InputError, match=r"call a\.to_dense\(\), got layout torch\.sparse_coo"):
        DeviceCall.of(a=sparse).array("a", sparse, "float32", 2)
    with pytest.raises(InputError, match=r"call a\.resolve_neg\(\), got a negated view"):
        DeviceCall.of(a=negated).array("a", negated, "float32", 2)


def test_mixing_is_refused_and_both_are_named(torch, cupy, fake_cuda):
    tensor, array, numpys = torch.tensor(rows()), cupy.asarray(rows()), rows()
    for given, message in (
        ({"a": tensor, "b": numpys}, "b: expected a torch tensor on cuda:0, as a is, got a numpy"),
        ({"a": numpys, "b": tensor}, "a: expected a torch tensor on cuda:0, as b is, got a numpy"),
        ({"a": tensor, "b": array}, "b: expected a torch tensor on cuda:0, as a is, got a cupy"),
        ({"a": array, "b": tensor}, "b: expected a cupy array on cuda:0, as a is, got a torch"),
        (
            {"a": tensor, "b": torch.tensor(rows(), 1)},
            "b: expected a torch tensor on cuda:0, as a is, got a torch tensor on cuda:1",
        ),
        (
            {"a": tensor, "b": torch.tensor(rows(), kind="cpu")},
            "b: expected a torch tensor on cuda:0, as a is, got a torch tensor on the CPU",
        ),
        ({"a": tensor, "b": [1.0]}, "b: expected a torch tensor on cuda:0, as a is, got list"),
    ):
        with pytest.raises(InputError) as caught:
            DeviceCall.of(**given)
        assert str(caught.value).startswith(message)


def test_without_cuda_the_error_says_why_and_the_way_to_the_cpu(torch, cupy, monkeypatch):
    reason = "no NVIDIA driver"
    monkeypatch.setattr(status, "_status", lambda: status.CudaStatus(False, reason))
    for array, fix, kind in (
        (torch.tensor(rows(), 1), "call .cpu().numpy()", "a torch tensor on cuda:1"),
        (cupy.asarray(rows(), 2), "call .get()", "a cupy array on cuda:2"),
        (OtherArray(rows()), "copy it to the CPU", "a thirdparty OtherArray on cuda:0"),
    ):
        with pytest.raises(InputError) as caught:
            DeviceCall.of(a=array)
        got = f"{kind}, and CUDA cannot be used here: {reason}"
        assert refusal(caught) == ("a", f"a numpy array; {fix}", got)


# ---- others, through DLPack ------------------------------------------------------------------


def allocator(made, **keywords):
    def empty(shape, dtype):
        made.append(OtherArray(np.zeros(shape, dtype), **keywords))
        return made[-1]

    return empty


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("stream", [0, 1, 77])
def test_other_arrays_come_through_dlpack_with_the_stream_said(versioned, stream, fake_cuda):
    array, made = OtherArray(rows(), 2, versioned=versioned, offset=16), []
    with device.using(stream=stream, empty=allocator(made, device=2)):
        call = DeviceCall.of(a=array)
        view = call.array("a", array, "float32", 2)
        output = call.empty((3, 2), "int64")
    assert view == (array._memory.ctypes.data, (3, 4), "float32", 2)
    assert (call.stream, call.device) == (stream, 2)
    assert set(array.streams) == {stream or 1}  # DLPack calls the default stream 1
    assert output is made[0]
    assert call.view(output) == (output._memory.ctypes.data, (3, 2), "int64", 2)


def test_other_arrays_need_using(fake_cuda):
    array = OtherArray(rows())
    with pytest.raises(InputError) as caught:
        DeviceCall.of(a=array)
    assert "epibias.device.using(stream=…, empty=…)" in caught.value.expected
    assert "cupy.from_dlpack(a)" in caught.value.expected
    assert caught.value.got == "a thirdparty OtherArray on cuda:0"
    assert array.streams == []


def test_other_arrays_are_checked_like_the_rest(fake_cuda):
    double, strided = OtherArray(rows(dtype=np.float64)), OtherArray(rows()[:, ::2])
    with device.using(stream=0, empty=allocator([])):
        with pytest.raises(InputError, match=r"a: expected dtype float32; .* got dtype float64"):
            DeviceCall.of(a=double).array("a", double, "float32", 2)
        with pytest.raises(InputError, match=r"C-contiguous array; .*, got strides \(4, 2\)"):
            DeviceCall.of(a=strided).array("a", strided, "float32", 2)
        newer = OtherArray(rows(), major=2)
        with pytest.raises(InputError, match=r"an array that speaks DLPack, .* version 2"):
            DeviceCall.of(a=newer).array("a", newer, "float32", 2)
        # Strides of axes that have one element, or of no elements at all, mean nothing.
        single = OtherArray(np.zeros((4, 8), np.float32)[:1, :8:8])
        assert DeviceCall.of(a=single).array("a", single, "float32", 2)[1] == (1, 1)
        none = OtherArray(np.zeros((0, 8), np.float32)[:, ::2])
        assert DeviceCall.of(a=none).array("a", none, "float32", 2)[1] == (0, 4)


@pytest.mark.parametrize(
    ("empty", "words"),
    [
        (lambda shape, dtype: OtherArray(np.zeros((9, 9), dtype)), r"shape \(3, 2\) on cuda:0"),
        (lambda shape, dtype: OtherArray(np.zeros(shape, np.int32)), "a C-contiguous int64"),
        (lambda shape, dtype: OtherArray(np.zeros(shape, dtype), 1), "on cuda:1"),
        (lambda shape, dtype: OtherArray(np.zeros(shape, dtype), read_only=True), "read-only"),
        (lambda shape, dtype: None, "speaks DLPack"),
    ],
)
def test_what_an_allocator_gives_is_checked(empty, words, fake_cuda):
    with device.using(stream=0, empty=empty):
        call = DeviceCall.of(a=OtherArray(rows()))
        with pytest.raises(InputError, match=f"^empty: .*{words}"):
            call.empty((3, 2), "int64")


def test_using_checks_what_it_is_given_and_ends_with_its_block(fake_cuda):
    with pytest.raises(InputError, match=r"^stream: "), device.using(stream=-1, empty=len):
        pass
    with pytest.raises(InputError, match=r"^empty: "), device.using(stream=0, empty=3):
        pass
    with device.using(stream=0, empty=allocator([])):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(arrays._chosen.get()))
        thread.start()
        thread.join()
    assert seen == [None]  # another thread has its own
    with pytest.raises(InputError):
        DeviceCall.of(a=OtherArray(rows()))


# ---- what is on a device, and what is not ----------------------------------------------------


def test_what_is_on_a_device(torch, cupy):
    for value in (torch.tensor(rows()), cupy.asarray(rows()), OtherArray(rows())):
        assert is_on_device(value)
    host = OtherArray(rows())
    host._place = (1, 0)
    for value in (rows(), torch.tensor(rows(), kind="cpu"), torch.tensor(rows(), kind="mps"),
                  host, [1.0], None, 3, "rows", OtherArray):  # fmt: skip
        assert not is_on_device(value)
