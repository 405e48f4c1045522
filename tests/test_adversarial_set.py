"""Labelled adversarial passages: the set in memory, its file, and ready-made sets as they come."""

from __future__ import annotations

import csv
import json

import pytest

from epibias.attacks import AdversarialPassage, AdversarialSet
from epibias.corpus import Passage
from epibias.errors import InputError

COLUMNS = {"question_id": "qid", "polarity": "stance", "text": "adv"}
STANCES = {"polarity": {"PRO": "positive", "CON": "negative", "1": "positive"}}


def one(name="a1", question="q1", polarity="positive", attack="ebi", text="Only trams.", **fields):
    return AdversarialPassage(
        Passage(name, text, **fields), question, polarity, attack, {"ps": 0.25}
    )


def test_passages_of_a_question_by_polarity_and_attack():
    found = AdversarialSet(
        (one("a"), one("b", polarity="negative"), one("c", "q2"), one("d", attack="verbatim"))
    )
    assert [passage.id for passage in found.of("q1")] == ["a", "b", "d"]
    assert [passage.id for passage in found.of("q1", "positive")] == ["a", "d"]
    assert [passage.id for passage in found.of("q1", "positive", "ebi")] == ["a"]
    assert found.of("q3") == ()
    assert (found.question_ids, found.attacks) == (("q1", "q2"), ("ebi", "verbatim"))
    with pytest.raises(InputError, match="polarity"):
        found.of("q1", "pro")


def test_a_written_set_is_read_back(tmp_path):
    file = tmp_path / "set.jsonl"
    fields = {"source": "blog", "tier": 3, "extra": {"votes": [1, 2]}, "title": "Trams"}
    found = AdversarialSet((one("a", **fields), one("b", text="Zeile\u2028zwei")), {"duplicate": 2})
    found.write(file)
    back = AdversarialSet.read(file)
    assert back == found
    assert back.rejections == {"duplicate": 2}
    assert back.passages[0].passage.extra == {"votes": [1, 2]}
    assert back.passages[0].provenance == {"ps": 0.25}
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_set_of_which_nothing_was_taken_keeps_its_counts(tmp_path):
    AdversarialSet((), {"malformed": 40}).write(tmp_path / "none.jsonl")
    back = AdversarialSet.read(tmp_path / "none.jsonl")
    assert (len(back), back.rejections) == (0, {"malformed": 40})


def test_a_set_that_was_cut_off_is_told(tmp_path):
    file = tmp_path / "set.jsonl"
    AdversarialSet((one("a"), one("b"))).write(file)
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(InputError, match="expected 2, as its head says, got 1; is the file cut"):
        AdversarialSet.read(file)


def test_ready_made_json_lines_with_several_texts_a_line(tmp_path):
    file = tmp_path / "released.jsonl"
    rows = [
        {"qid": "q1", "stance": "PRO", "adv": ["Only trams.", "No cars."], "year": 2025},
        {"qid": "q2", "stance": 1, "adv": "Only buses.", "text": "the page before"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = AdversarialSet.read(
        file, columns=COLUMNS, values=STANCES, defaults={"attack": "topic-fliprag"}
    )
    assert [item.passage.id for item in found.passages] == [
        "topic-fliprag-q1-positive-1.1",
        "topic-fliprag-q1-positive-1.2",
        "topic-fliprag-q2-positive-2",
    ]
    assert found.passages[1].passage.extra == {"year": 2025}
    assert found.passages[2].passage.extra == {"file_text": "the page before"}
    assert found.attacks == ("topic-fliprag",)


def test_the_layout_of_poisonedrags_released_files(tmp_path):
    file = tmp_path / "nq.jsonl"
    row = {
        "id": "test1", "question": "Where is it?", "correct answer": "here",
        "incorrect answer": "there", "adv_texts": ["It is there.", "There it is."],
    }  # fmt: skip
    file.write_text(json.dumps(row) + "\n")
    found = AdversarialSet.read(
        file,
        columns={"question_id": "id", "text": "adv_texts"},
        defaults={"attack": "poisonedrag", "polarity": "none"},
    )
    assert [one.text for one in found.of("test1", "none")] == row["adv_texts"]
    assert found.passages[1].passage.id == "poisonedrag-test1-none-1.2"
    assert found.passages[0].passage.extra["correct answer"] == "here"


def test_csv_with_quoted_lines_and_provenance(tmp_path):
    file = tmp_path / "released.csv"
    file.write_text(
        "\ufeffid,question_id,polarity,attack,text,tier,provenance\r\n"
        'a1,q1,positive,ebi,"Only trams,\nno cars.",3,"{""round"": 2}"\r\n'
        "a2,q1,negative,ebi,No trams.,,\r\n"
    )
    found = AdversarialSet.read(file)
    first, second = found.passages
    assert first.passage == Passage("a1", "Only trams,\nno cars.", tier=3)
    assert (first.provenance, second.provenance) == ({"round": 2}, {})
    assert second.passage.tier is None


HEADER = "id,question_id,polarity,attack,text\n"
ROW = "a1,q1,positive,ebi,Only trams.\n"


@pytest.mark.parametrize(
    "content",
    [
        (HEADER + ROW).replace("\n", "\r\n").encode(),
        (HEADER + ROW).replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + (HEADER + ROW).encode(),
        ("\n\n" + HEADER + "\n" + ROW + "\n\n").encode(),
    ],
    ids=["CRLF", "CR", "BOM", "blank lines"],
)
def test_a_csv_is_the_same_however_its_lines_end(tmp_path, content):
    file = tmp_path / "released.csv"
    file.write_bytes(content)
    [found] = AdversarialSet.read(file).passages
    assert found.passage == Passage("a1", "Only trams.")


def test_a_passage_of_ten_megabytes_is_read_from_csv_and_json_lines(tmp_path):
    """The csv module's own limit is 131,072 characters; it is there again afterwards."""
    text = "Only trams. " * 850_000 + "End."
    usual = csv.field_size_limit()
    (tmp_path / "long.csv").write_text(HEADER + f"a1,q1,positive,ebi,{text}\n", encoding="utf-8")
    [found] = AdversarialSet.read(tmp_path / "long.csv").passages
    assert found.passage.text == text
    assert csv.field_size_limit() == usual
    AdversarialSet((found,)).write(tmp_path / "long.jsonl")
    assert AdversarialSet.read(tmp_path / "long.jsonl").passages == (found,)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("é".encode("latin-1"), r"expected text in UTF-8, got byte 0xe9 at byte 0"),
        ("Trams".encode("utf-16"), r"expected text in UTF-8, got byte 0xff at byte 0"),
        (None, "expected a file that can be read, got Is a directory"),
    ],
)
def test_what_is_no_text_in_utf8_is_told(tmp_path, suffix, content, message):
    file = tmp_path / f"wrong.{suffix}"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(InputError, match=f"adversarial passages: {message}.*wrong.{suffix}"):
        AdversarialSet.read(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "at least one row, got none"),
        (HEADER, "at least one row, got none"),
        (HEADER + "a,q1,positive,ebi\n", "5 cells, as in the header, got 4 .*line 2"),
        (HEADER + "a,q1,for,ebi,Trams.\n", "polarity: expected .* got 'for' .*line 2"),
        (HEADER + "a,q1,positive,ebi,\n", "text: expected a value in the column 'text'.*line 2"),
        (HEADER + "a,q1,positive,ebi,  \n", "text that is not blank.*line 2"),
        (
            HEADER + "a,,positive,ebi,Trams.\n",
            "question_id: expected a value in the column.*line 2",
        ),
        (HEADER + "a,q1,positive,ebi,T.\na,q1,positive,ebi,U.\n", "'a' in lines 2 and 3"),
        (HEADER + 'a,q1,positive,ebi,"T.\n', "a row of CSV, got unexpected end.*line 2"),
        ("id,id\na,b\n", "each id once"),
        (HEADER.strip() + ",tier\na,q1,positive,ebi,T.,9\n", "tier: expected 1, 2 or 3, got '9'"),
        (HEADER.strip() + ",provenance\na,q1,positive,ebi,T.,x\n", "provenance: .*line 2"),
    ],
)
def test_wrong_csv_is_told_with_its_line(tmp_path, content, message):
    file = tmp_path / "wrong.csv"
    file.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        AdversarialSet.read(file)
    assert "wrong.csv" in str(caught.value)


GOOD = {"_id": "a", "question_id": "q1", "polarity": "none", "attack": "verbatim", "text": "Why?"}
HEAD = {"format": "epibias adversarial set 1", "n_passages": 1, "rejections": {}}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**GOOD, "text": []}], "text: expected at least one text.*line 1"),
        ([{**GOOD, "text": 3}], "text: expected a text, got int.*line 1"),
        ([{**GOOD, "_id": 5}], "_id: expected an id that is a text, got 5.*line 1"),
        ([{**GOOD, "_id": 5, "text": ["a"]}], "_id: expected an id that is a text, got 5.*line 1"),
        ([{**GOOD, "question_id": 5}], "question_id: expected an id that is a text, got 5.*line 1"),
        (
            [{**GOOD, "provenance": [1]}],
            r"provenance: expected a mapping.*line 1",
        ),
        ([{**HEAD, "n_passages": "1"}, GOOD], "n_passages: .*line 1"),
        ([{**HEAD, "rejections": {"length": -1}}, GOOD], "rejections.*a count, got -1.*line 1"),
        ([{**HEAD, "format": "epibias adversarial set 2"}, GOOD], "format: .*got .*set 2.*line 1"),
        ([{**GOOD, "provenance": {"a": "\udbc0"}}], r"provenance: .*surrogate '.udbc0'.*line 1"),
        ([{**GOOD, "text": "\udbc0"}], r"text: .*surrogate '.udbc0'.*line 1"),
        ([{**GOOD, "text": None}], "text: expected a value in the column 'text'.*line 1"),
        ([{**GOOD, "note": "\udbc0"}], r"note: .*surrogate '.udbc0'.*line 1"),
        ([GOOD, HEAD], "question_id: expected a value in the column.*line 2"),
    ],
)
def test_wrong_json_lines_are_told_with_their_line(tmp_path, rows, message):
    file = tmp_path / "wrong.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=message):
        AdversarialSet.read(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"texts": "adv"}}, "columns: expected '_id' or"),
        ({"columns": {"text": "adv", "attack": "adv"}}, "columns: expected each id once"),
        ({"columns": {"text": "adv"}}, "text: expected a value in the column 'adv'.*line 1"),
        ({"values": {"text": {}}}, "values: expected 'question_id' or"),
        (
            {"values": {"polarity": {"PRO": "positive"}}},
            "polarity: expected one of the mapped.*'none'",
        ),
        ({"defaults": {"polarity": "for"}}, "defaults.*polarity"),
        ({"defaults": {"attack": "ebi"}}, "defaults.*no such column in the file, got one.*line 1"),
    ],
)
def test_wrong_mappings_are_told(tmp_path, options, message):
    file = tmp_path / "set.jsonl"
    file.write_text(json.dumps(GOOD) + "\n")
    with pytest.raises(InputError, match=message):
        AdversarialSet.read(file, **options)


def test_what_is_no_adversarial_passage_is_refused(tmp_path):
    with pytest.raises(InputError, match="provenance"):
        AdversarialPassage(Passage("a", "T."), "q1", "none", "ebi", {"ps": float("nan")})
    with pytest.raises(InputError, match=r"provenance: expected valid Unicode.*udbc0.*id 'a'"):
        AdversarialPassage(Passage("a", "T."), "q1", "none", "ebi", {"reply": "\udbc0"})
    with pytest.raises(InputError, match="polarity"):
        one(polarity="pro")
    with pytest.raises(InputError, match="attack"):
        one(attack=" ")
    with pytest.raises(InputError, match="each id once"):
        AdversarialSet((one("a"), one("a")))
    with pytest.raises(InputError, match=r"passages.*row 0"):
        AdversarialSet((Passage("a", "T."),))
    with pytest.raises(InputError, match="rejections"):
        AdversarialSet((), {"length": -1})
    with pytest.raises(InputError, match="other names than the labels'"):
        AdversarialSet((one("a", extra={"attack": "x"}),)).write(tmp_path / "set.jsonl")
    with pytest.raises(InputError, match="can be read"):
        AdversarialSet.read(tmp_path / "absent.csv")


def test_joining_adds_up_what_was_rejected():
    first = AdversarialSet((one("a"),), {"duplicate": 1, "length": 2})
    second = AdversarialSet((one("b"),), {"duplicate": 3})
    joined = AdversarialSet.joined([first, second])
    assert [item.passage.id for item in joined.passages] == ["a", "b"]
    assert joined.rejections == {"duplicate": 4, "length": 2}
