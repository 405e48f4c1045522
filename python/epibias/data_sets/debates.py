"""Debates: contested questions with passages on all sides, one JSON lines file a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.data_sets.rows import check_count, read_rows, take
from epibias.errors import InputError

# What the data card promises of the shipped set; a folder of one's own may have others.
ANCHOR_STANCES = (-3, -2, -2, -1, 1, 2, 2, 3)
N_TOPICS, N_ADVERSARIAL, N_BENIGN = 16, 10, 18
GROUPS = ("query", "anchor", "benign", "adversarial-positive", "adversarial-negative")


@dataclass(frozen=True)
class DebateTopic:
    """A contested question with passages on all sides of it.

    Parameters
    ----------
    topic : str
        Short name, such as "remote".
    query : str
        The question.
    anchors : tuple of Passage
        Passages that span the viewpoints, from -3 (against) to 3 (for); 8 as shipped.
    stances : tuple of int
        Stance of each anchor; 7-point Likert scale without 0.
    adversarial : mapping
        "positive" and "negative" to one-sided passages; 10 each as shipped.
    benign : tuple of Passage
        Ordinary passages on the subject, of all stances; 18 as shipped.
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


def load_debates(folder: Path | str | None = None) -> list[DebateTopic]:
    """Load the debates, ordered by topic name.

    Parameters
    ----------
    folder : Path, optional
        A folder of the same layout instead of the one that is shipped, with any number of topics
        and passages: a file a topic, one query, at least two anchors of both signs, and at least
        one benign and one adversarial passage of either polarity.

    Returns
    -------
    list of DebateTopic
        16 topics, as shipped.

    Raises
    ------
    InputError
        If a file is not of this layout, or the shipped one not as its data card says.

    Examples
    --------
    >>> topics = load_debates()
    >>> len(topics), topics[0].query, topics[0].stances
    (16, 'Should countries introduce a universal basic income?', (-3, -2, -2, -1, 1, 2, 2, 3))
    """
    if folder is not None:
        return _read_folder(Path(folder))
    with resources.as_file(resources.files("epibias") / "data" / "debates") as shipped:
        topics = _read_folder(shipped)
    check_card(topics)
    return topics


def check_card(topics: Sequence[DebateTopic]) -> None:
    """Check that the debates are what the data card says of the shipped ones.

    Raises
    ------
    InputError
        The first count or stance that differs.
    """
    check_count("topics", len(topics), N_TOPICS, "debates")
    for topic in topics:
        if sorted(topic.stances) != sorted(ANCHOR_STANCES):
            expected = f"anchors of {ANCHOR_STANCES}"
            raise InputError("stance", expected, f"{topic.stances}", topic.topic)
        check_count("benign passages", len(topic.benign), N_BENIGN, topic.topic)
        for side, passages in topic.adversarial.items():
            check_count(f"{side} passages", len(passages), N_ADVERSARIAL, topic.topic)


def _read_folder(folder: Path) -> list[DebateTopic]:
    topics = [_read_topic(path) for path in sorted(folder.glob("*.jsonl"))]
    if not topics:
        raise InputError("debates", "a folder of *.jsonl, a file a topic", "none", str(folder))
    Corpus(passage for topic in topics for passage in _all_passages(topic))  # ids are unique
    return topics


def _all_passages(topic: DebateTopic) -> list[Passage]:
    adversarial = [passage for side in topic.adversarial.values() for passage in side]
    return [*topic.anchors, *topic.benign, *adversarial]


def _read_topic(path: Path) -> DebateTopic:
    groups: dict[str, list[Passage]] = {}
    for where, row in read_rows(path):
        for name in ("id", "text", "topic", "role", "stance", "register"):
            take(name, row, where)
        if row["topic"] != path.stem:
            raise InputError("topic", repr(path.stem), described(row["topic"]), where)
        stance = row["stance"]
        if isinstance(stance, bool) or not isinstance(stance, int) or not -3 <= stance <= 3:
            raise InputError("stance", "an integer from -3 to 3", described(stance), where)
        extra = {k: v for k, v in row.items() if k not in ("id", "text") and v is not None}
        group = "-".join(str(part) for part in (row["role"], row.get("polarity")) if part)
        if group not in GROUPS:
            expected = "query, anchor, benign, or adversarial of a polarity"
            raise InputError("role", expected, described(group), where)
        groups.setdefault(group, []).append(Passage(row["id"], row["text"], extra=extra))
    for group in GROUPS:
        if group not in groups:
            raise InputError("role", f"at least one passage of {group!r}", "none", str(path))
    check_count("queries", len(groups["query"]), 1, str(path))
    stances = tuple(_stance(passage) for passage in groups["anchor"])
    if not min(stances) < 0 < max(stances):
        raise InputError("stance", "anchors of both signs", f"{stances}", str(path))
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
