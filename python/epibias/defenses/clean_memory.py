"""What selections were like before anybody attacked: one record a question of a topic.

In: pools of an index that is trusted. Out: for each question the mean score of its undefended
selection, the spread of its candidates' scores, the selection's mean similarity, and by which two
numbers each candidate is known again. Holds numbers and digests of questions: no passage, no
vector, no text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from epibias import _validate
from epibias._plain import described
from epibias._validate import Float64Array
from epibias.defenses.echo import echo_shares
from epibias.errors import InputError
from epibias.pool import CandidatePool


class CleanRecord(NamedTuple):
    """Of one question's clean pool.

    Attributes
    ----------
    centre : float
        Mean score of the k most similar candidates.
    spread : float
        Standard deviation of all candidates' scores.
    similarity : float
        Mean similarity of the k most similar candidates.
    echo : float
        Largest share of the question that one of them says again; None without texts.
    candidates : tuple of (float, float)
        Similarity and score of each candidate, the most similar first: a passage is known again by
        them. Empty: none is.

    Examples
    --------
    >>> CleanRecord(0.1, 0.05, 0.6, 0.3).centre
    0.1
    """

    centre: float
    spread: float
    similarity: float
    echo: float | None
    candidates: tuple[tuple[float, float], ...] = ()


def record_of(
    scores: Float64Array, similarities: Float64Array, echoes: Float64Array | None, k: int
) -> CleanRecord:
    """Describe one question's clean candidates, in the pool's order.

    Parameters
    ----------
    scores, similarities : float64 [n]
        At least 2.
    echoes : float64 [n], optional
        Share of the question that each says again (`epibias.defenses.echo`).
    k : int

    Returns
    -------
    CleanRecord

    Examples
    --------
    >>> record_of(np.array([0.2, 0.4]), np.array([0.8, 0.6]), None, 1).centre
    0.2
    """
    echo = None if echoes is None else float(echoes[:k].max())
    pairs = zip(similarities.tolist(), scores.tolist(), strict=True)
    return CleanRecord(
        float(scores[:k].mean()),
        float(scores.std(ddof=1)),
        float(similarities[:k].mean()),
        echo,
        tuple(pairs),
    )


def _pairs_of(candidates: Any, where: str) -> Float64Array:  # noqa: ANN401  as JSON gives them
    """Pairs of numbers in the order given, float64 [m, 2]; anything else is refused."""
    try:
        pairs = np.array(candidates)
    except ValueError:  # of several lengths
        pairs = np.array(None)
    is_numbers = pairs.dtype.kind in "fiu" and (pairs.shape[1:] == (2,) or pairs.shape == (0,))
    if not (is_numbers and np.isfinite(pairs).all()):
        expected = "pairs of finite numbers, similarity and score"
        raise InputError("memory.candidates", expected, described(candidates), where)
    return pairs.astype(np.float64).reshape(-1, 2)


def question_key(question: str, topic: str | None = None) -> str:
    """Return what a question is remembered by: 32 hex digits that do not tell its text.

    Whoever guesses the question can confirm the guess, as with any digest without a secret.

    Parameters
    ----------
    question : str
    topic : str, optional
        Whose axis its candidates are scored on: on another one the record means nothing.

    Returns
    -------
    str

    Examples
    --------
    >>> len(question_key("Why?")), question_key("Why?") == question_key("Why? ")
    (32, False)
    >>> question_key("Why?", "trams") == question_key("Why?")
    False
    """
    of_topic = b"" if topic is None else _digest(topic).digest()
    return _digest(question, of_topic).hexdigest()


def _digest(text: str, key: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=key)


@dataclass(frozen=True)
class CleanMemory:
    """Records of clean pools by question.

    Parameters
    ----------
    records : mapping of str to CleanRecord
        By `question_key`.
    k : int
        Passages of a selection.

    Raises
    ------
    InputError
        A record that is none, is not finite, or that no pool can have; `k` below 1.

    Examples
    --------
    >>> memory = CleanMemory({question_key("Why?"): CleanRecord(0.1, 0.05, 0.6, 0.3)}, 5)
    >>> len(memory), memory.get("Who?") is None
    (1, True)
    """

    records: Mapping[str, CleanRecord]
    k: int
    _entries: dict[str, tuple[CleanRecord, Float64Array]] = field(
        default_factory=dict, init=False, compare=False
    )

    def __post_init__(self) -> None:
        _validate.integer("k", self.k, low=1)
        if not isinstance(self.records, Mapping):
            raise InputError("memory", "records by question", described(self.records))
        for key, one in self.records.items():  # a wrong one would bound nothing, and not say so
            where = f"question {key}"
            if not isinstance(one, CleanRecord):
                raise InputError("memory", "records of clean pools", described(one), where)
            _validate.number("memory.centre", one.centre, where=where)
            _validate.number("memory.spread", one.spread, low=0, where=where)
            _validate.number("memory.similarity", one.similarity, where=where)
            if one.echo is not None:
                _validate.number("memory.echo", one.echo, low=0, high=1, where=where)
            pairs = _pairs_of(one.candidates, where)
            self._entries[key] = (one, pairs[np.argsort(pairs[:, 0], kind="stable")])

    @classmethod
    def of(cls, pool: CandidatePool, k: int = 5) -> CleanMemory:
        """Remember clean pools.

        Parameters
        ----------
        pool : CandidatePool
            Of a trusted index, with query texts, each question once, or once a topic where the
            pool has topics.
        k : int

        Returns
        -------
        CleanMemory

        Raises
        ------
        InputError
            No query texts, one of them twice, or a query with fewer than `k` or 2 candidates.

        Examples
        --------
        >>> from epibias.polarization import PolarizationAxis
        >>> rows = np.array([[1, 0.1], [1, -0.2], [1, 0.5], [0.1, 1]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis, query_texts=["Why?"])
        >>> CleanMemory.of(pool, k=2).get("Why?").similarity.__round__(2)
        0.98
        """
        k = _validate.integer("k", k, low=1)
        texts = pool.query_texts
        if texts is None:
            raise InputError("pool.query_texts", "one a query, to remember it by", "None")
        records: dict[str, CleanRecord] = {}
        for query, text in enumerate(texts):
            key = question_key(text, None if pool.topics is None else pool.topics[query])
            if key in records:
                expected = "each question once, or pool.topics that tell its axes apart"
                raise InputError("pool.query_texts", expected, f"{text!r} again", f"query {query}")
            part = slice(int(pool.offsets[query]), int(pool.offsets[query + 1]))
            scores = pool.scores[part].astype(np.float64)
            similarities = pool.similarities[part].astype(np.float64)
            if len(scores) < max(k, 2):
                expected = f"at least {max(k, 2)} candidates"
                raise InputError("pool", expected, str(len(scores)), f"query {query}")
            echoes = None
            if pool.passage_texts is not None:
                echoes = echo_shares(text, pool.passage_texts[part])
            records[key] = record_of(scores, similarities, echoes, k)
        return cls(records, k)

    @classmethod
    def of_plain(cls, records: object, k: int) -> CleanMemory:
        """Make a memory of its records as plain values: what a manifest or a file holds.

        Parameters
        ----------
        records : mapping of str to sequence
            Key to the values of a `CleanRecord`.
        k : int

        Returns
        -------
        CleanMemory

        Raises
        ------
        InputError
            No mapping, or the first record that is none.

        Examples
        --------
        >>> CleanMemory.of_plain({question_key("Why?"): [0.1, 0.05, 0.6, None]}, 5).get("Why?").echo
        """
        if not isinstance(records, Mapping):
            raise InputError("memory", "records by question", described(records))
        made = {}
        for key, values in records.items():
            if not isinstance(values, list | tuple) or not 4 <= len(values) <= 5:
                expected = "records of 4 or 5 values"
                raise InputError("memory", expected, described(values), f"question {key}")
            centre, spread, similarity, echo, *more = values
            pairs = _pairs_of(more[0] if more else (), f"question {key}").tolist()
            found = tuple((x, y) for x, y in pairs)
            made[key] = CleanRecord(centre, spread, similarity, echo, found)
        return cls(made, k)

    def get(self, question: str, topic: str | None = None) -> CleanRecord | None:
        """Return a question's record, if there is one.

        Parameters
        ----------
        question : str
        topic : str, optional
            Its record on this topic; else one that was made of a pool without topics.

        Returns
        -------
        CleanRecord or None
        """
        entry = self.entry(question, topic)
        return None if entry is None else entry[0]

    def entry(
        self, question: str, topic: str | None = None
    ) -> tuple[CleanRecord, Float64Array] | None:
        """Return a question's record and its candidates as an array.

        Parameters
        ----------
        question : str
        topic : str, optional
            As `get`.

        Returns
        -------
        (CleanRecord, float64 [m, 2]) or None
            Similarity and score, in ascending similarity; m is 0 where no candidate is remembered.
        """
        found = None if topic is None else self._entries.get(question_key(question, topic))
        return self._entries.get(question_key(question)) if found is None else found

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"CleanMemory({len(self.records)} questions, k={self.k})"


def recalled(
    memory: CleanMemory | None, pool: CandidatePool
) -> tuple[Float64Array, list[tuple[int, Float64Array]]]:
    """Look up what is remembered of each query of a pool.

    Parameters
    ----------
    memory : CleanMemory, optional
    pool : CandidatePool

    Returns
    -------
    records : float64 [4, n_queries]
        Centre, spread, similarity and echo; NaN where not known.
    candidates : list of (int, float64 [m, 2])
        Each query of which candidates are remembered, with these, as `CleanMemory.entry` has them.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> rows = np.array([[1, 0.1], [1, -0.2], [1, 0.5], [0.1, 1]], np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
    >>> pool = CandidatePool.from_vectors(rows[:1], rows, axis, query_texts=["Why?"])
    >>> records, candidates = recalled(CleanMemory.of(pool, k=2), pool)
    >>> records.shape, len(candidates), recalled(None, pool)[0][0]
    ((4, 1), 1, array([nan]))
    """
    records = np.full((4, pool.n_queries), np.nan)
    candidates = []
    if memory is not None and pool.query_texts is not None:
        topics = pool.topics or (None,) * pool.n_queries
        for query, asked in enumerate(zip(pool.query_texts, topics, strict=True)):
            entry = memory.entry(*asked)
            if entry is not None:
                records[:, query] = entry[0][:4]
                if len(entry[1]):
                    candidates.append((query, entry[1]))
    return records, candidates
