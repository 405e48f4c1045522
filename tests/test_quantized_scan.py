"""quantized_scan against the oracle: the ids, order and bits of cosine_topk, whatever the codes."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from compare import assert_same_topk
from epibias import _core
from search_cases import DIMS, restore_level_and_threads, rows, whole_rows  # noqa: F401

# Kernels: (SIMD level, with VNNI). VNNI is a part of the avx512 level, where there is one.
KERNELS = [(level, True) for level in _core.simd_levels()]
if "avx512" in _core.simd_levels():
    KERNELS.append(("avx512", False))
CODES = ("eight", "four_first", "principal_first", "once")
WAYS = [(*kernel, codes) for kernel in KERNELS for codes in CODES]


def name_of(way):
    return f"{way[0]}{'' if way[1] else '_no_vnni'}-{way[2]}"


@pytest.fixture(params=WAYS, ids=name_of)
def way(request):
    _core.set_simd_level(request.param[0])
    return request.param[1:]


def principal_codes(passages, norms):
    """Half of the axes of these passages, or all where dim is odd; half of them are scanned."""
    dim = passages.shape[1]
    n_axes = dim if dim % 2 else dim // 2
    if dim > 512:  # any orthonormal axes will do
        axes = (np.eye(64, dim) - 2 / dim).astype(np.float32)
        n_axes = 64
    else:
        unit = passages.astype(np.float64) * norms[:, None]
        axes = np.linalg.eigh(unit.T @ unit)[1][:, ::-1][:, :n_axes].T.astype("f4", order="C")
    n_leading = (n_axes + 1) // 2
    return axes, n_leading, *_core.quantize_principal(passages, norms, axes, n_leading)


def search(queries, passages, k, way, **options):
    vnni, codes = way
    norms = _core.inverse_norms(passages)
    if codes == "once":
        found = _core.quantized_scan_once(queries, passages, k, norms, vnni=vnni)
    else:
        four = _core.quantize_passages(passages, norms, 4) if codes == "four_first" else None
        along = principal_codes(passages, norms) if codes == "principal_first" else None
        eight = _core.quantize_passages(passages, norms)
        found = _core.quantized_scan(
            queries, passages, k, norms, eight, four, vnni=vnni, principal=along, **options
        )
    assert found[2] >= len(queries) * k
    return found[:2]


def embedding_like(rng, n, dim, n_clusters=40):
    """Clusters around a common mean, with a decaying spectrum, as sentence encoders give them."""
    spectrum = (np.arange(1, dim + 1) ** -0.4).astype(np.float32)
    centres = rows(rng, n_clusters, dim) * spectrum
    within = rows(rng, n, dim) * spectrum * np.float32(0.6)
    mixed = centres[rng.integers(0, n_clusters, n)] + within + np.float32(0.2) * spectrum
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32)
    return np.ascontiguousarray(mixed @ rotation)


@functools.cache
def ranked_by_the_oracle(dim, n=157):
    """Passages; and 13 queries with all passages ranked."""
    rng = np.random.default_rng(dim)
    passages, queries = rows(rng, n, dim), rows(rng, 13, dim)
    return passages, queries, reference.cosine_topk_batched(queries, passages, n)


@pytest.mark.parametrize("dim", DIMS)
def test_equals_the_oracle(way, dim):
    passages, queries, everything = ranked_by_the_oracle(dim)
    n = len(passages)
    for n_queries in (1, 2, 5, 13):
        some = queries[:n_queries].copy()
        for k in (1, 10, n):
            expected = tuple(part[:n_queries, :k].copy() for part in everything)
            assert_same_topk(search(some, passages, k, way), expected)
    message = rf"^k: expected 1 to {n} \(the number of passages\), got {n + 1}$"
    with pytest.raises(ValueError, match=message):
        search(queries, passages, n + 1, way)


@pytest.mark.parametrize("dim", [1, 2, 5, 16])
def test_ties_go_to_the_lower_index_whatever_the_sample_and_the_threads(way, dim):
    rng = np.random.default_rng(dim)
    queries, passages = whole_rows(rng, 17, dim), whole_rows(rng, 1_900, dim)
    for k in (15, 400):
        expected = reference.cosine_topk_batched(queries, passages, k)
        assert (np.diff(expected[1], axis=1) == 0).any(), "the input has no ties to break"
        for n_threads in (1, 2, 3):
            _core.set_n_threads(n_threads)
            for options in ({}, {"sample_stride": 3}, {"sample_stride": 1, "capacity": 20}):
                assert_same_topk(search(queries, passages, k, way, **options), expected)


@functools.cache
def clusters(neighbours_together):
    """Passages in clusters, 24 queries near some, and the best 1,000 of each by the oracle."""
    rng = np.random.default_rng(8)
    passages = embedding_like(rng, 6_000, 96)
    queries = passages[rng.integers(0, 6_000, 24)] + np.float32(0.3) * embedding_like(rng, 24, 96)
    if neighbours_together:
        passages = passages[np.argsort(passages @ passages[0])]
    return passages, queries, reference.cosine_topk_batched(queries, passages, 1_000)


@pytest.mark.parametrize("neighbours_together", [False, True])
@pytest.mark.parametrize("k", [1, 20, 1_000])
def test_embeddings_in_clusters(way, k, neighbours_together):
    """Large enough to sample, to guess, and to wake the threads."""
    passages, queries, best = clusters(neighbours_together)
    expected = tuple(part[:, :k].copy() for part in best)
    for n_threads in (1, 2, 3):
        _core.set_n_threads(n_threads)
        assert_same_topk(search(queries, passages, k, way), expected)


@pytest.mark.parametrize("order", ["equal", "ascending", "descending"])
def test_corpora_that_defeat_the_filter_stay_exact(way, order):
    rng = np.random.default_rng(2)
    queries, passages = rows(rng, 3, 24), rows(rng, 5_000, 24)
    if order == "equal":
        passages[:] = passages[0]
    else:
        best_last = np.argsort(passages @ queries[0] / np.linalg.norm(passages, axis=1))
        passages = passages[best_last if order == "ascending" else best_last[::-1]].copy()
    for k in (20, 300):
        expected = reference.cosine_topk_batched(queries, passages, k)
        for n_threads in (1, 2):
            _core.set_n_threads(n_threads)
            assert_same_topk(search(queries, passages, k, way), expected)


def test_a_few_spikes_make_codes_useless_and_the_answer_no_worse(way):
    """One element of 1e4 leaves 0 for all others: the residual is then most of what differs."""
    rng = np.random.default_rng(3)
    queries, passages = rows(rng, 4, 40), rows(rng, 4_500, 40)
    passages[::7, 3] = 1e4
    queries[1:3, 5] = -1e4
    expected = reference.cosine_topk_batched(queries, passages, 30)
    assert_same_topk(search(queries, passages, 30, way), expected)


def test_norms_that_float32_cannot_square(way):
    rng = np.random.default_rng(4)
    float32 = np.finfo(np.float32)
    passages = rows(rng, 400, 9)
    passages[0::3] = np.sign(passages[0::3]) * float32.max
    passages[1::3] = (np.sign(passages[1::3]) * 3 * float32.smallest_subnormal).astype(np.float32)
    passages[2::6] *= np.float32(1e-25)
    queries = np.concatenate([passages[:6], rows(rng, 1, 9)])
    expected = reference.cosine_topk_batched(queries, passages, 125)
    assert_same_topk(search(queries, passages, 125, way), expected)


def test_one_rounding_apart_is_not_a_tie(way):
    passages = np.ones((400, 16), np.float32)
    step = np.finfo(np.float32).epsneg
    passages[:, 0] = np.float32(0.5) + np.arange(400, dtype=np.float32) * step
    queries = np.eye(16, dtype=np.float32)[:1]
    expected = reference.cosine_topk_batched(queries, passages, 300)
    assert_same_topk(search(queries, passages, 300, way), expected)


def test_largest_sums_do_not_overflow(way):
    """Codes of ±127 in every one of many columns: nothing may saturate or wrap."""
    signs = np.sign(rows(np.random.default_rng(5), 70, 20_000))
    passages = np.concatenate([signs, -signs])
    queries = passages[[0, 75]].copy()
    expected = _core.cosine_topk(queries, passages, 140)[:2]
    assert_same_topk(search(queries, passages, 140, way), expected)
    assert expected[1][0, 0] == 1
    assert expected[1][0, -1] == -1


def test_codes_of_any_level_serve_any_other(tmp_path):
    """Saved codes are read on another machine, at another address, or from a map."""
    rng = np.random.default_rng(6)
    queries, passages = rows(rng, 7, 50), rows(rng, 1_000, 50)
    norms = _core.inverse_norms(passages)
    expected = reference.cosine_topk_batched(queries, passages, 12)
    for made_at in _core.simd_levels():
        _core.set_simd_level(made_at)
        path = tmp_path / f"{made_at}.npy"
        np.save(path, _core.quantize_passages(passages, norms))
        four = _core.quantize_passages(passages, norms, 4)
        along = principal_codes(passages, norms)
        mapped = np.load(path, mmap_mode="r")
        shifted = np.frombuffer(b"abc" + mapped.tobytes(), np.uint8)[3:]
        for used_at in _core.simd_levels():
            _core.set_simd_level(used_at)
            for codes in ((mapped,), (shifted,), (mapped, four)):
                found = _core.quantized_scan(queries, passages, 12, norms, *codes)
                assert_same_topk(found[:2], expected)
            found = _core.quantized_scan(queries, passages, 12, norms, mapped, principal=along)
            assert_same_topk(found[:2], expected)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 400),
    dim=st.integers(1, 70),
    k=st.integers(1, 400),
    stride=st.integers(0, 4),
    capacity=st.sampled_from([0, 1, 40]),
    way=st.sampled_from(WAYS),
)
def test_random_shapes_equal_the_oracle(seed, n, dim, k, stride, capacity, way):
    rng = np.random.default_rng(seed)
    make = whole_rows if seed % 2 else rows
    queries, passages = make(rng, 9, dim), make(rng, n, dim)
    k = min(k, n)
    _core.set_simd_level(way[0])
    options = {"sample_stride": stride, "capacity": capacity}
    expected = reference.cosine_topk_batched(queries, passages, k)
    assert_same_topk(search(queries, passages, k, way[1:], **options), expected)


SOME = np.ones((4, 3), np.float32)
NORMS = _core.inverse_norms(SOME)
CODES = _core.quantize_passages(SOME, NORMS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SOME, SOME, 0, NORMS, CODES), r"k: expected 1 to 4 \(the number of passages\), got 0"),
        ((SOME[:, :2].copy(), SOME, 1, NORMS, CODES), "queries: expected rows of dim 3, .* dim 2"),
        (
            (SOME, SOME.astype("f2"), 1, NORMS, CODES),
            "passages: expected dtype float32; .* float16",
        ),
        ((SOME, SOME, 1, NORMS[:3].copy(), CODES), "inverse_norms: expected 4 numbers, .* got 3"),
        ((SOME, SOME, 1, NORMS * np.nan, CODES), "inverse_norms: expected positive .* got nan in"),
        ((SOME, SOME, 1, NORMS, CODES[1:]), "codes: expected 1024 bytes, .* got 1023"),
        ((SOME, SOME, 1, NORMS, CODES.view("i1")), "codes: expected dtype uint8"),
        ((SOME, SOME, 1, NORMS, CODES, CODES), "four_bits: expected 768 bytes, .* got 1024"),
        ((SOME, SOME, 1, NORMS, CODES, None, True, -1), "sample_stride: expected 0 .* got -1"),
        ((SOME, SOME, 1, NORMS, CODES, None, True, 0, -1), "capacity: expected 0 .* got -1"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match="^" + words):
        _core.quantized_scan(*arguments)
