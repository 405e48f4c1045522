"""The door to the core: what it takes as it is, what it refuses, and with which words."""

from __future__ import annotations

import re

import numpy as np
import pytest

import reference
from epibias import _dispatch, kernels
from epibias.errors import InputError, MissingExtraError


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def calls(rng):
    """Each kernel with small valid arguments: name, arguments, keywords."""
    rows = rng.standard_normal((6, 4)).astype(np.float32)
    anchors = rng.standard_normal((2, 5, 4)).astype(np.float32)
    similarities = rng.uniform(0, 1, (3, 8)).astype(np.float32)
    scores = rng.standard_normal((3, 8)).astype(np.float32)
    embeddings = rng.standard_normal((3, 8, 4)).astype(np.float32)
    factors = rng.standard_normal((2, 4, 6))
    return {
        "inverse_norms": ((rows,), {}),
        "cosine_topk": ((rows[:2], rows, 3), {}),
        "polarization_axis": ((anchors,), {"stances": np.array([[1, 2, -1, -2, 0.5]] * 2)}),
        "polarization_scores": ((rows, rows[:2]), {}),
        "threshold_sweep": ((similarities, scores), {"permutations": 5, "curve": True}),
        "printed_sweep": ((similarities, scores), {"curve": True}),
        "mmr": ((similarities, embeddings, 3), {}),
        "dpp_greedy": ((factors @ factors.transpose(0, 2, 1), 3), {}),
    }


NAMES = list(calls(np.random.default_rng(0)))


def run(name, arguments, keywords):
    return getattr(kernels, name)(*arguments, **keywords)


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_never_changed(name, rng):
    arguments, keywords = calls(rng)[name]
    before = [np.copy(argument) for argument in arguments]
    run(name, arguments, keywords)
    for argument, copy in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(argument, copy)


@pytest.mark.parametrize("name", NAMES)
def test_another_dtype_is_refused_with_the_call_that_fixes_it(name, rng):
    arguments, keywords = calls(rng)[name]
    wanted = arguments[0].dtype
    other = np.float32 if wanted == np.float64 else np.float64
    for dtype in (np.float16, other):
        with pytest.raises(InputError) as caught:
            run(name, (arguments[0].astype(dtype), *arguments[1:]), keywords)
        argument = caught.value.argument
        assert caught.value.expected == f"dtype {wanted}; call {argument}.astype(np.{wanted})"
        assert caught.value.got == f"dtype {np.dtype(dtype)}"


@pytest.mark.parametrize("name", NAMES)
def test_another_layout_is_refused_with_the_call_that_fixes_it(name, rng):
    arguments, keywords = calls(rng)[name]
    with pytest.raises(InputError, match=r"call np\.ascontiguousarray\("):
        run(name, (np.asfortranarray(arguments[0]), *arguments[1:]), keywords)


@pytest.mark.parametrize("name", NAMES)
def test_another_shape_is_refused(name, rng):
    arguments, keywords = calls(rng)[name]
    with pytest.raises(InputError, match=r"-d array, got shape"):
        run(name, (arguments[0].reshape(-1), *arguments[1:]), keywords)


@pytest.mark.parametrize("name", NAMES)
def test_a_nan_is_refused_with_its_place(name, rng):
    arguments, keywords = calls(rng)[name]
    broken = arguments[0].copy()
    broken.reshape(-1)[-1] = np.nan
    with pytest.raises(InputError) as caught:
        run(name, (broken, *arguments[1:]), keywords)
    assert re.search(r"nan.*\b(row|query|topic) \d", str(caught.value), re.IGNORECASE)


def test_lists_and_cpu_tensors_are_refused_by_name():
    with pytest.raises(InputError, match=r"rows: expected a numpy array, 2-d float32, got list"):
        kernels.inverse_norms([[1.0]])
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"call \.numpy\(\), got a torch tensor on the CPU"):
        kernels.inverse_norms(torch.ones((2, 2)))


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("k: expected at most 3, got 4", ("k", "at most 3", "4", None)),
        (
            "rows: expected finite values, got NaN (row 7)",
            ("rows", "finite values", "NaN", "row 7"),
        ),
        (
            "a: expected one, or two, got three, got four (topic 1, row 2)",
            ("a", "one, or two, got three", "four", "topic 1, row 2"),
        ),
    ],
)
def test_the_cores_message_comes_back_as_its_parts(message, parts):
    with pytest.raises(InputError) as caught, _dispatch.core_errors():
        raise ValueError(message)
    error = caught.value
    assert (error.argument, error.expected, error.got, error.where) == parts
    assert str(error) == message


def test_a_message_of_another_form_is_not_dressed_up():
    with pytest.raises(ValueError, match=r"^something else$") as caught, _dispatch.core_errors():
        raise ValueError("something else")
    assert not isinstance(caught.value, InputError)


def test_renamed_changes_the_argument_and_adds_the_place():
    with pytest.raises(InputError) as caught, _dispatch.renamed("query 2", rows="embeddings"):
        raise InputError("rows", "finite values", "NaN", "row 7")
    assert str(caught.value) == "embeddings: expected finite values, got NaN (query 2, row 7)"
    with pytest.raises(MissingExtraError), _dispatch.renamed(rows="embeddings"):
        raise MissingExtraError("rows", "scipy", "scipy")


def test_kernels_give_what_the_reference_gives(rng):
    small = calls(rng)
    (rows,), _ = small["inverse_norms"]
    expected = [reference.inverse_norm(row) for row in rows]
    assert kernels.inverse_norms(rows).tolist() == expected

    (queries, passages, k), _ = small["cosine_topk"]
    indices, similarities, _ = kernels.cosine_topk(queries, passages, k)
    wanted = reference.cosine_topk(queries, passages, k)
    np.testing.assert_array_equal(indices, wanted[0])
    np.testing.assert_array_equal(similarities, wanted[1])

    (embeddings_scores, embeddings, k), _ = small["mmr"]
    for row, chosen in enumerate(kernels.mmr(embeddings_scores, embeddings, k)):
        wanted_order = reference.mmr(embeddings_scores[row], embeddings[row], k)
        assert chosen.tolist() == wanted_order.tolist()

    (matrices, k), _ = small["dpp_greedy"]
    positions, n_selected = kernels.dpp_greedy(matrices, k)
    for row, matrix in enumerate(matrices):
        wanted_items = reference.dpp_greedy(matrix, k)
        assert positions[row, : n_selected[row]].tolist() == wanted_items.tolist()


@pytest.mark.parametrize(
    ("name", "keywords", "argument"),
    [
        ("threshold_sweep", {"criterion": "js"}, "criterion"),
        ("threshold_sweep", {"kappa": -1.0}, "kappa"),
        ("threshold_sweep", {"min_kept": 0}, "min_kept"),
        ("threshold_sweep", {"query_ids": np.arange(2)}, "query_ids"),
        ("printed_sweep", {"tau": 0.7}, "tau"),
        ("printed_sweep", {"n_thresholds": 0}, "n_thresholds"),
        ("printed_sweep", {"curve": "no"}, "curve"),
        ("threshold_sweep", {"curve": 1}, "curve"),
        ("polarization_axis", {"normalize": "yes"}, "normalize"),
        ("polarization_scores", {"normalize": None}, "normalize"),
        ("mmr", {"relevance_weight": 1.1}, "relevance_weight"),
        ("cosine_topk", {"tile_rows": -1}, "tile_rows"),
        ("polarization_scores", {"indices": np.array([[6]] * 2)}, "indices"),
        ("polarization_scores", {"indices": np.array([[0]])}, "axis_of_query"),
        ("polarization_axis", {"stances": np.ones((2, 5))}, "stances"),
    ],
)
def test_wrong_options_are_refused_by_name(name, keywords, argument, rng):
    arguments, given = calls(rng)[name]
    with pytest.raises(InputError) as caught:
        run(name, arguments, {**given, **keywords})
    assert caught.value.argument == argument


def test_backend_info_says_what_runs_and_why_not_cuda():
    info = kernels.backend_info()
    assert info["backend"] == "cpu"
    assert info["simd_level"] in info["simd_levels"]
    assert info["n_threads"] >= 1
    assert isinstance(info["cuda"], bool)
    assert info["cuda_reason"]
    assert info["cuda_emulated"] is False
