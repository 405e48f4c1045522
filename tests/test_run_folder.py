"""A run folder is whole, resumable or refused; never half of something."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from epibias.errors import InputError
from epibias.experiment import manifest, raw, run_folder
from epibias.experiment.manifest import code_identity, environment, settings_hash
from epibias.experiment.run_folder import RunFolder

SETTINGS = {"k": 5, "encoder": {"name": "fake", "dim": 3}, "topics": ("tea", "rain")}


def row(topic, **values):
    return {
        "topic": topic,
        "query_id": f"{topic}-query",
        "axis": "pca",
        "defense": "none",
        "attack": "clean",
        "polarity": "none",
        "condition": "0",
        "injections": 0,
        "injected_ids": [],
        "status": "ok",
        "candidate_ids": ["a", "b"],
        "candidate_similarities": [0.5, 0.25],
        "threshold": None,
        **values,
    }


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def finish(folder, topics=("tea", "rain")):
    with folder.locked():
        state = folder.open(SETTINGS, {})
        for topic in topics:
            folder.write_part(topic, [row(topic)])
        rows = folder.join(topics)
        folder.complete(len(rows))
    return state


def test_a_run_from_start_to_marker(folder):
    assert finish(folder) == "new"
    assert folder.is_complete
    assert not folder.parts.exists()
    marker = json.loads((folder.path / "complete.json").read_text(encoding="utf-8"))
    assert marker["n_rows"] == 2
    assert [r["topic"] for r in folder.rows()] == ["tea", "rain"]
    assert folder.rows()[0]["candidate_similarities"] == [0.5, 0.25]
    assert folder.rows()[0]["threshold"] is None


def test_a_topic_whose_prompts_found_no_server_is_marked_before_its_part_is_there(
    folder, monkeypatch
):
    """Killed in between, a run would take the question for done and be finished without them."""

    def killed(*_, **__):
        raise KeyboardInterrupt

    with folder.locked():
        folder.open(SETTINGS, {})
        folder.write_part("tea", [row("tea")], unanswered=2)
        with monkeypatch.context() as patch:
            patch.setattr(raw, "write", killed)
            for topic, n_prompts in (("tea", 0), ("rain", 1)):
                with pytest.raises(KeyboardInterrupt):
                    folder.write_part(topic, [row(topic)], unanswered=n_prompts)
        assert folder.unanswered(["tea", "rain"]) == {"tea": 2, "rain": 1}
        assert folder.topics_done(["tea", "rain"]) == ["tea"]
        folder.write_part("tea", [row("tea")])
        assert folder.unanswered(["tea", "rain"]) == {"rain": 1}


def test_an_unfinished_run_is_resumed_with_its_parts(folder):
    with folder.locked():
        folder.open(SETTINGS, {"n": 1})
        folder.write_part("tea", [row("tea")])
    again = RunFolder(folder.path)
    with again.locked():
        assert again.open(SETTINGS, {"n": 2}) == "resumed"
        assert again.topics_done(["tea", "rain"]) == ["tea"]
    assert [s["environment"]["n"] for s in again.manifest()["sessions"]] == [1, 2]


def test_a_finished_run_is_found_finished(folder):
    finish(folder)
    again = RunFolder(folder.path)
    with again.locked():
        assert again.open(SETTINGS, {}) == "complete"
        assert len(again.rows()) == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"k": 6}, r"settings\.k: expected 5 \(this run began so\), got 6"),
        ({"encoder": {"name": "fake", "dim": 4}}, r"settings\.encoder\.dim: expected 3"),
        ({"topics": ["tea"]}, r"settings\.topics"),
        ({"extra": 1}, r"settings\.extra"),
        (
            {"encoder": {**SETTINGS["encoder"], "parts": [{"name": "one", "text": "x" * 99}]}},
            r"settings\.encoder\.parts: expected 'nothing' \(this run began so\), got 1: one \(",
        ),
    ],
)
def test_other_settings_are_refused_by_field(folder, change, field):
    finish(folder)
    before = {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()}
    again = RunFolder(folder.path)
    with again.locked(), pytest.raises(InputError, match=field):
        again.open({**SETTINGS, **change}, {})
    assert {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()} == before


def test_overwrite_starts_anew_and_leaves_other_files(folder):
    finish(folder)
    for name in ("notes.txt", "tables/mine.csv", "trec/clean/mine.txt"):
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text("mine", encoding="utf-8")
    for name in ("tables/results.csv", "trec/clean/none.run", "trec/decoys/none.run"):
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text("ours", encoding="utf-8")
    again = RunFolder(folder.path)
    with again.locked():
        assert again.open({**SETTINGS, "k": 6}, {}, overwrite=True) == "new"
    assert not again.is_complete
    left = {str(p.relative_to(folder.path)) for p in folder.path.rglob("*") if p.is_file()}
    mine = {"notes.txt", "tables/mine.csv", "trec/clean/mine.txt"}
    assert left == mine | {"manifest.json", ".lock"}
    assert not (folder.path / "trec" / "decoys").exists()


def test_overwrite_does_not_follow_a_link_out_of_the_folder(folder, tmp_path):
    finish(folder)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "results.csv").write_text("mine", encoding="utf-8")
    (folder.path / "tables").symlink_to(elsewhere)
    with folder.locked():
        folder.open(SETTINGS, {}, overwrite=True)
    assert (elsewhere / "results.csv").read_text(encoding="utf-8") == "mine"


FOREIGN = {
    "a manifest of something else": {"manifest.json": '{"name": "app"}', "tables/data.csv": "1"},
    "one that only looks like ours": {
        "manifest.json": '{"format": 1, "settings": {"k": 5}, "settings_sha256": "0"}',
        "report.html": "mine",
    },
    "a manifest that is no JSON": {"manifest.json": "CACHE MANIFEST", "trec/a.run": "1"},
    "our names and no manifest": {"tables/results.csv": "1", "trec/clean/none.run": "1"},
    "one file": {"raw.parquet": "1"},
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_not_ours_is_left_alone_even_when_told_to_overwrite(folder, content, overwrite):
    for name, text in content.items():
        path = folder.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def start():
        with folder.locked():
            folder.open(SETTINGS, {}, overwrite=overwrite)

    for call in (start, lambda: folder.open(SETTINGS, {}, overwrite=overwrite)):
        with pytest.raises(InputError, match=r"^(manifest\.json|out): expected "):
            call()
    found = {
        str(p.relative_to(folder.path)): p.read_text(encoding="utf-8")
        for p in folder.path.rglob("*")
        if p.is_file()
    }
    assert found == content


def test_a_run_that_is_refused_before_it_wrote_leaves_no_folder(folder):
    with pytest.raises(InputError, match="config"), folder.locked():
        raise InputError("config", "one that fits the data", "another")
    assert not folder.path.exists()
    folder.path.mkdir()  # the user's own, though empty
    with pytest.raises(InputError, match="config"), folder.locked():
        raise InputError("config", "one that fits the data", "another")
    assert folder.path.exists()
    (folder.path / ".lock").unlink()
    folder.path.rmdir()
    with folder.locked():
        folder.open(SETTINGS, {})
    with pytest.raises(InputError, match=r"settings\.k"), folder.locked():
        folder.open({**SETTINGS, "k": 6}, {})
    assert (folder.path / "manifest.json").exists()


def test_a_lock_whose_folder_was_removed_meanwhile_is_refused(folder, monkeypatch):
    kept = run_folder.fcntl.flock

    def removed_first(descriptor, mode):
        (folder.path / ".lock").unlink()
        return kept(descriptor, mode)

    monkeypatch.setattr(run_folder.fcntl, "flock", removed_first)
    with pytest.raises(InputError, match="out: expected a folder that no run is using"):
        folder.locked().__enter__()


def test_an_empty_folder_is_taken(folder):
    folder.path.mkdir()
    with folder.locked():
        assert folder.open(SETTINGS, {}, overwrite=True) == "new"


def test_a_folder_of_something_else_is_left_alone(folder):
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(InputError, match=r"out: expected an empty folder.*'thesis\.tex'"):
        folder.locked().__enter__()
    assert sorted(p.name for p in folder.path.iterdir()) == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_refused(folder):
    folder.path.write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match="out: expected a folder, got a file"):
        folder.locked().__enter__()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"format": 1, "settings": {}}', b"\xff"])
def test_a_broken_manifest_is_refused(folder, content):
    finish(folder)
    (folder.path / "manifest.json").write_bytes(content)
    again = RunFolder(folder.path)
    with pytest.raises(InputError, match=r"manifest\.json"):
        again.locked().__enter__()
    with pytest.raises(InputError, match=r"manifest\.json"):
        again.open(SETTINGS, {}, overwrite=True)
    assert (folder.path / "raw.parquet").exists()


def test_a_manifest_of_another_format_is_refused(folder, monkeypatch):
    finish(folder)
    monkeypatch.setattr("epibias.experiment.run_folder.FORMAT", 99)
    with pytest.raises(InputError, match=r"manifest\.json: expected a manifest of format 99"):
        folder.open(SETTINGS, {})


def test_a_damaged_raw_table_of_a_finished_run_is_refused(folder):
    finish(folder)
    path = folder.path / "raw.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    again = RunFolder(folder.path)
    with again.locked(), pytest.raises(InputError, match=r"raw\.parquet: .*--overwrite"):
        again.open(SETTINGS, {})


def test_a_damaged_or_foreign_part_is_measured_again(folder):
    with folder.locked():
        folder.open(SETTINGS, {})
        folder.write_part("tea", [row("tea")])
        folder.write_part("rain", [row("rain")])
        part = folder.parts / "tea.parquet"
        part.write_bytes(part.read_bytes()[:40])
        raw.write(folder.parts / "rain.parquet", [row("rain")], "another run")
        assert folder.topics_done(["tea", "rain"]) == []


def test_leftovers_of_a_killed_process_go(folder):
    with folder.locked():
        folder.open(SETTINGS, {})
    (folder.path / "trec" / "clean").mkdir(parents=True)
    for place in (folder.path, folder.parts, folder.path / "trec" / "clean"):
        (place / ".unfinished-abc-x").write_text("half", encoding="utf-8")
    with folder.locked():
        folder.open(SETTINGS, {})
    assert not list(folder.path.rglob(".unfinished-*"))


def test_two_processes_cannot_share_a_folder(folder):
    code = (
        "import sys; from pathlib import Path\n"
        "from epibias.experiment.run_folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked(): pass"
    )
    with folder.locked():
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder.path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "a folder that no run is using" in done.stderr
    subprocess.run([sys.executable, "-c", code, str(folder.path)], check=True, timeout=60)


def test_files_are_private(folder):
    finish(folder)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / ".lock").exists()
    for path in folder.path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path.name


def test_reading_a_table_with_other_columns_is_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "raw.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), path)
    with pytest.raises(InputError, match="expected the columns of a raw table"):
        raw.read(path)


def test_settings_hash_does_not_depend_on_the_order_of_keys():
    assert settings_hash({"a": 1, "b": 2}) == settings_hash({"b": 2, "a": 1})
    assert settings_hash({"a": 1}) != settings_hash({"a": 2})


def test_identity_and_environment_say_nothing_about_the_user():
    text = json.dumps([code_identity(), environment()])
    assert os.path.expanduser("~") not in text
    assert os.uname().nodename not in text
    assert len(code_identity()["code_sha256"]) == 64


def test_a_rebuilt_core_outside_the_package_is_other_code(tmp_path, monkeypatch):
    """An editable install loads the core from elsewhere: its bytes count, wherever they are."""
    import epibias._core

    assert manifest.core_file().samefile(epibias._core.__file__)
    before = manifest.code_sha256()
    rebuilt = tmp_path / "_core.so"
    rebuilt.write_bytes(manifest.core_file().read_bytes())
    monkeypatch.setattr(epibias._core.__spec__, "origin", str(rebuilt))
    assert manifest.code_sha256() == before
    rebuilt.write_bytes(b"another build")
    assert manifest.code_sha256() != before
