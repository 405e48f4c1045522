"""`epibias attack` as tests call it: in this process, on one question of the shipped debates."""

from __future__ import annotations

from pathlib import Path

from epibias.cli import main

DATA = Path(__file__).parent / "fixtures" / "data"
QUESTION = "carfree-query-01"
ONE = ["--question", QUESTION]


def run(capsys, *arguments):
    code = main(["attack", *map(str, arguments)])
    return code, capsys.readouterr()


def make(capsys, kind, output, *arguments):
    return run(capsys, "make", kind, "-o", output, "--i-own-this-index", "--json", *ONE, *arguments)
