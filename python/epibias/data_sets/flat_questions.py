"""The flattened layout: BEIR with a stance and a question on every passage, and facts on queries.

``corpus.jsonl`` {doc_id, text, title, source, stance in [-1, 1] or null, query_id},
``queries.jsonl`` {query_id, text}, ``qrels.tsv`` (query_id, doc_id, relevance) and
``queries_meta.jsonl`` {query_id, any other field; ``topic`` or ``topics`` name what it is about}.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias.corpus import BeirData
from epibias.data_sets.beir_questions import (
    UNKNOWN_LICENCE,
    plain_questions,
    relevant_passages,
    skipped_note,
)
from epibias.data_sets.checksums import checksums
from epibias.data_sets.question_set import QuestionSet
from epibias.data_sets.rows import read_rows, take_known
from epibias.errors import InputError

FILES = ("corpus.jsonl", "queries.jsonl", "qrels.tsv", "queries_meta.jsonl")
# By how the `source` of a passage begins; as their publishers state it.
LICENCES = {
    "wiki-balance": "CC BY-SA 4.0",
    "hotpotqa": "CC BY-SA 4.0",
    "perspectrum": "CC BY-SA 4.0",
}


def flat_questions(
    folder: Path | str, *, blank: str = "error", licence: str | None = None
) -> QuestionSet:
    """Read a folder in the flattened layout.

    Parameters
    ----------
    folder : Path
        With the four files.
    blank : {"error", "skip"}
        What to do with a passage whose text is blank; what is left out is noted.
    licence : str, optional
        Of the texts; without it that of the three sources whose licence is known, if all passages
        come from one of them.

    Returns
    -------
    QuestionSet
        The stance of a passage is its field ``stance``; `labelled_anchors` makes anchors of such.

    Raises
    ------
    InputError
        File, line and finding; a stance outside [-1, 1]; an id that no query has.
    """
    folder = Path(folder)
    data = BeirData.read(folder, blank=blank)
    columns = {name: _column(data, name) for name in ("stance", "query_id", "source")}
    for row, (stance, query_id) in enumerate(
        zip(columns["stance"], columns["query_id"], strict=True)
    ):
        where = f"corpus.jsonl, id {data.corpus.ids[row]!r}"
        if stance is not None:
            _validate.number("stance", stance, low=-1.0, high=1.0, where=where)
        if query_id is not None:
            take_known("query_id", {"query_id": query_id}, data.queries, where)
    topics: dict[str, str] = {}
    for where, meta in read_rows(folder / "queries_meta.jsonl"):
        query_id = take_known("query_id", meta, data.queries, where)
        if query_id in topics:
            raise InputError("query_id", "each id once", f"{query_id!r} again", where)
        topics[query_id] = _topic(meta)
    return QuestionSet(
        folder.resolve().name or "flat",
        data.corpus,
        plain_questions(data, topics),
        relevant_passages(data),
        licence or _licence(columns["source"]),
        checksums(folder, [folder / name for name in FILES]),
        skipped_note(data.corpus.skipped_ids),
    )


def _column(data: BeirData, name: str) -> tuple[object, ...]:
    if name not in data.corpus.metadata_names:
        return (None,) * len(data.corpus)
    return data.corpus.metadata(name)


def _topic(meta: Mapping[str, Any]) -> str:
    named = meta.get("topic") or meta.get("topics") or ""
    return ", ".join(map(str, named)) if isinstance(named, list) else str(named)


def _licence(sources: tuple[object, ...]) -> str:
    known = {
        next((LICENCES[n] for n in LICENCES if str(source).startswith(n)), UNKNOWN_LICENCE)
        for source in set(sources)
    }
    return known.pop() if len(known) == 1 else UNKNOWN_LICENCE
