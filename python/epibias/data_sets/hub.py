"""Rows of public sets from the model hub, by name (extra ``hub``).

Owns the one call of ``datasets.load_dataset``; what the rows mean is the loaders'. The package is
imported when a hub is asked, and not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from epibias._validate import extra
from epibias.corpus import BeirData, Corpus, Qrels, Queries
from epibias.corpus.columns import Columns, check_id
from epibias.corpus.readers import PASSAGE_ID_FIELDS, QUERY_ID_FIELDS, add_row
from epibias.data_sets.checksums import sha256_of_rows
from epibias.data_sets.rows import take, take_integer
from epibias.errors import InputError

Rows = list[dict[str, Any]]


def hub_rows(
    name: str, config: str, split: str, revision: str | None, files: dict[str, str]
) -> Rows:
    """Fetch all rows of one split, and record their SHA-256 under the name they have on the hub.

    Parameters
    ----------
    name, config, split : str
        As the hub has them.
    revision : str, optional
        Commit, tag or branch; the newest without it.
    files : dict
        Takes the SHA-256 of the rows.

    Raises
    ------
    MissingExtraError
        Without the package ``datasets``.
    InputError
        A hub that cannot be reached, or does not have it.
    """
    datasets = extra("load_questions", "datasets", "hub")
    try:
        found = datasets.load_dataset(name, config, split=split, revision=revision)
        rows = [dict(row) for row in found]
    # The hub's client raises whatever its layers raise: requests, urllib3, its own kinds.
    except Exception as error:
        expected = "a set that the hub gives; or the path of a local copy"
        got = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise InputError("name_or_path", expected, got, f"{name}, {config}, {split}") from error
    files[f"{name}/{config}/{split}"] = sha256_of_rows(rows)
    return rows


def beir_of_rows(
    origin: str, passages: Rows, queries: Rows, judgements: Rows, *, blank: str = "error"
) -> BeirData:
    """Join rows as the hub has them to a corpus, queries and judgements.

    Parameters
    ----------
    origin : str
        What messages call the rows.
    passages, queries : list of dict
        With ``_id``, ``text``, ``title``; others are metadata.
    judgements : list of dict
        With ``query-id``, ``corpus-id``, ``score``.
    blank : {"error", "skip"}
        What to do with a passage whose text is blank.

    Raises
    ------
    InputError
        Origin, row and finding.

    Examples
    --------
    >>> passages, queries = [{"_id": "p1", "text": "Yes."}], [{"_id": "q1", "text": "Is it?"}]
    >>> grades = [{"query-id": "q1", "corpus-id": "p1", "score": 5}]
    >>> data = beir_of_rows("hub", passages, queries, grades)
    >>> data.qrels["q1"]["p1"]
    5
    """
    corpus = Corpus._from_columns(
        _columns(f"{origin}, corpus", "_id", passages, PASSAGE_ID_FIELDS, blank == "skip")
    )
    asked = Queries._from_columns(
        _columns(f"{origin}, queries", "query_id", queries, QUERY_ID_FIELDS, False)
    )
    return BeirData(corpus, asked, _qrels(f"{origin}, qrels", judgements, corpus, asked))


def _columns(
    origin: str, id_argument: str, rows: Rows, id_fields: tuple[str, ...], skip: bool
) -> Columns:
    columns = Columns(id_argument, origin=origin)
    for place, row in enumerate(rows):
        add_row(columns, row, id_fields, place, skip)
    return columns


def _qrels(
    origin: str, rows: Iterable[Mapping[str, Any]], corpus: Corpus, queries: Queries
) -> Qrels:
    skipped = frozenset(corpus.skipped_ids)
    grades: dict[str, dict[str, int]] = {}
    for place, row in enumerate(rows):
        where = f"{origin}, row {place}"
        query_id = check_id("query-id", take("query-id", row, where), where)
        passage_id = check_id("corpus-id", take("corpus-id", row, where), where)
        for name, known, one in (
            ("query-id", query_id in queries, query_id),
            ("corpus-id", passage_id in corpus or passage_id in skipped, passage_id),
        ):
            if not known:
                raise InputError(name, "an id that is known", f"unknown {one!r}", where)
        grade = take_integer("score", row, where)
        if passage_id in skipped:
            continue
        if passage_id in grades.setdefault(query_id, {}):
            pair = f"{query_id!r} and {passage_id!r} again"
            raise InputError("qrels", "each pair once", pair, where)
        grades[query_id][passage_id] = grade
    return Qrels(grades)
