"""What docs/tilt_bound.md says it reached: every figure from the results file, none typed.

    python bench/defense_page.py            # put the results, and the figures, into the page
    python bench/defense_page.py --check    # exit 1 when the page says something else

In: bench/results/defense_frontier.json, and defense_page.md.j2 with the words. Out: the part of the
page between its marks, and the SVG files beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import defense_figures as figures
from defense_figures import Report, cases_of, value
from defense_protocol import FEW, GOAL_LEVELS, POOL

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "defense_frontier.json"
TEMPLATE = ROOT / "bench" / "defense_page.md.j2"
PAGE = ROOT / "docs" / "tilt_bound.md"
BEGIN, END = "<!-- results: bench/defense_page.py -->", "<!-- end of results -->"
HELD = "held out"
LEVELS = (0, *GOAL_LEVELS)
MOST_RECALL, MOST_LOSS, MOST_TILT, LEAST_AUC, MOST_COST = 0.05, 0.02, 0.10, 0.92, 2.0
USED_AXIS = "guided"
KNOWN = {
    "none": "no defence",
    "tilt_bound": "nothing",
    "tilt_bound memory": "memory",
    "tilt_bound index": "index",
    "tilt_bound stale memory": "stale memory",
    "tilt_bound stale index": "stale index",
    "tilt_bound version": "version",
    "tilt_bound version + memory": "version, stale memory",
}
EPSILON = 5e-5  # of the four decimals that results have


class Quoted:
    """The results' figures, as the page writes them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        held = [(family, encoder) for family, encoder, part in cases_of(report) if part == HELD]
        self.settings = list(dict.fromkeys(held))

    def number(
        self, metric: str, family: str, encoder: str, method: str, attack: str, level: int
    ) -> float | None:
        """One mean over the held-out questions; None where it was not run."""
        found = value(
            self.report, metric, family=family, encoder=encoder, part=HELD, method=method,
            attack=attack if level else "clean", injected=level, pool=POOL,
        )  # fmt: skip
        return None if found is None else found[0]

    def levels(
        self, metric: str, family: str, encoder: str, method: str, attack: str = "ebi"
    ) -> str:
        """Give the values of 1, 5 and 10 injections; tilts begin with 0: ".01/.09/.16"."""
        which = LEVELS if metric.endswith("tilt") else GOAL_LEVELS
        found = [self.number(metric, family, encoder, method, attack, level) for level in which]
        return "/".join(short(one) for one in found if one is not None)

    def few(self, method: str, family: str, encoder: str, attack: str = "ebi") -> str:
        """Give the A-Recall of an attacker who injects no more than pass for honest."""
        found = [self.number("a_recall", family, encoder, method, attack, level) for level in FEW]
        return "/".join(short(one) for one in found if one is not None)

    def encoders(self, family: str) -> list[str]:
        """Give the encoders that a family was run with."""
        return [encoder for own, encoder in self.settings if own == family]

    def questions(self, family: str) -> int:
        """Give how many held-out questions a family has."""
        rows = figures.select(self.report, family=family, part=HELD, method="none", attack="clean")
        return max(row["n_questions"] for row in rows)

    def loss(self, family: str, encoder: str, method: str) -> str:
        """Give the share of the clean top 5 that is lost without an attack."""
        kept = self.number("kept", family, encoder, method, "clean", 0)
        return "" if kept is None else short(1 - kept)

    def least_questions(self) -> int:
        """Give the questions from which on a limit rests on no assumption."""
        return int(np.ceil(2 / self.report["protocol"]["false_removal"] - 1e-9)) - 1

    def touched(self, family: str, encoder: str, method: str = "tilt_bound") -> str:
        """Give the share of clean questions that lose anything, and of how many."""
        found = self.number("touched", family, encoder, method, "clean", 0)
        rows = figures.select(
            self.report, family=family, encoder=encoder, part=HELD, method=method, attack="clean"
        )
        count = rows[0]["n_questions"]
        return "" if found is None else f"{round(found * count)} of {count}"

    def misses(self, family: str, encoder: str, method: str) -> str:
        """Say by how much each goal is missed, or that none is."""

        def over(metric: str, levels: Sequence[int], limit: Callable[[int], float | None]) -> str:
            told = {}
            for level in levels:
                found, most = (
                    self.number(metric, family, encoder, method, "ebi", level),
                    limit(level),
                )
                if found is not None and most is not None and found > most + EPSILON:
                    told[level] = short(found - most)
            return f"{'/'.join(told.values())} at {'/'.join(map(str, told))}" if told else ""

        kept = self.number("kept", family, encoder, method, "clean", 0)
        lost = 0.0 if kept is None else 1 - kept - MOST_LOSS
        missed = {
            "A-Recall": over("a_recall", GOAL_LEVELS, lambda _: MOST_RECALL),
            "loss": short(lost) if lost > EPSILON else "",
            "tilt": over("tilt", LEVELS, lambda _: MOST_TILT),
            "tilt above no defence's": over(
                "tilt", LEVELS, lambda n: self.number("tilt", family, encoder, "none", "ebi", n)
            ),
        }
        return "; ".join(f"{name} {by}" for name, by in missed.items() if by) or "none"

    def goals(self) -> Iterator[list[str]]:
        """Rows of the goals table: a setting, and what is known of the question."""
        for family, encoder in self.settings:
            for method, known in KNOWN.items():
                if self.number("kept", family, encoder, method, "clean", 0) is None:
                    continue
                where = (family, encoder, method)
                cells = [self.levels("a_recall", *where), self.loss(*where)]
                cells += [self.levels("tilt", *where), self.levels("stance_tilt", *where)]
                missed = "" if method == "none" else self.misses(*where)
                yield [f"{family}, {encoder}", known, *cells, missed]

    def worst(self, metric: str, method: str, family: str | None = None) -> str:
        """Give the largest mean over settings and levels."""
        found = [
            self.number(metric, own, encoder, method, "ebi", level)
            for own, encoder in self.settings
            if family in (None, own)
            for level in (LEVELS if metric.endswith("tilt") else GOAL_LEVELS)
        ]
        return short(max(one for one in found if one is not None))

    def auc(self, family: str, encoder: str, axis: str = USED_AXIS) -> str:
        """Give the mean AUC of benign passages for and against, over questions."""
        rows = [
            row["auc_benign"]
            for row in self.report["axes"]
            if (row["family"], row["encoder"], row["axis"]) == (family, encoder, axis)
            and row["auc_benign"] is not None
        ]
        return short(float(np.mean(rows))) if rows else ""

    def with_auc(self) -> list[tuple[str, str]]:
        """Give the settings in which the AUC exists."""
        return [setting for setting in self.settings if self.auc(*setting)]

    def ratios(self) -> str:
        """Give the CPU time of TiltBound over BiasDef's, by queries a call and pool."""
        return ", ".join(
            f"× {row['ratio']:.1f} ({row['n_queries']} at once, pool {row['pool']})"
            for row in self.report["cost"]["rows"]
        )

    def clean_ratios(self) -> str:
        """Give the same where nobody was attacked: least and largest."""
        return self._least_and_largest("ratio, clean") or ""

    def newcomer_ratios(self) -> str:
        """Give the same where every second question has newcomers, as `ratios` does."""
        return ", ".join(f"{row['ratio, newcomers']:.1f}" for row in self.report["cost"]["rows"])

    def index_ratios(self) -> str:
        """Give the same where no question is remembered, but the index is, as `ratios` does."""
        return ", ".join(f"{row['ratio, index']:.1f}" for row in self.report["cost"]["rows"])

    def unknown_ratios(self) -> str:
        """Give the same where nothing is known of any question; older results lack it."""
        found = self._least_and_largest("ratio, unknown")
        return f"× {found}" if found else "more"

    def _least_and_largest(self, name: str) -> str | None:
        found = [row[name] for row in self.report["cost"]["rows"] if name in row]
        return f"{min(found):.1f} to {max(found):.1f}" if found else None

    def pools(self, family: str, encoder: str, method: str) -> str:
        """Give how many held-out pools a method was run on, clean and with EBI."""
        rows = figures.select(
            self.report, family=family, encoder=encoder, part=HELD, method=method, pool=POOL
        )
        found = [row["n_pools"] for row in rows if row["attack"] in ("clean", "ebi")]
        return "/".join(map(str, found))

    def has(self, family: str, encoder: str, method: str, attack: str = "ebi") -> bool:
        """Whether there is a result."""
        found = [self.number("a_recall", family, encoder, method, attack, n) for n in GOAL_LEVELS]
        return any(one is not None for one in found)


def short(number: float) -> str:
    """Two decimals, three below .1, as the tables write them: ".09"."""
    text = f"{number:.3f}" if 0 < abs(number) < 0.0995 else f"{number:.2f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return (text or "0").replace("0.", ".", 1) if text not in ("", "-0") else "0"


def page(report: Report) -> str:
    """Make the part of the page between the marks."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 (Markdown, from our own figures)
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    words = template.render(q=Quoted(report), report=report, short=short)
    return f"{words}\n{figures.page(report)}"


def whole(report: Report, text: str) -> str:
    """Put the results between the marks of the page's text."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{page(report)}\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it differs")
    options = parser.parse_args(arguments)
    report = json.loads(RESULTS.read_text(encoding="utf-8"))
    made = {PAGE: whole(report, PAGE.read_text(encoding="utf-8"))}
    made |= {PAGE.parent / "images" / name: svg for name, svg in figures.figures(report).items()}
    if options.check:
        return int(any(path.read_text(encoding="utf-8") != text for path, text in made.items()))
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
