"""The meaning of DUO: every order of the passages is tried, one after the other."""

from __future__ import annotations

import itertools
import math

import numpy as np


def discounted_variance(scores, depth=None) -> float:
    last = len(scores) if depth is None else min(depth, len(scores))
    return sum(float(np.var(scores[:i])) / math.log2(i) for i in range(2, last + 1))


def variance_range(scores, depth=None) -> tuple[float, float]:
    values = [discounted_variance(order, depth) for order in itertools.permutations(scores)]
    return min(values), max(values)


def duo(scores, depth=None) -> float:
    """As the published code defines it: normalised by the extremes over all orders."""
    least, largest = variance_range(scores, depth)
    if largest - least <= 1e-12 * largest:
        return 0.5
    return 1 - (discounted_variance(scores, depth) - least) / (largest - least)
