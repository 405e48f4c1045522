"""TiltBound: the most similar passages whose mean score stays where clean selections had it.

In: a pool, and what is known of clean ones (a memory, or which candidates are trusted). Out: a
selection. First what repeats the question, or another candidate, and more newcomers than chance
explains are left out; then candidates are exchanged until the mean polarization score is back
within a bound. docs/tilt_bound.md has the derivation, what each part is worth, and where it breaks.
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.defenses.calibration import limit_of_questions, why_no_limit
from epibias.defenses.clean_memory import CleanMemory, recalled
from epibias.defenses.left_out import (
    echo_test,
    leave_out_repeats,
    refused,
    shares,
    two_largest,
)
from epibias.defenses.newcomers import BoolArray, honest_drift, newcomers
from epibias.defenses.told_newcomers import told_newcomers
from epibias.defenses.trusted_index import TrustedIndex
from epibias.errors import CalibrationWarning, InputError
from epibias.kernels_remembered import mark_unchanged
from epibias.kernels_tilt import EchoTest, bounded_selection
from epibias.kernels_trusted import trusted_records
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex
from epibias.selection import Selection

# Most of a clean selection that a question's own echo limit may cost where there is another: one in
# k + 1 honest newcomers exceeds the largest of k shares. With k = 5 it holds to a share of .03.
OWN_LIMIT_COSTS = 0.005
KNOWN = np.array(["nothing", "memory", "trusted"])  # where a centre comes from


@dataclass(frozen=True)
class TiltBound:
    """Select the most similar candidates whose mean score is not tilted against clean selections.

    Parameters
    ----------
    k : int
        Passages to select.
    bound : float
        Most that the mean score of a selection may lie from the centre, in standard deviations of
        the question's clean candidate scores. Where newcomers can be told, it is at least
        what an honest `newcomer_share` explains (`newcomers.honest_drift`). A
        question of which no centre is known, by memory or by trusted candidates, is not bounded.
    echo : float, optional
        Candidates that say more than this share of the question again, in one place
        (`epibias.defenses.echo`), are left out; `calibrated` finds it. Where newcomers can be told,
        only they are. A question whose clean selection is known has that selection's largest share
        in its place, or the larger of both where newcomers can be told and are expected to be many
        (`OWN_LIMIT_COSTS`). Needs texts; without them, or with None, nothing is left out for it.
    echo_of_two : float, optional
        The same where two of the first `k` candidates say more than this again: `echo` or less.
        An attacker needs several passages; a clean question seldom has two.
    repeat : float, optional
        Candidates of at least this cosine with the question or with a better candidate are left
        out; among the best 3k. Off unless asked for: honest corpora repeat themselves.
    memory : CleanMemory, or its records as `parameters` gives them, optional
        What selections were like on the trusted index. A selection that is what it was then is
        left alone; a candidate that was not in the pool then is a newcomer. With vectors of another
        encoder, or precision, than then all are, and nothing is selected.
    trusted_until : str, optional
        Candidates with a later `metadata["time"]`, or none, are newcomers, unless the memory has
        them. Without times in the pool it does nothing.
    trusted_index : TrustedIndex, or its plain values, optional
        All passages that the index had while it was trusted: candidates that are not among them
        are newcomers, whatever the question and their time, unless the memory has them. `of_index`
        makes a defence of it alone. Of a question that is not remembered the candidates that are
        trusted, by index or time, give the centre, if they are at least `k`; and, where `echo` is
        not None, the largest share of the first `k` of them is its own echo limit.
    newcomer_share : float
        Share of the index that came honestly since it was trusted, in [0, 1]. With more newcomers
        in a pool than that explains (at a risk of .05) none of them is selected, else no more than
        it explains in a selection. 1: they are as good as the others.
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
    echo: float | None = None
    echo_of_two: float | None = None
    repeat: float | None = None
    memory: CleanMemory | None = None
    trusted_until: str | None = None
    trusted_index: TrustedIndex | None = None
    newcomer_share: float = 0.02
    per_source: int | None = 1

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "k": _validate.integer("k", self.k, low=1),
            "bound": _validate.number("bound", self.bound, low=0),
            "newcomer_share": _validate.number(
                "newcomer_share", self.newcomer_share, low=0, high=1
            ),
        }
        for name in ("echo", "echo_of_two", "repeat"):
            if getattr(self, name) is not None:
                plain[name] = _validate.number(name, getattr(self, name), low=0, high=1)
        if self.echo_of_two is not None and self.echo is None:
            raise InputError("echo_of_two", "None without an echo", repr(self.echo_of_two))
        if self.per_source is not None:
            plain["per_source"] = _validate.integer("per_source", self.per_source, low=1)
        if self.trusted_until is not None:
            newcomers([], self.trusted_until)  # refuses what is no time
        if self.trusted_until is not None and self.trusted_index is not None:
            expected = "None beside a trusted_index, which tells all newcomers"
            raise InputError("trusted_until", expected, repr(self.trusted_until))
        if self.memory is not None and not isinstance(self.memory, CleanMemory):
            plain["memory"] = CleanMemory.of_plain(self.memory, plain["k"])
        elif self.memory is not None and self.memory.k != self.k:
            raise InputError("memory", f"one of selections of k = {self.k}", str(self.memory.k))
        if self.trusted_index is not None and not isinstance(self.trusted_index, TrustedIndex):
            plain["trusted_index"] = TrustedIndex.of_plain(self.trusted_index)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_index(
        cls,
        index: CosineIndex | Float32Array | TrustedIndex,
        k: int = 5,
        **options: Any,  # noqa: ANN401  as the constructor takes them
    ) -> TiltBound:
        """Guard every question by what a trusted index has; nothing is calibrated.

        Parameters
        ----------
        index : CosineIndex, float32 [n_passages, dim], or TrustedIndex
            All that may be retrieved and is trusted.
        k : int
        **options
            Other parameters. `echo` is 1 unless told: of a question only its own limit counts.

        Returns
        -------
        TiltBound

        Raises
        ------
        InputError
            As the constructor and `TrustedIndex.of`.

        Examples
        --------
        >>> TiltBound.of_index(np.eye(3, dtype=np.float32)).name
        'tilt_bound[echo=1, trusted_index=3 passages]'
        """
        trusted = index if isinstance(index, TrustedIndex) else TrustedIndex.of(index)
        return cls(k, trusted_index=trusted, **{"echo": 1.0, **options})

    @classmethod
    def calibrated(
        cls,
        pool: CandidatePool,
        k: int = 5,
        *,
        false_removal: float = 0.05,
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
            test where nothing else is known of them. Half of it goes to `echo`, half to
            `echo_of_two`: what at most that share of further questions exceeds, by the largest and
            by the second largest share of each question that its top k says again
            (`epibias.defenses.calibration`; from 2/share − 1 questions on without assumptions).
        remember : bool
            Whether to keep a `CleanMemory` of these questions.
        **options
            Other parameters.

        Returns
        -------
        TiltBound
            Where no limit below 1 can be promised, it is 1: nothing exceeds it.

        Raises
        ------
        InputError
            No texts in the pool, or as the constructor and `CleanMemory.of`.

        Warns
        -----
        CalibrationWarning
            If no limit is below 1, as with fewer than 4 questions.

        Examples
        --------
        >>> from epibias.polarization import PolarizationAxis
        >>> rows = np.array([[1, 0.1], [1, -0.2], [1, 0.5], [0.1, 1]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> asked = ["Ban cars?", "Ban buses?", "Ban trams?"]
        >>> pool = CandidatePool.from_vectors(rows[:3], [rows] * 3, axis, query_texts=asked,
        ...     passage_texts=[["Ban them.", "Cars?", "No.", "Never."]] * 3)
        >>> defense = TiltBound.calibrated(pool, k=4, false_removal=0.6)
        >>> round(defense.echo, 2), round(defense.echo_of_two, 2)
        (0.5, 0.38)
        """
        k = _validate.integer("k", k, low=1)
        share = _validate.number("false_removal", false_removal, above=0, below=1)
        if pool.query_texts is None or pool.passage_texts is None:
            raise InputError("pool", "query texts and passage texts", "none")
        held = shares(pool, np.arange(pool.n_queries))
        one, two = (
            min(limit_of_questions(np.maximum(column, 0.0), share / 2), 1.0)
            for column in two_largest(pool, held, k)
        )
        found: dict[str, Any] = {"echo": one, "echo_of_two": min(one, two)}
        if remember:
            found["memory"] = CleanMemory.of(pool, k)
        made = cls(k, **{**found, **options})
        if made.echo is not None and not made.has_echo_limit:
            message = (
                f"{pool.n_queries} clean questions gave no echo limit below 1: "
                f"{why_no_limit(pool.n_queries, share / 2)}; from questions that are not "
                "remembered no echo will be left out"
            )
            warnings.warn(message, CalibrationWarning, stacklevel=2)
        return made

    @property
    def has_echo_limit(self) -> bool:
        """Whether anything can be left out as an echo of a question of which nothing is known."""
        return any(one is not None and one < 1 for one in (self.echo, self.echo_of_two))

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
            shown = f"{len(value)} passages" if isinstance(value, TrustedIndex) else shown
            shown = f"{shown:.3g}" if isinstance(shown, float) else shown
            parts.append(f"{field.name}={shown}")
        return f"tilt_bound[{', '.join(parts)}]" if parts else "tilt_bound"

    def parameters(self) -> dict[str, object]:
        """Return the parameters as plain values: of a memory its records, of an index which it is.

        Returns
        -------
        dict
        """
        values: dict[str, object] = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.memory is not None:
            values["memory"] = {key: list(one) for key, one in self.memory.records.items()}
        if self.trusted_index is not None:
            values["trusted_index"] = self.trusted_index.identity()
        return {"defense": "tilt_bound", **values}

    def select(self, pool: CandidatePool, *, judge_all: bool = False) -> Selection:
        """Select from each query's candidates.

        Parameters
        ----------
        pool : CandidatePool
        judge_all : bool
            Whether to read the texts of all candidates, not of those alone that a selection comes
            to. The selection is the same; what else is told, `dropped`, `kept` and `n_echo`, is
            then of all of them. `Chain` and `epibias filter` ask for it. Where they are not all
            read, `kept` lacks what may be an echo and was not read: no later defence gets one.

        Returns
        -------
        Selection
            Diagnostics, one value a query: `known` (where the centre comes from: "memory",
            "trusted" candidates, or "nothing"), `tilt_before` and `tilt_after` (mean score of the
            first k that may be selected, and of the selection, less the centre, in spreads; NaN
            where nothing is known), `n_echo`, `n_repeat` and `n_refused` (candidates left out as an
            echo, of those that were read, as a repeat, as a newcomer), `unchanged` (left alone).

        Raises
        ------
        InputError
            A time that is no text, vectors of another width than the trusted index has.
        """
        offsets = pool.offsets
        filled = offsets[1:] > offsets[:-1]
        records, candidates = recalled(self.memory, pool)
        centres, spreads, similarities, own_echoes = records
        unchanged = mark_unchanged(
            pool.similarities, pool.scores, offsets, self.k, similarities, centres
        )
        looked_at = filled > unchanged
        told = from_trusted = np.zeros(len(unchanged), np.bool_)
        n_repeat = n_refused = np.zeros(len(unchanged), np.int64)
        allowed: BoolArray | None = None
        echoes: EchoTest | None = None
        if np.count_nonzero(looked_at):
            told, new = told_newcomers(
                pool, looked_at, candidates, self.trusted_until, self.trusted_index
            )
            if new is not None:
                made = trusted_records(pool.scores, offsets, new, self.k)
                from_trusted = told & np.isnan(centres) & ~np.isnan(made[0])
                np.copyto(records[:2], made, where=from_trusted)
            if new is not None and np.count_nonzero(new):
                out, n_refused = refused(
                    pool, new, k=self.k, share=self.newcomer_share, per_source=self.per_source
                )
                allowed = ~out
            if self.repeat is not None:
                if allowed is None:
                    allowed = np.ones(len(pool.indices), np.bool_)
                queries = np.flatnonzero(looked_at)
                n_repeat = leave_out_repeats(pool, queries, allowed, k=self.k, least=self.repeat)
            tested = None
            if new is not None:
                tested = new if allowed is None else new & allowed
                if np.count_nonzero(told) < len(told):
                    tested = tested | ~np.repeat(told, pool.sizes)
            if self.echo is not None and (tested is None or np.count_nonzero(tested)):
                costs_little = self.newcomer_share / (self.k + 1) <= OWN_LIMIT_COSTS
                echoes = echo_test(
                    pool,
                    own_echoes,
                    None if costs_little or not self.has_echo_limit else told,
                    tested,
                    echo=self.echo,
                    echo_of_two=self.echo_of_two,
                    left_alone=unchanged,
                    every_candidate=judge_all,
                    by_others=from_trusted if np.count_nonzero(from_trusted) else None,
                )
        has_centre = np.isfinite(centres) & filled
        known = has_centre.astype(np.int64)
        known[from_trusted] = 2
        drift = max(self.bound, honest_drift(self.k, self.newcomer_share))
        widths = np.where(told, drift, self.bound) * spreads
        widths[~((has_centre > unchanged) & (spreads >= 0))] = np.inf
        parts = bounded_selection(
            pool.similarities,
            pool.scores,
            offsets,
            pool.indices,
            np.where(has_centre, centres, 0.0),
            widths,
            self.k,
            allowed=allowed,
            echoes=echoes,
        )
        found = parts[7]
        scale = np.where(has_centre & (spreads > 0), spreads, np.nan)
        diagnostics = {
            "n_selected": found["n_selected"],
            "short": found["short"],
            "known": KNOWN[known],
            "tilt_before": found["before"] / scale,
            "tilt_after": found["after"] / scale,
            "n_echo": found["n_echo"],
            "n_repeat": n_repeat,
            "n_refused": n_refused,
            "unchanged": unchanged,
        }
        return Selection.of_arrays(*parts[:7], diagnostics)
