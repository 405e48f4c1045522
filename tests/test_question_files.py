"""Broken files say file, place and finding; the layout of one's own comes back as it was."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest

from epibias.data_sets import load_questions, write_questions
from epibias.errors import InputError

DATA = Path(__file__).parent / "fixtures" / "data"
CLAIMS = "perspectrum_with_answers_v1.0.json"


@pytest.mark.parametrize(
    "source",
    ["debates", *(DATA / name for name in ("wiki_balance", "hotpotqa", "procon", "perspectrum"))],
    ids=str,
)
def test_any_set_comes_back_from_the_own_layout(tmp_path, source):
    found = load_questions(source)
    path = tmp_path / "set.jsonl"
    write_questions(found, path)
    again = load_questions(path)
    for name in ("name", "corpus", "questions", "relevant", "licence", "notes"):
        assert getattr(again, name) == getattr(found, name), name
    assert {**found.files, "set.jsonl": again.files["set.jsonl"]} == dict(again.files)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def own_lines():
    text = (DATA / "own" / "questions.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def put(tmp_path, rows):
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "changes", "message"),
    [
        (1, {"kind": "question"}, r"'set' in the first line.*\(own.jsonl, line 1\)"),
        (1, {"licence": None}, "licence: expected the field 'licence'"),
        (1, {"counts": {"questions": 2}}, "counts: .*is the file cut off"),
        (2, {"kind": "set"}, r"only there, got kind 'set' \(own.jsonl, line 2\)"),
        (2, {"kind": "query"}, r"kind: expected one of set, .* got 'query' \(own.jsonl, line 2\)"),
        (2, {"text": " "}, r"question: .*not blank, got ' ' \(own.jsonl, line 2\)|text: .*line 2"),
        (2, {"relevant": ["p9"]}, r"relevant: .* got unknown 'p9' \(own.jsonl, line 2\)"),
        (2, {"relevant": ["p1", "p1"]}, "relevant: expected each id once, got 'p1'"),
        (2, {"poles": ["one"]}, "poles: expected two texts, con and pro, got 1"),
        (3, {"stance": 4}, r"stance: .*from -3 to 3, got 4 \(own.jsonl, line 3\)"),
        (4, {"stance": None}, r"stance: expected a stance on all anchors .*\(own.jsonl, line 4\)"),
        (3, {"question": "q9"}, r"question above, got unknown 'q9' \(own.jsonl, line 3\)"),
        (4, {"passage": {"_id": "a1", "text": "Twice."}}, "anchors: expected each id once"),
        (5, {"passage": {"_id": "p2", "text": "a"}}, r"'p2' again \(own.jsonl, line 6\)"),
        (5, {"passage": {"_id": "p1", "text": "a", "tier": 4}}, r"tier: .*4 \(own.jsonl, line 5"),
        (5, {"passage": {"_id": "p1"}}, r"text: expected a text, got NoneType \(own.jsonl, line 5"),
        (5, {"passage": "p1"}, r"passage: expected an object, got 'p1' \(own.jsonl, line 5\)"),
        (7, {"polarity": "for"}, r"polarity: .*got 'for' \(own.jsonl, line 7\)"),
        (7, {"passage": {"_id": "p1", "text": "a"}}, "'p1', which is a benign passage"),
    ],
)
def test_a_line_of_the_own_layout_that_is_wrong_is_named(tmp_path, line, changes, message):
    rows = own_lines()
    rows[line - 1] = {**rows[line - 1], **changes}
    with pytest.raises(InputError, match=message):
        load_questions(put(tmp_path, rows))


def test_a_file_that_lost_its_end_is_noticed(tmp_path):
    whole = (DATA / "own" / "questions.jsonl").read_bytes()
    path = tmp_path / "own.jsonl"
    for cut, message in ((-2, "line 7"), (-120, "line 6|line 7"), (None, "counts: .*cut off")):
        lines = whole.splitlines(keepends=True)
        path.write_bytes(whole[:cut] if cut else b"".join(lines[:-1]))
        with pytest.raises(InputError, match=message):
            load_questions(path)


def copy(tmp_path, name):
    return Path(shutil.copytree(DATA / name, tmp_path / name))


def change(path, value_of):
    document = json.loads(path.read_text(encoding="utf-8"))
    value_of(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def at(*places, to):
    """Give a change of one place in a document."""

    def set_it(document):
        for place in places[:-1]:
            document = document[place]
        document[places[-1]] = to

    return set_it


@pytest.mark.parametrize(
    ("name", "file", "edit", "message"),
    [
        (
            "hotpotqa",
            "hotpot_dev_distractor_v1.json",
            at(1, "_id", to="hp1"),
            "'hp1' in .*entry 0 and .*entry 1",
        ),
        (
            "hotpotqa",
            "hotpot_dev_distractor_v1.json",
            at(0, "supporting_facts", 0, 0, to="Elsewhere"),
            r"supporting_facts: .* got 'Elsewhere' \(.*entry 0\)",
        ),
        (
            "hotpotqa",
            "hotpot_dev_distractor_v1.json",
            at(0, "context", 1, 0, to="Linden tram"),
            "context: expected each title once",
        ),
        (
            "hotpotqa",
            "hotpot_dev_distractor_v1.json",
            at(0, "context", 0, to=["Linden tram"]),
            "context: expected a pair, got list of length 1",
        ),
        ("reddit", "dialogues.json", at(0, "candidates", 1, "id", to=None), "candidate 1"),
        (
            "reddit",
            "wikipedia_grounded_dialogues.json",
            at(0, "candidates", 1, "body", to="Trams fly."),
            r"with another text or title \(wikipedia_.*, entry 0, candidate 1\)",
        ),
        (
            "reddit",
            "wikipedia_grounded_dialogues.json",
            at(0, "id", to="t5_2qh.aaa.0.3"),
            "id: expected each id once",
        ),
        ("procon", "PROCON_data.json", at(0, "passages", 0, 1, to=2), r"stance: .*got 2 \(.*ge 0"),
        ("procon", "PROCON_data.json", at(0, "passages", 0, 1, to=True), "stance: .*got True"),
        ("procon", "PROCON_data.json", at(0, "passages", 1, 0, to=0), "number: expected each"),
        ("procon", "PROCON_data.json", at(0, "passages", 1, 4, to="Else"), "topic: .*got 'Else'"),
        ("perspectrum", CLAIMS, at(0, "perspectives", 0, "pids", to=[999]), "pids: .*got 999"),
        ("perspectrum", CLAIMS, at(0, "perspectives", 0, "evidence", to=[9]), "evidence: .*got 9"),
        (
            "perspectrum",
            CLAIMS,
            at(0, "perspectives", 0, "voter_counts", to=[1, 2]),
            r"voter_counts: expected five counts, .*entry 0, perspective 0\)",
        ),
        (
            "perspectrum",
            CLAIMS,
            at(0, "perspectives", 1, "stance_label_3", to="MAYBE"),
            r"stance_label_3: .*got 'MAYBE' \(.*entry 0, perspective 1\)",
        ),
        ("perspectrum", CLAIMS, at(1, "cId", to=11), "cId: expected each id once, got 11 again"),
        ("perspectrum", "evidence_pool_v1.0.json", at(1, "eId", to=501), "eId: .*501 again"),
    ],
)
def test_an_entry_that_is_wrong_is_named(tmp_path, name, file, edit, message):
    folder = copy(tmp_path, name)
    change(folder / file, edit)
    with pytest.raises(InputError, match=message):
        load_questions(folder)


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "message"),
    [
        ("flat", "corpus.jsonl", "-0.8333", "-1.5", r"stance: .*got -1.5 \(corpus.jsonl, id 'c1_2"),
        ("flat", "corpus.jsonl", "-0.8333", '"con"', "stance: expected a finite number"),
        ("flat", "corpus.jsonl", '"query_id": "c2"', '"query_id": "c9"', "query_id: .*got 'c9'"),
        ("flat", "queries_meta.jsonl", '"c2"', '"c9"', r"'c9' \(queries_meta.jsonl, line 2\)"),
        ("flat", "queries_meta.jsonl", '"c2"', '"c1"', r"'c1' again \(queries_meta.jsonl, line 2"),
        ("flat", "qrels.tsv", "c2_1", "c9_9", "corpus-id: .*unknown 'c9_9'"),
        ("wiki_balance", "synthetic/corpus.jsonl", "_p1_d1", "_p3_d1", "_id: .*<page>_<query>_p1"),
        ("wiki_balance", "synthetic/queries.jsonl", "9003_1", "9003_2", "_id: .*'9003_1', which"),
        ("wiki_balance", "natural/qrels/test.tsv", "\t5", "\tx", r"score: .*'x' \(.*, line 2\)"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path, name, file, old, new, message):
    folder = copy(tmp_path, name)
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_questions(folder)


@pytest.mark.parametrize("name", ["hotpotqa", "reddit", "procon", "perspectrum"])
def test_a_document_that_is_cut_off_or_not_utf_8_is_told_by_line(tmp_path, name):
    folder = copy(tmp_path, name)
    path = next(path for path in sorted(folder.glob("*.json")) if "split" not in path.name)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=rf"is the file cut off|is it cut off.*\({path.name}, li"):
        load_questions(folder)
    path.write_bytes(whole.replace(b"t", b"\xe4", 1))
    with pytest.raises(InputError, match=rf"UTF-8, got byte 0xe4 \({path.name}, line \d+\)"):
        load_questions(folder)
    path.write_bytes(b"[]")
    with pytest.raises(InputError, match="expected at least one object, got an empty list"):
        load_questions(folder)
    path.write_bytes(b'[{"a": 1, "a": 2}]')
    with pytest.raises(InputError, match="the field 'a' twice"):
        load_questions(folder)


def test_grades_below_the_least_are_told(tmp_path):
    folder = copy(tmp_path, "wiki_balance")
    path = folder / "natural" / "qrels" / "test.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n-7001_0\tw1\t1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"grade 4 or better \(min_grade\), got grades \[1\]"):
        load_questions(folder)


def test_the_same_results_in_two_folders_are_refused(tmp_path):
    folder = copy(tmp_path, "procon")
    shutil.copytree(folder / "results", folder / "more")
    with pytest.raises(InputError, match=r"one opinion_result_0_0.json, got another in 'more'"):
        load_questions(folder)
    shutil.rmtree(folder / "more")
    (folder / "results" / "opinion_result_0_0.json").rename(folder / "opinion_result_5_0.json")
    with pytest.raises(InputError, match=r"a topic from 0 to 1, got 5 \(opinion_result_5_0.json\)"):
        load_questions(folder)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (DATA / "procon", {"split": "dev"}, "split: expected no split for the layout 'procon'"),
        (DATA / "procon", {"blank": "drop"}, "blank: expected 'error' or 'skip'"),
        (DATA / "procon", {"revision": "main"}, "revision: expected no revision for files"),
        (DATA / "procon", {"layout": "toml"}, "layout: expected 'jsonl' or"),
        (DATA, {}, "name_or_path: expected files of one of the layouts jsonl, .*got flat, hotpot"),
        ("no such set", {}, "exists, or one of debates, wiki-balance, hotpotqa, got 'no such set'"),
        ("debates", {"split": "dev"}, "split: expected no split for 'debates'"),
        (DATA / "reddit", {"layout": "procon"}, "PROCON_data.json"),
    ],
)
def test_what_cannot_be_loaded_says_what_could(path, options, message):
    with pytest.raises(InputError, match=message):
        load_questions(path, **options)
