"""Files of passages, queries and judgements: JSON lines and tab-separated judgements.

Owns how they are read and written. Reading is streamed, row by row, and says file, line, field and
what was found at the first fault; nothing is skipped, cut or converted. Fields that epibias does
not know are kept as metadata. Writing is atomic, with mode 0600.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from epibias import _files, _validate
from epibias._plain import described
from epibias.corpus.columns import Columns, check_id
from epibias.corpus.passages import METADATA_FIELDS, Corpus, Passage
from epibias.corpus.qrels import Qrels
from epibias.corpus.queries import Queries
from epibias.errors import InputError

# The first of these that a row has is its id; the others stay ordinary fields.
PASSAGE_ID_FIELDS = ("_id", "id", "doc_id")
QUERY_ID_FIELDS = ("_id", "id", "query_id")
BLANK = ("error", "skip")
QRELS_HEADERS = (
    ("query-id", "query_id"),
    ("corpus-id", "corpus_id", "doc_id"),
    ("score", "relevance"),
)


def json_lines(
    path: Path | str | BinaryIO, argument: str = "path"
) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Read a file of JSON objects, one a line, lazily.

    Lines that are blank are passed over; a byte order mark at the start is too.

    Parameters
    ----------
    path : Path, or a binary stream
        The file, UTF-8; a stream is called "stdin" in messages.
    argument : str
        What messages call the file.

    Yields
    ------
    tuple of (int, dict)
        Line number, from 1, and the object.

    Raises
    ------
    InputError
        If the file cannot be read, holds no object at all, or a line is not UTF-8, is not JSON, is
        not an object, or names a field twice.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    ...     list(json_lines(Path(folder, "a.jsonl")))
    [(1, {'n': 1}), (2, {'n': 2})]
    """
    name = _name(path)
    n_objects = 0
    for number, line in _lines(path, argument):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        hint = "" if line.endswith(("\n", "\r")) else "; the file ends here: is it cut off?"
        yield number, _json_object(line, argument, where, hint)
        n_objects += 1
    if n_objects == 0:
        raise InputError(argument, "at least one JSON object", "an empty file", name)


def read_corpus_jsonl(path: Path | str, *, blank: str = "error") -> Corpus:
    """Read a corpus from JSON lines.

    Parameters
    ----------
    path : Path
        One object a line: an id (``_id``, ``id`` or ``doc_id``), ``text``, and optionally
        ``title``, ``source``, ``tier``, ``author``, ``time``. Other fields become metadata under
        their own names; null means absent.
    blank : {"error", "skip"}
        What to do with a passage whose text is blank, as some public corpora have: refuse the file,
        or leave the passage out and list its id in `Corpus.skipped_ids`.

    Returns
    -------
    Corpus
        The passages in the order of the lines.

    Raises
    ------
    InputError
        File, line, field and finding, for the first line that is not such an object.
    """
    skip = _validate.choice("blank", blank, BLANK) == "skip"
    return Corpus._from_columns(_read_jsonl(path, "corpus", "_id", PASSAGE_ID_FIELDS, skip))


def read_queries_jsonl(path: Path | str) -> Queries:
    """Read queries from JSON lines: an id (``_id``, ``id`` or ``query_id``), ``text``, metadata."""
    return Queries._from_columns(_read_jsonl(path, "queries", "query_id", QUERY_ID_FIELDS))


def read_qrels(
    path: Path | str, *, corpus: Corpus | None = None, queries: Queries | None = None
) -> Qrels:
    """Read judgements: tab-separated query id, passage id, integer grade, below a header line.

    Parameters
    ----------
    path : Path
        BEIR's layout (``query-id``, ``corpus-id``, ``score``), or the same with underscores,
        ``doc_id``, ``relevance``.
    corpus, queries : optional
        If given, every id must be known to them. Judgements of passages that the corpus left out
        are left out too.

    Returns
    -------
    Qrels
        The judgements.

    Raises
    ------
    InputError
        File, line and finding: no header, another number of columns, a grade that is not an
        integer, a pair that stands twice, an unknown id.
    """
    path = Path(path)
    judgements: dict[str, dict[str, int]] = {}
    lines_of: dict[tuple[str, str], int] = {}
    skipped = frozenset(corpus.skipped_ids if corpus is not None else ())
    for number, line in _lines(path, "qrels"):
        where = f"{path}, line {number}"
        cells = line.rstrip("\r\n").split("\t")
        if number == 1:
            _check_header(cells, where)
            continue
        if cells == [""]:
            continue
        if len(cells) != 3:
            raise InputError("qrels", "3 cells, separated by tabs", f"{len(cells)}", where)
        query_id = check_id("query-id", cells[0], where)
        passage_id = check_id("corpus-id", cells[1], where)
        if not re.fullmatch("-?[0-9]{1,9}", cells[2]):
            raise InputError("score", "an integer", described(cells[2]), where)
        pair = (query_id, passage_id)
        if pair in lines_of:
            ids = f"{described(query_id)} and {described(passage_id)}"
            found = f"{ids} in lines {lines_of[pair]} and {number}"
            raise InputError("qrels", "each pair once", found, str(path))
        if queries is not None and query_id not in queries:
            raise InputError(
                "query-id", "the id of a query", f"unknown {described(query_id)}", where
            )
        lines_of[pair] = number
        if passage_id in skipped:
            continue
        if corpus is not None and passage_id not in corpus:
            raise InputError(
                "corpus-id", "the id of a passage", f"unknown {described(passage_id)}", where
            )
        judgements.setdefault(query_id, {})[passage_id] = int(cells[2])
    if not judgements:
        raise InputError("qrels", "at least one judgement", "an empty file", str(path))
    return Qrels(judgements)


def write_corpus_jsonl(corpus: Corpus, path: Path | str) -> None:
    """Write JSON lines that `read_corpus_jsonl` reads back to an equal corpus."""
    write_json_lines((passage_row(passage) for passage in corpus), path)


def write_queries_jsonl(queries: Queries, path: Path | str) -> None:
    """Write JSON lines that `read_queries_jsonl` reads back to equal queries."""
    columns = queries._columns
    rows = (
        {"_id": query_id, "text": columns.texts[row], **columns.present(row)}
        for row, query_id in enumerate(columns.ids)
    )
    write_json_lines(rows, path)


def write_qrels(qrels: Qrels, path: Path | str) -> None:
    """Write BEIR's tab-separated layout."""
    with _files.replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for query_id, grades in qrels.items():
            file.writelines(
                f"{query_id}\t{passage}\t{grade}\n" for passage, grade in grades.items()
            )


def passage_row(passage: Passage) -> dict[str, object]:
    """Give a passage as the object that stands on its line; absent fields are left out."""
    row: dict[str, object] = {"_id": passage.id, "title": passage.title, "text": passage.text}
    for name in METADATA_FIELDS[1:]:
        value = getattr(passage, name)
        if value is not None:
            row[name] = value
    return {**row, **passage.extra}


def add_row(
    columns: Columns,
    row: Mapping[str, Any],
    id_fields: tuple[str, ...],
    place: int,
    skip_blank: bool = False,
) -> None:
    """Split an object into id, text and fields, and append it."""
    where = columns.where(place)
    id_field = next((name for name in id_fields if name in row), None)
    if id_field is None:
        expected = f"one of the fields {', '.join(id_fields)}"
        raise InputError(columns.id_argument, expected, f"the fields {list(row)[:20]}", where)
    if "text" not in row:
        raise InputError("text", "the field 'text'", f"the fields {list(row)[:20]}", where)
    if skip_blank and isinstance(row["text"], str) and not row["text"].strip():
        columns.skip(row[id_field], place)
        return
    fields = {name: value for name, value in row.items() if name not in (id_field, "text")}
    columns.add(row[id_field], row["text"], fields, place)


def _read_jsonl(
    path: Path | str,
    argument: str,
    id_argument: str,
    id_fields: tuple[str, ...],
    skip_blank: bool = False,
) -> Columns:
    columns = Columns(id_argument, origin=str(path), unit="line")
    for number, row in json_lines(path, argument):
        add_row(columns, row, id_fields, number, skip_blank)
    return columns


def _name(source: Path | str | BinaryIO) -> str:
    return str(source) if isinstance(source, str | Path) else "stdin"


def _opened(source: Path | str | BinaryIO) -> contextlib.AbstractContextManager[BinaryIO]:
    if isinstance(source, str | Path):
        return Path(source).open("rb")
    return contextlib.nullcontext(source)  # whoever opened it closes it


def _lines(source: Path | str | BinaryIO, argument: str) -> Iterator[tuple[int, str]]:
    """Give numbered lines, split at line feeds only: U+2028 and its like may stand in a text."""
    path = _name(source)
    try:
        with _opened(source) as file:
            for number, line in enumerate(file, 1):
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    found = f"byte 0x{line[error.start]:02x} at byte {error.start} of the line"
                    where = f"{path}, line {number}"
                    raise InputError(argument, "text in UTF-8", found, where) from None
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except OSError as error:
        expected = "a file that can be read"
        raise InputError(argument, expected, str(error.strerror), path) from error


def _json_object(line: str, argument: str, where: str, hint: str) -> dict[str, Any]:
    try:
        value = JSON_DECODER.decode(line.strip())
    except _RepeatedFieldError as error:
        raise InputError(argument, "each field once", f"{error.args[0]!r} twice", where) from None
    except json.JSONDecodeError as error:
        # The line itself is not shown: it may hold a passage or a vector.
        found = f"{error.msg} at character {error.pos} of {len(line.strip())}{hint}"
        raise InputError(argument, "a JSON object", found, where) from None
    except (ValueError, RecursionError) as error:  # NaN, endless digits, bottomless nesting
        raise InputError(argument, "a JSON object", str(error), where) from None
    if not isinstance(value, dict):
        raise InputError(argument, "a JSON object", described(value), where)
    return value


class _RepeatedFieldError(ValueError):
    """A field stands twice in an object; Python's reader would drop the first."""

    def __str__(self) -> str:
        return f"the field {self.args[0]!r} twice in an object"


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedFieldError(next(name for name in names if names.count(name) > 1))
    return value


def _refuse_constant(name: str) -> None:
    message = f"{name}, which JSON does not have"
    raise ValueError(message)


# As strict as a file that people exchange needs: no field twice, no NaN.
JSON_DECODER = json.JSONDecoder(object_pairs_hook=_object_of_pairs, parse_constant=_refuse_constant)


def write_json_lines(rows: Iterable[Mapping[str, object]], path: Path | str) -> None:
    """Write objects, one a line, that `json_lines` reads: whole or not at all, mode 0600."""
    with _files.replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def _check_header(cells: list[str], where: str) -> None:
    names = [cell.strip() for cell in cells]
    if len(names) != 3 or any(
        name not in known for name, known in zip(names, QRELS_HEADERS, strict=True)
    ):
        expected = "the header query-id, corpus-id, score (separated by tabs)"
        raise InputError("qrels", expected, described("\t".join(cells)), where)
