"""The parts that `epibias latency` and `epibias stress` are made of."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import reference
from epibias import _core
from epibias.costs import corpus_file, exactness, synthetic
from epibias.costs.chart import LineChart, Series
from epibias.costs.corpus_file import unfinished, write_corpus
from epibias.costs.exactness import true_answers
from epibias.costs.linearity import linearity
from epibias.costs.memory import PeakMemory
from epibias.costs.sizes import bytes_of, count_of, size_text
from epibias.costs.synthetic import SyntheticRows, chunk_rows, queries_near
from epibias.errors import InputError
from epibias.kernels_threads import using_threads
from epibias.retrieval import CosineIndex

DIM = 24


@pytest.fixture(name="small_chunks", autouse=True)
def chunks_of_few_rows(monkeypatch):
    monkeypatch.setattr(synthetic, "_CHUNK_FLOATS", 1 << 13)


# ---- synthetic rows, and the file of them --------------------------------------------------


def test_a_row_depends_on_seed_and_number_alone():
    rows = SyntheticRows(3, DIM)
    many = rows.rows(5 * chunk_rows(DIM) + 7)
    few = SyntheticRows(3, DIM).rows(chunk_rows(DIM) + 1)
    assert np.array_equal(many[: len(few)], few)
    assert not np.array_equal(SyntheticRows(4, DIM).rows(1), few[:1])
    assert len(np.unique(many, axis=0)) == len(many)


def test_rows_have_clusters_and_a_decaying_spectrum():
    rows = SyntheticRows(0, 64).rows(4000).astype(np.float64)
    variances = np.linalg.eigvalsh(np.cov(rows.T))[::-1]
    assert variances[0] > 8 * variances[-1]


def collected():
    counts = []
    return counts, counts.append


def test_the_file_is_what_numpy_would_save(tmp_path):
    rows, path = SyntheticRows(0, DIM), tmp_path / "rows.npy"
    counts, advance = collected()
    assert write_corpus(path, rows, 1000, advance) == 0
    np.save(tmp_path / "numpy.npy", rows.rows(1000))
    assert path.read_bytes() == (tmp_path / "numpy.npy").read_bytes()
    assert sum(counts) == 1000
    assert not unfinished(path).exists()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", [0, 60, 128, 129, 40_000, 95_000, 96_128])
def test_an_unfinished_file_of_any_length_becomes_the_same(tmp_path, cut):
    rows, path = SyntheticRows(0, DIM), tmp_path / "rows.npy"
    write_corpus(path, rows, 1000, lambda _: None)
    whole = path.read_bytes()
    assert len(whole) == 96_128
    path.unlink()
    unfinished(path).write_bytes(whole[:cut])
    counts, advance = collected()
    n_before = write_corpus(path, rows, 1000, advance)
    assert path.read_bytes() == whole
    assert n_before == max(cut - 128, 0) // (DIM * 4) // chunk_rows(DIM) * chunk_rows(DIM)
    assert sum(counts) == 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole[:128] + bytes(len(whole) - 128), "rows of seed 0.*others in chunk 2"),
        (lambda whole: b"x" * len(whole), "the header of 1000 rows of 24 columns, got another"),
    ],
)
def test_an_unfinished_file_of_something_else_is_refused(tmp_path, change, message):
    rows, path = SyntheticRows(0, DIM), tmp_path / "rows.npy"
    write_corpus(path, rows, 1000, lambda _: None)
    content = change(path.read_bytes())
    path.unlink()
    unfinished(path).write_bytes(content)
    with pytest.raises(InputError, match=message):
        write_corpus(path, rows, 1000, lambda _: None)
    assert unfinished(path).read_bytes() == content


def test_a_finished_file_of_another_size_is_refused(tmp_path):
    path = tmp_path / "rows.npy"
    path.write_bytes(b"mine")
    with pytest.raises(InputError, match="a file of 96128 bytes, got 4 bytes"):
        write_corpus(path, SyntheticRows(0, DIM), 1000, lambda _: None)
    assert path.read_bytes() == b"mine"


def test_a_full_disk_is_one_message_and_can_be_resumed(tmp_path, monkeypatch):
    rows, path = SyntheticRows(0, DIM), tmp_path / "rows.npy"
    real, left = corpus_file._write_all, [2]

    def full(file, part):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(file, part)

    monkeypatch.setattr(corpus_file, "_write_all", full)
    with pytest.raises(InputError, match="space left"):
        write_corpus(path, rows, 1000, lambda _: None)
    monkeypatch.undo()
    monkeypatch.setattr(synthetic, "_CHUNK_FLOATS", 1 << 13)
    assert write_corpus(path, rows, 1000, lambda _: None) == 2 * chunk_rows(DIM)
    assert np.array_equal(np.load(path), rows.rows(1000))


def test_queries_are_near_rows_and_never_zero():
    rows = SyntheticRows(0, DIM).rows(500)
    queries = queries_near(rows, 40, 0)
    nearest = CosineIndex(rows).search(queries, 1).similarities
    assert nearest.min() > 0.5
    assert np.median(nearest) > 0.7
    same = np.ones((3, 2), np.float32)
    assert np.array_equal(queries_near(same, 5, 0), np.ones((5, 2), np.float32))
    opposite = np.array([[1, 0], [-1, 0]], np.float32)  # a row and half of 1 - (-1) may cancel
    assert queries_near(opposite, 64, 0).any(axis=1).all()


# ---- the true answer -----------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 7, 32, 33, 97])
@pytest.mark.parametrize("block", [1, 64, 1 << 22])
def test_the_true_answer_is_that_of_the_reference(monkeypatch, dim, block):
    monkeypatch.setattr(exactness, "_BLOCK_FLOATS", block)
    generator = np.random.default_rng(dim)
    passages = generator.standard_normal((150, dim)).astype(np.float32)
    passages[100:130] = passages[10]  # ties across blocks and prefixes
    queries = np.concatenate([passages[10:11], generator.standard_normal((4, dim))])
    queries = queries.astype(np.float32)
    prefixes = [9, 64, 128, 150]
    for found, prefix in zip(true_answers(queries, passages, 9, prefixes), prefixes, strict=True):
        indices, similarities = reference.cosine_topk(queries, passages[:prefix], 9)
        assert np.array_equal(found.indices, indices)
        assert np.array_equal(found.similarities, similarities)


def test_hosts_of_duplicates_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(exactness, "MOST_NEAR", 8)
    monkeypatch.setattr(exactness, "_BLOCK_FLOATS", 64)
    passages = np.ones((3000, 2), np.float32)
    passages[::7] = (1, 1.0000002)  # another row of nearly the same similarity
    queries = np.array([[1, 1], [1, 1.0000002]], np.float32)
    (found,) = true_answers(queries, passages, 5, [3000])
    indices, similarities = reference.cosine_topk_batched(queries, passages, 5)
    assert np.array_equal(found.indices, indices)
    assert np.array_equal(found.similarities, similarities)


# ---- numbers for people --------------------------------------------------------------------


def test_a_line_through_the_origin():
    exact = linearity([64, 128, 640], [1, 2, 10])
    assert exact["largest_deviation"] == pytest.approx(0)
    assert exact["ns_per_passage"] == pytest.approx(1e6 / 64)
    bent = linearity([100, 200], [1, 1])
    assert bent["deviations"] == pytest.approx([1 / 3, -1 / 3])
    assert linearity([100], [1])["largest_deviation"] is None


@pytest.mark.parametrize("text", ["", "GiB", "2 GiB 3", "-1MB", "0", "1e400", "nan"])
def test_no_size(text):
    with pytest.raises(InputError, match="size: expected a size"):
        bytes_of("size", text)


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5", "inf", "nan", "1e300", "0x10"])
def test_no_count(text):
    with pytest.raises(InputError, match="passages: expected a whole number"):
        count_of("passages", text)


def test_sizes_come_back():
    assert bytes_of("size", "15GB") == 15 * 10**9
    assert bytes_of("size", "2gib") == 2 * 2**30
    assert size_text(2**40 * 5000) == "5e+03 TiB"
    assert size_text(0) == "0 B"


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("values", [[1.0], [0.001, 5, 70_000], [3.0, 3.0]])
def test_a_chart_is_svg_within_its_frame(is_log, values):
    many = [Series(f"a < {n}", range(1, len(values) + 1), values) for n in range(9)]
    root = ElementTree.fromstring(LineChart("x & y", "n", "ms", many, is_log).svg())  # noqa: S314
    marks = [one for one in root.iter() if one.tag.endswith("circle")]
    assert len(marks) == 9 * len(values)
    for mark in marks:
        assert 0 <= float(mark.get("cx")) <= 760
        assert 80 <= float(mark.get("cy")) <= 440
    assert "a < 8" in [one.text for one in root.iter()]


def test_memory_is_sampled_between():
    peak = PeakMemory()
    with peak.phase("first"):
        held = np.ones((1 << 24, 4), np.float32)  # 256 MiB, and gone before the phase ends
        assert held[-1, -1] == 1
        del held
    with peak.phase("second"):
        pass
    first, second = peak.phases["first"], peak.phases["second"]
    assert first.anonymous > second.anonymous + 100 * 2**20
    assert peak.anonymous == first.anonymous


# ---- threads -------------------------------------------------------------------------------


def test_a_block_without_a_number_of_threads_chooses_none():
    """In a process of its own: what is chosen in this one would be put in force for all tests."""
    code = (
        "import os\n"
        "from epibias import _core\n"
        "from epibias.kernels_threads import using_threads\n"
        "os.environ['EPIBIAS_THREADS'] = '3'\n"
        "with using_threads(None) as inside: assert inside == 3\n"
        "os.environ['EPIBIAS_THREADS'] = '5'\n"
        "assert _core.n_threads() == 5\n"
        "with using_threads(2) as inside: assert inside == 2\n"
        "assert _core.n_threads() == 5\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_a_block_that_fails_puts_the_number_of_threads_back():
    before = _core.n_threads()
    _core.set_n_threads(4)
    try:
        with pytest.raises(ZeroDivisionError), using_threads(2):
            raise ZeroDivisionError
        assert _core.n_threads() == 4
    finally:
        _core.set_n_threads(before)
