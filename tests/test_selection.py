"""Selection: ragged, joined once, counted, never padded."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, fields, replace

import numpy as np
import pytest

from epibias.errors import InputError
from epibias.selection import Selection


@pytest.fixture
def chosen():
    return Selection.of_queries(
        [np.array([30, 31, 32]), np.array([], np.int64), np.array([5, 9])],
        [np.array([2, 0]), np.array([], np.int64), np.array([1])],
        k=2,
        dropped_positions=[np.array([1]), np.array([], np.int64), np.array([], np.int64)],
        diagnostics={"threshold": np.array([0.5, np.inf, 0.7], np.float32)},
    )


def test_positions_become_passages_in_the_order_of_selection(chosen):
    assert [part.tolist() for part in chosen] == [[32, 30], [], [9]]
    assert chosen.positions_of(0).tolist() == [2, 0]
    assert chosen.indices.tolist() == [32, 30, 9]
    assert chosen.positions.tolist() == [2, 0, 1]
    assert chosen.offsets.tolist() == [0, 2, 2, 3]
    assert [part.tolist() for part in chosen.dropped] == [[31], [], []]
    assert [part.tolist() for part in chosen.kept] == [[0, 2], [], [0, 1]]
    for array in (
        chosen.indices, chosen.positions, chosen.offsets, *chosen.dropped, *chosen.kept
    ):  # fmt: skip
        assert array.dtype == np.int64


def test_a_defence_that_only_selects_keeps_what_it_selected_unless_it_says_otherwise():
    candidates, selected = [np.array([30, 31, 32])], [np.array([2, 0])]
    assert Selection.of_queries(candidates, selected, k=2).kept[0].tolist() == [0, 2]
    told = Selection.of_queries(candidates, selected, k=2, kept_positions=[np.array([2, 1, 0])])
    assert told.kept[0].tolist() == [0, 1, 2]


def test_fewer_than_k_are_counted_and_flagged(chosen):
    assert (len(chosen), chosen.n_queries) == (3, 3)
    assert chosen.n_selected.tolist() == [2, 0, 1]
    assert chosen.diagnostics["n_selected"].tolist() == [2, 0, 1]
    assert chosen.diagnostics["short"].tolist() == [False, True, True]
    expected = np.array([0.5, np.inf, 0.7], np.float32)
    np.testing.assert_array_equal(chosen.diagnostics["threshold"], expected)


def test_rows_count_from_either_end_and_end_where_they_end(chosen):
    assert chosen[-1].tolist() == [9]
    assert chosen[np.int64(0)].tolist() == [32, 30]
    for query in (3, -4):
        with pytest.raises(InputError, match=rf"^query: expected 0 to 2, got {query}$"):
            chosen[query]
    with pytest.raises(IndexError):
        chosen[3]
    with pytest.raises(InputError, match=r"query: expected an integer, got 1\.5"):
        chosen[1.5]


def flat_selection():
    dropped, kept = np.array([31, 5]), np.array([0, 2, 1])
    starts = np.array([0, 1, 1, 2]), np.array([0, 2, 2, 3])
    diagnostics = {"short": np.array([False, True, True])}
    return Selection.of_arrays(
        np.array([32, 9]), np.array([0, 1, 1, 2]), np.array([2, 1]),
        dropped, starts[0], kept, starts[1], diagnostics,
    )  # fmt: skip


def test_flat_arrays_are_cut_into_one_array_a_query_when_asked_for():
    chosen = flat_selection()
    assert [part.tolist() for part in chosen] == [[32], [], [9]]
    assert type(chosen.dropped) is tuple
    assert [part.tolist() for part in chosen.dropped] == [[31], [], [5]]
    assert [part.tolist() for part in chosen.kept] == [[0, 2], [], [1]]
    assert chosen.kept is chosen.kept
    with pytest.raises(AttributeError, match=r"'Selection' object has no attribute 'left'"):
        chosen.left  # noqa: B018


def test_a_selection_of_flat_arrays_is_one_as_any_other():
    for copied in (
        pickle.loads(pickle.dumps(flat_selection())),  # noqa: S301  our own bytes
        copy.deepcopy(flat_selection()),
        replace(flat_selection(), diagnostics={}),
    ):
        assert [part.tolist() for part in copied.kept] == [[0, 2], [], [1]]
    assert set(asdict(flat_selection())) == {field.name for field in fields(Selection)}
    assert repr(flat_selection()).startswith("Selection(indices=array([32,  9])")


def test_no_queries():
    nothing = Selection.of_queries([], [], k=3)
    assert len(nothing) == 0
    assert nothing.offsets.tolist() == [0]
    assert list(nothing) == []
    with pytest.raises(InputError, match=r"query: expected no number, for there are no rows"):
        nothing[0]
