"""Relevance judgements: which passages answer which query, and how well.

Owns the mapping query id to {passage id: grade}. Reading and writing files is `readers`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from epibias._plain import described
from epibias.corpus.columns import check_id
from epibias.errors import InputError


class Qrels(Mapping[str, Mapping[str, int]]):
    """Relevance judgements: query id to {passage id: grade}.

    Parameters
    ----------
    judgements : mapping
        Grades are integers; above 0 means relevant.

    Raises
    ------
    InputError
        An id that is no text on one line, or a grade that is no integer.

    Examples
    --------
    >>> qrels = Qrels({"q1": {"p1": 1, "p2": 0}})
    >>> qrels.relevant("q1"), qrels["q1"]["p2"]
    (('p1',), 0)
    """

    def __init__(self, judgements: Mapping[str, Mapping[str, int]]) -> None:
        checked: dict[str, Mapping[str, int]] = {}
        for query_id, grades in judgements.items():
            check_id("query_id", query_id, None)
            for passage_id, grade in grades.items():
                where = f"query {query_id!r}, passage {passage_id!r}"
                check_id("passage_id", passage_id, where)
                if isinstance(grade, bool) or not isinstance(grade, int):
                    raise InputError("grade", "an integer", described(grade), where)
            checked[query_id] = MappingProxyType(dict(grades))
        self._judgements = checked

    @classmethod
    def from_tsv(cls, path: Path | str) -> Qrels:
        """Read tab-separated judgements.

        Parameters
        ----------
        path : Path
            A header line, then query id, passage id and integer grade: BEIR's layout.

        Returns
        -------
        Qrels

        Raises
        ------
        InputError
            File, line and finding, for the first line that is no judgement.
        """
        from epibias.corpus import readers

        return readers.read_qrels(path)

    def to_tsv(self, path: Path | str) -> None:
        """Write BEIR's tab-separated layout.

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

        readers.write_qrels(self, path)

    def __reduce__(self) -> tuple[type[Qrels], tuple[dict[str, dict[str, int]]]]:
        return type(self), ({query: dict(grades) for query, grades in self._judgements.items()},)

    @property
    def n_judgements(self) -> int:
        """Number of judged pairs."""
        return sum(len(grades) for grades in self._judgements.values())

    def relevant(self, query_id: str, min_grade: int = 1) -> tuple[str, ...]:
        """Give the passages judged `min_grade` or better for a query.

        Parameters
        ----------
        query_id : str
        min_grade : int

        Returns
        -------
        tuple of str
            Passage ids, in the order of the judgements.

        Raises
        ------
        InputError
            A query without judgements.
        """
        grades = self[query_id]
        return tuple(passage for passage, grade in grades.items() if grade >= min_grade)

    def __getitem__(self, query_id: str) -> Mapping[str, int]:
        if query_id not in self:
            expected = f"the id of one of {len(self)} judged queries"
            raise InputError("query_id", expected, f"unknown {described(query_id)}")
        return self._judgements[query_id]

    def get(self, key: str, default: Any = None, /) -> Any:  # noqa: ANN401  # whatever is asked for
        """Give a query's grades, or `default` where none are known.

        Parameters
        ----------
        key : str
            A query id.
        default
            What stands for an unknown query.

        Returns
        -------
        mapping of passage id to grade, or `default`
        """
        return self._judgements.get(key, default)

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._judgements

    def __iter__(self) -> Iterator[str]:
        return iter(self._judgements)

    def __len__(self) -> int:
        return len(self._judgements)

    def __repr__(self) -> str:
        return f"Qrels({self.n_judgements} judgements of {len(self)} queries)"
