"""`_core.pyi` and the built module say the same: names, parameters, order, defaults."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import epibias
from epibias import _core

STUB = Path(epibias.__file__).with_name("_core.pyi")


def stub_functions() -> dict[str, ast.FunctionDef]:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def docstring_parameters(name: str, module: ModuleType = _core) -> list[tuple[str, str | None]]:
    """The (parameter, default) pairs of the signature line that pybind11 writes."""
    doc = inspect.getdoc(getattr(module, name)) or ""
    first = doc.splitlines()[0]
    inside = re.fullmatch(rf"{name}\((.*)\) -> .*", first)
    assert inside, f"no signature in the docstring of {name}: {first!r}"
    tree = ast.parse(f"def {name}({inside.group(1)}): ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    return parameters(tree)


def parameters(function: ast.FunctionDef) -> list[tuple[str, str | None]]:
    names = [argument.arg for argument in function.args.args]
    defaults: list[str | None] = [None] * (len(names) - len(function.args.defaults))
    defaults += [repr(ast.literal_eval(default)) for default in function.args.defaults]
    return list(zip(names, defaults, strict=True))


def test_the_stub_names_what_the_module_has():
    public = {name for name in dir(_core) if not name.startswith("_")}
    assert public == set(stub_functions())


@pytest.mark.parametrize("name", sorted(stub_functions()))
def test_parameters_and_defaults_agree(name):
    assert docstring_parameters(name) == parameters(stub_functions()[name])


def test_the_comparison_sees_a_difference():
    function = ast.parse("def f(a, b=1): ...").body[0]
    assert parameters(function) != [("a", None), ("b", "2")]
