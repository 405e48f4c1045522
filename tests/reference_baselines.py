"""What the baseline defences mean: float64, one query, one step a line, never optimised.

Each function takes one query's candidates in the pool's order and gives positions.
"""

from __future__ import annotations

import math

import numpy as np


def brra(query, query_id, corpus, candidates, *, k, n_variants, depth, noise, intensity, seed):
    """Order by how many of the noisy copies find a candidate, then mean rank, then position."""
    unit = np.asarray(query, np.float64) / np.linalg.norm(np.asarray(query, np.float64))
    stream = np.random.Generator(np.random.Philox(key=[seed, query_id]))
    copies = [np.asarray(query, np.float32)]
    for _ in range(n_variants):
        step = stream.standard_normal(len(unit))
        if noise == "norm_matched":
            step = step / math.sqrt((step**2).sum())
        copies.append((unit + intensity * step).astype(np.float32))
    ranks = {}
    for copy in copies:
        cosine = [
            float(np.float32(cosine_of(copy.astype(np.float64), row.astype(np.float64))))
            for row in corpus
        ]
        order = sorted(range(len(corpus)), key=lambda i: (-cosine[i], i))
        for rank, passage in enumerate(order[:depth]):
            ranks.setdefault(passage, []).append(rank)
    found = [p for p, passage in enumerate(candidates) if passage in ranks]
    found.sort(key=lambda p: (-len(ranks[candidates[p]]), float(np.mean(ranks[candidates[p]])), p))
    return found[:k]


def cosine_of(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
