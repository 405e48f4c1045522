"""Labelled adversarial passages: what every attack gives, and what a file of them holds.

Owns the labels (question, polarity, attack), the provenance of each passage and the count of what
was rejected on the way. In: what an attack made, or a file (`set_files` reads and writes). Out:
passages by question and polarity. For the evaluation of an index you own; nothing is posted.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from epibias import _validate
from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.corpus.columns import check_id
from epibias.errors import InputError

# "none": the passage takes no side, as a copy of the question does.
POLARITIES = ("positive", "negative", "none")


@dataclass(frozen=True)
class AdversarialPassage:
    """A passage that an attack made, with its labels and where it came from.

    Parameters
    ----------
    passage : Passage
        The text, under an id of its own.
    question_id : str
        Question that it is aimed at.
    polarity : {"positive", "negative", "none"}
        Side that it is to push the answer to; "none" where it takes no side.
    attack : str
        Name of the attack, such as "ebi".
    provenance : mapping
        How it was made: plain values that JSON can hold (prompt and its version, generator and
        encoder identity, seed, polarization score, the reference's score, round, ...).

    Raises
    ------
    InputError
        An unknown polarity, a blank name, or provenance that JSON cannot hold.

    Examples
    --------
    >>> one = AdversarialPassage(Passage("a1", "Only trams!"), "q1", "positive", "verbatim")
    >>> one.passage.id, one.polarity, dict(one.provenance)
    ('a1', 'positive', {})
    """

    passage: Passage
    question_id: str
    polarity: str
    attack: str
    provenance: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.passage, Passage):
            raise InputError("passage", "a Passage", type(self.passage).__name__)
        where = f"id {self.passage.id!r}"
        check_id("question_id", self.question_id, where)
        if self.polarity not in POLARITIES:
            expected = " or ".join(map(repr, POLARITIES))
            raise InputError("polarity", expected, described(self.polarity), where)
        check_id("attack", self.attack, where)
        own = plain_provenance(self.provenance, where)
        object.__setattr__(self, "provenance", own)


def plain_provenance(value: object, where: str) -> dict[str, object]:
    """Give a copy of plain values that a file can hold.

    Raises
    ------
    InputError
        No mapping, what JSON cannot hold, a lone surrogate.

    Examples
    --------
    >>> plain_provenance({"stances": (1, -1)}, "id 'a1'")
    {'stances': [1, -1]}
    """
    if not isinstance(value, Mapping):
        raise InputError("provenance", "a mapping (a JSON object)", described(value), where)
    try:
        shown = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
        shown.encode("utf-8")
        own: dict[str, object] = json.loads(shown)
    except UnicodeEncodeError as error:
        found = f"a lone surrogate {error.object[error.start]!a}"
        raise InputError("provenance", "valid Unicode", found, where) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError("provenance", "what JSON can hold", str(error), where) from None
    return own


@dataclass(frozen=True)
class AdversarialSet:
    """Adversarial passages of any number of questions, and the count of what was rejected.

    Parameters
    ----------
    passages : tuple of AdversarialPassage
        In the order in which they were made; each id once.
    rejections : mapping of str to int
        How many texts were made and not taken, by reason.

    Raises
    ------
    InputError
        An id that stands twice, a passage that a corpus refuses, or a count that is none.

    Examples
    --------
    >>> made = AdversarialPassage(Passage("a1", "Only trams!"), "q1", "positive", "verbatim")
    >>> found = AdversarialSet((made,), {"duplicate": 2})
    >>> [passage.id for passage in found.of("q1", "positive")], found.of("q1", "negative")
    (['a1'], ())
    """

    passages: tuple[AdversarialPassage, ...]
    rejections: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "passages", tuple(self.passages))
        for row, one in enumerate(self.passages):
            if not isinstance(one, AdversarialPassage):
                expected, found = "AdversarialPassage objects", type(one).__name__
                raise InputError("passages", expected, found, f"row {row}")
        if not isinstance(self.rejections, Mapping):
            raise InputError("rejections", "a mapping", described(self.rejections))
        counts = {
            _validate.text("rejections", reason): _validate.integer("rejections", count, low=0)
            for reason, count in self.rejections.items()
        }
        object.__setattr__(self, "rejections", counts)
        _ = self.corpus  # ids are unique, texts can be encoded

    def __len__(self) -> int:
        return len(self.passages)

    @property
    def corpus(self) -> Corpus:
        """The passages alone, in their order."""
        return Corpus(one.passage for one in self.passages)

    @functools.cached_property
    def _by_question(self) -> dict[str, list[AdversarialPassage]]:
        found: dict[str, list[AdversarialPassage]] = {}
        for one in self.passages:
            found.setdefault(one.question_id, []).append(one)
        return found

    @property
    def question_ids(self) -> tuple[str, ...]:
        """Questions that have passages, in the order of their first."""
        return tuple(self._by_question)

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks, in the order of their first passage."""
        return tuple(dict.fromkeys(one.attack for one in self.passages))

    def of(
        self, question_id: str, polarity: str | None = None, attack: str | None = None
    ) -> tuple[Passage, ...]:
        """Give the passages aimed at a question.

        Parameters
        ----------
        question_id : str
            Unknown questions have none.
        polarity : {"positive", "negative", "none"}, optional
            Only those of this side; by default all.
        attack : str, optional
            Only those of this attack; by default all.

        Returns
        -------
        tuple of Passage
            In the order of the set; may be empty.

        Raises
        ------
        InputError
            An unknown polarity.
        """
        if polarity is not None:
            _validate.choice("polarity", polarity, POLARITIES)
        return tuple(
            one.passage
            for one in self._by_question.get(question_id, ())
            if polarity in (None, one.polarity) and attack in (None, one.attack)
        )

    @classmethod
    def joined(cls, sets: Iterable[AdversarialSet]) -> AdversarialSet:
        """Join sets: passages in order, rejections added up.

        Parameters
        ----------
        sets : iterable of AdversarialSet
            No id may stand in two of them.

        Returns
        -------
        AdversarialSet

        Raises
        ------
        InputError
            An id that stands twice.

        Examples
        --------
        >>> empty = AdversarialSet((), {"length": 1})
        >>> AdversarialSet.joined([empty, empty]).rejections
        {'length': 2}
        """
        passages: list[AdversarialPassage] = []
        counts: dict[str, int] = {}
        for one in sets:
            passages.extend(one.passages)
            for reason, count in one.rejections.items():
                counts[reason] = counts.get(reason, 0) + count
        return cls(tuple(passages), counts)

    def write(self, path: Path | str) -> None:
        """Write JSON lines that `read` gives back: one line about the set, then one a passage.

        Parameters
        ----------
        path : Path
            The file is there whole or not at all, mode 0600.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        from epibias.attacks import set_files

        set_files.write_set(self, path)

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        values: Mapping[str, Mapping[str, str]] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> AdversarialSet:
        r"""Read a set that `write` wrote, or a ready-made one in JSON lines or CSV.

        Parameters
        ----------
        path : Path
            ``*.csv`` is read as CSV with a header, everything else as JSON lines. Columns (fields):
            ``text``, ``question_id``, ``polarity``, ``attack``; optionally an id (``_id``, ``id``
            or ``doc_id``), ``title``, ``source``, ``tier``, ``author``, ``time``, ``provenance``
            (an object). Others become metadata of the passage. In JSON lines ``text`` may be a
            list: one passage a text, all with the labels of the line.
        columns : mapping, optional
            Our name to the file's, where they differ: ``{"text": "adv_text"}``. If the file also
            has a column of our name, that becomes the metadata ``file_text``.
        values : mapping, optional
            Of a column, the file's value to ours: ``{"polarity": {"PRO": "positive"}}``.
        defaults : mapping, optional
            Of ``question_id``, ``polarity`` or ``attack``: the value of every line, where the file
            has no such column.

        Returns
        -------
        AdversarialSet
            Passages without an id are called ``<attack>-<question>-<polarity>-<line>``, with
            ``.<number>`` behind where a line holds several.

        Raises
        ------
        InputError
            File, line, column and finding: a column that is missing, a polarity that is none, a
            blank text, an id that stands twice, a line that is no JSON object, a CSV row with more
            or fewer cells than the header, a set that is cut off.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "released.csv")
        ...     _ = file.write_text("qid,stance,adv\nq1,PRO,Only trams!\n")
        ...     found = AdversarialSet.read(
        ...         file,
        ...         columns={"question_id": "qid", "polarity": "stance", "text": "adv"},
        ...         values={"polarity": {"PRO": "positive", "CON": "negative"}},
        ...         defaults={"attack": "released"},
        ...     )
        >>> found.passages[0].passage.id, found.of("q1", "positive")[0].text
        ('released-q1-positive-2', 'Only trams!')
        """
        from epibias.attacks import set_files

        return set_files.read_set(path, columns=columns, values=values, defaults=defaults)
