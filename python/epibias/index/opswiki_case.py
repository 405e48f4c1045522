"""The case of the guide, replayed on the shipped wiki: a page that shortens a sign-in reset.

Owns the story from the first version to the rollback. Everything is computed while it is told: the
store is a real one, made in a folder of the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from epibias.corpus import Passage
from epibias.data_sets import OpsWiki, load_opswiki
from epibias.encoder import Encoder
from epibias.errors import InputError
from epibias.index.catalogue import utc_now
from epibias.index.changes import Addition
from epibias.index.integrity import check_store
from epibias.index.investigate import investigate
from epibias.index.policy_file import opswiki_policy_bytes
from epibias.index.store import IndexStore

QUERY, PAGE = "GQ-AR-1", "PX-AR-1N"
OWNER = "Customer Trust"
GENERAL_QUESTION = "Where is the Quick Reset form?"


@dataclass(frozen=True)
class Step:
    """A step of the story.

    Attributes
    ----------
    name : str
    text : str
        What was seen, with figures.
    passed : bool
        Whether it is what governance promises.
    facts : dict
    """

    name: str
    text: str
    passed: bool
    facts: dict[str, Any]


def opswiki_store(
    folder: Path | str,
    encoder: Encoder,
    wiki: OpsWiki | None = None,
    *,
    clock: Callable[[], datetime] = utc_now,
) -> IndexStore:
    """Make a store of the shipped wiki: one promoted version, golden queries, reviewed baselines.

    Parameters
    ----------
    folder : path
    encoder : Encoder
    wiki : OpsWiki, optional
    clock : callable

    Returns
    -------
    IndexStore
    """
    wiki = wiki or load_opswiki()
    store = IndexStore.create(folder, opswiki_policy_bytes(), encoder, by="operations", clock=clock)
    pages = [Addition(page, account=page.author) for page in wiki.pages]
    version = store.stage(pages, by="operations", reason="the wiki as it is")
    store.promote(version.id, by="operations", reason="first version")
    store.golden.add(wiki.golden_queries, store.policy, by="operations")
    for topic, rule in store.policy.topics.items():
        store.review_baselines(topic, by=rule.owner, reason="first review")
    return store


def replay(folder: Path | str, encoder: Encoder) -> list[Step]:
    """Replay the case in a new store.

    Parameters
    ----------
    folder : path
        Of the store; must not have one.
    encoder : Encoder

    Returns
    -------
    list of Step
    """
    wiki = load_opswiki()
    store = opswiki_store(folder, encoder, wiki)
    query = next(one for one in wiki.golden_queries if one.id == QUERY)
    page = next(one.passage for one in wiki.poison if one.passage.id == PAGE)
    clean = store.current
    if clean is None:
        raise InputError("store", "a promoted version", "none")
    bad = store.stage([_written(page)], by="ingest", reason="nightly crawl of the wiki")
    steps = [_admitted(store, bad.id), _not_selectable(store, bad.id, query.text)]
    outcome = store.promote(bad.id, by="operations", reason="nightly update")
    steps += [_held(store, outcome.held, bad.id), _investigated(store), _rejected(store, bad.id)]
    steps += [_restored(store, page, query.text, clean.version)]
    found = check_store(store)
    text = f"{found.n_versions} versions and {found.n_lines} lines of log are as they were written"
    text = text if not found.problems else "; ".join(found.problems)
    steps.append(Step("verified", text, not found.problems, asdict(found)))
    return steps


def _written(page: Passage) -> Addition:
    return Addition(page, account=page.author)


def _admitted(store: IndexStore, bad: str) -> Step:
    reader = store.read_version(bad, everything=True)
    row = int(reader.files.rows.find([PAGE])[0])
    source, tier = reader.files.rows.source(row), int(reader.all_tiers[row])
    text = f"{PAGE} was admitted for general search: source {source}, tier {tier}"
    return Step("admitted", text, row >= 0, {"version": bad, "source": source, "tier": tier})


def _not_selectable(store: IndexStore, bad: str, question: str) -> Step:
    reader = store.read_version(bad, everything=True)
    embedding = store.golden_embeddings([q for q in store.golden.queries() if q.id == QUERY])
    (plain,) = reader.similar(embedding, reader.policy.selection.k)
    (chosen,) = reader.select(embedding, ["account_recovery"])
    (general,) = reader.select(embedding, [None])
    raw, selected, everywhere = (reader.files.rows.ids(x.rows) for x in (plain, chosen, general))
    rank = raw.index(PAGE) + 1 if PAGE in raw else None
    text = (
        f"by similarity it ranks {rank} for {question!r}; for the topic account_recovery it cannot "
        f"be selected ({', '.join(selected)}), in general search it can"
    )
    passed = rank is not None and PAGE not in selected and PAGE in everywhere
    return Step("not selectable for the topic", text, passed, {"rank": rank, "selected": selected})


def _held(store: IndexStore, held: bool, bad: str) -> Step:
    if not held:
        return Step("held", "the promotion was not held", False, {})
    report = store.held(bad).report
    drift = max(one.raw_drift for one in report.drifts)
    reasons = "; ".join(finding.text for finding in report.findings)
    text = f"promotion held: {reasons}; raw drift up to {drift:.0%}, production reads on"
    passed = PAGE in {name for finding in report.findings for name in finding.passages}
    return Step("held", text, passed, {"findings": [asdict(one) for one in report.findings]})


def _investigated(store: IndexStore) -> Step:
    found = investigate(store, passage=PAGE, everything=True)
    accounts = sorted({page["account"] for line in found.writes for page in line["pages"]})
    could = sorted({one["query"] for one in found.could_win})
    text = (
        f"brought by account {', '.join(accounts)}; live {found.live_seconds:.0f} s; "
        f"{len(found.answers)} answers used it; it could have won {', '.join(could)}"
    )
    passed = bool(accounts) and found.live_seconds == 0 and not found.answers and QUERY in could
    return Step("investigated", text, passed, asdict(found))


def _rejected(store: IndexStore, bad: str) -> Step:
    store.reject(bad, by=OWNER, reason="contradicts the recovery procedure")
    state = store.catalogue.version(bad).state
    return Step("rejected", f"version {bad} is {state}", state == "rejected", {"version": bad})


def _restored(store: IndexStore, page: Passage, question: str, clean: str) -> Step:
    """Promote the bad version on purpose, answer with it, and measure the way back."""
    again = store.stage([_written(page)], by="ingest", reason="drill: known bad")
    store.promote(again.id, by="operations", reason="drill")
    store.accept(again.id, by=OWNER, reason="drill")
    general = store.search(GENERAL_QUESTION)
    answer = store.search(question)
    started = time.perf_counter()
    store.rollback(by="operations", reason="drill: restore")
    seconds = time.perf_counter() - started
    found = investigate(store, passage=PAGE, everything=True)
    used = [one["line"] for one in found.answers]
    text = (
        f"a known bad version was promoted and answered; the pointer was back after "
        f"{seconds * 1e3:.1f} ms; live {found.live_seconds:.2f} s, {len(used)} of 2 answers used it"
    )
    now = store.current
    in_general = PAGE in {one.passage for one in general.passages}
    in_topic = PAGE in {one.passage for one in answer.passages}
    passed = now is not None and now.version == clean and not in_topic
    passed = passed and used == ([general.line] if in_general else [])
    return Step("rolled back", text, passed, {"seconds": seconds, "answers": used})
