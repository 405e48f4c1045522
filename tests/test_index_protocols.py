"""What every store must do behind the protocols: files, sealed files, SQLite, memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow
import pytest

from epibias.errors import InputError
from epibias.index import IndexStore
from epibias.index.diff import diff_versions
from epibias.index.gate import GateInputs, run_gate
from epibias.index.protocols import RowsView
from epibias.index.reader import Elevation, IndexReader
from epibias.index.rows import Row
from epibias.index.sqlite_version import SqliteVersion, write_sqlite_version
from fake_encoder import DIM, FakeEncoder
from index_stores import POLICY, QUERIES, Clock, first_pages, make_store, page

KINDS = ("files", "sealed", "sqlite", "memory")


class MemoryRows:
    """A list of rows with the methods that the protocol asks for."""

    def __init__(self, rows):
        self._rows = rows
        self.source_names = tuple(sorted({row.passage.source for row in rows}))
        self.source_codes = np.array(
            [self.source_names.index(row.passage.source) for row in rows], np.int32
        )

    def __len__(self):
        return len(self._rows)

    def ids(self, rows):
        return [self._rows[row].passage.id for row in rows]

    def lineages(self, rows):
        return [self._rows[row].lineage for row in rows]

    def find(self, ids):
        return self._found([row.passage.id for row in self._rows], ids)

    def find_lineages(self, lineages):
        return self._found([row.lineage for row in self._rows], lineages)

    def _found(self, known, wanted):
        return np.array([known.index(one) if one in known else -1 for one in wanted], np.int64)

    def source(self, row):
        return self._rows[row].passage.source

    def account(self, row):
        return self._rows[row].account

    def rows_of_sources(self, names):
        return np.array([row.passage.source in names for row in self._rows], bool)

    def rows_of_accounts(self, names):
        return np.array([row.account in names for row in self._rows], bool)

    def visible_to(self, tenant):
        return np.array([row.tenant in (None, tenant) for row in self._rows], bool)

    def read(self, rows):
        return [self._rows[row] for row in rows]

    def content_hashes(self):
        return pyarrow.array([row.content_sha256 for row in self._rows], pyarrow.large_string())

    def times(self):
        return [row.passage.time for row in self._rows]


@dataclass
class MemoryVersion:
    id: str
    vectors: np.ndarray
    rows: MemoryRows


def version_of(kind, folder, name, rows, vectors):
    """The same version in another store."""
    if kind == "memory":
        return MemoryVersion(name, vectors, MemoryRows(rows))
    if kind == "sqlite":
        halves = [slice(None, len(rows) // 2), slice(len(rows) // 2, None)]
        path = folder / f"{name}.sqlite"
        write_sqlite_version(path, name, [(rows[half], vectors[half]) for half in halves])
        return SqliteVersion(path)
    key = bytes(32) if kind == "sealed" else None
    store = IndexStore.create(folder / name, POLICY, by="ops", clock=Clock(), key=key)
    # Staged as it is: lineages, tiers and accounts follow from the pages.
    pages = [
        page(row.passage.id, row.passage.text, row.passage.source, row.account, tenant=row.tenant)
        for row in rows
    ]
    identity = {"name": "fake", "dim": DIM}
    made = store.stage(pages, by="ops", reason="r", embeddings=vectors, encoder_identity=identity)
    return store.versions.open(made.id)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Two versions: an attack came, a page left; some pages have tenants."""
    pages = first_pages()
    pages[10:13] = [replace(one, tenant="acme") for one in pages[10:13]]
    store = make_store(tmp_path_factory.mktemp("protocol") / "store", pages)
    first = store.current.version
    attack = page("x", "recover a locked account, how to recover it", account="eve")
    second = store.stage([attack], by="ops", reason="r", removals=["w3"]).id
    return store, [store.read_version(name, everything=True) for name in (first, second)]


@pytest.fixture(scope="module", params=KINDS)
def both(original, request, tmp_path_factory):
    _, readers = original
    folder = tmp_path_factory.mktemp(request.param)
    return [
        version_of(
            request.param,
            folder,
            reader.files.id,
            reader.files.rows.read(range(len(reader.files.rows))),
            np.array(reader.files.vectors),
        )
        for reader in readers
    ]


def read(version, store, **options):
    return IndexReader(version, store.policy, **options)


def test_rows_are_found_and_read_as_they_were_written(original, both):
    _, (expected, _) = original
    rows: RowsView = both[0].rows
    n = len(expected.files.rows)
    everything = np.arange(n)
    assert len(rows) == n
    assert rows.read(everything) == expected.files.rows.read(everything)
    some = np.array([7, 0, 7, n - 1])
    assert rows.ids(some) == expected.files.rows.ids(some)
    assert rows.lineages(some) == expected.files.rows.lineages(some)
    assert [row.passage.id for row in rows.read(some)] == rows.ids(some)
    assert rows.read([]) == []
    for find in ("find", "find_lineages"):
        wanted = ["w5", "wiki:w5", "nothing", "h1"]
        found = getattr(rows, find)(wanted)
        assert found.dtype == np.int64
        assert found.tolist() == getattr(expected.files.rows, find)(wanted).tolist()
        assert len(getattr(rows, find)([])) == 0


def test_masks_and_columns_are_the_same(original, both):
    _, (expected, _) = original
    rows, known = both[0].rows, expected.files.rows
    for row in (0, 3, 11):
        assert (rows.source(row), rows.account(row)) == (known.source(row), known.account(row))
        assert rows.source_names[rows.source_codes[row]] == known.source(row)
    for name in ("rows_of_sources", "rows_of_accounts"):
        for wanted in (["wiki", "mo"], ["nobody"], []):
            found = getattr(rows, name)(wanted)
            assert found.dtype == np.bool_
            assert found.tolist() == getattr(known, name)(wanted).tolist()
            found[:] = True  # the caller's own array
    for tenant in (None, "acme", "other"):
        assert rows.visible_to(tenant).tolist() == known.visible_to(tenant).tolist()
    assert set(rows.times()) == set(known.times())
    hashes = rows.content_hashes()
    assert hashes.to_pylist() == known.content_hashes().to_pylist()


def test_vectors_are_float32_whole_and_not_to_be_changed(original, both):
    _, readers = original
    for version, reader in zip(both, readers, strict=True):
        assert version.vectors.dtype == np.float32
        np.testing.assert_array_equal(version.vectors, reader.files.vectors)
        if not isinstance(version, MemoryVersion):
            assert not version.vectors.flags.writeable


def test_the_gate_finds_the_same(original, both):
    store, readers = original
    inputs = GateInputs(
        QUERIES,
        FakeEncoder().encode([query.text for query in QUERIES]),
        store.golden.baselines(),
        {},
        "2026-09-01T00:00:00+00:00",
    )
    expected = run_gate(*readers, inputs)
    report, newcomers = run_gate(*(read(one, store, everything=True) for one in both), inputs)
    names = {"version": both[1].id, "trusted": both[0].id}
    assert (report, newcomers) == (replace(expected[0], **names), expected[1])
    assert report.fired


def test_selection_elevation_and_diff_are_the_same(original, both):
    store, readers = original
    queries = FakeEncoder().encode([query.text for query in QUERIES])
    found = [read(one, store, everything=True) for one in both]
    for topics in (["recovery", "refunds"], [None, None]):
        for old, new in zip(readers, found, strict=True):
            pairs = zip(old.select(queries, topics), new.select(queries, topics), strict=True)
            assert all(a.rows.tolist() == b.rows.tolist() for a, b in pairs)
    differs = diff_versions(*found)
    assert [one.passage for one in differs.added] == ["x"]
    assert [one.passage for one in differs.removed] == ["w3"]
    (page_w5,) = both[0].rows.read(both[0].rows.find(["w5"]))
    elevation = Elevation("recovery", "w5", page_w5.content_sha256, 2)
    elevated = read(both[0], store, everything=True, elevations=[elevation])
    assert elevated.eligible("recovery")[both[0].rows.find(["w5"])[0]]


def test_a_tenant_is_kept_out(original, both):
    store, _ = original
    private = both[0].rows.find(["w6", "w7", "w8"])
    query = FakeEncoder().encode(["note 6 about lunch room plants and parking 42"])
    for tenant, sees in (("acme", True), ("other", False), (None, False)):
        reader = read(both[0], store, tenant=tenant)
        (found,) = reader.similar(query, 100)
        assert bool(np.isin(private, found.rows).all()) == sees
        assert bool(np.isin(private, found.rows).any()) == sees
        assert found.short


def test_a_sqlite_version_is_whole_private_and_refuses_what_it_cannot_hold(tmp_path):
    (one,) = [page("p", "text")]
    row = Row(replace(one.passage, tier=3), "wiki:p", "ann", None)
    path = tmp_path / "v.sqlite"
    with pytest.raises(InputError, match="passages: expected at least one"):
        write_sqlite_version(path, "v", [])
    with pytest.raises(InputError, match="passage 'p'"):
        write_sqlite_version(path, "v", [([row], np.zeros((1, 4), np.float32))])
    other = replace(row, lineage="wiki:q", passage=replace(row.passage, id="q"))
    batches = [([one], np.ones((1, dim), np.float32)) for one, dim in ((row, 4), (other, 3))]
    with pytest.raises(InputError, match="embeddings: expected 4 columns"):
        write_sqlite_version(path, "v", batches)
    assert not path.exists()
    write_sqlite_version(path, "v", [([row], np.ones((1, 4), np.float32))])
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"rubbish" * 100)
    with pytest.raises(InputError, match="version: expected a file of write_sqlite_version"):
        SqliteVersion(path)
