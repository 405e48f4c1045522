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

if TYPE_CHECKING:
    from epibias.index.reader import IndexReader
    from epibias.index.store import IndexStore


def write_review_page(store: IndexStore, version: str, path: Path | str) -> None:
    """Write the page of a held promotion.

    Parameters
    ----------
    store : IndexStore
    version : str
        Held, accepted or rejected; its files must be there.
    path : path
        Where to; whole or not at all, mode 0600.

    Raises
    ------
    InputError
        A version that is not held.
    MissingExtraError
        Without jinja2.
    """
    jinja2 = extra("epibias index review --html", "jinja2", "report")
    hold = store.held(version)
    staged = store.read_version(hold.version, everything=True)
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
    concerned = [one.query for one in hold.report.findings]
    concerned += [one.query for one in hold.report.review]
    page = template.render(
        css=css,
        hold=hold,
        report=hold.report,
        owners={topic: policy.topic(topic).owner for topic in hold.report.topics},
        queries=[queries[name] for name in dict.fromkeys(concerned) if name in queries],
        drifts={one.query: one for one in hold.report.drifts},
        entries=hold.report.review,
        texts=_texts(staged, hold.report.review, hold.report.findings),
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
    return staged.files.rows.read(rows[rows >= 0])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
