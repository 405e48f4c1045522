"""What the commands of `epibias index` share: options, the store, and how a result is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from epibias.cli.console import console, json_text, show_table, write_output

if TYPE_CHECKING:
    from epibias._validate import Float32Array
    from epibias.encoder import SentenceTransformerEncoder
    from epibias.index import GateReport, IndexStore

STORE: Any = typer.Argument(help="Folder of the store.")
VERSION: Any = typer.Argument(help="Id or number of a version.")
BY: Any = typer.Option(..., help="Who does it: an account, a team, an owner.")
REASON: Any = typer.Option(..., help="Why; it is logged.")
JSON: Any = typer.Option(False, "--json", help="One JSON document instead of a table.")
TENANT: Any = typer.Option(None, help="Whose passages may be seen, beside everybody's.")
EVERYTHING: Any = typer.Option(False, "--everything", help="All tenants' passages: to govern.")


class LazyEncoder:
    """An encoder that is loaded when something must be encoded: most commands need none."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loaded: SentenceTransformerEncoder | None = None

    @property
    def identity(self) -> Mapping[str, object]:
        """Identity of the encoder, as embeddings are kept under it."""
        return self._load().identity

    def encode(self, texts: list[str]) -> Float32Array:
        """Embed passages."""
        return self._load().encode(texts)

    def encode_passages(self, texts: list[str]) -> Float32Array:
        """Embed passages."""
        return self._load().encode_passages(texts)

    def encode_queries(self, texts: list[str]) -> Float32Array:
        """Embed queries."""
        return self._load().encode_queries(texts)

    def _load(self) -> SentenceTransformerEncoder:
        if self._loaded is None:
            from epibias.cli.demo_encoder import load_encoder

            self._loaded = load_encoder(self._name)
        return self._loaded


def open_store(folder: str, encoder: str) -> IndexStore:
    """Open a store with an encoder that is loaded when it is needed."""
    from epibias.index import IndexStore

    return IndexStore(folder, LazyEncoder(encoder))


def show(value: Any, lines: Iterable[str], *, as_json: bool) -> None:  # noqa: ANN401
    """Show a result: as JSON, or as lines for people."""
    if as_json:
        write_output("-", json_text(value))
    else:
        write_output("-", "".join(f"{line}\n" for line in lines))


def show_report(report: GateReport, *, with_review: bool) -> None:
    """Show what the gate found."""
    shown = [(one.kind, one.query, one.topic, one.text) for one in report.findings]
    caption = (
        f"{report.n_new} new or changed pages, {report.n_tested} of them in the pool of a golden "
        "query"
    )
    title = f"Findings: {report.version} against {report.trusted}"
    show_table(title, ("kind", "query", "topic", "what"), shown, caption)
    drifted = [one for one in report.drifts if one.drift or one.raw_drift]
    rows = [(one.query, one.topic, f"{one.drift:.0%}", f"{one.raw_drift:.0%}") for one in drifted]
    show_table("Drift", ("query", "topic", "selected", "raw"), rows)
    if with_review:
        entries = [
            (
                one.query,
                f"{one.change} ({one.answer})",
                one.passage or one.lineage,
                one.source,
                one.tier,
                one.account,
                one.time,
                one.similarity,
                one.ps,
                one.p_challenge,
            )
            for one in report.review
        ]
        names = ("query", "change", "page", "source", "tier", "account", "time", "sim", "PS", "p")
        show_table("To review", names, entries)
    for note in report.notes:
        console().print(f"note: {note}", markup=False)
