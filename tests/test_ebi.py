"""EBI step by step on an encoder whose scores are sines of the angles that the texts name."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from angle_encoder import AngleEncoder
from epibias.attacks.ebi import ebi
from epibias.attacks.ebi_parts import EBISettings
from epibias.corpus import Corpus, Passage
from epibias.data_sets import Question
from epibias.errors import InputError
from epibias.generators import Failure, FixedGenerator, render
from epibias.polarization import PolarizationAxis
from epibias.polarization.question_axis import fitted_axis

ANGLES = {-3: [-30], -2: [-20, -18], -1: [-10], 1: [10], 2: [18, 20], 3: [30]}
QUESTION = "Should the town build a tram?"
SETTINGS = EBISettings(
    n=2, tolerance=0.05, per_request=3, max_requests=2, min_words=3, max_words=8,
    max_similarity=np.cos(np.radians(0.5)),
)  # fmt: skip
ANCHORS = "\n".join(
    f"[{stance:+d}] Tram at angle {angle}." for stance in ANGLES for angle in ANGLES[stance]
)


def scripted(positive, negative, anchors=(ANCHORS,)):
    """A generator that gives its replies of each kind by the number of the request."""
    asked = []

    def answer(prompt, repeat):
        asked.append((prompt.name, repeat, prompt.user))
        if prompt.name == "anchors":
            return anchors[repeat]
        side = negative if "Tram at angle -30." in prompt.user else positive
        return side[repeat]

    return FixedGenerator(answer), asked


def made(generator, **options):
    options = {"i_own_this_index": True, "settings": SETTINGS, **options}
    return ebi("q1", QUESTION, generator, AngleEncoder(), **options)


def listed(*texts):
    return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))


def test_every_step_by_hand():
    # sin 30° = .5; within .05 lie 27° (.454) to 33° (.545), but neither 26° (.438) nor 34° (.559).
    generator, asked = scripted(
        [listed("A tram, angle 27.", "A tram, angle 26.", "A tram, angle 34."),
         listed("A new tram, angle 33.")],
        [listed("No tram: angle -28.", "No more trams: angle -32.", "No no no, angle -33.")],
    )  # fmt: skip
    outcome = made(generator)
    assert outcome.failure is None
    np.testing.assert_allclose(outcome.axis.axis, [0, 1, 0], atol=1e-6)
    assert outcome.references["positive"].text == "Tram at angle 30."
    assert outcome.references["negative"].text == "Tram at angle -30."
    found = outcome.adversarial
    assert [passage.text for passage in found.of("q1", "positive")] == [
        "A tram, angle 27.",
        "A new tram, angle 33.",
    ]
    assert [passage.id for passage in found.of("q1", "negative")] == [
        "q1-ebi-negative-01",
        "q1-ebi-negative-02",
    ]
    # Two a polarity are asked for first (n), then the one that is missing: its prompt says so.
    # Both sides are asked in one step, then those that are short.
    assert [(name, repeat) for name, repeat, _ in asked] == [
        ("anchors", 0), ("adversarial", 0), ("adversarial", 0), ("adversarial", 1),
    ]  # fmt: skip
    for number, wanted in ((1, 2), (3, 1)):
        fields = {"question": QUESTION, "reference": "Tram at angle 30.", "n": wanted}
        assert asked[number][2] == render("adversarial", **fields).user
    # Of three in a reply to two the third does not count: 34° was never looked at.
    assert found.rejections == {"PS beyond the tolerance": 1}
    assert outcome.missing == {"positive": 0, "negative": 0}


def test_provenance_says_how_a_passage_was_made():
    generator, _ = scripted(
        [listed("A tram, angle 27.", "A new tram, angle 32.")],
        [listed("No tram: angle -28.", "No more trams: angle -32.")],
    )
    one = made(generator).adversarial.passages[1]
    about = one.provenance
    assert about["ps"] == pytest.approx(np.sin(np.radians(32)), abs=1e-6)
    assert about["reference_ps"] == pytest.approx(0.5, abs=1e-6)
    assert about["similarity_to_reference"] == pytest.approx(np.cos(np.radians(2)), abs=1e-6)
    assert about["similarity_to_question"] == 0.0
    assert (about["request"], about["number_in_reply"]) == (0, 2)
    assert about["prompt"]["name"] == "adversarial"
    assert len(about["prompt"]["sha256"]) == 64
    assert about["generator"] == {"kind": "fixed", "model": "fixed"}
    assert about["encoder"] == AngleEncoder.identity
    assert about["settings"]["tolerance"] == 0.05
    assert about["anchors"]["requests"] == 1
    assert about["axis"]["method"] == "pca"
    assert about["axis"]["oriented_by"] == "stances"


def test_every_rejection_is_counted_by_its_reason():
    settings = EBISettings(
        n=9, tolerance=0.05, per_request=9, max_requests=2, min_words=3, max_words=6,
        max_similarity=SETTINGS.max_similarity,
    )  # fmt: skip
    replies = [
        listed(
            "A tram, angle 27.",  # taken
            "a  TRAM, angle 27",  # duplicate of it
            "Tram at angle 30.",  # duplicate of the reference
            "Tram at angle -10.",  # duplicate of an anchor
            "angle 28",  # too short
            "A very long tram at an angle 28.",  # too long
            "A short tram, angle 27.",  # near duplicate of the first: the same angle
            "A tram, angle 50.",  # PS .77
        ),
        Failure("refused", "a content filter stopped the answer", attempts=1),
    ]
    generator, _ = scripted(replies, ["nothing of the form", "nor here"])
    outcome = made(generator, settings=settings)
    assert outcome.adversarial.rejections == {
        "not in the reply": 1 + 9 + 9,
        "duplicate": 3,
        "too short": 1,
        "too long": 1,
        "near duplicate": 1,
        "PS beyond the tolerance": 1,
        "generator: refused": 1,
    }
    assert outcome.missing == {"positive": 8, "negative": 9}


def test_anchors_that_are_missing_are_asked_for_again():
    lines = ANCHORS.splitlines()
    replies = ["\n".join([*lines[:5], "[+3] short", lines[0]]), "\n".join(lines[5:])]
    side = [listed("A tram, angle 29.", "A tram, angle 31.")]
    other = [listed("No tram: angle -29.", "No tram: angle -31.")]
    generator, asked = scripted(side, other, replies)
    outcome = made(generator)
    again = render("anchors", question=QUESTION, stances=[2, 2, 3]).user
    assert [text for name, _, text in asked if name == "anchors"][1] == again
    assert [anchor.text for anchor in outcome.anchors.passages] == [
        f"Tram at angle {angle}." for angle in (-30, -20, -18, -10, 10, 18, 20, 30)
    ]
    assert outcome.anchors.stances == SETTINGS.stances
    assert outcome.adversarial.rejections == {
        "anchors: not in the reply": 1,
        "anchors: too short": 1,
        "anchors: another stance than asked for": 1,
    }


def test_a_list_of_anchors_that_is_only_numbered_is_asked_for_again():
    numbered = "\n".join(
        f"[{number}] {line[5:]}" for number, line in enumerate(ANCHORS.splitlines(), 1)
    )
    generator, asked = scripted(["nothing"] * 2, ["nothing"] * 2, [numbered, ANCHORS])
    outcome = made(generator)
    assert [repeat for name, repeat, _ in asked if name == "anchors"] == [0, 1]
    assert outcome.adversarial.rejections["anchors: not in the reply"] == 8
    assert outcome.references["positive"].text == "Tram at angle 30."


def test_a_question_without_anchors_fails_and_says_why():
    down = Failure("down", "connection refused", attempts=3)
    generator, _ = scripted([], [], [down, down])
    steps = []
    outcome = made(generator, progress=steps.append)
    # The generator tried it three times itself: the second request would fare no better.
    expected = "8 of 8 anchors missing after 1 request; the generator: connection refused"
    assert outcome.failure == expected
    assert outcome.adversarial.rejections == {"anchors: generator: down": 1}
    assert (len(outcome.adversarial), sum(steps)) == (0, 4)
    assert outcome.stopped == outcome.generator_failure == down


@pytest.mark.parametrize("reason", ["empty", "truncated", "malformed", "refused"])
def test_one_bad_reply_is_asked_for_again(reason):
    bad = Failure(reason, "a bad one", attempts=1)
    side = ["nothing of the form", listed("A tram, angle 29.", "A tram, angle 31.")]
    other = ["nothing of the form", listed("No tram: angle -29.", "No tram: angle -31.")]
    generator, _ = scripted(side, other, [bad, ANCHORS])
    outcome = made(generator)
    assert (outcome.failure, outcome.stopped, outcome.generator_failure) == (None, None, None)
    assert outcome.adversarial.rejections[f"anchors: generator: {reason}"] == 1
    assert len(outcome.adversarial) == 4


def test_what_an_offline_cache_does_not_hold_does_not_end_the_work():
    """A reply that failed was not kept; the next one was, and is found again."""
    missing = Failure("down", "offline, and not in replies.jsonl", attempts=0)
    side = [listed("A tram, angle 29.", "A tram, angle 31.")]
    other = [missing, listed("No tram: angle -29.", "No tram: angle -31.")]
    outcome = made(scripted(side, other, [missing, ANCHORS])[0])
    assert len(outcome.adversarial) == 4
    assert outcome.stopped is None


def test_a_side_whose_generator_goes_away_is_stopped_and_the_other_is_kept():
    gone = Failure("rate_limited", "HTTP 429", attempts=4)
    side = [listed("A tram, angle 29.", "A tram, angle 31.")]
    generator, asked = scripted(side, [gone, "never asked for"])
    outcome = made(generator)
    assert outcome.missing == {"positive": 0, "negative": 2}
    assert outcome.stopped == gone
    assert [repeat for name, repeat, _ in asked if name == "adversarial"] == [0, 0]


def test_why_the_generator_went_away_is_not_lost_behind_a_bad_reply():
    gone = Failure("timeout", "no whole answer within 120 s", attempts=3)
    bad = Failure("truncated", "cut off", attempts=1)

    class AtOnce(FixedGenerator):
        concurrency = 2

    outcome = made(AtOnce(lambda prompt, repeat: gone if "angle 30" in prompt.user else bad),
                   anchors=[Passage(f"p{a}", f"Tram at angle {a}.") for a in (-30, 10, 30)],
                   settings=replace(SETTINGS, max_requests=1))  # fmt: skip
    assert outcome.stopped == gone


def test_anchors_and_candidates_of_ones_own():
    anchors = [Passage(f"p{angle}", f"Tram, angle {angle}.") for angle in (-20, -10, 10, 20)]
    candidates = [Passage(f"c{angle}", f"Found: angle {angle}.") for angle in (5, 40, -35)]
    asked = []

    def answer(prompt, repeat):
        asked.append(prompt.user)
        sign = "-" if "angle -35" in prompt.user else ""
        return listed(f"A tram, angle {sign}38.", f"Old tram, angle {sign}37.")

    outcome = made(
        FixedGenerator(answer), anchors=anchors, stances=[-2, -1, 1, 2], candidates=candidates
    )
    assert {side: one.id for side, one in outcome.references.items()} == {
        "positive": "c40",
        "negative": "c-35",
    }
    assert len(outcome.adversarial) == 4
    bare = made(FixedGenerator(answer), anchors=anchors, candidates=candidates)
    assert bare.adversarial.passages[0].provenance["axis"]["oriented_by"] == "rule"
    given = outcome.adversarial.passages[0].provenance["anchors"]["given"]
    assert given == ["p-20", "p-10", "p10", "p20"]


def test_titles_count_as_they_do_in_an_index():
    anchors = tuple(
        Passage(f"p{angle}", f"Tram, angle {angle}.", "Found at angle 90")
        for angle in (-20, -10, 10, 20)
    )
    outcome = made(FixedGenerator("nothing"), anchors=anchors, stances=[-2, -1, 1, 2])
    one = Question("q1", QUESTION, "trams", anchors=anchors, stances=(-2.0, -1.0, 1.0, 2.0))
    np.testing.assert_array_equal(outcome.axis.axis, fitted_axis(one, AngleEncoder()).axis)
    rows = AngleEncoder().encode(list(Corpus(anchors).encoded_texts))
    expected = PolarizationAxis.fit(rows, labels=[-2, -1, 1, 2])
    np.testing.assert_array_equal(outcome.axis.axis, expected.axis)


def test_stances_that_are_turned_round_turn_the_sides():
    anchors = [Passage(f"p{angle}", f"Tram, angle {angle}.") for angle in (-20, -10, 10, 20)]
    generator = FixedGenerator("nothing")
    outcome = made(generator, anchors=anchors, stances=[2, 1, -1, -2])
    assert outcome.references["positive"].id == "p-20"


@pytest.mark.parametrize(("tolerance", "is_told"), [(0.499, False), (0.5, True)])
def test_a_tolerance_that_does_not_part_the_sides_is_told(tolerance, is_told):
    # The references have PS of sin 30° and -sin 30°: one apart.
    settings = replace(SETTINGS, tolerance=tolerance)
    generator, _ = scripted(["nothing"] * 2, ["nothing"] * 2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made(generator, settings=settings)
    found = [str(one.message) for one in told if "does not part the sides" in str(one.message)]
    assert bool(found) == is_told
    assert all("q1: the references lie 1 apart, so a tolerance of 0.5" in one for one in found)


def test_the_same_inputs_give_the_same_set():
    sides = (
        [listed("A tram, angle 27.", "A tram, angle 33.")],
        [listed("No tram: angle -28.", "No more trams: angle -32.")],
    )
    first, second = (made(scripted(*sides)[0]).adversarial for _ in range(2))
    assert first == second


def test_progress_adds_up():
    generator, _ = scripted([listed("A tram, angle 27.")] * 2, ["nothing"] * 2)
    steps = []
    made(generator, progress=steps.append)
    assert sum(steps) == 2 * SETTINGS.n


def test_nothing_is_made_without_ownership():
    generator, asked = scripted([], [])
    for answer in (False, None, 1, "yes"):
        with pytest.raises(InputError, match="an index that you own"):
            made(generator, i_own_this_index=answer)
    assert not asked


def test_anchors_that_do_not_differ_fail_and_say_so():
    anchors = [Passage(name, "Tram, angle 10.") for name in ("a", "b", "c")]
    outcome = made(FixedGenerator("x"), anchors=anchors, stances=[1, -1, 1])
    assert outcome.failure.startswith("no axis: anchors: expected")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n: expected"),
        ({"tolerance": 0}, "tolerance: expected"),
        ({"penalty": 0}, "penalty: expected"),
        ({"stances": (1, 2)}, "stances of both signs"),
        ({"stances": 3}, "stances: expected a sequence of integers, got 3"),
        ({"stances": (-9, 2)}, "stances: expected an integer from -3 to 3"),
        ({"min_words": 9, "max_words": 8}, "max_words: expected"),
        ({"method": "svm"}, "method: expected"),
        ({"max_similarity": 1.5}, "max_similarity: expected"),
        ({"temperature": -1}, "temperature: expected"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        EBISettings(**options)


def test_wrong_anchors_are_refused():
    generator = FixedGenerator("x")
    one = Passage("a", "Tram, angle 10.")
    with pytest.raises(InputError, match="at least two passages, got 1"):
        made(generator, anchors=[one])
    with pytest.raises(InputError, match="stances: expected 2 rows"):
        made(generator, anchors=[one, Passage("b", "Tram, angle 5.")], stances=[1])
    with pytest.raises(InputError, match="candidates: expected at least two passages, got 1"):
        made(generator, candidates=[one])
    with pytest.raises(InputError, match="anchors beside them"):
        made(generator, stances=[1, -1])
