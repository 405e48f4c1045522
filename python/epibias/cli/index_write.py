"""Commands that bring pages, queries and rules into a governed index, and take them out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from epibias.cli import options
from epibias.cli.console import guarded
from epibias.cli.index_store import BY, JSON, REASON, STORE, LazyEncoder, open_store, show
from epibias.errors import InputError


@guarded
def init(
    store: str = STORE,
    policy: str = typer.Option(
        ..., help="TOML file of the policy, or opswiki for the shipped one."
    ),
    sealed: bool = typer.Option(
        False,
        "--sealed",
        help="Encrypt it with the key in EPIBIAS_INDEX_KEY, or in the file EPIBIAS_INDEX_KEY_FILE.",
    ),
    by: str = BY,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Make a store with a policy; nothing is promoted yet."""
    from epibias.index import IndexStore
    from epibias.index.sealing import KEY_FILE_VARIABLE, KEY_VARIABLE, key_from_environment

    key = key_from_environment(store) if sealed else None
    if sealed and key is None:
        raise InputError("--sealed", f"a key in {KEY_VARIABLE} or {KEY_FILE_VARIABLE}", "none")
    IndexStore.create(store, _policy_bytes(policy), LazyEncoder(encoder), by=by, key=key)
    show({"store": store, "sealed": sealed}, [f"store {store}"], as_json=as_json)


@guarded
def new_key(
    file: str = typer.Argument(help="File to write, outside every store; it must not exist."),
    as_json: bool = JSON,
) -> None:
    """Draw a key for sealed stores; who loses it loses every version."""
    from epibias.index.sealing import write_key

    write_key(file)
    show({"key_file": file}, [f"key in {file}"], as_json=as_json)


@guarded
def policy(
    store: str = STORE,
    file: str = typer.Argument(help="TOML file of the policy."),
    by: str = BY,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Put another policy in force."""
    open_store(store, encoder).set_policy(_policy_bytes(file), by=by)
    show({"store": store}, [f"policy of {store} changed"], as_json=as_json)


@guarded
def stage(
    store: str = STORE,
    pages: str | None = typer.Argument(
        None,
        help=(
            "JSONL file: id, text, source, and optionally title, author, time, account, tenant, "
            "replaces (the id of the page of which this is a new version). Or opswiki for the "
            "shipped wiki, opswiki:ID for one of its poisoned pages or legitimate updates."
        ),
    ),
    remove: Annotated[list[str] | None, typer.Option(help="Id of a page that leaves.")] = None,
    by: str = BY,
    reason: str = REASON,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Write a successor of the current version; nobody reads it before it is promoted."""
    additions = [] if pages is None else _additions(pages)
    found = open_store(store, encoder).stage(additions, removals=remove or (), by=by, reason=reason)
    text = f"staged {found.id}: {found.n_passages} passages"
    show(asdict(found), [text], as_json=as_json)


@guarded
def golden(
    store: str = STORE,
    add: str | None = typer.Option(
        None, help="JSONL file: query_id, text, topic, owner, or opswiki for the shipped ones."
    ),
    by: str | None = typer.Option(None, help="Who adds them."),
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """List golden queries and when each baseline was reviewed; exit 1 if one is overdue."""
    opened = open_store(store, encoder)
    if add is not None:
        if by is None:
            raise InputError("--by", "who adds them", "nothing")
        opened.golden.add(_golden_queries(add), opened.policy, by=by)
    late = {query.id for query, _ in opened.golden.expired(opened.policy)}
    baselines = opened.golden.baselines()
    rows: list[dict[str, Any]] = []
    for query in opened.golden.queries():
        known = baselines.get(query.id)
        about = {"query": query.id, "topic": query.topic, "owner": query.owner, "text": query.text}
        reviewed = {"by": known.by, "time": known.time, "version": known.version} if known else None
        rows.append({**about, "reviewed": reviewed, "overdue": query.id in late})
    lines = [
        f"{row['query']}  {row['topic']}  {row['owner']}  "
        f"{row['reviewed']['time'][:10] if row['reviewed'] else 'never reviewed'}"
        f"{'  overdue' if row['overdue'] else ''}"
        for row in rows
    ]
    show(rows, lines, as_json=as_json)
    if late and add is None:
        raise typer.Exit(1)


@guarded
def baseline(
    store: str = STORE,
    topic: str = typer.Argument(help="Topic whose golden queries were reviewed."),
    query: Annotated[
        list[str] | None, typer.Option(help="Golden query of it; all if absent.")
    ] = None,
    by: str = BY,
    reason: str = REASON,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Take what the current version answers as reviewed; for the topic's owner."""
    opened = open_store(store, encoder)
    n = opened.review_baselines(topic, by=by, reason=reason, queries=query)
    show({"topic": topic, "queries": n}, [f"{n} baselines of {topic} reviewed"], as_json=as_json)


@guarded
def elevate(
    store: str = STORE,
    passage: str = typer.Argument(help="Id of a page of the current version."),
    topic: str = typer.Argument(help="Topic that it may answer from now on."),
    tier: int = typer.Option(2, help="Tier that it is ranked with."),
    withdraw: bool = typer.Option(False, "--withdraw", help="Take it back instead."),
    by: str = BY,
    reason: str = REASON,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Let a page, exactly as it is, answer a topic; for the topic's owner, after review."""
    opened = open_store(store, encoder)
    about: dict[str, Any] = {"passage": passage, "topic": topic}
    if withdraw:
        opened.withdraw(passage, topic, by=by, reason=reason)
        show({**about, "withdrawn": True}, [f"{passage} is as it was"], as_json=as_json)
        return
    opened.elevate(passage, topic, tier=tier, by=by, reason=reason)
    text = f"{passage} may answer {topic}, tier {tier}"
    show({**about, "tier": tier}, [text], as_json=as_json)


@guarded
def delete(
    store: str = STORE,
    source: str = typer.Argument(help="Source whose passages must go, from every version."),
    by: str = BY,
    reason: str = REASON,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Delete a source: a successor without it, and the files of every version that held it.

    Blocks on the disk are not overwritten, and backups are yours to see to.
    """
    from epibias.index.lifecycle import delete_source

    proof = delete_source(open_store(store, encoder), source, by=by, reason=reason)
    lines = [
        f"{proof.n_passages} passages of {source} left; current is {proof.version}",
        f"{len(proof.destroyed)} versions destroyed, {len(proof.remaining)} searched in vain",
        f"write log, line {proof.line}: {proof.head}",
    ]
    show(asdict(proof), lines, as_json=as_json)


@guarded
def retire_versions(
    store: str = STORE,
    keep: int = typer.Option(5, help="Versions that stay beside the current one."),
    by: str = BY,
    reason: str = REASON,
    encoder: str = options.ENCODER,
    as_json: bool = JSON,
) -> None:
    """Remove the files of old versions; the catalogue keeps what they were."""
    from epibias.index.lifecycle import retire

    gone = retire(open_store(store, encoder), keep, by=by, reason=reason)
    show(gone, gone or ["nothing to retire"], as_json=as_json)


def _policy_bytes(name: str) -> bytes:
    from epibias.index import opswiki_policy_bytes

    if name == "opswiki":
        return opswiki_policy_bytes()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("policy", "a file that can be read", found, name) from None


def _additions(pages: str) -> list[Any]:
    from epibias.corpus import Corpus

    name, _, page = pages.partition(":")
    if name != "opswiki" or Path(pages).exists():
        return [_addition(one) for one in Corpus.from_jsonl(pages)]
    from epibias.data_sets import load_opswiki
    from epibias.index import Addition

    wiki = load_opswiki()
    if not page:
        return [Addition(one, account=one.author) for one in wiki.pages]
    known = {
        one.passage.id: Addition(one.passage, account=one.passage.author) for one in wiki.poison
    }
    for one in wiki.legitimate_updates:
        known[one.passage.id] = Addition(one.passage, one.replaces, one.passage.author)
    if page not in known:
        expected = "opswiki:ID of a poisoned page or a legitimate update"
        raise InputError("pages", expected, repr(pages))
    return [known[page]]


def _addition(page: Any) -> Any:  # noqa: ANN401  Passage, Addition: imported late
    from dataclasses import replace

    from epibias.index import Addition

    extra = dict(page.extra)
    fields = {name: extra.pop(name, None) for name in ("replaces", "account", "tenant")}
    for name, value in fields.items():
        if value is not None and not isinstance(value, str):
            raise InputError(name, "a text", type(value).__name__, f"passage {page.id!r}")
    return Addition(replace(page, extra=extra), **fields)


def _golden_queries(name: str) -> Any:  # noqa: ANN401  as the data set has them
    from epibias.data_sets import GoldenQuery, load_opswiki
    from epibias.data_sets.rows import read_rows, take

    if name == "opswiki":
        return load_opswiki().golden_queries
    queries = []
    for where, row in read_rows(Path(name)):
        name, text, topic, owner = (
            take(field, row, where) for field in ("query_id", "text", "topic", "owner")
        )
        expected = tuple(row.get("expected_page_ids") or ())
        queries.append(GoldenQuery(name, text, topic, owner, expected))
    return queries
