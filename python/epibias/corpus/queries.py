"""Queries in memory: ordered, immutable, checked, as passages are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from epibias import _validate
from epibias._plain import described
from epibias.corpus.columns import Columns
from epibias.errors import InputError


class Queries:
    """Questions of users, ordered, with unique ids.

    Parameters
    ----------
    ids : sequence of str
        Ids of the queries.
    texts : sequence of str
        Their texts, not blank.

    Raises
    ------
    InputError
        An id that stands twice, a blank text, or not as many texts as ids.

    Examples
    --------
    >>> queries = Queries(["q1"], ["Are trains better than cars?"])
    >>> queries.ids, queries.index_of("q1")
    (('q1',), 0)
    """

    def __init__(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        _validate.same_length("texts", len(texts), "ids", len(ids))
        columns = Columns("query_id")
        for row, (query_id, text) in enumerate(zip(ids, texts, strict=True)):
            columns.add(query_id, text, {}, row)
        self._columns = columns.finish()

    @classmethod
    def _from_columns(cls, columns: Columns) -> Queries:
        queries = cls.__new__(cls)
        queries._columns = columns.finish()
        return queries

    @classmethod
    def from_jsonl(cls, path: Path | str) -> Queries:
        """Read queries from JSON lines.

        Parameters
        ----------
        path : Path
            One object a line: an id (``_id``, ``id`` or ``query_id``) and ``text``; any other field
            is metadata.

        Returns
        -------
        Queries

        Raises
        ------
        InputError
            File, line, field and finding, for the first line that is not such an object.
        """
        from epibias.corpus import readers

        return readers.read_queries_jsonl(path)

    def to_jsonl(self, path: Path | str) -> None:
        """Write JSON lines that `from_jsonl` reads back.

        Parameters
        ----------
        path : Path
            The file is there whole or not at all, mode 0600.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        from epibias.corpus import readers

        readers.write_queries_jsonl(self, path)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids, in order."""
        return self._columns.ids

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts, in order."""
        return self._columns.texts

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Names that `metadata` knows: whatever fields the queries brought."""
        return tuple(self._columns.fields)

    def metadata(self, name: str) -> tuple[object, ...]:
        """Give one field of every query.

        Parameters
        ----------
        name : str
            One of `metadata_names`.

        Returns
        -------
        tuple
            One value a query; None where it has none.

        Raises
        ------
        InputError
            No query has such a field.
        """
        if name not in self._columns.fields:
            raise InputError("name", f"one of {list(self.metadata_names)}", described(name))
        return self._columns.column(name)

    def index_of(self, query_id: str) -> int:
        """Give the row of an id.

        Parameters
        ----------
        query_id : str

        Returns
        -------
        int

        Raises
        ------
        InputError
            An id that is not among the queries.
        """
        return self._columns.row("query_id", query_id, "queries")

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._columns.row_of

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Queries) and self._columns.same_as(other._columns)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Queries({len(self)} queries)"
