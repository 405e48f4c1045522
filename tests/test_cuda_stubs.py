"""`_cuda.pyi` and the emulated module say the same: names, parameters, order, defaults."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import epibias
from epibias import _cuda_emulated
from test_stubs import docstring_parameters, parameters

STUB = Path(epibias.__file__).with_name("_cuda.pyi")


def stub_functions() -> dict[str, ast.FunctionDef]:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_stub_names_what_the_module_has():
    public = {name for name in dir(_cuda_emulated) if not name.startswith("_")}
    assert public == set(stub_functions()) | {"emulated"}


@pytest.mark.parametrize("name", sorted(stub_functions()))
def test_parameters_and_defaults_agree(name):
    assert docstring_parameters(name, _cuda_emulated) == parameters(stub_functions()[name])
