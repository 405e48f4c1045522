"""What is checked: each stage's fresh inputs, its oracle, and how near the answer must be.

Exact means bits: indices and similarities of `cosine_topk` on any storage, with many ties; scores,
sweeps, ranks and selections. The axis has the CPU's meaning and not its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import reference
import reference_sweep
from gpu.places import Place

Arrays = tuple[np.ndarray, ...]
MAX_ANGLE = 1e-5
MAX_RESIDUAL = 1e-6  # of eigenvectors whose gap is too small for an angle to mean anything
MAX_DIVERGENCE_ERROR = 1e-5


class WrongAnswerError(Exception):
    """An answer is not what the oracle says."""


@dataclass(frozen=True)
class Case:
    """One call of a stage: `call` on arrays of a place, `judge` on what came back as numpy's."""

    stage: str
    name: str
    inputs: tuple[Any, ...]
    call: Callable[..., Any]
    judge: Callable[[Arrays], None]
    large: bool = False  # too much for the emulation

    def run(self, place: Place) -> Arrays:
        """Call the stage at a place; the answer's arrays, as numpy's, flat."""
        arguments = tuple(
            place.up(value) if isinstance(value, np.ndarray) else value for value in self.inputs
        )
        answer = self.call(*arguments)
        place.wait()
        return flat(place.down(answer))


def flat(value: Any) -> Arrays:
    """Give the arrays of nested tuples and dicts in one row; None is left out."""
    if value is None:
        return ()
    if isinstance(value, dict):
        value = tuple(value[name] for name in sorted(value))
    if isinstance(value, tuple):
        return tuple(array for part in value for array in flat(part))
    return (np.ascontiguousarray(value),)


def same(name: str, got: np.ndarray, expected: np.ndarray) -> None:
    """Require equal dtype, shape and bits."""
    expected = np.ascontiguousarray(expected)
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        kinds = f"{expected.dtype} {expected.shape}, got {got.dtype} {got.shape}"
        raise WrongAnswerError(f"{name}: expected {kinds}")
    if got.tobytes() != expected.tobytes():
        pairs = zip(got.reshape(-1), expected.reshape(-1), strict=True)
        wrong = [(i, a, b) for i, (a, b) in enumerate(pairs) if a.tobytes() != b.tobytes()]
        place, found, wanted = wrong[0]
        told = f"{len(wrong)} of {got.size} differ; at {place} expected {wanted}, got {found}"
        raise WrongAnswerError(f"{name}: {told}")


def near(name: str, got: np.ndarray, expected: np.ndarray, limit: float) -> None:
    """Require finite values within `limit` of the oracle's, relative to max(1, |value|)."""
    expected = np.asarray(expected)
    if got.shape != expected.shape or not np.isfinite(got).all():
        raise WrongAnswerError(f"{name}: expected finite {expected.shape}, got {got.shape}")
    error = np.abs(got - expected) / np.maximum(1, np.abs(expected))
    if not (error <= limit).all():
        raise WrongAnswerError(f"{name}: off by {error.max():.3g}, allowed {limit:.3g}")


def all_cases(rng: np.random.Generator, large: bool) -> Iterator[Case]:
    """Draw the cases of every stage; `large` adds sizes that the emulation would take long for."""
    yield from _norms(rng)
    yield from _searches(rng, large)
    yield from _axes(rng, large)
    yield from _scores(rng)
    yield from _mmr(rng)
    yield from _sweeps(rng, large)
    yield from _selections(rng)


def _rows(rng: np.random.Generator, n: int, dim: int, ties: bool = False) -> np.ndarray:
    if not ties:
        return rng.standard_normal((n, dim)).astype(np.float32)
    rows = rng.integers(-2, 3, (n, dim)).astype(np.float32)
    rows[~rows.any(axis=1), 0] = 1
    return rows


def _norms(rng: np.random.Generator) -> Iterator[Case]:
    from epibias import kernels

    rows = _rows(rng, 65, 97)
    expected = np.array([reference.inverse_norm(row) for row in rows])
    yield Case(
        "inverse_norms",
        "65 x 97",
        (rows,),
        kernels.inverse_norms,
        lambda got: same("norms", got[0], expected),
    )


def _searches(rng: np.random.Generator, large: bool) -> Iterator[Case]:
    from epibias.device import stages

    # n_queries, n_passages, dim, k, ties
    shapes = [(1, 1, 1, 1, True), (3, 700, 33, 20, True), (5, 300, 64, 300, False)]
    shapes += [(2, 1500, 97, 17, False), (17, 260, 16, 40, True)]
    few = len(shapes)
    if large:
        shapes += [(64, 20_000, 384, 400, False), (3, 9_000, 768, 4096, True)]
    for number, (n_queries, n, dim, k, ties) in enumerate(shapes):
        queries, passages = _rows(rng, n_queries, dim, ties), _rows(rng, n, dim, ties)
        passages[n // 2 :] = passages[: n - n // 2]  # every passage twice: the lower index first
        expected = reference.cosine_topk_batched(queries, passages, k)

        def judge(got: Arrays, expected: Any = expected) -> None:
            same("indices", got[0], expected[0])
            same("similarities", got[1], expected[1])

        for storage in ("float32", "bf16", "int8"):
            for tensor_cores in (True, False):

                def call(
                    queries: Any,
                    passages: Any,
                    k: int = k,
                    storage: str = storage,
                    tensor_cores: bool = tensor_cores,
                ) -> Any:
                    options = (tensor_cores, 0, 0, 0)
                    return stages.cosine_topk(
                        queries, passages, k, storage=storage, options=options
                    )[:2]

                how = "tensor cores" if tensor_cores else "portable"
                name = f"{storage}, {how}, {n_queries} x {n} x {dim}, k {k}"
                given = (queries, passages)
                yield Case("cosine_topk", name, given, call, judge, number >= few)


def _axes(rng: np.random.Generator, large: bool) -> Iterator[Case]:
    from epibias import kernels

    shapes = [(4, 8, 97), (3, 2, 5), (2, 17, 33), (1, 40, 24)] + [(500, 8, 768)] * large
    for n_topics, n_anchors, dim in shapes:
        anchors = _rows(rng, n_topics * n_anchors, dim).reshape(n_topics, n_anchors, dim)

        def judge(got: Arrays, anchors: np.ndarray = anchors) -> None:
            for topic, rows in enumerate(anchors):
                _judge_axis(f"topic {topic}", got[0][topic], got[1][topic], got[2][topic], rows)

        name = f"{n_topics} x {n_anchors} x {dim}"
        axis, is_large = kernels.polarization_axis, n_topics > 100
        yield Case("polarization_axis", name, (anchors,), axis, judge, is_large)


def _judge_axis(
    name: str, axis: np.ndarray, explained: float, gap: float, rows: np.ndarray
) -> None:
    oracle = reference.polarization_axis(rows)
    near(
        f"{name}: ratios", np.array([explained, gap]), [oracle.explained, oracle.relative_gap], 1e-9
    )
    wide = axis.astype(np.float64)
    near(f"{name}: length", np.linalg.norm(wide)[None], np.ones(1), 1e-6)
    if oracle.relative_gap >= MAX_RESIDUAL:
        angle = 2 * np.arcsin(min(1.0, float(np.linalg.norm(wide - oracle.axis)) / 2))
        near(f"{name}: angle", np.array([angle]), np.zeros(1), MAX_ANGLE)
        return
    unit = reference.unit_rows(rows)
    centred = unit - unit.mean(axis=0)
    product = centred.T @ (centred @ wide)
    value = float(wide @ product)
    near(f"{name}: residual", (product - value * wide) / value, np.zeros(len(wide)), MAX_RESIDUAL)


def _scores(rng: np.random.Generator) -> Iterator[Case]:
    from epibias import kernels

    rows, axes = _rows(rng, 70, 45), _rows(rng, 3, 45)
    indices = rng.integers(0, 70, (3, 20))
    wide = np.stack([reference.polarization_scores(rows, axis) for axis in axes])
    limit = 4 * float(np.finfo(np.float32).eps)
    yield Case(
        "polarization_scores",
        "every row on every axis",
        (rows, axes),
        kernels.polarization_scores,
        lambda got: near("scores", got[0], wide, limit),
    )
    yield Case(
        "polarization_scores",
        "gathered rows",
        (rows, axes, indices),
        kernels.polarization_scores,
        lambda got: near("scores", got[0], np.take_along_axis(wide, indices, 1), limit),
    )


def _mmr(rng: np.random.Generator) -> Iterator[Case]:
    from epibias import kernels

    embeddings = _rows(rng, 3 * 24, 19, True).reshape(3, 24, 19)
    similarities = (rng.integers(-8, 9, (3, 24)) / 8).astype(np.float32)
    pairs = list(zip(similarities, embeddings, strict=True))
    expected = np.stack([reference.mmr(*pair, 10, 0.5) for pair in pairs])
    yield Case(
        "mmr",
        "3 x 24 x 19, ties",
        (similarities, embeddings, 10),
        kernels.mmr,
        lambda got: same("positions", got[0], expected),
    )


def _sweeps(rng: np.random.Generator, large: bool) -> Iterator[Case]:
    from epibias import kernels

    shapes = [(4, 33, 0), (2, 80, 0), (2, 24, 19)] + [(200, 400, 0), (8, 400, 99)] * large
    for n_queries, n, permutations in shapes:
        similarities = rng.uniform(-1, 1, (n_queries, n)).astype(np.float32)
        similarities[0] = np.round(similarities[0] * 8) / 8
        scores = (rng.normal(size=(n_queries, n)) + 3 * (similarities > 0.4)).astype(np.float32)
        options = {"permutations": permutations, "seed": 7}
        pairs = list(zip(similarities, scores, strict=True))
        oracle = [
            reference_sweep.threshold_sweep(*pair, query_id=number, **options)
            for number, pair in enumerate(pairs)
        ]

        def call(similarities: Any, scores: Any, options: Any = options) -> Any:
            return tuple(kernels.threshold_sweep(similarities, scores, **options))[:4]

        def judge(got: Arrays, oracle: Any = oracle) -> None:
            same("thresholds", got[0], np.array([o.threshold for o in oracle], np.float32))
            same("n_kept", got[1], np.array([o.n_kept for o in oracle], np.int64))
            divergence = np.array([o.divergence for o in oracle])
            near("divergences", got[2], divergence, MAX_DIVERGENCE_ERROR)
            near("p-values", got[3], np.array([o.p_value for o in oracle]), 0)

        name = f"{n_queries} x {n}, {permutations} permutations"
        given = (similarities, scores)
        yield Case("threshold_sweep", name, given, call, judge, n > 100)


def _selections(rng: np.random.Generator) -> Iterator[Case]:
    """Draw what the fused path does; its oracle is the CPU, tested against its own elsewhere."""
    from epibias import kernels_select
    from epibias.defenses import BiasDef

    sizes = np.array([40, 12, 55])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    queries, candidates = _rows(rng, 3, 24), _rows(rng, int(offsets[-1]), 24)
    axes = _rows(rng, 1, 24)
    given = (queries, candidates, offsets, axes)
    ranked = flat(kernels_select.rank_candidates(*given))

    def judge_ranks(got: Arrays) -> None:
        for number, (found, expected) in enumerate(zip(got, ranked, strict=True)):
            same(f"output {number}", found, expected)

    yield Case("rank_candidates", "3 queries", given, kernels_select.rank_candidates, judge_ranks)
    _, _, similarities, scores = ranked
    parameters = vars(BiasDef(k=5))
    flat_arrays = (similarities, scores, offsets, ranked[1], parameters)
    selected = flat(kernels_select.biasdef_select(*flat_arrays))

    def judge_selection(got: Arrays) -> None:
        for number, (found, expected) in enumerate(zip(got, selected, strict=True)):
            same(f"output {number}", found, expected)

    select = kernels_select.biasdef_select
    yield Case("biasdef_select", "3 queries", flat_arrays, select, judge_selection)
