"""A stress document in words, tables and a chart: for the terminal and for stress.html."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epibias.costs.chart import LineChart, Series
from epibias.costs.page import Page, Table, machine
from epibias.costs.sizes import size_text

PHASES = {
    "corpus": "writing or opening the corpus",
    "index": "preparing the index",
    "search": "searching",
    "check": "checking against float64",
}


def stress_page(document: Mapping[str, Any]) -> Page:
    """Give what is shown of a stress run."""
    plan, corpus, index = document["plan"], document["corpus"], document["index"]
    return Page(
        title=f"epibias stress: {corpus['n_passages']:,} passages of {corpus['dim']} columns",
        notices=verdict_lines(document),
        facts=[
            ("Corpus", f"{corpus['source']}, {size_text(corpus['bytes'])} on disk"),
            ("Written", _written(corpus)),
            ("Index", f"{index['scan']} in {index['seconds']:.1f} s, {_index_size(index)}"),
            ("k", str(plan["k"])),
            ("Whole run", f"{document['seconds']:.0f} s"),
            ("Machine", machine(document)),
        ],
        chart=cost_chart(document),
        chart_caption=(
            "Time of one query, one a call: the fastest of its rounds, mean over queries. The "
            "dashed line is proportional to the number of passages."
        ),
        tables=[points_table(document), memory_table(document)],
    )


def verdict_lines(document: Mapping[str, Any]) -> list[str]:
    """Say in one line each what was checked and what came out."""
    plan, verdicts = document["plan"], document["verdicts"]
    exact, line = document["exactness"], document["linearity"]
    peak, largest = document["memory"]["peak_anonymous"], line["largest_deviation"]
    lines = [
        f"exact: {verdicts['exact']}; {exact['n_wrong']} of {exact['n_answers']} answers differ "
        f"from float64 ({exact['n_queries']} queries at {exact['n_points']} sizes in batches, "
        f"{exact['n_single']} of them also alone)"
    ]
    if exact["first"] is not None:
        first = exact["first"]
        lines.append(
            f"first wrong answer: query {first['query']} at {first['n_passages']} passages: "
            f"expected {_few(first['expected'])}, got {_few(first['got'])}"
        )
    held = "not measured on this system" if peak is None else size_text(peak)
    limit = "" if plan["memory_limit"] is None else f" of {size_text(plan['memory_limit'])}"
    lines.append(f"memory: {verdicts['memory']}; anonymous at most {held}{limit}")
    if largest is None:
        lines.append(f"linear: {verdicts['linear']}; one size tells nothing")
    else:
        asked = plan["linear_within"]
        claim = "" if asked is None else f", asked: {100 * asked:.3g} %"
        lines.append(
            f"linear: {verdicts['linear']}; {line['ns_per_passage']:.3g} ns a passage, largest "
            f"deviation {100 * largest:.0f} %{claim}"
        )
    return lines


def points_table(document: Mapping[str, Any]) -> Table:
    """Time of a query at every number of passages."""
    points, deviations = document["points"], document["linearity"]["deviations"]
    n_checked = document["plan"]["n_check"]
    rows = [
        [
            f"{point['n_passages']:,}",
            str(point["scan"]),
            f"{point['ms']:.3g}",
            f"{point['cpu_ms']:.3g}",
            f"{point['p50_ms']:.3g}",
            f"{point['p95_ms']:.3g}",
            f"{100 * deviation:+.0f} %",
            f"{point['batch_queries_per_second']:,.0f}",
            str(point["batch_scan"]),
        ]
        for point, deviation in zip(points, deviations, strict=True)
    ]
    columns = [
        "passages", "scan", "ms a query", "CPU ms", "p50 ms", "p95 ms", "from linear",
        f"queries/s, {n_checked} a call", "scan",
    ]  # fmt: skip
    caption = (
        f"ms and CPU ms: the fastest of {document['plan']['rounds']} rounds of each query, mean "
        "over queries; p50 and p95: of all calls. Warm: each was searched before."
    )
    return Table("Time of a query", caption, columns, rows)


def memory_table(document: Mapping[str, Any]) -> Table:
    """Largest memory of each phase."""
    rows = []
    for name, phase in document["memory"]["phases"].items():
        cells = ["not measured"] * 3
        if phase is not None:
            cells = [size_text(phase[key]) for key in ("anonymous", "file_mapped", "shared")]
        rows.append([PHASES[name], *cells])
    columns = ["while", "anonymous", "file-mapped", "shared"]
    caption = (
        "Largest resident memory, sampled every 10 ms, interpreter and libraries included. Pages "
        "of mapped files belong to the page cache: the system takes them back when it needs them."
    )
    return Table("Memory", caption, columns, rows)


def cost_chart(document: Mapping[str, Any]) -> LineChart:
    """Time of a query against the number of passages, with the line through the origin."""
    sizes = [point["n_passages"] for point in document["points"]]
    slope = document["linearity"]["ns_per_passage"] / 1e6
    largest = sizes[-1]
    return LineChart(
        title="Time of a query against the number of passages",
        x_label="passages",
        y_label="ms a query",
        series=[
            Series("measured", sizes, [point["ms"] for point in document["points"]]),
            Series("proportional", [0, largest], [0, slope * largest], marks=False),
        ],
    )


def _written(corpus: Mapping[str, Any]) -> str:
    n_new = corpus["n_passages"] - corpus["n_before"]
    if n_new == 0:
        return "was there already"
    rate = n_new * corpus["dim"] * 4 / corpus["seconds"]
    before = f", {corpus['n_before']:,} passages were there" if corpus["n_before"] else ""
    return f"in {corpus['seconds']:.1f} s ({size_text(rate)}/s){before}"


def _index_size(index: Mapping[str, Any]) -> str:
    return size_text(index["bytes_beside_the_embeddings"])


def _few(rows: list[int]) -> str:
    return f"{rows[:5]}…" if len(rows) > 5 else str(rows)
