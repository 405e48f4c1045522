"""Latency of a deployed defence: warm for several batch sizes, cold in fresh processes.

In: inputs and a plan. Out: one document of plain values, times in milliseconds a call. The answer
is checked before anything is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from epibias import _validate, kernels
from epibias.costs.clock import seconds_of
from epibias.costs.cold import ColdStart
from epibias.costs.latency_inputs import LatencyInputs
from epibias.costs.stages import AFTER_SEARCH, STAGES, Deployment
from epibias.defenses import Defense
from epibias.errors import InputError
from epibias.experiment.listener import Listener, Silent
from epibias.experiment.manifest import environment, now
from epibias.experiment.plan import demo_plan

Timed = TypeVar("Timed")

FORMAT = 1
MADE_BY = "epibias latency"
LARGEST_BATCH = 1024
FEWEST_REPEATS = 3
CHECKED_QUERIES = 64
PAPER = {
    "extra_ms": 465,
    "source": "arXiv:2512.00804",
    "note": "stated by the paper, encoding included; another machine, other encoders, other code",
}


@dataclass(frozen=True)
class LatencyPlan:
    """What is measured.

    Parameters
    ----------
    batches : tuple of int
        Queries in a call, 1 to 1024, ascending.
    repeats : int
        Calls that are timed for each batch size, unless the time runs out.
    seconds : float
        Time for each batch size, and as much again for encoding it. Three calls are timed in any
        case, and one of the encoder.
    n_cold : int
        Fresh processes; 0 for none.

    Raises
    ------
    InputError
        A number out of range, or batches that do not ascend.
    """

    batches: tuple[int, ...] = (1, 4, 16, 64, 256, 1024)
    repeats: int = 200
    seconds: float = 5.0
    n_cold: int = 3

    def __post_init__(self) -> None:
        for size in self.batches:
            _validate.integer("batches", size, low=1, high=LARGEST_BATCH)
        if not self.batches or list(self.batches) != sorted(set(self.batches)):
            raise InputError("batches", "one or more, ascending", str(list(self.batches)))
        _validate.integer("repeats", self.repeats, low=FEWEST_REPEATS)
        _validate.number("seconds", self.seconds, above=0)
        _validate.integer("cold", self.n_cold, low=0, high=1000)


def defense_of(name: str, k: int) -> Defense:
    """Give a defence of the demo by its key.

    Raises
    ------
    InputError
        No such key.

    Examples
    --------
    >>> defense_of("biasdef-gate", 5).name
    'biasdef[gate=0.1]'
    """
    # One that has to be given an index first selects otherwise without it.
    known = {one.key: one.defense for one in demo_plan(k=k).defenses if one.learn is None}
    _validate.choice("defense", name, list(known))
    return known[name]


def measure_latency(
    inputs: LatencyInputs,
    deployment: Deployment,
    plan: LatencyPlan,
    cold_start: Callable[[], ColdStart] | None = None,
    listener: Listener | None = None,
) -> dict[str, Any]:
    """Check, then time.

    Parameters
    ----------
    inputs : LatencyInputs
    deployment : Deployment
        Of these inputs.
    plan : LatencyPlan
    cold_start : callable, optional
        Runs a fresh process; without it nothing cold is measured.
    listener : Listener, optional

    Returns
    -------
    dict
        Ready for JSON. A stage that was not measured, or that the defence does not have, is null,
        never 0.

    Raises
    ------
    StagesDifferError
        The stages do not select what the deployed calls select: nothing was timed.
    InputError
        Inputs that do not fit the deployment; a fresh process that failed.
    """
    listener = listener or Silent()
    begun, started = time.perf_counter(), now()
    n_checked = deployment.check(inputs.batch(CHECKED_QUERIES))
    deployment.encode(inputs.batch(1))  # its first call is not a warm one
    warm = [_warm(inputs, deployment, size, plan, listener) for size in plan.batches]
    return {
        "made_by": MADE_BY,
        "format": FORMAT,
        "started": started,
        "environment": environment(),
        "n_threads": kernels.backend_info()["n_threads"],
        "corpus": {
            "what": inputs.corpus,
            "n_passages": len(inputs.passages),
            "dim": inputs.passages.shape[1],
        },
        "scan": deployment.index.scan,
        "defense": {"name": deployment.defense.name, **deployment.defense.parameters()},
        "k": deployment.k,
        "n_candidates": deployment.n_candidates,
        "n_checked": n_checked,
        "encoding_measured": deployment.encoder is not None,
        "warm": warm,
        "cold": None if cold_start is None else _cold(cold_start, plan.n_cold, listener),
        "paper": PAPER,
        "seconds": time.perf_counter() - begun,
    }


def _warm(
    inputs: LatencyInputs, deployment: Deployment, size: int, plan: LatencyPlan, listener: Listener
) -> dict[str, Any]:
    """Time calls of one batch size, each with the next queries, after one that is not timed.

    The encoder takes so much longer than the rest that it is timed apart, as long again. A call
    with encoding is one of its calls and one of the others, in their order.
    """
    deployment.timed(inputs.batch(size))
    listener.start(f"batches of {size}", plan.repeats)
    spent = _repeated(
        lambda number: deployment.timed(inputs.batch(size, number * size)),
        plan,
        FEWEST_REPEATS,
        listener,
    )
    stages = summarised(spent)
    if deployment.encoder is not None:
        listener.start(f"encoding batches of {size}", plan.repeats)
        encoding = _repeated(
            lambda number: seconds_of(lambda: deployment.encode(inputs.batch(size, number * size)))[
                0
            ],
            plan,
            1,
            listener,
        )
        pairs = list(zip(encoding, spent, strict=False))
        stages["encode"] = percentiles(encoding)
        stages["total"] = percentiles([seconds + rest["total"] for seconds, rest in pairs])
        # Of the same calls as the total, which it is a part of.
        stages[AFTER_SEARCH] = percentiles([rest[AFTER_SEARCH] for _, rest in pairs])
    return {"batch": size, "stages": stages}


def _repeated(
    call: Callable[[int], Timed], plan: LatencyPlan, fewest: int, listener: Listener
) -> list[Timed]:
    """Call with 0, 1, 2 … until there are enough results, or the time is up."""
    results: list[Timed] = []
    until = time.perf_counter() + plan.seconds
    while len(results) < plan.repeats:
        if len(results) >= fewest and time.perf_counter() > until:
            break
        results.append(call(len(results)))
        listener.advance(1)
    return results


def _cold(
    cold_start: Callable[[], ColdStart], n_processes: int, listener: Listener
) -> dict[str, Any]:
    """Run fresh processes, one after the other, each for its first call of one query."""
    listener.start("fresh processes", n_processes)
    runs = []
    for _ in range(n_processes):
        runs.append(cold_start())
        listener.advance(1)
    return {
        "batch": 1,
        "n_processes": len(runs),
        "before_the_call_s": {
            name: float(np.median([run.before[name] for run in runs])) for name in runs[0].before
        },
        "stages": summarised([run.stages for run in runs]),
    }


def summarised(spent: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float] | None]:
    """Percentiles of every stage; null for a stage that was not there.

    Examples
    --------
    >>> found = summarised([{"total": 0.001}, {"total": 0.003}])
    >>> found["total"]["p50"], found["encode"]
    (2.0, None)
    """
    found: dict[str, dict[str, float] | None] = dict.fromkeys((*STAGES, AFTER_SEARCH))
    return found | {name: percentiles([one[name] for one in spent]) for name in spent[0]}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Give the number of calls, and their percentiles in milliseconds.

    Examples
    --------
    >>> percentiles([0.001, 0.002])["p50"]
    1.5
    """
    values = 1e3 * np.asarray(seconds, dtype=np.float64)
    names = {"p50": 50, "p95": 95, "p99": 99, "largest": 100}
    found = np.percentile(values, list(names.values())).tolist()
    return {"n_calls": len(values), **dict(zip(names, found, strict=True))}
