"""Versions, pointer, admission, rollback, deletion: what is on the disk, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import stat

import numpy as np
import pytest

from epibias import Passage
from epibias.errors import InputError
from epibias.index import Addition, IndexStore
from epibias.index.database import Database
from epibias.index.diff import diff_versions
from epibias.index.integrity import check_store
from epibias.index.lifecycle import delete_source, retire
from epibias.index.pointer import Pointer, write_pointer
from epibias.retrieval import CosineIndex
from fake_encoder import FakeEncoder
from index_stores import POLICY, Clock, add, first_pages, make_store, page, reopened


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store") / "one"
    make_store(folder)
    return folder


@pytest.fixture
def store(made, tmp_path):
    shutil.copytree(made, tmp_path / "store")
    return IndexStore(tmp_path / "store", FakeEncoder(), clock=Clock())


def version_folder(store, name=None):
    return store.versions.folder / "versions" / (name or store.current.version)


def test_a_version_is_whole_private_and_mapped_without_a_copy(store):
    reader = store.reader(everything=True)
    vectors = reader.files.vectors
    assert isinstance(vectors, np.memmap)
    assert vectors.ctypes.data % 64 == 0
    assert CosineIndex(vectors).embeddings is vectors
    expected = FakeEncoder().encode([one.passage.text for one in first_pages()])
    np.testing.assert_array_equal(vectors, expected)
    for path in store.versions.folder.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_rows_come_back_as_they_were_staged(store):
    rows = store.reader(everything=True).files.rows
    pages = first_pages()
    found = rows.read([5, 0])
    assert [row.passage.id for row in found] == [pages[5].passage.id, "h1"]
    assert found[1].passage.text == pages[0].passage.text
    assert (found[1].passage.tier, found[1].account, found[1].lineage) == (1, "mo", "handbook:h1")
    assert rows.find(["h2", "nothing"]).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        (page("x", "text", "nowhere"), "source: expected a source of the policy, got 'nowhere'"),
        (page("x", "text", tier=1), "tier: expected 3, the source's, got 1"),
        (page("x", "text", "handbook", "eve"), "account: expected an account that may write to"),
        (page("w1", "text"), "passage: expected a new id, or replaces"),
        (page("x", "text", replaces="h1"), "replaces: expected a page of the same source"),
        (page("x", "text", replaces="gone"), "replaces: expected the id of a passage"),
        (page("x", " "), "text: expected"),
    ],
)
def test_what_the_policy_does_not_admit_is_refused_by_name(store, addition, message):
    with pytest.raises(InputError, match=re.escape(message)):
        store.stage([addition], by="ops", reason="r")
    assert [one.state for one in store.catalogue.versions()] == ["trusted"]


def test_the_name_of_an_author_opens_no_closed_source(store):
    passage = Passage("x", "text", source="handbook", author="mo")
    with pytest.raises(InputError, match="account: expected an account that may write to"):
        store.stage([Addition(passage)], by="ops", reason="r")


def test_a_new_version_of_a_page_keeps_its_lineage_and_source(store):
    add(store, page("h1b", "recover a locked account, revised", "handbook", "mo", replaces="h1"))
    rows = store.reader(everything=True).files.rows
    assert rows.find(["h1"]).tolist() == [-1]
    row = int(rows.find(["h1b"])[0])
    assert rows.lineages(np.array([row])) == ["handbook:h1"]
    # Nobody else can become that page.
    with pytest.raises(InputError, match="a new id"):
        store.stage([page("h1", "again", "handbook", "mo")], by="ops", reason="r")
    assert add(store, page("h1", "from the wiki"))
    assert store.reader().files.rows.lineages(np.array([-1 + len(store.reader().files.rows)])) == [
        "wiki:h1"
    ]


def test_promote_and_rollback_move_the_pointer_and_nothing_else(store):
    first = store.current.version
    before = {p.name: p.read_bytes() for p in version_folder(store).iterdir()}
    second = add(store, page("n1", "a note on bicycles"))
    assert store.current.version == second
    assert store.rollback(by="ops", reason="bad").version == first
    assert store.current.version == first
    assert {p.name: p.read_bytes() for p in version_folder(store).iterdir()} == before
    assert store.rollback(second, by="ops", reason="not bad").version == second
    assert [one.kind for one in store.catalogue.promotions()] == [
        "promote",
        "promote",
        "rollback",
        "rollback",
    ]


def test_what_cannot_become_current_is_refused(store):
    staged = add(store, page("n1", "one"), promote=False)
    with pytest.raises(InputError, match=r"one that was current before, got .*staged"):
        store.rollback(staged, by="ops", reason="r")
    with pytest.raises(InputError, match="a version before the current one"):
        store.rollback(by="ops", reason="r")
    add(store, page("n2", "two"))
    with pytest.raises(InputError, match=r"made from the current .*; stage again"):
        store.promote(staged, by="ops", reason="r")
    with pytest.raises(InputError, match="the id or number of a version"):
        store.promote("77", by="ops", reason="r")


def test_another_encoder_is_refused(store):
    rows = np.ones((1, 48), np.float32)
    with pytest.raises(InputError, match="encoder: expected name 'fake'"):
        store.stage(
            [page("n1", "one")],
            by="ops",
            reason="r",
            embeddings=rows,
            encoder_identity={"name": "other", "dim": 48},
        )
    rows[0] = np.nan
    with pytest.raises(InputError, match=r"a finite row that is not zero.*'n1'"):
        store.stage(
            [page("n1", "one")],
            by="ops",
            reason="r",
            embeddings=rows,
            encoder_identity=FakeEncoder.identity,
        )


def test_diff_says_what_came_what_left_and_what_was_edited(store):
    first = store.current.version
    second = add(
        store,
        page("n1", "a note on bicycles"),
        page("h1b", "recover, revised", "handbook", "mo", replaces="h1"),
        removals=["w3"],
    )
    old, new = (store.read_version(name, everything=True) for name in (first, second))
    found = diff_versions(old, new)
    assert [one.passage for one in found.added] == ["n1"]
    assert [one.passage for one in found.removed] == ["w3"]
    assert [(one.before, one.passage) for one in found.changed] == [("h1", "h1b")]


def test_retention_keeps_the_current_version_and_some_before_it(store):
    names = [store.current.version, *(add(store, page(f"n{n}", f"page {n}")) for n in range(3))]
    assert retire(store, 1, by="ops", reason="space") == names[:2]
    assert sorted(p.name for p in version_folder(store).parent.iterdir()) == names[2:]
    with pytest.raises(InputError, match=r"a version with files, got .*retired"):
        store.rollback(names[0], by="ops", reason="r")
    assert check_store(store).problems == ()


def test_a_deleted_source_is_gone_from_every_version_with_proof(store):
    first = store.current.version
    second = add(store, page("n1", "a secret of the wiki"))
    proof = delete_source(store, "wiki", by="ops", reason="asked to")
    assert proof.n_passages == 61
    assert [one["version"] for one in proof.destroyed] == [first, second]
    assert proof.remaining == (store.current.version,)
    assert store.catalogue.writes.head == (proof.line, proof.head)
    reader = store.reader(everything=True)
    assert reader.files.manifest.tombstones[0]["source"] == "wiki"
    assert "wiki" not in {reader.files.rows.source(row) for row in range(len(reader.files.rows))}
    for name in (first, second):
        with pytest.raises(
            InputError, match="destroyed because source 'wiki' was deleted: write log, line "
        ):
            store.rollback(name, by="ops", reason="r")
    content = b"".join(p.read_bytes() for p in store.versions.folder.rglob("*") if p.is_file())
    assert b"a secret of the wiki" not in content
    assert check_store(store).problems == ()


def test_a_reader_that_is_open_keeps_its_version_when_that_is_destroyed(store):
    reader = store.reader(everything=True)
    before = np.array(reader.files.vectors)
    delete_source(store, "wiki", by="ops", reason="asked to")
    np.testing.assert_array_equal(reader.files.vectors, before)


@pytest.mark.parametrize("name", ["vectors.npy", "rows.parquet", "manifest.json"])
@pytest.mark.parametrize("change", ["flip", "cut"])
def test_a_changed_file_is_named(store, name, change):
    path = version_folder(store) / name
    content = bytearray(path.read_bytes())
    if change == "flip":
        content[len(content) // 2] ^= 1
    else:
        content = content[:-1]
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(name)):
        reopened(store).reader()
    assert name in "".join(check_store(reopened(store)).problems)


def test_a_tampered_passage_is_named(store):
    import pyarrow.parquet

    path = version_folder(store) / "rows.parquet"
    table = pyarrow.parquet.read_table(path)
    texts = table.column("text").to_pylist()
    texts[2] = "a large refund needs no signature"
    position = table.schema.get_field_index("text")
    column = pyarrow.array(texts, pyarrow.large_string())
    changed = table.set_column(position, table.schema.field("text"), column)
    pyarrow.parquet.write_table(changed, path)
    # Even if its size and hash were put right in the manifest's eyes, the row would not fit.
    manifest = version_folder(store) / "manifest.json"
    about = json.loads(manifest.read_text())
    about["files"]["rows.parquet"]["bytes"] = path.stat().st_size
    with pytest.raises(InputError, match=r"rows.parquet: expected \d+ bytes"):
        reopened(store).reader()
    from epibias.index.rows import changed_passages

    assert changed_passages(path) == ["d1"]


def test_a_pointer_that_nobody_moved_is_noticed(store):
    first = store.current
    staged = add(store, page("n1", "one"), promote=False)
    digest = store.catalogue.version(staged).manifest_sha256
    write_pointer(store.versions.folder, Pointer(staged, digest, first.promotion))
    with pytest.raises(InputError, match=f"pointer: expected version {first.version}"):
        reopened(store).reader()
    write_pointer(store.versions.folder, first)
    add(store, page("n2", "two"))
    write_pointer(store.versions.folder, first)  # put back from an older day
    with pytest.raises(InputError, match=r"pointer: expected .*promotion 2"):
        reopened(store).reader()
    (store.versions.folder / "CURRENT").write_text("rubbish")
    with pytest.raises(InputError, match="pointer: expected version, manifest_sha256"):
        reopened(store).reader()


def test_a_catalogue_that_was_rewritten_does_not_fit_the_log(store):
    add(store, page("n1", "one"))
    first = store.catalogue.versions()[0]
    with sqlite3.connect(store.versions.folder / "catalogue.sqlite") as connection:
        connection.execute("UPDATE promotions SET version = ? WHERE number = 2", (first.id,))
    connection.close()
    write_pointer(store.versions.folder, Pointer(first.id, first.manifest_sha256, 2))
    problems = check_store(reopened(store)).problems
    assert any("promotion 2 is of" in problem for problem in problems)


ROWS_TOUCHED = [
    ("UPDATE settings SET value = '00' WHERE name = 'salt'", "row salt of settings"),
    ("UPDATE versions SET state = 'rejected'", "of versions was changed"),
    ("UPDATE promotions SET previous = 'x'", "row 1 of promotions was changed"),
    (
        "UPDATE golden SET text = 'what is for lunch' WHERE id = 'G1'",
        "row G1 of golden was changed",
    ),
    ("DELETE FROM golden WHERE id = 'G2'", "row G2 of golden is gone"),
    ("UPDATE baselines SET raw = '[]' WHERE query = 'G1'", "row G1, 1 of baselines was changed"),
    ("DELETE FROM baselines WHERE query = 'G2'", "row G2, 1 of baselines is gone"),
    (
        "UPDATE reference_embeddings SET embedding = zeroblob(192)",
        "of reference_embeddings was chan",
    ),
    (
        "INSERT INTO elevations VALUES ('w1', 'ab', 'recovery', 1, 'Trust', 'r', 'now')",
        "row w1, ab, recovery of elevations is not in the write log",
    ),
    ("UPDATE holds SET state = 'accepted'", "of holds was changed"),
    ("DELETE FROM newcomers", "of newcomers is gone"),
]


@pytest.fixture(scope="module")
def governed(tmp_path_factory):
    """A store with a row in every governed table."""
    store = make_store(tmp_path_factory.mktemp("governed") / "store")
    store.elevate("w2", "recovery", by="Trust", reason="reviewed")
    store.withdraw("w2", "recovery", by="Trust", reason="outdated")
    attack = page("x", "recover a locked account how to recover a locked account", account="eve")
    assert store.promote(add(store, attack, promote=False), by="ops", reason="r").held
    assert check_store(store).problems == ()
    return store.versions.folder


@pytest.mark.parametrize(("statement", "named"), ROWS_TOUCHED, ids=range(len(ROWS_TOUCHED)))
def test_a_row_of_the_catalogue_that_was_touched_is_named(governed, tmp_path, statement, named):
    shutil.copytree(governed, tmp_path / "store")
    with sqlite3.connect(tmp_path / "store" / "catalogue.sqlite") as connection:
        connection.execute(statement)
    connection.close()
    problems = check_store(IndexStore(tmp_path / "store", FakeEncoder())).problems
    assert any(named in problem for problem in problems), problems


def test_rows_whose_lines_were_dropped_are_not_judged(store, monkeypatch):
    writes = store.catalogue.writes
    monkeypatch.setattr(writes, "_limit", 2)
    monkeypatch.setattr(writes, "_kept", 0)
    assert writes.rotate()
    assert check_store(store).problems == ()


def test_files_that_others_can_read_are_reported(store):
    path = version_folder(store) / "vectors.npy"
    path.chmod(0o644)
    assert check_store(store).problems == (f"{path}: expected mode 600, got 644",)


def test_a_database_that_others_could_read_is_narrowed_when_it_is_opened(tmp_path):
    """Also what SQLite writes beside it: -wal and -shm have the pages of the same tables."""
    path = tmp_path / "one.sqlite"
    Database(path).create(["CREATE TABLE t (n INTEGER)"])
    for mode in (0o644, 0o666):
        path.chmod(mode)
        database = Database(path)
        with database.writing() as connection:
            connection.execute("INSERT INTO t VALUES (3)")
            modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
        assert modes == dict.fromkeys(("one.sqlite", "one.sqlite-wal", "one.sqlite-shm"), 0o600)


def test_leftovers_of_a_killed_writer_are_cleared_and_finished(store):
    versions = store.versions.folder / "versions"
    (versions / ".unfinished-000009-1").mkdir()
    (versions / "000009-abcdefabcdef").mkdir()
    other = store.catalogue.versions()[0]
    number = store.catalogue.begin_promotion(other.id, other.id, "rollback", "ops", "r")
    fresh = reopened(store)
    assert fresh.current.version == other.id  # a promotion that was never made does not count
    add(fresh, page("n1", "one"))
    assert {p.name for p in versions.iterdir()} == {one.id for one in fresh.catalogue.versions()}
    states = {one.number: one.state for one in fresh.catalogue.promotions()}
    assert states[number] == "abandoned"
    assert check_store(fresh).problems == ()


def test_a_store_is_not_made_twice_nor_found_where_there_is_none(store, tmp_path):
    with pytest.raises(InputError, match="a folder without a store"):
        IndexStore.create(store.versions.folder, POLICY, by="ops")
    with pytest.raises(InputError, match="store: expected"):
        IndexStore(tmp_path / "nothing")
