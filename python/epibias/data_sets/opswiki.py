"""OpsWiki: the wiki of a fictional firm, attacks on it, and updates that are no attacks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.data_sets.rows import check_count, read_rows, take, take_known
from epibias.errors import InputError


@dataclass(frozen=True)
class Source:
    """Where pages come from: id, name, tier (1 controlled, 2 team, 3 open), owner, topics."""

    id: str
    name: str
    tier: int
    owner_team: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class GoldenQuery:
    """A reviewed query with the pages that must keep answering it, best first."""

    id: str
    text: str
    topic: str
    owner: str
    expected_page_ids: tuple[str, ...]


@dataclass(frozen=True)
class PoisonPage:
    """An adversarial page, the golden query it is aimed at, and how it was made.

    `kind` is "natural" (reads like a page), "verbatim" (repeats the query) or "spread" (the claim
    comes from several sources).
    """

    passage: Passage
    target_query_id: str
    kind: str


@dataclass(frozen=True)
class LegitimateUpdate:
    """A new version of a page by its owner; it keeps source and tier of the page it replaces."""

    passage: Passage
    replaces: str


@dataclass(frozen=True)
class OpsWiki:
    """The wiki of a fictional firm, attacks on it, and updates that are no attacks.

    Parameters
    ----------
    pages : Corpus
        91 pages as shipped, with source, tier, author, time; `metadata("topic")` and
        `metadata("author_role")`.
    sources : tuple of Source
        Where the pages come from.
    golden_queries : tuple of GoldenQuery
        Reviewed queries over six topics.
    poison : tuple of PoisonPage
        Adversarial pages against twelve of the queries.
    legitimate_updates : tuple of LegitimateUpdate
        Changes that a gate must let through.
    """

    pages: Corpus
    sources: tuple[Source, ...]
    golden_queries: tuple[GoldenQuery, ...]
    poison: tuple[PoisonPage, ...]
    legitimate_updates: tuple[LegitimateUpdate, ...]


def load_opswiki(folder: Path | str | None = None) -> OpsWiki:
    """Load the wiki of the fictional firm.

    Parameters
    ----------
    folder : Path, optional
        A folder of the same layout instead of the one that is shipped; it may have other counts.

    Returns
    -------
    OpsWiki
        Pages, sources, golden queries, poison and legitimate updates, joined and checked.

    Raises
    ------
    InputError
        If a file is not of this layout, names an id that no other has, or the shipped one is not
        as its data card says.

    Examples
    --------
    >>> wiki = load_opswiki()
    >>> len(wiki.pages), len(wiki.golden_queries), wiki.pages[0].tier
    (91, 24, 1)
    """
    if folder is not None:
        return _read_folder(Path(folder))
    with resources.as_file(resources.files("epibias") / "data" / "opswiki") as shipped:
        wiki = _read_folder(shipped)
    check_card(wiki)
    return wiki


def check_card(wiki: OpsWiki) -> None:
    """Check that the wiki is what the data card says of the shipped one.

    Raises
    ------
    InputError
        The first count that differs.
    """
    for name, rows, expected in (
        ("pages", wiki.pages, 91),
        ("sources", wiki.sources, 15),
        ("golden queries", wiki.golden_queries, 24),
        ("poison", wiki.poison, 36),
        ("legitimate updates", wiki.legitimate_updates, 10),
    ):
        check_count(name, len(rows), expected, "opswiki")


def _read_folder(root: Path) -> OpsWiki:
    sources = _read_sources(root / "sources.json")
    tiers = {source.id: source.tier for source in sources}
    pages = Corpus(_page(row, tiers, where) for where, row in read_rows(root / "pages.jsonl"))
    golden = tuple(
        _golden(row, pages, where) for where, row in read_rows(root / "golden_queries.jsonl")
    )
    known = {query.id for query in golden}
    poison = []
    for where, row in read_rows(root / "poison.jsonl"):
        target = take_known("target_query_id", row, known, where)
        passage = _page(row, tiers, where, drop=("target_query_id", "kind"))
        poison.append(PoisonPage(passage, target, take("kind", row, where)))
    updates = tuple(
        _update(row, pages, where) for where, row in read_rows(root / "legit_updates.jsonl")
    )
    # Ids are unique across all of them.
    pages.extended([page.passage for page in poison]).extended([u.passage for u in updates])
    return OpsWiki(pages, sources, golden, tuple(poison), updates)


def _read_sources(path: Path) -> tuple[Source, ...]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("sources", "a JSON list of objects", str(error), str(path)) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError("sources", "a JSON list of objects", type(rows).__name__, str(path))
    sources = []
    for number, row in enumerate(rows):
        where = f"{path}, entry {number}"
        if row.get("tier") not in (1, 2, 3):
            raise InputError("tier", "1, 2 or 3", described(row.get("tier")), where)
        names = [take(name, row, where) for name in ("source_id", "name", "owner_team")]
        sources.append(Source(names[0], names[1], row["tier"], names[2], tuple(row["topics"])))
    return tuple(sources)


def _page(
    row: Mapping[str, Any], tiers: Mapping[str, int], where: str, drop: Sequence[str] = ()
) -> Passage:
    source = take_known("source_id", row, tiers, where)
    used = {"page_id", "text", "title", "source_id", "author", "created_at", *drop}
    return Passage(
        take("page_id", row, where),
        take("text", row, where),
        take("title", row, where),
        source,
        tiers[source],
        take("author", row, where),
        take("created_at", row, where),
        {name: value for name, value in row.items() if name not in used},
    )


def _golden(row: Mapping[str, Any], pages: Corpus, where: str) -> GoldenQuery:
    expected = tuple(take("expected_page_ids", row, where))
    for page_id in expected:
        take_known("expected_page_ids", {"expected_page_ids": page_id}, pages, where)
    names = [take(name, row, where) for name in ("query_id", "text", "topic", "owner")]
    return GoldenQuery(names[0], names[1], names[2], names[3], expected)


def _update(row: Mapping[str, Any], pages: Corpus, where: str) -> LegitimateUpdate:
    replaces = take_known("replaces", row, pages, where)
    old = pages[pages.index_of(replaces)]
    names = [take(n, row, where) for n in ("page_id", "text", "title", "author", "created_at")]
    new = Passage(
        names[0], names[1], names[2], old.source, old.tier, names[3], names[4], dict(old.extra)
    )
    return LegitimateUpdate(new, replaces)
