"""Every example in the pages of docs/ runs and prints what the page says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(page for page in DOCS.glob("*.md") if ">>>" in page.read_text(encoding="utf-8"))
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page):
    text = page.read_text(encoding="utf-8")
    # A closing fence right after output would be read as output.
    assert not re.search(r"^>>> .*\n(?:(?!\n|```).*\n)*```", text, re.MULTILINE), "no blank line"
    parsed = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert parsed.examples
    results = doctest.DocTestRunner(optionflags=FLAGS).run(parsed)
    assert results.failed == 0
