"""`epibias stress`: small corpora end to end, verdicts, what is left behind, wrong use."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from epibias.cli import main
from epibias.costs import stress, stress_index
from epibias.costs.data_folder import DataFolder
from epibias.costs.memory import ResidentMemory, resident_memory
from epibias.costs.stress import StressPlan, default_points, run_stress
from epibias.retrieval import CosineIndex

SMALL = ["--dim", "24", "--check", "12", "--timed", "3", "--rounds", "2", "--k", "5"]


def small(folder, *more):
    return ["stress", "--passages", "2000", *SMALL, "--data", str(folder), *more]


@pytest.fixture(name="data")
def data_folder(tmp_path):
    return tmp_path / "data"


def test_text_json_and_pages_agree_and_nothing_is_left(data, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(small(data, "--out", str(out), "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((out / "stress.json").read_text(encoding="utf-8"))
    assert [point["n_passages"] for point in document["points"]] == [192, 384, 960, 2000]
    assert document["exactness"]["n_wrong"] == 0
    assert document["exactness"]["n_answers"] == 4 * 12 + 4 * 3
    assert document["verdicts"] == {"exact": "passed", "memory": "not asked", "linear": "not asked"}
    assert all(point["ms"] > 0 and point["n_calls"] == 6 for point in document["points"])
    assert document["corpus"]["bytes"] == 128 + 2000 * 24 * 4
    assert not data.exists()
    page = (out / "stress.html").read_text(encoding="utf-8")
    svg = (out / "stress.svg").read_text(encoding="utf-8")
    assert svg in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page
    for path in out.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600

    assert main(small(data, "--out", str(out))) == 0  # its own files are replaced
    text = capsys.readouterr().out
    assert "exact: passed; 0 of 60 answers differ from float64" in text
    assert "2,000" in text
    assert "searching" in text


def test_kept_data_are_used_again_and_removed_after(data, capsys):
    assert main(small(data, "--keep", "--json")) == 0
    capsys.readouterr()
    corpus = data / "passages.npy"
    before = corpus.stat().st_mtime_ns
    assert corpus.stat().st_mode & 0o777 == 0o600
    assert main(small(data, "--keep", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["corpus"]["n_before"] == 2000
    assert corpus.stat().st_mtime_ns == before
    assert main(["stress", "--passages", "1000", *SMALL, "--data", str(data)]) == 2
    assert "stress-data.json, n_passages: expected 2000, as the data there, got 1000" in (
        capsys.readouterr().err
    )
    assert corpus.exists()
    assert main(small(data)) == 0
    assert not data.exists()


def test_a_corpus_of_ones_own_is_only_read(data, tmp_path, capsys):
    rows = np.random.default_rng(0).standard_normal((700, 16)).astype(np.float32)
    rows[600] = rows[3]  # a tie, broken by the index
    path = tmp_path / "mine.npy"
    np.save(path, rows)
    before = path.read_bytes()
    arguments = ["--check", "9", "--timed", "2", "--rounds", "1", "--points", "64,700"]
    command = ["stress", "--embeddings", str(path), *arguments, "--data", str(data), "--json"]
    for scan in ("float32", "int8", "int4", "principal"):
        assert main([*command, "--scan", scan]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["corpus"]["source"] == "mine.npy"
        assert document["index"]["scan"] == scan
        assert document["exactness"]["n_wrong"] == 0
    assert path.read_bytes() == before
    assert not data.exists()


def test_a_size_on_disk_is_met_from_below(data, capsys):
    assert main(["stress", "--size", "100kB", *SMALL, "--data", str(data), "--json"]) == 0
    corpus = json.loads(capsys.readouterr().out)["corpus"]
    assert 100_000 - 24 * 4 < corpus["bytes"] <= 100_000


@pytest.mark.parametrize(
    ("scan", "file"),
    [
        ("float32", "inverse_norms.npy"),
        ("int8", "inverse_norms.npy"),
        ("int8", "codes_8_bits.npy"),
        ("int4", "codes_4_bits.npy"),
        ("principal", "principal_leading.npy"),
    ],
)
def test_a_tampered_index_fails_the_check(data, capsys, monkeypatch, scan, file):
    make_index = stress_index.make_index

    def tampered(embeddings, folder, *rest):
        index = make_index(embeddings, folder, *rest)
        values = np.load(folder / file, mmap_mode="r+")
        if values.dtype == np.float64:
            values[::2] *= 0.5  # every second passage seems half as similar
        else:  # passages get the codes of others
            tiles = values.reshape(-(-2000 // 64), -1)[:-1]  # the last one has padding
            tiles[:] = np.roll(tiles, 1, axis=0)
        return index

    monkeypatch.setattr(stress_index, "make_index", tampered)
    assert main(small(data, "--scan", scan)) == 1
    text = capsys.readouterr().out
    assert re.search(r"exact: failed; \d+ of 60 answers differ from float64", text)
    assert re.search(r"first wrong answer: query \d at \d+ passages: expected \[", text)
    assert not data.exists()


def test_one_wrong_row_in_one_answer_is_found(data, monkeypatch):
    search = CosineIndex.search

    def once_wrong(self, queries, k=20, **options):
        found = search(self, queries, k, **options)
        if len(queries) > 1 and self.n_passages == 2000:
            indices = found.indices.copy()
            indices[7, [3, 4]] = indices[7, [4, 3]]
            return replace(found, indices=indices)
        return found

    monkeypatch.setattr(CosineIndex, "search", once_wrong)
    folder = DataFolder(data)
    plan = StressPlan(2000, 24, default_points(2000, 5), k=5, n_check=12, n_timed=2, rounds=1)
    with folder.locked():
        folder.open(plan.data_settings)
        exactness = run_stress(plan, folder)["exactness"]
    assert exactness["n_wrong"] == 1
    assert exactness["first"]["query"] == 7
    assert exactness["first"]["n_passages"] == 2000


def test_the_memory_limit_is_a_verdict(data, capsys):
    assert main(small(data, "--memory-limit", "1MiB")) == 1
    text = capsys.readouterr().out
    assert re.search(r"memory: failed; anonymous at most [\d.]+ MiB of 1 MiB", text)
    assert main(small(data, "--memory-limit", "8GiB")) == 0
    assert re.search(
        r"memory: passed; anonymous at most [\d.]+ MiB of 8 GiB", capsys.readouterr().out
    )


def test_linearity_is_a_verdict(data, capsys, monkeypatch):
    line = {"ns_per_passage": 20.0, "deviations": [0.3, 0, 0, -0.3], "largest_deviation": 0.3}
    monkeypatch.setattr(stress, "linearity", lambda *_: line)
    assert main(small(data, "--linear-within", ".2")) == 1
    assert "linear: failed; 20 ns a passage, largest deviation 30 %, asked: 20 %" in (
        capsys.readouterr().out
    )
    assert main(small(data, "--linear-within", ".3")) == 0


def test_memory_that_a_process_holds_is_anonymous_and_a_map_is_not(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.ones((4096, 1024), np.float32))
    before = resident_memory()
    mapped = np.load(path, mmap_mode="r")
    assert mapped.sum() == 4096 * 1024
    after_map = resident_memory()
    held = np.ones((32768, 1024), np.float32)
    after = resident_memory()
    assert after.anonymous - after_map.anonymous > 100 * 2**20
    assert after_map.anonymous - before.anonymous < 8 * 2**20
    assert held.size == 8 * mapped.size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--passages 0", "--passages: expected a whole number above 0"),
        ("--passages 1.5", "--passages: expected a whole number above 0"),
        ("--passages many", "--passages: expected a whole number above 0"),
        ("--passages 100 --size 1MB", "--passages, --size: expected one of the two, got both"),
        ("--size 10XB", "--size: expected a size such as 2GiB"),
        ("--size 100", "--size: expected at least"),
        ("--dim 0", "--dim: expected an integer from 1 to 4096"),
        ("--passages 1000 --k 1001", "k: expected 1 to 1000 (the number of passages), got 1001"),
        ("--passages 1000 --points 100,1000", "points: expected multiples of 64"),
        ("--passages 1000 --points 640,640", "points: expected one or more, ascending"),
        ("--passages 1000 --points 6400", "points: expected multiples of 64"),
        ("--check 0", "check: expected an integer of at least 1"),
        ("--rounds 0", "rounds: expected an integer of at least 1"),
        ("--seed -1", "seed: expected an integer of at least 0"),
        ("--scan int2", "scan: expected 'auto' or"),
        ("--threads 0", "threads: expected an integer from 1 to 1024"),
        ("--passages 10 --k 20", "k: expected 1 to 10 (the number of passages), got 20"),
        (
            "--passages 1000 --points 1000 --linear-within .3",
            "points: expected two or more with linear_within, got one, 1000",
        ),
        ("--passages 60 --linear-within .3", "points: expected two or more with linear_within"),
        ("--linear-within 0", "linear_within: expected a finite number > 0"),
        ("--memory-limit lots", "--memory-limit: expected a size such as 2GiB"),
        ("--embeddings nowhere.npy", "embeddings: expected a .npy file of float32 rows, got No"),
        ("--embeddings {text}", "embeddings: expected a .npy file of float32 rows"),
        ("--embeddings {wide}", "embeddings: expected dtype float32"),
        ("--embeddings {zero}", "passage_embeddings: expected finite rows of non-zero norm"),
        ("--embeddings {wide} --dim 3", "--dim: expected no such option with --embeddings"),
        ("--passages 4e9", "--data: expected a disk with"),
        ("--passages 1e12", "passages: expected fewer than 2^32 rows for a scan of codes"),
        ("--data {text}", "--data: expected a folder, got a file"),
        ("--data {foreign}", "--data: expected an empty folder, or one of epibias stress, got 'my"),
        ("--data {forged}", "stress-data.json: expected one that epibias stress wrote"),
        ("--out {text}", "--out: expected a folder, got a file"),
        ("--out {foreign}", "--out: expected a folder without such files, got 'stress.html'"),
    ],
)
def test_wrong_use_is_one_clean_message_and_leaves_nothing(tmp_path, capsys, arguments, message):
    (tmp_path / "text").write_text("text", encoding="utf-8")
    np.save(tmp_path / "wide.npy", np.ones((4, 3)))
    np.save(tmp_path / "zero.npy", np.eye(80, 3, dtype=np.float32))
    for name, file in (("foreign", "my.txt"), ("foreign", "stress.html")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / file).write_text("mine", encoding="utf-8")
    (tmp_path / "forged").mkdir()
    forged = '{"settings": {"seed": 0}, "settings_sha256": "0"}'
    (tmp_path / "forged" / "stress-data.json").write_text(forged, encoding="utf-8")
    names = {name: tmp_path / name for name in ("text", "foreign", "forged")}
    names |= {name: tmp_path / f"{name}.npy" for name in ("wide", "zero")}
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    filled = arguments.format(**names).split()
    if "--data" not in filled:
        filled += ["--data", str(tmp_path / "data")]
    assert main(["stress", *filled]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    last = captured.err.splitlines()[-1]
    assert last.startswith("epibias: ")
    assert message in last
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_two_runs_do_not_share_a_folder(data, capsys):
    folder = DataFolder(data)
    with folder.locked():
        assert main(small(data)) == 2
    assert "--data: expected a free folder, got one that another process works in" in (
        capsys.readouterr().err
    )


def test_without_its_extra_a_page_is_refused_before_any_work(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(small(data, "--out", str(tmp_path / "out"))) == 2
    assert "pip install '.[report]'" in capsys.readouterr().err
    assert not data.exists()
    assert not (tmp_path / "out").exists()


def test_a_memory_limit_needs_a_system_that_tells(data, capsys, monkeypatch, tmp_path):
    from epibias.costs import memory

    monkeypatch.setattr(memory, "STATUS", tmp_path / "nowhere")
    assert main(small(data, "--memory-limit", "2GiB")) == 2
    assert "memory_limit: expected a system whose /proc/self/status" in capsys.readouterr().err
    assert main(small(data)) == 0
    text = capsys.readouterr().out
    assert "anonymous at most not measured on this system" in text
    assert text.count("not measured") > 12


@pytest.mark.parametrize("phase", ["index", "search", "check"])
def test_memory_that_becomes_unreadable_later_is_not_within_the_limit(
    data, capsys, monkeypatch, tmp_path, phase
):
    from epibias.costs import memory

    begin = memory.PeakMemory.phase

    def losing(self, name):
        if name == phase:
            monkeypatch.setattr(memory, "STATUS", tmp_path / "nowhere")
        return begin(self, name)

    monkeypatch.setattr(memory.PeakMemory, "phase", losing)
    assert main(small(data, "--memory-limit", "8GiB")) == 1
    assert "memory: failed; anonymous at most not measured" in capsys.readouterr().out


def test_one_reading_that_fails_leaves_a_phase_unknown(monkeypatch, tmp_path):
    from epibias.costs import memory

    peak = memory.PeakMemory()
    with peak.phase("search"), monkeypatch.context() as patched:
        patched.setattr(memory, "STATUS", tmp_path / "nowhere")
        peak._take("search")
    assert peak.phases == {"search": None}
    assert peak.anonymous is None


def test_a_killed_run_is_resumed_by_the_same_command(data, capsys, monkeypatch):
    from epibias.costs import synthetic

    monkeypatch.setattr(synthetic, "_CHUNK_FLOATS", 1 << 13)
    code = (
        "import os, signal, sys\n"
        "from epibias.costs import corpus_file, synthetic\n"
        "synthetic._CHUNK_FLOATS = 1 << 13\n"
        "fsync, count = os.fsync, 0\n"
        "def killing(descriptor):\n"
        "    global count\n"
        "    fsync(descriptor)\n"
        "    count += 'passages' in os.readlink(f'/proc/self/fd/{descriptor}')\n"
        "    if count == 3: os.kill(os.getpid(), getattr(signal, sys.argv[1]))\n"
        "corpus_file.os.fsync = killing\n"
        "from epibias.cli import main; sys.exit(main(sys.argv[2:]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def killed(by):
        command = [sys.executable, "-c", code, by, *small(data, "--json")]
        return subprocess.run(command, capture_output=True, env=environment, check=False)

    assert killed("SIGKILL").returncode == -signal.SIGKILL
    partial = data / "passages.npy.unfinished"
    chunk = synthetic.chunk_rows(24)
    assert partial.stat().st_size == 128 + 3 * chunk * 24 * 4
    polite = killed("SIGTERM")
    assert polite.returncode == 143
    assert f"epibias: {data} keeps what was made" in polite.stderr.decode()
    assert partial.stat().st_size == 128 + 6 * chunk * 24 * 4
    assert main(small(data, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["corpus"]["n_before"] == min(6 * chunk, 2000)
    assert document["exactness"]["n_wrong"] == 0
    assert not data.exists()


@pytest.mark.parametrize("was_there", [False, True])
def test_an_error_nobody_expected_leaves_nothing_or_says_what(data, capsys, monkeypatch, was_there):
    if was_there:
        assert main(small(data, "--keep")) == 0

    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(stress, "true_answers", exhausted)
    capsys.readouterr()
    with pytest.raises(MemoryError):
        main(small(data))
    said = f"epibias: {data} keeps what was made; the same command goes on with it"
    assert (said in capsys.readouterr().err) == was_there
    assert (data / "passages.npy").exists() == was_there
    assert data.exists() == was_there


def test_what_cannot_be_cleared_is_said(data, capsys, monkeypatch):
    def refused(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stress, "true_answers", refused)
    monkeypatch.setattr(DataFolder, "remove", refused)
    assert main(small(data)) == 2
    assert f"epibias: {data} keeps what was made" in capsys.readouterr().err


def test_memory_keeps_the_largest_of_each():
    first, second = ResidentMemory(1, 9, 0), ResidentMemory(4, 2, 3)
    assert first.largest(second) == ResidentMemory(4, 9, 3)
    assert first.largest(None) == first
