"""Figures in the words of pages are those of the committed results."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(name="figures")
def bench_module():
    spec = importlib.util.spec_from_file_location("page_figures", BENCH / "page_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["attacks", "nli", "offline-run", "reasons", "second-encoder"])
def test_a_page_says_what_the_committed_results_say(figures, name):
    page, results, make = figures.PARTS[name]
    if not (figures.ROOT / results).is_file():
        pytest.skip("a source distribution has no results")
    document = json.loads((figures.ROOT / results).read_text(encoding="utf-8"))
    text = (figures.ROOT / page).read_text(encoding="utf-8")
    assert figures.replaced(text, name, make(document)) == text, "python bench/page_figures.py"


def test_every_part_is_looked_at(figures):
    assert set(figures.PARTS) == {"attacks", "nli", "offline-run", "reasons", "second-encoder"}


def test_a_part_is_put_between_its_marks_and_nowhere_else(figures):
    page = f"a\n<!-- page-figures: x -->\nold\n{figures.END}\nb\n"
    made = figures.replaced(page, "x", "new")
    assert made == f"a\n<!-- page-figures: x -->\nnew\n{figures.END}\nb\n"
    assert figures.replaced(made, "x", "new") == made
    with pytest.raises(SystemExit, match="expected the marks"):
        figures.replaced(page, "y", "new")
