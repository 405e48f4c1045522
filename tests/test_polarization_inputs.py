"""What PolarizationAxis refuses, and with which words."""

from __future__ import annotations

import numpy as np
import pytest

from epibias.errors import InputError
from epibias.polarization import PolarizationAxis
from pools import TwoWordEncoder, opposed_anchors, quietly_fitted

GOOD = opposed_anchors(0)[0]
BROKEN = GOOD.copy()
BROKEN[5, 2] = np.nan
ZERO = GOOD.copy()
ZERO[3] = 0
LABELS = [1, -1, 1, -1, 1, -1, 1, -1]


@pytest.mark.parametrize(
    ("anchors", "keywords", "message"),
    [
        (np.tile(GOOD[:1], (8, 1)), {}, "anchors: expected anchors that differ, got equal ones"),
        (
            np.tile(GOOD[:1], (8, 1)),
            {"labels": LABELS, "method": "ridge"},
            "anchors: expected anchors that differ, got equal ones",
        ),
        (
            np.stack([GOOD, np.tile(GOOD[:1], (8, 1))]),
            {},
            "anchors: expected anchors that differ, got equal ones (topic 1)",
        ),
        (GOOD[:1], {}, "anchors: expected at least 2 anchors of 1 column, got shape (1, 16)"),
        (
            [GOOD, GOOD[:1]],
            {},
            "anchors: expected at least 2 anchors of 1 column, got shape (1, 16) (topic 1)",
        ),
        (GOOD[:0], {}, "anchors: expected at least 2 anchors of 1 column, got shape (0, 16)"),
        (np.stack([GOOD] * 2)[:0], {}, "got no topic"),
        ([], {}, "got no topic"),
        ([GOOD, GOOD[:, :9].copy()], {}, "expected 16 columns, as in topic 0, got shape (8, 9)"),
        (GOOD[0], {}, "anchors: expected a 2-d or 3-d array, got shape (16,)"),
        (GOOD.astype(np.float64), {}, "anchors: expected dtype float32; call anchors.astype("),
        ([GOOD.astype(np.float16)], {}, "got dtype float16 (topic 0)"),
        (GOOD, {"labels": [1] * 8}, "labels: expected stances of both signs, got 8 above 0 and 0"),
        (
            np.stack([GOOD, GOOD]),
            {"labels": [LABELS, [-1] * 8]},
            "labels: expected stances of both signs, got 0 above 0 and 8 below (topic 1)",
        ),
        (GOOD, {"labels": LABELS[:7]}, "labels: expected 8 numbers, one an anchor, got shape (7,)"),
        (GOOD, {"labels": ["pro"] * 8}, "labels: expected 8 numbers, one an anchor, got dtype <U3"),
        (GOOD, {"labels": [[1], [1, 2]]}, "got lists of unequal length"),
        (
            GOOD,
            {"labels": [np.nan, *LABELS[1:]]},
            "labels: expected finite values, got nan (row 0)",
        ),
        (np.stack([GOOD, GOOD]), {"labels": [LABELS]}, "labels: expected 2 rows, one a topic"),
        (GOOD, {"method": "ridge"}, "labels: expected a stance of every anchor, for 'ridge', got"),
        (GOOD, {"normalize": "yes"}, "normalize: expected True or False, got 'yes'"),
        (GOOD, {"center": "no"}, "center: expected True or False, got 'no'"),
        (GOOD, {"normalize": 1}, "normalize: expected True or False, got 1"),
        (
            np.stack([GOOD, BROKEN]),
            {"normalize": False},
            "anchors: expected finite values, got nan (topic 1, row 5, column 2)",
        ),
        (GOOD, {"method": "lda"}, "method: expected 'pca' or 'mean_difference' or 'ridge', got"),
        (
            GOOD,
            {"labels": LABELS, "method": "ridge", "penalty": 0},
            "penalty: expected a finite number > 0 and at most 1e+100, got 0",
        ),
    ],
)
def test_wrong_anchors_and_labels_are_refused(anchors, keywords, message):  # field case 14
    with pytest.raises(InputError) as caught:
        PolarizationAxis.fit(anchors, **keywords)
    assert message in str(caught.value)


@pytest.mark.parametrize("method", ["pca", "mean_difference", "ridge"])
@pytest.mark.parametrize(("anchors", "row"), [(BROKEN, 5), (ZERO, 3)])
def test_a_broken_row_is_named_with_its_topic(anchors, row, method):
    labels = None if method == "pca" else LABELS
    with pytest.raises(InputError, match=rf"^anchors: .*row {row}$"):
        PolarizationAxis.fit(anchors, labels, method)
    with pytest.raises(InputError, match=rf"^anchors: .*row {row} \(topic 1\)$"):
        PolarizationAxis.fit(np.stack([GOOD, anchors]), labels and [LABELS] * 2, method)


def test_equal_means_have_no_difference():
    rows = np.array([[1, 1], [1, -1], [1, 1], [1, -1]], np.float32)
    with pytest.raises(InputError, match=r"supporting and opposing anchors with different means"):
        PolarizationAxis.fit(rows, [1, 1, -1, -1], "mean_difference")
    with pytest.raises(InputError, match=r"anchors that differ along with their stances"):
        PolarizationAxis.fit(rows, [1, 1, -1, -1], "ridge")


def test_embeddings_that_do_not_fit_are_refused():
    axis = quietly_fitted(GOOD)
    with pytest.raises(InputError, match=r"embeddings: expected 16 columns, as many as the anch"):
        axis.score(np.ones((2, 5), np.float32))
    with pytest.raises(InputError, match=r"^embeddings: .*row 5"):
        axis.score(BROKEN)
    # Rows that no query names are never read.
    assert np.isfinite(axis.score(BROKEN, np.array([[0, 1, 2]]))).all()
    with pytest.raises(InputError, match=r"^indices: "):
        axis.score(GOOD, np.array([[0, 8]]))
    with pytest.raises(InputError, match=r"number: expected an integer from 0 to 0"):
        axis.topic(1)


@pytest.mark.parametrize(
    ("supporting", "opposing", "message"),
    [
        ([], ["no"], "supporting_statements: expected at least one statement, got none"),
        (["yes"], [], "opposing_statements: expected at least one statement, got none"),
        (["yes", " "], ["no"], "supporting_statements: expected a text that is not blank, got ' '"),
        (["yes"], ["\udbc0"], "opposing_statements: expected valid Unicode, got a lone surrogate"),
        ("yes", ["no"], "supporting_statements: expected a list of statements, got one string"),
        (["yes"], "no", "opposing_statements: expected a list of statements, got one string"),
    ],
)
def test_from_poles_refuses_statements_that_cannot_be_encoded(supporting, opposing, message):
    with pytest.raises(InputError) as caught:
        PolarizationAxis.from_poles(TwoWordEncoder(), supporting, opposing)
    assert message in str(caught.value)


def test_from_poles_refuses_an_encoder_that_returns_something_else():
    class Wide:
        def encode(self, texts):
            return np.ones((len(texts), 3))

    class Short:
        def encode(self, texts):
            return np.ones((1, 3), np.float32)

    class Broken(TwoWordEncoder):
        def encode(self, texts):
            rows = super().encode(texts)
            rows[1] = 0
            return rows

    with pytest.raises(InputError, match=r"^encoder\.encode: .* a zero row 1$"):
        PolarizationAxis.from_poles(Broken(), ["yes"], ["no"])
    with pytest.raises(InputError, match=r"^encoder\.encode: expected anchors that differ"):
        PolarizationAxis.from_poles(TwoWordEncoder(), ["hm"], ["hm"])
    with pytest.raises(InputError, match=r"^normalize: expected True or False, got 'no'$"):
        PolarizationAxis.from_poles(TwoWordEncoder(), ["yes"], ["no"], normalize="no")
    with pytest.raises(InputError, match=r"encoder.encode: expected dtype float32"):
        PolarizationAxis.from_poles(Wide(), ["yes"], ["no"])
    with pytest.raises(InputError, match=r"encoder.encode: expected 2 rows, as many as statements"):
        PolarizationAxis.from_poles(Short(), ["yes"], ["no"])
