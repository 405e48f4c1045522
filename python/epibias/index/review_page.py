"""One HTML page for the reviewer of a held promotion: reasons, drift, and the pages side by side.

Holds the texts of the pages concerned, so it is written mode 0600. No script, no network. Needs
jinja2 (extra ``report``).
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epibias import _files
from epibias._validate import extra
from epibias.index.gate_report import ReviewEntry
from epibias.index.report_view import report_for

if TYPE_CHECKING:
    from epibias.index.reader import IndexReader
    from epibias.index.store import IndexStore


def write_review_page(
    store: IndexStore,
    version: str,
    path: Path | str,
    *,
    tenant: str | None = None,
    everything: bool = False,
) -> None:
    """Write the page of a held promotion.

    Parameters
    ----------
    store : IndexStore
    version : str
        Held, accepted or rejected; its files must be there.
    path : path
        Where to; whole or not at all, mode 0600.
    tenant : str, optional
        Whose pages the reviewer may see, beside everybody's.
    everything : bool
        All tenants' pages: for those who govern.

    Raises
    ------
    InputError
        A version that is not held.
    MissingExtraError
        Without jinja2.
    """
    jinja2 = extra("epibias index review --html", "jinja2", "report")
    hold = store.held(version)
    report = report_for(store, hold.report, tenant=tenant, everything=everything)
    staged = store.read_version(hold.version, tenant=tenant, everything=everything)
    policy = store.policy
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    folder = importlib.resources.files("epibias")
    template = environment.from_string(
        (folder / "index" / "review.html.j2").read_text(encoding="utf-8")
    )
    css = (folder / "experiment" / "report.css").read_text(encoding="utf-8")
    queries = {query.id: query for query in store.golden.queries()}
    concerned = [one.query for one in report.findings] + [one.query for one in report.review]
    page = template.render(
        css=css,
        hold=hold,
        report=report,
        owners={one.query: policy.topic(one.topic).owner for one in report.findings},
        queries=[queries[name] for name in dict.fromkeys(concerned) if name in queries],
        drifts={one.query: one for one in report.drifts},
        entries=report.review,
        texts=_texts(staged, report.review, report.findings),
        number=_number,
    )
    _files.write_text(path, page + "\n")


def _texts(
    staged: IndexReader, entries: Sequence[ReviewEntry], findings: Sequence[Any]
) -> list[Any]:
    """Pages of the staged version that came, or that a finding names, each once."""
    names = [name for one in findings for name in one.passages]
    names += [one.passage for one in entries if one.change == "came" and one.passage]
    wanted = list(dict.fromkeys(names))
    rows = staged.files.rows.find(wanted)
    rows = rows[rows >= 0]
    return staged.files.rows.read(rows[staged.visible[rows]])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
