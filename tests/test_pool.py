"""CandidatePool: from an index or from vectors, in the total order, whole or in parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from epibias.corpus import Corpus, Passage
from epibias.errors import InputError
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex
from epibias.selection import Selection
from pools import make_pool, opposed_anchors, quietly_fitted, random_lists, unit_rows


@pytest.fixture(scope="module")
def axis():
    return quietly_fitted(opposed_anchors(0, dim=16)[0])


@pytest.fixture(scope="module")
def rows():
    return unit_rows(np.random.default_rng(0), 50, 16)


def assert_same(one, other):
    for name in ("indices", "similarities", "scores", "offsets", "query_ids", "neutral_centres"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("query_embeddings", "embeddings", "ps_embeddings"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("k", "topics", "query_texts", "passage_texts", "metadata"):
        assert getattr(one, name) == getattr(other, name), name


def test_build_takes_four_times_k_and_scores_them(axis, rows):
    queries = unit_rows(np.random.default_rng(1), 3, 16)
    pool = CandidatePool.build(CosineIndex(rows), queries, axis)
    assert (pool.k, pool.n_queries, pool.sizes.tolist()) == (5, 3, [20, 20, 20])
    indices, similarities = reference.cosine_topk(queries, rows, 20)
    np.testing.assert_array_equal(pool.indices, indices.ravel())
    np.testing.assert_array_equal(pool.similarities, similarities.ravel())
    np.testing.assert_array_equal(pool.scores, axis.score(rows)[indices.ravel()])
    np.testing.assert_array_equal(pool.embeddings, rows[indices.ravel()])
    assert pool.ps_embeddings is pool.embeddings
    assert pool.neutral_centres.tolist() == [axis.neutral_centre] * 3
    assert pool.query_ids.tolist() == [0, 1, 2]
    assert repr(pool) == "CandidatePool(n_queries=3, n_candidates=60)"


def test_build_with_a_second_encoder_scores_its_rows(rows):
    ps_rows = unit_rows(np.random.default_rng(2), 50, 9)
    axis = quietly_fitted(opposed_anchors(3, dim=9)[0])
    pool = CandidatePool.build(CosineIndex(rows), rows[:2], axis, ps_rows, 3, 2)
    np.testing.assert_array_equal(pool.ps_embeddings, ps_rows[pool.indices])
    np.testing.assert_array_equal(pool.scores, axis.score(ps_rows)[pool.indices])
    assert pool.embeddings.shape == (12, 16)
    with pytest.raises(
        InputError, match=r"^ps_embeddings: expected rows of 9 col.*index of 16 col"
    ):
        CandidatePool.build(CosineIndex(rows), rows[:2], axis)
    with pytest.raises(
        InputError, match=r"^ps_embeddings: expected 9 columns, as many as the anch"
    ):
        CandidatePool.build(CosineIndex(rows), rows[:2], axis, rows)
    ps_rows[pool.indices[4]] = 0
    with pytest.raises(InputError, match=rf"^ps_embeddings: .*a zero row {pool.indices[4]}$"):
        CandidatePool.build(CosineIndex(rows), rows[:2], axis, ps_rows, 3, 2)
    with pytest.raises(InputError, match=r"ps_embeddings: expected 50 rows, as many as the index"):
        CandidatePool.build(CosineIndex(rows), rows[:2], axis, ps_rows[:49].copy())


def test_each_query_may_have_its_own_axis(rows):
    anchors = np.stack([opposed_anchors(seed, dim=16)[0] for seed in range(3)])
    axes = quietly_fitted(anchors)
    index = CosineIndex(rows)
    in_order = CandidatePool.build(index, rows[:3], axes, k=2)
    chosen = CandidatePool.build(index, rows[:2], axes, k=2, axis_of_query=np.array([2, 1]))
    for query, topic in ((0, 0), (1, 1), (2, 2)):
        alone = CandidatePool.build(index, rows[query : query + 1], axes.topic(topic), k=2)
        np.testing.assert_array_equal(in_order[query].scores, alone.scores)
        assert in_order.neutral_centres[query] == alone.neutral_centres[0]
    alone = CandidatePool.build(index, rows[:1], axes.topic(2), k=2)
    np.testing.assert_array_equal(chosen[0].scores, alone.scores)
    assert chosen.neutral_centres.tolist() == axes.neutral_centre[[2, 1]].tolist()
    with pytest.raises(
        InputError, match=r"^axis_of_query: expected the axis .*3 axes, got None with"
    ):
        CandidatePool.build(index, rows[:2], axes, k=2)


def test_a_small_corpus_is_an_error_unless_fewer_are_welcome(axis, rows):
    index = CosineIndex(rows[:7])
    with pytest.raises(InputError) as caught:
        CandidatePool.build(index, rows[:1], axis)
    assert str(caught.value) == (
        "pool_factor: expected k * pool_factor of at most 7 (the number of passages), or "
        "allow_fewer=True, got 5 * 4 = 20"
    )
    with pytest.raises(InputError, match=r"^allow_fewer: expected True or False, got 'no'"):
        CandidatePool.build(index, rows[:1], axis, allow_fewer="no")
    with pytest.raises(InputError, match=r"^allow_fewer: expected True or False, got 1"):
        index.search(rows[:1], 9, allow_fewer=1)
    assert CandidatePool.build(index, rows[:2], axis, allow_fewer=True).sizes.tolist() == [7, 7]
    empty = CandidatePool.build(CosineIndex(rows[:0]), rows[:2], axis, allow_fewer=True)
    assert empty.sizes.tolist() == [0, 0]


def test_texts_and_metadata_come_from_the_corpus(axis, rows):
    passages = [
        Passage(f"p{i}", f"text {i}", source=f"s{i % 3}", tier=1 + i % 3) for i in range(50)
    ]
    pool = CandidatePool.build(
        CosineIndex(rows), rows[:2], axis, corpus=Corpus(passages), topics=["a", "b"],
        query_texts=["why?", "how?"],
    )  # fmt: skip
    assert pool.passage_texts == tuple(f"text {i}" for i in pool.indices)
    assert pool.metadata["source"] == tuple(f"s{i % 3}" for i in pool.indices)
    assert pool.metadata["tier"] == tuple(1 + i % 3 for i in pool.indices)
    assert pool[1].topics == ("b",)
    assert pool[1].query_texts == ("how?",)
    assert pool[1].passage_texts == pool.passage_texts[20:]
    with pytest.raises(InputError, match=r"corpus: expected 50 rows, as many as the index, got 9"):
        CandidatePool.build(CosineIndex(rows), rows[:2], axis, corpus=Corpus(passages[:9]))


@pytest.mark.parametrize("form", ["rectangle", "list"])
def test_from_vectors_is_what_build_gives(axis, rows, form):
    built = CandidatePool.build(CosineIndex(rows), rows[:4], axis, query_ids=np.arange(4) + 9)
    shuffled = np.random.default_rng(5).permuted(built.indices.reshape(4, 20), axis=1)
    vectors = rows[shuffled]
    pool = CandidatePool.from_vectors(
        rows[:4],
        vectors if form == "rectangle" else list(vectors),
        axis,
        indices=shuffled if form == "rectangle" else list(shuffled),
        query_ids=np.arange(4) + 9,
    )
    assert_same(pool, built)


def test_from_vectors_ragged_with_everything_beside_the_candidates():
    rng = np.random.default_rng(6)
    anchors = np.stack([opposed_anchors(seed, dim=7)[0] for seed in range(2)])
    axes = quietly_fitted(anchors)
    sizes = [3, 0, 6]
    vectors = [unit_rows(rng, n, 16) for n in sizes]
    ps_vectors = [unit_rows(rng, n, 7) for n in sizes]
    numbers = [rng.permutation(100)[:n] for n in sizes]
    queries = unit_rows(rng, 3, 16)
    pool = CandidatePool.from_vectors(
        queries, vectors, axes, k=2, indices=numbers, ps_embeddings=ps_vectors,
        axis_of_query=np.array([1, 0, 1]),
        passage_texts=[[f"text {i}" for i in part] for part in numbers],
        metadata={"tier": [[i % 3 for i in part] for part in numbers]},
    )  # fmt: skip
    assert pool.sizes.tolist() == sizes
    for query in (0, 2):
        one = pool[query]
        similarities = np.array([reference.cosine(queries[query], row) for row in vectors[query]])
        order = np.lexsort((numbers[query], -similarities))
        np.testing.assert_array_equal(one.indices, numbers[query][order])
        np.testing.assert_array_equal(one.similarities, similarities[order])
        np.testing.assert_array_equal(one.embeddings, vectors[query][order])
        scores = axes.topic(1).score(ps_vectors[query])
        np.testing.assert_array_equal(one.scores, scores[order])
        assert one.passage_texts == tuple(f"text {i}" for i in one.indices)
        assert one.metadata == {"tier": tuple(i % 3 for i in one.indices)}


def test_equal_similarities_rank_by_the_callers_index(axis):  # field cases 5 and 10
    vectors = np.tile(unit_rows(np.random.default_rng(0), 1, 16), (6, 1))
    numbers = np.array([5, 3, 9, 0, 7, 1])
    pool = CandidatePool.from_vectors(vectors[:1], vectors, axis, indices=numbers)
    assert pool.indices.tolist() == [0, 1, 3, 5, 7, 9]


def test_from_vectors_of_nothing(axis, rows):
    pool = CandidatePool.from_vectors(rows[:0], [], axis)
    assert (len(pool), pool.offsets.tolist()) == (0, [0])
    assert list(pool.groups()) == []
    assert pool.candidates_of_queries() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.array([1, 2, 1])}, "indices: expected each candidate once, got 1 twice"),
        ({"indices": np.array([1, 2])}, "indices: expected 3 rows, as many as the query's candi"),
        ({"indices": np.array([1.0, 2, 3])}, "indices: expected dtype int64"),
        ({"k": 0}, "k: expected an integer of at least 1, got 0"),
        ({"k": True}, "k: expected an integer of at least 1, got True"),
        ({"passage_texts": [["a", "b"]]}, "passage_texts: expected 3 rows, as many as the query"),
        ({"passage_texts": [["a"], ["b"]]}, "passage_texts: expected 1 rows, as many as query_e"),
        ({"metadata": {"tier": [[1]]}}, "metadata['tier']: expected 3 rows"),
        ({"ps_embeddings": np.ones((2, 16), np.float32)}, "ps_embeddings: expected 3 rows"),
        ({"topics": ["a", "b"]}, "topics: expected 1 rows, as many as the pool, got 2"),
        ({"query_ids": np.arange(2)}, "query_ids: expected 1 rows, as many as queries, got 2"),
        ({"axis_of_query": np.array([1])}, "axis_of_query: expected axes from 0 to 0, got 1 (row"),
    ],
)
def test_from_vectors_refuses_what_does_not_fit(axis, rows, change, message):
    with pytest.raises(InputError) as caught:
        CandidatePool.from_vectors(rows[:1], rows[:3], axis, **change)
    assert message in str(caught.value)


def test_from_vectors_names_the_query_and_the_row(axis, rows):
    vectors = np.stack([rows[:4], rows[4:8]])
    vectors[1, 2] = 0
    with pytest.raises(InputError, match=r"^candidate_embeddings: .*row 2 \(query 1\)"):
        CandidatePool.from_vectors(rows[:2], vectors, axis)
    with pytest.raises(InputError, match=r"candidate_embeddings: expected 16 columns.*\(query 0\)"):
        CandidatePool.from_vectors(rows[:1], rows[:4, :9].copy(), axis)
    with pytest.raises(InputError, match=r"candidate_embeddings: expected 2 rows, as many as quer"):
        CandidatePool.from_vectors(rows[:2], rows[:4], axis)
    with pytest.raises(InputError, match=r"candidate_embeddings: expected dtype float32"):
        CandidatePool.from_vectors(rows[:1], rows[:4].astype(np.float16), axis)  # field case 7


def test_from_vectors_names_ps_embeddings_by_query_and_row_as_given():
    rng = np.random.default_rng(7)
    anchors = opposed_anchors(0, dim=9)[0]
    axis, raw_axis = quietly_fitted(anchors), quietly_fitted(anchors, normalize=False)
    queries, vectors = unit_rows(rng, 3, 16), [unit_rows(rng, n, 16) for n in (12, 9, 11)]
    ps_vectors = [unit_rows(rng, n, 9) for n in (12, 9, 11)]

    def with_row(query, row, value):
        parts = [part.copy() for part in ps_vectors]
        parts[query][row] = value
        return parts

    def build(parts, axis=axis):
        return CandidatePool.from_vectors(queries, vectors, axis, ps_embeddings=parts)

    for query, row in ((0, 11), (1, 0), (2, 7)):
        with pytest.raises(
            InputError, match=rf"^ps_embeddings: .*a zero row {row} \(query {query}"
        ):
            build(with_row(query, row, 0))
        with pytest.raises(InputError, match=rf"^ps_embeddings: .*row {row} \(query {query}\)$"):
            build(with_row(query, row, np.nan))
        with pytest.raises(InputError, match=rf"^ps_embeddings: .*\(query {query}, row {row}, col"):
            build(with_row(query, row, np.inf), raw_axis)
    assert build(with_row(1, 0, 0), raw_axis).n_queries == 3  # a zero row has a score there
    narrow = [*ps_vectors[:2], ps_vectors[2][:, :8].copy()]
    with pytest.raises(InputError, match=r"^ps_embeddings: expected 9 columns, as .*\(query 2\)$"):
        build(narrow)
    with pytest.raises(
        InputError, match=r"^ps_embeddings: expected rows of 9 columns.*got None, w"
    ):
        build(None)


def test_neutral_centres_are_the_axis_s_or_those_that_were_given(axis, rows):
    centres = np.array([0.25, -0.5])
    built = CandidatePool.build(CosineIndex(rows), rows[:2], axis, neutral_centres=centres)
    joined = CandidatePool.from_vectors(
        rows[:2], [rows[:9], rows[9:14]], axis, neutral_centres=centres
    )
    for pool in (built, joined):
        assert pool.neutral_centres.tolist() == [0.25, -0.5]
        assert pool[1].neutral_centres.tolist() == [-0.5]
    for wrong, message in (
        (centres[:1], r"^neutral_centres: expected 2 rows, as many as queries, got 1"),
        (np.array([0, np.nan]), r"^neutral_centres: expected finite values, got nan \(row 1\)"),
        (np.array([-np.inf, 0]), r"^neutral_centres: expected finite values, got -inf \(row 0\)"),
        (centres.astype(np.float32), r"^neutral_centres: expected dtype float64"),
    ):
        with pytest.raises(InputError, match=message):
            CandidatePool.build(CosineIndex(rows), rows[:2], axis, neutral_centres=wrong)
        with pytest.raises(InputError, match=message):
            replace(joined, neutral_centres=wrong)


def test_an_axis_without_a_neutral_centre_needs_one_to_be_given(axis, rows):
    made = replace(axis, neutral_centre=float("nan"))
    with pytest.raises(InputError, match=r"^axis\.neutral_centre: expected finite .*\(row 0\)$"):
        CandidatePool.build(CosineIndex(rows), rows[:1], made)
    given = CandidatePool.build(CosineIndex(rows), rows[:1], made, neutral_centres=np.zeros(1))
    assert given.neutral_centres.tolist() == [0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31))
def test_parts_of_a_pool_are_the_pool(seed):
    rng = np.random.default_rng(seed)
    pool = make_pool(*random_lists(rng, 5, high=9, ties=True), query_ids=rng.permutation(9)[:5])
    for query in range(5):
        one = pool[query]
        assert one.query_ids.tolist() == [pool.query_ids[query]]
        assert one.indices.tolist() == pool.candidates_of_queries()[query].tolist()
    kept = [rng.permutation(size)[: rng.integers(0, size + 1)] for size in pool.sizes]
    part = pool.restrict(kept)
    assert part.sizes.tolist() == [len(positions) for positions in kept]
    for query, positions in enumerate(kept):
        expected = pool[query].indices[np.sort(positions)]
        assert part[query].indices.tolist() == expected.tolist()
    chosen = Selection.of_queries(pool.candidates_of_queries(), kept, k=3)
    assert_same(pool.restrict(chosen), part)
    assert_same(pool.restrict([np.arange(size) for size in pool.sizes]), pool)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31))
def test_groups_are_rectangles_that_hold_every_query_once(seed):
    rng = np.random.default_rng(seed)
    pool = make_pool(*random_lists(rng, 7, high=4), query_ids=rng.permutation(50)[:7])
    seen = []
    for group in pool.groups():
        seen += group.queries.tolist()
        for row, query in enumerate(group.queries):
            assert group.size == pool.sizes[query]
            assert group.query_ids[row] == pool.query_ids[query]
            for name in ("similarities", "scores"):
                expected = getattr(pool[int(query)], name)
                np.testing.assert_array_equal(getattr(group, name)[row], expected)
    assert sorted(seen) == list(range(7))


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([np.array([0, 3])], "positions: expected positions from 0 to 2, got 0 to 3 (query 0)"),
        ([np.array([-1])], "positions: expected positions from 0 to 2, got -1 to -1 (query 0)"),
        ([np.array([1, 1])], "positions: expected each position once, got one twice (query 0)"),
        ([np.array([0.5])], "positions: expected a 1-d array of integers, got shape (1,), dtype f"),
        ([], "positions: expected 1 rows, as many as the pool, got 0"),
    ],
)
def test_restrict_refuses_positions_that_are_not(positions, message):
    pool = make_pool([[0.3, 0.2, 0.1]], [[0, 0, 1]])
    with pytest.raises(InputError) as caught:
        pool.restrict(positions)
    assert message in str(caught.value)


def test_a_pool_out_of_order_or_out_of_shape_is_refused():
    pool = make_pool([[0.3, 0.2, 0.1], [0.9, 0.9]], [[0, 0, 1], [1, 0]])
    for swapped, where in ((np.array([0, 2, 1, 3, 4]), 2), (np.array([0, 1, 2, 4, 3]), 4)):
        query = 0 if where == 2 else 1
        with pytest.raises(InputError, match=rf"similarity descending.*query {query}, row {where}"):
            replace(pool, indices=pool.indices[swapped], similarities=pool.similarities[swapped])
    broken = pool.scores.copy()
    broken[4] = np.nan

    def with_row(row, value):
        rows = pool.embeddings.copy()
        rows[row] = value
        return rows

    for change, message in (
        ({"scores": broken}, r"scores: expected finite values, got nan \(row 4\)"),
        ({"scores": pool.scores[:4].copy()}, r"scores: expected 5 rows, as many as indices, got 4"),
        ({"offsets": np.array([0, 3])}, r"offsets: expected offsets that rise from 0 to 5"),
        ({"offsets": np.array([0, 4, 3, 5])}, r"offsets: expected offsets that rise from 0 to 5"),
        ({"embeddings": pool.embeddings[:2].copy()}, r"embeddings: expected 5 rows"),
        ({"offsets": [0, 3, 5]}, r"offsets: expected a numpy array, 1-d int64, got list"),
        ({"offsets": None}, r"offsets: expected a numpy array, 1-d int64, got NoneType"),
        ({"embeddings": with_row(3, np.nan)}, r"^embeddings: .* got NaN in row 3"),
        ({"embeddings": with_row(2, 0)}, r"^embeddings: .* got a zero row 2"),
        ({"ps_embeddings": with_row(4, np.inf)}, r"^ps_embeddings: .*got inf \(row 4, column 0\)"),
        ({"query_embeddings": with_row(1, 0)[:2]}, r"^query_embeddings: .* got a zero row 1"),
        ({"query_embeddings": np.ones((2, 3), np.float32)}, r"^embeddings: expected 3 columns, as"),
        ({"neutral_centres": np.zeros(3)}, r"neutral_centres: expected 2 rows, as many as quer"),
        ({"metadata": {"tier": (1, 2)}}, r"metadata\['tier'\]: expected 5 rows"),
    ):
        with pytest.raises(InputError, match=message):
            replace(pool, **change)
    with pytest.raises(IndexError, match=r"query: expected 0 to 1, got 2"):
        pool[2]
    assert pool[-1].indices.tolist() == [0, 1]
