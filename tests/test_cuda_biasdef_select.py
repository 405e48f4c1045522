"""BiasDef on a device, emulated, through the public API: the CPU's results to the bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import epibias as eb
from epibias import device, kernels_select
from epibias.device import biasdef_select as on_device
from epibias.device import status
from epibias.errors import InputError

SIZES = (0, 1, 2, 3, 20, 20, 33, 12, 0, 70)
RULES = (
    {},
    {"k": 3, "min_kept": 2, "side": "auto"},
    {"mitigation": "mahalanobis", "fill": "refill", "min_kept": 1},
    {"k": 9, "slack": 0.2, "kappa_points": 0.01, "side": "auto", "mitigation": "mahalanobis"},
    {"rule": "printed"},
    {"gate": 0.3, "permutations": 19, "criterion": "mi"},
)


def on_cpu(function, *arguments, **options):
    with status.emulated(False):
        return function(*arguments, **options)


def scored(sizes, seed):
    """Candidates in falling similarity, with a one-sided group of varying strength."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    similarities = [0.95 - 0.008 * np.arange(n) + 1e-3 * rng.normal(size=n) for n in sizes]
    scores = [
        0.1 * (rng.normal(size=n) + 5 * rng.random() * (np.arange(n) < rng.random() * n))
        for n in sizes
    ]
    return (
        np.concatenate(similarities).astype(np.float32),
        np.concatenate(scores).astype(np.float32),
        offsets,
        rng.permutation(int(offsets[-1])),
    )


def rows_of(sizes, dim, seed, ps_dim=None):
    """Vectors for `rank_candidates`; with `ps_dim` everything that may be left out as well."""
    rng = np.random.default_rng(seed)
    n, n_queries = sum(sizes), len(sizes)
    candidates = rng.normal(size=(n, dim)).astype(np.float32)
    candidates[1::3] = candidates[0 : n - 1 : 3]  # equal similarities
    given = {
        "query_embeddings": rng.normal(size=(n_queries, dim)).astype(np.float32),
        "candidate_embeddings": candidates,
        "offsets": np.concatenate([[0], np.cumsum(sizes)]),
        "axes": rng.normal(size=(n_queries, ps_dim or dim)).astype(np.float32),
    }
    if ps_dim is not None:
        given["indices"] = rng.permutation(10 * n)[:n]
        given["ps_embeddings"] = rng.normal(size=(n, ps_dim)).astype(np.float32)
        given["axis_of_query"] = np.arange(n_queries)[::-1].copy()
        given["score_offsets"] = rng.normal(size=n_queries)
    return given


def parameters_of(**fields):
    return vars(eb.BiasDef(**{"k": 5, **fields}))


def assert_same(got, expected):
    for left, right in zip(got, expected, strict=True):
        if isinstance(right, dict):
            assert left.keys() == right.keys()
            for name in right:
                np.testing.assert_array_equal(left[name], right[name], strict=True, err_msg=name)
        else:
            np.testing.assert_array_equal(left, right, strict=True)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_selection_is_the_cpus_to_the_bit(rule, emulation):
    arrays = scored(SIZES, 1)
    centres = np.random.default_rng(2).normal(size=len(SIZES)) * 0.1
    ids = np.arange(len(SIZES)) * 3 - 4
    options = {"neutral_centres": centres, "query_ids": ids}
    parameters = parameters_of(**rule)
    got = kernels_select.biasdef_select(*arrays, parameters, **options)
    assert_same(got, on_cpu(kernels_select.biasdef_select, *arrays, parameters, **options))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("ps_dim", [None, 24])
@pytest.mark.parametrize("dim", [1, 31, 32, 97])
def test_ranking_is_the_cpus_to_the_bit(dim, ps_dim, normalize, emulation):
    given = rows_of(SIZES, dim, dim, ps_dim)
    got = kernels_select.rank_candidates(**given, normalize=normalize)
    expected = on_cpu(kernels_select.rank_candidates, **given, normalize=normalize)
    for left, right in zip(got, expected, strict=True):
        np.testing.assert_array_equal(left, right, strict=True)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_fused_path_is_the_cpus_to_the_bit(rule, emulation):
    given = rows_of(SIZES, 40, 3, 24)
    given["neutral_centres"] = np.zeros(len(SIZES))
    parameters = parameters_of(**rule)
    got = kernels_select.biasdef_select_vectors(**given, parameters=parameters)
    expected = on_cpu(kernels_select.biasdef_select_vectors, **given, parameters=parameters)
    assert_same(got, expected)


def test_the_defence_runs_on_it(emulation):
    rng = np.random.default_rng(4)
    passages = rng.normal(size=(120, 32)).astype(np.float32)
    queries = rng.normal(size=(3, 32)).astype(np.float32)
    anchors = rng.normal(size=(8, 32)).astype(np.float32)
    with status.emulated(False):
        axis = eb.PolarizationAxis.fit(anchors, labels=[1, -1] * 4)
        pool = eb.CandidatePool.build(eb.CosineIndex(passages), queries, axis, k=5)
        expected = eb.BiasDef(k=5, side="auto").select(pool)
    got = eb.BiasDef(k=5, side="auto").select(pool)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.offsets, expected.offsets)


def refusal(function, *arguments, **options):
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    return str(caught.value)


def same_refusal(function, *arguments, **options):
    got = refusal(function, *arguments, **options)
    assert got == on_cpu(refusal, function, *arguments, **options)
    return got


def test_values_at_fault_are_named_as_on_the_cpu(emulation):
    similarities, scores, offsets, indices = scored((3, 20, 5), 5)
    parameters = parameters_of(side="auto")
    centres = np.zeros(3)

    def refused(*arrays, neutral_centres=centres):
        return same_refusal(
            kernels_select.biasdef_select, *arrays, parameters, neutral_centres=neutral_centres
        )

    bad = scores.copy()
    bad[[2, 9]] = np.nan, np.inf
    assert refused(similarities, bad, offsets, indices).endswith("got nan (query 0, column 2)")
    bad_too = similarities.copy()
    bad_too[25] = -np.inf
    assert refused(bad_too, bad, offsets, indices).startswith("similarities: ")
    refused(similarities, scores, np.array([0, 23, 3, 28]), indices)
    refused(similarities, scores, np.array([0, 3, 23, 27]), indices)
    refused(similarities, scores, offsets, indices[:-1])
    refused(similarities, scores[:-1], offsets, indices)
    refused(similarities, scores, offsets, indices, neutral_centres=np.array([0, np.nan, np.inf]))


def test_rows_at_fault_are_named_as_on_the_cpu(emulation):
    def refused(change, ps_dim=24, normalize=True):
        given = rows_of((4, 20), 40, 6, ps_dim)
        change(given)
        return same_refusal(kernels_select.rank_candidates, **given, normalize=normalize)

    def put(name, place, value):
        return lambda given: given[name].__setitem__(place, value)

    assert "a zero row 7 (query 1)" in refused(put("candidate_embeddings", 11, 0))
    assert "Inf in row 3 (query 0)" in refused(put("candidate_embeddings", (3, 39), np.inf))
    assert "NaN in row 1" in refused(put("query_embeddings", (1, 2), np.nan))
    assert "NaN in row 0 (query 1)" in refused(put("ps_embeddings", (4, 5), np.nan))
    got = refused(put("ps_embeddings", (4, 5), -np.inf), normalize=False)
    assert got.endswith("got -inf (query 1, row 0, column 5)")
    assert "float32 holds" in refused(put("ps_embeddings", 6, 3e38), normalize=False)
    assert "NaN or Inf in row 1" in refused(put("axes", (1, 0), np.inf))
    assert "got 5 (row 1)" in refused(put("axis_of_query", 1, 5))
    assert "row 1" in refused(put("score_offsets", 1, 1e60))
    assert "77 twice (query 1)" in refused(put("indices", [5, 22], 77))
    assert "rise from 0 to 24" in refused(put("offsets", 1, 30))


def test_the_callers_framework_gets_device_arrays_that_are_not_cut(torch, cupy, emulated_device):
    given = rows_of((4, 20, 9), 40, 7, 24)
    parameters = parameters_of(k=3)
    for make, kind in ((torch.tensor, torch.Tensor), (cupy.asarray, cupy.ndarray)):
        arrays = {name: make(value) for name, value in given.items()}
        got = kernels_select.biasdef_select_vectors(**arrays, parameters=parameters)
        assert type(got) is on_device.DeviceSelection
        assert type(got.order) is kind
        on_host = {
            field.name: getattr(got, field.name)._memory for field in dataclasses.fields(got)
        }
        parts = on_device._parts(on_device.DeviceSelection(**on_host), parameters)
        expected = on_cpu(kernels_select.biasdef_select_vectors, **given, parameters=parameters)
        assert_same(parts, expected)
        assert device.check() == 1
