"""docs/tilt_bound.md says what bench/results/defense_frontier.json says."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import defense_page  # noqa: E402


def test_the_page_quotes_the_committed_figures():
    assert defense_page.main(["--check"]) == 0, "run python bench/defense_page.py"


def test_figures_are_short_and_keep_their_sign():
    shown = [defense_page.short(one) for one in (0, 0.05, 0.0975, 0.1, 0.25, 1, -0.03, 2.5)]
    assert shown == ["0", ".05", ".098", ".1", ".25", "1", "-.03", "2.5"]


def test_a_miss_is_told_with_its_level():
    def row(method, attack, injected, **values):
        metrics = {name: [one, one, one] for name, one in values.items()}
        where = {"family": "f", "encoder": "e", "part": "held out", "pool": 20, "strength": 0.0}
        return {**where, "method": method, "attack": attack, "injected": injected, **metrics}

    rows = [
        row("none", "clean", 0, kept=1.0, tilt=0.0),
        row("none", "ebi", 1, a_recall=0.2, tilt=0.3),
    ]
    rows += [
        row("m", "clean", 0, kept=0.95, tilt=0.0),
        row("m", "ebi", 1, a_recall=0.08, tilt=0.35),
    ]
    told = defense_page.Quoted({"results": rows}).misses("f", "e", "m")
    assert told == "A-Recall .03 at 1; loss .03; tilt .25 at 1; tilt above no defence's .05 at 1"
    assert defense_page.Quoted({"results": rows}).misses("f", "e", "none") == (
        "A-Recall .15 at 1; tilt .2 at 1"
    )
