"""A corpus in Parquet: the columns of `readers`'s JSON lines, read in batches of rows.

Owns the conversion between Arrow's types and the values of a passage. Needs pyarrow (extra
``parquet``), imported when a function is called.
"""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

from epibias import _files, _validate
from epibias.corpus.columns import Columns
from epibias.corpus.passages import METADATA_FIELDS, Corpus
from epibias.corpus.readers import BLANK, PASSAGE_ID_FIELDS, add_row
from epibias.errors import InputError

ROWS_PER_BATCH = 8192


def read_corpus(path: Path | str, *, blank: str = "error") -> Corpus:
    """Read a corpus from a Parquet file.

    Parameters
    ----------
    path : Path
        Columns: an id (``_id``, ``id`` or ``doc_id``), ``text``, and optionally ``title``,
        ``source``, ``tier``, ``author``, ``time`` (text in ISO 8601, date or timestamp; the last
        two are written out as text). Other columns become metadata; null means absent.
    blank : {"error", "skip"}
        What to do with a passage whose text is blank; see `readers.read_corpus_jsonl`.

    Returns
    -------
    Corpus
        The passages in the order of the rows.

    Raises
    ------
    InputError
        File, row (from 0), field and finding.
    MissingExtraError
        Without pyarrow.
    """
    _validate.extra("Corpus.from_parquet", "pyarrow", "parquet")
    import pyarrow
    import pyarrow.parquet

    skip = _validate.choice("blank", blank, BLANK) == "skip"
    columns = Columns("_id", origin=str(path), unit="row")
    place = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_names(file.schema_arrow.names, path)
            for batch in file.iter_batches(ROWS_PER_BATCH):
                for row in batch.to_pylist():
                    add_row(columns, _with_iso_time(row), PASSAGE_ID_FIELDS, place, skip)
                    place += 1
    except pyarrow.ArrowException as error:
        found = str(error).splitlines()[0]
        raise InputError("corpus", "a whole Parquet file", found, str(path)) from error
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("corpus", "a file that can be read", found, str(path)) from error
    if place == 0:
        raise InputError("corpus", "at least one passage", "a file without rows", str(path))
    return Corpus._from_columns(columns)


def write_corpus(corpus: Corpus, path: Path | str) -> None:
    """Write a corpus to a Parquet file that `read_corpus` reads back to an equal corpus.

    Parameters
    ----------
    corpus : Corpus
        The passages. A field must have one type in all of them, and be no object: Parquet would
        give every row the keys of all others.
    path : Path
        Where to; the file is there whole or not at all, mode 0600.

    Raises
    ------
    InputError
        If a field has values that one column cannot hold, or the path cannot be written.
    MissingExtraError
        Without pyarrow.
    """
    _validate.extra("Corpus.to_parquet", "pyarrow", "parquet")
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, Any] = {
        "_id": pyarrow.array(corpus.ids, pyarrow.string()),
        "text": pyarrow.array(corpus._columns.texts, pyarrow.large_string()),
    }
    for name in corpus.metadata_names:
        values = corpus.metadata(name)
        if name in METADATA_FIELDS and name not in corpus._columns.fields:
            continue
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 or kinds & {dict}:
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise InputError(name, "values of one type, none an object (or use JSON lines)", found)
        try:
            columns[name] = pyarrow.array(values)
        except (pyarrow.ArrowException, OverflowError) as error:
            expected = "values that one Parquet column can hold (or use JSON lines)"
            raise InputError(name, expected, str(error).splitlines()[0]) from error
        if columns[name].to_pylist() != list(values):
            expected = "values that Parquet gives back unchanged (or use JSON lines)"
            raise InputError(name, expected, "some that it changes")
    with _files.replacing(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.table(columns), temporary)


def _with_iso_time(row: dict[str, Any]) -> dict[str, Any]:
    value = row.get("time")
    if isinstance(value, datetime | date):
        row["time"] = value.isoformat()
    return row


def _check_names(names: list[str], path: Path | str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError("corpus", "each column once", f"{name!r} twice", str(path))
