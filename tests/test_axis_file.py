"""The axis file: read back as it was written, refused when anything in it is not as written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from epibias.errors import InputError
from epibias.polarization import PolarizationAxis
from epibias.polarization.axis_file import SavedAxis, read_axis, write_axis

ENCODER = {
    "name": "model",
    "content_sha256": "abc",
    "normalize": False,
    "dim": 3,
    "prompts_from": ("none", "none"),
    "device": "cpu (AVX512)",
    "libraries": {"torch": "2.13.0"},
}
MISSING = object()


def fitted():
    anchors = np.array([[1, 0.9, 0], [1, 0.6, 0.1], [1, -0.5, 0.1], [1, -0.8, 0]], np.float32)
    return PolarizationAxis.fit(anchors, [3, 1, -1, -3], "ridge", center=True)


@pytest.fixture
def path(tmp_path):
    write_axis(fitted(), tmp_path / "axis.json", ENCODER)
    return tmp_path / "axis.json"


def test_an_axis_comes_back_bit_for_bit(path):
    saved, axis = read_axis(path), fitted()
    assert saved.axis.axis.tobytes() == axis.axis.tobytes()
    for name in ("method", "normalize", "n_anchors", "validity", "neutral_centre"):
        assert getattr(saved.axis, name) == getattr(axis, name)
    assert saved.axis.mean_anchor_score == axis.mean_anchor_score != 0
    assert saved.encoder["prompts_from"] == ["none", "none"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", "epibias-axis-0", "axis: expected an axis file of format"),
        (
            "method",
            "random",
            "method: expected 'pca' or 'mean_difference' or 'ridge', got 'random'",
        ),
        ("method", ["pca"], "method: expected 'pca' or"),
        ("normalize", "no", "normalize: expected true or false, got 'no'"),
        ("normalize", None, "normalize: expected true or false, got None"),
        ("normalize", 1, "normalize: expected true or false, got 1"),
        ("n_anchors", 2.0, "n_anchors: expected an integer of at least 2"),
        ("n_anchors", True, "n_anchors: expected an integer of at least 2"),
        ("n_anchors", 1, "n_anchors: expected an integer of at least 2"),
        ("encoder", None, "encoder: expected an encoder's identity, or 'vectors', got None"),
        ("encoder", {}, "encoder: expected an encoder's identity"),
        ("validity", "high", "validity: expected a finite number, or null, got 'high'"),
        ("neutral_centre", None, "neutral_centre: expected a finite number, got None"),
        ("neutral_centre", [0.25, 0.5], "neutral_centre: expected .*, got list of length 2"),
        ("relative_gap", 10**400, "relative_gap: expected a finite number, or null"),
        ("mean_anchor_score", None, "mean_anchor_score: expected a finite number, got None"),
        ("axis", [0.5, 0.5, 0.5], "axis: expected a vector of length 1"),
        ("axis", "north", "axis: expected a list of numbers, got 'north'"),
        ("topic", "tea", "axis: expected the fields of an axis file alone, got 'topic'"),
        *((name, MISSING, f"{name}: expected a field") for name in ("method", "normalize")),
        *((name, MISSING, f"{name}: expected a field") for name in ("n_anchors", "encoder")),
        *((name, MISSING, f"{name}: expected a field") for name in ("neutral_centre", "axis")),
    ],
)
def test_what_no_axis_has_is_refused_by_field(path, field, value, message):
    record = json.loads(path.read_text(encoding="utf-8"))
    record[field] = value
    kept = {name: one for name, one in record.items() if one is not MISSING}
    path.write_text(json.dumps(kept), encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_axis(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "other"}, r"encoder\.name: expected 'model', as the axis .* got 'other'"),
        ({"content_sha256": "abd"}, r"encoder\.content_sha256: expected 'abc'"),
        ({"normalize": True}, r"encoder\.normalize: expected False"),
        ({"query_prompt": "q: "}, r"encoder\.query_prompt: expected 'nothing'"),
    ],
)
def test_another_encoder_is_refused_by_its_first_field_that_differs(path, change, message):
    with pytest.raises(InputError, match=message):
        read_axis(path).check_encoder({**ENCODER, **change})


def test_another_machine_is_no_other_encoder(path):
    read_axis(path).check_encoder({**ENCODER, "device": "cuda", "libraries": {"torch": "3"}})


def test_vectors_and_texts_are_not_of_one_encoder(path):
    with pytest.raises(InputError, match=r"encoder: expected texts, by 'model', .* got vectors"):
        read_axis(path).check_encoder("vectors")
    vectors = SavedAxis(fitted(), "vectors", "axis.json")
    vectors.check_encoder("vectors")
    with pytest.raises(InputError, match=r"encoder: expected vectors, .* got texts, by 'model'"):
        vectors.check_encoder(ENCODER)


def test_a_batch_has_no_file(tmp_path):
    anchors = np.array([[[1, 1], [1, -1]] * 2, [[1, 2], [1, -2]] * 2], np.float32)
    with pytest.raises(InputError, match="axis: expected that of one topic, got 2 topics"):
        write_axis(PolarizationAxis.fit(anchors), tmp_path / "axis.json", "vectors")
