"""The polarization axis against float64 numpy on 2,000 topics and on 100 topics of many anchors.

    python bench/check_polarization_axis.py

100 shapes of 20 topics: 2 to 40 anchors, 16 to 1024 dimensions; anchors with a planted direction,
without structure, close together around a far centre, or with a chosen relative gap from 1 down to
1e-9; batches against single topics. Then 257 to 1,500 anchors and dimensions, of the same kinds,
where block Lanczos looks for the axis and may give up; one thread against two. The oracle is the
singular value decomposition of `tests/reference.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import reference
from epibias import _core, kernels

N_SHAPES = 100
TOPICS_OF_A_SHAPE = 20
N_MANY = 100
ANGLE, NEAR_TIE_ANGLE, RESIDUAL = 1e-6, 1e-5, 1e-6
NEAR_TIE_GAP, UNDEFINED_GAP = 1e-2, 1e-6


def with_relative_gap(rng: np.random.Generator, n_anchors: int, dim: int) -> np.ndarray:
    """Centred rows whose two leading variances differ by a chosen share."""
    rank = min(n_anchors - 1, dim)
    left = rng.normal(size=(n_anchors, rank))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    right = np.linalg.qr(rng.normal(size=(dim, rank)))[0]
    variances = np.sort(rng.random(rank) * 0.9)[::-1]
    variances[0] = 1.0
    if rank > 1:
        variances[1] = 1 - 10.0 ** rng.uniform(-9, 0)
    return (left * np.sqrt(variances)) @ right.T


def random_anchors(rng: np.random.Generator, n_anchors: int, dim: int) -> np.ndarray:
    """One topic of one of the four kinds."""
    kind = rng.integers(4)
    noise = rng.normal(size=(n_anchors, dim))
    if kind == 0:
        centre, direction = rng.normal(size=(2, dim))
        return centre + rng.normal(size=(n_anchors, 1)) * direction + 0.5 * noise
    if kind == 1:
        return noise
    if kind == 2:
        return rng.normal(size=dim) + 10.0 ** rng.uniform(-4, -1) * noise
    return with_relative_gap(rng, n_anchors, dim)


def angle(left: np.ndarray, right: np.ndarray) -> float:
    """Angle of two vectors, accurate when small; orientation counts."""
    left, right = left / np.linalg.norm(left), right / np.linalg.norm(right)
    return 2 * float(np.arctan2(np.linalg.norm(left - right), np.linalg.norm(left + right)))


def residual(anchors: np.ndarray, axis: np.ndarray, normalize: bool) -> float:
    """Give |A v - (v A v) v| / (v A v) for the covariance A of the anchors."""
    rows = reference.unit_rows(anchors) if normalize else anchors.astype(np.float64)
    centred = rows - rows.mean(axis=0)
    product = centred.T @ (centred @ axis)
    value = axis @ product
    return float(np.linalg.norm(product - value * axis) / value)


class Worst:
    """The worst errors so far, and how many topics were of which kind."""

    def __init__(self) -> None:
        self.errors = dict.fromkeys(
            ("angle", "near_tie_angle", "undefined_residual", "eigenvalues"), 0.0
        )
        self.counts = dict.fromkeys(("angle", "near_tie_angle", "undefined_residual"), 0)

    def add(
        self, anchors: np.ndarray, normalize: bool, axis: np.ndarray, explained: float, gap: float
    ) -> None:
        """Compare one topic with the oracle."""
        expected = reference.polarization_axis(anchors, normalize=normalize)
        wide = axis.astype(np.float64)
        kind, value = "angle", angle(wide, expected.axis)
        if expected.relative_gap < UNDEFINED_GAP:
            kind, value = "undefined_residual", residual(anchors, wide, normalize)
        elif expected.relative_gap < NEAR_TIE_GAP:
            kind = "near_tie_angle"
        self.counts[kind] += 1
        error = abs(explained - expected.explained) + abs(gap - expected.relative_gap)
        for name, found in ((kind, value), ("eigenvalues", float(error))):
            self.errors[name] = max(self.errors[name], found) if np.isfinite(found) else np.inf

    def within_bounds(self, fewest: int) -> bool:
        """Whether all errors are small and every kind occurred."""
        return bool(
            self.errors["angle"] <= ANGLE
            and self.errors["near_tie_angle"] <= NEAR_TIE_ANGLE
            and self.errors["undefined_residual"] <= RESIDUAL
            and self.errors["eigenvalues"] <= 1e-10
            and min(self.counts.values()) >= fewest
        )


def same_bits(left: tuple[np.ndarray, ...], right: tuple[np.ndarray, ...], topic: int) -> bool:
    pairs = zip(left, right, strict=True)
    return all(one[0].tobytes() == many[topic].tobytes() for one, many in pairs)


def run() -> dict[str, Any]:
    """Compare every topic; collect the worst of each kind."""
    rng = np.random.default_rng(2_000)
    worst = Worst()
    one_by_one_differs = 0
    for shape in range(N_SHAPES):
        n_anchors, dim = int(rng.integers(2, 41)), int(rng.integers(16, 1025))
        normalize = shape % 3 != 0
        topics = np.array(
            [random_anchors(rng, n_anchors, dim) for _ in range(TOPICS_OF_A_SHAPE)], np.float32
        )
        batch = kernels.polarization_axis(topics, normalize=normalize)
        for topic in range(TOPICS_OF_A_SHAPE):
            single = kernels.polarization_axis(topics[topic : topic + 1], normalize=normalize)
            one_by_one_differs += not same_bits(single, batch, topic)
            worst.add(topics[topic], normalize, *(values[topic] for values in batch))
    many = run_many()
    passed = one_by_one_differs == 0 and worst.within_bounds(20) and many["passed"]
    return {
        "passed": bool(passed),
        "n_topics": N_SHAPES * TOPICS_OF_A_SHAPE,
        "topics_by_kind": worst.counts,
        "worst": worst.errors,
        "one_by_one_differs": one_by_one_differs,
        "many_anchors": many,
    }


def run_many() -> dict[str, Any]:
    """Return the same for topics of many anchors and dimensions."""
    rng = np.random.default_rng(2_001)
    worst = Worst()
    threads_differ = 0
    threads = _core.n_threads()
    for number in range(N_MANY):
        n_anchors, dim = (int(size) for size in rng.integers(257, 1501, 2))
        normalize = number % 3 != 0
        anchors = random_anchors(rng, n_anchors, dim).astype(np.float32)
        results = []
        for n_threads in (1, 2):
            _core.set_n_threads(n_threads)
            results.append(kernels.polarization_axis(anchors[None], normalize=normalize))
        _core.set_n_threads(threads)
        threads_differ += not same_bits(results[0], results[1], 0)
        worst.add(anchors, normalize, *(values[0] for values in results[0]))
    return {
        "passed": worst.within_bounds(1) and threads_differ == 0,
        "n_topics": N_MANY,
        "topics_by_kind": worst.counts,
        "worst": worst.errors,
        "threads_differ": threads_differ,
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
