"""The emulated CUDA module loads and computes; collected with EPIBIAS_CUDA_EMULATED=1."""

from __future__ import annotations

import numpy as np
import pytest

from epibias import _core, _cuda_emulated


def array_tuple(array):
    return array.ctypes.data, array.shape, str(array.dtype), 0


def no_fault():
    return np.full(2, -1, np.int64)


def test_the_emulated_module_says_what_it_is():
    assert _cuda_emulated.emulated is True
    assert _cuda_emulated.device_status() == (1, "")


def test_inverse_norms_have_the_bits_of_the_cpu():
    rows = np.random.default_rng(3).normal(size=(37, 97)).astype(np.float32)
    result, fault = np.empty(37), no_fault()
    _cuda_emulated.inverse_norms(array_tuple(rows), array_tuple(result), array_tuple(fault), 0)
    assert np.array_equal(result, _core.inverse_norms(rows, "rows"))
    assert fault.tolist() == [-1, -1]


def test_a_faulty_row_is_recorded_and_its_result_is_nan():
    rows = np.ones((5, 40), np.float32)
    rows[3, 7] = np.nan
    result, fault = np.empty(5), no_fault()
    _cuda_emulated.inverse_norms(array_tuple(rows), array_tuple(result), array_tuple(fault), 0)
    assert np.isnan(result).tolist() == [False, False, False, True, False]
    assert fault[0] == 3 << 20 | 7
    assert np.isnan(fault.view(np.float64)[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"result": np.empty(4)}, r"result: expected shape \(5,\), got shape \(4,\)"),
        ({"result": np.empty(5, np.float32)}, "result: expected float64, got float32"),
        ({"rows": np.ones(5, np.float32)}, r"rows: expected 2 dimensions, got shape \(5,\)"),
        ({"fault": np.full(3, -1)}, r"fault: expected shape \(2,\), got shape \(3,\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    arrays = {"rows": np.ones((5, 4), np.float32), "result": np.empty(5), "fault": no_fault()}
    arrays |= change
    with pytest.raises(ValueError, match=f"^{message}$"):
        _cuda_emulated.inverse_norms(*map(array_tuple, arrays.values()), 0)


def test_arrays_on_two_devices_are_refused():
    rows = (0, (0, 4), "float32", 1)
    result = array_tuple(np.empty(0))
    message = "^result: expected an array on device 1 as rows, got one on device 0$"
    with pytest.raises(ValueError, match=message):
        _cuda_emulated.inverse_norms(rows, result, array_tuple(no_fault()), 0)
