"""How fast it is: each plan against its floor and against its peers, answers looked at first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu import clocks, plans
from gpu.places import Place, Rehearsal, Torch, on_device

SEED = 20261130


class DisagreementError(Exception):
    """A peer gave another answer, so its time would mean nothing."""


def measure(ceilings: dict[str, Any], seconds_left: Callable[[], float]) -> dict[str, Any]:
    """Time the plans on the device while there are seconds left; the rest is listed as not done."""
    place = on_device()[0]
    clock_of = clocks.torch_clock if isinstance(place, Torch) else clocks.cupy_clock
    clock = clock_of(place.module)  # type: ignore[attr-defined]
    rng = np.random.default_rng(SEED)
    rows: list[dict[str, Any]] = []
    for plan in plans.all_plans(place, place.module, rng, plans.Sizes()):  # type: ignore[attr-defined]
        if seconds_left() < 0:
            rows.append({"stage": plan.stage, "name": plan.name, "not_done": "no time left"})
            continue
        rows.append(timed(place, plan, clock, plan.floor_ms(ceilings)))
        print(line(rows[-1]), flush=True)
    failed = [f"{row['stage']}, {row['name']}: {row['error']}" for row in rows if "error" in row]
    return {
        "status": "failed" if failed else "passed",
        "reason": "; ".join(failed[:3]),
        "place": place.name,
        "rows": rows,
    }


def rehearsal() -> dict[str, Any]:
    """Run every plan at a tiny size on the emulation: all but the times is real.

    torch on the CPU stands in for the peers.
    """
    import torch

    place = Rehearsal(torch)
    rng = np.random.default_rng(SEED)
    with place.active():
        rows = [
            timed(place, plan, clocks.wall_clock, 1.0)
            for plan in plans.all_plans(place, torch, rng, plans.REHEARSAL)
        ]
    failed = [f"{row['stage']}, {row['name']}: {row['error']}" for row in rows if "error" in row]
    return {
        "status": "failed" if failed else "passed",
        "reason": "; ".join(failed[:3]),
        "plans": [f"{row['stage']}, {row['name']}" for row in rows],  # their times mean nothing
        "peers": sum(key.startswith("times_") for row in rows for key in row),
    }


def timed(place: Place, plan: plans.Plan, clock: clocks.Clock, floor_ms: float) -> dict[str, Any]:
    """Time a plan and its peers, once their answers agree."""
    row: dict[str, Any] = {"stage": plan.stage, "name": plan.name, "floor_ms": floor_ms}
    try:
        answer = place.down(plan.ours(*plan.inputs[0]))
        place.wait()
        for_peers = [tuple(map(place.for_peer, arguments)) for arguments in plan.inputs]
        theirs = {name: place.down(peer(*for_peers[0])) for name, peer in plan.peers.items()}
        _require_agreement(plan, answer, theirs)
        row["ours"] = clocks.measured(clock, plan.ours, plan.inputs)
        place.wait()
        row["of_floor"] = floor_ms / row["ours"]["ms"]
        for name, peer in plan.peers.items():
            row[name] = clocks.measured(clock, peer, for_peers)
            row[f"times_{name}"] = row[name]["ms"] / row["ours"]["ms"]
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return row


def _require_agreement(plan: plans.Plan, ours: Any, theirs: dict[str, Any]) -> None:
    for name, answer in theirs.items():
        if plan.agree is None or not plan.agree(ours, answer):
            raise DisagreementError(f"{name} gives another answer")


def line(row: dict[str, Any]) -> str:
    """Give a row of the short table at the end."""
    name = f"{row['stage']}, {row['name']}"
    if "ours" not in row:
        return f"{name}: {row.get('error') or row.get('not_done')}"
    told = f"{row['ours']['ms']:.3f} ms, {100 * row['of_floor']:.0f} % of the floor"
    ratios = [f"{row[key]:.2f} {key.replace('_', ' ')}" for key in row if key.startswith("times_")]
    return ", ".join([f"{name}: {told}", *ratios])
