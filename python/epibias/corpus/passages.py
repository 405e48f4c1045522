"""Passages in memory: ordered, immutable, checked.

Owns what a passage is and how ids meet rows. In: `Passage` objects, or the files that `readers`
reads. Out: columns of ids, texts and metadata; a `Passage` is built only when it is asked for, so
that a corpus costs little more than its characters. Never edits or drops a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

from epibias import _validate
from epibias.corpus.columns import RESERVED_FIELDS, Columns
from epibias.errors import InputError

METADATA_FIELDS = ("title", "source", "tier", "author", "time")


@dataclass(frozen=True)
class Passage:
    """A unit of text that is embedded and retrieved.

    Parameters
    ----------
    id : str
        Unique within a corpus.
    text : str
        The passage itself, not blank.
    title : str
        Title, or "".
    source : str, optional
        Where the passage came from.
    tier : {1, 2, 3}, optional
        How far the source is trusted: 1 controlled, 2 team, 3 open.
    author : str, optional
        Who wrote it.
    time : str, optional
        When, in ISO 8601.
    extra : mapping
        All other fields of the passage, of any kind that JSON can hold.

    Examples
    --------
    >>> Passage("p1", "Trains are fast.", source="wiki", tier=3).tier
    3
    """

    id: str
    text: str
    title: str = ""
    source: str | None = None
    tier: int | None = None
    author: str | None = None
    time: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)


class Corpus:
    r"""Ordered passages with unique ids.

    Parameters
    ----------
    passages : iterable of Passage
        The passages, in the order of their rows.

    Attributes
    ----------
    ids : tuple of str
        Ids, in order.
    encoded_texts : sequence of str
        What is encoded: title, a line break and text; the text alone where there is no title.
        `corpus[i].text` is the text without its title.

    Raises
    ------
    InputError
        Row and field of the first passage with a blank text, an id that stands twice, a lone
        surrogate, a tier other than 1, 2, 3, or a time that is not ISO 8601.

    Examples
    --------
    >>> passages = [Passage("p1", "Trains are fast."), Passage("p2", "Cars are free.", "Cars")]
    >>> corpus = Corpus(passages)
    >>> corpus.index_of("p2"), corpus.encoded_texts[1]
    (1, 'Cars\nCars are free.')
    >>> corpus[0].text
    'Trains are fast.'
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        columns = Columns("_id")
        _add_passages(columns, passages)
        self._columns = columns.finish()

    @classmethod
    def _from_columns(cls, columns: Columns) -> Corpus:
        corpus = cls.__new__(cls)
        corpus._columns = columns.finish()
        return corpus

    @classmethod
    def from_jsonl(cls, path: Path | str, *, blank: str = "error") -> Corpus:
        r"""Read a corpus from JSON lines.

        Parameters
        ----------
        path : Path
            One object a line: an id (``_id``, ``id`` or ``doc_id``), ``text``, and optionally
            ``title``, ``source``, ``tier``, ``author``, ``time``; any other field is metadata.
        blank : {"error", "skip"}
            Refuse the file for a passage whose text is blank, or leave such passages out and list
            them in `skipped_ids`.

        Returns
        -------
        Corpus

        Raises
        ------
        InputError
            File, line, field and finding, for the first line that is not such an object.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "c.jsonl").write_text('{"id": "p1", "text": "a", "votes": 3}\n')
        ...     Corpus.from_jsonl(Path(folder, "c.jsonl")).metadata("votes")
        (3,)
        """
        from epibias.corpus import readers

        return readers.read_corpus_jsonl(path, blank=blank)

    @classmethod
    def from_parquet(cls, path: Path | str, *, blank: str = "error") -> Corpus:
        """Read a corpus from a Parquet file (extra ``parquet``).

        Parameters
        ----------
        path : Path
            Columns named as the fields of `from_jsonl`.
        blank : {"error", "skip"}
            As in `from_jsonl`.

        Returns
        -------
        Corpus

        Raises
        ------
        InputError
            File, row, field and finding.
        MissingExtraError
            Without pyarrow.
        """
        from epibias.corpus import parquet

        return parquet.read_corpus(path, blank=blank)

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

        readers.write_corpus_jsonl(self, path)

    def to_parquet(self, path: Path | str) -> None:
        """Write a Parquet file that `from_parquet` reads back (extra ``parquet``).

        Parameters
        ----------
        path : Path
            The file is there whole or not at all, mode 0600.

        Raises
        ------
        InputError
            If a field has values that one Parquet column cannot hold, or the path is unwritable.
        MissingExtraError
            Without pyarrow.
        """
        from epibias.corpus import parquet

        parquet.write_corpus(self, path)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids, in order."""
        return self._columns.ids

    @property
    def encoded_texts(self) -> Sequence[str]:
        """Texts as they are encoded, in order; joined with their titles when they are asked for."""
        return _EncodedTexts(self._columns)

    @property
    def skipped_ids(self) -> tuple[str, ...]:
        """Ids of passages that were left out because ``blank="skip"`` asked for it."""
        return self._columns.skipped_ids

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Names that `metadata` knows: the five of a passage, then those of this corpus."""
        others = (name for name in self._columns.fields if name not in METADATA_FIELDS)
        return (*METADATA_FIELDS, *others)

    def metadata(self, name: str) -> tuple[object, ...]:
        """Give one field of every passage, in order.

        Parameters
        ----------
        name : str
            "title", "source", "tier", "author", "time", or any field that the passages brought.

        Returns
        -------
        tuple
            One value a passage; None where it has none ("" for titles).

        Raises
        ------
        InputError
            No passage has such a field.

        Examples
        --------
        >>> Corpus([Passage("p1", "a", tier=2), Passage("p2", "b")]).metadata("tier")
        (2, None)
        """
        known = _validate.choice("name", name, self.metadata_names)
        absent = "" if known == "title" else None
        if known not in self._columns.fields:
            return (absent,) * len(self)
        column = self._columns.column(known)
        return column if absent is None else tuple(absent if v is None else v for v in column)

    def index_of(self, passage_id: str) -> int:
        """Give the row of an id.

        Parameters
        ----------
        passage_id : str

        Returns
        -------
        int

        Raises
        ------
        InputError
            An id that is not in the corpus.
        """
        return self._columns.row("passage_id", passage_id, "passages")

    def extended(self, passages: Iterable[Passage]) -> Corpus:
        """Give a new corpus with these passages after the present ones; this one stays as it is.

        Parameters
        ----------
        passages : iterable of Passage
            Their ids must be new.

        Returns
        -------
        Corpus

        Raises
        ------
        InputError
            Row and field of the first passage that is wrong, or whose id is known.

        Examples
        --------
        >>> clean = Corpus([Passage("p1", "a")])
        >>> len(clean.extended([Passage("p2", "b")])), len(clean)
        (2, 1)
        """
        columns = self._columns.copy()
        _add_passages(columns, passages, first_place=len(self))
        return Corpus._from_columns(columns)

    def __contains__(self, passage_id: object) -> bool:
        return passage_id in self._columns.row_of

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, row: int) -> Passage:
        # Negative rows are refused: a store's "nothing found" is -1, and must not be a passage.
        row = _validate.integer("row", row, low=0, high=len(self) - 1)
        fields = self._columns.present(row)
        known = {name: fields.pop(name) for name in METADATA_FIELDS if name in fields}
        text = self._columns.texts[row]
        return Passage(self._columns.ids[row], text, **known, extra=fields)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Passage]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Corpus) and self._columns.same_as(other._columns)

    __hash__ = None  # type: ignore[assignment]  # equal by content, and too large to hash

    def __repr__(self) -> str:
        return f"Corpus({len(self)} passages)"


class _EncodedTexts(Sequence[str]):
    """Texts with their titles before them, joined on access: no second copy of the corpus."""

    def __init__(self, columns: Columns) -> None:
        self._texts = columns.texts
        self._titles = columns.fields.get("title", [])

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        if row < 0:
            row += len(self)
        text = self._texts[row]
        title = self._titles[row] if row < len(self._titles) else None
        return encoded_text(title, text)


def encoded_text(title: object, text: str) -> str:
    r"""Join a title and a text as they are encoded.

    Examples
    --------
    >>> encoded_text("Cars", "Cars are free."), encoded_text(None, "Walk.")
    ('Cars\nCars are free.', 'Walk.')
    """
    return f"{title}\n{text}" if isinstance(title, str) and title.strip() else text


def _add_passages(columns: Columns, passages: Iterable[Passage], first_place: int = 0) -> None:
    for place, passage in enumerate(passages, first_place):
        if not isinstance(passage, Passage):
            raise InputError("passages", "Passage objects", type(passage).__name__, f"row {place}")
        for name in passage.extra:
            if name in RESERVED_FIELDS:
                found = f"{name!r}, which is a field of Passage"
                raise InputError("extra", "other names", found, columns.where(place, passage.id))
        fields = {name: getattr(passage, name) for name in METADATA_FIELDS}
        columns.add(passage.id, passage.text, {**fields, **passage.extra}, place)
