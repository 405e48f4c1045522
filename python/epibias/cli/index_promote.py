"""Commands that move the pointer of a governed index, or decide not to."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epibias.cli import options
from epibias.cli.console import guarded, json_text, write_output
from epibias.cli.index_store import (
    BY,
    EVERYTHING,
    JSON,
    REASON,
    STORE,
    TENANT,
    VERSION,
    open_store,
    show,
    show_report,
)
from epibias.cli.streams import say

if TYPE_CHECKING:
    from epibias.index import GateReport, IndexStore
    from epibias.index.records import Hold


@guarded
def check(
    store: str = STORE,
    version: str = VERSION,
    tenant: str | None = TENANT,
    everything: bool = EVERYTHING,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Run the gate on a staged version and change nothing; exit 1 if it would be held."""
    opened = open_store(store, encoder)
    report = opened.check(version)
    if report is None:
        show(None, ["the first version: nothing to compare it with"], as_json=as_json)
        return
    report = _seen(opened, report, tenant, everything)
    if as_json:
        write_output("-", json_text(json.loads(report.to_json())))
    else:
        show_report(report, with_review=True)
    if report.fired:
        raise typer.Exit(1)


@guarded
def promote(
    store: str = STORE,
    version: str = VERSION,
    by: str = BY,
    reason: str = REASON,
    tenant: str | None = TENANT,
    everything: bool = EVERYTHING,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Make a staged version current if the gate lets it; else hold it, and exit 1."""
    opened = open_store(store, encoder)
    outcome = opened.promote(version, by=by, reason=reason)
    report = None
    if outcome.report is not None:
        report = _seen(opened, outcome.report, tenant, everything)
    if as_json:
        done = None if outcome.promotion is None else asdict(outcome.promotion)
        found = None if report is None else json.loads(report.to_json())
        write_output("-", json_text({"promotion": done, "report": found}))
    elif outcome.promotion is not None:
        show(None, [f"current is {outcome.promotion.version}"], as_json=False)
    elif report is not None:
        show_report(report, with_review=False)
        say(f"epibias: held for the owners of {', '.join(report.topics)}")
    if outcome.held:
        raise typer.Exit(1)


@guarded
def review(
    store: str = STORE,
    version: str = VERSION,
    html: str | None = typer.Option(None, help="Also write a page with the texts to this file."),
    tenant: str | None = TENANT,
    everything: bool = EVERYTHING,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Show a held promotion: what left, what came, from whom, when, similarity, PS, p-value."""
    opened = open_store(store, encoder)
    hold = opened.held(version)
    if html is not None:
        from epibias.index.review_page import write_review_page

        write_review_page(opened, version, html, tenant=tenant, everything=everything)
    report = _seen(opened, hold.report, tenant, everything)
    if as_json:
        write_output("-", json_text({**_state(hold), "report": json.loads(report.to_json())}))
        return
    show_report(report, with_review=True)
    waiting = f", waiting for {', '.join(hold.waiting)}" if hold.waiting else ""
    show(None, [f"{hold.version}: {hold.state}{waiting}"], as_json=False)


@guarded
def accept(
    store: str = STORE,
    version: str = VERSION,
    query: Annotated[
        list[str] | None, typer.Option(help="Golden query; all that you own if absent.")
    ] = None,
    by: str = BY,
    reason: str = REASON,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Accept a held promotion for golden queries that you own; the last one promotes it."""
    hold = open_store(store, encoder).accept(version, by=by, reason=reason, queries=query)
    text = (
        f"waiting for {', '.join(hold.waiting)}" if hold.waiting else f"current is {hold.version}"
    )
    show(_state(hold), [text], as_json=as_json)


@guarded
def reject(
    store: str = STORE,
    version: str = VERSION,
    by: str = BY,
    reason: str = REASON,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Reject a held promotion, for good; for the owner of a topic concerned."""
    open_store(store, encoder).reject(version, by=by, reason=reason)
    show({"rejected": version}, [f"{version} is rejected"], as_json=as_json)


@guarded
def rollback(
    store: str = STORE,
    to: str | None = typer.Option(None, help="Version; the one before the current if absent."),
    by: str = BY,
    reason: str = REASON,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Make a version current again that was so before."""
    opened = open_store(store, encoder)
    started = time.perf_counter()
    done = opened.rollback(to, by=by, reason=reason)
    milliseconds = (time.perf_counter() - started) * 1e3
    text = f"current is {done.version}, after {milliseconds:.1f} ms"
    show({**asdict(done), "milliseconds": milliseconds}, [text], as_json=as_json)


def _seen(
    store: IndexStore, report: GateReport, tenant: str | None, everything: bool
) -> GateReport:
    from epibias.index.report_view import report_for

    return report_for(store, report, tenant=tenant, everything=everything)


def _state(hold: Hold) -> dict[str, Any]:
    """Say in JSON how far a held promotion has come."""
    return {"state": hold.state, "accepted": dict(hold.accepted), "waiting": hold.waiting}
