"""What a governed index withstood (README) and costs (docs/index.md), from `acceptance.json`."""

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


def costs(results: dict[str, Any] | None) -> str:
    """Give the table of a large store's costs, or say that they were not measured."""
    drift = (results or {}).get("index_drift")
    if drift is None:
        return "Not measured yet: index_drift (`bench/results/acceptance.json`)."
    parts = [
        [name, figure(seconds), figure(drift["processor_seconds"][name])]
        for name, seconds in drift["wall_seconds"].items()
    ]
    passages = f"{drift['n_passages']:,} passages, {len(drift['drift'])} golden queries"
    return f"{markdown([passages, 's', 'processor, s'], parts)}\n\nCommit {drift['commit'][:12]}."


def table(results: dict[str, Any] | None) -> str:
    """Give the table, or say what is missing for it."""
    missing = [name for name in CHECKS if name not in (results or {})]
    if missing or results is None:
        return f"Not measured yet: {', '.join(missing)} (`bench/results/acceptance.json`)."
    commits = sorted({results[name]["commit"][:12] for name in CHECKS})
    command = f"python bench/acceptance.py {' '.join(CHECKS)}"
    note = f"Commit {', '.join(commits)}; `{command}`."
    return f"{markdown(['', ''], lines(results))}\n\n{note}"
