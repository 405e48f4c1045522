"""Copies of the question, the token search, and the triggers found with it, worked by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from angle_encoder import AngleEncoder
from epibias.attacks.question_copies import poisonedrag, verbatim
from epibias.attacks.token_search import SearchSettings, search_tokens
from epibias.attacks.trigger import trigger, words_of
from epibias.corpus import Passage
from epibias.errors import InputError
from fake_encoder import FakeEncoder

TEXTS = [Passage("t1", "Trams are a folly.", "A title"), Passage("t2", "No trams.")]
OWN = {"i_own_this_index": True}
NEVER = None  # an encoder that is not asked: the arguments are refused before


def test_verbatim_is_the_question():
    made = verbatim("q1", "Why trams?", n=2, **OWN)
    assert [one.text for one in made.of("q1", "none")] == ["Why trams?"] * 2
    assert [one.id for one in made.of("q1")] == ["q1-verbatim-01", "q1-verbatim-02"]
    assert made.attacks == ("verbatim",)
    assert FakeEncoder().encode(["Why trams?"]).tolist() == FakeEncoder().encode(
        [made.passages[0].passage.text]
    ).tolist()  # fmt: skip


def test_poisonedrag_is_question_and_text():
    made = poisonedrag("q1", "Why trams?", TEXTS, "negative", **OWN)
    assert [one.text for one in made.of("q1", "negative", "poisonedrag")] == [
        "Why trams? Trams are a folly.",
        "Why trams? No trams.",
    ]
    assert made.passages[1].provenance["text_id"] == "t2"
    joined = poisonedrag("q1", "Why trams?", TEXTS, "negative", separator="\n", **OWN)
    assert joined.passages[1].passage.text == "Why trams?\nNo trams."


@pytest.mark.parametrize(
    "make",
    [
        lambda own: verbatim("q1", "Why?", i_own_this_index=own),
        lambda own: poisonedrag("q1", "Why?", TEXTS, "negative", i_own_this_index=own),
        lambda own: trigger("q1", ["?"], TEXTS, "none", FakeEncoder(), i_own_this_index=own),
    ],
)
def test_nothing_is_made_without_ownership(make):
    with pytest.raises(InputError, match="i_own_this_index: expected True"):
        make(False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: verbatim("q1", " ", **OWN), "question: expected"),
        (lambda: verbatim("q1", "Why?", n=0, **OWN), "n: expected"),
        (lambda: poisonedrag("q1", "Why?", [], "none", **OWN), "at least one passage, got none"),
        (lambda: poisonedrag("q1", "Why?", ["a"], "none", **OWN), "texts: .*row 0"),
        (lambda: poisonedrag("q1", "Why?", TEXTS, "pro", **OWN), "polarity: expected"),
        (lambda: trigger("q1", "Why?", TEXTS, "none", FakeEncoder(), **OWN), "questions: expected"),
        (lambda: trigger("q1", [], TEXTS, "none", FakeEncoder(), **OWN), "questions: expected"),
        (lambda: trigger("q1", ["?"], TEXTS, "none", FakeEncoder(), mode="x", **OWN), "mode: exp"),
        (
            lambda: trigger("q1", ["a"], TEXTS, "none", FakeEncoder(), contrast=-1, **OWN),
            "contrast: expected",
        ),
        (lambda: trigger("q1", ["a"], TEXTS, "pro", NEVER, **OWN), "polarity: expected"),
        (lambda: trigger("", ["a"], TEXTS, "none", NEVER, **OWN), "question_id: expected"),
        (
            lambda: trigger("q1", ["a"], TEXTS, "none", NEVER, vocabulary="abc", **OWN),
            "vocabulary: expected a sequence of texts, got 'abc'",
        ),
        (
            lambda: trigger("q1", ["a"], TEXTS, "none", NEVER, other_questions="Why?", **OWN),
            "other_questions: expected a sequence of texts, got 'Why",
        ),
        (
            lambda: poisonedrag("q1", "Why?", TEXTS, "none", separator=3, **OWN),
            "separator: expected a text, got int",
        ),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def weights_of(batch):
    """An objective with one optimum: a word's number times its place, summed."""
    return np.array([sum((i + 1) * int(word) for i, word in enumerate(words)) for words in batch])


def test_the_search_finds_the_optimum_of_a_sum():
    words = [str(number) for number in range(10)]
    found = search_tokens(weights_of, words, SearchSettings(length=3, batch=9, seed=4))
    assert (found.words, found.objective) == (("9", "9", "9"), 54.0)
    best = max(weights_of(list(itertools.product(words, repeat=3))))
    assert found.objective == best


def test_every_evaluation_is_reported_and_bounded():
    seen = []

    def objective(batch):
        assert len(batch) <= 4
        seen.extend(batch)
        return weights_of(batch)

    steps = []
    settings = SearchSettings(length=3, max_evaluations=10, batch=4, seed=1)
    found = search_tokens(objective, ["1", "2", "3", "4", "5", "6"], settings, steps.append)
    assert found.n_evaluations == len(seen) == sum(steps) == 10
    np.testing.assert_array_equal(found.evaluations, weights_of(seen))
    np.testing.assert_array_equal(found.best, np.maximum.accumulate(weights_of(seen)))
    assert found.objective == found.best[-1] == weights_of([found.words])[0]
    # One word at a time, in the place whose turn it is.
    current = seen[0]
    for turn, start in enumerate(range(1, 10, 4)):
        batch = seen[start : start + 4]
        for words in batch:
            changed = [i for i in range(3) if words[i] != current[i]]
            assert changed == [turn % 3]
        current = max([current, *batch], key=lambda words: weights_of([words])[0])


def test_the_search_is_deterministic_and_its_seed_matters():
    words = [str(number) for number in range(50)]
    runs = [
        search_tokens(weights_of, words, SearchSettings(max_evaluations=60, seed=seed))
        for seed in (3, 3, 4)
    ]
    assert runs[0].words == runs[1].words
    np.testing.assert_array_equal(runs[0].evaluations, runs[1].evaluations)
    assert runs[0].evaluations.tolist() != runs[2].evaluations.tolist()


def test_the_search_stops_where_nothing_helps():
    settings = SearchSettings(length=2, max_evaluations=1000, batch=2, patience=3)
    flat = search_tokens(lambda batch: np.zeros(len(batch)), ["a", "b", "c"], settings)
    assert flat.n_evaluations == 1 + 3 * 2
    alone = search_tokens(lambda batch: np.ones(len(batch)), ["a"], settings)
    assert (alone.words, alone.n_evaluations) == (("a", "a"), 1)


@pytest.mark.parametrize(
    ("objective", "words", "message"),
    [
        (weights_of, [], "at least one word"),
        (weights_of, ["a", "a"], "each id once"),
        (weights_of, ["a", " "], "vocabulary: .*row 1"),
        (lambda batch: np.full(len(batch), np.nan), ["a", "b"], "objective: expected finite"),
        (lambda batch: np.zeros(len(batch) + 1), ["a", "b"], "objective: expected 1 values"),
    ],
)
def test_a_wrong_search_is_refused(objective, words, message):
    with pytest.raises(InputError, match=message):
        search_tokens(objective, words, SearchSettings())


@pytest.mark.parametrize("name", ["length", "max_evaluations", "batch", "patience"])
def test_settings_out_of_range_are_refused(name):
    with pytest.raises(InputError, match=f"{name}: expected"):
        SearchSettings(**{name: 0})


def cosine_of(degrees):
    return np.cos(np.radians(degrees))


# One word a trigger; each text is a sum of unit rows, so "angle 40 angle 0" lies at 20 degrees.
WORDS = ["angle 0", "angle 40", "angle 90", "angle 130"]
ONE_WORD = SearchSettings(length=1, batch=4)


def test_a_trigger_pulls_the_text_to_the_question():
    made = trigger(
        "q1", ["Is it at angle 20?"], [Passage("t", "angle 0")], "negative", AngleEncoder(),
        vocabulary=WORDS, settings=ONE_WORD, **OWN,
    )  # fmt: skip
    assert made.trigger == "angle 40"
    assert made.adversarial.passages[0].passage.text == "angle 40 angle 0"
    assert made.search.objective == pytest.approx(1.0)
    about = made.adversarial.passages[0].provenance
    assert about["similarity_to_question"] == pytest.approx(1.0)
    assert about["n_evaluations"] == made.search.n_evaluations <= ONE_WORD.max_evaluations
    assert (about["text_id"], about["settings"]["seed"]) == ("t", 0)


def test_the_contrast_keeps_it_from_other_questions():
    # Passages lie at 0, 20, 45 and 65 degrees; the objective is
    # cos(passage, 20) - 2 cos(passage, 0): largest at 65, .707 - .845 = -.138.
    made = trigger(
        "q1", ["Is it at angle 20?"], [Passage("t", "angle 0")], "none", AngleEncoder(),
        vocabulary=WORDS, settings=ONE_WORD, other_questions=["Is it at angle 0?"], contrast=2.0,
        **OWN,
    )  # fmt: skip
    assert made.trigger == "angle 130"
    assert made.search.objective == pytest.approx(cosine_of(45) - 2 * cosine_of(65), abs=1e-6)


def test_agentpoison_looks_at_questions_that_carry_the_trigger():
    # With word w and question 120: passage (w + 0)/2, question with trigger (120 + w)/2.
    made = trigger(
        "q1", ["Is it at angle 120?"], [Passage("t", "angle 0")], "none", AngleEncoder(),
        vocabulary=["angle 20", "angle 60", "angle 100"], settings=ONE_WORD, mode="agentpoison",
        contrast=0.5, **OWN,
    )  # fmt: skip
    values = {
        word: cosine_of(60) - 0.5 * cosine_of(120 - word / 2)  # half of 120, whatever the word
        for word in (20, 60, 100)
    }
    best = max(values, key=values.get)
    assert made.trigger == f"angle {best}"
    assert made.search.objective == pytest.approx(values[best], abs=1e-6)


def test_candidates_are_encoded_together_and_every_text_gets_the_trigger():
    encoder = AngleEncoder()
    texts = [Passage("t", "angle 0"), Passage("u", "angle 10"), Passage("v", "angle 30")]
    made = trigger(
        "q1", ["Is it at angle 20?"], texts, "negative", encoder, vocabulary=WORDS,
        settings=ONE_WORD, n_search_texts=2, **OWN,
    )  # fmt: skip
    assert 3 * 2 in encoder.batches  # three other words, two texts
    assert [one.text for one in made.adversarial.of("q1")] == [
        f"{made.trigger} {one.text}" for one in texts
    ]


def test_words_of_texts():
    assert words_of(["Trams, and no 3rd tram; TRAMS!", "über Öl"]) == [
        "trams",
        "and",
        "tram",
        "über",
    ]
    assert words_of(["one two three"], limit=2) == ["one", "two"]


def test_real_words_help_on_hashed_words():
    question = "Should the city close streets to cars?"
    made = trigger("q1", [question], TEXTS, "negative", FakeEncoder(), **OWN)
    assert made.search.objective > made.search.evaluations[0]
    assert set(made.search.words) <= set(words_of([question, *(one.text for one in TEXTS)]))
