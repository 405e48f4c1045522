"""`threshold_sweep` in float32: the decisions of float64, divergences within the bound."""

from __future__ import annotations

import numpy as np
import pytest

import epibias as eb
import reference
from epibias import _core
from epibias.errors import InputError

LEVELS = _core.simd_levels()
LANES = {"scalar": 4, "avx2": 8, "avx512": 16}


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    threads = _core.n_threads()
    yield
    _core.set_simd_level(LEVELS[-1])
    _core.set_n_threads(threads)


def normal(rng, shape):
    return rng.normal(0, 0.1, shape)


def mirrored(rng, shape):
    """Scores symmetric about 0 along the similarities: with "mi", split m equals split n - m."""
    scores = normal(rng, shape)
    return scores - scores[:, ::-1]


SCORES = {
    "clean": normal,
    "shifted": lambda rng, shape: normal(rng, shape) + 0.3 * (rng.random(shape) < 0.3),
    "heavy tails": lambda rng, shape: rng.standard_t(1.5, shape),
    "three values": lambda rng, shape: 0.5 * rng.integers(0, 3, shape),
    "lattice": lambda rng, shape: np.round(rng.normal(size=shape)) / 16,
    "tiny": lambda rng, shape: 1e-30 * rng.normal(size=shape),
    "tiny and offset": lambda rng, shape: 1 + 1e-5 * rng.normal(size=shape),
    "huge offset": lambda rng, shape: 1e6 + rng.normal(size=shape),
    "outlier": lambda rng, shape: np.where(np.arange(shape[1]) == 1, 1e4, normal(rng, shape)),
    "two heaps": lambda rng, shape: np.where(rng.random(shape) < 0.5, -1, 1) + normal(rng, shape),
    "mirrored": mirrored,
    "equal": lambda rng, shape: np.full(shape, 0.5),
}


def queries(kind: str, n_queries: int, n: int, seed: int = 0):
    """Similarities, a third of the rows on a coarse lattice, and scores of a kind."""
    rng = np.random.default_rng([seed, n, *kind.encode()])
    similarities = rng.uniform(-0.2, 0.9, (n_queries, n))
    similarities[::3] = np.round(similarities[::3] * 12) / 12
    if kind == "mirrored":
        similarities = np.sort(similarities, axis=1)
    return similarities.astype(np.float32), SCORES[kind](rng, (n_queries, n)).astype(np.float32)


def bound(level: str, scores: np.ndarray, divergence: float) -> float:
    """That of threshold_sweep.hpp."""
    n = len(scores)
    h = reference.bandwidth(scores.astype(np.float64))
    grid = reference.score_grid(scores.astype(np.float64), h)
    n_blocks = len(grid) / LANES[level]
    step = (grid[1] - grid[0]) / h * np.sqrt(0.5 * np.log2(np.e))
    width = step * LANES[level] * (4 if n <= 128 else 1)
    epsilon = 2.0**-24 * ((n if n <= 128 else 18) + n_blocks + 25 + 1.5 * width)
    return epsilon * (4 + abs(divergence)) + 2e-7


def sweeps(similarities, scores, **options):
    return [
        _core.threshold_sweep(similarities, scores, precision=precision, **options)
        for precision in ("float64", "float32")
    ]


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("criterion", ["kl", "mi"])
def test_decisions_are_those_of_float64_and_divergences_within_the_bound(kind, criterion):
    for n, n_queries in (
        (2, 12),
        (3, 12),
        (20, 60),
        (63, 9),
        (65, 9),
        (128, 6),
        (129, 6),
        (700, 3),
    ):
        similarities, scores = queries(kind, n_queries, n)
        options = {"criterion": criterion, "min_kept": 1 + n // 6, "permutations": 9}
        expected = _core.threshold_sweep(similarities, scores, curve=True, **options)
        for level in LEVELS:
            _core.set_simd_level(level)
            wide, narrow = sweeps(similarities, scores, **options)
            for field in (0, 1, 3):
                assert np.array_equal(narrow[field], expected[field])
            # float64 chooses through float32 where no curve is asked: the same bits.
            for field in (0, 1, 2, 3):
                assert np.array_equal(wide[field], expected[field])
            for row in np.flatnonzero(np.isfinite(expected[0])):
                divergence = expected[2][row]
                # A quarter: where the bound holds by a hair, something has moved.
                assert abs(narrow[2][row] - divergence) <= 0.25 * bound(
                    level, scores[row], divergence
                )


@pytest.mark.parametrize("n", [20, 300])
def test_threads_and_batches_do_not_change_a_bit(n):
    similarities, scores = queries("shifted", 40, n)
    ids = np.arange(40)
    results = []
    for n_threads in (1, 2, 3):
        _core.set_n_threads(n_threads)
        results.append(sweeps(similarities, scores, permutations=9)[1])
    one_by_one = [
        sweeps(
            similarities[row : row + 1],
            scores[row : row + 1],
            permutations=9,
            query_ids=ids[row : row + 1],
        )[1]
        for row in range(40)
    ]
    for field in (0, 1, 2, 3, 5):
        for result in results[1:]:
            assert result[field].tobytes() == results[0][field].tobytes()
        joined = np.concatenate([one[field] for one in one_by_one])
        assert joined.tobytes() == results[0][field].tobytes()


def test_what_float32_cannot_tell_float64_decides_and_counts():
    similarities = np.linspace(0, 1, 20).astype(np.float32)[None]
    ordered = (similarities > 0.7).astype(np.float32)  # one split stands out by far
    for precision in ("float64", "float32"):
        cut = eb.threshold_sweep(similarities, ordered, precision=precision)
        assert cut.n_undecided.tolist() == [0]
    # Mirrored scores: splits m and 20 - m are one number in exact arithmetic.
    half = np.random.default_rng(0).normal(size=10)
    scores = np.concatenate([half, -half[::-1]]).astype(np.float32)[None]
    options = {"criterion": "mi", "min_kept": 1, "precision": "float32"}
    cut = eb.threshold_sweep(similarities, scores, **options)
    assert cut.n_undecided.tolist() == [1]
    assert cut.n_kept[0] < 10  # the first of the two
    expected = reference.threshold_sweep(similarities[0], scores[0], criterion="mi")
    assert cut.n_kept[0] == expected.n_kept
    assert abs(cut.divergence[0] - expected.divergence) <= 1e-12
    # With two candidates a shuffle either changes nothing or mirrors: each is a tie.
    tied = eb.threshold_sweep(
        similarities[:, :2], np.array([[0, 1]], np.float32), min_kept=1, permutations=7
    )
    assert tied.n_undecided[0] > 0


@pytest.mark.parametrize(
    "options",
    [{"kappa": 1e-9}, {"kappa": 1e5}, {"bandwidth_factor": 1e-3}, {"bandwidth_factor": 100.0}],
)
def test_options_that_void_the_bound_are_left_to_float64(options):
    similarities, scores = queries("two heaps", 10, 20)
    expected = _core.threshold_sweep(similarities, scores, curve=True, permutations=9, **options)
    for result in sweeps(similarities, scores, permutations=9, **options):
        for field in (0, 1, 3):
            assert np.array_equal(result[field], expected[field])
        assert np.all(np.abs(result[2] - expected[2]) <= 1e-4)
        if options != {"bandwidth_factor": 100.0}:
            assert np.array_equal(result[2], expected[2])
            assert np.all(result[5] == 10)  # the split, and one a permutation


@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("kappa", [1e-310, 1e6])
def test_mutual_information_does_not_look_at_kappa(n, kappa):
    """Not even for how far a kernel reaches: 1 / 1e-310 is infinite."""
    similarities, scores = queries("shifted", 6, n)
    options = {"criterion": "mi", "permutations": 9}
    expected = sweeps(similarities, scores, **options)
    got = sweeps(similarities, scores, kappa=kappa, **options)
    for result, like in zip(got, expected, strict=True):
        for field in (0, 1, 2, 3, 5):
            assert np.array_equal(result[field], like[field])


@pytest.mark.parametrize("max_exceedances", [0, 4])
@pytest.mark.parametrize("kappa", [0.0005, 0.025, 2.0])
def test_p_values_are_the_oracles(max_exceedances, kappa):
    similarities, scores = queries("shifted", 12, 15)
    options = {"permutations": 49, "max_exceedances": max_exceedances, "seed": 3, "kappa": kappa}
    for level in LEVELS:
        _core.set_simd_level(level)
        for result in sweeps(similarities, scores, min_kept=3, **options):
            for row in range(12):
                expected = reference.threshold_sweep(
                    similarities[row], scores[row], query_id=row, min_kept=3, **options
                )
                assert result[3][row] == expected.p_value


def test_divergence_alone_is_of_that_precision():
    similarities, scores = queries("shifted", 200, 20, seed=1)
    wide, narrow = sweeps(similarities, scores)
    assert narrow[2].dtype == np.float64
    assert np.any(narrow[2] != wide[2])


def test_no_curve_and_no_other_precision():
    similarities, scores = queries("clean", 2, 9)
    with pytest.raises(InputError, match=r"^curve: expected none with precision float32"):
        eb.threshold_sweep(similarities, scores, precision="float32", curve=True)
    with pytest.raises(InputError, match=r"^precision: expected 'float64' or 'float32', got 'f"):
        eb.threshold_sweep(similarities, scores, precision="float16")
    with pytest.raises(ValueError, match=r"^precision: expected 'float64' or 'float32', got 'f"):
        _core.threshold_sweep(similarities, scores, precision="float16")


@pytest.mark.parametrize("n", [2, 17, 64, 128, 129, 400, 5000])
def test_ties_keep_the_order_of_the_candidates(n):
    """Sorting by rank, by comparison and by digits is one stable sort."""
    rng = np.random.default_rng(n)
    lattice = np.array([-1.5, -0.0, 0.0, 1e-40, 0.25, 3.0, -2e-38])
    similarities = rng.choice(lattice, n).astype(np.float32)[None]
    scores = rng.normal(size=(1, n)).astype(np.float32)
    curve = _core.threshold_sweep(similarities, scores, curve=True)[4][0]
    order = np.argsort(similarities[0], kind="stable")
    ascending = similarities[0][order]
    tied = ascending[:-1] >= ascending[1:]
    assert np.array_equal(np.isnan(curve), tied)
    # In sorted order from the start, the same sums in the same order: the same bits.
    presorted = _core.threshold_sweep(ascending[None], scores[:, order].copy(), curve=True)[4][0]
    assert np.allclose(presorted, curve, rtol=0, atol=1e-12, equal_nan=True)
