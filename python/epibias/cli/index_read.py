"""Commands that look into a governed index and change nothing."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from epibias.cli import options
from epibias.cli.console import guarded, json_text, show_table, write_output
from epibias.cli.index_store import (
    EVERYTHING,
    JSON,
    STORE,
    TENANT,
    VERSION,
    open_store,
    show,
)


@guarded
def versions(store: str = STORE, encoder: str = options.ENCODER, as_json: bool = JSON) -> None:
    """List all versions, also those whose files are gone."""
    opened = open_store(store, encoder)
    pointer = opened.current
    current = None if pointer is None else pointer.version
    found = opened.catalogue.versions()
    if as_json:
        rows = [{**asdict(one), "current": one.id == current} for one in found]
        write_output("-", json_text(rows))
        return
    names = ("version", "state", "passages", "staged", "by", "reason")
    show_table(
        f"Versions of {store}",
        names,
        [
            (
                one.id,
                "current" if one.id == current else one.state,
                one.n_passages,
                one.time[:19],
                one.author,
                one.reason,
            )
            for one in found
        ],
    )


@guarded
def search(
    store: str = STORE,
    query: str = typer.Argument(help="The question."),
    topic: str | None = typer.Option(None, help="Its topic, where you know it."),
    tenant: str | None = TENANT,
    k: int | None = typer.Option(
        None, help="Passages of the context.", show_default="the policy's"
    ),
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Select the context of a question under the policy, and log it."""
    answer = open_store(store, encoder).search(query, topic=topic, tenant=tenant, k=k)
    if as_json:
        write_output("-", json_text(asdict(answer)))
        return
    rows = [(one.passage, one.source, one.tier, one.similarity, one.ps) for one in answer.passages]
    short = "; fewer may answer than were asked for" if answer.short else ""
    caption = f"topic {answer.topic} ({answer.how}), version {answer.version}{short}"
    show_table("Context", ("passage", "source", "tier", "similarity", "PS"), rows, caption)


@guarded
def diff(
    store: str = STORE,
    old: str = VERSION,
    new: str = VERSION,
    tenant: str | None = TENANT,
    everything: bool = EVERYTHING,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Say what came, what left and which pages have a new version."""
    from epibias.index.diff import diff_versions

    opened = open_store(store, encoder)
    first, second = (
        opened.read_version(name, tenant=tenant, everything=everything) for name in (old, new)
    )
    found = diff_versions(first, second)
    lines = [
        *(f"+ {one.passage}  {one.source}  {one.account}" for one in found.added),
        *(f"- {one.passage}  {one.source}  {one.account}" for one in found.removed),
        *(f"~ {one.before} -> {one.passage}  {one.source}  {one.account}" for one in found.changed),
    ]
    show(asdict(found), lines or ["no difference that you may see"], as_json=as_json)


@guarded
def trace(
    store: str = STORE,
    source: str | None = typer.Option(None, help="A source."),
    passage: str | None = typer.Option(None, help="A page."),
    account: str | None = typer.Option(None, help="An account."),
    tenant: str | None = TENANT,
    everything: bool = EVERYTHING,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Trace a source, a page or an account: who brought it, how long live, what it answered."""
    from epibias.index.investigate import investigate

    found = investigate(
        open_store(store, encoder),
        source=source,
        passage=passage,
        account=account,
        tenant=tenant,
        everything=everything,
    )
    if as_json:
        write_output("-", json_text(asdict(found)))
        return
    could = sorted({one["query"] for one in found.could_win})
    lines = [
        *(
            f"brought: {page['passage']} ({page['source']}) by {page['account']}, {line['at'][:19]}"
            for line in found.writes
            for page in line["pages"]
        ),
        *(f"held by: {one['version']} ({one['state']})" for one in found.versions),
        *(f"not known: {name}, whose files are gone" for name in found.unknown),
        *(f"live: {one['from'][:19]} to {(one['until'] or 'now')[:19]}" for one in found.live),
        f"live for {found.live_seconds:.1f} s in all",
        *(f"answer: line {one['line']}, {one['at'][:19]}, {one['topic']}" for one in found.answers),
        f"{len(found.answers)} answers used it",
        f"it could have won: {', '.join(could) or 'no golden query'}",
    ]
    show(None, lines, as_json=False)


@guarded
def log(
    store: str = STORE,
    which: str = typer.Argument(help="writes or retrievals."),
    tenant: str | None = TENANT,
    everything: bool = EVERYTHING,
    encoder: str = options.ENCODER,
) -> None:
    """Print a log, one JSON object a line: the write log is for those who see everything."""
    from epibias import _validate
    from epibias.errors import InputError

    opened = open_store(store, encoder)
    _validate.choice("log", which, ("writes", "retrievals"))
    if which == "writes" and not everything:
        raise InputError("log", "--everything, for writes", "a tenant's view")
    found = opened.catalogue.writes if which == "writes" else opened.retrievals
    texts = [
        json.dumps(vars(line), ensure_ascii=False)
        for line in found.lines()
        if everything or line.body.get("tenant") == tenant
    ]
    write_output("-", "".join(f"{text}\n" for text in texts))


@guarded
def integrity(
    store: str = STORE,
    head: str | None = typer.Option(None, help="NUMBER:HASH of the write log, noted before."),
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Read every file and both logs and compare them with their hashes; exit 1 on a difference."""
    from epibias.errors import InputError
    from epibias.index.integrity import check_store

    noted = None
    if head is not None:
        number, _, digest = head.partition(":")
        if not number.isdigit() or not digest:
            raise InputError("--head", "NUMBER:HASH", repr(head))
        noted = int(number), digest
    opened = open_store(store, encoder)
    found = check_store(opened, noted)
    last = opened.catalogue.writes.head
    lines = [
        *found.problems,
        f"{found.n_versions} versions and {found.n_lines} lines of log read, "
        f"{len(found.problems)} problems",
        f"head of the write log: {last[0]}:{last[1]}",
    ]
    show({**asdict(found), "head": f"{last[0]}:{last[1]}"}, lines, as_json=as_json)
    if found.problems:
        raise typer.Exit(1)
