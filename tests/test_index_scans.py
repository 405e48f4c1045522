"""CosineIndex: its scans agree, "auto" chooses among them and says so, and it lives in a folder."""

from __future__ import annotations

import json
import os
import shutil
import stat

import numpy as np
import pytest

import reference
from compare import assert_same_topk
from epibias import _core
from epibias.errors import InputError
from epibias.retrieval import CosineIndex, prepared
from search_cases import restore_level_and_threads, rows  # noqa: F401


def assert_same(found, expected):
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.similarities, expected.similarities)


def saved_map(folder, passages):
    np.save(folder / "passages.npy", passages)
    return np.load(folder / "passages.npy", mmap_mode="r")


@pytest.mark.parametrize("scan", ["int8", "int4", "principal"])
def test_the_index_gives_the_same_with_any_scan(scan):
    rng = np.random.default_rng(7)
    passages = rows(rng, 5_000, 48)
    by_codes, by_floats = CosineIndex(passages, scan=scan), CosineIndex(passages, scan="float32")
    for n_queries, k in ((1, 20), (33, 5), (300, 900)):
        queries = rows(rng, n_queries, 48)
        found, expected = by_codes.search(queries, k), by_floats.search(queries, k)
        assert_same(found, expected)
        assert found.diagnostics["scan"] == scan
        assert found.diagnostics["n_rescored"] >= n_queries * k
        assert 0 <= found.diagnostics["n_repeated"] <= 2 * n_queries
    assert by_codes.scan == by_codes.diagnostics["scan"] == scan
    more = (
        by_codes.diagnostics["bytes_beside_the_embeddings"]
        - by_floats.diagnostics["bytes_beside_the_embeddings"]
    )
    n_rows = 5_000 + -5_000 % 64
    if scan == "principal":  # normal rows: all 48 axes lead, and nothing is in the records
        assert more == n_rows * (48 + 8 + 48 + 12) + 5_000 * 64 + 48 * 48 * 4
    else:
        assert more == n_rows * (48 + 8 if scan == "int8" else 48 + 8 + 24 + 8)


@pytest.mark.parametrize(
    ("n_queries", "k", "scan"),
    [(1, 20, "int4"), (4, 100, "int4"), (5, 20, "int8"), (1, 101, "int8"), (70, 9, "int8")],
)
def test_auto_chooses_by_queries_and_results_and_says_so(large, n_queries, k, scan):
    passages, index = large
    queries = passages[:n_queries] + np.float32(0.1)
    found = index.search(queries, k)
    if _core.simd_level() != "scalar":
        assert found.diagnostics["scan"] == scan
    assert_same(found, CosineIndex(passages, scan="float32").search(queries, k))
    _core.set_simd_level("scalar")
    scan = "int8" if n_queries <= 8 else "float32"
    assert index.search(queries, k).diagnostics["scan"] == scan


@pytest.fixture(scope="module")
def large():
    passages = rows(np.random.default_rng(9), 44_000, 96)
    return passages, CosineIndex(passages)


def test_auto_keeps_no_codes_of_a_small_corpus_or_of_a_file(large, tmp_path):
    passages, index = large
    assert index.scan == "int4"
    assert CosineIndex(passages[:1_000]).scan == "float32"
    mapped = saved_map(tmp_path, passages)
    index = CosineIndex(mapped)
    assert index.scan == "float32"
    assert index.diagnostics["bytes_beside_the_embeddings"] == 8 * len(passages)
    queries = passages[:70] + np.float32(0.1)
    few, many = index.search(queries[:3], 20), index.search(queries, 20)
    assert few.diagnostics["scan"] == "float32"
    if _core.simd_level() != "scalar":
        assert many.diagnostics["scan"] == "int8_once"
    assert_same(many, CosineIndex(passages, scan="float32").search(queries, 20))


def test_auto_stops_trying_4_bits_on_a_corpus_that_defeats_them():
    """All passages nearly alike: 4 bits cannot tell them apart."""
    rng = np.random.default_rng(10)
    passages = rows(rng, 1, 128) + np.float32(0.03) * rows(rng, 36_000, 128)
    index = CosineIndex(passages)
    plain = CosineIndex(passages, scan="float32")
    seen = []
    for start in range(0, 60, 4):
        queries = passages[start : start + 4].copy()
        found = index.search(queries, 10)
        assert_same(found, plain.search(queries, 10))
        seen.append(found.diagnostics["scan"])
    assert seen[0] == ("int8" if _core.simd_level() == "scalar" else "int4")
    assert seen[-1] == "int8"
    assert seen == sorted(seen), "once is enough"  # "int4" sorts before "int8"


# ---- in a folder ---------------------------------------------------------------------------


@pytest.mark.parametrize("scan", ["float32", "int8", "int4", "principal"])
def test_saved_prepared_and_loaded_are_one_index(scan, tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "_CHUNK_BYTES", 64 * 4 * 40 * 3)  # several pieces
    rng = np.random.default_rng(11)
    passages, queries = rows(rng, 1_000, 40), rows(rng, 6, 40)
    index = CosineIndex(passages, scan=scan)
    index.save(tmp_path / "saved")
    steps = []
    mapped = saved_map(tmp_path, passages)
    made = CosineIndex.prepare(
        mapped, tmp_path / "new" / "prepared", scan, progress=lambda *step: steps.append(step)
    )
    assert steps == [(min(1_000, 192 * i), 1_000) for i in range(1, 7)]
    loaded = CosineIndex.load(tmp_path / "saved", passages)
    expected = index.search(queries, 30)
    for other in (made, loaded):
        assert other.scan == scan
        assert_same(other.search(queries, 30), expected)
        assert (
            other.diagnostics["bytes_beside_the_embeddings"]
            == (index.diagnostics["bytes_beside_the_embeddings"])
        )
    for name in os.listdir(tmp_path / "saved"):
        first, second = tmp_path / "saved" / name, tmp_path / "new" / "prepared" / name
        assert first.read_bytes() == second.read_bytes()
        assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "saved").stat().st_mode) == 0o700


def test_auto_prepares_codes_of_a_large_file(large, tmp_path):
    passages, _ = large
    index = CosineIndex.prepare(saved_map(tmp_path, passages), tmp_path / "index")
    assert index.scan == "int4"
    scan = "int8" if _core.simd_level() == "scalar" else "int4"
    assert index.search(passages[:1], 5).diagnostics["scan"] == scan
    assert index.diagnostics["folder"] == str(tmp_path / "index")


def test_an_empty_corpus_is_saved_and_loaded(tmp_path):
    none = np.empty((0, 3), np.float32)
    for scan in ("int8", "principal"):
        CosineIndex.prepare(none, tmp_path / scan, scan=scan)
        found = CosineIndex.load(tmp_path / scan, none).search(np.ones((2, 3), np.float32), k=1)
        assert found.indices.shape == (2, 0)


def test_a_bad_row_of_a_later_piece_is_named_and_no_index_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "_CHUNK_BYTES", 64 * 4 * 3)
    passages = np.ones((300, 3), np.float32)
    CosineIndex.prepare(passages, tmp_path, scan="int8")
    passages[201, 1] = np.inf
    for scan in ("principal", "int8"):
        with pytest.raises(InputError, match=r"^passage_embeddings: .*Inf in row 201"):
            CosineIndex.prepare(passages, tmp_path, scan=scan)
    with pytest.raises(InputError, match=r"^folder: expected a folder that CosineIndex\.prepare"):
        CosineIndex.load(tmp_path, passages)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".unfinished")]


def spoil_manifest(folder, **changes):
    manifest = json.loads((folder / prepared.MANIFEST).read_text())
    (folder / prepared.MANIFEST).write_text(json.dumps({**manifest, **changes}))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: spoil_manifest(folder, format="other"), "folder: expected format"),
        (lambda folder: spoil_manifest(folder, bits=[4]), "folder: expected bits"),
        (lambda folder: spoil_manifest(folder, bits=8), "folder: expected bits"),
        (lambda folder: (folder / prepared.MANIFEST).write_text("{"), "folder: expected JSON"),
        (lambda folder: (folder / prepared.MANIFEST).write_text("[]"), "folder: expected format"),
        (lambda folder: (folder / prepared.MANIFEST).unlink(), "folder: expected a folder that"),
        (
            lambda folder: (folder / "codes_8_bits.npy").write_bytes(b"x"),
            "folder: expected uint8 of length 8192",
        ),
        (
            lambda folder: np.save(folder / "inverse_norms.npy", np.ones(4)),
            "folder: expected float64 of length 100, .* got float64 of shape",
        ),
    ],
)
def test_a_spoilt_folder_is_told(spoil, words, tmp_path):
    passages = rows(np.random.default_rng(12), 100, 56)
    CosineIndex(passages, scan="int8").save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(InputError, match="^" + words):
        CosineIndex.load(tmp_path, passages)


def test_other_embeddings_are_refused(tmp_path):
    passages = rows(np.random.default_rng(13), 2_000, 8)
    CosineIndex(passages, scan="int8").save(tmp_path)
    other = passages.copy()
    other[-1, 0] += 1
    with pytest.raises(InputError, match=r"^passage_embeddings: expected the embeddings of which"):
        CosineIndex.load(tmp_path, other)
    with pytest.raises(InputError, match=r"^passage_embeddings: expected shape \(2000, 8\)"):
        CosineIndex.load(tmp_path, passages[1:])


def test_codes_that_were_cut_off_are_told(tmp_path):
    passages = rows(np.random.default_rng(14), 2_000, 56)
    CosineIndex(passages, scan="int8").save(tmp_path)
    index = CosineIndex.load(tmp_path, passages)
    os.truncate(tmp_path / "codes_8_bits.npy", 4_096)
    with pytest.raises(InputError, match=r"^folder: expected a file of .* got 4096 bytes"):
        index.search(passages[:1], 1)


def test_too_little_space_is_told_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000))
    passages = rows(np.random.default_rng(15), 300, 8)
    with pytest.raises(InputError, match=r"^folder: expected 7,520 bytes free, got 1,000"):
        CosineIndex.prepare(passages, tmp_path / "index", scan="int8")
    assert os.listdir(tmp_path / "index") == []


@pytest.mark.parametrize("scan", ["float32", "int8", "int4", "principal"])
@pytest.mark.parametrize("n_all", [640, 677])
def test_a_prefix_answers_as_an_index_of_its_own(scan, n_all):
    passages = rows(np.random.default_rng(16), n_all, 24)
    index = CosineIndex(passages, scan=scan)
    for n in (64, 320, n_all):
        part, own = index.prefix(n), CosineIndex(passages[:n], scan=scan)
        assert part.n_passages == n
        assert part.scan == own.scan
        assert_same(part.search(passages[:9], 7), own.search(passages[:9], 7))
    with pytest.raises(InputError, match=r"^n_passages: expected a multiple of 64, or"):
        index.prefix(65)
    with pytest.raises(InputError, match=r"^n_passages: expected an integer .* got 678"):
        index.prefix(678)


@pytest.mark.parametrize(
    ("scan", "codes"),
    [
        ("int4", ["codes_4_bits.npy"]),
        ("principal", ["principal_axes.npy", "principal_leading.npy", "principal_rest.npy"]),
    ],
)
def test_a_flipped_bit_is_found_by_who_asks_for_it(tmp_path, scan, codes):
    passages = rows(np.random.default_rng(18), 300, 16)
    CosineIndex(passages, scan=scan).save(tmp_path)
    assert len(CosineIndex.load(tmp_path, passages, verify=True)) == 300
    for name in ("inverse_norms.npy", "codes_8_bits.npy", *codes):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[:-9] + bytes([content[-9] ^ 64]) + content[-8:])
        assert len(CosineIndex.load(tmp_path, passages)) == 300
        with pytest.raises(InputError, match=rf"^folder: expected sha256 .* got sha256 .*{name}"):
            CosineIndex.load(tmp_path, passages, verify=True)
        (tmp_path / name).write_bytes(content)


@pytest.mark.parametrize("scan", ["int8", "int4"])
def test_damaged_codes_lead_nowhere_outside_the_passages(scan):
    """A tile of real rows in the place of the last, whose padding nothing else would refuse."""
    passages = rows(np.random.default_rng(17), 2_000, 24)
    index = CosineIndex(passages, scan=scan)
    for codes in index._parts.codes.values():
        tiles = codes.reshape(-1, codes.size // 32)
        tiles[:] = np.roll(tiles, 1, axis=0)
    found = index.search(passages[:40].copy(), 20)
    assert found.indices.min() >= 0
    assert found.indices.max() < 2_000


def tails(codes):
    """Scales and residuals of all groups of 16 passages of 24 columns."""
    return codes.reshape(-1, codes.size // 128)[:, -128:]


def fill_with_ones(codes):
    codes[:] = 255


def spoil_scales(value):
    def spoil(codes):
        tails(codes)[:] = np.frombuffer(np.float32(value).tobytes() * 32, np.uint8)

    return spoil


@pytest.mark.parametrize("spoil", [fill_with_ones, spoil_scales(np.nan)])
@pytest.mark.parametrize("scan", ["int8", "int4"])
def test_codes_that_leave_no_answer_are_refused(spoil, scan):
    passages = rows(np.random.default_rng(19), 2_000, 24)
    index = CosineIndex(passages, scan=scan)
    for codes in index._parts.codes.values():
        spoil(codes)
    with pytest.raises(InputError, match=r"^codes: expected those of these passages, got"):
        index.search(passages[:3].copy(), 20)


def test_4_bits_that_leave_no_answer_are_passed_over():
    passages = rows(np.random.default_rng(20), 2_000, 24)
    index, plain = CosineIndex(passages, scan="int4"), CosineIndex(passages, scan="float32")
    spoil_scales(np.nan)(index._parts.codes[4])
    queries = passages[:30].copy()
    found = index.search(queries, 20)
    assert found.diagnostics["n_repeated"] == 30
    assert_same(found, plain.search(queries, 20))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("scan", ["int8", "int4"])
def test_endless_codes_give_passages_that_exist(value, scan):
    passages = rows(np.random.default_rng(21), 2_000, 24)
    index = CosineIndex(passages, scan=scan)
    for codes in index._parts.codes.values():
        spoil_scales(value)(codes)
    found = index.search(passages[:30].copy(), 20)
    for indices in found.indices:
        assert len(set(indices)) == 20
        assert 0 <= indices.min() <= indices.max() < 2_000


# ---- input ---------------------------------------------------------------------------------


def test_the_index_reads_a_memory_map(tmp_path):
    rng = np.random.default_rng(8)
    passages = rows(rng, 700, 20)
    found = CosineIndex(saved_map(tmp_path, passages), scan="int8").search(passages[:3], k=4)
    assert_same_topk(
        (found.indices, found.similarities),
        reference.cosine_topk_batched(passages[:3], passages, 4),
    )


def test_bad_rows_and_too_many_columns_are_named():
    passages = np.ones((5, 3), np.float32)
    passages[3, 1] = np.nan
    with pytest.raises(InputError, match=r"^passage_embeddings: .*NaN in row 3"):
        CosineIndex(passages, scan="int8")
    index = CosineIndex(np.ones((5, 3), np.float32), scan="int8")
    with pytest.raises(InputError, match=r"^query_embeddings: .*NaN in row 3"):
        index.search(passages, k=1)
    with pytest.raises(InputError, match=r"^passage_embeddings: expected 1 to 65536 columns"):
        CosineIndex(np.ones((2, 65_537), np.float32), scan="int8")


def test_empty_input():
    none, some = np.empty((0, 3), np.float32), np.ones((4, 3), np.float32)
    assert CosineIndex(some, scan="int8").search(none, k=2).indices.shape == (0, 2)
    assert CosineIndex(none, scan="int8").search(some, k=2).indices.shape == (4, 0)
