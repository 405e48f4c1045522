"""TiltBound: the most similar passages whose mean score stays where clean selections had it.

In: a pool, and what is known of clean ones (a memory, or which candidates are trusted). Out: a
selection. First what repeats the question, or another candidate, is left out; then candidates are
exchanged until the mean polarization score is back within a bound. docs/tilt_bound.md has the
derivation, what each part is worth, and where it breaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float64Array, Int64Array
from epibias.defenses.bounded_swaps import BoolArray, bounded_selection
from epibias.defenses.calibration import limit_of_questions
from epibias.defenses.clean_memory import SAME, CleanMemory, CleanRecord, record_of
from epibias.defenses.echo import echo_shares
from epibias.defenses.newcomers import admitted, newcomers
from epibias.errors import InputError
from epibias.kernels import inverse_norms
from epibias.pool import CandidatePool
from epibias.selection import Selection

NOTHING, MEMORY, VERSION = "nothing", "memory", "version"
LOOKED_AT = 3  # times k: how far down repeats are looked for
NOT_KNOWN = CleanRecord(float("nan"), float("nan"), float("nan"), None)


@dataclass(frozen=True)
class TiltBound:
    """Select the most similar candidates whose mean score is not tilted against clean selections.

    Parameters
    ----------
    k : int
        Passages to select.
    bound : float
        Most that the mean score of a selection may lie from the centre, in standard deviations of
        the question's clean candidate scores, where `memory` has its centre.
    version_bound : float
        The same where the centre is that of the pool's trusted candidates: wider, for an honest
        newcomer moves it too. A question of which neither is known is not bounded.
    echo : float, optional
        Candidates that say more than this share of the question again, in one place
        (`epibias.defenses.echo`), are left out; `calibrated` finds it. A question whose clean
        selection is known has that selection's largest share in its place, and among trusted
        candidates nothing is left out for it. Needs texts; without them, or with None, nothing is
        left out for it.
    repeat : float, optional
        Candidates of at least this cosine with the question or with a better candidate are left
        out; among the best 3k. Off unless asked for: honest corpora repeat themselves.
    memory : CleanMemory, or its records as `parameters` gives them, optional
        What selections were like on the trusted index. A selection that is what it was then is
        left alone.
    trusted_until : str, optional
        Candidates with a later `metadata["time"]`, or none, are newcomers: they are held against
        those that are trusted. Without times in the pool it does nothing.
    most_newcomers : int
        With more of them in a pool no newcomer is selected.
    per_source : int, optional
        Most newcomers of one `metadata["source"]`.

    Raises
    ------
    InputError
        A parameter out of range, or one that would decide nothing.

    Examples
    --------
    >>> from epibias.polarization import PolarizationAxis
    >>> side = np.array([0.1, -0.1, 0.2, -0.1, 0.9, 0.8])
    >>> near = np.array([0.5, 0.5, 0.4, 0.4, 0.7, 0.7])
    >>> rows = np.stack([near, side, 1 + np.arange(6) / 9], 1).astype(np.float32)
    >>> axis = PolarizationAxis.fit(np.array([[1, 1, 1], [1, -1, 1]] * 2, np.float32), [1, -1] * 2)
    >>> query, asked = np.array([[1, 0, 0]], np.float32), ["Why?"]
    >>> clean = CandidatePool.from_vectors(query, rows[:4], axis, query_texts=asked)
    >>> attacked = CandidatePool.from_vectors(query, rows, axis, query_texts=asked)
    >>> defense = TiltBound(k=2, bound=0.5, memory=CleanMemory.of(clean, k=2))
    >>> defense.select(clean)[0], defense.select(attacked)[0]
    (array([0, 1]), array([0, 1]))
    """

    k: int = 5
    _: KW_ONLY
    bound: float = 0.1
    version_bound: float = 0.5
    echo: float | None = None
    repeat: float | None = None
    memory: CleanMemory | None = None
    trusted_until: str | None = None
    most_newcomers: int = 5
    per_source: int | None = 1

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "k": _validate.integer("k", self.k, low=1),
            "bound": _validate.number("bound", self.bound, low=0),
            "version_bound": _validate.number("version_bound", self.version_bound, low=0),
            "most_newcomers": _validate.integer("most_newcomers", self.most_newcomers, low=0),
        }
        for name in ("echo", "repeat"):
            if getattr(self, name) is not None:
                plain[name] = _validate.number(name, getattr(self, name), low=0, high=1)
        if self.per_source is not None:
            plain["per_source"] = _validate.integer("per_source", self.per_source, low=1)
        if self.trusted_until is not None:
            newcomers([], self.trusted_until)  # refuses what is no time
        if isinstance(self.memory, Mapping):
            records = {key: CleanRecord(*values) for key, values in self.memory.items()}
            object.__setattr__(self, "memory", CleanMemory(records, plain["k"]))
        elif self.memory is not None and self.memory.k != self.k:
            raise InputError("memory", f"one of selections of k = {self.k}", str(self.memory.k))
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @classmethod
    def calibrated(
        cls,
        pool: CandidatePool,
        k: int = 5,
        *,
        false_removal: float = 0.02,
        remember: bool = True,
        **options: Any,  # noqa: ANN401  as the constructor takes them
    ) -> TiltBound:
        """Learn thresholds from clean pools, and remember them.

        Parameters
        ----------
        pool : CandidatePool
            Clean pools of the same corpus, with query and passage texts; no labels.
        k : int
        false_removal : float
            Most clean questions, as a share, whose undefended top k may lose anything to the echo
            test where nothing else is known of them: `echo` is what at most this share of further
            questions exceeds, by the largest share of each question that its top k says again
            (`epibias.defenses.calibration`; from 1/share − 1 questions on without assumptions).
        remember : bool
            Whether to keep a `CleanMemory` of these questions.
        **options
            Other parameters.

        Returns
        -------
        TiltBound
            Where no limit below 1 can be promised, `echo` is 1: nothing exceeds it.

        Raises
        ------
        InputError
            No texts in the pool, or as the constructor and `CleanMemory.of`.

        Examples
        --------
        >>> from epibias.polarization import PolarizationAxis
        >>> rows = np.array([[1, 0.1], [1, -0.2], [1, 0.5], [0.1, 1]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> asked = ["Ban cars?", "Ban buses?", "Ban trams?"]
        >>> pool = CandidatePool.from_vectors(rows[:3], [rows] * 3, axis, query_texts=asked,
        ...     passage_texts=[["Ban them.", "Cars?", "No.", "Never."]] * 3)
        >>> TiltBound.calibrated(pool, k=4, false_removal=0.3).echo.__round__(2)
        0.5
        """
        k = _validate.integer("k", k, low=1)
        share = _validate.number("false_removal", false_removal, above=0, below=1)
        if pool.query_texts is None or pool.passage_texts is None:
            raise InputError("pool", "query texts and passage texts", "none")
        largest = np.array(
            [_shares(pool, query)[:k].max(initial=0.0) for query in range(pool.n_queries)]
        )
        found: dict[str, Any] = {"echo": min(limit_of_questions(largest, share), 1.0)}
        if remember:
            found["memory"] = CleanMemory.of(pool, k)
        return cls(k, **{**found, **options})

    @property
    def name(self) -> str:
        """Tell what differs from the defaults: "tilt_bound[echo=0.41, memory=16 questions]"."""
        base = TiltBound(self.k)
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "k" or value == getattr(base, field.name):
                continue
            shown = f"{len(value)} questions" if isinstance(value, CleanMemory) else value
            shown = f"{shown:.3g}" if isinstance(shown, float) else shown
            parts.append(f"{field.name}={shown}")
        return f"tilt_bound[{', '.join(parts)}]" if parts else "tilt_bound"

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values; the memory as the records that it holds.

        Returns
        -------
        dict
        """
        values: dict[str, object] = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.memory is not None:
            values["memory"] = {key: list(one) for key, one in self.memory.records.items()}
        return {"defense": "tilt_bound", **values}

    def select(self, pool: CandidatePool) -> Selection:
        """Select from each query's candidates.

        Parameters
        ----------
        pool : CandidatePool

        Returns
        -------
        Selection
            Diagnostics, one value a query: `known` (where the centre comes from: "memory",
            "version" or "nothing"), `tilt_before` and `tilt_after` (mean score of the first k that
            may be selected, and of the selection, less the centre, in spreads; NaN where nothing is
            known), `n_echo`, `n_repeat` and `n_refused` (candidates left out as an echo, as a
            repeat, as a newcomer), `unchanged` (left alone, being what is remembered).

        Raises
        ------
        InputError
            A time that is no text.
        """
        n_queries = pool.n_queries
        chosen = np.zeros(len(pool.indices), np.bool_)
        allowed = np.ones(len(pool.indices), np.bool_)
        counts = {name: np.zeros(n_queries, np.int64) for name in ("echo", "repeat", "refused")}
        known = np.full(n_queries, NOTHING, dtype="<U7")
        unchanged = np.zeros(n_queries, np.bool_)
        tilts = np.full((2, n_queries), np.nan)
        for group in pool.groups():
            if group.size == 0:
                continue
            x = group.similarities.astype(np.float64)
            y = group.scores.astype(np.float64)
            may = np.ones(x.shape, np.bool_)
            records = self._remembered(pool, group.queries)
            table = np.array([record[:3] for record in records])
            same = self._as_before(table, x, y)
            for row in np.flatnonzero(~same).tolist():
                query = int(group.queries[row])
                new, echoes = self._newcomers(pool, query), self._echoes(pool, query)
                if records[row] is NOT_KNOWN and new is not None:
                    records[row] = self._of_trusted(x[row], y[row], new, echoes)
                    table[row] = records[row][:3]
                    known[query] = NOTHING if records[row] is NOT_KNOWN else VERSION
                if echoes is not None and self.echo is not None:
                    own = records[row].echo
                    over = echoes > (self.echo if own is None else own)
                    may[row] &= ~over if new is None else ~(over & new)
                    counts["echo"][query] = group.size - np.count_nonzero(may[row])
                if new is not None:
                    before = np.count_nonzero(may[row])
                    may[row] &= self._admitted(pool, query, new, x[row])
                    counts["refused"][query] = before - np.count_nonzero(may[row])
            if self.repeat is not None and not same.all():
                before = may.sum(axis=1)
                self._leave_out_repeats(pool, group.rows, np.flatnonzero(~same), x, may)
                counts["repeat"][group.queries] = before - may.sum(axis=1)
            from_version = known[group.queries] == VERSION
            is_known = np.isfinite(table[:, 0])
            known[group.queries[is_known & ~from_version]] = MEMORY
            unchanged[group.queries] = same
            widths = np.where(from_version, self.version_bound, self.bound) * table[:, 1]
            widths[same | ~is_known] = np.inf
            centres = np.where(is_known, table[:, 0], 0.0)
            picked, start, end = bounded_selection(x, y, centres, widths, may, self.k)
            scale = np.where(is_known & (table[:, 1] > 0), table[:, 1], np.nan)
            tilts[:, group.queries] = start / scale, end / scale
            chosen[group.rows], allowed[group.rows] = picked, may
        return _selection(
            pool,
            chosen,
            allowed,
            self.k,
            {
                "known": known,
                "tilt_before": tilts[0],
                "tilt_after": tilts[1],
                **{f"n_{name}": count for name, count in counts.items()},
                "unchanged": unchanged,
            },
        )

    def _remembered(self, pool: CandidatePool, queries: Int64Array) -> list[CleanRecord]:
        if self.memory is None or pool.query_texts is None:
            return [NOT_KNOWN] * len(queries)
        memory, texts = self.memory, pool.query_texts
        return [memory.get(texts[query]) or NOT_KNOWN for query in queries.tolist()]

    def _as_before(self, table: Float64Array, x: Float64Array, y: Float64Array) -> BoolArray:
        """Tell the selections that are what is remembered of them; a NaN never is."""
        if self.memory is None:
            return np.zeros(len(x), np.bool_)
        same: BoolArray = np.abs(x[:, : self.k].mean(axis=1) - table[:, 2]) <= SAME
        same &= np.abs(y[:, : self.k].mean(axis=1) - table[:, 0]) <= SAME
        return same

    def _newcomers(self, pool: CandidatePool, query: int) -> BoolArray | None:
        times = (pool.metadata or {}).get("time")
        if self.trusted_until is None or times is None:
            return None
        return newcomers(_of_query(pool, query, times), self.trusted_until)

    def _of_trusted(
        self, x: Float64Array, y: Float64Array, new: BoolArray, echoes: Float64Array | None
    ) -> CleanRecord:
        """Tell what the selection from the trusted candidates would be like, if they are enough."""
        if int((~new).sum()) < max(self.k, 2):
            return NOT_KNOWN
        held = None if echoes is None else echoes[~new]
        return record_of(y[~new], x[~new], held, self.k)

    def _echoes(self, pool: CandidatePool, query: int) -> Float64Array | None:
        if self.echo is None or pool.query_texts is None or pool.passage_texts is None:
            return None
        return _shares(pool, query)

    def _admitted(
        self, pool: CandidatePool, query: int, new: BoolArray, x: Float64Array
    ) -> BoolArray:
        sources = (pool.metadata or {}).get("source")
        return admitted(
            new,
            x,
            None if sources is None else _of_query(pool, query, sources),
            most=self.most_newcomers,
            per_source=self.per_source,
        )

    def _leave_out_repeats(
        self,
        pool: CandidatePool,
        rows: Int64Array,
        open_rows: Int64Array,
        x: Float64Array,
        allowed: BoolArray,
    ) -> None:
        """Strike from `allowed` what repeats the question or a candidate above it."""
        assert self.repeat is not None  # noqa: S101  for mypy; asked by the caller
        depth = min(rows.shape[1], LOOKED_AT * self.k)
        flat = rows[open_rows, :depth].ravel()
        vectors = pool.embeddings[flat]
        vectors = vectors * inverse_norms(vectors, "embeddings").astype(np.float32)[:, None]
        vectors = vectors.reshape(len(open_rows), depth, -1)
        cosines = vectors @ vectors.transpose(0, 2, 1)
        near = np.tril(cosines >= self.repeat, -1)
        part = allowed[open_rows, :depth] & (x[open_rows, :depth] < self.repeat)
        for place in range(1, depth):
            part[:, place] &= ~(near[:, place, :place] & part[:, :place]).any(axis=1)
        allowed[open_rows, :depth] = part


def _selection(
    pool: CandidatePool, chosen: BoolArray, allowed: BoolArray, k: int, diagnostics: dict[str, Any]
) -> Selection:
    """Join flat masks of all candidates to passages, all queries at once."""

    def flat(mask: BoolArray) -> tuple[Int64Array, Int64Array, Int64Array]:
        rows = np.flatnonzero(mask)
        before = np.concatenate([[0], np.cumsum(mask)])
        return rows, rows - np.repeat(pool.offsets[:-1], pool.sizes)[rows], before[pool.offsets]

    rows, positions, offsets = flat(chosen)
    dropped, _, dropped_offsets = flat(~allowed)
    _, kept, kept_offsets = flat(allowed)
    sizes = np.diff(offsets)
    return Selection.of_arrays(
        pool.indices[rows], offsets, positions, pool.indices[dropped], dropped_offsets, kept,
        kept_offsets, {"n_selected": sizes, "short": sizes < k, **diagnostics},
    )  # fmt: skip


def _of_query(pool: CandidatePool, query: int, values: Any) -> Any:  # noqa: ANN401  any column
    return values[int(pool.offsets[query]) : int(pool.offsets[query + 1])]


def _shares(pool: CandidatePool, query: int) -> Float64Array:
    assert pool.query_texts is not None and pool.passage_texts is not None  # noqa: S101, PT018  for mypy
    return echo_shares(pool.query_texts[query], _of_query(pool, query, pool.passage_texts))
