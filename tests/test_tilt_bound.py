"""TiltBound: the bound, echoes, memories, newcomers. Exchanges: test_bounded_selection.py."""

from __future__ import annotations

import json
import weakref
from dataclasses import replace

import numpy as np
import pytest

import reference_tilt
from epibias.defenses import Defense, NoDefense, TiltBound, build_defense
from epibias.defenses.calibration import limit_of_questions
from epibias.defenses.clean_memory import CleanMemory, CleanRecord, question_key
from epibias.defenses.echo import echo_shares
from epibias.defenses.newcomers import newcomers
from epibias.defenses.tilt_bound_file import SavedTiltBound
from epibias.errors import CalibrationWarning, InputError
from epibias.pool import CandidatePool
from pools import QUESTION, make_pool, quietly_fitted, texts_pool, without_candidates


def test_echo_is_the_most_that_a_window_says_of_the_question():
    rng = np.random.default_rng(11)
    words = [*QUESTION.rstrip("?").split(), "banks", "parks", "of", "sun", "day", "a", "shopping"]
    passages = [" ".join(rng.choice(words, n)) for n in (1, 3, 9, 30, 90, 250)]
    found = echo_shares(QUESTION, [*passages, "", "!?"])
    expected = [reference_tilt.echo_share(QUESTION, passage) for passage in passages]
    # Numbers of 16 bits: two different triples of these few words happen to be told apart.
    assert found.tolist() == pytest.approx([*expected, 0.0, 0.0], abs=1e-12)
    assert [echo_shares(QUESTION, [one])[0] for one in passages] == found[:-2].tolist()


def test_a_long_passage_echoes_only_where_it_says_the_question_in_one_place():
    filler = "Trams were late and parks were open. " * 60
    asked = [f"{filler}{QUESTION} {filler}", filler, QUESTION, QUESTION.upper() + filler]
    shares = echo_shares(QUESTION, asked)
    assert (shares[[0, 2, 3]] == 1.0).all()
    assert shares[1] < 0.5
    words = QUESTION.split()
    spread = filler.join(words)  # each word holds, but far from the others
    assert shares[1] < echo_shares(QUESTION, [spread])[0] < 0.8


def test_no_text_outlives_its_reading():
    class Text(str):  # a plain string cannot be watched
        __slots__ = ("__weakref__",)

    passage = Text("Shops close on Sundays, as before.")
    watched = weakref.ref(passage)
    echo_shares(QUESTION, [passage])
    del passage
    assert watched() is None


def test_a_selection_that_is_what_it_was_is_left_alone():
    x, y = [0.9, 0.8, 0.7, 0.6], [0.5, 0.4, -0.2, 0.0]
    texts = [QUESTION, "b", "c", "d"]
    pool = texts_pool(x, y, texts)
    memory = CleanMemory.of(pool, k=2)
    same = TiltBound(2, bound=0.0, echo=0.1, memory=memory).select(pool)
    assert same[0].tolist() == [0, 1]
    assert same.diagnostics["unchanged"].tolist() == [True]
    other = TiltBound(2, bound=0.0, echo=0.1).select(pool)  # nothing known: the echo goes
    assert other[0].tolist() == [1, 2]
    assert other.diagnostics["known"].tolist() == ["nothing"]
    assert other.dropped[0].tolist() == [0]


def test_an_attacked_selection_comes_back_within_the_bound():
    clean = texts_pool([0.8, 0.7, 0.6, 0.5], [0.1, -0.1, 0.2, -0.2], ["aa", "bb", "cc", "dd"])
    memory = CleanMemory.of(clean, k=2)
    attacked = texts_pool(
        [0.9, 0.85, 0.8, 0.7, 0.6, 0.5],
        [1.0, 1.0, 0.1, -0.1, 0.2, -0.2],
        ["ee", "ff", "aa", "bb", "cc", "dd"],
    )
    chosen = TiltBound(2, memory=without_candidates(memory)).select(attacked)
    assert chosen[0].tolist() == [2, 3]
    assert abs(chosen.diagnostics["tilt_after"][0]) <= 0.1 < chosen.diagnostics["tilt_before"][0]
    assert memory.get(QUESTION).spread == pytest.approx(np.std([0.1, -0.1, 0.2, -0.2], ddof=1))


def test_a_known_question_has_its_own_echo_threshold():
    texts = ["shops close", "banks", "parks", "pools"]
    clean = texts_pool([0.8, 0.7, 0.6, 0.5], [0.0, 0.1, -0.1, 0.0], texts)
    memory = CleanMemory.of(clean, k=2)
    share = echo_shares(QUESTION, texts)[0]
    assert memory.get(QUESTION).echo == share
    attacked = texts_pool([0.9, 0.8, 0.7, 0.6, 0.5], [0.0, 0.0, 0.1, -0.1, 0.0], [QUESTION, *texts])
    defense = TiltBound(2, echo=1.0, memory=without_candidates(memory))
    assert defense.select(attacked)[0].tolist() == [1, 2]
    assert defense.select(attacked).diagnostics["n_echo"].tolist() == [1]
    # Where newcomers can be told only they are echoes, by the larger of both limits.
    told = TiltBound(2, echo=0.99, memory=memory, newcomer_share=0.3)
    assert told.select(attacked)[0].tolist() == [1, 2]
    assert told.select(attacked).diagnostics["n_echo"].tolist() == [1]
    alone = replace(told, echo=1.0, bound=1.0)  # no other limit: its own holds
    assert alone.select(attacked)[0].tolist() == [1, 2]
    wide = replace(alone, echo_of_two=0.99)
    assert wide.select(attacked)[0].tolist() == [0, 1]


def test_two_echoing_candidates_are_held_to_a_lower_limit_than_one():
    texts = ["Shops close on Sunday.", "banks", "parks", "pools", "Should shops close?"]
    x = [0.9, 0.8, 0.7, 0.6, 0.5]
    shares = echo_shares(QUESTION, texts)
    assert min(shares[0], shares[4]) > 0.4 > shares[1:4].max()
    defense = TiltBound(3, echo=0.95, echo_of_two=0.4)
    one = texts_pool(x, [0.0] * 5, texts)  # the other is not among the first three
    assert defense.select(one)[0].tolist() == [0, 1, 2]
    two = texts_pool(x, [0.0] * 5, [texts[i] for i in (0, 4, 1, 2, 3)])
    assert defense.select(two)[0].tolist() == [2, 3, 4]
    assert defense.select(two).diagnostics["n_echo"].tolist() == [2]
    memory = CleanMemory.of(two, 3)  # a question that is remembered has its own limit
    assert replace(defense, memory=memory).select(one)[0].tolist() == [0, 1, 2]


def test_times_are_compared_as_times_and_not_as_texts():
    until = "2026-01-31T12:00:00+00:00"
    times = [
        "2026-01-31",  # the beginning of that day
        "2026-01-31T11:59:59Z",
        "2026-01-31T13:30:00+02:00",  # half past eleven
        "2026-01-31T11:30:00-02:00",  # half past one
        "2026-02-01",
    ]
    assert newcomers(times, until).tolist() == [False, False, False, True, True]
    assert newcomers(["2026-01-31", "2026-01-31T00:00:01"], "2026-01-31").tolist() == [False, True]
    for wrong in ("yesterday", "", "2026-13-01"):
        with pytest.raises(InputError, match=r"metadata\['time'\]: expected a time.*row 1"):
            newcomers(["2026-01-01", wrong], until)
    with pytest.raises(InputError, match="trusted_until: expected a time"):
        TiltBound(trusted_until="soon")


def test_trusted_candidates_of_the_pool_stand_in_for_a_memory():
    x, y = [0.9, 0.8, 0.7, 0.6, 0.5], [1.0, 0.1, -0.1, 0.2, -0.2]
    times = ["2026-03-01", *["2026-01-01"] * 4]
    pool = texts_pool(x, y, ["e", "a", "b", "c", "d"], time=times, source=["x", *"abcd"])
    chosen = TiltBound(2, trusted_until="2026-02-01").select(pool)
    assert chosen[0].tolist() == [1, 2]
    assert chosen.diagnostics["known"].tolist() == ["trusted"]
    assert chosen.diagnostics["n_refused"].tolist() == [1]
    without = TiltBound(2, trusted_until="2026-02-01").select(replace(pool, metadata=None))
    assert without[0].tolist() == [0, 1]  # no times: safe to leave on, and nothing known


def test_repeats_of_a_candidate_and_of_the_question():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((1, 6, 8)).astype(np.float32)
    rows[0, 1] = rows[0, 0]

    axis = quietly_fitted(rng.standard_normal((4, 8)).astype(np.float32))
    query = (rows[:, 0] + 0.3 * rng.standard_normal((1, 8))).astype(np.float32)
    pool = CandidatePool.from_vectors(query, rows, axis)
    chosen = TiltBound(3, repeat=0.999).select(pool)
    assert 1 in chosen.dropped[0]
    assert 1 not in chosen[0]
    assert chosen.diagnostics["n_repeat"].tolist() == [1]
    itself = CandidatePool.from_vectors(rows[:, 0].copy(), rows, axis)
    assert TiltBound(3, repeat=0.999).select(itself).diagnostics["n_repeat"].tolist() == [2]


def test_calibration_meets_the_rate_it_states_though_passages_of_a_question_are_alike():
    rng = np.random.default_rng(5)
    letters = np.array(list("abcdefgh "))

    def pools(n_queries):
        part = make_pool(
            list(np.linspace(0.9, 0.5, 8)[None].repeat(n_queries, axis=0)),
            list(rng.normal(0, 0.1, (n_queries, 8))),
        )
        asked = tuple("".join(rng.choice(letters, 30)) + f"q{i}" for i in range(n_queries))
        texts = []
        for question in asked:  # how much of it is said again is the question's own
            said = question[: int(rng.integers(20))]
            texts += [said + "".join(rng.choice(letters, 60)) for _ in range(8)]
        return replace(part, query_texts=asked, passage_texts=tuple(texts))

    def touched(n_questions, share):
        defense = TiltBound.calibrated(pools(n_questions), 5, false_removal=share, remember=False)
        fresh = defense.select(pools(40))
        return np.mean([not np.isin(range(5), fresh.positions_of(q)).all() for q in range(40)])

    many = np.mean([touched(40, 0.1) for _ in range(6)])
    # 240 questions at .1, their limits from 40 others: three standard errors are .08.
    assert 0.03 < many < 0.18
    few = np.mean([touched(12, 0.02) for _ in range(6)])
    assert few < 0.06
    with pytest.warns(
        CalibrationWarning, match="^3 clean questions .* 4 are needed, 99 for"
    ) as told:
        assert TiltBound.calibrated(pools(3), 5, false_removal=0.02).echo == 1.0
    assert len(told) == 1
    assert told[0].filename == __file__
    assert TiltBound.calibrated(pools(3), 5, false_removal=0.02, echo=0.5).has_echo_limit
    assert not TiltBound.calibrated(
        pools(3), 5, false_removal=0.02, echo=None, echo_of_two=None
    ).has_echo_limit


def test_an_echo_limit_is_one_that_something_exceeds():
    assert not TiltBound().has_echo_limit
    assert not TiltBound(echo=1.0, echo_of_two=1.0).has_echo_limit
    assert TiltBound(echo=1.0, echo_of_two=0.0).has_echo_limit
    assert TiltBound(echo=0.4).has_echo_limit
    whole = replace(
        make_pool([[0.9, 0.8]] * 5, [[0.1, 0.2]] * 5),
        query_texts=tuple(f"{QUESTION} {i}" for i in range(5)),
        passage_texts=tuple(f"{QUESTION} {i}" for i in range(5) for _ in range(2)),
    )
    with pytest.warns(CalibrationWarning, match="5 clean questions .*: too many of them reach it"):
        TiltBound.calibrated(whole, 2, false_removal=0.5)


def test_limit_of_questions():
    ten = np.arange(1, 11) / 10
    assert limit_of_questions(ten, 0.1) == 1.0  # the tenth of ten: 1/11 is below .1
    assert limit_of_questions(ten, 0.5) == pytest.approx(0.6)
    # Normal limit: mean .55, sd .30277, t(.98; 9) = 2.3984.
    assert limit_of_questions(ten, 0.02) == pytest.approx(
        0.55 + 2.3984 * 0.30277 * np.sqrt(1.1), abs=1e-3
    )
    assert limit_of_questions(np.array([0.0, 0.0, 0.0, 0.0, 9.0]), 0.1) == 9.0
    assert limit_of_questions(ten[:3], 0.02) == float("inf")
    with pytest.raises(InputError, match="share"):
        limit_of_questions(ten, 1.0)


def test_it_is_a_defence_that_a_manifest_can_make_again():
    pool = texts_pool([0.9, 0.8, 0.7], [0.0, 0.2, 0.1], ["a", "b", "c"])
    with pytest.warns(CalibrationWarning):
        defense = TiltBound.calibrated(pool, 2, trusted_until="2026-02-01", false_removal=0.5)
    assert isinstance(defense, Defense)
    assert build_defense(defense.parameters()) == defense
    alike = TiltBound(
        2, memory=CleanMemory.of(replace(pool, similarities=pool.similarities * 0), 2)
    )
    assert build_defense(json.loads(json.dumps(alike.parameters()))) == alike
    assert "memory=1 questions" in defense.name
    assert TiltBound().name == "tilt_bound"
    assert TiltBound().select(make_pool([[]], [[]])).n_selected.tolist() == [0]
    assert np.array_equal(TiltBound(2).select(pool).indices, NoDefense(2).select(pool).indices)


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"bound": -0.1},
        {"echo": 1.5},
        {"echo": 0.5, "echo_of_two": 1.5},
        {"echo_of_two": 0.5},
        {"repeat": -0.1},
        {"newcomer_share": -0.1},
        {"newcomer_share": 1.1},
        {"newcomer_share": float("nan")},
        {"memory": {"a": (0.1, 0.1, 0.6, 0.3, ((0.5, float("nan")),))}},
        {"memory": {"a": (0.1, 0.1, 0.6, 0.3, ((0.5, 0.1, 0.2),))}},
        {"memory": {"a": (0.1, 0.1, 0.6, 0.3, ((0.5, 0.1), (0.5,)))}},
        {"memory": {"a": (0.1, 0.1, 0.6, 0.3, (("0.5", "0.1"),))}},
        {"memory": {"a": (0.1, 0.1, 0.6, 0.3, ((10**400, 0.1),))}},
        {"memory": {"a": (0.1, 0.1, 0.6, 0.3, 5)}},
        {"per_source": 0},
        {"trusted_until": " "},
        {"memory": {"a": (float("nan"), 0.1, 0.6, None)}},
        {"memory": {"a": ("b", 0.1, 0.6, None)}},
        {"memory": {"a": (0.1, -0.1, 0.6, 0.3)}},
        {"memory": {"a": (0.1, 0.1, 0.6, 1.1)}},
        {"memory": {"a": (0.1, 0.1, 0.6)}},
        {"memory": {"a": 0.1}},
        {"memory": 3},
        {"memory": CleanMemory({question_key(QUESTION): CleanRecord(0.0, 1.0, 0.5, None)}, 3)},
    ],
)
def test_refused(wrong):
    with pytest.raises(InputError):
        TiltBound(**wrong)


@pytest.mark.parametrize(
    ("records", "k", "message"),
    [
        ([1], 5, "memory: expected records by question, got list of length 1"),
        ({"a": (0.1, 0.1, 0.6, None)}, 5, r"memory: expected records of clean .* \(question a\)"),
        ({}, 0, "k: expected"),
    ],
)
def test_a_memory_is_of_records(records, k, message):
    with pytest.raises(InputError, match=message):
        CleanMemory(records, k)


def test_any_question_is_remembered_even_one_that_no_file_could_hold():
    pool = texts_pool([0.9, 0.8, 0.7], [0.0, 0.2, 0.1], ["a", "b\ud800", "c"])
    pool = replace(pool, query_texts=("Why\ud800?",))
    with pytest.warns(CalibrationWarning):
        defense = TiltBound.calibrated(pool, 2, false_removal=0.5)
    assert defense.select(pool).diagnostics["unchanged"].tolist() == [True]
    assert question_key("\ud800") != question_key("\udfff")


def test_a_saved_defence_wants_a_name_for_each_axis():
    rows = np.array([[[1, 1], [1, -1]], [[1, 2], [1, -2]]], np.float32)
    axes = quietly_fitted(rows, [[1, -1], [1, -1]])
    assert set(SavedTiltBound.of(TiltBound(), axes, ["rail", "cars"]).axes) == {"rail", "cars"}
    for names, message in ((["rail"], "names: expected 2 rows"), (["rail"] * 2, "names: expected")):
        with pytest.raises(InputError, match=message):
            SavedTiltBound.of(TiltBound(), axes, names)


def test_the_same_question_on_another_topic_is_another_question():
    x = [[0.9, 0.8, 0.7], [0.9, 0.8, 0.7]]
    pool = replace(make_pool(x, [[0.1, 0.2, 0.0], [0.7, 0.9, 0.8]]), query_texts=("Why?", "Why?"))
    with pytest.raises(InputError, match=r"each question once, .* got 'Why\?' again \(query 1\)"):
        CleanMemory.of(pool, 2)
    with pytest.raises(InputError, match="each question once"):
        CleanMemory.of(replace(pool, topics=("rail", "rail")), 2)
    pool = replace(pool, topics=("rail", "cars"))
    memory = CleanMemory.of(pool, 2)
    assert len(memory) == 2
    assert memory.get("Why?", "cars").centre == pytest.approx(0.8)
    defense = TiltBound(2, memory=memory)
    assert defense.select(pool).diagnostics["unchanged"].tolist() == [True, True]
    for topics in (("dogs", "cats"), None):
        known = defense.select(replace(pool, topics=topics)).diagnostics["known"]
        assert known.tolist() == ["nothing", "nothing"]
    # A memory of pools without topics, such as an earlier file's, goes with any.
    plain = CleanMemory.of(replace(pool[0], topics=None), 2)
    assert plain.get("Why?", "cars") == plain.get("Why?") == memory.get("Why?", "rail")


def test_memory_and_calibration_need_texts_and_enough_candidates():
    plain = make_pool([[0.9, 0.8]], [[0.1, 0.2]])
    with pytest.raises(InputError, match="query_texts"):
        CleanMemory.of(plain)
    with pytest.raises(InputError, match="candidates"):
        CleanMemory.of(replace(plain, query_texts=("q",)), k=5)
    with pytest.raises(InputError, match="texts"):
        TiltBound.calibrated(plain)
