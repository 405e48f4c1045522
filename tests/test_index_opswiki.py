"""The gate on the wiki of the fictional firm, with a real encoder: every attack, every update."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from epibias.data_sets import load_opswiki
from epibias.index import Addition, IndexReader
from epibias.index.opswiki_case import opswiki_store, replay

WIKI = load_opswiki()
PAGES = defaultdict(dict)
for one in WIKI.poison:
    PAGES[one.target_query_id][one.kind] = one.passage
KINDS = {
    "natural": ["natural"],
    "verbatim": ["verbatim"],
    "burst": ["natural", "verbatim", "spread"],
}


@pytest.fixture(scope="module")
def store(remembering, tmp_path_factory):
    return opswiki_store(tmp_path_factory.mktemp("opswiki") / "store", remembering, WIKI)


def selected(store, version):
    queries = store.golden.queries()
    files = store.versions.open(version, hashes=False)  # the check has just compared them
    reader = IndexReader(files, store.policy, everything=True)
    chosen = reader.select(store.golden_embeddings(queries), [query.topic for query in queries])
    return {name for found in chosen for name in reader.files.rows.ids(found.rows)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_attack_is_held_and_none_is_selected(store, kind):
    for query, pages in PAGES.items():
        passages = [pages[one] for one in KINDS[kind]]
        version = store.stage(
            [Addition(one, account=one.author) for one in passages], by="ingest", reason="crawl"
        )
        report = store.check(version.id)
        assert query in {finding.query for finding in report.findings}, query
        assert not selected(store, version.id) & {one.id for one in passages}
        if kind == "verbatim":
            assert "copied question" in {finding.kind for finding in report.findings}


def test_at_most_one_legitimate_update_of_ten_is_held(store):
    held = []
    for update in WIKI.legitimate_updates:
        addition = Addition(update.passage, update.replaces, update.passage.author)
        version = store.stage([addition], by="owner", reason="revised")
        report = store.check(version.id)
        assert report.n_new == 1
        held += [update.passage.id] if report.fired else []
    assert len(held) <= 1, held


def test_scores_are_used_where_the_axis_is_valid_and_it_is_said_where_it_is_not(store):
    version = store.stage([Addition(WIKI.poison[0].passage)], by="ingest", reason="crawl")
    report = store.check(version.id)
    (note,) = [note for note in report.notes if "its axis has validity" in note]
    assert "payment_destinations" in note
    came = [entry for entry in report.review if entry.change == "came"]
    assert came[0].passage == WIKI.poison[0].passage.id
    assert came[0].ps is not None


def test_the_case_of_the_guide_from_admission_to_rollback(remembering, tmp_path):
    steps = replay(tmp_path / "store", remembering)
    assert [step.name for step in steps] == [
        "admitted",
        "not selectable for the topic",
        "held",
        "investigated",
        "rejected",
        "rolled back",
        "verified",
    ]
    assert [step.name for step in steps if not step.passed] == []
    assert re.search(r"back after \d+\.\d ms", steps[5].text)
    assert steps[5].facts["answers"]  # general search did use the page while it was live
