"""K-means with two clusters, without chance."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

import reference_baselines
from epibias.defenses import two_means as module
from epibias.defenses.two_means import two_means


def inertia(points, cluster):
    sides = [points[cluster == side] for side in (0, 1)]
    return sum(float(((side - side.mean(axis=0)) ** 2).sum()) for side in sides if len(side))


def test_by_hand():
    # 0, 1 | 5, 6, 7: centres .5 and 6, inertia .5 + 2. The runs that start with 0–1 end there, too.
    points = np.array([[0.0], [6], [1], [5], [7]])
    assert two_means(points).tolist() == [0, 1, 0, 1, 1]
    assert two_means(points[[1, 0, 2, 3, 4]]).tolist() == [0, 1, 1, 0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_no_partition_of_few_points_is_better(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((int(rng.integers(2, 10)), 3))
    best, own, _ = reference_baselines.best_halves(points)
    found = two_means(points)
    assert inertia(points, found) <= best * (1 + 1e-12) + 1e-15
    assert np.flatnonzero(found == 0).tolist() == own


# Of the first 300 seeds those where Lloyd's steps alone miss the best partition, and some others.
@pytest.mark.parametrize("seed", [30, 38, 52, 108, 222, 225, 235, 263, 285, 288, *range(10)])
def test_runs_find_what_trying_all_finds(seed, monkeypatch):
    points = np.random.default_rng(seed).standard_normal((9, 12))
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    best = inertia(points, two_means(points))
    monkeypatch.setattr(module, "ALL_PARTITIONS_UP_TO", 0)
    found = inertia(points, two_means(points))
    assert abs(found - best) <= 1e-9 * best


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_at_least_as_good_as_scikit_learn(seed, n):
    points = np.random.default_rng(seed).standard_normal((n, 5))
    other = KMeans(2, n_init=10, max_iter=500, random_state=0).fit(points)
    assert inertia(points, two_means(points)) <= other.inertia_ * (1 + 1e-9)


def test_equal_points_are_one_cluster_and_ties_go_to_the_first():
    assert two_means(np.ones((4, 2))).tolist() == [0, 0, 0, 0]
    assert two_means(np.ones((1, 2))).tolist() == [0]
    assert two_means(np.zeros((0, 2))).tolist() == []
    assert two_means(np.array([[0.0], [1], [1]])).tolist() == [0, 1, 1]
