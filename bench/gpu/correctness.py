"""Is it right: every stage against its oracle, five times over, at every place there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpu.cases import Arrays, Case, WrongAnswerError, all_cases
from gpu.places import Cpu, Emulation, Place

RUNS = 5
# Stages whose header promises the CPU's bits.
CPU_BITS = ("cosine_topk", "inverse_norms", "polarization_scores", "mmr", "threshold_sweep")
STAGES = (*CPU_BITS, "polarization_axis", "rank_candidates", "biasdef_select")


def check(places: Iterable[Place], seed: int, large: bool, also_emulated: bool) -> dict[str, Any]:
    """Run every case at every place; `also_emulated` compares a device's bits with the emulation's.

    The status is "failed" for a wrong answer, one that changes from run to run, an error, or a
    stage without a case.
    """
    places = list(places)
    records = []
    for case in all_cases(np.random.default_rng(seed), large):
        record: dict[str, Any] = {"stage": case.stage, "case": case.name}
        for place in places:
            record[place.name] = _outcome(case, place, also_emulated)
        records.append(record)
    wrong = [
        f"{record['stage']}, {record['case']}, {place.name}: {record[place.name]}"
        for record in records
        for place in places
        if record[place.name] != "right"
    ]
    counted = Counter(record["stage"] for record in records)
    wrong += [f"{stage}: no case" for stage in STAGES if not counted[stage]]
    return {
        "status": "failed" if wrong or not places else "passed",
        "reason": "; ".join(wrong[:5]) if places else "no place to run at",
        "seed": seed,
        "runs": RUNS,
        "cases": dict(counted),
        "wrong": wrong,
        "records": records,
    }


def _outcome(case: Case, place: Place, also_emulated: bool) -> str:
    try:
        with place.active(), _launches() as launches:
            answers = [case.run(place) for _ in range(RUNS)]
        if len(launches) < RUNS:
            raise WrongAnswerError(f"{len(launches)} launches in {RUNS} runs: it ran elsewhere")
        case.judge(answers[0])
        for number, answer in enumerate(answers[1:], 2):
            _require_same(f"run {number} against run 1", answer, answers[0])
        if (
            case.stage in CPU_BITS and case.stage != "cosine_topk"
        ):  # the oracle's bits are the CPU's
            _compare(case, Cpu(), answers[0])
        if also_emulated and not case.large and not isinstance(place, Emulation):
            _compare(case, Emulation(), answers[0])
    except WrongAnswerError as error:
        return f"wrong: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "right"


@contextmanager
def _launches() -> Iterator[list[str]]:
    """Give a list that grows with every launch: a stage without a kernel would run on the CPU."""
    from epibias.device.call import DeviceCall

    made: list[str] = []
    plain = DeviceCall.__init__

    def counted(self: Any, *arguments: Any) -> None:
        made.append(str(arguments[1]))
        plain(self, *arguments)

    DeviceCall.__init__ = counted  # type: ignore[method-assign]
    try:
        yield made
    finally:
        DeviceCall.__init__ = plain  # type: ignore[method-assign]


def _compare(case: Case, place: Place, answer: Arrays) -> None:
    with place.active():
        _require_same(f"bits of the {place.name}", answer, case.run(place))


def _require_same(name: str, got: Arrays, expected: Arrays) -> None:
    equal = len(got) == len(expected) and all(
        left.dtype == right.dtype
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
        for left, right in zip(got, expected, strict=True)
    )
    if not equal:
        raise WrongAnswerError(f"{name}: they differ")
