"""Every loader reads a small hand-made file of the layout that the publishers use."""

from __future__ import annotations

from pathlib import Path

import pytest

from epibias._files import sha256_of
from epibias.corpus import Corpus, Passage
from epibias.data_sets import Question, QuestionSet, labelled_anchors, load_questions
from epibias.data_sets.perspectrum import mean_vote, perspectrum_questions
from epibias.data_sets.procon import procon_questions
from epibias.data_sets.reddit_dialogues import reddit_dialogues
from epibias.data_sets.wiki_balance import wiki_balance_folder
from epibias.errors import InputError

DATA = Path(__file__).parent / "fixtures" / "data"


def check_files(found, folder, names):
    """The checksums are those of the files, and no file that was read is missing."""
    assert dict(found.files) == {name: sha256_of(folder / name) for name in names}


def test_wiki_balance_has_natural_pages_and_synthetic_anchors():
    found = load_questions(DATA / "wiki_balance")
    assert found.corpus.ids == ("w1", "w2", "w3", "w4")
    assert found.relevant == {"-7001_0": ("w1", "w2"), "8002_3": ("w4",)}
    first, second = found.questions
    assert (first.id, first.topic, first.stances) == ("-7001_0", "-7001", None)
    assert [one.id.removeprefix("-7001_0_") for one in first.anchors] == [
        "p1_d1",
        "p1_d2",
        "p2_d1",
        "p2_d2",
    ]
    assert [one.extra["perspective"] for one in first.anchors] == [1, 1, 2, 2]
    assert second.anchors == ()
    assert found.licence == "CC BY-SA 4.0"
    assert found.notes == (
        "1 passages with a blank text were left out: -7001_0_p2_d3",
        "1 natural questions have no anchors",
        "4 anchors of 1 questions without natural pages: not used",
        "a page is relevant from grade 4 on; perspectives have no sign",
    )
    parts = ("natural", "synthetic")
    names = [f"{part}/{name}.jsonl" for part in parts for name in ("corpus", "queries")]
    check_files(found, DATA / "wiki_balance", [*names, "natural/qrels/test.tsv"])
    lower = wiki_balance_folder(DATA / "wiki_balance", min_grade=1)
    assert lower.relevant["-7001_0"] == ("w1", "w2", "w3")
    with pytest.raises(InputError, match=r"blank, got ' ' \(.*id '-7001_0_p2_d3'\)"):
        load_questions(DATA / "wiki_balance", blank="error")


def test_hotpotqa_has_each_paragraph_once_and_the_supporting_ones_relevant():
    found = load_questions(DATA / "hotpotqa")
    assert found == load_questions(DATA / "hotpotqa" / "hotpot_dev_distractor_v1.json")
    titles = ("Linden tram", "Altstadt", "Birch tram", "Birch tram #2", "Neustadt")
    assert found.corpus.ids == titles  # another text of one title has a number
    assert found.corpus[1].text == "Altstadt is a city. Its library opened in 1901."
    assert found.corpus[3].title == "Birch tram"
    assert found.relevant == {
        "hp1": ("Linden tram", "Altstadt"),
        "hp2": ("Linden tram", "Birch tram #2"),
    }
    assert [one.topic for one in found.questions] == ["hp1", "hp2"]
    check_files(found, DATA / "hotpotqa", ["hotpot_dev_distractor_v1.json"])


def test_reddit_dialogues_ask_the_title_or_the_last_turn():
    found = load_questions(DATA / "reddit")
    assert [one.text for one in found.questions] == [
        "When did trams become electric?",
        "What counts as a library?",
    ]
    assert [one.topic for one in found.questions] == ["AskHistorians", "books"]
    assert len(found.corpus) == 3  # one sentence is a candidate of both
    assert found.relevant == {
        "t5_2qh.aaa.0.3": ("Tram_12_0_0_0_Tram",),
        "t5_2qi.bbb.1.5": ("Library_12_0_0_2_Library",),
    }
    assert found.corpus[0].title == "Tram"
    check_files(found, DATA / "reddit", ["dialogues.json", "wikipedia_grounded_dialogues.json"])
    test = load_questions(DATA / "reddit", split="test")
    assert ([one.id for one in test.questions], len(test.corpus)) == (["t5_2qi.bbb.1.5"], 2)
    assert "val_test_splits.json" in test.files
    turns = reddit_dialogues(DATA / "reddit", ask="last_turn")
    assert turns.questions[0].text == "Anywhere, the first one."
    with pytest.raises(InputError, match=r"split: expected one of \['dev', 'test'\], got 'train'"):
        load_questions(DATA / "reddit", split="train")


def test_procon_has_its_queries_stances_and_what_the_attack_made():
    found = load_questions(DATA / "procon")
    assert [one.id for one in found.questions] == ["procon0_q0", "procon0_q1", "procon1_q0"]
    assert found.questions[1].topic == "Should Cities Ban Leaf Blowers?"
    stances = (1.0, 1.0, -1.0, -1.0, 1.0, -1.0)
    assert found.corpus.metadata("stance") == stances
    assert found.relevant["procon0_q1"] == tuple(f"procon0_p{i}" for i in range(4))
    (made,) = found.questions[0].adversarial["negative"]
    assert made.id == "flip0_0_1"
    assert made.text.startswith("leaf blowers town crews Rakes do the same work, slowly")
    assert made.extra["replaces"] == "procon0_p1"
    assert found.questions[1].adversarial == found.questions[0].adversarial
    assert not found.questions[2].adversarial
    assert "ProCon.org" in found.licence
    names = ["PROCON_data.json", "results/opinion_result_0_0.json"]
    check_files(found, DATA / "procon", names)
    topics = procon_questions(DATA / "procon", ask="topics")
    assert [(one.id, one.text == one.topic) for one in topics.questions] == [
        ("procon0", True),
        ("procon1", True),
    ]


def test_labelled_passages_become_anchors_and_leave_the_corpus():
    found = labelled_anchors(load_questions(DATA / "procon"), n_per_side=2)
    first, again, bare = found.questions
    assert [one.id for one in first.anchors] == [f"procon0_p{i}" for i in (2, 3, 0, 1)]
    assert first.stances == (-3.0, -3.0, 3.0, 3.0)
    assert again.anchors == first.anchors
    assert bare.anchors == ()
    assert found.corpus.ids == ("procon1_p0", "procon1_p1")
    assert found.relevant["procon0_q0"] == ()
    assert found.notes[-2:] == (
        "4 labelled passages became anchors and left the corpus",
        "1 questions have no anchors: too few labelled passages on a side",
    )
    with pytest.raises(InputError, match="with 3 passages of either side, got none"):
        labelled_anchors(load_questions(DATA / "procon"), n_per_side=3)
    with pytest.raises(InputError, match="expected passages with a stance, got none"):
        labelled_anchors(load_questions(DATA / "hotpotqa"))


def test_a_stance_towards_one_question_is_no_stance_towards_another():
    rows = [("p1", "Build it.", 1.0), ("p2", "Leave it.", -1.0)]
    fields = [{"stance": stance, "query_id": "q1"} for _, _, stance in rows]
    passages = [
        Passage(name, text, extra=extra)
        for (name, text, _), extra in zip(rows, fields, strict=True)
    ]
    asked = (Question("q1", "Should it be built?", "it"), Question("q2", "Must it not be?", "it"))
    both = {one.id: ("p1", "p2") for one in asked}
    found = labelled_anchors(QuestionSet("it", Corpus(passages), asked, both, "CC0-1.0", {}), 1)
    first, second = found.questions
    assert [one.id for one in first.anchors] == ["p2", "p1"]
    assert (second.anchors, second.stances) == ((), None)


def test_perspectrum_has_perspectives_as_anchors_and_evidence_as_corpus():
    found = load_questions(DATA / "perspectrum")
    first, second = found.questions
    assert (first.id, first.topic) == ("claim11", "education, health_and_medicine")
    assert [one.id for one in first.anchors] == ["claim11_101", "claim11_103", "claim11_104"]
    assert first.anchors[0].text == "Teenagers sleep too little"
    # 3 times (2 + ½)/3; the vote for "no perspective" does not count; counts reversed.
    assert first.stances == pytest.approx((2.5, -2.5, -2.5), abs=1e-12)
    assert (second.topic, second.anchors[0].id) == ("claim12", "claim12_106")
    assert second.stances == (1.5,)
    assert found.corpus.ids == ("e501", "e502", "e503", "e504")
    assert found.relevant == {"claim11": ("e501", "e502", "e503"), "claim12": ()}
    assert found.notes == (
        "1 perspectives are no anchors: their votes contradict their label (claim11: [105])",
    )
    dev = load_questions(DATA / "perspectrum", split="dev")
    assert [one.id for one in dev.questions] == ["claim11"]
    check_files(dev, DATA / "perspectrum", [path.name for path in DATA.glob("perspectrum/*")])
    all_of_them = perspectrum_questions(DATA / "perspectrum", paraphrases=True)
    assert len(all_of_them.questions[0].anchors) == 4
    assert [one.id for one in all_of_them.questions[1].anchors] == ["claim12_102", "claim12_106"]


@pytest.mark.parametrize(
    ("counts", "label", "mean"),
    [
        ([1, 2, 0, 0, 0], "SUPPORT", 2 / 3),
        ([0, 0, 1, 3, 1], "UNDERMINE", -3.5 / 4),
        ([0, 0, 0, 0, 3], "UNDERMINE", -1.0),  # reversed: nobody took it for no perspective
        ([0, 3, 0, 0, 0], "SUPPORT", 0.5),  # agrees as it stands
        ([0, 0, 1, 1, 0], "SUPPORT", None),
        ([1, 1, 0, 0, 0], "UNDERMINE", None),
        ([0, 0, 0, 0, 0], "SUPPORT", None),
    ],
)
def test_votes_are_read_in_the_order_that_agrees_with_the_label(counts, label, mean):
    assert mean_vote(counts, label) == (None if mean is None else pytest.approx(mean, abs=1e-12))


def test_the_flattened_layout_has_stances_topics_and_a_known_licence():
    found = load_questions(DATA / "flat")
    assert [one.topic for one in found.questions] == ["society, economy", "work"]
    assert found.corpus.metadata("stance") == (1.0, -0.8333, None, 0.5)
    assert found.relevant["c1"] == ("c1_1", "c1_2", "c1_3")
    assert found.licence == "CC BY-SA 4.0"
    names = ["corpus.jsonl", "qrels.tsv", "queries.jsonl", "queries_meta.jsonl"]
    check_files(found, DATA / "flat", names)
    anchored = labelled_anchors(found, 1)
    assert anchored.questions[0].stances == pytest.approx((-2.4999, 3.0))
    assert anchored.relevant["c1"] == ("c1_3",)


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl"])
def test_a_beir_folder_without_one_of_its_files_says_which(tmp_path, missing):
    there = {"corpus.jsonl", "queries.jsonl"} - {missing}
    (tmp_path / there.pop()).write_text('{"_id": "p1", "text": "Yes."}\n', encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tp1\t1\n")
    with pytest.raises(InputError, match=f"a file that can be read, got No such file.*{missing}"):
        load_questions(tmp_path)


def test_a_beir_folder_is_read_with_the_licence_that_is_given():
    path = DATA / "wiki_balance" / "natural"
    found = load_questions(path, licence="CC BY-SA 4.0")
    assert (found.name, found.licence) == ("natural", "CC BY-SA 4.0")
    assert found.relevant["-7001_0"] == ("w1", "w2", "w3")  # any grade above 0
    assert load_questions(path).licence == "not stated"
    assert load_questions(path, split="test").relevant == found.relevant
    with pytest.raises(InputError, match=r"licence: expected none: the set has 'CC BY-SA 4\.0'"):
        load_questions(DATA / "flat", licence="CC0")


def test_the_layout_of_ones_own_has_everything():
    found = load_questions(DATA / "own" / "questions.jsonl")
    question = found.question("q1")
    assert question.poles == ("Parks must close at night.", "Parks must be open at night.")
    assert question.stances == (-2.0, 2.5)
    assert [one.id for one in question.adversarial["positive"]] == ["x1"]
    assert (found.corpus[0].tier, found.corpus[0].extra["votes"]) == (2, 3)
    assert found.relevant == {"q1": ("p1",)}
    check_files(found, DATA / "own", ["questions.jsonl"])
