"""Tables and figures of the defence evaluation, from its results file alone.

In: the report that `defense_frontier.py` writes. Out: Markdown tables, and SVG figures that need no
script. `python bench/defense_figures.py RESULTS.json` prints the tables again; `defense_page.py`
puts them into docs/tilt_bound.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from defense_protocol import FEW, GOAL_LEVELS, LAMBDAS, NEWCOMER_SHARES, POOL
from defense_texts import WRITTEN_BLIND
from epibias.polarization.validity_report import WORKS_ABOVE as WORKS

Report = Mapping[str, Any]
WIDTH, HEIGHT, LEFT, TOP, PLOT = 820, 430, 62, 44, 500
COLOURS = ("#4d4d4d", "#8a6d00", "#0072b2", "#3b8fc4", "#7a5195", "#a8467d", "#c9a227", "#5d8aa8",
           "#b06a9b", "#6b6b00", "#c94f00", "#00795a", "#00a0a0", "#2fa36b")  # fmt: skip
MAIN = ("none", "mmr", "biasdef pca", "biasdef", "biasdef gate .1", "biasdef auto", "biasdef bare",
        "biasdef printed", "grada", "ragdefender", "trustrag", "brra", "smart", "biasdef nli",
        "tilt_bound", "tilt_bound memory", "tilt_bound index", "tilt_bound stale memory",
        "tilt_bound stale index", "tilt_bound version", "tilt_bound version + memory")  # fmt: skip
PARTS = ("tilt_bound", "one echo limit", "tilt_bound memory", "memory, no echo", "memory, no bound",
         "memory, tells no newcomer", "stale memory, tells no newcomer",
         "memory, repeats .98", "tilt_bound version", "version, no echo", "version, no bound",
         "version, any newcomer", "version, no source cap")  # fmt: skip
CURVES: dict[str, tuple[str, ...]] = {
    "no defence": ("none",),
    "MMR, λ = .9 to .3": ("mmr λ=0.9", "mmr λ=0.7", "mmr", "mmr λ=0.3"),
    "BiasDef, gate .01 to none": ("biasdef gate=0.01", "biasdef gate=0.05", "biasdef gate .1",
                                  "biasdef gate=0.2", "biasdef gate=0.5", "biasdef"),
    "BiasDef printed, bare, auto": ("biasdef printed", "biasdef bare", "biasdef auto"),
    "GRADA": ("grada",),
    "RAGDefender": ("ragdefender",),
    "TrustRAG, clusters": ("trustrag",),
    "BRRA": ("brra",),
    "SMART, one pool a level": ("smart",),
    "BiasDef, NLI scores": ("biasdef nli",),
    "TiltBound, removal .02 to .5": ("tilt_bound removal=0.02", "tilt_bound",
                                     *(f"tilt_bound removal={s}" for s in (0.1, 0.2, 0.3, 0.5))),
    "TiltBound, memory": ("tilt_bound memory",),
    "TiltBound, index": ("tilt_bound index",),
    "TiltBound, stale memory, share .01 to .2": tuple(f"tilt_bound stale share={share}"
                                                      for share in NEWCOMER_SHARES),
    "TiltBound, version, share .01 to .2": tuple(f"tilt_bound version share={share}"
                                                 for share in NEWCOMER_SHARES),
}  # fmt: skip
Point = tuple[float, float]


def select(report: Report, **wanted: object) -> list[Mapping[str, Any]]:
    """Rows of the results with these values."""
    return [r for r in report["results"] if all(r[key] == v for key, v in wanted.items())]


def value(
    report: Report,
    metric: str,
    *,
    family: str,
    encoder: str,
    part: str,
    method: str,
    attack: str,
    injected: int = 0,
    pool: int = POOL,
    strength: float = 0.0,
) -> list[float] | None:
    """Mean and interval of one row; None where there is none."""
    key = (family, encoder, part, method, attack, injected, pool, strength)
    row = _index(id(report), report).get(key)
    return None if row is None else row.get(metric)


_INDEXED: dict[int, dict[tuple[Any, ...], Mapping[str, Any]]] = {}


def _index(name: int, report: Report) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Rows by what tells them apart, made once a report."""
    keys = ("family", "encoder", "part", "method", "attack", "injected", "pool", "strength")
    if name not in _INDEXED:
        _INDEXED[name] = {tuple(row[key] for key in keys): row for row in report["results"]}
    return _INDEXED[name]


def cases_of(report: Report) -> list[tuple[str, str, str]]:
    """Family, encoder and part, in the order of the results."""
    keys = [(row["family"], row["encoder"], row["part"]) for row in report["results"]]
    return list(dict.fromkeys(keys))


def tables(report: Report) -> str:
    """Every table, as Markdown."""
    parts = []
    for family, encoder, part in cases_of(report):
        where = {"family": family, "encoder": encoder, "part": part}
        parts += [f"### {family}, {encoder}, {part}\n", _main_table(report, where, MAIN)]
        parts += ["Parts left out:\n", _main_table(report, where, PARTS)]
        parts += ["Other attacks, A-Recall@5 / stance tilt:\n", _attack_table(report, where)]
    parts += ["### Axes: mean AUC of supporting against opposing passages\n", _axis_table(report)]
    parts += ["### Validity\n", _validity_table(report)]
    return "\n".join(parts)


def _main_table(report: Report, where: Mapping[str, str], methods: Sequence[str]) -> str:
    levels = (0, *GOAL_LEVELS)
    head = ["method", "clean loss", *(f"A@5, {n}" for n in GOAL_LEVELS)]
    head += [*(f"tilt, {n}" for n in levels), *(f"stance tilt, {n}" for n in levels)]
    lines = []
    for method in methods:
        cells = [method]
        clean = value(report, "kept", attack="clean", pool=POOL, method=method, **where)
        if clean is None:
            continue
        mean, low, high = clean
        cells.append(_with_ends((1 - mean, 1 - high, 1 - low)))
        cells += [_cell(report, "a_recall", n, method, where, ends=True) for n in GOAL_LEVELS]
        for metric in ("tilt", "stance_tilt"):
            cells += [_cell(report, metric, n, method, where) for n in levels]
        lines.append(cells)
    return _markdown(head, lines) + _pools_without_tilt(report, where)


def _cell(
    report: Report,
    metric: str,
    level: int,
    method: str,
    where: Mapping[str, str],
    *,
    ends: bool = False,
) -> str:
    attack = "ebi" if level else "clean"
    found = value(report, metric, attack=attack, injected=level, pool=POOL, method=method, **where)
    if found is None:
        return ""
    return _with_ends(found) if ends else _short(found[0])


def _with_ends(interval: Sequence[float]) -> str:
    """Mean and 95 % interval over questions."""
    mean, low, high = map(_short, interval)
    return f"{mean} [{low}, {high}]"


def _pools_without_tilt(report: Report, where: Mapping[str, str]) -> str:
    """Say of how few clean pools a tilt is known at all, whatever the defence selects."""
    [clean] = select(report, attack="clean", pool=POOL, method="none", **where)
    known = clean.get("n_known", {})
    if not known:
        return ""
    counts = [
        f"a {name} in {known[metric]} of {clean['n_pools']}"
        for metric, name in (("tilt", "tilt"), ("stance_tilt", "stance tilt"))
        if metric in known
    ]
    return f"\nClean pools with {', '.join(counts)}; the others have none to average.\n"


def _attack_table(report: Report, where: Mapping[str, str]) -> str:
    keys = list(
        dict.fromkeys(
            (row["attack"], row["injected"], row["pool"], row["strength"])
            for row in select(report, **where)
            if row["attack"] != "clean"
        )
    )
    methods = ("none", "biasdef", "tilt_bound", "tilt_bound memory", "tilt_bound version")
    lines = []
    for attack, injected, pool, strength in keys:
        row = {"attack": attack, "injected": injected, "pool": pool, "strength": strength}
        label = f"{attack} {injected}" + (f", pool {pool}" if pool != POOL else "")
        label += f", {strength:g}" if attack in ("adaptive", "blend") else ""
        cells = [label]
        for method in methods:
            share = value(report, "a_recall", method=method, **row, **where)
            tilt = value(report, "stance_tilt", method=method, **row, **where)
            shown = "" if share is None else _short(share[0])
            cells.append(shown + (f" / {_short(tilt[0])}" if tilt else ""))
        lines.append(cells)
    return _markdown(["attack", *methods], lines)


def _axis_table(report: Report) -> str:
    keys = list(dict.fromkeys((r["family"], r["encoder"]) for r in report["axes"]))
    axes = list(dict.fromkeys(r["axis"] for r in report["axes"]))
    lines = []
    for axis in axes:
        cells = [axis]
        for family, encoder in keys:
            rows = [
                row
                for row in report["axes"]
                if (row["family"], row["encoder"]) == (family, encoder) and row["axis"] == axis
            ]
            for metric in ("auc_benign", "auc_adversarial"):
                known = [r[metric] for r in rows if r[metric] is not None]
                cells.append(f"{_short(float(np.mean(known)))} ({len(known)})" if known else "")
        lines.append(cells)
    head = [f"{f} {e}, {kind}" for f, e in keys for kind in ("benign", "adversarial")]
    return _markdown(["axis", *head], lines)


def _validity_table(report: Report) -> str:
    shown = {"encoder": "encoder", "axis": "axis", "family": "questions", "tells": "told by",
             "works_above": "works above", "base_rate": "base rate",
             "discrimination": "discrimination", "threshold": "threshold",
             "precision": "precision", "recall": "recall", "n_topics": "n"}  # fmt: skip
    lines = [
        ["" if row.get(name) is None else str(row[name]) for name in shown]
        for row in report["validity"]
    ]
    return _markdown(list(shown.values()), lines)


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _short(number: float) -> str:
    text = f"{number:.3f}"
    return text[1:] if text.startswith("0") else text.replace("-0.", "−.")


def figures(report: Report) -> dict[str, str]:
    """File name to SVG: frontier and attacker of each family and encoder, held-out part."""
    made = {}
    for family, encoder, part in cases_of(report):
        if part != "held out":
            continue
        where = {"family": family, "encoder": encoder, "part": part}
        frontier = {
            name: [p for method in methods if (p := _frontier_point(report, where, method))]
            for name, methods in CURVES.items()
        }
        levels = _levels(report, where)
        made[f"defense_frontier_{family}_{encoder}.svg"] = chart(
            f"{family}, {encoder}: held-out questions, EBI, mean over {levels} injected",
            "clean loss: share of the clean top 5 that is not selected",
            "A-Recall@5",
            frontier,
        )
        attacker = {
            label: [p for strength in LAMBDAS
                    if (p := _attacker_point(report, where, method, "adaptive", 5, strength))]
            for label, method in (
                ("no defence", "none"), ("BiasDef", "biasdef"), ("TiltBound", "tilt_bound"),
                ("TiltBound, memory", "tilt_bound memory"),
                ("TiltBound, version", "tilt_bound version"),
            )
        }  # fmt: skip
        for label, method in (
            ("memory", "tilt_bound memory"),
            ("stale", "tilt_bound stale memory"),
        ):
            attacker[f"{label}, 1 to 5 stripped"] = [
                p for n in (1, *FEW, 5)
                if (p := _attacker_point(report, where, method, "stripped", n, 0.0))
            ]  # fmt: skip
        if any(attacker.values()):
            made[f"defense_adaptive_{family}_{encoder}.svg"] = chart(
                f"{family}, {encoder}: who knows the defence injects 5, λ = 0 to 8, or few",
                "what the injected passages would do undefended: stance tilt, SD",
                "stance tilt that is left, SD",
                attacker,
            )
    return made


def _levels(report: Report, where: Mapping[str, str]) -> str:
    """Levels that there is a result of: questions with few passages have not all."""
    wanted = {"metric": "a_recall", "attack": "ebi", "pool": POOL, "method": "none"}
    return ", ".join(
        str(n) for n in GOAL_LEVELS if value(report, **wanted, injected=n, **where) is not None
    )


def _frontier_point(report: Report, where: Mapping[str, str], method: str) -> Point | None:
    clean = value(report, "kept", attack="clean", pool=POOL, method=method, **where)
    shares = [value(report, "a_recall", attack="ebi", injected=n, pool=POOL, method=method, **where)
              for n in GOAL_LEVELS]  # fmt: skip
    known = [share[0] for share in shares if share is not None]
    return None if clean is None or not known else (1 - clean[0], float(np.mean(known)))


def _attacker_point(
    report: Report, where: Mapping[str, str], method: str, attack: str, n: int, strength: float
) -> Point | None:
    row = {"attack": attack, "injected": n, "strength": strength, "pool": POOL, **where}
    both = [value(report, "stance_tilt", method=one, **row) for one in ("none", method)]
    return None if both[0] is None or both[1] is None else (both[0][0], both[1][0])


def chart(title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[Point]]) -> str:
    """Points and lines over two linear axes from 0; names beside them."""
    points = [point for one in series.values() for point in one]
    most_x = max([x for x, _ in points] + [0.05]) * 1.05
    most_y = max([y for _, y in points] + [0.05]) * 1.05
    bottom = HEIGHT - 52

    def x_of(value: float) -> float:
        return LEFT + PLOT * value / most_x

    def y_of(value: float) -> float:
        return bottom - (bottom - TOP) * value / most_y

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="12" y="22" font-size="14" font-weight="bold">{escape(title)}</text>',
        *_ticks(most_x, most_y, x_of, y_of, bottom),
        f'<text x="{LEFT}" y="{HEIGHT - 12}">{escape(x_label)}</text>',
        f'<text transform="translate(14 {bottom}) rotate(-90)">{escape(y_label)}</text>',
    ]
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line]
        if len(places) > 1:
            path = " ".join(places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        for place, (x, y) in zip(places, line, strict=True):
            cx, cy = place.split(",")
            hover = f"<title>{escape(name)}: {x:.3f}, {y:.3f}</title>"
            parts.append(f'<circle cx="{cx}" cy="{cy}" r="4" fill="{colour}">{hover}</circle>')
        height = TOP + 10 + 20 * number
        parts.append(f'<circle cx="{LEFT + PLOT + 24}" cy="{height - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + PLOT + 34}" y="{height}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _ticks(
    most_x: float, most_y: float, x_of: Callable[[float], float], y_of: Callable[[float], float],
    bottom: float,
) -> list[str]:  # fmt: skip
    made = []
    for share in range(6):
        x, y = most_x * share / 5, most_y * share / 5
        made.append(f'<line x1="{x_of(x):.1f}" y1="{TOP}" x2="{x_of(x):.1f}" y2="{bottom}" '
                    f'stroke="#ddd"/><text x="{x_of(x):.1f}" y="{bottom + 16}" '
                    f'text-anchor="middle">{x:.2f}</text>')  # fmt: skip
        made.append(f'<line x1="{LEFT}" y1="{y_of(y):.1f}" x2="{LEFT + PLOT}" y2="{y_of(y):.1f}" '
                    f'stroke="#ddd"/><text x="{LEFT - 6}" y="{y_of(y) + 4:.1f}" '
                    f'text-anchor="end">{y:.2f}</text>')  # fmt: skip
    return made


SHORT = ("none", "mmr", "biasdef pca", "biasdef", "biasdef gate .1", "grada", "ragdefender",
         "trustrag", "brra", "smart", "biasdef nli", "tilt_bound", "tilt_bound memory",
         "tilt_bound index", "tilt_bound stale memory", "tilt_bound version")  # fmt: skip


def page(report: Report) -> str:
    """Make the part of docs/tilt_bound.md that comes from the results."""
    parts = []
    for family, encoder, part in cases_of(report):
        if part != "held out":
            continue
        where = {"family": family, "encoder": encoder, "part": part}
        parts += [
            f"**{family}, {encoder}, held-out questions**\n",
            _main_table(report, where, SHORT),
        ]
        image = f"defense_frontier_{family}_{encoder}.svg"
        parts.append(f"![A-Recall against clean loss](images/{image})\n")
        if family == "debates" or family in WRITTEN_BLIND:
            parts += ["Each part left out:\n", _main_table(report, where, PARTS)]
            parts += ["Other attacks, A-Recall@5 / stance tilt:\n", _attack_table(report, where)]
            if _has(report, where, "adaptive"):
                image = f"defense_adaptive_{family}_{encoder}.svg"
                parts.append(f"![The attacker who knows the defence](images/{image})\n")
    parts += ["**Axes**: mean AUC (questions)\n", _axis_table(report)]
    used = [row for row in report["validity"] if row["axis"] == "guided"]
    shown = [row for row in used if row["works_above"] == WORKS]
    told = f"**What tells that the guided axis works** (an AUC of {WORKS} or more)\n"
    parts += [told, _validity_table({"validity": shown})]
    if "cost" in report:
        rows = report["cost"]["rows"]
        lines = [[str(value) for value in row.values()] for row in rows]
        parts += ["**Cost**, median CPU µs a query\n", _markdown(list(rows[0]), lines)]
    return "\n".join(parts)


def _has(report: Report, where: Mapping[str, str], attack: str) -> bool:
    return bool(select(report, attack=attack, **where))


if __name__ == "__main__":
    print(tables(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
