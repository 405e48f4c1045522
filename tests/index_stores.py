"""Small governed stores for the tests of the index: a fake encoder, a clock that stands still."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from epibias import Passage
from epibias.data_sets import GoldenQuery
from epibias.index import Addition, IndexStore
from fake_encoder import FakeEncoder

POLICY = b"""
[sources.handbook]
tier = 1
owner = "Trust"
accounts = ["mo"]
[sources.desk]
tier = 2
owner = "Support"
[sources.wiki]
tier = 3
owner = "all"
[topics.recovery]
owner = "Trust"
sources = ["handbook", "desk"]
keywords = ["recover"]
[topics.refunds]
owner = "Finance"
sources = ["desk"]
"""
QUERIES = [
    GoldenQuery("G1", "how to recover a locked account", "recovery", "Trust", ("h1",)),
    GoldenQuery("G2", "who signs a large refund", "refunds", "Finance", ("d1",)),
]


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, start="2026-09-01T00:00:00+00:00"):
        self.now = datetime.fromisoformat(start)

    def __call__(self):
        return self.now.astimezone(timezone.utc)

    def forward(self, **span):
        self.now += timedelta(**span)


def page(name, text, source="wiki", account="ann", **more):
    options = {key: more.pop(key) for key in ("replaces", "tenant") if key in more}
    passage = Passage(name, text, source=source, author=account, time="2026-02-01", **more)
    return Addition(passage, account=account, **options)


def first_pages(n_wiki=60):
    pages = [
        page("h1", "recover a locked account with two identity checks", "handbook", "mo"),
        page("h2", "locked account contact details stay during recovery", "handbook", "mo"),
        page("d1", "a large refund is signed by finance", "desk", "sue"),
        page("d2", "account questions go to the desk", "desk", "sue"),
    ]
    pages += [
        page(f"w{n}", f"note {n} about lunch room plants and parking {n * 7}")
        for n in range(n_wiki)
    ]
    return pages


def make_store(folder, pages=None, clock=None, golden=True):
    clock = clock or Clock()
    store = IndexStore.create(folder, POLICY, FakeEncoder(), by="ops", clock=clock)
    version = store.stage(pages or first_pages(), by="ops", reason="first")
    store.promote(version.id, by="ops", reason="first")
    if golden:
        store.golden.add(QUERIES, store.policy, by="ops")
        for topic, rule in store.policy.topics.items():
            store.review_baselines(topic, by=rule.owner, reason="first review")
    return store


def reopened(store, clock=None):
    return IndexStore(store.versions.folder, FakeEncoder(), clock=clock or Clock())


def add(store, *additions, removals=(), promote=True):
    """Stage, and promote past the gate: an owner accepts what is held."""
    version = store.stage(additions, removals=removals, by="ops", reason="update")
    if promote and store.promote(version.id, by="ops", reason="update").held:
        for topic in store.held(version.id).report.topics:
            store.accept(version.id, by=store.policy.topic(topic).owner, reason="fine")
    return version.id


def second_query(store):
    """A second golden query of the topic recovery."""
    query = GoldenQuery("G3", "reset a forgotten password", "recovery", "Trust", ())
    store.golden.add([query], store.policy, by="ops")
    store.review_baselines("recovery", by="Trust", reason="r", queries=["G3"])
