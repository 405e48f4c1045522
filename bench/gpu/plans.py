"""What is timed: each stage at a size that fills the card, its floor, and what others do instead.

A floor is the larger of bytes that must move over the copy's rate and operations that must be done
over the matrix product's; no version runs much faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpu.places import Place

BYTES = {"float32": 4, "bf16": 2, "int8": 1}
UNITS = {"float32": "tf32_per_s", "bf16": "bf16_per_s", "int8": "int8_per_s"}


@dataclass(frozen=True)
class Sizes:
    """How large the inputs are; the rehearsal's are tiny."""

    passages: int = 1_000_000
    dim: int = 768
    batches: tuple[int, ...] = (1, 64, 1024)
    k: int = 80
    topics: int = 100_000
    anchors: int = 8
    queries: int = 10_000
    candidates: int = 400
    sets: int = 2  # of inputs that rotate


REHEARSAL = Sizes(300, 32, (1, 3), 5, 4, 4, 3, 24, 2)


@dataclass
class Plan:
    """One stage at one size: rotating inputs, the call, its floor, and peers by name."""

    stage: str
    name: str
    inputs: list[tuple[Any, ...]]
    ours: Callable[..., Any]
    n_bytes: float = 0
    operations: float = 0
    unit: str = "tf32_per_s"
    peers: dict[str, Callable[..., Any]] = field(default_factory=dict)
    agree: Callable[[Any, Any], bool] | None = None  # ours and a peer's, as numpy's

    def floor_ms(self, ceilings: dict[str, Any]) -> float:
        """Give the least time in which the card could do it."""
        moved = self.n_bytes / ceilings["bytes_per_s"]
        return 1e3 * max(moved, self.operations / ceilings[self.unit])


def all_plans(place: Place, peers: Any, rng: np.random.Generator, sizes: Sizes) -> Iterator[Plan]:
    """Make the plans one after the other: the arrays of one are gone before the next.

    `peers` is the module torch or cupy, or None for none; peers get what `place.for_peer` gives.
    """
    for storage in BYTES:
        yield from _searches(place, peers, rng, sizes, storage)
    yield _axes(place, peers, rng, sizes)
    yield _sweep(place, rng, sizes)
    yield _mmr(place, rng, sizes)


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _searches(
    place: Place, peers: Any, rng: np.random.Generator, sizes: Sizes, storage: str
) -> Iterator[Plan]:
    from epibias import kernels
    from epibias.device import stages
    from epibias.device.cosine_topk import prepare_passages

    passages = place.up(_normal(rng, sizes.passages, sizes.dim))
    norms = kernels.inverse_norms(passages)
    codes = None if storage == "float32" else prepare_passages(passages, norms, storage)
    for n_queries in sizes.batches:
        queries = [(place.up(_normal(rng, n_queries, sizes.dim)),) for _ in range(sizes.sets)]

        def ours(queries: Any) -> Any:
            found = stages.cosine_topk(
                queries, passages, sizes.k, inverse_norms=norms, storage=storage, codes=codes
            )
            return found[:2]

        numbers = sizes.passages * sizes.dim
        yield Plan(
            "cosine_topk",
            f"{storage}, N {sizes.passages}, dim {sizes.dim}, B {n_queries}, k {sizes.k}",
            queries,
            ours,
            n_bytes=numbers * BYTES[storage],
            operations=2.0 * numbers * n_queries,
            unit=UNITS[storage],
            peers=_search_peers(
                peers, place.for_peer(passages), place.for_peer(norms), storage, sizes.k
            ),
            agree=_mostly_the_same,
        )


def _search_peers(
    peers: Any, passages: Any, norms: Any, storage: str, k: int
) -> dict[str, Callable[..., Any]]:
    """Give product and selection as users write them, with unit passages made beforehand."""
    name = getattr(peers, "__name__", "")
    if name == "torch":
        unit = (passages * norms[:, None]).to(
            peers.float32 if storage == "float32" else peers.bfloat16
        )

        def matmul_topk(queries: Any) -> Any:
            found = peers.topk(queries.to(unit.dtype) @ unit.T, k)
            return found.indices, found.values.float()

        return {"torch": matmul_topk}
    if name == "cupy" and storage == "float32":
        unit = passages * norms[:, None].astype(passages.dtype)

        def argpartition(queries: Any) -> Any:
            scores = queries @ unit.T
            some = peers.argpartition(-scores, k - 1, axis=1)[:, :k]
            values = peers.take_along_axis(scores, some, 1)
            order = peers.argsort(-values, axis=1)
            return peers.take_along_axis(some, order, 1), values

        return {"cupy": argpartition}
    return {}


def _mostly_the_same(ours: Any, theirs: Any) -> bool:
    """Tell whether most indices are the same; a peer in bf16 finds others among near ties."""
    pairs = list(zip(ours[0], theirs[0], strict=True))
    shared = [len(set(left.tolist()) & set(right.tolist())) / len(left) for left, right in pairs]
    return min(shared) >= 0.5 and float(np.mean(shared)) >= 0.8


def _axes(place: Place, peers: Any, rng: np.random.Generator, sizes: Sizes) -> Plan:
    from epibias import kernels

    shape = (sizes.topics, sizes.anchors, sizes.dim)
    inputs = [(place.up(_normal(rng, *shape)),) for _ in range(sizes.sets)]

    def gram_and_eigh(anchors: Any) -> Any:
        unit = anchors / peers.linalg.norm(anchors, axis=2, keepdims=True)
        centred = unit - unit.mean(1, keepdims=True)
        _, vectors = peers.linalg.eigh(centred @ centred.transpose(1, 2))
        axes = (vectors[:, :, -1:] * centred).sum(1)
        return axes / peers.linalg.norm(axes, axis=1, keepdims=True)

    by_torch = {"torch": gram_and_eigh} if getattr(peers, "__name__", "") == "torch" else {}
    numbers = float(np.prod(shape))
    return Plan(
        "polarization_axis",
        " x ".join(map(str, shape)),
        inputs,
        lambda anchors: kernels.polarization_axis(anchors)[0],
        n_bytes=4 * numbers + 4.0 * sizes.topics * sizes.dim,
        operations=2 * numbers * sizes.anchors,
        peers=by_torch,
        agree=_parallel,
    )


def _parallel(ours: Any, theirs: Any) -> bool:
    """Tell whether axes are the same lines, whatever their signs."""
    return float(np.abs((ours * theirs).sum(1)).min()) > 0.99


def _sweep(place: Place, rng: np.random.Generator, sizes: Sizes) -> Plan:
    from epibias import kernels

    shape = (sizes.queries, sizes.candidates)
    inputs = [tuple(place.up(_normal(rng, *shape)) for _ in range(2)) for _ in range(sizes.sets)]
    # Of 256 points of the grid for each candidate and split: two additions, two logarithms of
    # some 20 operations, all in float64, whose rate is about a sixth of tf32's as measured.
    operations = 6.0 * sizes.queries * sizes.candidates * 256 * 44
    return Plan(
        "threshold_sweep",
        " x ".join(map(str, shape)),
        inputs,
        lambda similarities, scores: tuple(kernels.threshold_sweep(similarities, scores))[:3],
        n_bytes=8.0 * sizes.queries * sizes.candidates,
        operations=operations,
    )


def _mmr(place: Place, rng: np.random.Generator, sizes: Sizes) -> Plan:
    from epibias import kernels

    n_queries = max(1, sizes.queries // 10)
    n = min(sizes.candidates, sizes.k)
    k = max(1, n // 4)
    inputs = [
        (place.up(_normal(rng, n_queries, n)), place.up(_normal(rng, n_queries, n, sizes.dim)))
        for _ in range(sizes.sets)
    ]
    return Plan(
        "mmr",
        f"{n_queries} x {n} x {sizes.dim}, k {k}",
        inputs,
        lambda similarities, embeddings: kernels.mmr(similarities, embeddings, k),
        n_bytes=4.0 * n_queries * n * sizes.dim,
        operations=2.0 * n_queries * n * k * sizes.dim * 6,  # float64
    )
