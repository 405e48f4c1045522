"""TREC files are read by an outside tool and give the metrics that the run reports."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import ir_measures
import pytest

from epibias.errors import InputError
from epibias.experiment.demo import run_demo
from epibias.experiment.plan import Attack
from epibias.experiment.trec import qrels_lines, run_lines
from fake_encoder import FACTS, FakeEncoder

TOPICS = ["remote", "tipping", "cashless"]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    out = tmp_path_factory.mktemp("trec") / "run"
    return run_demo(out, FakeEncoder(), FACTS, topics=TOPICS)


def rows_of(result, attack, defense, axis):
    return [
        row
        for row in result.rows
        if Attack.of_row(row).key == attack and row["defense"] == defense and row["axis"] == axis
    ]


@pytest.mark.parametrize("attack", ["injection-positive-5", "injection-negative-10"])
@pytest.mark.parametrize("tag", ["none", "mmr", "biasdef-pca", "biasdef-bare-ridge"])
def test_ir_measures_agrees_with_the_raw_rows(result, attack, tag):
    folder = result.folder / "trec"
    run = list(ir_measures.read_trec_run(str(folder / attack / f"{tag}.run")))
    adversarial = list(ir_measures.read_trec_qrels(str(folder / attack / "adversarial.qrels")))
    relevant = list(ir_measures.read_trec_qrels(str(folder / "relevant.qrels")))
    defense, _, axis = tag.rpartition("-") if tag[-3:] in ("pca", "dge") else (tag, "", "pca")
    rows = {row["query_id"]: row for row in rows_of(result, attack, defense, axis)}
    assert len(rows) == len(TOPICS)
    precision, recall = ir_measures.P @ 5, ir_measures.R @ 5
    checked = 0
    for qrels, measure, column in (
        (adversarial, precision, "adversarial_precision"),
        (adversarial, recall, "adversarial_recall"),
        (relevant, precision, "recall_over_k"),
        (relevant, recall, "recall_over_relevant"),
    ):
        for found in ir_measures.iter_calc([measure], qrels, run):
            assert found.value == pytest.approx(rows[found.query_id][column], abs=1e-12)
            checked += 1
    assert checked == 4 * len(TOPICS)


def test_scores_fall_strictly_and_keep_the_order_of_the_defence(result):
    files = sorted((result.folder / "trec").rglob("*.run"))
    assert len(files) == 9 * (2 + 6 * 3)
    for path in files:
        by_query: dict[str, list[tuple[int, float, str]]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            query, q0, passage, rank, score, tag = line.split(" ")
            assert (q0, tag) == ("Q0", path.stem)
            by_query.setdefault(query, []).append((int(rank), float(score), passage))
        for entries in by_query.values():
            assert [rank for rank, _, _ in entries] == list(range(1, len(entries) + 1))
            scores = [score for _, score, _ in entries]
            assert all(above > below for above, below in pairwise(scores))


def test_mmr_order_survives(result):
    [row] = [r for r in rows_of(result, "clean", "mmr", "pca") if r["topic"] == "remote"]
    path = Path(result.folder) / "trec" / "clean" / "mmr.run"
    ids = [
        line.split(" ")[2]
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("remote-")
    ]
    assert ids == row["selected_ids"]
    assert row["selected_similarities"] != sorted(row["selected_similarities"], reverse=True)


def test_all_scores_equal_still_gives_an_order():
    lines = run_lines("q", ["c", "a", "b"], "tag")
    assert [line.split(" ")[4] for line in lines] == ["3", "2", "1"]


@pytest.mark.parametrize("name", ["a b", "a\tb", "a\u0085b", "a\u2028", ""])
def test_an_id_that_would_break_a_column_is_refused(name):
    with pytest.raises(InputError, match="passage id: expected no white space"):
        run_lines("q", [name], "none")
    with pytest.raises(InputError, match="passage id: expected no white space"):
        qrels_lines({"q": [name]})
    with pytest.raises(InputError, match="query_id: expected no white space"):
        run_lines(name, ["a"], "none")
