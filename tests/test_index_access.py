"""No tenant meets another one's passage: search, diff, investigate, logs, review, error texts."""

from __future__ import annotations

import json

import pytest

from epibias.cli import index_store, main
from epibias.errors import InputError
from epibias.index import IndexStore
from epibias.index.diff import diff_versions
from epibias.index.investigate import investigate
from epibias.index.report_view import HIDDEN, report_for
from epibias.index.review_page import write_review_page
from fake_encoder import FakeEncoder
from index_stores import POLICY, Clock, make_store, page

# Every trace of the private page: its id, its text, who wrote it, whose it is.
MARKS = ("secret-77", "salamander", "mallory", "acme")
TEXT = "recover a locked account how to recover a locked account salamander"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A private page that competes for a golden query, was held, accepted, and answered once."""
    store = make_store(tmp_path_factory.mktemp("access") / "store")
    private = page("secret-77", TEXT, account="mallory", tenant="acme")
    version = store.stage([private], by="ops", reason="r")
    assert store.promote(version.id, by="ops", reason="r").held
    for topic in store.held(version.id).report.topics:
        store.accept(version.id, by=store.policy.topic(topic).owner, reason="r")
    store.search(TEXT, tenant="acme")
    store.search(TEXT, tenant="other")
    return store


def versions(store):
    return [one.id for one in store.catalogue.versions()[:2]]


def searched(store, tenant, everything):
    del everything  # nobody searches in everybody's name
    return [store.search(text, tenant=tenant, k=50).passages for text in (TEXT, "salamander")]


def compared(store, tenant, everything):
    readers = [
        store.read_version(name, tenant=tenant, everything=everything) for name in versions(store)
    ]
    return [diff_versions(*readers), diff_versions(*reversed(readers))]


def traced(store, tenant, everything):
    about = {"passage": "secret-77", "source": "wiki", "account": "mallory"}
    found = [
        investigate(store, **{kind: name}, tenant=tenant, everything=everything)
        for kind, name in about.items()
    ]
    # What was asked for is the asker's own word.
    return [{**vars(one), "name": None} for one in found]


def reported(store, tenant, everything):
    report = store.held(versions(store)[1]).report
    return report_for(store, report, tenant=tenant, everything=everything).to_json()


def reviewed(store, tenant, everything):
    path = store.versions.folder.parent / "review.html"
    name = versions(store)[1]
    write_review_page(store, name, path, tenant=tenant, everything=everything)
    return path.read_text()


def texts_of_errors(store, tenant, everything):
    """Everything that is refused, in a tenant's name."""
    del everything
    additions = [
        page("q", "text", replaces="secret-77", tenant=tenant or "other"),
        page("q", "text", "desk", replaces="secret-77", tenant=tenant or "other"),
        page("secret-77", "text", tenant=tenant),
    ]
    found = []
    for addition in additions:
        with pytest.raises(InputError) as caught:
            store.stage([addition], by="ops", reason="r")
        found.append(str(caught.value).replace("secret-77", ""))  # the asker's own word
    with pytest.raises(InputError) as caught:
        store.search(TEXT, topic="salaries", tenant=tenant)
    return [*found, str(caught.value)]


WAYS = [searched, compared, traced, reported, reviewed, texts_of_errors]


@pytest.mark.parametrize("tenant", [None, "other"])
@pytest.mark.parametrize("way", WAYS)
def test_no_tenant_meets_another_ones_passage(store, way, tenant):
    found = str(way(store, tenant, everything=False)).casefold()
    assert [mark for mark in MARKS if mark in found] == []


@pytest.mark.parametrize("way", [searched, compared, traced, reported, reviewed])
def test_its_own_tenant_and_who_governs_meet_it(store, way):
    """The marks are what would be seen: the test above can fail."""
    assert "secret-77" in str(way(store, "acme", everything=False))
    if way is not searched:
        assert "secret-77" in str(way(store, None, everything=True))


def test_a_report_says_that_something_is_hidden_and_keeps_its_numbers(store):
    report = store.held(versions(store)[1]).report
    found = report_for(store, report, tenant="other")
    assert found.notes[-1].startswith("pages of other tenants are not shown")
    assert {name for one in found.findings for name in one.passages} == {HIDDEN}
    assert [one.value for one in found.findings] == [one.value for one in report.findings]
    assert found.drifts == report.drifts
    assert report_for(store, report, tenant="acme") == report


def test_logs_and_reports_on_the_command_line_hide_it_too(store, monkeypatch, capsys, tmp_path):
    class Encoder(FakeEncoder):
        encode_queries = encode_passages = FakeEncoder.encode

    monkeypatch.setattr(index_store.LazyEncoder, "_load", lambda _: Encoder())
    folder, name = str(store.versions.folder), versions(store)[1]
    commands = [
        ("log", folder, "retrievals"),
        ("review", folder, name),
        ("review", folder, name, "--json", "--html", str(tmp_path / "page.html")),
        ("diff", folder, *versions(store)),
        ("search", folder, "salamander"),
        ("investigate", folder, "--source", "wiki", "--json"),
        ("log", folder, "writes"),
    ]
    for tenant in ((), ("--tenant", "other")):
        for command in commands:
            code = main(["index", *command, *tenant])
            found = capsys.readouterr()
            assert code == (2 if command[-1] == "writes" else 0), found.err
            shown = (found.out + found.err).casefold()
            assert [mark for mark in MARKS if mark in shown] == [], command
    assert "salamander" not in (tmp_path / "page.html").read_text()
    assert main(["index", "review", folder, name, "--everything", "--json"]) == 0
    assert "secret-77" in capsys.readouterr().out
    lines = [json.loads(line) for line in _log(folder, capsys, "--tenant", "acme")]
    assert [line["body"]["tenant"] for line in lines] == ["acme"] * len(lines) != []


def _log(folder, capsys, *options):
    assert main(["index", "log", folder, "retrievals", *options]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_damaged_file_is_named_to_a_tenant_and_the_passage_only_to_who_governs(tmp_path):
    import pyarrow.parquet

    from epibias.index.integrity import check_store

    store = make_store(
        tmp_path / "store",
        [page("secret-77", TEXT, tenant="acme"), page("p", "plants")],
        golden=False,
    )
    path = store.versions.folder / "versions" / store.current.version / "rows.parquet"
    table = pyarrow.parquet.read_table(path)
    texts = pyarrow.array(["salamander", "plants"], pyarrow.large_string())
    place = table.schema.get_field_index("text")
    changed = table.set_column(place, table.schema.field("text"), texts)
    pyarrow.parquet.write_table(changed, path, compression="none")
    fresh = IndexStore(store.versions.folder, FakeEncoder())
    with pytest.raises(InputError, match=r"rows\.parquet") as caught:
        fresh.search("plants", tenant="other")
    assert not [mark for mark in MARKS if mark in str(caught.value)]
    assert any("passage 'secret-77' was changed" in one for one in check_store(fresh).problems)


def test_a_replacement_stays_with_the_tenant_of_its_page(tmp_path):
    first = [page("mine", "plants", tenant="acme"), page("all", "parking")]
    store = make_store(tmp_path / "store", first, golden=False)
    version = store.stage([page("mine", "more plants", replaces="mine")], by="ops", reason="r")
    rows = store.read_version(version.id, everything=True).files.rows
    assert rows.read(rows.find(["mine"]))[0].tenant == "acme"  # nobody publishes it by replacing it
    for tenant, replaced in (("other", "mine"), ("acme", "all")):
        with pytest.raises(InputError, match="tenant: expected the tenant of the page, or none"):
            store.stage([page("n", "t", replaces=replaced, tenant=tenant)], by="ops", reason="r")


def test_access_is_filtered_before_ranking_and_too_few_are_told(tmp_path):
    store = IndexStore.create(tmp_path / "store", POLICY, FakeEncoder(), by="ops", clock=Clock())
    private = [page(f"p{n}", f"plants {n}", tenant="acme", account=f"a{n}") for n in range(50)]
    public = [page("q1", "plants and more", "desk"), page("q2", "bicycles", "handbook", "mo")]
    version = store.stage([*private, *public], by="ops", reason="r")
    store.promote(version.id, by="ops", reason="r")
    answer = store.search("plants", k=2)
    assert sorted(one.passage for one in answer.passages) == ["q1", "q2"]
    assert not answer.short
    assert store.search("plants", k=3).short
