"""The theory check: Theorems 1 to 3 of the paper, simulated; what holds, with numbers.

Owns the run: settings, order, time, and the document that is written. In: a plan. Out: one
JSON-able document.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from epibias import _validate
from epibias.experiment.listener import Listener, Silent
from epibias.experiment.manifest import environment, now
from epibias.experiment.theory_checks import check_theorem_1, check_theorem_2, check_theorem_3
from epibias.kernels_threads import using_threads

MADE_BY = "epibias bench theory"
FORMAT = 1


@dataclass(frozen=True)
class TheoryPlan:
    """What is simulated.

    Parameters
    ----------
    sizes : tuple of int
        Passages of a sample, ascending, at least 20 each.
    repeats : tuple of int
        Samples at each size, at least 20 each.
    seed : int
        Of the samples.

    Raises
    ------
    InputError
        A number out of range, or not as many repeats as sizes.

    Examples
    --------
    >>> TheoryPlan.quick().sizes
    (20, 50, 100, 200)
    """

    sizes: tuple[int, ...] = (20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
    repeats: tuple[int, ...] = (1000, 1000, 1000, 1000, 600, 400, 300, 300, 250, 200)
    seed: int = 0

    def __post_init__(self) -> None:
        _validate.same_length("repeats", len(self.repeats), "sizes", len(self.sizes))
        _validate.integer("sizes", len(self.sizes), low=4, note="how many")
        for size, repeats in zip(self.sizes, self.repeats, strict=True):
            _validate.integer("sizes", size, low=20, high=100_000)
            _validate.integer("repeats", repeats, low=20, high=100_000)
        _validate.integer("seed", self.seed, low=0)

    @classmethod
    def quick(cls, seed: int = 0) -> TheoryPlan:
        """Give a plan of a few seconds, for a look: its rates say little."""
        return cls((20, 50, 100, 200), (60, 60, 60, 60), seed)


def run_theory(plan: TheoryPlan | None = None, listener: Listener | None = None) -> dict[str, Any]:
    """Simulate the theorems.

    Parameters
    ----------
    plan : TheoryPlan, optional
        The default takes below a minute of one CPU.
    listener : Listener, optional
        Takes progress.

    Returns
    -------
    dict
        `settings`, `theorem_1`, `theorem_2`, `theorem_3`, and how it was made. With the same plan
        and the same core the three are the same.

    Examples
    --------
    >>> found = run_theory(TheoryPlan.quick())
    >>> found["theorem_1"]["zero_error"] == len(found["theorem_1"]["cases"])
    True
    """
    chosen = plan or TheoryPlan()
    told = listener or Silent()
    started, begun = now(), time.process_time()
    with using_threads(1):
        first = check_theorem_1()
        third = check_theorem_3()
        second = check_theorem_2(chosen.sizes, chosen.repeats, chosen.seed, told)
    settings = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(chosen).items()}
    return {
        "format": FORMAT,
        "made_by": MADE_BY,
        "started": started,
        "cpu_seconds": round(time.process_time() - begun, 1),
        "environment": environment(),
        "settings": settings,
        "theorem_1": rounded(first),
        "theorem_2": rounded(second),
        "theorem_3": rounded(third),
    }


def rounded(value: Any) -> Any:  # noqa: ANN401  # as JSON has it
    """Round every float to six significant digits: the last bits differ between SIMD levels.

    Examples
    --------
    >>> rounded({"a": [0.123456789, 3, "b"]})
    {'a': [0.123457, 3, 'b']}
    """
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
