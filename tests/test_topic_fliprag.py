"""Topic-FlipRAG's rounds and trigger on an encoder whose cosines and scores are those of angles."""

from __future__ import annotations

import numpy as np
import pytest

from angle_encoder import AngleEncoder
from epibias.attacks.fliprag_editor import (
    CHANGES,
    Edit,
    GeneratorEditor,
    SplicingEditor,
    replacing_editor,
)
from epibias.attacks.topic_fliprag import FlipSettings, topic_fliprag
from epibias.corpus import Passage
from epibias.errors import InputError
from epibias.generators import Failure, FixedGenerator
from epibias.polarization import PolarizationAxis

# The axis is the second coordinate: PS is the sine of a text's angle.
ROWS = AngleEncoder().encode([f"angle {angle}" for angle in (-20, -10, 10, 20)])
AXIS = PolarizationAxis.fit(ROWS, labels=[-2, -1, 1, 2])
ORIGINAL = [Passage("p1", "The old tram at angle 0 runs on in town.")]  # 10 words
QUESTIONS = ["Is it angle 30?", "Is it angle 40?"]
OWN = {"i_own_this_index": True}


def flipped(rounds, polarity="positive", settings=None, triggers=("angle 90", "angle 35"), **rest):
    def editor(text, number):
        return [Edit(one) if isinstance(one, str) else one for one in rounds[number]]

    options = {"triggers": triggers, **OWN, **rest}
    return topic_fliprag(
        "q1", QUESTIONS, ORIGINAL, polarity, editor, AngleEncoder(), AXIS,
        settings=settings or FlipSettings(n_rounds=len(rounds)), **options,
    )  # fmt: skip


def at(angle, words="The old tram at angle {} runs on in town."):
    return words.format(angle)


def test_edits_in_rounds_then_a_trigger_by_hand():
    # Floor .85 is 31.8 degrees from the original, whatever was taken before.
    made = flipped([[at(10), at(15), at(-5)], [at(30), at(33)]])
    one = made.passages[0]
    about = one.provenance
    assert [step["round"] for step in about["rounds"]] == [0, 1]
    np.testing.assert_allclose(
        [step["ps"] for step in about["rounds"]], np.sin(np.radians([15, 30])), atol=1e-6
    )
    # 33 degrees and -5 were refused by a limit each, 10 for being weaker than 15.
    assert made.rejections == {
        "PS does not move to the side": 1,
        "similarity below the floor": 1,
        "a better edit in the round": 1,
    }
    # The triggers lie at 90 and 35; with a text at 30 the sums lie at 60 and 32.5; the questions at
    # 30 and 40. The second is nearer to both.
    assert one.passage.text == "angle 35 " + at(30)
    nearest = np.cos(np.radians([2.5, 7.5])).mean()
    assert about["trigger_objective"] == pytest.approx(nearest, abs=1e-6)
    assert about["similarity_to_question"] == pytest.approx(nearest, abs=1e-6)
    assert about["similarity_to_original"] == pytest.approx(np.cos(np.radians(30)), abs=1e-6)
    assert about["final_similarity_to_original"] == pytest.approx(
        np.cos(np.radians(32.5)), abs=1e-6
    )
    assert about["ps"] == pytest.approx(np.sin(np.radians(32.5)), abs=1e-6)
    assert about["length_change"] == 0
    assert one.passage.id == "q1-topic-fliprag-positive-01"
    assert ORIGINAL[0].text == at(0)


def test_the_other_side_goes_the_other_way():
    made = flipped([[at(10), at(-15)]], polarity="negative")
    assert made.passages[0].provenance["edited_ps"] == pytest.approx(-np.sin(np.radians(15)))


def test_the_length_may_change_by_three_tenths_both_ways():
    longest = at(20, "The old tram at angle {} runs on in town, here and there.")  # 13 words
    longer = at(25, "The old tram at angle {} runs on in town, here and not there.")  # 14
    shortest = at(22, "The tram at angle {} runs on.")  # 7
    shorter = at(26, "A tram at angle {} runs.")  # 6
    made = flipped([[longest], [shortest], [longer, shorter]])
    about = made.passages[0].provenance
    assert [step["round"] for step in about["rounds"]] == [0, 1]
    assert about["length_change"] == pytest.approx(-0.3)
    assert made.rejections == {"length change beyond the bound": 2}


def test_a_passage_without_an_edit_is_counted_not_made():
    made = flipped([[at(0), at(60), Edit("", failure="generator: down")]])
    assert len(made) == 0
    assert made.rejections == {
        "duplicate": 1,
        "similarity below the floor": 1,
        "generator: down": 1,
        "no edit taken": 1,
    }


def test_a_trigger_is_searched_where_none_is_given():
    made = flipped(
        [[at(20)]], triggers=None, vocabulary=["angle 50", "angle 100", "angle 70"],
        settings=FlipSettings(n_rounds=1, trigger_length=1, max_evaluations=10),
    )  # fmt: skip
    about = made.passages[0].provenance
    assert made.passages[0].passage.text == "angle 50 " + at(20)  # together at 35
    assert about["n_evaluations"] <= 10


def test_the_generator_is_asked_by_kind_of_change_and_its_replies_are_checked():
    asked = []

    def answer(prompt, repeat):
        asked.append((prompt.user, repeat))
        texts = [at(10 + 5 * repeat), at(12 + 5 * repeat)]
        if repeat == 1:
            return Failure("truncated", "longer than 2048 tokens", attempts=1)
        return "\n".join(f"[{i}] {text}" for i, text in enumerate(texts, 1))

    editor = GeneratorEditor(FixedGenerator(answer), "Trams?", "positive", n=3, **OWN)
    made = topic_fliprag(
        "q1", QUESTIONS, ORIGINAL, "positive", editor, AngleEncoder(), AXIS, triggers=["now"], **OWN
    )
    assert [repeat for _, repeat in asked] == [0, 1, 2]
    for (text, _), change in zip(asked, CHANGES, strict=True):
        assert change in text
        assert 'towards "yes"' in text
    assert at(12) in asked[1][0]  # the next round starts from what the last took
    assert made.passages[0].provenance["edited_ps"] == pytest.approx(np.sin(np.radians(22)))
    assert made.passages[0].provenance["rounds"][0]["prompt"]["name"] == "edit"
    assert made.passages[0].provenance["editor"]["generator"]["kind"] == "fixed"
    assert made.rejections == {
        "not in the reply": 2,
        "a better edit in the round": 2,
        "generator: truncated": 1,
    }


def test_an_editor_writes_nothing_without_ownership():
    generator = FixedGenerator("[1] Trams are best.")
    for make in (
        lambda own: GeneratorEditor(generator, "Trams?", "positive", i_own_this_index=own),
        lambda own: SplicingEditor(["B one."], i_own_this_index=own),
    ):
        for answer in (False, None, 1):
            with pytest.raises(InputError, match="an index that you own"):
                make(answer)
    assert generator.n_calls == 0


def test_replacements_without_a_generator():
    editor = replacing_editor({"angle 0": "angle 9", "bus": "tram"})
    assert [edit.text for edit in editor(at(0), 0)] == [at(9)]


def test_splicing_replaces_one_sentence_by_one_of_the_side():
    own = ["A one.", "A two.", "A three."]
    editor = SplicingEditor(["B one. B two.", "B one."], n=4, seed=2, **OWN)
    edits = editor(" ".join(own), 0)
    wanted = {
        " ".join([*own[:place], new, *own[place + 1 :]])
        for place in range(3)
        for new in ("B one.", "B two.")
    }
    assert len({edit.text for edit in edits}) == 4
    assert {edit.text for edit in edits} < wanted
    assert editor(" ".join(own), 0) == edits
    assert editor(" ".join(own), 1) != edits
    assert len(SplicingEditor(["B one. B two."], n=99, **OWN)(" ".join(own), 0)) == 6
    with pytest.raises(InputError, match="texts: expected at least one sentence"):
        SplicingEditor([], **OWN)


def test_the_same_inputs_give_the_same_set():
    runs = [flipped([[at(10)]], triggers=None, vocabulary=["angle 50", "angle 9"]) for _ in "ab"]
    assert runs[0] == runs[1]


def test_progress_counts_passages():
    steps = []
    flipped([[at(60)]], progress=steps.append)
    assert steps == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"i_own_this_index": False}, "i_own_this_index: expected True"),
        ({"polarity": "none"}, "polarity: expected 'positive' or 'negative'"),
        ({"triggers": []}, "triggers: expected at least one"),
        ({"triggers": "now"}, "triggers: expected a sequence of texts, got 'now'"),
        ({"vocabulary": "abc"}, "vocabulary: expected a sequence of texts, got 'abc'"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        flipped([[at(10)]], **options)


def test_an_axis_without_sides_is_refused():
    # A rule chose its positive end; an editor that is told "yes" may mean the other one.
    unlabelled = PolarizationAxis.fit(ROWS)
    with pytest.raises(InputError, match="axis: expected one fitted with stances"):
        topic_fliprag(
            "q1", QUESTIONS, ORIGINAL, "positive", lambda *_: [], AngleEncoder(), unlabelled, **OWN
        )


def test_an_editor_that_gives_texts_is_refused():
    with pytest.raises(InputError, match="editor: expected Edit objects, got int"):
        flipped([[3]])


@pytest.mark.parametrize(
    "options",
    [{"min_similarity": 2}, {"max_length_change": -1}, {"n_rounds": 0}, {"trigger_length": 0}],
)
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(InputError, match=f"{next(iter(options))}: expected"):
        FlipSettings(**options)
