"""Files of passages: what is read back, and what is said of a file that is wrong."""

from __future__ import annotations

import datetime
import json
import stat
import tracemalloc

import pytest

from epibias.corpus import BeirData, Corpus, Passage, Qrels, Queries, parquet, readers
from epibias.errors import InputError, MissingExtraError

CORPUS = Corpus(
    [
        Passage("p1", "Trains\u2028are fast. é🚆", "Trains", "wiki", 3, "A. W.", "2026-01-14"),
        Passage("p2", "Cars are free.", extra={"id": 5, "stance": -0.5, "tags": ["a", "b"]}),
        Passage("p3", 'Walk "slowly".\nOr\tnot.', tier=1),
    ]
)
QUERIES = Queries(["q1", "q2"], ["Trains?", "Cars?"])
QRELS = Qrels({"q1": {"p1": 1, "p2": 0}, "q2": {"p2": 2}})
GOOD = b'{"_id": "p1", "text": "a"}\n'


def save(tmp_path, content, name="c.jsonl"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_jsonl_gives_back_what_was_written(tmp_path):
    CORPUS.to_jsonl(tmp_path / "c.jsonl")
    QUERIES.to_jsonl(tmp_path / "q.jsonl")
    QRELS.to_tsv(tmp_path / "r.tsv")
    assert Corpus.from_jsonl(tmp_path / "c.jsonl") == CORPUS
    assert Queries.from_jsonl(tmp_path / "q.jsonl") == QUERIES
    assert Qrels.from_tsv(tmp_path / "r.tsv") == QRELS
    assert stat.S_IMODE((tmp_path / "c.jsonl").stat().st_mode) == 0o600


def test_metadata_of_queries_is_kept(tmp_path):
    path = save(tmp_path, '{"query_id": "q", "text": "a?", "split": "dev", "none": null}\n')
    queries = Queries.from_jsonl(path)
    assert queries.metadata("split") == ("dev",)
    queries.to_jsonl(tmp_path / "again.jsonl")
    assert Queries.from_jsonl(tmp_path / "again.jsonl") == queries


@pytest.mark.parametrize("name", ["_id", "id", "doc_id"])
def test_an_id_has_three_names_and_the_first_one_wins(tmp_path, name):
    names = ["_id", "id", "doc_id"]
    kept = {n: f"value of {n}" for n in names[names.index(name) :]}
    corpus = Corpus.from_jsonl(save(tmp_path, json.dumps({"text": "a", **kept})))
    assert corpus.ids == (kept[name],)
    assert corpus[0].extra == {n: v for n, v in kept.items() if n != name}


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_are_taken(tmp_path):
    content = b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n") + b'\r\n\r\n{"_id":"p2","text":"b"}'
    assert Corpus.from_jsonl(save(tmp_path, content)).ids == ("p1", "p2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "corpus: expected at least one JSON object, got an empty file ("),
        (b"\n \n", "corpus: expected at least one JSON object, got an empty file ("),
        (GOOD + b"{", "corpus: expected a JSON object, got Expecting property name"),
        (GOOD + b'{"_id": "p2", "te', "the file ends here: is it cut off? ({path}, line 2)"),
        (GOOD + b"oops\n", "got Expecting value at character 0 of 4 ({path}, line 2)"),
        (GOOD + b"[1]\n", "corpus: expected a JSON object, got list of length 1 ({path}, line 2)"),
        (GOOD + b"null\n", "corpus: expected a JSON object, got None ({path}, line 2)"),
        (GOOD + b'{"_id": "x", "text": NaN}', "got NaN, which JSON does not have"),
        (GOOD + b'{"_id": "x", "n": ' + b"9" * 5000 + b"}", "expected a JSON object, got Exceeds"),
        (GOOD + b"[" * 100_000, "expected a JSON object, got maximum recursion"),
        (GOOD + b'{"_id": "x", "text": "a", "text": "b"}', "each field once, got 'text' twice"),
        (
            GOOD + b'{"text": "b"}',
            "_id: expected one of the fields _id, id, doc_id, got the fields",
        ),
        (GOOD + b'{"_id": "x"}', "text: expected the field 'text', got the fields ['_id'] ({path}"),
        (
            GOOD + b'{"_id": 2, "text": "b"}',
            "_id: expected an id that is a text, got 2 ({path}, li",
        ),
        (GOOD + b'{"_id": null, "text": "b"}', "_id: expected an id that is a text, got None"),
        (GOOD + b'{"_id": "x", "text": null}', "text: expected a text, got NoneType ({path}, line"),
        (GOOD + b'{"_id": "x", "text": " "}', "not blank, got ' ' ({path}, line 2, id 'x')"),
        (
            GOOD + b'{"_id": "x", "text": "\\udbc0"}',
            "got a lone surrogate '\\udbc0' at character 0",
        ),
        (GOOD + b'{"_id": "x", "text": "a", "tier": 4}', "tier: expected 1, 2 or 3, got 4 ({path}"),
        (GOOD + b'{"_id": "x", "text": "a", "time": 5}', "time: expected a date or time in ISO"),
        (GOOD + b"\n" + GOOD, "_id: expected each id once, got 'p1' in lines 1 and 3 ({path})"),
        (GOOD + b'{"_id": "x", "text": "\xff"}', "got byte 0xff at byte 22 of the line ({path}, l"),
    ],
)
def test_a_wrong_line_is_named_with_file_line_field_and_finding(tmp_path, content, message):
    path = save(tmp_path, content)
    with pytest.raises(InputError) as caught:
        Corpus.from_jsonl(path)
    assert message.replace("{path}", str(path)) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for path, reason in ((tmp_path / "no.jsonl", "No such file"), (tmp_path, "is a directory")):
        for read in (Corpus.from_jsonl, Queries.from_jsonl, Qrels.from_tsv, Corpus.from_parquet):
            with pytest.raises(InputError, match=f"(?i)expected a .*{reason}") as caught:
                read(path)
            assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "qrels: expected at least one judgement, got an empty file"),
        (["q1\tp1\t1"], "qrels: expected the header query-id, corpus-id, score"),
        (["query-id\tcorpus-id\tscore"], "qrels: expected at least one judgement, got an empty"),
        (["query_id\tdoc_id\trelevance", "q1\tp1"], "expected 3 cells, separated by tabs, got 2 ("),
        (["query-id\tcorpus-id\tscore", "q1 p1 1"], "expected 3 cells, separated by tabs, got 1 ("),
        (["query-id\tcorpus-id\tscore", "q1\tp1\t1.0"], "score: expected an integer, got '1.0' ("),
        (["query-id\tcorpus-id\tscore", "q9\tp1\t1"], "query-id: expected the id of a query, got"),
        (["query-id\tcorpus-id\tscore", "q1\tp9\t1"], "corpus-id: expected the id of a passage, g"),
        (["query-id\tcorpus-id\tscore", "q1\t\t1"], "corpus-id: expected an id without control"),
        (
            ["query-id\tcorpus-id\tscore", "q1\tp1\t1", "", "q1\tp1\t0"],
            "qrels: expected each pair once, got 'q1' and 'p1' in lines 2 and 4",
        ),
    ],
)
def test_wrong_judgements_are_named(tmp_path, lines, message):
    path = save(tmp_path, "".join(line + "\n" for line in lines), "r.tsv")
    with pytest.raises(InputError) as caught:
        readers.read_qrels(path, corpus=CORPUS, queries=QUERIES)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_beir_folder(tmp_path):
    data = BeirData(CORPUS, QUERIES, QRELS)
    data.write(tmp_path / "set")
    assert BeirData.read(tmp_path / "set") == data
    assert BeirData.read(tmp_path / "set", split="test") == data
    with pytest.raises(InputError, match=r"split: expected a split with a file dev\.tsv, got test"):
        BeirData.read(tmp_path / "set", split="dev")
    with pytest.raises(InputError, match=r"got no qrels\.tsv and no qrels/\*\.tsv"):
        BeirData.read(tmp_path)


def test_the_right_judgements_are_chosen_among_several(tmp_path):
    data = BeirData(CORPUS, QUERIES, QRELS)
    data.write(tmp_path, split="dev")
    assert BeirData.read(tmp_path).qrels == QRELS
    other = Qrels({"q1": {"p3": 1}})
    other.to_tsv(tmp_path / "qrels" / "test.tsv")
    assert BeirData.read(tmp_path).qrels == other
    assert BeirData.read(tmp_path, split="dev").qrels == QRELS


# Lines laid out as in three public sets, with the quirks that each has; the sets themselves are
# share-alike data of others and are read by bench/check_external_data.py.
PUBLIC = {
    "hotpotqa": (
        {"doc_id": "hp000", "text": "Moscow State University was founded in 1755 (МГУ).",
         "title": "Moscow State University", "source": "hotpotqa", "stance": None},
        {"doc_id": "hp001", "text": "Tokarev was a professor there.", "title": "Tokarev",
         "source": "hotpotqa", "stance": None},
    ),
    "perspectrum": (
        {"doc_id": "pers1_1", "text": "It’s the state’s duty.", "title": "",
         "source": "perspectrum/idebate", "stance": 1.0, "query_id": "q1"},
        {"doc_id": "pers1_2", "text": "It is nobody's duty.", "title": "",
         "source": "perspectrum/paraphrase", "stance": -0.4, "query_id": "q1"},
    ),
    "wikibalance": (
        {"doc_id": "-10_0_p1_d1", "text": "First.\n\nSecond — at length.", "title": "",
         "source": "p1", "stance": 1, "query_id": "q1"},
        {"doc_id": "-10_0_p2_d1", "text": "\n \n", "title": "", "source": "p2", "stance": -1,
         "query_id": "q1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_folders_of_public_sets_are_read(name, tmp_path):
    rows = PUBLIC[name]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    save(tmp_path, "".join(lines), "corpus.jsonl")
    save(tmp_path, '{"query_id": "q1", "text": "Why?"}\n', "queries.jsonl")
    save(tmp_path, '{"query_id": "q1", "split": "dev"}\n', "queries_meta.jsonl")
    judged = "".join(f"q1\t{row['doc_id']}\t1\n" for row in rows)
    save(tmp_path, "query_id\tdoc_id\trelevance\n" + judged, "qrels.tsv")
    data = BeirData.read(tmp_path, blank="skip")
    kept = [row for row in rows if row["text"].strip()]
    assert data.corpus.ids == tuple(row["doc_id"] for row in kept)
    assert data.corpus.skipped_ids == tuple(r["doc_id"] for r in rows if r not in kept)
    assert data.qrels == Qrels({"q1": {row["doc_id"]: 1 for row in kept}})
    assert [one.text for one in data.corpus] == [row["text"] for row in kept]
    stances = [row["stance"] for row in kept]
    if any(stances):
        assert data.corpus.metadata("stance") == tuple(stances)
    else:  # null is absent
        assert "stance" not in data.corpus.metadata_names
    data.corpus.to_jsonl(tmp_path / "again.jsonl")
    assert Corpus.from_jsonl(tmp_path / "again.jsonl") == data.corpus


def test_blank_passages_are_refused_or_listed(tmp_path):
    """WIKI-BALANCE has five of them; their judgements go with them."""
    rows = GOOD + b'{"_id": "p2", "text": " ", "title": "T"}\n{"_id": "p3", "text": "c"}\n'
    path = save(tmp_path, rows, "corpus.jsonl")
    with pytest.raises(InputError, match="line 2, id 'p2'"):
        Corpus.from_jsonl(path)
    corpus = Corpus.from_jsonl(path, blank="skip")
    assert (corpus.ids, corpus.skipped_ids) == (("p1", "p3"), ("p2",))
    QUERIES.to_jsonl(tmp_path / "queries.jsonl")
    Qrels({"q1": {"p2": 1, "p3": 1}}).to_tsv(tmp_path / "qrels.tsv")
    assert BeirData.read(tmp_path, blank="skip").qrels == Qrels({"q1": {"p3": 1}})
    with pytest.raises(InputError, match="blank: expected 'error' or 'skip', got 'drop'"):
        Corpus.from_jsonl(path, blank="drop")


def test_parquet_gives_back_what_was_written(tmp_path):
    CORPUS.to_parquet(tmp_path / "c.parquet")
    assert Corpus.from_parquet(tmp_path / "c.parquet") == CORPUS
    assert stat.S_IMODE((tmp_path / "c.parquet").stat().st_mode) == 0o600


def test_parquet_dates_become_iso_8601(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    day = datetime.date(2026, 11, 30)
    pq.write_table(pa.table({"id": ["a"], "text": ["t"], "time": [day]}), tmp_path / "c.parquet")
    assert Corpus.from_parquet(tmp_path / "c.parquet")[0].time == "2026-11-30"


def test_wrong_parquet_files_are_named(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "c.parquet"
    CORPUS.to_parquet(path)
    whole = path.read_bytes()
    for cut in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="corpus: expected a whole Parquet file") as caught:
            Corpus.from_parquet(path)
        assert str(path) in str(caught.value)
    for table, message in (
        ({"text": ["a"]}, "_id: expected one of the fields"),
        ({"_id": [1], "text": ["a"]}, r"_id: expected an id that is a text, got 1 \(.*, row 0\)"),
        ({"_id": ["a", "a"], "text": ["a", "b"]}, "got 'a' in rows 0 and 1"),
        ({"_id": ["a"], "text": ["b"], "raw": [b"x"]}, "raw: expected a value that JSON can hold"),
        ({"_id": pa.array([], pa.string()), "text": pa.array([], pa.string())}, "without rows"),
    ):
        pq.write_table(pa.table(table), path)
        with pytest.raises(InputError, match=message):
            Corpus.from_parquet(path)
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, ["_id", "_id"]), path)
    with pytest.raises(InputError, match="each column once, got '_id' twice"):
        Corpus.from_parquet(path)


@pytest.mark.parametrize("values", [({"a": 1}, {"b": 2}), (1, "one"), (2**70, 1), ([1, "a"], [2])])
def test_what_parquet_would_change_is_refused_and_jsonl_takes_it(tmp_path, values):
    corpus = Corpus(Passage(f"p{n}", "a", extra={"x": v}) for n, v in enumerate(values))
    with pytest.raises(InputError, match="x: expected values"):
        corpus.to_parquet(tmp_path / "c.parquet")
    assert list(tmp_path.iterdir()) == []
    corpus.to_jsonl(tmp_path / "c.jsonl")
    assert Corpus.from_jsonl(tmp_path / "c.jsonl") == corpus


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (lambda: parquet.read_corpus("x"), lambda: CORPUS.to_parquet(tmp_path / "x")):
        with pytest.raises(MissingExtraError, match=r"'\.\[parquet\]"):
            call()


def test_reading_is_streamed(tmp_path):
    """Field case 17: the peak is the corpus itself, not a list of objects beside it."""
    path = tmp_path / "c.jsonl"
    n_passages, n_characters = 20_000, 400
    with path.open("w") as file:
        for n in range(n_passages):
            file.write(json.dumps({"_id": f"p{n}", "text": f"{n:08}" * (n_characters // 8)}) + "\n")
    tracemalloc.start()
    try:
        corpus = Corpus.from_jsonl(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(corpus) == n_passages
    assert peak < 2.5 * n_passages * n_characters


@pytest.mark.parametrize("split", ["../dev", "a/b", "..", ".", "a\\b", "a\0b", "/dev", ""])
def test_a_split_that_leads_out_of_the_folder_is_refused(tmp_path, split):
    data = BeirData(CORPUS, QUERIES, QRELS)
    with pytest.raises(InputError, match="split: expected"):
        data.write(tmp_path / "set", split)
    assert not (tmp_path / "set").exists()
    data.write(tmp_path / "set")
    with pytest.raises(InputError, match=r"split: expected a (name|text)"):
        BeirData.read(tmp_path / "set", split)
