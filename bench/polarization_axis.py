"""The polarization axis against numpy, scikit-learn and SciPy: ratios of one interleaved run.

Every answer is checked first: this project's against the float64 definition of `tests/reference.py`
(angle, explained variance, relative gap), the others' errors are printed beside their times. CPU
time is the minimum of the rounds, wall time their median; on a shared machine only the first says
much. Peers get unit rows ready made, in float32 as scikit-learn keeps them; `numpy` is np.cov in
float64 and eigh, `numpy gram` the Gram matrix of the centred rows in float64 and eigh.

    python bench/polarization_axis.py --levels avx512,avx2,scalar --json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--topics", type=int, default=10_000, help="topics of the batch")
parser.add_argument("--few", default="8x384,8x768,8x1024", help="anchors x dimensions, in batches")
parser.add_argument("--one", default="8x1024,24x768,64x768,200x384", help="one topic")
parser.add_argument("--many", default="2000x384,10000x768,100000x384", help="one topic, all peers")
parser.add_argument("--levels", default="", help="SIMD levels of ours; empty: the best")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--json", nargs="?", const="", help="write the numbers (to bench/results/)")
options = parser.parse_args()
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = str(options.threads)  # read once, when numpy loads

import numpy as np  # noqa: E402 (after the number of its threads)

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import reference  # noqa: E402
from epibias import PolarizationAxis, _core, kernels  # noqa: E402
from machine import facts  # noqa: E402

ANGLE, EIGENVALUES = 1e-5, 1e-10
RESULTS = Path(__file__).parent / "results" / "polarization_axis.json"
# Axis in float64, explained variance ratio, relative gap.
Answer = tuple[np.ndarray, float, float]
Contender = Callable[[], Answer]


def anchors(kind: str, n_topics: int, n_anchors: int, dim: int) -> np.ndarray:
    """Give unit rows: one planted direction, or a spectrum that falls as that of embeddings."""
    rng = np.random.default_rng(n_anchors + dim)
    shape = (n_topics, n_anchors, dim)
    rows = rng.standard_normal(shape, np.float32)
    if kind == "planted":
        centre, direction = rng.standard_normal((2, n_topics, 1, dim), np.float32)
        along = rng.uniform(-1, 1, (n_topics, n_anchors, 1)).astype(np.float32)
        rows *= np.float32(0.4)
        rows += np.float32(0.85) * centre
        rows += np.float32(0.4) * along * direction
    else:
        rows *= (np.arange(1, dim + 1) ** -0.35).astype(np.float32)
        rows += np.float32(0.3)
        rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32)
        rows = rows @ rotation
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    return rows


def definition(rows: np.ndarray) -> Answer:
    """Give the oracle's; for many rows, whose decomposition takes minutes, by its covariance."""
    if rows.size <= 1 << 20:
        axis = reference.polarization_axis(rows)
        return axis.axis, axis.explained, axis.relative_gap
    wide = reference.unit_rows(rows)
    centred = wide - wide.mean(axis=0)
    axis, explained, gap = from_eigh(centred.T @ centred)
    return reference.orient(axis, wide), explained, gap


def from_eigh(matrix: np.ndarray) -> Answer:
    values, vectors = np.linalg.eigh(matrix)
    return vectors[:, -1], values[-1] / values.sum(), (values[-1] - values[-2]) / values[-1]


def by_numpy(rows: np.ndarray) -> Answer:
    return from_eigh(np.cov(rows, rowvar=False, dtype=np.float64))


def by_numpy_gram(rows: np.ndarray) -> Answer:
    wide = rows.astype(np.float64)
    wide -= wide.mean(axis=0)
    vector, explained, gap = from_eigh(wide @ wide.T)
    axis = vector @ wide
    return axis / np.linalg.norm(axis), explained, gap


def by_sklearn(solver: str, rows: np.ndarray) -> Answer:
    from sklearn.decomposition import PCA

    fitted = PCA(n_components=2, svd_solver=solver, random_state=0).fit(rows)
    first, second = fitted.explained_variance_
    share = fitted.explained_variance_ratio_[0]
    return fitted.components_[0].astype(np.float64), float(share), float((first - second) / first)


def by_svds(rows: np.ndarray) -> Answer:
    from scipy.sparse.linalg import svds

    centred = rows - rows.mean(axis=0)
    _, singular, directions = svds(centred, k=2, random_state=0)
    second, first = singular.astype(np.float64) ** 2
    share = first / np.square(centred, dtype=np.float64).sum()
    return directions[-1].astype(np.float64), float(share), float((first - second) / first)


def by_eigsh(rows: np.ndarray) -> Answer:
    from scipy.sparse.linalg import LinearOperator, eigsh

    centred = rows - rows.mean(axis=0)
    dim = rows.shape[1]
    covariance = LinearOperator(
        (dim, dim), matvec=lambda v: centred.T @ (centred @ v), dtype=np.float32
    )
    start = np.random.default_rng(0).standard_normal(dim).astype(np.float32)
    (second, first), vectors = eigsh(covariance, k=2, which="LA", v0=start)
    share = first / np.square(centred, dtype=np.float64).sum()
    return vectors[:, -1].astype(np.float64), float(share), float((first - second) / first)


def by_epibias(rows: np.ndarray) -> Answer:
    axes, explained, gap = kernels.polarization_axis(rows[None])
    return axes[0].astype(np.float64), float(explained[0]), float(gap[0])


def by_fit(rows: np.ndarray) -> Answer:
    axis = PolarizationAxis.fit(rows)
    return axis.axis.astype(np.float64), axis.explained_variance_ratio, axis.relative_gap


def angle(left: np.ndarray, right: np.ndarray) -> float:
    """Angle of two directions, accurate when small; the sign does not count."""
    left, right = left / np.linalg.norm(left), right / np.linalg.norm(right)
    chords = np.linalg.norm(left - right), np.linalg.norm(left + right)
    return 2 * float(np.arctan2(min(chords), max(chords)))


def errors(answer: Answer, expected: Answer) -> dict[str, float]:
    return {
        "angle": angle(answer[0], expected[0]),
        "explained": abs(answer[1] - expected[1]),
        "relative_gap": abs(answer[2] - expected[2]),
    }


def require_right(name: str, found: dict[str, float]) -> None:
    right = (
        found["angle"] <= ANGLE and max(found["explained"], found["relative_gap"]) <= EIGENVALUES
    )
    if not right:
        sys.exit(f"WRONG: {name}: {found}")


def interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, dict[str, float]]:
    """Milliseconds of each, A B A B …, after one round unmeasured; short calls many at a time."""
    repeats = {}
    for name, call in calls.items():
        started = time.perf_counter()
        call()
        repeats[name] = max(1, min(200, int(0.02 / max(time.perf_counter() - started, 1e-9))))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(options.rounds):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(repeats[name]):
                call()
            spent = (time.perf_counter() - wall, time.process_time() - cpu)
            times[name].append((spent[0] / repeats[name], spent[1] / repeats[name]))
    return {
        name: {
            "cpu_ms": 1e3 * min(cpu for _, cpu in spent),
            "wall_ms": 1e3 * statistics.median(wall for wall, _ in spent),
        }
        for name, spent in times.items()
    }


def report(case: str, ours: str, times: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Print one line a contender, ratios to ours; give the numbers."""
    print(f"\n{case}")
    for name, spent in times.items():
        spent["cpu_ratio"] = spent["cpu_ms"] / times[ours]["cpu_ms"]
        spent["error"] = found[name]
        print(
            f"  {name:24s} CPU {spent['cpu_ms']:9.3f} ms (x{spent['cpu_ratio']:.2f})  wall "
            f"{spent['wall_ms']:9.3f} ms  angle {found[name]['angle']:.0e}  relative gap off by "
            f"{found[name]['relative_gap']:.0e}",
            flush=True,
        )
    return {"case": case, "contenders": times}


def at_level(level: str, call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> object:
        _core.set_simd_level(level)
        return call()

    return run


def shapes(text: str) -> list[tuple[int, int]]:
    return [(int(one), int(other)) for one, other in (part.split("x") for part in text.split(","))]


def compare_batches(levels: list[str]) -> list[dict[str, Any]]:
    """Microseconds a topic of a large batch, from Python; numpy's contender is a loop."""
    lines = []
    for n_anchors, dim in shapes(options.few):
        rows = anchors("planted", options.topics, n_anchors, dim)
        calls: dict[str, Callable[[], Any]] = {}
        for level in levels:
            calls[f"epibias {level}"] = at_level(level, partial(kernels.polarization_axis, rows))
        calls["PolarizationAxis.fit"] = at_level(levels[0], partial(quiet_fit, rows))
        sample = np.arange(0, options.topics, max(1, options.topics // 50))
        found: dict[str, dict[str, float]] = {}
        for name, call in calls.items():
            answer = call()
            if isinstance(answer, PolarizationAxis):
                answer = answer.axis, answer.explained_variance_ratio, answer.relative_gap
            axes, explained, gaps = answer
            every = [
                errors((axes[i].astype(np.float64), explained[i], gaps[i]), definition(rows[i]))
                for i in sample
            ]
            found[name] = {key: max(one[key] for one in every) for key in every[0]}
            require_right(name, found[name])
        loop = rows[:200]
        calls["numpy gram, a loop"] = lambda loop=loop: [by_numpy_gram(topic) for topic in loop]
        found["numpy gram, a loop"] = errors(by_numpy_gram(rows[0]), definition(rows[0]))
        times = interleaved(calls)
        for key in ("cpu_ms", "wall_ms"):
            times["numpy gram, a loop"][key] *= options.topics / len(loop)
        case = f"{options.topics} topics of {n_anchors} x {dim}"
        lines.append(report(case, f"epibias {levels[0]}", times, found))
        for name, spent in times.items():
            spent["cpu_us_a_topic"] = 1e3 * spent["cpu_ms"] / options.topics
            print(f"    {name}: {spent['cpu_us_a_topic']:.1f} µs of CPU a topic")
    return lines


def quiet_fit(rows: np.ndarray) -> PolarizationAxis:
    return PolarizationAxis.fit(rows)


def compare_topics(levels: list[str], text: str, kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    """One topic: all peers that can take it in reasonable time."""
    lines = []
    for n_anchors, dim in shapes(text):
        for kind in kinds:
            rows = anchors(kind, 1, n_anchors, dim)[0]
            contenders: dict[str, Contender] = {}
            for level in levels:
                contenders[f"epibias {level}"] = at_level(level, partial(by_epibias, rows))
            contenders["PolarizationAxis.fit"] = at_level(levels[0], partial(by_fit, rows))
            if n_anchors <= 1000:
                contenders["numpy gram"] = partial(by_numpy_gram, rows)
            if n_anchors >= dim:
                contenders["numpy"] = partial(by_numpy, rows)
                contenders["sklearn covariance_eigh"] = partial(by_sklearn, "covariance_eigh", rows)
            for solver in ("arpack", "randomized"):
                contenders[f"sklearn {solver}"] = partial(by_sklearn, solver, rows)
            contenders["scipy svds"] = partial(by_svds, rows)
            contenders["scipy eigsh"] = partial(by_eigsh, rows)
            expected = definition(rows)
            found = {name: errors(call(), expected) for name, call in contenders.items()}
            for name in found:
                if name.startswith(("epibias", "Polar")):
                    require_right(f"{name} {n_anchors} x {dim} {kind}", found[name])
            case = f"one topic of {n_anchors} x {dim}, {kind}, relative gap {expected[2]:.2g}"
            times = interleaved(dict(contenders))
            lines.append(report(case, f"epibias {levels[0]}", times, found))
    return lines


def versions() -> dict[str, str]:
    import scipy
    import sklearn

    return {
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "scipy": scipy.__version__,
    }


def main() -> None:
    warnings.simplefilter("ignore")  # random anchors carry no stance, and are told so
    _core.set_n_threads(options.threads)
    levels = options.levels.split(",") if options.levels else _core.simd_levels()[-1:]
    machine = facts() | {
        "threads": options.threads,
        "rounds": options.rounds,
        "packages": versions(),
    }
    print(json.dumps(machine))
    lines = compare_batches(levels)
    lines += compare_topics(levels, options.one, ("planted",))
    lines += compare_topics(levels, options.many, ("falling", "planted"))
    if options.json is not None:
        command = "python bench/polarization_axis.py " + " ".join(sys.argv[1:])
        path = Path(options.json) if options.json else RESULTS
        results = {"command": command, "machine": machine, "cases": lines}
        path.write_text(json.dumps(results, indent=1) + "\n")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
