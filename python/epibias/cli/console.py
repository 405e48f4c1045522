"""What every command does with messages, errors, progress and output.

Results go to stdout, everything said about them to stderr (`streams` has both). Vectors are never
printed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress

from epibias import _files
from epibias.cli.streams import open_stdout, say, told, write_stdout
from epibias.encoder.progress import rich_bar
from epibias.errors import (
    CalibrationWarning,
    InputError,
    TornRecordWarning,
    TruncationWarning,
    ValidityWarning,
)

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from epibias.costs.page import Table

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

WIDTH = 130
# Those of the library; each is shown as one line.
TOLD = (CalibrationWarning, ValidityWarning, TruncationWarning, TornRecordWarning)


def guarded(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turn what a caller can put right into one line on stderr and the exit code for it."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            with _plain_warnings():
                return command(*args, **kwargs)
        except (InputError, OSError, KeyboardInterrupt) as error:
            raise typer.Exit(told(error)) from None

    return run


def console(*, to_stderr: bool = False) -> Console:
    """Return a console for people, on stdout or stderr."""
    if not to_stderr:
        open_stdout()
    found = Console(stderr=to_stderr, highlight=False)
    if not found.is_terminal:
        found.width = WIDTH  # a file or a pipe has no width of its own
    return found


def rich_table(table: Table) -> RichTable:
    """Lay out a table of a measurement for the terminal."""
    from rich.table import Table as RichTable
    from rich.text import Text

    found = RichTable(
        title=Text(table.title),
        caption=Text(table.caption),
        title_justify="left",
        caption_justify="left",
    )
    for number, column in enumerate(table.columns):
        found.add_column(Text(column), justify="left" if number == 0 else "right")
    for row in table.rows:
        found.add_row(*map(Text, row))
    return found


def show_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = ""
) -> None:
    """Show a table for people."""
    from epibias.costs.page import Table

    texts = [["" if cell is None else _text(cell) for cell in row] for row in rows]
    console().print(rich_table(Table(title, caption, columns, texts)))


def _text(cell: object) -> str:
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show bars with the time left, on stderr; nothing where stderr is no terminal."""
    target = console(to_stderr=True)
    with rich_bar(console=target, disable=not target.is_terminal, transient=True) as progress:
        yield progress


def check_output(path: str, option: str = "output") -> None:
    """Refuse a file that cannot be written, before any work for it.

    Parameters
    ----------
    path : str
        A file, or `-` for stdout.
    option : str
        What a message calls it.
    """
    if path == "-":
        open_stdout()
        return
    if not path:
        raise InputError(option, "a file, or - for stdout", "an empty name")
    try:
        is_stream = _files.writes_through(path)
    except IsADirectoryError:
        raise InputError(option, "a file", "a folder", path) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise InputError(option, "a file that can be written", found, path) from None
    folder = Path(path).parent if is_stream else Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise InputError(option, "a folder that exists", repr(str(Path(path).parent)))
    if not os.access(path if is_stream else folder, os.W_OK):
        found = os.strerror(errno.EACCES)
        raise InputError(option, "a file that can be written", found, path)


def check_kept(path: str | None, output: str | None, option: str) -> None:
    """Refuse a file to keep answers in that cannot be written, or that the output would replace."""
    if path is None:
        return
    if path == "-":
        raise InputError(option, "a file", "'-'")
    check_output(path, option)
    if output not in (None, "-") and os.path.realpath(path) == os.path.realpath(str(output)):
        raise InputError(option, "another file than --output", repr(path))


def write_output(path: str, text: str) -> None:
    """Write a finished text to a file, whole or not at all, or to stdout for `-`.

    The file is readable by its owner alone: what is written holds texts, or scores of texts.
    """
    check_output(path)
    if path == "-":
        write_stdout(text)
    else:
        _files.write_text(path, text)


def json_text(value: object) -> str:
    """Return one JSON document, indented, without NaN or infinity."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show the library's warnings as one line each, without file and line.

    Of a model that cuts text in every batch the first is shown, and how many came after it.
    """
    cut: dict[str, list[str]] = {}
    with warnings.catch_warnings():
        for category in TOLD:
            warnings.simplefilter("always", category)
        warnings.simplefilter("default", CalibrationWarning)  # once: a run calibrates often
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: object) -> None:
            if issubclass(category, TruncationWarning):
                alike = cut.setdefault(re.sub(r"\d+", "", str(message)), [])
                alike.append(str(message))
                if len(alike) > 1:
                    return
            if issubclass(category, TOLD):
                say(f"epibias: warning: {message}")
            else:
                usual(message, category, *rest)  # type: ignore[arg-type]

        warnings.showwarning = show  # type: ignore[assignment]
        try:
            yield
        finally:
            for first, *more in cut.values():
                if more:
                    say(f"epibias: warning: so in {len(more)} more batches: {first}")
