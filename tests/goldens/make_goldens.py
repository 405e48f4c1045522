"""Writes `core.json`: what the stages gave for fixed inputs, to the bit.

The oracle says what is right; the golden says that nothing moved, on another processor, compiler or
release. Inputs come from integers (`reference.mix64`), not from a library's random numbers. Run it
only when a stage was changed on purpose, and say why in the commit:

    python tests/goldens/make_goldens.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import reference
from epibias import kernels

GOLDENS = Path(__file__).with_name("core.json")


def inputs(stream: int, *shape: int) -> np.ndarray:
    """Float32 numbers in [-1, 1), the same on every machine."""
    n_values = int(np.prod(shape))
    integers = [reference.mix64(stream * 1_000_003 + i) >> 40 for i in range(n_values)]
    return (np.array(integers, np.float64) / 2**23 - 1).astype(np.float32).reshape(shape)


def exact(values: np.ndarray) -> list[Any]:
    """Integers as they are, floats as hexadecimal text."""
    flat = np.asarray(values).ravel().tolist()
    return [value.hex() if isinstance(value, float) else value for value in flat]


def outputs() -> dict[str, list[Any]]:
    """Run every stage once."""
    passages, queries = inputs(1, 300, 50), inputs(2, 3, 50)
    indices, similarities, _ = kernels.cosine_topk(queries, passages, 20)
    axes, explained, gap = kernels.polarization_axis(inputs(3, 2, 8, 50))
    many_anchors = kernels.polarization_axis(inputs(4, 1, 60, 50))
    scores = kernels.polarization_scores(passages, axes, indices, np.array([0, 1, 0]))
    found: dict[str, np.ndarray] = {
        "cosine_topk.indices": indices,
        "cosine_topk.similarities": similarities,
        "polarization_axis.axes": axes,
        "polarization_axis.explained_variance_ratio": explained,
        "polarization_axis.relative_gap": gap,
        "polarization_axis.axes_from_covariance": many_anchors[0],
        "polarization_scores": scores,
    }
    for criterion in ("kl", "mi"):
        swept = kernels.threshold_sweep(
            similarities, scores, criterion=criterion, min_kept=5, permutations=99, seed=7
        )
        for name, values in zip(
            ("threshold", "n_kept", "divergence", "p_value"), swept, strict=False
        ):
            found[f"threshold_sweep.{criterion}.{name}"] = values
    printed = kernels.printed_sweep(similarities, scores)
    for name, values in zip(("threshold", "n_kept", "divergence"), printed, strict=False):
        found[f"printed_sweep.{name}"] = values
    pools = np.ascontiguousarray(passages[indices])
    found["mmr"] = kernels.mmr(similarities, pools, 8, 0.4)
    gram = pools.astype(np.float64) @ pools.astype(np.float64).transpose(0, 2, 1)
    found["dpp_greedy"] = kernels.dpp_greedy(np.round(gram * 2**20) / 2**20, 8)[0]
    return {name: exact(values) for name, values in found.items()}


if __name__ == "__main__":
    GOLDENS.write_text(json.dumps(outputs(), indent=0) + "\n", encoding="utf-8")
    print(f"wrote {GOLDENS.name}")
