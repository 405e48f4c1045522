"""A version of another store, in memory: read, gated and compared the same way as one of files."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow
import pytest

from epibias.index.diff import diff_versions
from epibias.index.gate import GateInputs, run_gate
from epibias.index.reader import IndexReader
from fake_encoder import FakeEncoder
from index_stores import QUERIES, make_store, page


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


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Two versions as files, and the same two in memory."""
    store = make_store(tmp_path_factory.mktemp("protocol") / "store")
    first = store.current.version
    attack = page("x", "recover a locked account, how to recover it", account="eve")
    second = store.stage([attack], by="ops", reason="r", removals=["w3"]).id
    on_disk = [store.read_version(name, everything=True) for name in (first, second)]
    in_memory = []
    for reader in on_disk:
        rows = reader.files.rows.read(range(len(reader.files.rows)))
        version = MemoryVersion(reader.files.id, np.array(reader.files.vectors), MemoryRows(rows))
        in_memory.append(IndexReader(version, store.policy, everything=True))
    return store, on_disk, in_memory


def test_the_gate_finds_the_same(both):
    store, on_disk, in_memory = both
    inputs = GateInputs(
        QUERIES,
        FakeEncoder().encode([query.text for query in QUERIES]),
        store.golden.baselines(),
        {},
        lambda _: frozenset(),
        "2026-09-01T00:00:00+00:00",
    )
    expected, found = (run_gate(*readers, inputs) for readers in (on_disk, in_memory))
    assert found == expected
    assert expected[0].fired


def test_selection_and_diff_are_the_same(both):
    _, on_disk, in_memory = both
    queries = FakeEncoder().encode([query.text for query in QUERIES])
    for topics in (["recovery", "refunds"], [None, None]):
        for old, new in zip(on_disk, in_memory, strict=True):
            pairs = zip(old.select(queries, topics), new.select(queries, topics), strict=True)
            assert all(a.rows.tolist() == b.rows.tolist() for a, b in pairs)
    found = diff_versions(*in_memory)
    assert found == diff_versions(*on_disk)
    assert [one.passage for one in found.added] == ["x"]
    assert [one.passage for one in found.removed] == ["w3"]


def test_a_tenant_of_another_store_is_kept_out_too(both):
    store, _, in_memory = both
    version = in_memory[0].files
    rows = [replace(row, tenant="acme") for row in version.rows.read(range(len(version.rows)))]
    reader = IndexReader(replace(version, rows=MemoryRows(rows)), store.policy, tenant="other")
    (found,) = reader.similar(FakeEncoder().encode(["plants"]), 5)
    assert len(found.rows) == 0
    assert found.short
