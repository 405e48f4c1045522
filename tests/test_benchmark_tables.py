"""The tables of README and docs/benchmarks.md are what bench/tables.py makes of the results."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("bench_tables", ROOT / "bench" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def row(contender, milliseconds, **other):
    """One line of results, as bench/cosine_topk.py writes it."""
    ours = contender in ("auto", "int8")
    common = {"data": "text", "dim": 384, "n_threads": 1, "n_queries": 1, "k": 20}
    facts = {"level": "avx2", "scan": "int8"} if ours else {"level": "", "configuration": "64"}
    errors = {} if ours else {"other_ids_a_query": 0.5, "largest_error": 2e-7}
    time = {"median_ms": milliseconds} if milliseconds else {"not_run": "a call would take 9 s"}
    return common | {"contender": contender} | facts | errors | time | other


def results(*rows):
    scans = {name: {"prepare_s": 0.2, "bytes_a_passage": 400.0} for name in ("auto", "int8")}
    peers = {"numpy": {"prepare_s": 0.1}, "usearch": {"missing": "No module named 'usearch'"}}
    some = {"dim": 384, "n_threads": 1, "rows_are": "drawn", "n_passages": 1000}
    return {
        "machine": {"processor": "a processor", "cores": 2, "commit": "abc"},
        "command": "python bench/cosine_topk.py",
        "peers": {"numpy": "2"},
        "sets": [some | {"ours": {"scans": scans}, "peers": peers}],
        "rows": list(rows),
    }


def test_pages_say_what_the_committed_results_say(tables):
    if not tables.RESULTS.is_dir():
        pytest.skip("a source distribution has no results")
    for path, text in tables.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"run bench/tables.py for {path.name}"


def test_peers_are_multiples_of_ours_and_a_dash_where_none_ran(tables):
    found = results(row("auto", 2.0), row("int8", 1.9), row("numpy", 13.0), row("torch", None))
    ratios, levels, errors = (
        [line for line in part.splitlines() if line.startswith("|")]
        for part in tables.cosine_topk(found).split("####")[1:4]
    )
    assert ratios[0] == "| queries | k | epibias, ms (scan) | int8, ms | numpy | torch |"
    assert ratios[2:] == ["| 1 | 20 | 2 (int8) | 1.9 | × 6.5 | – |"]
    assert levels[2:] == ["| 384 | 1 | 2 | 1.9 |"]
    # 0.5 other ids of 20 a query are 25,000 of a million.
    assert errors[4] == "| numpy | 25000 | 2.0e-07 | 0.1 |  | 64 |"
    assert errors[5] == "| usearch | – | – | – | – | No module named 'usearch' |"
    assert "| 384 | 1 | 1 | 2 | × 6.5 | – | – | – |" in tables.short_table(found)
    assert "a processor, 2 cores, commit abc; `python bench/cosine_topk.py`." in tables.page(
        {"cosine_topk": found}
    )


def test_a_missing_file_is_said_to_be_missing(tables, tmp_path):
    (tmp_path / "threshold_sweep.json").write_text(
        json.dumps(
            {"machine": {}, "rows": [{"n": 20, "us": 0.78123}, {"n": 1e5, "note": "binned"}]}
        )
    )
    found = tables.read(tmp_path)
    page = tables.page(found)
    for name in ("cosine_topk", "polarization_axis", "biasdef_select"):
        assert f"`bench/results/{name}.json` is missing: nothing was measured yet." in page
    assert "threshold_sweep.json` is missing" not in page
    assert "| n | us | note |" in page
    assert "| 20 | 0.781 |  |" in page
    assert "| 100,000 |  | binned |" in page
    assert "is missing: nothing was measured yet." in tables.short_table(None)


def test_tables_with_titles_and_notes_are_printed_with_them(tables):
    table = {"title": "One query", "columns": ["who", "ms"], "rows": [["a", 1234.5]], "note": "x."}
    page = tables.page({"biasdef_select": {"machine": {}, "tables": [table]}})
    assert "#### One query\n\n| who | ms |\n| --- | --- |\n| a | 1,234 |\n\nx." in page


def test_a_page_without_markers_is_refused(tables, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# no markers\n")
    with pytest.raises(SystemExit, match=r"page\.md: expected the markers <!-- x:begin -->"):
        tables.replaced(page, "x", "table")
