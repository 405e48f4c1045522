"""BiasDef: drop the side of the similarity threshold whose polarization differs most.

In: a pool. A sweep splits each query's candidates where the scores on either side diverge most;
one side is judged suspicious and dropped; the `k` most similar of the rest are selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, fields

import numpy as np

from epibias import _validate, kernels_select, pool_parts
from epibias._plain import described
from epibias._sweep_options import CRITERIA, checked
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.defenses.biasdef_parameters import unread_parameters
from epibias.errors import InputError
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.pool_parts import VectorParts
from epibias.selection import Selection
from epibias.threshold import ThresholdSweep, printed_sweep, threshold_sweep

_WORDS: dict[str, tuple[str | None, ...]] = {
    "rule": ("splits", "printed"),
    "criterion": CRITERIA,
    "side": ("right", "auto"),
    "mitigation": (None, "mahalanobis"),
    "fill": ("short", "refill"),
}
_SWEEP_OPTIONS = (
    "min_side", "slack", "kappa", "bandwidth_factor", "seed", "tau", "n_thresholds", "floor"
)  # fmt: skip


@dataclass(frozen=True)
class BiasDef:
    """Select from the candidates that a polarization threshold leaves.

    The defaults follow the paper with its floor and slack repaired; `bare` and `printed` are the
    rule without the repairs. Fewer than `k` passages are legal and flagged `short`.

    Parameters
    ----------
    k : int
        Passages to select; the `k` of a pool is not asked.
    criterion : {"kl", "mi"}
        Divergence of the sweep.
    gate : float, optional
        Filter a query only when its permutation p-value is at most this; at least
        1 / (permutations + 1), below which no p-value lies.
    side : {"right", "auto"}
        Drop the side of high similarity, or the one whose mean PS lies farther from the neutral
        centre (which the pool must then have), if either does.
    mitigation : {None, "mahalanobis"}
        Let each passage change to the side it is nearer to, once.
    fill : {"short", "refill"}
        When fewer than `k` are kept: return fewer, or add the most similar of the dropped behind
        them (`n_refilled` counts them).
    min_kept : int, optional
        Fewest passages that the sweep must leave; `k` if absent.
    min_side, slack, kappa, bandwidth_factor
        As in `epibias.threshold_sweep`.
    permutations, seed : int
        Of the p-value, computed only with `gate`.
    rule : {"splits", "printed"}
        Every distinct split, or Algorithm 1 as printed.
    kappa_points : float, optional
        κ · n as a fixed number of pseudo-points, instead of `kappa`; 1e-300 to 10⁶.
    tau, n_thresholds, floor
        Of the printed rule; as in `epibias.threshold.printed_sweep`.

    Raises
    ------
    InputError
        A parameter out of range; or one set, away from its default, that would decide nothing:
        what the rule does not read (`biasdef_parameters.RULE_PARAMETERS`), `kappa` beside
        `kappa_points` or with criterion "mi", `permutations` or `seed` without a gate.

    References
    ----------
    arXiv:2512.00804, section VI-A and Algorithm 1; the mitigation is in its versions 1 and 2.

    Examples
    --------
    >>> from epibias.pool import CandidatePool
    >>> from epibias.polarization import PolarizationAxis
    >>> turn = np.linspace(0.1, 1.2, 12)  # angles to the query; the nearest three are one-sided
    >>> tilt = np.where(turn < 0.35, 0.9, 0.01 * np.cos(40 * turn))
    >>> rows = np.stack([np.cos(turn), np.sin(turn), tilt * np.sin(turn)], 1).astype(np.float32)
    >>> poles = np.array([[1, 0, 1], [1, 0, -1]] * 2, np.float32)
    >>> axis = PolarizationAxis.fit(poles)
    >>> query = np.array([[1, 0, 0]], np.float32)
    >>> chosen = BiasDef(k=3).select(CandidatePool.from_vectors(query, rows, axis))
    >>> chosen[0], chosen.dropped[0]
    (array([3, 4, 5]), array([0, 1, 2]))
    """

    k: int = 5
    _: KW_ONLY
    criterion: str = "kl"
    gate: float | None = None
    side: str = "right"
    mitigation: str | None = None
    fill: str = "short"
    min_kept: int | None = None
    min_side: int = 1
    slack: float = 0.05
    kappa: float = 0.025
    bandwidth_factor: float = 1.06
    permutations: int = 199
    seed: int = 0
    rule: str = "splits"
    kappa_points: float | None = None
    tau: float = 0.05
    n_thresholds: int = 100
    floor: float = 1e-12

    def __post_init__(self) -> None:
        for name, options in _WORDS.items():
            value = getattr(self, name)
            if not (value is None or isinstance(value, str)) or value not in options:
                expected = " or ".join(repr(option) for option in options)
                raise InputError(name, expected, described(value))
        plain: dict[str, object] = {
            "k": _validate.integer("k", self.k, low=1),
            **checked(**{name: getattr(self, name) for name in _SWEEP_OPTIONS}),
            "permutations": _validate.integer("permutations", self.permutations, low=1),
        }
        for name in ("min_kept", "kappa_points"):
            if getattr(self, name) is not None:
                plain |= checked(**{name: getattr(self, name)})
        if self.gate is not None:
            plain["gate"] = _validate.number("gate", self.gate, low=0, high=1)
        for name, checked_value in plain.items():
            object.__setattr__(self, name, checked_value)
        self._refuse_what_decides_nothing()

    def _refuse_what_decides_nothing(self) -> None:
        unread = unread_parameters(asdict(self))
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in unread and value != field.default:
                expected = f"{field.default!r} with {unread[field.name]}"
                raise InputError(field.name, expected, repr(value))
        if self.gate is not None and self.gate < 1 / (self.permutations + 1):
            expected = (
                f"at least 1 / (permutations + 1) = {1 / (self.permutations + 1):.6g}, the "
                f"smallest p-value of {self.permutations} permutations"
            )
            raise InputError("gate", expected, repr(self.gate))

    @classmethod
    def bare(cls, k: int = 5) -> BiasDef:
        """Build the rule without repairs: every split, one point a side, κ · n = 0.01.

        Parameters
        ----------
        k : int

        Returns
        -------
        BiasDef

        Examples
        --------
        >>> BiasDef.bare().name
        'biasdef[bare]'
        """
        return cls(k, min_kept=1, slack=0.0, kappa_points=0.01)

    @classmethod
    def printed(cls, k: int = 5, tau: float = 0.05, n_thresholds: int = 100) -> BiasDef:
        """Build Algorithm 1 as printed: uniform thresholds, an additive floor, no minimum.

        Parameters
        ----------
        k : int
        tau : float
            The thresholds run from `tau` to 1 − `tau`.
        n_thresholds : int

        Returns
        -------
        BiasDef

        Examples
        --------
        >>> BiasDef.printed().name
        'biasdef[printed]'
        """
        return cls(k, rule="printed", tau=tau, n_thresholds=n_thresholds)

    @property
    def name(self) -> str:
        """Tell the preset and what differs from it: "biasdef[gate=0.1]"."""
        presets = {"bare": BiasDef.bare(self.k), "printed": BiasDef.printed(self.k)}
        preset, base = "", BiasDef(self.k)
        if self.rule == "printed":
            preset, base = "printed", presets["printed"]
        elif self.kappa_points == 0.01 and self.slack == 0:
            preset, base = "bare", presets["bare"]
        differing = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(base, field.name)
        ]
        parts = ([preset] if preset else []) + differing
        return f"biasdef[{', '.join(parts)}]" if parts else "biasdef"

    def parameters(self) -> dict[str, object]:
        """Return the parameters that decide anything, as plain values.

        Returns
        -------
        dict
            The others, at their defaults, are left out: `BiasDef(**values)` is this defence again.
        """
        values = asdict(self)
        unread = unread_parameters(values)
        return {"defense": "biasdef", **{n: v for n, v in values.items() if n not in unread}}

    def select(self, pool: CandidatePool, *, precision: str = "float64") -> Selection:
        """Filter each query's candidates and select the `k` most similar of the rest.

        Parameters
        ----------
        pool : CandidatePool
        precision : {"float64", "float32"}
            Of the diagnosed divergence alone, as in `epibias.threshold_sweep`: float32 is the
            faster, and selects the same.

        Returns
        -------
        Selection
            Diagnostics, one value a query: `threshold` (float32, +inf where nothing was dropped)
            and `sweep_threshold` (before gate and side were asked), `divergence`, `p_value` (NaN
            without a gate, 1 where there was nothing to split), `side` ("right", "left" or "none":
            the one dropped), `n_kept` (before the cut to `k`), `n_moved` (by the mitigation),
            `n_refilled`.

        Raises
        ------
        InputError
            `side="auto"` and the pool has no neutral centres.
        """
        if self.side == "auto" and pool.neutral_centres is None:
            raise InputError("pool.neutral_centres", "one a query, for side='auto'", "None")
        parts = kernels_select.biasdef_select(
            pool.similarities,
            pool.scores,
            pool.offsets,
            pool.indices,
            vars(self),
            neutral_centres=pool.neutral_centres,
            query_ids=pool.query_ids,
            precision=precision,
        )
        return Selection.of_arrays(*parts)

    def select_vectors(
        self,
        query_embeddings: Float32Array,
        candidate_embeddings: Float32Array | Sequence[Float32Array],
        axis: PolarizationAxis,
        *,
        indices: Int64Array | Sequence[Int64Array] | None = None,
        ps_embeddings: Float32Array | Sequence[Float32Array] | None = None,
        axis_of_query: Int64Array | None = None,
        neutral_centres: Float64Array | None = None,
        query_ids: Int64Array | None = None,
        precision: str = "float64",
    ) -> Selection:
        """Score the candidates and select from them, in one call of the core.

        What `select` gives for `CandidatePool.from_vectors` of the same arguments, to the bit, for
        a batch or for the one query that a server has at hand; no pool is made.

        Parameters
        ----------
        query_embeddings : float32 [n_queries, dim]
            [dim] for a single query.
        candidate_embeddings : float32 [n_queries, n, dim], or a list of [n_i, dim]
            [n, dim] for a single query.
        axis : PolarizationAxis
            One for all queries, or one a query (in their order, or as `axis_of_query` says).
        indices : int64 of the same leading shape, optional
            The passages' numbers in the store, each once a query; 0 to n_i − 1 if absent.
        ps_embeddings : like `candidate_embeddings`, optional
            Under the axis's encoder.
        axis_of_query, neutral_centres, query_ids
            As in `CandidatePool.build`.
        precision : {"float64", "float32"}
            As in `select`.

        Returns
        -------
        Selection
            Positions count in the total order of the candidates; `indices` are the passages.

        Raises
        ------
        InputError
            As `CandidatePool.from_vectors`.

        Examples
        --------
        >>> from epibias.polarization import PolarizationAxis
        >>> rows = np.array([[0, 1], [1, 0.1], [1, -0.2]], np.float32)
        >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32))
        >>> BiasDef(k=3).select_vectors(rows[1], rows, axis, indices=np.array([7, 8, 9])).indices
        array([8, 9, 7])
        """
        if isinstance(query_embeddings, np.ndarray) and query_embeddings.ndim == 1:
            query_embeddings = query_embeddings[None]
        parts = VectorParts.of(
            query_embeddings, candidate_embeddings, indices, ps_embeddings, axis.dim
        )
        n_queries = len(parts.sizes)
        topic_of_query = pool_parts.topic_of_query(axis, n_queries, axis_of_query)
        centres = pool_parts.centres_of(axis, topic_of_query, neutral_centres)
        pool_parts.check_keys(neutral_centres, query_ids, n_queries)
        selected = kernels_select.biasdef_select_vectors(
            **parts.for_core(axis, topic_of_query),
            parameters=vars(self),
            neutral_centres=centres,
            query_ids=query_ids,
            precision=precision,
        )
        return Selection.of_arrays(*selected)

    @property
    def least_kept(self) -> int:
        """Fewest candidates that the sweep leaves on the low side."""
        # With side="auto" either side may be the one that is kept: min_kept is asked afterwards.
        return 1 if self.side == "auto" else (self.min_kept or self.k)

    def sweep(
        self,
        similarities: Float32Array,
        scores: Float32Array,
        query_ids: Int64Array | None = None,
        *,
        curve: bool = False,
    ) -> ThresholdSweep:
        """Split queries with equally many candidates as `select` does; gate and side do not act.

        Parameters
        ----------
        similarities, scores : float32 [n_queries, n]
        query_ids : int64 [n_queries], optional
            Keys of the permutation test.
        curve : bool
            Whether to give the divergence at every split.

        Returns
        -------
        ThresholdSweep
        """
        if self.rule == "printed":
            return printed_sweep(
                similarities,
                scores,
                tau=self.tau,
                n_thresholds=self.n_thresholds,
                floor=self.floor,
                bandwidth_factor=self.bandwidth_factor,
                curve=curve,
            )
        _validate.array("similarities", similarities, dtype=np.float32, ndim=2)
        points = self.kappa_points
        n_candidates = max(similarities.shape[1], 1)  # of none there is nothing to split
        return threshold_sweep(
            similarities,
            scores,
            min_kept=self.least_kept,
            slack=self.slack,
            min_side=self.min_side,
            criterion=self.criterion,
            kappa=self.kappa if points is None else points / n_candidates,
            bandwidth_factor=self.bandwidth_factor,
            permutations=0 if self.gate is None else self.permutations,
            seed=self.seed,
            query_ids=query_ids,
            curve=curve,
        )
