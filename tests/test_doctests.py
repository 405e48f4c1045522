"""Every example in a docstring runs, and every public name has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import epibias

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(epibias.__path__, "epibias.")
    if not module.name.endswith(("_core", "__main__"))
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=flags).failed == 0


@pytest.mark.parametrize("name", sorted(epibias.__all__))
def test_public_names_have_an_example(name):
    value = getattr(epibias, name)
    if isinstance(value, str):
        pytest.fail(f"{name}: a plain string needs no place in __all__")
    texts = [inspect.getdoc(value) or ""]
    if inspect.isclass(value):
        texts += [inspect.getdoc(member) or "" for _, member in inspect.getmembers(value)]
    examples = sum(len(doctest.DocTestParser().get_examples(text)) for text in texts)
    assert examples > 0 or issubclass(value, Warning), f"{name} has no doctested example"
