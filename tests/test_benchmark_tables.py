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


SWEEPS = {
    "machine": {"processor": "p", "threads": 1},
    "sweeps": [
        {
            "n": 20,
            "level": "avx512",
            "errors": {"float32": 1.2e-6, "scipy": 3e-5},
            "microseconds": {"float64": 1.2, "float32": 0.8, "scipy": 40000.0},
            "floor": {"microseconds": 0.5, "share_reached": 0.625},
        },
        {
            "n": 1000,
            "level": "avx2",
            "errors": {"float32": 0.0},
            "microseconds": {"float64": 90.0, "float32": 60.0},
        },
    ],
    "permutations": [{"level": "avx512", "clean": {"199": 50.0}, "leaning": {"199": 51.25}}],
    "binned_milliseconds": [{"level": "avx512", "100000": 1.25}],
}
AXES = {
    "machine": {},
    "cases": [
        {
            "case": "8 x 384, planted",
            "contenders": {
                "epibias avx2": {
                    "cpu_ms": 2.0,
                    "wall_ms": 2.5,
                    "cpu_ratio": 1.0,
                    "error": {"angle": 1e-8, "explained": 0.0, "relative_gap": 1e-15},
                },
                "numpy": {"cpu_ms": 9.0, "wall_ms": 9.5, "cpu_ratio": 4.5, "error": {}},
            },
        }
    ],
}
SELECTIONS = {
    "machine": {},
    "goal": {"n_queries": 1, "pool": 20, "dim": 768, "wall_p99_us": 100.0},
    "cases": [
        {
            "n_queries": 1,
            "pool": 20,
            "dim": 768,
            "fused": {
                "wall_p50_us": 40,
                "wall_p95_us": 50,
                "wall_p99_us": 60,
                "wall_p99_quietest_us": 55,
                "cpu_p50_us": 38,
            },
            "general": {"wall_p50_us": 90.5},
            "ratio_float32": 0.5,
            "ratio_general": 2.25,
            "ratio_staged": 9.0,
            "split_cpu_us": {"rank": 20.0, "sweep": 2.0},
        }
    ],
}


STRESS = {
    "environment": {
        "processor": "p",
        "n_cpus": 2,
        "backend": {"n_threads": 3},
        "commit": "0123456789abcdef",
    },
    "points": [
        {
            "n_passages": 1_000_000,
            "ms": 6.5,
            "scan": "int4",
            "batch_size": 200,
            "batch_queries_per_second": 412.9,
            "p95_ms": 8.5,
        }
    ],
    "linearity": {"deviations": [-0.06]},
    "exactness": {"n_wrong": 1, "n_answers": 880},
    "memory": {"phases": {"search": {"anonymous": 2**20, "file_mapped": 3 * 2**20}}},
    "corpus": {"seconds": 90},
    "index": {"seconds": 20},
    "verdicts": {"exact": "failed"},
}


def test_a_stress_run_has_its_tables(tables):
    page = tables.page({"stress": STRESS})
    for line in (
        "p, 2 cores, threads: 3, commit 0123456789ab.",
        "| 1,000,000 | 6.5 (int4) | -6 % | 413 | 8.5 |",
        "| search | 1 | 3 |",
        "1 of 880 answers differ from float64; made in 90 s, prepared in 20 s.",
        "Verdicts: exact failed.",
    ):
        assert line in page, line


def test_each_bench_has_its_tables(tables):
    page = tables.page(
        {"threshold_sweep": SWEEPS, "polarization_axis": AXES, "biasdef_select": SELECTIONS}
    )
    for line in (
        "p, threads: 1.",
        "| 20 | avx512 | 0.8 | × 1.5 | × 50,000 | 0.5 | 62% |",
        "| 1,000 | avx2 | 60 | × 1.5 | – | – | – |",
        "| 20 | avx512 | 1.20e-06 | 3.00e-05 |",
        "| 1,000 | avx2 | 0 | – |",
        "| avx512 | leaning | 51.2 |",
        "| level | n = 100,000 |",
        "#### 8 x 384, planted",
        "| epibias avx2 | 2 | 2.5 | × 1 | 1.00e-08 | 1.00e-15 |",
        "| numpy | 9 | 9.5 | × 4.5 | – | – |",
        "| 768 | 20 | 1 | 40 | 50 | 60 | 55 | 38 | 90.5 | × 0.5 | × 2.25 | × 9 | 20 | 2 |",
        "Goal: p99 of at most 100 µs for 1 query, 20 candidates, dim 768.",
    ):
        assert line in page, line


def test_a_missing_file_is_said_to_be_missing(tables, tmp_path):
    (tmp_path / "threshold_sweep.json").write_text(json.dumps(SWEEPS))
    page = tables.page(tables.read(tmp_path))
    for name in ("cosine_topk", "polarization_axis", "biasdef_select"):
        assert f"`bench/results/{name}.json` is missing: nothing was measured yet." in page
    assert "threshold_sweep.json` is missing" not in page
    assert "is missing: nothing was measured yet." in tables.short_table(None)


def test_a_page_without_markers_is_refused(tables):
    with pytest.raises(SystemExit, match=r"page\.md: expected the markers <!-- x:begin -->"):
        tables.replaced("# no markers\n", "page.md", "x", "table")


def test_a_goal_is_met_by_its_worst_case_alone(tables):
    goals = sys.modules["goals"]
    found = results(row("auto", 2.0), row("numpy", 13.0), row("FAISS", 11.0))
    found["machine"]["simd_levels"] = ["scalar", "avx2"]
    line = goals.search("flat peers", 6, goals.FLAT).line({"cosine_topk": found})
    assert line[1:] == ["≥ 6", "5.5 (FAISS, dim 384, 1 query)", "**no**"]
    assert goals.search("numpy", 6, ("numpy",)).line({"cosine_topk": found})[3] == "yes"
    assert goals.search("numpy", 6, ("numpy",)).line({"cosine_topk": None})[2] == "not measured"


def test_what_an_index_withstood_is_counted_or_said_to_be_missing(tables):
    index_table = sys.modules["index_table"]
    rate = {"n": 1, "of": 50, "rate": 0.02, "low": 0.0005, "high": 0.1065}
    drift = {"drift": [0.0] * 24, "n_passages": 1_000_000, "wall_seconds": {"drift": 1.8123}}
    found = {
        "index_false_alarms": {
            "attacked_queries": 12,
            "attacks_held": {"natural": 12, "burst": 11},
            "updates_held": rate | {"n": 0, "of": 10},
            "held": rate,
            "rate_stated": 0.05,
        },
        "index_kills": {"kills": 200, "acknowledged": 1212, "problems": []},
        "index_readers": {"readers": 2, "promotions": 10, "n_read": [3, 4], "mixed": ["x"]},
        "index_drift": drift,
    }
    found = {name: {**one, "commit": "0123456789abcdef"} for name, one in found.items()}
    shown = index_table.table(found)
    assert "| attacks held, of 12 attacked queries | natural 12, burst 11 |" in shown
    assert "1 of 50 (95 % interval 0.1 to 10.7 %); stated rate 5 %" in shown
    assert "1,212 acknowledged writes, 0 lost or torn" in shown
    assert "7 reads, 1 of a mixed version" in shown
    assert "| drift of 24 golden queries on 1,000,000 passages | 1.81 s |" in shown
    assert "Commit 0123456789ab;" in shown
    del found["index_kills"]
    assert index_table.table(found).startswith("Not measured yet: index_kills")


def test_a_run_of_an_installed_package_names_no_commit(tables):
    environment = {"processor": "p", "n_cpus": 2, "backend": {"n_threads": 2}, "commit": None}
    assert tables.where({"environment": environment}) == "p, 2 cores, threads: 2."
