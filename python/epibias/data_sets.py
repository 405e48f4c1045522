"""The two text sets that come with epibias: debates, and the wiki of a fictional firm.

Owns their reading and their checks; the files are package data, described in the data card beside
them. Both were written by a language model for this project and are for evaluation only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from epibias.corpus import Corpus, Passage
from epibias.corpus.readers import json_lines
from epibias.errors import InputError

ANCHOR_STANCES = (-3, -2, -2, -1, 1, 2, 2, 3)
N_TOPICS, N_ADVERSARIAL, N_BENIGN = 16, 10, 18


@dataclass(frozen=True)
class DebateTopic:
    """A contested question with passages on all sides of it.

    Parameters
    ----------
    topic : str
        Short name, such as "remote".
    query : str
        The question.
    anchors : tuple of 8 Passage
        Passages that span the viewpoints, from -3 (against) to 3 (for).
    stances : tuple of int
        Stance of each anchor; 7-point Likert scale without 0.
    adversarial : mapping
        "positive" and "negative" to 10 one-sided passages each.
    benign : tuple of 18 Passage
        Ordinary passages on the subject, of all stances.
    query_id : str
        Id of the question.

    Notes
    -----
    `extra` of each passage has its topic, role, polarity (of adversarial ones), stance, register.
    """

    topic: str
    query: str
    anchors: tuple[Passage, ...]
    stances: tuple[int, ...]
    adversarial: Mapping[str, tuple[Passage, ...]]
    benign: tuple[Passage, ...]
    query_id: str


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
        91 pages, with source, tier, author, time; `metadata("topic")`, `metadata("author_role")`.
    sources : tuple of 15 Source
        Where the pages come from.
    golden_queries : tuple of 24 GoldenQuery
        Reviewed queries over six topics.
    poison : tuple of 36 PoisonPage
        Adversarial pages against twelve of the queries.
    legitimate_updates : tuple of 10 LegitimateUpdate
        Changes that a gate must let through.
    """

    pages: Corpus
    sources: tuple[Source, ...]
    golden_queries: tuple[GoldenQuery, ...]
    poison: tuple[PoisonPage, ...]
    legitimate_updates: tuple[LegitimateUpdate, ...]


def load_debates(folder: Path | str | None = None) -> list[DebateTopic]:
    """Load the debates, ordered by topic name.

    Parameters
    ----------
    folder : Path, optional
        A folder of the same layout instead of the one that is shipped.

    Returns
    -------
    list of DebateTopic
        16 topics.

    Raises
    ------
    InputError
        If a file is not as its data card says: file, line or count.

    Examples
    --------
    >>> topics = load_debates()
    >>> len(topics), topics[0].query, topics[0].stances
    (16, 'Should countries introduce a universal basic income?', (-3, -2, -2, -1, 1, 2, 2, 3))
    """
    with resources.as_file(resources.files("epibias") / "data" / "debates") as shipped:
        paths = sorted(Path(folder or shipped).glob("*.jsonl"))
        topics = [_read_topic(path) for path in paths]
    _count("topics", len(topics), N_TOPICS, str(folder or "debates"))
    Corpus(passage for topic in topics for passage in _all_passages(topic))  # ids are unique
    return topics


def load_opswiki(folder: Path | str | None = None) -> OpsWiki:
    """Load the wiki of the fictional firm.

    Parameters
    ----------
    folder : Path, optional
        A folder of the same layout instead of the one that is shipped.

    Returns
    -------
    OpsWiki
        Pages, sources, golden queries, poison and legitimate updates, joined and checked.

    Raises
    ------
    InputError
        If a file is not as its data card says, or names an id that no other has.

    Examples
    --------
    >>> wiki = load_opswiki()
    >>> len(wiki.pages), len(wiki.golden_queries), wiki.pages[0].tier
    (91, 24, 1)
    """
    with resources.as_file(resources.files("epibias") / "data" / "opswiki") as shipped:
        root = Path(folder or shipped)
        sources = _read_sources(root / "sources.json")
        tiers = {source.id: source.tier for source in sources}
        pages = Corpus(_page(row, tiers, where) for where, row in _rows(root / "pages.jsonl"))
        golden = tuple(
            _golden(row, pages, where) for where, row in _rows(root / "golden_queries.jsonl")
        )
        known = {query.id for query in golden}
        poison = []
        for where, row in _rows(root / "poison.jsonl"):
            target = _known("target_query_id", row, known, where)
            passage = _page(row, tiers, where, drop=("target_query_id", "kind"))
            poison.append(PoisonPage(passage, target, _take("kind", row, where)))
        updates = tuple(
            _update(row, pages, where) for where, row in _rows(root / "legit_updates.jsonl")
        )
    for name, got, expected in (
        ("pages", len(pages), 91),
        ("sources", len(sources), 15),
        ("golden queries", len(golden), 24),
        ("poison", len(poison), 36),
        ("legitimate updates", len(updates), 10),
    ):
        _count(name, got, expected, str(folder or "opswiki"))
    pages.extended([page.passage for page in poison]).extended([u.passage for u in updates])
    return OpsWiki(pages, sources, golden, tuple(poison), updates)


def _all_passages(topic: DebateTopic) -> list[Passage]:
    adversarial = [passage for side in topic.adversarial.values() for passage in side]
    return [*topic.anchors, *topic.benign, *adversarial]


def _read_topic(path: Path) -> DebateTopic:
    groups: dict[str, list[Passage]] = {}
    for where, row in _rows(path):
        for name in ("id", "text", "topic", "role", "stance", "register"):
            _take(name, row, where)
        if row["topic"] != path.stem:
            raise InputError("topic", repr(path.stem), repr(row["topic"]), where)
        if not isinstance(row["stance"], int) or not -3 <= row["stance"] <= 3:
            raise InputError("stance", "an integer from -3 to 3", repr(row["stance"]), where)
        extra = {k: v for k, v in row.items() if k not in ("id", "text") and v is not None}
        group = "-".join(part for part in (row["role"], row.get("polarity")) if part)
        groups.setdefault(group, []).append(Passage(row["id"], row["text"], extra=extra))
    counts = Counter({name: len(passages) for name, passages in groups.items()})
    expected = Counter({"query": 1, "anchor": len(ANCHOR_STANCES), "benign": N_BENIGN})
    expected.update({f"adversarial-{side}": N_ADVERSARIAL for side in ("positive", "negative")})
    if counts != expected:
        raise InputError("role", f"{dict(expected)}", f"{dict(counts)}", str(path))
    stances = tuple(_stance(passage) for passage in groups["anchor"])
    if sorted(stances) != sorted(ANCHOR_STANCES):
        raise InputError("stance", f"anchors of {ANCHOR_STANCES}", f"{stances}", str(path))
    adversarial = {side: tuple(groups[f"adversarial-{side}"]) for side in ("positive", "negative")}
    for side, sign in (("positive", 1), ("negative", -1)):
        for passage in adversarial[side]:
            if _stance(passage) * sign <= 0:
                found = f"{_stance(passage)}"
                raise InputError("stance", f"one on the {side} side", found, f"id {passage.id!r}")
    query = groups["query"][0]
    return DebateTopic(
        path.stem,
        query.text,
        tuple(groups["anchor"]),
        stances,
        MappingProxyType(adversarial),
        tuple(groups["benign"]),
        query.id,
    )


def _stance(passage: Passage) -> int:
    return int(str(passage.extra["stance"]))  # an integer: checked where the row was read


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
            raise InputError("tier", "1, 2 or 3", repr(row.get("tier")), where)
        names = [_take(name, row, where) for name in ("source_id", "name", "owner_team")]
        sources.append(Source(names[0], names[1], row["tier"], names[2], tuple(row["topics"])))
    return tuple(sources)


def _page(
    row: Mapping[str, Any], tiers: Mapping[str, int], where: str, drop: Sequence[str] = ()
) -> Passage:
    source = _known("source_id", row, tiers, where)
    used = {"page_id", "text", "title", "source_id", "author", "created_at", *drop}
    return Passage(
        _take("page_id", row, where),
        _take("text", row, where),
        _take("title", row, where),
        source,
        tiers[source],
        _take("author", row, where),
        _take("created_at", row, where),
        {name: value for name, value in row.items() if name not in used},
    )


def _golden(row: Mapping[str, Any], pages: Corpus, where: str) -> GoldenQuery:
    expected = tuple(_take("expected_page_ids", row, where))
    for page_id in expected:
        _known("expected_page_ids", {"expected_page_ids": page_id}, pages, where)
    names = [_take(name, row, where) for name in ("query_id", "text", "topic", "owner")]
    return GoldenQuery(names[0], names[1], names[2], names[3], expected)


def _update(row: Mapping[str, Any], pages: Corpus, where: str) -> LegitimateUpdate:
    replaces = _known("replaces", row, pages, where)
    old = pages[pages.index_of(replaces)]
    names = [_take(n, row, where) for n in ("page_id", "text", "title", "author", "created_at")]
    new = Passage(
        names[0], names[1], names[2], old.source, old.tier, names[3], names[4], dict(old.extra)
    )
    return LegitimateUpdate(new, replaces)


def _rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{path.name}, line {number}", row) for number, row in json_lines(path, path.stem)]


def _take(name: str, row: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401  # as JSON has it
    if row.get(name) is None:
        raise InputError(name, f"the field {name!r}", f"the fields {list(row)}", where)
    return row[name]


def _known(name: str, row: Mapping[str, Any], known: Any, where: str) -> str:  # noqa: ANN401
    value = _take(name, row, where)
    if not isinstance(value, str) or value not in known:
        raise InputError(name, "an id that is known", repr(value), where)
    return value


def _count(name: str, got: int, expected: int, where: str) -> None:
    if got != expected:
        raise InputError(name, str(expected), str(got), where)
