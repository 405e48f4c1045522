"""docs/baselines.md shows the table of the committed result, and that result passed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_has_the_table_of_the_committed_result():
    place = ROOT / "bench" / "check_baselines.py"
    spec = importlib.util.spec_from_file_location("check_baselines", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "bench" / "results" / "baselines.json").read_text(encoding="utf-8")
    result = json.loads(text)
    assert result["passed"] is True
    assert not any(one["differing"] for one in result["agreement"].values())
    page = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
    assert module.markdown(result["debates"]) in page
