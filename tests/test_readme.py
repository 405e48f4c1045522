"""README: its example runs, its commands are there, its table comes from a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epibias import ValidityWarning

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def between(name: str) -> str:
    found = re.search(rf"<!-- {name}:begin -->\n(.*?)<!-- {name}:end -->", README, re.DOTALL)
    assert found, f"no markers {name}"
    return found.group(1)


def test_the_example_runs_and_warns_as_the_text_says(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 14
    with pytest.warns(ValidityWarning, match="rank correlation"):
        exec(compile(example, "README.md", "exec"), {})  # noqa: S102 (our own page)
    assert re.match(r"\[\d+( \d+){4}\]", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["demo-command", "test-command"])
def test_the_two_commands_are_one_line_each(name):
    lines = [line for line in between(name).splitlines() if line and not line.startswith("```")]
    assert len(lines) == 1
    assert lines[0].startswith("python -m pip install torch==")


def test_the_table_has_every_defence_and_interval():
    table = between("demo-table")
    for name in ("no defence", "MMR", "BiasDef bare", "BiasDef printed", "gate .1", "side auto"):
        assert name in table
    assert table.count("[") > 100
    assert "cells" in table


def test_links_lead_somewhere():
    root = Path(__file__).parents[1]
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(links) >= 5
    assert not [link for link in links if not (root / link).exists()]
