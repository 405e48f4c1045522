"""`bounded_selection`: exchanges against the definition, ties, ragged batches, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_tilt
from epibias import _core
from epibias.errors import InputError
from epibias.kernels_tilt import bounded_selection

WIDTHS = [0, 0.01, 0.05, np.inf]
GRID = 16  # scores in sixteenths: sums are exact, so equal prices are equal bits


def ragged(seed, n_queries=6, *, ties=False, largest=12):
    """Arguments of a call, its queries of 0 to `largest` candidates."""
    rng = np.random.default_rng(seed)
    sizes, k = rng.integers(0, largest + 1, n_queries), int(rng.integers(1, 8))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    x = np.concatenate([[], *(-np.sort(-rng.uniform(0.2, 0.9, size)) for size in sizes)])
    y = rng.normal(0, 0.1, len(x))
    for first, size in zip(offsets, sizes, strict=False):
        y[first : first + size // 3] += 0.2
    centres, widths = rng.normal(0, 0.03, n_queries), rng.choice(WIDTHS, n_queries)
    if ties:
        x, y, centres = (np.round(values * GRID) / GRID for values in (x, y, centres))
        widths = np.ceil(widths * GRID) / GRID
    allowed = rng.random(len(x)) < rng.choice([0.0, 0.3, 0.8, 1.0], len(x), p=[0.1, 0.2, 0.4, 0.3])
    x, y = x.astype(np.float32), y.astype(np.float32)
    return x, y, offsets, np.arange(len(x)) + 100, centres, widths, k, allowed


def run(x, y, offsets, indices, centres, widths, k, allowed=None):
    return bounded_selection(x, y, offsets, indices, centres, widths, k, allowed=allowed)


def rectangle(x, y, centres, widths, k):
    """Chosen marks and drifts of queries with equally many candidates, all allowed."""
    n_queries, n = x.shape
    parts = run(
        x.astype(np.float32).ravel(),
        y.astype(np.float32).ravel(),
        np.arange(n_queries + 1) * n,
        np.arange(n_queries * n),
        centres,
        widths,
        k,
    )
    chosen = np.zeros(x.size, bool)
    chosen[parts[0]] = True
    return chosen.reshape(x.shape), parts[7]["before"], parts[7]["after"]


def assert_is_the_definition(arguments, *, exact=False):
    x, y, offsets, indices, centres, widths, k, allowed = arguments
    parts = run(*arguments)
    selected, starts, positions, dropped, dropped_starts, kept, kept_starts, found = parts
    for query in range(len(centres)):
        own = slice(offsets[query], offsets[query + 1])
        expected, before, after = reference_tilt.bounded_selection(
            x[own].astype(float), y[own].astype(float), centres[query], widths[query],
            allowed[own], k,
        )  # fmt: skip
        chosen = slice(starts[query], starts[query + 1])
        assert positions[chosen].tolist() == expected
        assert selected[chosen].tolist() == indices[own][expected].tolist()
        # Sums of at most seven numbers below 1, in another order: 8 roundings of 1.
        tolerance = 0 if exact else 2e-15
        assert abs(found["before"][query] - before) <= tolerance
        assert abs(found["after"][query] - after) <= tolerance
        gone = dropped[dropped_starts[query] : dropped_starts[query + 1]]
        assert gone.tolist() == indices[own][~allowed[own]].tolist()
        left = kept[kept_starts[query] : kept_starts[query + 1]]
        assert left.tolist() == np.flatnonzero(allowed[own]).tolist()
        assert found["n_selected"][query] == len(expected)
        assert found["short"][query] == (len(expected) < k)
    return int((found["before"] != found["after"]).sum())


def test_exchanges_are_those_of_the_definition():
    moved = sum(assert_is_the_definition(ragged(seed, 40)) for seed in range(40))
    assert moved > 300


def test_ties_go_as_the_definition_says():
    moved = sum(
        assert_is_the_definition(ragged(seed, 40, ties=True), exact=True) for seed in range(40)
    )
    assert moved > 200


def test_large_pools_and_large_k():
    for seed in range(4):
        arguments = list(ragged(seed, 3, largest=300))
        arguments[6] = (5, 20, 400, 1)[seed]
        assert_is_the_definition(arguments)


def test_worked_by_hand():
    # Mean of the first two is +1; exchanging 0.8 for 0.7 reaches 0 and loses 0.1, and exchanging
    # 0.8 for 0.6 reaches +0.5 only.
    x, y = np.array([[0.9, 0.8, 0.7, 0.6]]), np.array([[1.0, 1.0, -1.0, 0.0]])
    chosen, before, after = rectangle(x, y, np.zeros(1), np.full(1, 0.1), 2)
    assert (chosen.tolist(), before[0], after[0]) == ([[True, False, True, False]], 1.0, 0.0)


def test_exchanges_lose_little_against_the_best_of_all_selections():
    reached = possible = 0
    losses = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 13)), int(rng.integers(1, 6))
        x = -np.sort(-rng.uniform(0.2, 0.9, (6, n)), axis=1)
        y = rng.normal(0, 0.1, (6, n))
        y[:, : n // 3] += 0.2
        centres, widths = rng.normal(0, 0.03, 6), rng.choice(WIDTHS, 6)
        chosen, _, after = rectangle(x, y, centres, widths, k)
        for row in range(len(x)):
            best = None
            if k <= n:
                best = reference_tilt.best_selection(x[row], y[row], centres[row], widths[row], k)
            if best is not None:
                possible += 1
                if abs(after[row]) <= widths[row] * (1 + 1e-12):
                    reached += 1
                    losses.append((best - x[row][chosen[row]].sum()) / k)
    assert possible > 150
    assert reached >= 0.95 * possible
    assert min(losses) > -1e-6  # float32 similarities
    assert np.mean(losses) < 0.003


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_no_selection_lies_farther_from_the_centre_than_without_a_defence(seed):
    arguments = ragged(seed)[:-1]
    offsets, widths, k = arguments[2], arguments[5], arguments[6]
    *parts, found = run(*arguments)
    sizes = np.diff(offsets)
    assert (np.abs(found["after"]) <= np.abs(found["before"])).all()
    assert (found["n_selected"] == np.minimum(k, sizes)).all()
    for query in np.flatnonzero(np.abs(found["before"]) <= widths):
        own = parts[2][parts[1][query] : parts[1][query + 1]]
        assert own.tolist() == list(range(min(k, sizes[query])))
    assert len(parts[3]) == 0
    assert parts[5].tolist() == [place for size in sizes for place in range(size)]


def test_queries_do_not_depend_on_their_batch_nor_on_threads():
    arguments = ragged(7, 1500, largest=40)
    x, y, offsets, indices, centres, widths, k, allowed = arguments
    together = run(*arguments)
    threads = _core.n_threads()
    try:
        for n_threads in (1, 2, 3):
            _core.set_n_threads(n_threads)
            again = run(*arguments)
            assert all(map(np.array_equal, together[:7], again[:7]))
            for name, values in together[7].items():
                assert np.array_equal(values, again[7][name])
    finally:
        _core.set_n_threads(threads)
    for query in range(0, 1500, 50):
        own, one = slice(offsets[query], offsets[query + 1]), slice(query, query + 1)
        alone = run(
            x[own], y[own], np.array([0, len(x[own])]), indices[own], centres[one], widths[one], k,
            allowed[own],
        )  # fmt: skip
        assert (
            alone[0].tolist() == together[0][together[1][query] : together[1][query + 1]].tolist()
        )
        assert alone[7]["after"][0] == together[7]["after"][query]


def test_nothing_to_select_from():
    *parts, found = run(*ragged(3)[:7], allowed=np.zeros(len(ragged(3)[0]), bool))
    assert len(parts[0]) == len(parts[5]) == 0
    assert (found["before"] == 0).all()
    assert (found["after"] == 0).all()
    empty = np.empty(0, np.float32)
    none = np.empty(0)
    parts = run(empty, empty, np.zeros(1, np.int64), np.empty(0, np.int64), none, none, 5)
    assert parts[1].tolist() == parts[4].tolist() == [0]


def test_inputs_are_not_changed_and_may_lie_anywhere():
    arguments = ragged(5)
    before = [np.copy(argument) for argument in arguments]
    expected = run(*arguments)
    assert all(map(np.array_equal, arguments, before))
    shifted = []
    for values in arguments[:6]:
        room = np.empty(values.nbytes + 1, np.uint8)
        room[1:] = values.view(np.uint8)
        shifted.append(room[1:].view(values.dtype))
    assert all(map(np.array_equal, run(*shifted, *arguments[6:])[:7], expected[:7]))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, np.nan, r"similarities: expected finite values, got nan \(query 0, column 1\)"),
        (1, np.inf, r"scores: expected finite values, got inf \(query 0, column 1\)"),
        (4, np.nan, r"centres: expected finite values, got nan \(query 1\)"),
        (5, np.nan, r"widths: expected numbers of at least 0, got nan \(query 1\)"),
        (5, -0.5, r"widths: expected numbers of at least 0, got -0.5 \(query 1\)"),
    ],
)
def test_values_that_are_refused(place, value, message):
    x = np.array([0.9, 0.8, 0.7], np.float32)
    arguments = [x, x.copy(), np.array([0, 2, 3]), np.arange(3), np.zeros(2), np.ones(2)]
    arguments[place][1] = value
    with pytest.raises(InputError, match=message):
        run(*arguments, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k: expected an integer of at least 1, got 0"),
        ({"k": 1.5}, "k: expected"),
        ({"y": np.zeros(3)}, r"scores: expected dtype float32; call scores.astype\(np.float32\)"),
        ({"y": np.zeros(2, np.float32)}, "scores: expected 3 values, as many as similarities"),
        ({"indices": np.arange(2)}, "indices: expected 3 rows, as many as similarities, got 2"),
        ({"offsets": np.array([0, 2])}, "centres: expected 1 values, as many as queries, got 2"),
        ({"offsets": np.array([0, 3, 2])}, "offsets: expected offsets that rise from 0 to 3"),
        ({"widths": np.ones(1)}, "widths: expected 2 values, as many as queries, got 1"),
        ({"allowed": np.ones(3)}, "allowed: expected dtype bool"),
        ({"allowed": np.ones(2, bool)}, "allowed: expected 3 values, as many as similarities"),
        ({"x": [0.9, 0.8, 0.7]}, "similarities: expected a numpy array"),
    ],
)
def test_shapes_that_are_refused(change, message):
    x = np.array([0.9, 0.8, 0.7], np.float32)
    arguments = {
        "x": x, "y": x, "offsets": np.array([0, 2, 3]), "indices": np.arange(3),
        "centres": np.zeros(2), "widths": np.ones(2), "k": 2,
    }  # fmt: skip
    if "offsets" in change and len(change["offsets"]) == 2:
        change = {**change, "offsets": np.array([0, 3])}
    with pytest.raises(InputError, match=message):
        run(**{**arguments, **change})
