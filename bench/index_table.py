"""README's table of what a governed index withstood, from `acceptance.json`; for tables.py."""

from __future__ import annotations

from typing import Any

from stage_tables import figure, markdown

CHECKS = ("index_false_alarms", "index_kills", "index_readers", "index_drift")


def percent(rate: dict[str, Any]) -> str:
    """Give a rate of counts with its 95 % interval."""
    low, high = 100 * rate["low"], 100 * rate["high"]
    return f"{rate['n']} of {rate['of']} (95 % interval {low:.1f} to {high:.1f} %)"


def lines(results: dict[str, Any]) -> list[list[str]]:
    """Give the table's lines."""
    alarms, kills, readers, drift = (results[name] for name in CHECKS)
    queries = alarms["attacked_queries"]
    held = ", ".join(f"{kind} {n}" for kind, n in alarms["attacks_held"].items())
    return [
        [f"attacks held, of {queries} attacked queries", held],
        ["legitimate updates held", percent(alarms["updates_held"])],
        [
            "honest pages held, each left out and taken for new",
            f"{percent(alarms['held'])}; stated rate {100 * alarms['rate_stated']:g} %",
        ],
        [
            f"writers killed at random moments: {kills['kills']}",
            f"{kills['acknowledged']:,} acknowledged writes, {len(kills['problems'])} lost or torn",
        ],
        [
            f"{readers['readers']} readers while the pointer moved {readers['promotions']:,} times",
            f"{sum(readers['n_read']):,} reads, {len(readers['mixed'])} of a mixed version",
        ],
        [
            f"drift of {len(drift['drift'])} golden queries on {drift['n_passages']:,} passages",
            f"{figure(drift['wall_seconds']['drift'])} s",
        ],
    ]


def table(results: dict[str, Any] | None) -> str:
    """Give the table, or say what is missing for it."""
    missing = [name for name in CHECKS if name not in (results or {})]
    if missing or results is None:
        return f"Not measured yet: {', '.join(missing)} (`bench/results/acceptance.json`)."
    commits = sorted({results[name]["commit"][:12] for name in CHECKS})
    command = f"python bench/acceptance.py {' '.join(CHECKS)}"
    note = f"Commit {', '.join(commits)}; `{command}`."
    return f"{markdown(['', ''], lines(results))}\n\n{note}"
