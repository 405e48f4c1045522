"""Bad arrays and arguments in Python: `InputError` in three parts, never a cast or a crash."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import epibias as eb
from epibias import kernels
from epibias._dispatch import core_errors
from epibias.metrics import bias, intervals, ranks, retrieval
from epibias.pool_parts import check_positions
from epibias.threshold import printed_sweep, side_densities


def rows(n: int = 4, dim: int = 3) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, dim), dtype=np.float32)


def with_row(value: float) -> np.ndarray:
    array = rows()
    array[2] = value
    return array


PYTHON_CASES: dict[str, Callable[[], object]] = {}


def python_case(function: Callable[[], object]) -> Callable[[], object]:
    PYTHON_CASES[function.__name__] = function
    return function


@python_case
def float64_rows():
    return eb.CosineIndex(rows().astype(np.float64))


@python_case
def float16_rows():
    return eb.CosineIndex(rows().astype(np.float16))


@python_case
def fortran_order():
    return eb.CosineIndex(np.asfortranarray(rows()))


@python_case
def one_dimension():
    return eb.CosineIndex(rows()[0])


@python_case
def nested_lists():
    return eb.CosineIndex(rows().tolist())


@python_case
def nan_row():
    return eb.CosineIndex(with_row(float("nan")))


@python_case
def zero_row():
    return eb.CosineIndex(with_row(0.0))


@python_case
def k_beyond_the_corpus():
    return eb.CosineIndex(rows()).search(rows(), k=7)


@python_case
def unknown_scan():
    return eb.CosineIndex(rows(), scan="int3")


@python_case
def anchors_with_nan():
    return eb.PolarizationAxis.fit(with_row(float("nan")))


@python_case
def labels_too_few():
    return eb.PolarizationAxis.fit(rows(), [1, -1], method="ridge")


@python_case
def scores_of_another_shape():
    return eb.threshold_sweep(rows(2, 8), rows(2, 9))


@python_case
def scores_with_nan():
    return eb.threshold_sweep(rows(), with_row(float("nan")))


@python_case
def relevance_weight_of_two():
    return eb.MMR(k=2, relevance_weight=2.0)


@python_case
def chain_of_nothing():
    return eb.Chain([])


@python_case
def an_array_for_a_choice():
    return eb.BiasDef(criterion=np.array(["kl", "mi"]))


@python_case
def a_number_beyond_every_float():
    return eb.MMR(k=2, relevance_weight=10**400)


@python_case
def an_integer_that_python_does_not_write_out():
    return eb.CosineIndex(rows()).search(rows(), k=-(10**5000))


@python_case
def an_integer_of_64_bits():
    return eb.CosineIndex(rows()).search(rows(), k=2**63)


@python_case
def a_text_for_a_threshold():
    return side_densities(rows()[0], rows()[0], "a")


@python_case
def a_huge_penalty():
    return eb.PolarizationAxis.fit(rows(), [1, 1, -1, -1], method="ridge", penalty=1e308)


@pytest.mark.parametrize("name", sorted(PYTHON_CASES))
def test_bad_arrays_get_three_parts(name):
    with pytest.raises(eb.InputError, match=r"(?s)^.+: expected .+, got .+"):
        PYTHON_CASES[name]()


MASK = [0, 0, 0, 1]
MASKED = {
    "rows": lambda: eb.CosineIndex(np.ma.masked_array(rows(), mask=[[x] * 3 for x in MASK])),
    "labels": lambda: eb.PolarizationAxis.fit(rows(), np.ma.masked_array([1, -1, 1, 9], MASK)),
    "attacked": lambda: bias.b_retrieval(
        np.ma.masked_array([1.0, 2, 3, 4], MASK), [1.0, 2, 3, 4], reference="undefended"
    ),
    "clean": lambda: bias.b_retrieval(
        [1.0, 2, 3, 4], np.ma.masked_array([1.0, 2, 3, 4], MASK), reference="undefended"
    ),
    "answers": lambda: bias.b_response(np.ma.masked_array(rows(), mask=rows() > 0), rows()),
    "interval": lambda: intervals.bootstrap_interval(np.ma.masked_array([1.0, 2, 3, 4], MASK)),
    "auc": lambda: ranks.auc(np.ma.masked_array([1.0, 2, 3, 4], MASK), [1.0]),
    "positions": lambda: check_positions([np.ma.masked_array([0, 1], [0, 1])], np.array([4])),
    "scores": lambda: retrieval.mean_polarization(np.ma.masked_array([1.0, 2, 3, 4], MASK)),
}


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_is_not_lost_but_refused(name):
    with pytest.raises(eb.InputError, match=r"expected an array without a mask; .*\.filled"):
        MASKED[name]()


def test_what_the_binding_cannot_take_is_told_without_its_contents():
    private = np.full((2, 3), 0.123, np.float32)
    with pytest.raises(eb.InputError, match="mmr: expected arguments of") as told, core_errors():
        kernels._core.mmr(private, private, 2**63)
    assert "0.123" not in str(told.value)


def test_a_message_about_an_array_or_an_endless_integer_shows_neither():
    for value in (np.full(9, 0.123), 10**5000, [0.123] * 999):
        with pytest.raises(eb.InputError) as told:
            eb.MMR(k=value)
        assert len(str(told.value)) < 600
    with pytest.raises(eb.InputError) as told:
        eb.MMR(k=np.full(9, 0.123))
    assert "0.123" not in str(told.value)


@pytest.mark.parametrize("size", [1e308, 1e-300])
@pytest.mark.parametrize("method", ["pca", "ridge", "mean_difference"])
def test_stances_of_any_size_give_the_axis_of_their_ratios(size, method):
    anchors = rows(8)
    anchors[:4, 0] += 5
    signs = np.repeat([1.0, -1.0], 4)
    huge = eb.PolarizationAxis.fit(anchors, signs * size, method=method)
    plain = eb.PolarizationAxis.fit(anchors, signs, method=method)
    np.testing.assert_array_almost_equal_nulp(huge.axis, plain.axis, nulp=4)
    assert huge.validity == plain.validity


def test_an_axis_cannot_be_written_to_and_does_not_follow_the_callers_array():
    batch = eb.PolarizationAxis.fit(np.stack([rows(), rows()[::-1]]))
    for axis in (batch, batch.topic(0)):
        with pytest.raises(ValueError, match="read-only"):
            axis.axis[0] = 0
    own = np.array([1, 0, 0], np.float32)
    made = eb.PolarizationAxis(own, "pca", 1.0, 1.0, None, 0.0, 0.0, True, 2)
    own[:] = 0
    assert made.axis.tolist() == [1, 0, 0]
    assert own.flags.writeable


def test_results_cannot_be_written_to():
    found = eb.CosineIndex(rows()).search(rows(), k=2)
    sweep = eb.threshold_sweep(rows(2, 8), rows(2, 8), min_kept=1, permutations=9, curve=True)
    printed = printed_sweep(rows(2, 8), rows(2, 8))
    sides = side_densities(rows()[0], rows()[1], 0.0)
    arrays = [one for result in (found, sweep, printed, sides) for one in vars(result).values()]
    arrays = [one for one in arrays if isinstance(one, np.ndarray)]
    assert len(arrays) == 2 + 6 + 5 + 3
    assert not [one for one in arrays if one.flags.writeable]
