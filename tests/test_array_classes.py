"""Classes that hold arrays: compared by identity, and shown without the vectors in them."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re

import pytest

import epibias


def classes_with_arrays():
    for found in pkgutil.walk_packages(epibias.__path__, "epibias."):
        if found.name.endswith(("_core", "__main__")):
            continue
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if name.startswith("_") or not isinstance(value, type):
                continue
            if value.__module__ == found.name and dataclasses.is_dataclass(value):
                arrays = [f for f in dataclasses.fields(value) if "Array" in str(f.type)]
                if arrays:
                    yield pytest.param(value, arrays, id=f"{found.name}.{name}")


CASES = list(classes_with_arrays())


def test_there_are_such_classes():
    assert len(CASES) >= 10


@pytest.mark.parametrize(("kind", "arrays"), CASES)
def test_two_of_them_can_be_compared(kind, arrays):
    # The == that a dataclass writes would compare arrays and raise "truth value is ambiguous".
    assert kind.__eq__ is object.__eq__ or not any(one.compare for one in arrays)


@pytest.mark.parametrize(("kind", "arrays"), CASES)
def test_none_of_them_shows_its_vectors(kind, arrays):
    private = re.compile("embeddings|vectors|axis$")
    vectors = [f.name for f in arrays if f.repr and private.search(f.name)]
    # The repr that a dataclass writes is wrapped against recursion; one written by hand is not.
    is_generated = hasattr(kind.__repr__, "__wrapped__")
    assert not (vectors and is_generated), f"{kind.__name__} prints {vectors}"
