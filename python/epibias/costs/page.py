"""What a measurement leaves in a folder: JSON with every number, the chart as SVG, an HTML page.

The page is one file without a script; it opens from disk without a network.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epibias import _files
from epibias._validate import extra
from epibias.costs.chart import LineChart
from epibias.errors import InputError
from epibias.experiment.manifest import importlib_version


@dataclass(frozen=True)
class Table:
    """A table of a page or of a terminal: texts only.

    Parameters
    ----------
    title, caption : str
    columns : sequence of str
    rows : sequence of sequences of str
        As long as `columns`.
    """

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """What is shown of a document of measurements.

    Parameters
    ----------
    title : str
    notices : sequence of str
        What has to be known before a number is read.
    facts : sequence of pairs of str
    chart : LineChart
    chart_caption : str
    tables : sequence of Table
    more_charts : sequence of (str, LineChart, str)
        Name of the file after that of the document, chart, caption; drawn below the first.
    """

    title: str
    notices: Sequence[str]
    facts: Sequence[tuple[str, str]]
    chart: LineChart
    chart_caption: str
    tables: Sequence[Table]
    more_charts: Sequence[tuple[str, LineChart, str]] = ()


def check_out(folder: Path, name: str, made_by: str | None = None) -> None:
    """Refuse, before any work, a folder that cannot take the files, or has others of these names.

    Parameters
    ----------
    folder : Path
    name : str
        Of the files, and of the command that makes them: `latency`, `stress`.
    made_by : str, optional
        The command, where it is not `epibias` and that name.

    Raises
    ------
    MissingExtraError
        The package that writes pages is not installed.
    InputError
        A file in place of the folder; files of these names that the command did not write.
    """
    command = made_by or f"epibias {name}"
    extra(f"{command} --out", "jinja2", "report")
    if folder.exists() and not folder.is_dir():
        raise InputError("--out", "a folder", "a file", str(folder))
    paths = [folder / f"{name}.{ending}" for ending in ("json", "svg", "html")]
    there = [path for path in paths if path.exists() or path.is_symlink()]
    if there and not _is_ours(paths[0], command):
        found = f"{there[0].name!r}, and no {name}.json of {command}"
        raise InputError("--out", "a folder without such files", found, str(folder))


def write_out(folder: Path, name: str, document: Mapping[str, Any], page: Page) -> None:
    """Write the three files, each whole or not at all; those of an earlier run are replaced.

    Raises
    ------
    MissingExtraError
        The package that writes pages is not installed.
    InputError
        A folder or file that cannot be written, a full disk.
    """
    jinja2 = extra(f"{document['made_by']} --out", "jinja2", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_asset("epibias.costs", "page.html.j2"))
    svg = page.chart.svg()
    more = [(name_after, chart.svg(), caption) for name_after, chart, caption in page.more_charts]
    html = template.render(
        title=page.title,
        notices=page.notices,
        facts=page.facts,
        tables=page.tables,
        chart=svg,
        chart_caption=page.chart_caption,
        more_charts=more,
        made_by=document["made_by"],
        started=document["started"].replace("T", " "),
        commit=document["environment"]["commit"],
        version=importlib_version("epibias") or "(not installed)",
        css=_asset("epibias.experiment", "report.css"),
    )
    _files.make_folder(folder)
    _files.write_json(folder / f"{name}.json", document)
    _files.write_text(folder / f"{name}.svg", svg)
    for name_after, drawn, _ in more:
        _files.write_text(folder / f"{name}-{name_after}.svg", drawn)
    _files.write_text(folder / f"{name}.html", html)


def machine(document: Mapping[str, Any]) -> str:
    """Name the machine in a line."""
    found = document["environment"]
    backend = found["backend"]
    return (
        f"{found['processor']}, {document['n_threads']} of {found['n_cpus']} CPUs, "
        f"{backend['simd_level']}"
    )


def _is_ours(path: Path, command: str) -> bool:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("made_by") == command


def _asset(package: str, name: str) -> str:
    return (importlib.resources.files(package) / name).read_text(encoding="utf-8")
