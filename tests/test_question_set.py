"""A question set is checked when it is made: ids meet, stances are stances, nothing changes."""

from __future__ import annotations

import pickle

import pytest

from epibias.corpus import Corpus, Passage
from epibias.data_sets import Question, QuestionSet, load_debates, load_questions
from epibias.errors import InputError

ANCHORS = (Passage("a1", "Trains, never."), Passage("a2", "Trains, always."))
HASH = "0" * 64


def question(**changes):
    fields = {"id": "q1", "text": "Trains or cars?", "topic": "trains", "anchors": ANCHORS}
    return Question(**{**fields, "stances": (-2, 2.5), **changes})


def question_set(*questions, **changes):
    fields = {
        "name": "trains",
        "corpus": Corpus([Passage("p1", "Fast."), Passage("p2", "Slow.")]),
        "questions": questions or (question(),),
        "relevant": {"q1": ("p2",)},
        "licence": "CC0-1.0",
        "files": {"a.jsonl": HASH},
    }
    return QuestionSet(**{**fields, **changes})


def test_a_set_gives_its_questions_by_id():
    found = question_set()
    assert found.question("q1").stances == (-2.0, 2.5)
    assert found.relevant["q1"] == ("p2",)
    assert repr(found) == "QuestionSet('trains', 1 questions, 2 passages, CC0-1.0)"
    with pytest.raises(InputError, match="expected the id of one of 1 questions, got unknown 'q9'"):
        found.question("q9")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": ""}, "question id: expected an id"),
        ({"text": " "}, r"question: expected a text that is not blank, got ' ' \(question 'q1'\)"),
        ({"topic": ""}, "topic: expected a text that is not blank"),
        ({"stances": (1,)}, r"stances: expected 2, one an anchor, got 1 \(question 'q1'\)"),
        ({"stances": (1, 3.5)}, r"stance: .* -3 to 3, got 3.5 \(question 'q1', anchor 'a2'\)"),
        ({"stances": (1, float("nan"))}, "stance: expected a finite number from -3 to 3, got nan"),
        ({"stances": (1, True)}, "stance: expected a finite number"),
        ({"anchors": (ANCHORS[0], ANCHORS[0])}, "anchors: expected each id once, got 'a1'"),
        ({"anchors": (ANCHORS[0], Passage("a2", " "))}, r"anchors, text: .*question 'q1', row 1"),
        ({"poles": ("no",)}, "poles: expected two texts, con and pro, got 1"),
        ({"poles": ("no", "")}, "pro pole: expected a text that is not blank"),
        ({"adversarial": {"for": ()}}, "polarity: expected 'positive' or 'negative', got 'for'"),
        (
            {"adversarial": {"positive": ANCHORS[:1], "negative": ANCHORS[:1]}},
            "adversarial: expected each id once, got 'a1'",
        ),
    ],
)
def test_a_question_that_is_wrong_says_what(changes, message):
    with pytest.raises(InputError, match=message):
        question(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "name: expected a text"),
        ({"licence": ""}, "licence: expected a text"),
        ({"questions": ()}, "questions: expected at least one, got none"),
        ({"questions": (question(), question())}, "questions: expected each id once, got 'q1'"),
        ({"questions": ("q1",)}, r"questions: expected Question objects, got str \(place 0\)"),
        ({"corpus": ANCHORS}, "corpus: expected a Corpus, got tuple"),
        (
            {"relevant": {"q2": ("p1",)}},
            "relevant: expected the id of a question, got unknown 'q2'",
        ),
        ({"relevant": {"q1": ("p3",)}}, "relevant: expected the id of a passage, got unknown 'p3'"),
        ({"relevant": {"q1": ("p1", "p1")}}, "relevant: expected each id once, got 'p1'"),
        ({"files": {"a": "abc"}}, r"files: expected a SHA-256 in hexadecimal, got 'abc' \(a\)"),
        ({"notes": ("",)}, "notes: expected a text that is not blank"),
        ({"files": {"a": "G" * 64}}, "files: expected a SHA-256"),
    ],
)
def test_a_set_that_is_wrong_says_what(changes, message):
    with pytest.raises(InputError, match=message):
        question_set(**changes)


def test_an_adversarial_id_is_of_one_text_and_of_no_benign_passage():
    shared = question(adversarial={"positive": (Passage("x1", "Buy trains."),)})
    again = question(id="q2", adversarial=shared.adversarial)
    assert len(question_set(shared, again).questions) == 2
    other = question(id="q2", adversarial={"positive": (Passage("x1", "Buy cars."),)})
    with pytest.raises(InputError, match=r"'x1', which is another text \(question 'q2'\)"):
        question_set(shared, other)
    known = question(adversarial={"negative": (Passage("p1", "Sell trains."),)})
    with pytest.raises(InputError, match="'p1', which is a benign passage"):
        question_set(known)


def test_nothing_can_be_changed_and_all_of_it_can_be_sent_to_another_process():
    found = question_set(question(adversarial={"positive": (Passage("x1", "Buy trains."),)}))
    for mapping in (found.relevant, found.files, found.questions[0].adversarial):
        with pytest.raises(TypeError):
            mapping["q1"] = ()
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301  # its own bytes
    hash(found.questions[0])


def test_debates_as_questions_have_what_the_debates_have():
    topics, found = load_debates(), load_questions("debates")
    assert found.licence == "Apache-2.0"
    assert len(found.corpus) == 16 * 18
    assert sorted(found.files) == sorted(f"{topic.topic}.jsonl" for topic in topics)
    for topic, one in zip(topics, found.questions, strict=True):
        assert (one.id, one.text, one.topic) == (topic.query_id, topic.query, topic.topic)
        assert one.anchors == topic.anchors
        assert one.stances == topic.stances
        assert one.adversarial == topic.adversarial
        assert found.relevant[one.id] == tuple(passage.id for passage in topic.benign)
