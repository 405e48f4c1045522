"""Corpus, Queries, Qrels: checked columns, ids that meet rows, no silent conversion."""

from __future__ import annotations

import pickle
import tracemalloc

import pytest

from epibias._plain import moment
from epibias.corpus import Corpus, Passage, Qrels, Queries
from epibias.errors import InputError

PASSAGES = [
    Passage("p1", "Trains are fast.", "Trains", "wiki", 3, "A. Writer", "2026-01-14"),
    Passage("p2", "Cars are free."),
    Passage("p3", "Walk.", extra={"stance": -1.5, "tags": ["a", "b"]}),
]


def test_passages_come_back_as_they_were_given():
    corpus = Corpus(PASSAGES)
    assert list(corpus) == PASSAGES
    assert corpus.ids == ("p1", "p2", "p3")
    assert list(corpus.encoded_texts) == ["Trains\nTrains are fast.", "Cars are free.", "Walk."]
    assert corpus.encoded_texts[1:] == ["Cars are free.", "Walk."]
    assert corpus.encoded_texts[-1] == "Walk."
    assert corpus.metadata("tier") == (3, None, None)
    assert corpus.metadata("title") == ("Trains", "", "")
    assert corpus.metadata("author") == ("A. Writer", None, None)
    assert corpus.metadata("stance") == (None, None, -1.5)
    assert corpus.metadata_names[5:] == ("stance", "tags")
    assert corpus == pickle.loads(pickle.dumps(corpus))  # noqa: S301
    assert corpus != Corpus(PASSAGES[:2])


def test_an_empty_corpus_is_a_corpus():
    corpus = Corpus([])
    assert (len(corpus), list(corpus), list(corpus.encoded_texts), corpus.metadata("tier")) == (
        0,
        [],
        [],
        (),
    )


def test_extending_leaves_the_first_corpus_alone():
    corpus = Corpus(PASSAGES)
    longer = corpus.extended([Passage("p4", "Ride.", tier=1)])
    assert longer == Corpus([*PASSAGES, Passage("p4", "Ride.", tier=1)])
    assert corpus == Corpus(PASSAGES)
    with pytest.raises(InputError, match=r"_id: expected each id once, got 'p2' in rows 1 and 3"):
        corpus.extended([Passage("p2", "again")])


def test_changing_what_a_passage_gave_does_not_change_the_corpus():
    corpus = Corpus(PASSAGES)
    corpus[2].extra["stance"] = 9
    assert corpus.metadata("stance") == (None, None, -1.5)


@pytest.mark.parametrize(
    ("passage", "message"),
    [
        (Passage("x", ""), "text: expected a text that is not blank, got '' (row 1, id 'x')"),
        (Passage("x", "  \n "), "text: expected a text that is not blank, got '  \\n '"),
        (Passage("x", "a \udbc0"), "text: expected valid Unicode, got a lone surrogate '\\udbc0'"),
        (Passage("x", "a", "\udbc0"), "title: expected valid Unicode, got a lone surrogate"),
        (Passage("x", 3), "text: expected a text, got int (row 1, id 'x')"),
        (Passage("", "a"), "_id: expected an id without control characters"),
        (Passage("x\ty", "a"), "_id: expected an id without control characters"),
        (Passage("x\x85y", "a"), "_id: expected an id without control characters, line ends or"),
        (Passage("x\u2028y", "a"), "_id: expected an id without control characters, line ends or"),
        (Passage("x\u2029y", "a"), "_id: expected an id without control characters, line ends or"),
        (Passage(7, "a"), "_id: expected an id that is a text, got 7 (row 1)"),
        (Passage("\udbc0", "a"), "_id: expected valid Unicode, got a lone surrogate"),
        (Passage("p1", "a"), "_id: expected each id once, got 'p1' in rows 0 and 1"),
        (Passage("x", "a", tier=0), "tier: expected 1, 2 or 3, got 0 (row 1, id 'x')"),
        (Passage("x", "a", tier=True), "tier: expected 1, 2 or 3, got True"),
        (Passage("x", "a", tier="1"), "tier: expected 1, 2 or 3, got '1'"),
        (Passage("x", "a", tier=2.0), "tier: expected 1, 2 or 3, got 2.0"),
        (Passage("x", "a", source=5), "source: expected a text, got 5"),
        (Passage("x", "a", time="yesterday"), "time: expected a date or time in ISO 8601"),
        (Passage("x", "a", time="2026-02-30"), "got '2026-02-30': day"),
        (Passage("x", "a", extra={"text": "b"}), "extra: expected other names, got 'text'"),
        (Passage("x", "a", extra={"s": float("nan")}), "s: expected a finite number, got nan"),
        (Passage("x", "a", extra={"s": [{"k": "\udbc0"}]}), "s: expected valid Unicode"),
        (Passage("x", "a", extra={"s": {1: 2}}), "s: expected an object whose keys are texts"),
        (Passage("x", "a", extra={"s": b"b"}), "s: expected a value that JSON can hold, got bytes"),
        ("x", "passages: expected Passage objects, got str (row 1)"),
    ],
)
def test_a_wrong_passage_is_named_with_row_and_field(passage, message):
    with pytest.raises(InputError) as caught:
        Corpus([PASSAGES[0], passage])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "time",
    [
        "2026",
        "2026-11",
        "2026-11-30",
        "2026-11-30T09:15",
        "2026-11-30 09:15:00Z",
        "2026-11-30T09:15:00.25+02:00",
    ],
)
def test_dates_and_times_in_iso_8601_are_taken(time):
    assert Corpus([Passage("p", "a", time=time)])[0].time == time


def test_every_time_that_is_taken_has_a_moment():
    """In one order, whatever is left out of it: the year is its first day."""
    times = [
        "2026",
        "2026-01-01T00:00:00.5Z",
        "2026-01-01 00:01",
        "2026-02",
        "2026-02-01T01:00Z",
        "2026-02-01T01:30:00+00:00",
        "2026-02-01T00:45:00.1234-01:00",
        "2026-02-02",
    ]
    Corpus([Passage(f"p{n}", "a", time=time) for n, time in enumerate(times)])
    assert sorted(times[::-1], key=moment) == times
    assert moment(times[1]).microsecond == 500_000
    assert moment("2026-02").isoformat() == "2026-02-01T00:00:00+00:00"


@pytest.mark.parametrize("time", ["2026-13", "2026-1-1", "20261130", "2026-11-30T25:00", "", 2026])
def test_other_times_are_refused(time):
    with pytest.raises(InputError, match="ISO 8601"):
        Corpus([Passage("p", "a", time=time)])


def test_unknown_ids_and_rows_are_input_errors_never_key_errors():
    corpus = Corpus(PASSAGES)
    assert [corpus.index_of(passage_id) for passage_id in corpus.ids] == [0, 1, 2]
    assert "p3" in corpus
    assert "p4" not in corpus
    for wrong in ("p4", 0, None):
        with pytest.raises(InputError, match=f"one of 3 passages, got unknown {wrong!r}"):
            corpus.index_of(wrong)
    for wrong in (3, -1, 1.0, True):
        with pytest.raises(InputError, match="row: expected an integer from 0 to 2"):
            corpus[wrong]
    with pytest.raises(InputError, match=r"name: expected 'title' or .* got 'stanza'"):
        corpus.metadata("stanza")


def test_a_file_of_ever_new_fields_is_refused():
    with pytest.raises(InputError, match="at most 256 different fields"):
        Corpus(Passage(f"p{n}", "a", extra={f"field{n}": n}) for n in range(300))


def test_queries():
    queries = Queries(["q1", "q2"], ["Trains?", "Cars?"])
    assert (queries.ids, queries.texts) == (("q1", "q2"), ("Trains?", "Cars?"))
    assert queries.index_of("q2") == 1
    assert "q2" in queries
    with pytest.raises(InputError, match="one of 2 queries, got unknown 'q3'"):
        queries.index_of("q3")
    with pytest.raises(InputError, match="texts: expected 2 rows, as many as ids, got 1"):
        Queries(["q1", "q2"], ["Trains?"])
    with pytest.raises(InputError, match="each id once, got 'q1' in rows 0 and 1"):
        Queries(["q1", "q1"], ["a", "b"])
    with pytest.raises(InputError, match=r"one of \[\], got 'x'"):
        queries.metadata("x")


def test_qrels():
    qrels = Qrels({"q1": {"p1": 2, "p2": 0, "p3": 1}, "q2": {}})
    assert qrels.relevant("q1") == ("p1", "p3")
    assert qrels.relevant("q1", min_grade=2) == ("p1",)
    assert qrels.n_judgements == 3
    assert qrels.get("q3", {}) == {}
    assert pickle.loads(pickle.dumps(qrels)) == qrels  # noqa: S301
    with pytest.raises(InputError, match="one of 2 judged queries, got unknown 'q3'"):
        qrels["q3"]
    with pytest.raises(InputError, match=r"grade: expected an integer, got 1\.5"):
        Qrels({"q1": {"p1": 1.5}})
    with pytest.raises(TypeError):
        qrels["q1"]["p1"] = 0


def test_a_corpus_costs_little_more_than_its_characters():
    """Field case 17: columns, not an object a passage."""
    n_passages, n_characters = 20_000, 400

    def rows():
        for n in range(n_passages):
            yield Passage(f"p{n}", f"{n:07}" * (n_characters // 7), source="".join(["w", "iki"]))

    tracemalloc.start()
    try:
        corpus = Corpus(rows())
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(corpus) == n_passages
    characters = n_passages * n_characters
    assert held < 2 * characters
    assert peak < 2.5 * characters


def test_no_id_has_a_character_at_which_python_ends_a_line():
    for code in range(0x3000):
        character = chr(code)
        one_line = len(f"a{character}b".splitlines()) == 1
        if not one_line:
            with pytest.raises(InputError, match="line ends"):
                Corpus([Passage(f"a{character}b", "text")])
    assert Corpus([Passage("two words", "text")]).ids == ("two words",)
