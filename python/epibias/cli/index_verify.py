"""Commands that attack: a copy of a store, or the shipped wiki in a store of its own."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from epibias.cli import options
from epibias.cli.console import guarded, progress_bar
from epibias.cli.index_store import JSON, STORE, LazyEncoder, open_store, show


@guarded
def verify(
    store: str = STORE,
    attacks: str = typer.Option(
        "templates", help="templates: written from each golden query; opswiki: the shipped ones."
    ),
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Attack a copy of the current version, and see that governance holds; exit 1 if it does not.

    Poison is seeded against every golden query (natural, verbatim, burst): the gate must fire, and
    none of it may be selected for the query. A version that is known to be bad is promoted and
    rolled back; edits by a page's own account must pass. The store itself is only read.
    """
    from epibias import _validate
    from epibias.index.staging_copy import copy_store
    from epibias.index.suite import run_suite

    _validate.choice("attacks", attacks, ("templates", "opswiki"))
    opened = open_store(store, encoder)
    with tempfile.TemporaryDirectory() as made, progress_bar() as progress:
        copy = copy_store(opened, Path(made) / "copy")
        task = progress.add_task("attacking a copy", total=4 * len(opened.golden.queries()))
        shipped = _shipped() if attacks == "opswiki" else None
        checks = run_suite(copy, shipped, lambda: progress.advance(task))
    lines = [
        text
        for one in checks
        for text in (
            f"{'ok ' if one.passed else 'NOT'}  {one.name}: {one.text}",
            *(f"       {failure}" for failure in one.failures),
        )
    ]
    show([asdict(one) for one in checks], lines, as_json=as_json)
    if not all(one.passed for one in checks):
        raise typer.Exit(1)


def _shipped() -> dict[str, dict[str, Any]]:
    from epibias.data_sets import load_opswiki

    found: dict[str, dict[str, Any]] = {}
    for one in load_opswiki().poison:
        found.setdefault(one.target_query_id, {})[one.kind] = one.passage
    return found


@guarded
def replay_case(
    out: str | None = typer.Option(None, help="Keep the store in this folder."),
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Replay the case of a poisoned sign-in page on the shipped wiki; exit 1 if a step fails."""
    from epibias.index.opswiki_case import replay

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "store" if out is None else Path(out)
        steps = replay(folder, LazyEncoder(encoder))
    lines = [f"{'ok ' if one.passed else 'NOT'}  {one.name}: {one.text}" for one in steps]
    show([asdict(one) for one in steps], lines, as_json=as_json)
    if not all(one.passed for one in steps):
        raise typer.Exit(1)
