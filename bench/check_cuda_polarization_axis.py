"""The polarization axis on the emulated device against float64 numpy, on 2,000 topics.

    python bench/check_cuda_polarization_axis.py

100 shapes of 20 topics, of the kinds and relative gaps of check_polarization_axis.py: 2 to 40
anchors, 2 to 400 dimensions, every third left unscaled; batches against single topics to the bit.
Then 12 topics of 100 to 600 anchors and 60 to 250 dimensions. The bits of the scores are compared
with the CPU's. Needs the emulated module (-DEPIBIAS_CUDA_EMULATED=ON); a run in which it does not
load fails.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from check_polarization_axis import Worst, random_anchors, same_bits
from epibias import _core
from epibias.device import stages, status

N_SHAPES = 100
TOPICS_OF_A_SHAPE = 20
N_MANY = 12
SEED = 2_026


def same_scores(topics: np.ndarray, axes: np.ndarray, normalize: bool) -> bool:
    """Whether anchors and axes have the CPU's scores, to the bit."""
    rows = topics[0]
    got = stages.polarization_scores(rows, axes, None, None, normalize=normalize)
    expected = _core.polarization_scores(rows, axes, None, None, normalize)
    own = stages.anchor_scores(topics, axes, normalize=normalize)
    expected_own = _core.anchor_scores(topics, axes, normalize)
    return bool(got.tobytes() == expected.tobytes() and own.tobytes() == expected_own.tobytes())


def run_many(worst: Worst) -> None:
    """Compare topics of more anchors than one warp takes."""
    rng = np.random.default_rng(SEED + 1)
    for number in range(N_MANY):
        n_anchors, dim = int(rng.integers(100, 601)), int(rng.integers(60, 251))
        normalize = number % 3 != 0
        anchors = random_anchors(rng, n_anchors, dim).astype(np.float32)
        found = stages.polarization_axis(anchors[None], None, normalize=normalize)
        worst.add(anchors, normalize, *(values[0] for values in found))


def run() -> dict[str, Any]:
    """Compare every topic; collect the worst of each kind."""
    started = time.perf_counter()
    rng = np.random.default_rng(SEED)
    worst = Worst()
    n_single_differs, n_scores_differ = 0, 0
    with status.emulated():  # raises where the emulated module is not there
        for shape in range(N_SHAPES):
            n_anchors, dim = int(rng.integers(2, 41)), int(rng.integers(2, 401))
            normalize = shape % 3 != 0
            topics = np.array(
                [random_anchors(rng, n_anchors, dim) for _ in range(TOPICS_OF_A_SHAPE)], np.float32
            )
            batch = stages.polarization_axis(topics, None, normalize=normalize)
            for topic in range(TOPICS_OF_A_SHAPE):
                worst.add(topics[topic], normalize, *(values[topic] for values in batch))
            one = stages.polarization_axis(topics[7:8], None, normalize=normalize)
            n_single_differs += not same_bits(one, batch, 7)
            n_scores_differ += not same_scores(topics, batch[0], normalize)
        run_many(worst)
    passed = worst.within_bounds(20) and n_single_differs == 0 and n_scores_differ == 0
    return {
        "passed": bool(passed),
        "n_topics": N_SHAPES * TOPICS_OF_A_SHAPE + N_MANY,
        "topics_by_kind": worst.counts,
        "worst": worst.errors,
        "one_by_one_differs": n_single_differs,
        "scores_differ": n_scores_differ,
        "check_seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    result = run()
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["passed"] else 1)
