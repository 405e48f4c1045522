"""A figure as plain data: what is drawn, what the paper says, and why it is empty if it is.

`paper_figures` makes them of a run, `draw` turns them into SVG, the report lists their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from epibias.experiment.paper import FIGURES


@dataclass(frozen=True)
class Series:
    """Means with 95 % intervals, or points, under one name.

    Parameters
    ----------
    name : str
    x : sequence
        Numbers, or the names of bars.
    y : sequence of float or None
        Means; None where there is no value.
    low, high : sequence of float or None
        Ends of the intervals; empty for points.
    """

    name: str
    x: Sequence[Any]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True)
class Figure:
    """One figure.

    Parameters
    ----------
    key : str
        As the paper numbers it: "4a".
    title, caption, x_label, y_label : str
    kind : {"lines", "bars", "points", "steps"}
    series : tuple of Series
    marks : tuple of (label, x, y)
        Values of the paper that can be placed; x None is a line across.
    missing : str
        Why there is nothing to draw; "" where there is.
    arm : str
        Data set, encoder and k; "" for a figure of the whole run.
    facts : tuple of str
        Sentences with the numbers of the figure, intervals included.
    """

    key: str
    title: str
    kind: str
    x_label: str = ""
    y_label: str = ""
    caption: str = ""
    series: tuple[Series, ...] = ()
    marks: tuple[tuple[str, float | None, float], ...] = ()
    missing: str = ""
    arm: str = ""
    facts: tuple[str, ...] = field(default=())

    @property
    def paper(self) -> str:
        """What the paper states of it."""
        return FIGURES[self.key].words if self.key in FIGURES else ""

    def plain(self) -> dict[str, Any]:
        """Give the numbers as JSON can hold them."""
        return {
            "key": self.key,
            "title": self.title,
            "arm": self.arm,
            "missing": self.missing,
            "paper": self.paper,
            "facts": list(self.facts),
            "series": [
                {"name": one.name, "x": list(one.x), "y": list(one.y), "low": list(one.low),
                 "high": list(one.high)}
                for one in self.series
            ],
        }  # fmt: skip
