"""Bad arrays and arguments in Python: `InputError` in three parts, never a cast or a crash."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import epibias as eb


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


@pytest.mark.parametrize("name", sorted(PYTHON_CASES))
def test_bad_arrays_get_three_parts(name):
    with pytest.raises(eb.InputError, match=r"(?s)^.+: expected .+, got .+"):
        PYTHON_CASES[name]()
