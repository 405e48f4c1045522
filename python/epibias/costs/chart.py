"""Line charts as SVG: readable on light and dark pages, alone or inside a page, without a script.

Owns how a chart looks; which numbers are drawn is the caller's. The palette is that of report.css.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 84, 58
_LEGEND_STEP, _LEGEND_ROW = 170, 18
_LIGHT = ("#0072b2", "#c94f00", "#00795a", "#a8467d", "#8a6d00", "#4d4d4d", "#3b8fc4")
_DARK = ("#56b4e9", "#ff9e4a", "#2fc79b", "#e69ac4", "#f0e442", "#c4c9cf", "#8fb8ff")
_DASHES = ("", "7 4", "", "7 4", "2 3", "", "9 3 2 3")


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Parameters
    ----------
    name : str
        In the legend.
    x, y : sequence of float
        Points, in the order of the line.
    marks : bool
        Whether the points are marked, with their values on hover.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    marks: bool = True


@dataclass(frozen=True)
class LineChart:
    """A chart of lines over two axes.

    Parameters
    ----------
    title, x_label, y_label : str
    series : sequence of Series
        At least one, of at least one point. On a logarithmic axis all values are above 0.
    is_log : bool
        Both axes logarithmic; else both linear from 0.

    Examples
    --------
    >>> chart = LineChart("Time", "passages", "ms", [Series("a", [1, 2], [3, 6])])
    >>> chart.svg().count("<circle")
    2
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    is_log: bool = False

    def svg(self) -> str:
        """Draw the chart."""
        xs = [value for one in self.series for value in one.x]
        ys = [value for one in self.series for value in one.y]
        across = _Axis.over(xs, self.is_log, _LEFT, WIDTH - _RIGHT)
        upward = _Axis.over(ys, self.is_log, HEIGHT - _BOTTOM, _TOP)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'class="chart" role="img" aria-label="{escape(self.title)}">',
            f"<style>{_style()}</style>",
            f'<text class="title" x="12" y="22">{escape(self.title)}</text>',
            *self._grid(across, upward),
        ]
        for number, one in enumerate(self.series):
            parts += _line(one, number % len(_LIGHT), across.place, upward.place)
            parts += _legend(one, number)
        return "\n".join([*parts, "</svg>", ""])

    def _grid(self, across: _Axis, upward: _Axis) -> list[str]:
        bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
        parts = []
        for value in across.ticks:
            x = f"{across.place(value):.1f}"
            parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}"/>')
            parts.append(f'<text x="{x}" y="{bottom + 18}" class="middle">{short(value)}</text>')
        for value in upward.ticks:
            y = upward.place(value)
            parts.append(
                f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" class="end">{short(value)}</text>')
        middle = (_TOP + bottom) / 2
        parts.append(
            f'<text x="{(_LEFT + right) / 2}" y="{HEIGHT - 14}" class="middle">'
            f"{escape(self.x_label)}</text>"
        )
        parts.append(
            f'<text x="18" y="{middle}" class="middle" transform="rotate(-90 18 {middle})">'
            f"{escape(self.y_label)}</text>"
        )
        return parts


@dataclass(frozen=True)
class _Axis:
    """Values to places along one side of the chart."""

    low: float
    high: float
    start: float
    stop: float
    is_log: bool
    ticks: Sequence[float]

    @classmethod
    def over(cls, values: Sequence[float], is_log: bool, start: float, stop: float) -> _Axis:
        if is_log:
            low, high = math.log10(min(values)), math.log10(max(values))
            room = 0.04 * (high - low) or 0.5
            low, high = low - room, high + room
            return cls(low, high, start, stop, True, _log_ticks(low, high))
        step = nice_step(max(max(values), 1e-12) / 5)
        high = step * math.ceil(max(max(values), 1e-12) / step)
        ticks = [step * number for number in range(round(high / step) + 1)]
        return cls(0, high, start, stop, False, ticks)

    def place(self, value: float) -> float:
        on_scale = math.log10(value) if self.is_log else value
        share = (on_scale - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)


def nice_step(size: float) -> float:
    """Give the smallest of 1, 2, 5 times a power of ten that is not below `size`.

    Examples
    --------
    >>> nice_step(0.03), nice_step(700.0)
    (0.05, 1000.0)
    """
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= size * (1 - 1e-9))


def short(value: float) -> str:
    """Write a tick or a value in few characters.

    Examples
    --------
    >>> short(2_000_000), short(0.05), short(1024), short(0)
    ('2M', '0.05', '1024', '0')
    """
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            return f"{value / (1e3 if letter == 'k' else factor):.4g}{letter}"
    return f"{value:.4g}"


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(low), math.ceil(high) + 1)
    factors = (1, 2, 5) if high - low < 2.5 else (1,)
    ticks = [factor * 10.0**power for power in powers for factor in factors]
    return [tick for tick in ticks if low - 1e-9 <= math.log10(tick) <= high + 1e-9]


def _line(
    one: Series, style: int, across: Callable[[float], float], upward: Callable[[float], float]
) -> list[str]:
    places = [(across(x), upward(y)) for x, y in zip(one.x, one.y, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dash = f' stroke-dasharray="{_DASHES[style]}"' if _DASHES[style] else ""
    parts = [f'<polyline class="line c{style}" points="{path}"{dash}/>']
    if one.marks:
        for (x, y), x_value, y_value in zip(places, one.x, one.y, strict=True):
            hover = escape(f"{one.name}: {short(x_value)}, {y_value:.4g}")
            circle = f'<circle class="mark c{style}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            parts.append(f"{circle}<title>{hover}</title></circle>")
    return parts


def _legend(one: Series, number: int) -> list[str]:
    per_row = (WIDTH - _LEFT) // _LEGEND_STEP
    x = _LEFT + number % per_row * _LEGEND_STEP
    y = 44 + number // per_row * _LEGEND_ROW
    style = number % len(_LIGHT)
    dash = f' stroke-dasharray="{_DASHES[style]}"' if _DASHES[style] else ""
    return [
        f'<line class="line c{style}" x1="{x}" x2="{x + 22}" y1="{y}" y2="{y}"{dash}/>',
        f'<text x="{x + 28}" y="{y + 4}">{escape(one.name)}</text>',
    ]


def _style() -> str:
    def colours(palette: Sequence[str]) -> str:
        return "".join(
            f".c{number}{{stroke:{ink};--ink:{ink}}}" for number, ink in enumerate(palette)
        )

    return (
        ".chart text{font:13px system-ui,sans-serif;fill:#1b1f24}.chart .title{font-weight:600}"
        ".chart .middle{text-anchor:middle}.chart .end{text-anchor:end}"
        ".chart .grid{stroke:#d0d7de}.chart .line{fill:none;stroke-width:1.8}"
        ".chart .mark{fill:var(--ink);stroke:none}" + colours(_LIGHT) + "@media "
        "(prefers-color-scheme:dark){.chart text{fill:#e6e9ed}.chart .grid{stroke:#3a414a}"
        + colours(_DARK)
        + "}"
    )
