"""The property tables of docs/attacks.md are those of the committed results."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(name="tables")
def bench_module():
    spec = importlib.util.spec_from_file_location("attack_table", BENCH / "attack_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_the_committed_results_say(tables):
    if not tables.RESULTS.is_file():
        pytest.skip("a source distribution has no results")
    document = json.loads(tables.RESULTS.read_text(encoding="utf-8"))
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.content(document) in page
    assert document["problems"] == []


def test_a_row_by_hand(tables):
    share = {"mean": 0.25, "low": 0.1, "high": 0.505, "n": 2}
    row = {"attack": "ebi", "polarity": "positive", "n_passages": 4}
    shares = dict.fromkeys(tables.CATEGORIES, share)
    assert tables.table([{**row, "shares": shares}]).splitlines()[-1] == (
        "| ebi | positive | 4 | " + " | ".join(["25.0 [10.0, 50.5]"] * 4) + " |"
    )


def test_a_page_without_markers_is_refused(tables):
    with pytest.raises(SystemExit, match="expected the markers"):
        tables.replaced("no markers", "x")
