"""The public API exactly as the design prints it; benchmarks outside the project call these."""

from __future__ import annotations

import numpy as np

import epibias as eb
from pools import opposed_anchors, unit_rows


def test_every_call_of_the_design_works_as_printed():
    rng = np.random.default_rng(0)
    passage_embeddings, ps_embeddings = unit_rows(rng, 2, 100, 16)
    query_embeddings = unit_rows(rng, 3, 16)
    anchors, stances = opposed_anchors(0, noise=0.05)

    index = eb.CosineIndex(passage_embeddings, scan="auto")
    found = index.search(query_embeddings, k=20)
    assert (found.indices.shape, found.indices.dtype) == ((3, 20), np.int64)
    assert (found.similarities.shape, found.similarities.dtype) == ((3, 20), np.float32)

    axis = eb.PolarizationAxis.fit(anchors, labels=None, method="pca")
    ps = axis.score(ps_embeddings)
    assert (ps.shape, ps.dtype) == ((100,), np.float32)
    gathered = axis.score(ps_embeddings, found.indices)
    np.testing.assert_array_equal(gathered, ps[found.indices])
    both = eb.PolarizationAxis.fit(np.stack([anchors, anchors]), np.stack([stances, stances]))
    assert both.axis.shape == (2, 16)

    cut = eb.threshold_sweep(
        found.similarities, gathered, min_kept=5, slack=0.05, criterion="kl", permutations=0, seed=0
    )
    for name, dtype in (
        ("threshold", np.float32),
        ("n_kept", np.int64),
        ("divergence", np.float64),
        ("p_value", np.float64),
    ):
        values = getattr(cut, name)
        assert (values.shape, values.dtype) == ((3,), dtype)

    pool = eb.CandidatePool.build(
        index, query_embeddings, axis, ps_embeddings=None, k=5, pool_factor=4
    )
    chosen = eb.BiasDef(k=5).select(pool)
    assert isinstance(chosen, eb.Selection)
    assert chosen.indices.dtype == chosen.offsets.dtype == np.int64
    assert chosen.offsets.shape == (4,)
    assert chosen.n_selected.tolist() == np.diff(chosen.offsets).tolist()
    assert len(chosen.dropped) == 3
    assert {"threshold", "divergence", "p_value"} <= set(chosen.diagnostics)
    np.testing.assert_array_equal(np.concatenate([chosen[i] for i in range(3)]), chosen.indices)

    same = eb.CandidatePool.from_vectors(
        query_embeddings, passage_embeddings[found.indices], axis, indices=found.indices
    )
    np.testing.assert_array_equal(eb.BiasDef(k=5).select(same).indices, chosen.indices)
    assert eb.Chain([eb.BiasDef(k=10), eb.MMR(k=5)]).select(pool).n_selected.max() <= 5
