"""The guided axis with a model's reasons as anchors of little weight, and those reasons."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from epibias.errors import InputError
from epibias.generators import Failure, FixedGenerator, generated_reasons, parse_reasons
from epibias.polarization.reasoned import reasoned_axis
from pools import opposed_anchors, quietly_fitted, unit_rows

LABELS = np.array([2.0, 1, 3, -1, -3, -2, 1, -1])
SIDES = np.array([-1.0, -1, -1, 1, 1])  # of the reasons, in their order
WEIGHTS = np.array([0.5, 0.25])
REPLY = "Yes, because\n1. trees cool.\n2. trees live.\n\nNo, because\n1. roots lift roads.\n"
BENCH = Path(__file__).parents[1] / "bench"


def units(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_definition(others, anchors, labels, reasons, sides, weights, share, trust, penalty):
    """Minimise the weighted squares by their normal equations, all of dim², no row stacked."""
    rows, weak = units(anchors.astype(float)), units(reasons.astype(float))
    centre = rows.mean(axis=0)
    directions = np.stack([axis.axis.astype(float) for axis in others])
    mean = np.asarray(weights) @ directions
    inverse = np.linalg.inv(np.eye(len(centre)) + trust * directions.T @ directions)
    left, right = penalty * inverse, penalty * inverse @ mean
    for some, stances, weight in ((rows, labels, 1.0), (weak, sides, share)):
        turned = units(some - centre)
        turned = turned - turned.mean(axis=0)
        stances = np.asarray(stances, float) / np.abs(stances).max()
        left = left + weight * turned.T @ turned
        right = right + weight * turned.T @ (stances - stances.mean())
    found = np.linalg.solve(left, right)
    return found / np.linalg.norm(found)


def given(seed, dim=12):
    rng = np.random.default_rng(seed)
    others = [quietly_fitted(unit_rows(rng, 4, dim)) for _ in range(2)]
    anchors = (2 * rng.standard_normal((8, dim))).astype(np.float32)
    return others, anchors, (3 * rng.standard_normal((5, dim))).astype(np.float32)


@pytest.mark.parametrize("share", [0.0, 0.15, 4.0])
@pytest.mark.parametrize("trust", [0.0, 2.0])
@pytest.mark.parametrize("penalty", [0.05, 1.0])
def test_the_axis_minimises_what_its_notes_say(share, trust, penalty):
    others, anchors, reasons = given(1)
    options = {"weights": WEIGHTS, "share": share, "trust": trust, "penalty": penalty}
    got = reasoned_axis(others, anchors, LABELS, reasons[:3], reasons[3:], **options)
    expected = by_definition(others, anchors, LABELS, reasons, SIDES, **options)
    # The float32 rounding of a unit vector of 12 columns.
    np.testing.assert_allclose(got.axis, expected, rtol=0, atol=1e-6)
    assert (got.method, got.n_anchors) == ("reasoned", 8)


def test_validity_is_of_anchors_left_out_and_of_no_reason():
    others, anchors, reasons = given(2)
    got = reasoned_axis(others, anchors, LABELS, reasons[:3], reasons[3:], weights=WEIGHTS)
    scores = []
    for out in range(8):
        rest = np.arange(8) != out
        axis = by_definition(  # LABELS' largest, 3, is there twice: every rest has it
            others, anchors[rest], LABELS[rest], reasons, SIDES, WEIGHTS, 0.15, 2.0, 0.25
        )
        scores.append(anchors[out] @ axis / np.linalg.norm(anchors[out]))
    assert abs(got.validity - spearmanr(scores, LABELS)[0]) < 1e-12


def test_reasons_move_the_axis_to_where_they_speak():
    rng = np.random.default_rng(3)
    side = np.zeros(64)
    side[0] = 1
    others = [quietly_fitted(unit_rows(rng, 4, 64))]
    stances = np.array([1.0, -1, 1, -1])
    noise = rng.standard_normal((2, 4, 64)) * 0.1
    anchors = (np.ones(64) / 8 + 0.1 * stances[:, None] * side + noise[0]).astype(np.float32)
    reasons = (np.ones(64) / 8 + 0.6 * stances[:, None] * side + noise[1]).astype(np.float32)
    sides = reasons[stances < 0], reasons[stances > 0]
    without = reasoned_axis(others, anchors, stances, *sides, share=0)
    got = reasoned_axis(others, anchors, stances, *sides, share=1)
    turned = reasoned_axis(others, anchors, stances, *sides[::-1], share=1)
    assert turned.axis[0] < without.axis[0] < got.axis[0]


@pytest.mark.parametrize(
    "change",
    [
        {"others": []},
        {"weights": [1.0]},
        {"share": -0.1},
        {"trust": -1.0},
        {"penalty": 0.0},
        {"labels": [1.0] * 8},
        {"opposing": np.ones((0, 12), np.float32)},
        {"opposing": np.ones((5, 11), np.float32)},
        {"supporting": np.zeros((5, 12), np.float32)},
        {"supporting": np.ones((5, 12))},
        {"supporting": np.ones(12, np.float32)},
        {"anchors": np.ones((8, 12), np.float32)},
        {"others": [quietly_fitted(opposed_anchors(1, dim=5)[0])]},
    ],
)
def test_a_reasoned_axis_refuses(change):
    others, anchors, reasons = given(8)
    sides = {"opposing": reasons[:3], "supporting": reasons[3:]}
    whole = {"others": others, "anchors": anchors, "labels": LABELS, **sides}
    with pytest.raises(InputError) as caught:
        reasoned_axis(**{**whole, **change})
    if set(change) & {"opposing", "supporting"}:
        assert str(caught.value).startswith(next(iter(change)))


def test_equal_anchors_but_one_leave_the_reasons_when_that_one_is_left_out():
    others, _, reasons = given(9)
    anchors = np.eye(12, dtype=np.float32)[[0, 0, 0, 1]]
    got = reasoned_axis(others, anchors, [1, 1, -1, -1], reasons[:3], reasons[3:])
    assert np.isfinite(got.validity)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (REPLY, (("Roots lift roads.",), ("Trees cool.", "Trees live."))),
        ("**No, because:**\n- \"a b\"\n**Yes, because...**\n2) c\n3) c", (("A b",), ("C",))),
        ("Sure!\n1. lost\nYes, because\n1. a\n2. both\nNo, because\n1. both\n2. b",
         (("B",), ("A",))),
        ("<think>No, because\n1. x</think>" + REPLY, parse_reasons(REPLY)),
        ("Yes, because\n1. a\nNo, because\n1. a", None),
        ("Yes, because\n1. a", None),
        ("Because trees cool. No.", None),
        ("", None),
    ],
)  # fmt: skip
def test_reasons_are_read(reply, found):
    assert parse_reasons(reply) == found


def test_reasons_are_asked_for_once_at_temperature_0():
    generator = FixedGenerator(lambda prompt, _: REPLY if "Plant?" in prompt.user else "no")
    assert generated_reasons("Plant?", generator) == parse_reasons(REPLY)
    assert generator.n_calls == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("Trees are fine.", "a reply that begins 'Trees are fine.'"),
        (Failure("down", "no server", 2), "down: no server"),
    ],
)
def test_what_cannot_be_read_is_told_with_the_question(answer, told):
    with pytest.raises(InputError, match=r"Plant\?") as caught:
        generated_reasons("Plant?", FixedGenerator([answer]))
    assert told in str(caught.value)
    with pytest.raises(InputError):
        generated_reasons(" ", FixedGenerator(REPLY))


def test_most_recorded_replies_can_be_read():
    recorded = json.loads((BENCH / "reasons.json").read_text(encoding="utf-8"))
    replies = [reply for family in recorded["replies"].values() for reply in family.values()]
    read = [parse_reasons(reply) for reply in replies]
    assert sum(one is not None for one in read) > 0.85 * len(replies) > 80
