"""Figures as SVG, drawn by matplotlib (extra `figures`): the same data give the same bytes.

Owns colours, marks and sizes. In: a `Figure`. Out: the text of an SVG, with its title for screen
readers and its text as text.
"""

from __future__ import annotations

import html
import io
import re
from typing import Any

from epibias._validate import extra
from epibias.experiment.figure_data import Figure, Series

WIDTH, HEIGHT = 8.4, 4.2  # inches
# Okabe and Ito's colours, told apart by people who do not see all of them; then again with other
# marks and dashes.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f7f7f")
MARKS, DASHES = "os^Dv", ("-", "--", ":", "-.")
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "epibias",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}
_GREY = "#6b7280"


def svg_of(figure: Figure) -> str:
    """Draw a figure.

    Parameters
    ----------
    figure : Figure
        With something to draw: one whose `missing` is empty.

    Returns
    -------
    str
        An `<svg>` element.

    Examples
    --------
    >>> figure = Figure("7", "CDF", "steps", series=(Series("BiasDef", [0, 1], [0.7, 1.0]),))
    >>> svg_of(figure)[:4], svg_of(figure) == svg_of(figure)
    ('<svg', True)
    """
    matplotlib = extra("figures", "matplotlib", "figures")
    drawing = extra("figures", "matplotlib.figure", "figures")
    with matplotlib.rc_context(_SETTINGS):
        page = drawing.Figure(figsize=(WIDTH, HEIGHT))
        axes = page.add_subplot()
        {"lines": _lines, "bars": _bars, "points": _points, "steps": _steps}[figure.kind](
            axes, figure
        )
        for label, x, y in figure.marks:
            if x is None:
                axes.axhline(y, color=_GREY, linestyle=(0, (1, 2)), linewidth=1.2, label=label)
            else:
                axes.plot([x], [y], "*", color=_GREY, markersize=11, label=label, zorder=5)
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(figure.y_label)
        axes.grid(visible=True, axis="y", linewidth=0.4, color="#d1d5db")
        axes.set_axisbelow(True)
        handles, labels = axes.get_legend_handles_labels()
        if len(labels) > 1:
            page.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=7.5)
        stream = io.StringIO()
        page.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return _embedded(stream.getvalue(), figure)


def _embedded(text: str, figure: Figure) -> str:
    """Cut the prolog off, name the picture, and keep its ids apart from those of others."""
    body = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    label = html.escape(f"Figure {figure.key}: {figure.title}. {figure.arm}".strip(), quote=True)
    body = body.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    prefix = "f" + re.sub(r"\W", "", f"{figure.key}{figure.arm}")
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", body).strip() + "\n"


def _style(number: int) -> dict[str, Any]:
    turn = number // len(COLOURS)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKS[(number + turn) % len(MARKS)],
        "linestyle": DASHES[turn % len(DASHES)],
        "label": None,
    }


def _known(one: Series) -> list[int]:
    return [place for place, y in enumerate(one.y) if y is not None]


def _errors(one: Series, places: list[int]) -> list[list[float]] | None:
    """Lengths of the error bars; 0 where an end is not known."""
    if not one.low:
        return None
    lengths: list[list[float]] = [[], []]
    for place in places:
        mean, low, high = one.y[place], one.low[place], one.high[place]
        is_known = mean is not None and low is not None and high is not None
        lengths[0].append(max(mean - low, 0.0) if is_known else 0.0)  # type: ignore[operator]
        lengths[1].append(max(high - mean, 0.0) if is_known else 0.0)  # type: ignore[operator]
    return lengths


def _lines(axes: Any, figure: Figure) -> None:  # noqa: ANN401
    names = list(figure.series[0].x)
    for number, one in enumerate(figure.series):
        places = _known(one)
        style = {**_style(number), "label": one.name}
        # Beside each other by a hair, so that equal lines and their intervals can all be seen.
        shift = 0.03 * (number - (len(figure.series) - 1) / 2)
        axes.errorbar(
            [place + shift for place in places],
            [one.y[place] for place in places],
            yerr=_errors(one, places),
            markersize=4,
            linewidth=1.3,
            elinewidth=0.8,
            capsize=1.5,
            **style,
        )
    axes.set_xticks(range(len(names)), [str(name) for name in names])
    if figure.key == "4c":  # a ratio: without a defence it is a hundred times that of others
        axes.set_yscale("symlog", linthresh=1)


def _bars(axes: Any, figure: Figure) -> None:  # noqa: ANN401
    names = list(figure.series[0].x)
    width = 0.8 / len(figure.series)
    for number, one in enumerate(figure.series):
        places = _known(one)
        shift = width * (number - (len(figure.series) - 1) / 2)
        axes.bar(
            [place + shift for place in places],
            [one.y[place] for place in places],
            width,
            yerr=_errors(one, places),
            color=COLOURS[number % len(COLOURS)],
            error_kw={"elinewidth": 0.8, "capsize": 1.5},
            label=one.name,
        )
    turned = {"rotation": 35, "ha": "right"} if len(names) > 4 else {}
    axes.set_xticks(range(len(names)), [str(name) for name in names], **turned)


def _points(axes: Any, figure: Figure) -> None:  # noqa: ANN401
    for number, one in enumerate(figure.series):
        style = _style(number)
        # Stances are whole numbers: the series stand beside each other.
        shift = 0.12 * (number - (len(figure.series) - 1) / 2) if figure.key == "2a" else 0.0
        axes.scatter(
            [x + shift for x in one.x], one.y, s=9, alpha=0.6, linewidths=0, color=style["color"],
            marker=style["marker"], label=one.name,
        )  # fmt: skip


def _steps(axes: Any, figure: Figure) -> None:  # noqa: ANN401
    for number, one in enumerate(figure.series):
        style = {**_style(number), "label": one.name, "markersize": 3}
        axes.step(list(one.x), list(one.y), where="post", **style)
    axes.set_ylim(0, 1.03)
