"""Every `epibias …` line of README and docs/ names a command, and options, that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from epibias.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = typer.main.get_command(app)


def lines_of(text):
    """Give the commands in the blocks of a page, without comments and what the shell reads."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\||;", line):
                command = re.split(r"\s[#<>]", part.strip())[0]
                if command.startswith("epibias ") and "…" not in command:
                    yield command


def parse(line):
    """Find the command of a line and read its options; nothing is run."""
    command, arguments = COMMANDS, shlex.split(line)[1:]
    context = command.context_class(command, info_name="epibias")
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.context_class(command, info_name=name, parent=context)
    command.make_parser(context).parse_args(list(arguments))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_can_be_read(page):
    for line in lines_of(page.read_text(encoding="utf-8")):
        parse(line)  # says which option of which command there is not


def test_a_command_or_option_that_is_not_there_is_found():
    found = list(lines_of("```bash\nepibias data show debates --json > a.json  # so\n```\n"))
    assert found == ["epibias data show debates --json"]
    parse(found[0])
    for wrong in ("epibias data list", "epibias data show debates --yaml", "epibias show"):
        with pytest.raises(Exception, match="No such"):
            parse(wrong)
    assert sum(1 for page in PAGES for _ in lines_of(page.read_text(encoding="utf-8"))) > 40
