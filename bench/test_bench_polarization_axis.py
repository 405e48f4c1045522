"""Axes of topics with eight anchors each."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from epibias import kernels


@pytest.mark.parametrize(("n_topics", "dim"), [(1, 384), (1, 1024), (200, 384), (200, 1024)])
def test_axis(n_topics, dim, one_thread, benchmark):
    rng = np.random.default_rng(dim)
    direction = rng.standard_normal(dim)
    positions = np.linspace(-1, 1, 8)[:, None]
    noise = 0.3 * rng.standard_normal((n_topics, 8, dim))
    anchors = (1 + positions * direction + noise).astype(np.float32)
    axes, explained, _ = kernels.polarization_axis(anchors)
    for topic in range(min(n_topics, 5)):
        expected = reference.polarization_axis(anchors[topic])
        assert np.dot(axes[topic], expected.axis) > 1 - 1e-6
        assert abs(explained[topic] - expected.explained) < 1e-9
    benchmark(kernels.polarization_axis, anchors)
