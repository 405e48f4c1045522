"""A sealed store: nothing in clear on the disk, nothing without its key, every change noticed."""

from __future__ import annotations

import os

import numpy as np
import pytest

from epibias.cli import main
from epibias.errors import InputError
from epibias.index import IndexStore
from epibias.index.integrity import check_store
from epibias.index.sealing import CHUNK, Sealer, new_key, read_key, write_key
from epibias.index.staging_copy import copy_store
from epibias.retrieval import CosineIndex
from fake_encoder import FakeEncoder
from index_stores import POLICY, QUERIES, Clock, add, first_pages, page

KEY = bytes(range(32))
LOGGED = b"log_query_text = true\n" + POLICY


def make(folder):
    store = IndexStore.create(folder, LOGGED, FakeEncoder(), by="ops", clock=Clock(), key=KEY)
    version = store.stage(first_pages(), by="ops", reason="first")
    store.promote(version.id, by="ops", reason="first")
    store.golden.add(QUERIES, store.policy, by="ops")
    for topic, rule in store.policy.topics.items():
        store.review_baselines(topic, by=rule.owner, reason="first review")
    return store


@pytest.fixture
def store(tmp_path):
    return make(tmp_path / "store")


def everything_on_disk(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_sealed_store_lives_like_any_other_and_nothing_lies_in_clear(store):
    add(store, page("n1", "a note on the zanzibar bicycles"))
    assert store.search("zanzibar bicycles").passages[0].passage == "n1"
    attack = "recover a locked account how to recover a locked account without checks"
    bad = store.stage([page("x", attack, account="eve")], by="ops", reason="r")
    assert store.promote(bad.id, by="ops", reason="r").held
    store.rollback(by="ops", reason="r")
    assert check_store(store).problems == ()
    # The catalogue is read as well: who copies the folder has all of it.
    content = everything_on_disk(store.versions.folder)
    vector = FakeEncoder().encode([QUERIES[0].text])[0].tobytes()
    for secret in (
        b"zanzibar",
        b"without checks",
        b"how to recover",
        vector,
        KEY,
        KEY.hex().encode(),
    ):
        assert secret not in content


def test_embeddings_are_in_memory_read_only_and_taken_without_a_copy(store):
    vectors = store.reader(everything=True).files.vectors
    expected = FakeEncoder().encode([one.passage.text for one in first_pages()])
    np.testing.assert_array_equal(vectors, expected)
    assert vectors.ctypes.data % 64 == 0
    assert CosineIndex(vectors).embeddings is vectors
    with pytest.raises(ValueError, match="read-only"):
        vectors[0, 0] = 1


def test_without_its_key_or_with_another_it_is_refused(store, monkeypatch, tmp_path):
    folder = store.versions.folder
    monkeypatch.delenv("EPIBIAS_INDEX_KEY", raising=False)
    with pytest.raises(InputError, match=r"key: expected the key \w{16} of this store.*got none"):
        IndexStore(folder)
    with pytest.raises(InputError, match=r"key: expected the key \w{16} .*got the key \w{16}"):
        IndexStore(folder, key=new_key())
    with pytest.raises(InputError, match="key: expected 32 bytes, got 5"):
        IndexStore(folder, key=b"short")
    monkeypatch.setenv("EPIBIAS_INDEX_KEY", KEY.hex())
    assert IndexStore(folder).reader().visible.all()
    monkeypatch.delenv("EPIBIAS_INDEX_KEY")
    path = tmp_path / "key"
    path.write_text(KEY.hex() + "\n")
    path.chmod(0o600)
    monkeypatch.setenv("EPIBIAS_INDEX_KEY_FILE", str(path))
    assert IndexStore(folder).reader().visible.all()
    IndexStore.create(tmp_path / "open", POLICY, by="ops")
    with pytest.raises(InputError, match="key: expected none: this store is not sealed"):
        IndexStore(tmp_path / "open", key=KEY)


def test_a_key_file_is_private_new_and_never_shown(tmp_path):
    path = tmp_path / "key"
    write_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_key(path)) == 32
    with pytest.raises(InputError, match="a file that does not exist"):
        write_key(path)
    path.chmod(0o640)
    with pytest.raises(InputError, match="mode 600: only its owner reads it, got 640"):
        read_key(path)
    path.chmod(0o600)
    path.write_text("5ecre7" * 10)
    with pytest.raises(InputError, match="64 hexadecimal digits, got 60 characters") as caught:
        read_key(path)
    assert "5ecre7" not in str(caught.value)
    with pytest.raises(InputError, match="a file that can be read"):
        read_key(tmp_path / "nothing")


def test_a_key_that_another_process_has_just_written_is_not_lost(tmp_path, monkeypatch):
    path = tmp_path / "key"
    write_key(path)
    before = path.read_bytes()
    monkeypatch.setattr("pathlib.Path.exists", lambda _: False)  # looked before the other wrote
    with pytest.raises(InputError, match="a file that does not exist"):
        write_key(path)
    assert path.read_bytes() == before


def test_a_key_beside_the_data_is_refused(store, monkeypatch):
    folder = store.versions.folder
    path = folder / "versions" / "key"
    write_key(path)
    path.write_text(KEY.hex() + "\n")
    monkeypatch.delenv("EPIBIAS_INDEX_KEY", raising=False)
    monkeypatch.setenv("EPIBIAS_INDEX_KEY_FILE", str(path))
    with pytest.raises(InputError, match="key file: expected a file outside the store") as caught:
        IndexStore(folder)
    assert KEY.hex() not in str(caught.value)
    moved = folder.parent / "key"
    path.replace(moved)
    monkeypatch.setenv("EPIBIAS_INDEX_KEY_FILE", str(moved))
    assert IndexStore(folder).reader().visible.all()


@pytest.mark.parametrize("name", ["vectors.npy.sealed", "rows.parquet.sealed", "manifest.json"])
@pytest.mark.parametrize("change", ["flip", "cut"])
def test_a_changed_file_is_named(store, name, change):
    path = store.versions.folder / "versions" / store.current.version / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content if change == "flip" else content[:-1])
    fresh = IndexStore(store.versions.folder, FakeEncoder(), clock=Clock(), key=KEY)
    with pytest.raises(InputError, match=name):
        fresh.reader()
    assert name in "".join(check_store(fresh).problems)


def test_a_change_is_noticed_by_the_cipher_alone_with_its_chunk(store):
    """Whoever put hash and size right, too, has no key."""
    version = store.current.version
    path = store.versions.folder / "versions" / version / "rows.parquet.sealed"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"what was sealed with this key.*chunk 0"):
        store.versions.open(version, hashes=False)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 7])
def test_a_file_comes_back_whatever_its_size(tmp_path, size):
    content = os.urandom(size)
    path = written(tmp_path / "file", Sealer(KEY), content)
    assert Sealer(KEY).open_file(path, "rows")[:size] == content
    with pytest.raises(InputError, match="it was changed"):
        Sealer(KEY).open_file(path, "vectors")  # sealed as something else
    with pytest.raises(InputError, match="it was changed"):
        Sealer(new_key()).open_file(path, "rows")


def written(path, sealer, content):
    chunks = sealer.chunks("rows")
    parts = [chunks.header]
    parts += [chunks.add(content[n : n + 700_000]) for n in range(0, len(content), 700_000)]
    path.write_bytes(b"".join([*parts, chunks.finish()]))
    return path


def test_chunks_cannot_be_swapped_dropped_or_taken_from_another_file(tmp_path):
    content = os.urandom(3 * CHUNK)
    sealer = Sealer(KEY)
    path, other = (written(tmp_path / name, sealer, content) for name in ("one", "two"))
    whole, strange = path.read_bytes(), other.read_bytes()
    header, size = 48, CHUNK + 16
    chunk = [whole[header + n * size : header + (n + 1) * size] for n in range(3)]
    for broken in (
        [chunk[1], chunk[0], chunk[2]],
        [chunk[0], chunk[1]],
        [chunk[0], chunk[2]],
        [chunk[0], strange[header + size : header + 2 * size], chunk[2]],
    ):
        path.write_bytes(whole[:header] + b"".join(broken))
        with pytest.raises(InputError, match="it was changed"):
            sealer.open_file(path, "rows")


def test_small_values_are_bound_to_what_they_are_about():
    sealer = Sealer(KEY)
    sealed = sealer.seal_text("who signs", "golden query G1")
    assert sealer.seal_text("who signs", "golden query G1") != sealed
    assert sealer.open_text(sealed, "golden query G1") == "who signs"
    for wrong, about in ((sealed, "golden query G2"), (sealed[:-4] + "AAAA", "golden query G1")):
        with pytest.raises(InputError, match="it was changed"):
            sealer.open_text(wrong, about)
    with pytest.raises(InputError, match="a sealed value"):
        sealer.open_text("in clear!", "golden query G1")


def test_a_logged_query_is_sealed_and_read_by_an_investigation(store):
    from epibias.index.investigate import investigate

    store.search("who signs a large refund")
    line = next(store.retrievals.lines(["answer"]))
    assert "refund" not in str(line.body["query"])
    found = investigate(store, passage="d1", everything=True)
    assert [one["query"] for one in found.answers] == ["who signs a large refund"]


def test_a_copy_to_attack_is_sealed_too(store, tmp_path):
    copy = copy_store(store, tmp_path / "copy")
    assert check_store(copy).problems == ()
    assert b"locked account" not in everything_on_disk(tmp_path / "copy")


def test_a_sealed_store_is_made_from_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").write_bytes(POLICY)
    monkeypatch.delenv("EPIBIAS_INDEX_KEY", raising=False)
    make = ("index", "init", "s", "--policy", "policy.toml", "--by", "ops", "--sealed")
    assert main(make) == 2
    assert "--sealed: expected a key in EPIBIAS_INDEX_KEY" in capsys.readouterr().err
    assert main(["index", "new-key", "key"]) == 0
    monkeypatch.setenv("EPIBIAS_INDEX_KEY_FILE", "key")
    assert main(make) == 0
    monkeypatch.delenv("EPIBIAS_INDEX_KEY_FILE")
    assert main(["index", "versions", "s"]) == 2
    error = capsys.readouterr().err
    assert "key: expected the key" in error
    assert (tmp_path / "key").read_text().strip() not in error
