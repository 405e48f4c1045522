"""CosineIndex along the principal axes of its corpus: when it does, and from a folder."""

from __future__ import annotations

import json

import numpy as np
import pytest

from epibias import _core
from epibias.errors import InputError
from epibias.retrieval import CosineIndex, prepared
from search_cases import restore_level_and_threads, rows  # noqa: F401


def assert_same(found, expected):
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.similarities, expected.similarities)


def few_axes(rng, n, dim, n_axes=12):
    """Passages of which few axes tell nearly all."""
    turned = np.linalg.qr(rng.standard_normal((dim, dim)))[0][:n_axes].astype(np.float32)
    return rows(rng, n, n_axes) @ turned + np.float32(0.05) * rows(rng, n, dim)


@pytest.mark.parametrize(("n_queries", "k"), [(1, 20), (1, 1_000), (70, 9), (3, 1_001), (5, 101)])
def test_auto_scans_along_the_axes_of_a_corpus_that_has_few(n_queries, k):
    rng = np.random.default_rng(22)
    passages = few_axes(rng, 44_000, 96)
    index = CosineIndex(passages)
    assert index.scan == "principal"
    queries = passages[:n_queries] + np.float32(0.1) * few_axes(rng, n_queries, 96)
    found = index.search(queries, k)
    wanted = "principal" if k <= (1_000 if n_queries <= 4 else 100) else "int8"
    if _core.simd_level() != "scalar" or wanted == "principal":
        assert found.diagnostics["scan"] == wanted
    assert_same(found, CosineIndex(passages, scan="float32").search(queries, k))
    if k == 20:
        # The sum of both stages leaves little to score.
        assert found.diagnostics["n_rescored"] < 500


def test_auto_stops_trying_axes_that_a_sample_was_wrong_about():
    """The rows that the axes are chosen from are not like the others."""
    rng = np.random.default_rng(23)
    passages = rows(rng, 44_000, 96)
    sampled = np.unique(np.linspace(0, 43_999, 4_096).astype(np.int64))
    passages[sampled] = few_axes(rng, len(sampled), 96)
    index, plain = CosineIndex(passages), CosineIndex(passages, scan="float32")
    assert index.scan == "principal"
    seen = []
    for _ in range(15):
        queries = rows(rng, 4, 96)
        found = index.search(queries, 10)
        assert_same(found, plain.search(queries, 10))
        seen.append(found.diagnostics["scan"])
    assert seen[0] == "principal"
    assert seen[-1] == ("float32" if _core.simd_level() == "scalar" else "int8")
    assert len(set(seen)) == 2, "once is enough"


def test_axes_of_too_many_columns_are_refused():
    with pytest.raises(InputError, match=r"^passage_embeddings: expected at most 2048 columns"):
        CosineIndex(np.ones((2, 2_049), np.float32), scan="principal")


@pytest.mark.parametrize(
    "principal", [{"n_axes": 17, "n_leading": 4}, {"n_axes": 4}, {"n_axes": 4, "n_leading": 5}, 3]
)
def test_counts_of_axes_that_are_none_are_refused(principal, tmp_path):
    passages = rows(np.random.default_rng(25), 300, 16)
    CosineIndex(passages, scan="principal").save(tmp_path)
    manifest = json.loads((tmp_path / prepared.MANIFEST).read_text())
    manifest["principal"] = principal
    (tmp_path / prepared.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"^folder: expected principal with 1 <= n_leading"):
        CosineIndex.load(tmp_path, passages)


@pytest.mark.parametrize("what", ["axes", "leading", "rest"])
@pytest.mark.parametrize("value", [0, 127, 255])
def test_damaged_codes_of_axes_lead_nowhere_outside_the_passages(what, value):
    passages = few_axes(np.random.default_rng(26), 2_000, 24)
    index = CosineIndex(passages, scan="principal")
    damaged = getattr(index._parts.principal, what).reshape(-1).view(np.uint8)
    damaged[len(damaged) // 3 :] = value
    found = index.search(passages[:40].copy(), 20)
    for indices in found.indices:
        assert len(set(indices)) == 20
        assert 0 <= indices.min() <= indices.max() < 2_000


def test_axes_that_leave_no_answer_are_passed_over():
    passages = few_axes(np.random.default_rng(27), 2_000, 24)
    index, plain = CosineIndex(passages, scan="principal"), CosineIndex(passages, scan="float32")
    index._parts.principal.leading[:] = 255  # residuals that are not numbers
    queries = passages[:30].copy()
    found = index.search(queries, 20)
    assert found.diagnostics["n_repeated"] == 30
    assert_same(found, plain.search(queries, 20))


def test_a_folder_of_the_former_format_is_read(tmp_path):
    passages = rows(np.random.default_rng(24), 300, 16)
    index = CosineIndex(passages, scan="int4")
    index.save(tmp_path)
    manifest = json.loads((tmp_path / prepared.MANIFEST).read_text())
    assert manifest["format"] == "epibias-prepared-2"
    assert manifest.pop("principal") is None
    manifest["format"] = "epibias-prepared-1"
    (tmp_path / prepared.MANIFEST).write_text(json.dumps(manifest))
    former = CosineIndex.load(tmp_path, passages, verify=True)
    assert former.scan == "int4"
    assert_same(former.search(passages[:5], 9), index.search(passages[:5], 9))
