"""A latency document in words, tables and a chart: for the terminal and for latency.html."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epibias.costs.chart import LineChart, Series
from epibias.costs.page import Page, Table, machine
from epibias.costs.stages import AFTER_SEARCH, STAGES

PERCENTILES = ("p50", "p95", "p99")


def latency_page(document: Mapping[str, Any]) -> Page:
    """Give what is shown of a latency run."""
    corpus = document["corpus"]
    return Page(
        title=f"epibias latency: {document['defense']['name']}, k = {document['k']}",
        notices=notes(document),
        facts=[
            ("Corpus", f"{corpus['what']}: {corpus['n_passages']:,} of {corpus['dim']} columns"),
            ("Candidates", f"{document['n_candidates']} a query, {document['k']} selected"),
            ("Scan", document["scan"]),
            ("Encoder", document["encoder"]["name"] or "none"),
            ("Checked before", f"{document['n_checked']} queries, stage by stage"),
            ("Machine", machine(document)),
        ],
        chart=stage_chart(document),
        chart_caption=(
            "Warm time of a query by batch size (p50 of a call, divided by its queries). Select "
            "sweeps too; the sweep alone is a call of its own."
        ),
        tables=tables(document),
    )


def tables(document: Mapping[str, Any]) -> list[Table]:
    """Warm times a call by batch size, then cold ones."""
    missing = {
        "encode": "not measured",
        "sweep": "none" if document["warm"][0]["stages"]["sweep"] is None else "in select",
    }
    columns = ["batch", "", *STAGES, "calls"]
    warm = [
        [str(one["batch"]), name, *_cells(one["stages"], name, missing), _calls(one["stages"])]
        for one in document["warm"]
        for name in PERCENTILES
    ]
    caption = (
        "Total: one pass as deployed (encode, CandidatePool.build, select), which also joins the "
        "candidates with their vectors and checks them. Search, project and sweep: alone. Select "
        "sweeps too, within one call of the core; the sweep alone pays for a call of its own."
    )
    if document["encoding_measured"]:
        caption += " Calls: of the encoder / of the others."
    found = [Table("Warm, ms a call", caption, columns, warm)]
    cold = document["cold"]
    if cold is not None:
        before = ", ".join(f"{name} {s:.2f} s" for name, s in cold["before_the_call_s"].items())
        caption = (
            f"The first call of a fresh process, with the page cache as it is; "
            f"{cold['n_processes']} processes. Before the call, and not in these times: {before} "
            "(medians)."
        )
        rows = [
            ["1", name, *_cells(cold["stages"], name, missing), _calls(cold["stages"])]
            for name in PERCENTILES
        ]
        found.append(Table("Cold, ms a call", caption, columns, rows))
    return found


def notes(document: Mapping[str, Any]) -> list[str]:
    """Say what has to be known of the times, and how they stand to the paper's."""
    stages = document["warm"][0]["stages"]
    size = document["warm"][0]["batch"]
    paper = document["paper"]
    found = [document["encoder"]["note"]]
    if not document["encoding_measured"]:
        found.append("Encoding was not measured; totals are without it.")
    if min(one["stages"]["total"]["n_calls"] for one in document["warm"]) < 100:
        found.append("Of fewer than 100 calls, p99 is nearly the slowest; of one, all agree.")
    with_encoding = "with" if document["encoding_measured"] else "without"
    found.append(
        f"The paper's defence adds {paper['extra_ms']} ms a query ({paper['source']}: "
        f"{paper['note']}). Here, a call of {size}, p50: {stages['total']['p50']:.3g} ms in all "
        f"{with_encoding} encoding, of which {stages[AFTER_SEARCH]['p50']:.3g} ms come after the "
        "search. The two are not measured alike."
    )
    return found


def stage_chart(document: Mapping[str, Any]) -> LineChart:
    """Time of a query by batch size, one line a stage."""
    series = []
    for name in STAGES:
        measured = [one for one in document["warm"] if one["stages"][name] is not None]
        if measured:
            sizes = [one["batch"] for one in measured]
            times = [one["stages"][name]["p50"] / one["batch"] for one in measured]
            series.append(Series(name, sizes, times))
    return LineChart(
        title="Warm time of a query, by stage",
        x_label="queries in a call",
        y_label="ms a query",
        series=series,
        is_log=True,
    )


def _cells(stages: Mapping[str, Any], percentile: str, missing: Mapping[str, str]) -> list[str]:
    return [
        missing[name] if stages[name] is None else milliseconds(stages[name][percentile])
        for name in STAGES
    ]


def milliseconds(value: float) -> str:
    """Write a time.

    Examples
    --------
    >>> milliseconds(0.012345), milliseconds(12.345), milliseconds(12345.6)
    ('0.0123', '12.3', '12,346')
    """
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _calls(stages: Mapping[str, Any]) -> str:
    others = str(stages["select"]["n_calls"])
    return others if stages["encode"] is None else f"{stages['encode']['n_calls']} / {others}"
