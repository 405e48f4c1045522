"""`epibias calibrate`, and `filter --defense tilt_bound` with what it wrote."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from epibias.cli import main
from epibias.defenses.clean_memory import question_key
from epibias.defenses.tilt_bound_file import read_tilt_bound

ASKED = [f"Should the town build tram line number {i}?" for i in range(6)]


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def queries(*, injected=0, time=None):
    rng, attacker = np.random.default_rng(3), np.random.default_rng(4)
    lines = []
    for number, question in enumerate(ASKED):
        query = rng.standard_normal(6)
        query[0] = 0
        candidates = []
        for place in range(8):
            row = query + rng.standard_normal(6)
            row[0] = 0.4 * (-1) ** place
            candidates.append(
                {"id": f"p{place}", "text": "A remark on fares.", "vector": row.tolist(),
                 "time": "2026-01-01"}
            )  # fmt: skip
        for place in range(injected):
            row = query + 0.05 * attacker.standard_normal(6)
            row[0] = 1.0
            candidates.append(
                {
                    "id": f"x{place}",
                    "text": "Remark 9 on fares.",
                    "vector": row.tolist(),
                    "time": time,
                }
            )
        lines.append(
            {"query_id": f"q{number}", "query": question, "query_vector": query.tolist(),
             "candidates": candidates}
        )  # fmt: skip
    return lines


@pytest.fixture
def files(tmp_path):
    side = np.eye(6)[0]
    anchors = [
        {"id": f"a{i}", "vector": (sign * side + 0.01 * np.eye(6)[i]).tolist(), "stance": sign}
        for i, sign in enumerate((1, -1, 1, -1), 1)
    ]
    found = {
        "anchors": write(tmp_path / "anchors.jsonl", anchors),
        "clean": write(tmp_path / "clean.jsonl", queries()),
        "attacked": write(tmp_path / "attacked.jsonl", queries(injected=4)),
        "memory": str(tmp_path / "memory.json"),
    }
    common = ["--anchors", found["anchors"], "--method", "ridge"]
    found["common"] = common
    made = ["calibrate", found["clean"], *common, "-o", found["memory"], "--false-removal", "0.3"]
    assert main([*made, "--k", "3"]) == 0
    return found


def selected(files, queries, capsys, *more):
    asked = ["filter", files[queries], *files["common"], "--defense", "tilt_bound"]
    capsys.readouterr()
    assert main([*asked, "--memory", files["memory"], *more]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_memory_of_clean_pools_brings_attacked_selections_back(files, capsys):
    clean = selected(files, "clean", capsys)
    assert all(line["unchanged"] and line["known"] == "memory" for line in clean)
    assert all(len(line["selected"]) == 3 and not line["short"] for line in clean)
    attacked = selected(files, "attacked", capsys)
    for line in attacked:
        assert line["n_echo"] == 0
        assert line["n_refused"] == 4  # more than chance brings
        assert abs(line["tilt_after"]) < 1e-6
        assert not any(one["id"].startswith("x") for one in line["selected"])
    document = json.loads(selected_json(files, capsys))
    assert document["defense"]["defense"] == "tilt_bound"


def selected_json(files, capsys):
    asked = ["filter", files["attacked"], *files["common"], "--defense", "tilt_bound", "--json"]
    assert main([*asked, "--memory", files["memory"]]) == 0
    return capsys.readouterr().out


def test_one_question_on_two_topics_is_remembered_for_each(files, tmp_path, capsys):
    def on(name, *topics):
        lines = [json.loads(line) for line in Path(files[name]).read_text("utf-8").splitlines()]
        lines = [{**one, "topic": topic} for topic in topics for one in lines]
        if name == "clean":
            lines = [{**one, "query_id": f"q{number}"} for number, one in enumerate(lines)]
        return write(tmp_path / "_".join([name, *topics]), lines)

    files["common"] = ["--anchors", on("anchors", "rail", "cars"), "--method", "ridge"]
    files["both"] = on("clean", "rail", "cars")
    made = ["calibrate", files["both"], *files["common"], "-o", files["memory"], "--k", "3"]
    assert main(made) == 0
    memory = read_tilt_bound(files["memory"]).defense.memory
    assert set(memory.records) == {question_key(q, t) for q in ASKED for t in ("rail", "cars")}
    assert {one["known"] for one in selected(files, "both", capsys)} == {"memory"}
    # One of the two topics alone finds its records, too.
    files["common"][1] = on("anchors", "cars")
    assert {one["known"] for one in selected(files, "clean", capsys)} == {"memory"}


def test_vectors_of_another_precision_are_told(files, tmp_path, capsys):
    lines = queries()
    for line in lines:
        for one in line["candidates"]:
            one["vector"] = np.array(one["vector"], np.float16).tolist()
    files["half"] = write(tmp_path / "half.jsonl", lines)
    asked = ["filter", files["half"], *files["common"], "--defense", "tilt_bound"]
    assert main([*asked, "--memory", files["memory"]]) == 0
    found = capsys.readouterr()
    assert f"{len(lines)} of {len(lines)} questions got fewer passages than asked for" in found.err
    assert all(json.loads(line)["short"] for line in found.out.splitlines())
    asked[1] = files["attacked"]
    assert main([*asked, "--memory", files["memory"]]) == 0
    assert "fewer passages" not in capsys.readouterr().err


def test_newcomers_are_refused_where_lines_carry_times(files, tmp_path, capsys):
    files["late"] = write(tmp_path / "late.jsonl", queries(injected=6, time="2026-03-01"))
    found = selected(files, "late", capsys, "--trusted-until", "2026-02-01")
    assert all(line["n_refused"] == 6 for line in found)  # more than chance brings: a wave


def indexed(tmp_path):
    """All passages of the clean pools, as an index has them."""
    passages = [
        {"id": f"{line['query_id']}-{one['id']}", "vector": one["vector"]}
        for line in queries()
        for one in line["candidates"]
    ]
    return write(tmp_path / "index.jsonl", passages)


@pytest.mark.parametrize("with_pools", [False, True])
def test_an_index_guards_questions_that_nobody_asked(files, tmp_path, capsys, with_pools):
    clean = [[one["id"] for one in line["selected"]] for line in selected(files, "clean", capsys)]
    made = ["calibrate", "--trusted-index", indexed(tmp_path), "--k", "3"]
    pools = [files["clean"], *files["common"], "--no-remember", "--false-removal", "0.5"]
    assert main([*made, *(pools if with_pools else []), "-o", files["memory"]]) == 0
    told = capsys.readouterr().err
    assert ("6 clean pools; no question" if with_pools else "for any question and axis") in told
    assert "trusted_index=48 passages" in told
    saved = read_tilt_bound(files["memory"])
    assert len(saved.defense.trusted_index) == 48
    assert saved.defense.memory is None
    other = [
        {**line, "query": line["query"].replace("Should", "Shall")} for line in queries(injected=4)
    ]
    files["other"] = write(tmp_path / "other.jsonl", other)
    found = selected(files, "other", capsys)
    assert [[one["id"] for one in line["selected"]] for line in found] == clean
    assert all(line["known"] == "trusted" and line["n_refused"] == 4 for line in found)
    assert "warning" not in capsys.readouterr().err


def test_calibrate_needs_pools_or_an_index(files, tmp_path, capsys):
    assert main(["calibrate", *files["common"], "-o", files["memory"]]) == 2
    assert "queries: expected a file of clean pools, or --trusted-index" in capsys.readouterr().err
    twice = [{"id": "a", "vector": [1.0] * 6}] * 2
    asked = ["calibrate", "--trusted-index", write(tmp_path / "twice.jsonl", twice)]
    assert main([*asked, "-o", files["memory"]]) == 2
    assert "'a'" in capsys.readouterr().err


def test_an_index_that_does_not_fit_the_pools_is_told(files, tmp_path, capsys):
    lines = [json.loads(line) for line in Path(indexed(tmp_path)).read_text("utf-8").splitlines()]
    made = ["calibrate", files["clean"], *files["common"], "-o", files["memory"], "--k", "3"]
    some = write(tmp_path / "some.jsonl", lines[5:])
    assert main([*made, "--trusted-index", some]) == 0
    told = capsys.readouterr().err
    assert "warning: 5 of 48 candidates of the clean pools are not in" in told
    assert "newcomers to any question but theirs" in told
    other = [{**one, "vector": one["vector"][::-1]} for one in lines]
    assert main([*made, "--trusted-index", write(tmp_path / "other.jsonl", other)]) == 2
    assert "the passages that the clean pools are of, got none" in capsys.readouterr().err
    wide = [{**one, "vector": [*one["vector"], 1.0]} for one in lines]
    assert main([*made, "--trusted-index", write(tmp_path / "wide.jsonl", wide)]) == 2
    told = capsys.readouterr().err
    assert "--trusted-index: expected vectors of 6 columns, as the clean pools have, got 7" in told
    alone = ["calibrate", "-o", files["memory"]]
    for option in (["--false-removal", "0.1"], ["--no-remember"], ["--remember"], files["common"]):
        assert main([*alone, "--trusted-index", indexed(tmp_path), *option]) == 2
        told = capsys.readouterr().err
        assert f"{option[0]}: expected no such option without clean pools" in told
    assert main([*alone, "--trusted-index", indexed(tmp_path)]) == 0
    wider = queries()
    for line in wider:
        line["query_vector"].append(1.0)
        for one in line["candidates"]:
            one["vector"].append(1.0)
    side = [
        {"id": f"a{i}", "vector": [sign, *np.eye(6)[i].tolist()], "stance": sign}
        for i, sign in enumerate((1, -1, 1, -1), 1)
    ]
    asked = ["filter", write(tmp_path / "wider.jsonl", wider), "--defense", "tilt_bound"]
    asked += ["--anchors", write(tmp_path / "side.jsonl", side), "--method", "ridge"]
    assert main([*asked, "--memory", files["memory"]]) == 2
    assert "--memory: expected an index of 7 columns, as the candidates have, got 6" in (
        capsys.readouterr().err
    )


def test_an_index_goes_with_any_k_and_a_pool_that_is_too_small_is_not_its_fault(
    files, tmp_path, capsys
):
    made = ["calibrate", "--trusted-index", indexed(tmp_path)]
    assert main([*made, "-o", files["memory"]]) == 0
    found = selected(files, "clean", capsys, "--k", "2")
    assert all(len(line["selected"]) == 2 for line in found)
    asked = ["filter", files["attacked"], *files["common"], "--defense", "tilt_bound"]
    assert main([*asked, "--memory", files["memory"], "--k", "30"]) == 0
    assert "being newcomers" not in capsys.readouterr().err  # 8 of 30, and 4 are refused


def test_questions_without_trusted_candidates_are_told(files, tmp_path, capsys):
    few = [{"id": "a", "vector": [9.0, 0, 0, 0, 0, 1]}, {"id": "b", "vector": [0, 9.0, 0, 0, 0, 1]}]
    made = ["calibrate", "-o", files["memory"], "--k", "3"]
    assert main([*made, "--trusted-index", write(tmp_path / "few.jsonl", few)]) == 0
    assert all(line["known"] == "nothing" for line in selected(files, "clean", capsys))
    asked = ["filter", files["clean"], *files["common"], "--defense", "tilt_bound"]
    assert main([*asked, "--memory", files["memory"]]) == 0
    told = capsys.readouterr().err
    assert "6 of 6 questions have fewer than 3 candidates that are in the trusted index" in told
    assert "newcomers are refused" in told
    assert "6 of 6 questions got fewer passages than asked for" in told
    assert main([*asked, "--memory", files["memory"], "--trusted-until", "2026-01-01"]) == 2
    assert "trusted_until: expected None beside a trusted_index" in capsys.readouterr().err


def test_the_file_is_private_and_holds_no_text(files):
    path = Path(files["memory"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text(encoding="utf-8")
    assert not any(question in text for question in ASKED)
    assert "remark" not in text
    saved = read_tilt_bound(path)
    assert set(saved.defense.memory.records) == set(map(question_key, ASKED))
    assert saved.defense.k == 3


def other_anchors(tmp_path):
    anchors = [
        {"id": f"a{i}", "vector": (sign * np.eye(6)[1] + 0.01 * np.eye(6)[i]).tolist(),
         "stance": sign}
        for i, sign in enumerate((1, -1, 1, -1), 2)
    ]  # fmt: skip
    return write(tmp_path / "other.jsonl", anchors)


def test_a_memory_can_be_left_out_of_the_file_and_is_then_of_no_axis(files, tmp_path, capsys):
    made = ["calibrate", files["clean"], *files["common"], "-o", files["memory"], "--no-remember"]
    assert main(made) == 0
    assert "no question remembered" in capsys.readouterr().err
    assert read_tilt_bound(files["memory"]).defense.memory is None
    assert {line["known"] for line in selected(files, "attacked", capsys)} == {"nothing"}
    files["common"] = ["--anchors", other_anchors(tmp_path), "--method", "ridge"]
    assert {line["known"] for line in selected(files, "attacked", capsys)} == {"nothing"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--defense", "tilt_bound"], "--memory: expected a file"),
        (["--defense", "other"], "--defense: expected 'biasdef' or 'tilt_bound'"),
        (["--memory", "m.json"], "--memory: expected no such option without"),
        (["--trusted-until", "2026-01-01"], "--trusted-until: expected no such option without"),
        (["--defense", "tilt_bound", "--gate", "0.1"], "--gate: expected no such option with"),
        (["--defense", "tilt_bound", "--memory", "MEMORY", "--k", "4"], "--k: expected 3"),
        (["--defense", "tilt_bound", "--memory", "nowhere.json"], "memory: expected a file that"),
        (["--defense", "tilt_bound", "--memory", "ANCHORS"], "memory: expected JSON"),
    ],
)
def test_refused(files, capsys, more, told):
    places = {"MEMORY": files["memory"], "ANCHORS": files["anchors"]}
    more = [places.get(one, one) for one in more]
    assert main(["filter", files["clean"], *files["common"], *more]) == 2
    assert told in capsys.readouterr().err


def test_another_axis_and_a_changed_file_are_refused(files, tmp_path, capsys):
    anchors = other_anchors(tmp_path)
    asked = ["filter", files["clean"], "--defense", "tilt_bound", "--memory", files["memory"]]
    assert main([*asked, "--anchors", anchors, "--method", "ridge"]) == 2
    assert "the axis that the memory was measured on" in capsys.readouterr().err
    with open(files["memory"], encoding="utf-8") as file:
        document = json.load(file)
    for change, told in (
        ({"format": "other"}, "a file of format"),
        ({"parameters": {"defense": "none"}}, "TiltBound's"),
        (
            {"parameters": {"defense": "tilt_bound", "memory": {"a": [1]}}},
            "records of 4 or 5 values",
        ),
        (
            {"parameters": {"defense": "tilt_bound", "memory": {"a": [0.1, -1, 0.5, None]}}},
            "memory.spread: expected a finite number of at least 0, got -1",
        ),
        ({"axes": 3}, "a list of axes"),
        ({"version": 9}, "version 2, got 'epibias tilt_bound', version 9"),
        ({"axes": [{"topic": [1], "axis": [1.0]}]}, "topics that are texts"),
        ({"axes": 2 * [{"topic": "rail", "axis": [1.0]}]}, "'rail' in rows 0 and 1"),
    ):
        changed = tmp_path / "changed.json"
        changed.write_text(json.dumps({**document, **change}), encoding="utf-8")
        asked[-1] = str(changed)
        assert main([*asked, *files["common"]]) == 2
        assert told in capsys.readouterr().err


def test_calibrate_needs_texts_and_a_file(files, tmp_path, capsys):
    made = ["calibrate", files["clean"], *files["common"]]
    assert main([*made, "-o", "-"]) == 2
    assert "--output: expected a file" in capsys.readouterr().err
    lines = queries()
    for line in lines:
        del line["query"]
    without = write(tmp_path / "without.jsonl", lines)
    assert main(["calibrate", without, *files["common"], "-o", files["memory"]]) == 2
    assert "query texts and passage texts" in capsys.readouterr().err


def test_questions_that_nothing_guards_are_told(files, tmp_path, capsys):
    """Three pools give no echo limit, and another wording is not in the memory: nothing acts."""
    few = write(tmp_path / "few.jsonl", queries()[:3])
    capsys.readouterr()
    assert main(["calibrate", few, *files["common"], "-o", files["memory"]]) == 0
    told = capsys.readouterr().err
    assert told.count("epibias: warning: 3 clean questions gave no echo limit below 1:") == 1
    assert "4 are needed, 39 for one without assumptions; from questions" in told
    assert "ridge axis, 4 anchors" in told
    other = [{**line, "query": line["query"].replace("Should", "Shall")} for line in queries()[:2]]
    asked = ["filter", write(tmp_path / "other.jsonl", other + queries()[2:3]), *files["common"]]
    asked += ["--defense", "tilt_bound", "--memory", files["memory"]]
    assert main(asked) == 0
    told = capsys.readouterr().err
    assert "2 of 3 questions are not in the memory" in told
    assert "it has no echo limit: they are not defended" in told
    assert main(["filter", few, *asked[2:]]) == 0
    assert "in the memory" not in capsys.readouterr().err


def test_with_enough_pools_echoes_are_left_out_and_the_rest_is_told(files, tmp_path, capsys):
    made = ["calibrate", files["clean"], *files["common"], "-o", files["memory"]]
    capsys.readouterr()
    assert main([*made, "--false-removal", "0.5"]) == 0
    assert "no echo limit" not in capsys.readouterr().err
    other = [{**line, "query": line["query"].replace("Should", "Shall")} for line in queries()]
    files["other"] = write(tmp_path / "other.jsonl", other)
    asked = ["filter", files["other"], *files["common"], "--defense", "tilt_bound"]
    assert main([*asked, "--memory", files["memory"]]) == 0
    told = capsys.readouterr().err
    assert "6 of 6 questions are not in the memory: their tilt is not bounded, echoes are" in told
    assert "not defended" not in told
