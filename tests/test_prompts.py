"""Prompt templates: what is sent, exactly; and what replies to them are taken for."""

from __future__ import annotations

import pytest

from epibias.errors import InputError
from epibias.generators import (
    Anchor,
    parse_anchors,
    parse_likert,
    parse_passages,
    parse_poles,
    render,
    template,
    templates,
    without_reasoning,
)
from epibias.generators.prompts import DEFAULT_STANCES

QUESTION = "Should towns plant more trees?"
FIELDS = {
    "anchors": {"question": QUESTION},
    "adversarial": {"question": QUESTION, "reference": "Trees cool streets.", "n": 3},
    "answer": {"question": QUESTION, "passages": ["Trees cool.", "Roots crack."]},
    "critical_answer": {"question": QUESTION, "passages": ["Trees cool.", "Roots crack."]},
    "edit": {
        "question": QUESTION,
        "passage": "Trees cool streets.",
        "side": "no",
        "change": "one sentence rewritten",
        "n": 2,
    },
    "known_answer": {"code": "wqzkbdfg", "passage": QUESTION},
    "likert": {"question": QUESTION, "passage": "Trees cool streets."},
    "poles": {"question": QUESTION},
    "reasons": {"question": QUESTION},
}
# A template that was used is never edited: its runs could not be repeated. A new wording is a new
# version with a line of its own here.
HASHES = {
    "adversarial.1": "8aa7c0260667782e",
    "anchors.1": "873089c130b12ccc",
    "answer.1": "e47d233952a581be",
    "critical_answer.1": "45ec2c8b62d8400f",
    "edit.1": "b86ceff0a7225140",
    "known_answer.1": "ade1418cb9267371",
    "likert.1": "4e6055038461404f",
    "poles.1": "6721728e509107fa",
    "reasons.1": "98a24a7b8338462d",
}


def test_every_template_is_tested():
    assert set(templates()) == set(FIELDS)


def test_no_published_wording_changed():
    found = {
        f"{one.name}.{one.version}": one.sha256[:16]
        for versions in templates().values()
        for one in versions.values()
    }
    assert found == HASHES


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_everything_is_filled_in(name):
    prompt = render(name, **FIELDS[name])
    assert (prompt.name, prompt.version) == (name, template(name).version)
    assert QUESTION in prompt.user
    assert "${" not in prompt.user + prompt.system
    assert prompt.sha256 == render(name, **FIELDS[name]).sha256


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_field_is_needed_and_no_other_taken(name):
    for field in FIELDS[name]:
        rest = {key: value for key, value in FIELDS[name].items() if key != field}
        with pytest.raises(InputError, match=f"^{field}: expected a value"):
            render(name, **rest)
    with pytest.raises(InputError, match=r"^colour: "):
        render(name, colour="red", **FIELDS[name])


def test_the_whole_answer_prompt():
    prompt = render("answer", **FIELDS["answer"])
    assert prompt.system == "You answer questions in one paragraph of at most 60 words."
    assert prompt.user == (
        "Passages:\n[1] Trees cool.\n[2] Roots crack.\n\nQuestion: Should towns plant more trees?"
        "\nAnswer the question from these passages."
    )


def test_an_answer_without_passages_says_that_there_are_none():
    assert "Passages:\n(none)\n" in render("answer", question=QUESTION, passages=[]).user


def test_what_a_passage_contains_is_not_filled_in_again():
    prompt = render("answer", question=QUESTION, passages=["${question} $5 ${n} {passages}"])
    assert "[1] ${question} $5 ${n} {passages}\n" in prompt.user


def test_stances_are_listed_in_the_order_asked_for():
    lines = render("anchors", question=QUESTION, stances=[3, -1]).user.splitlines()
    assert lines[-3:-1] == [
        "[+3] strongly yes",
        "[-1] rather no, but the other side has a point",
    ]
    everything = render("anchors", question=QUESTION).user
    assert everything.split("Stances:")[-1].count("[") == len(DEFAULT_STANCES) == 8


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("answers", {}, "name: expected 'adversarial' or"),
        ("answer", {"passages": "one text"}, "passages: expected a sequence of texts"),
        ("answer", {"passages": ["fine", " "]}, "row 1"),
        ("likert", {"passage": ""}, "passage: expected a text that is not blank"),
        ("adversarial", {"n": 0}, "n: expected an integer of at least 1"),
        ("anchors", {"stances": [4]}, "stances: expected an integer from -3 to 3"),
        ("anchors", {"stances": []}, "stances: expected at least one"),
        ("poles", {"version": "9"}, "version: expected '1', got '9'"),
    ],
)
def test_wrong_fields_are_told(name, fields, message):
    with pytest.raises(InputError) as caught:
        render(name, **{**FIELDS.get(name, {}), **fields})
    assert message in str(caught.value)


def test_anchors_are_read_in_the_forms_that_models_write():
    reply = (
        "Here you are:\n\n**[−3]** Never.\nNot\nonce.\n\n [+2]: Yes.\r\n[0] \n[7] Lucky.\n[1] “So.”"
    )
    assert parse_anchors(reply) == [
        Anchor(-3, "Never. Not once."),
        Anchor(2, "Yes."),
        Anchor(1, "So."),
    ]


def test_the_numbers_of_a_list_are_not_taken_for_stances():
    asked = [-3, -2, -1, 1, 2, 3]
    counted = "\n".join(f"[{number}] Text {number}." for number in range(1, 7))
    assert parse_anchors(counted, asked) == parse_anchors(counted) == []
    # Where just these were asked for, in this order, number and stance are the same.
    assert [one.stance for one in parse_anchors("[1] A.\n[2] B.", [1, 2, 3])] == [1, 2]
    assert parse_anchors("[1] A.\n[2] B.", [1, 3]) == []
    # A sign anywhere, or another order, is no counting.
    assert [one.stance for one in parse_anchors("[-1] A.\n[1] B.\n[2] C.", asked)] == [-1, 1, 2]
    assert [one.stance for one in parse_anchors("[+1] A.\n[+2] B.", asked)] == [1, 2]


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "See [3] for details.", "[+2]"])
def test_replies_without_anchors_give_none(reply):
    assert parse_anchors(reply) == []


@pytest.mark.parametrize(
    ("reply", "n", "passages"),
    [
        ("[1] A b.\n[2] C.", 2, ["A b.", "C."]),
        ("1. A b.\n2) C.", 2, ["A b.", "C."]),
        ("**Passage 1:** A b.\n\n### 2. C.", 2, ["A b.", "C."]),
        ("[1] A.\n[2] A.\n[3] B.", 3, ["A.", "B."]),
        ("[1] A.\n[2] B.", 1, ["A."]),
        ('"A b."', 1, ["A b."]),
        ('"A," he said, "b."', 1, ['"A," he said, "b."']),
        ("A.\n\nB.", 1, []),
        ("A.", 2, []),
        ("[1] \n[2] B.", 2, ["B."]),
        ("  ", 1, []),
    ],
)
def test_passages_are_read_in_the_forms_that_models_write(reply, n, passages):
    assert parse_passages(reply, n) == passages


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("Score: 2", 2),
        ("score = -3", -3),
        ("**Score:** −1", -1),
        ("Score: <0>", 0),
        ("The text agrees.\nScore: +1.", 1),
        ("Score: 2\nScore: 2", 2),
        ("-2", -2),
        ("3.", 3),
        ("Score: 4", None),
        ("Score: 12", None),
        ("Score: 1.5", None),
        ("Score: 1,5", None),
        ("Score: 2/3", None),
        ("Score: 1-2", None),
        ("Score: 1 or 2", None),
        ("Score: -3 to 3", None),
        ("Score: 2, for it says so", 2),
        ("Score: 2 (-3 would be no)", 2),
        ("Score: 1\nScore: 2", None),
        ("I would say 2 or 3", None),
        ("Score:", None),
        ("", None),
    ],
)
def test_scores(reply, score):
    assert parse_likert(reply) == score


@pytest.mark.parametrize(
    ("reply", "poles"),
    [
        ("No: Trees harm.\nYes: Trees help.", ("Trees harm.", "Trees help.")),
        ("**Yes:** Trees help.\n- no - Trees harm.", ("Trees harm.", "Trees help.")),
        ("Yes: Trees help.", None),
        ("No: A.\nNo: B.\nYes: C.", None),
        ("No: \nYes: C.", None),
    ],
)
def test_poles(reply, poles):
    assert parse_poles(reply) == poles


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<think>[1] Hm.</think>[1] A.", "[1] A."),
        ("[1] Hm.\n</think>\n[1] A.\n", "[1] A."),
        ("<think>a</think>b<think>c</think> d", "d"),
        (" <think>without an end", ""),
        ("I <think> so. ", "I <think> so. "),
    ],
)
def test_reasoning_is_left_out(reply, answer):
    assert without_reasoning(reply) == answer


def test_all_parsers_leave_reasoning_out():
    thought = "<think>Score: 1\n[3] Hm.\nNo: a\nYes: b</think>\n"
    assert parse_likert(f"{thought}Score: 2") == 2
    assert parse_anchors(f"{thought}[2] A.") == [Anchor(2, "A.")]
    assert parse_passages(f"{thought}[1] A.", 1) == ["A."]
    assert parse_poles(f"{thought}No: c\nYes: d") == ("c", "d")
