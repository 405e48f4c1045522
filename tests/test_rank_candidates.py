"""`rank_candidates` against the oracle at every SIMD level and thread count; what it refuses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import reference
from epibias import _core, kernels
from epibias.errors import InputError
from epibias.kernels_select import rank_candidates

LEVELS = _core.simd_levels()
DIMS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 97, 384]


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    threads = _core.n_threads()
    yield
    _core.set_simd_level(LEVELS[-1])
    _core.set_n_threads(threads)


def misaligned(array: np.ndarray, n_bytes: int) -> np.ndarray:
    """Give the same values at an address that is no multiple of their size."""
    buffer = np.empty(array.nbytes + n_bytes, np.uint8)
    moved = buffer[n_bytes:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def make_case(seed: int, dim: int, ps_dim: int | None = None) -> dict[str, np.ndarray]:
    """Ragged candidates with duplicates, of very different norms, on three axes."""
    rng = np.random.default_rng(seed)
    sizes = np.array([5, 0, 1, 17, 2])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n = int(offsets[-1])
    candidates = rng.standard_normal((n, dim)) * 10.0 ** rng.integers(-3, 4, (n, 1))
    candidates[8:12] = candidates[7]
    case = {
        "query_embeddings": rng.standard_normal((5, dim)).astype(np.float32),
        "candidate_embeddings": candidates.astype(np.float32),
        "offsets": offsets,
        "axes": rng.standard_normal((3, ps_dim or dim)).astype(np.float32),
        "indices": np.concatenate([rng.permutation(100)[:size] for size in sizes]),
        "axis_of_query": np.array([2, 1, 0, 2, 1]),
    }
    if ps_dim is not None:
        case["ps_embeddings"] = rng.standard_normal((n, ps_dim)).astype(np.float32)
    return case


def expected_columns(case, *, normalize=True, score_offsets=(0, 0, 0)):
    """Rows, indices, similarities and scores by the definition, query by query."""
    columns = [[], [], [], []]
    starts = case["offsets"].tolist()
    ps_rows = case.get("ps_embeddings", case["candidate_embeddings"])
    for query, (start, stop) in enumerate(pairwise(starts)):
        rows = case["candidate_embeddings"][start:stop]
        topic = case["axis_of_query"][query]
        axis = case["axes"][topic]
        similarities = [reference.cosine(case["query_embeddings"][query], row) for row in rows]
        order = np.lexsort((case["indices"][start:stop], -np.array(similarities)))
        for place in order:
            ps_row = ps_rows[start + place]
            score = reference.canonical_dot(ps_row, axis)
            if normalize:
                score *= 1 / np.sqrt(reference.canonical_dot(ps_row, ps_row))
            values = (
                start + place,
                case["indices"][start + place],
                np.float32(similarities[place]),
                np.float32(float(np.float32(score)) - score_offsets[topic]),
            )
            for column, value in zip(columns, values, strict=True):
                column.append(value)
    return columns


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("ps_dim", [None, 5])
@pytest.mark.parametrize("normalize", [True, False])
def test_every_level_gives_the_bits_of_the_definition(dim, ps_dim, normalize):
    case = make_case(dim, dim, ps_dim)
    expected = expected_columns(case, normalize=normalize, score_offsets=(0.25, 0, -0.125))
    case["score_offsets"] = np.array([0.25, 0, -0.125])
    for level in LEVELS:
        _core.set_simd_level(level)
        for n_bytes in (0, 1):
            moved = {name: misaligned(array, n_bytes) for name, array in case.items()}
            got = rank_candidates(**moved, normalize=normalize)
            for column, values in zip(got, expected, strict=True):
                np.testing.assert_array_equal(column, np.array(values, column.dtype), level)


def test_similarities_and_scores_are_those_of_the_separate_kernels():
    case = make_case(4, 96)
    rows, _, similarities, scores = rank_candidates(**case)
    for query, (start, stop) in enumerate([(0, 5), (6, 23)]):
        query, topic = (0, 3)[query], 2
        picked = case["candidate_embeddings"][start:stop]
        positions, values, _ = kernels.cosine_topk(
            case["query_embeddings"][query : query + 1], picked, len(picked)
        )
        np.testing.assert_array_equal(similarities[start:stop], values[0])
        assert set(positions[0] + start) == set(rows[start:stop])
        on_axis = kernels.polarization_scores(
            case["candidate_embeddings"], case["axes"][topic : topic + 1], rows[None, start:stop]
        )
        np.testing.assert_array_equal(scores[start:stop], on_axis[0])


def test_threads_and_batches_do_not_matter():
    rng = np.random.default_rng(0)
    n_queries, n, dim = 200, 60, 96  # enough work for several threads and tasks
    queries = rng.standard_normal((n_queries, dim)).astype(np.float32)
    candidates = rng.standard_normal((n_queries * n, dim)).astype(np.float32)
    axes = rng.standard_normal((n_queries, dim)).astype(np.float32)
    results = []
    for n_threads in (1, 2, 5):
        _core.set_n_threads(n_threads)
        results.append(rank_candidates(queries, candidates, np.arange(n_queries + 1) * n, axes))
    for query in (0, 7, 199):
        part = slice(query * n, (query + 1) * n)
        alone = rank_candidates(
            queries[query : query + 1], candidates[part], np.array([0, n]), axes[query : query + 1]
        )
        np.testing.assert_array_equal(alone[0] + query * n, results[0][0][part])
        for column in (1, 2, 3):
            np.testing.assert_array_equal(alone[column], results[0][column][part])
    for other in results[1:]:
        for one, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


def test_of_nothing():
    rows = np.ones((0, 3), np.float32)
    axes = np.ones((4, 3), np.float32)
    for got in rank_candidates(rows, rows, np.array([0]), axes):
        assert got.shape == (0,)
    queries = np.ones((2, 3), np.float32)
    for got in rank_candidates(queries, rows, np.array([0, 0, 0]), axes[:1]):
        assert got.shape == (0,)


def with_value(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


CASE = make_case(1, 6)
CANDIDATES, PS_CASE = CASE["candidate_embeddings"], make_case(1, 6, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 5, 5, 6, 23])}, "offsets: expected 6 of them, one more than"),
        ({"offsets": np.array([0, 5, 4, 6, 23, 25])}, "offsets: expected offsets that rise from 0"),
        ({"offsets": np.array([0, 5, 5, 6, 23, 24])}, "offsets: expected offsets that rise from 0"),
        ({"offsets": np.array([1, 5, 5, 6, 23, 25])}, "offsets: expected offsets that rise from 0"),
        ({"axes": CASE["axes"][:, :5].copy()}, "candidate_embeddings: expected 5 columns, as many"),
        ({"axes": with_value(CASE["axes"], (2, 3), np.nan)}, "axes: expected finite rows"),
        ({"axis_of_query": np.array([0, 1, 3, 0, 0])}, "axis_of_query: expected axes from 0 to 2"),
        ({"axis_of_query": np.array([0, 1])}, "axis_of_query: expected 5 rows, as many as query"),
        ({"axis_of_query": None}, "axis_of_query: expected the axis of each query, for 3 axes"),
        ({"indices": np.zeros(25, np.int64)}, "indices: expected each candidate once, got 0 twice"),
        ({"indices": np.arange(24)}, "indices: expected 25 rows, as many as candidate_embeddings"),
        ({"score_offsets": np.zeros(2)}, "score_offsets: expected 3 rows, as many as axes, got 2"),
        (
            {"query_embeddings": with_value(CASE["query_embeddings"], 3, 0)},
            "query_embeddings: expected finite rows of non-zero norm, got a zero row 3",
        ),
        (
            {"candidate_embeddings": with_value(CANDIDATES, (9, 2), np.inf)},
            "candidate_embeddings: expected finite rows of non-zero norm, got Inf in row 3 (query",
        ),
        (
            {"candidate_embeddings": with_value(CANDIDATES, 24, 0)},
            "candidate_embeddings: expected finite rows of non-zero norm, got a zero row 1 (quer",
        ),
        ({"ps_embeddings": CANDIDATES[:9]}, "ps_embeddings: expected 25 rows, as many as candidat"),
        ({"ps_embeddings": CANDIDATES[:, :5].copy()}, "ps_embeddings: expected 6 columns, as many"),
        (
            {"ps_embeddings": with_value(CANDIDATES, 5, 0)},
            "ps_embeddings: expected finite rows of non-zero norm, got a zero row 0 (query 2)",
        ),
        (
            {"ps_embeddings": with_value(CANDIDATES, (7, 4), np.nan), "normalize": False},
            "ps_embeddings: expected finite values, got nan (query 3, row 1, column 4)",
        ),
        (
            {
                "candidate_embeddings": with_value(CANDIDATES, 9, 3e38),
                "axes": np.full((3, 6), -1, np.float32),
                "normalize": False,
            },
            "candidate_embeddings: expected rows whose score float32 holds, got -1.8",
        ),
        (
            {
                "ps_embeddings": with_value(CANDIDATES, 7, 3e38),
                "axes": np.ones((3, 6), np.float32),
                "normalize": False,
            },
            "ps_embeddings: expected rows whose score float32 holds, got 1.8",
        ),
        (
            {"score_offsets": np.array([0, np.nan, 0])},
            "score_offsets: expected finite values within float32, got nan (row 1)",
        ),
        (
            {"score_offsets": np.array([0, 0, -1e39])},
            "score_offsets: expected finite values within float32, got -1e+39 (row 2)",
        ),
        ({"offsets": CASE["offsets"].astype(np.int32)}, "offsets: expected dtype int64"),
        ({"candidate_embeddings": CANDIDATES.astype(float)}, "candidate_embeddings: expected dty"),
        ({"normalize": 1}, "normalize: expected True or False, got 1"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(InputError) as caught:
        rank_candidates(**{**CASE, **change})
    assert message in str(caught.value)


def test_masks_are_refused_and_memory_maps_read(tmp_path):
    masked = np.ma.masked_array(CANDIDATES, mask=False)
    with pytest.raises(InputError, match=r"^candidate_embeddings: expected an array without a mas"):
        rank_candidates(**{**CASE, "candidate_embeddings": masked})
    with pytest.raises(
        ValueError, match=r"^rows: expected an array without a mask; .* call rows\.fi"
    ):
        _core.inverse_norms(masked)
    np.save(tmp_path / "rows.npy", CANDIDATES)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    got = rank_candidates(**{**CASE, "candidate_embeddings": mapped})
    for one, other in zip(got, rank_candidates(**CASE), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_zero_row_has_a_score_where_nothing_is_scaled():
    case = {**PS_CASE, "ps_embeddings": with_value(PS_CASE["ps_embeddings"], 5, 0)}
    assert rank_candidates(**case, normalize=False)[3][5] == 0
