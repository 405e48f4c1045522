"""What every command does with messages, errors, progress and output.

Owns the two streams: results go to stdout, everything said about them to stderr. Vectors are
never printed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress

from epibias import _files
from epibias.encoder.progress import rich_bar
from epibias.errors import InputError, TruncationWarning, ValidityWarning

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

INTERRUPTED = 130
WIDTH = 130


def guarded(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turn what a caller can put right into one line on stderr and the exit code for it."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            with _plain_warnings():
                return command(*args, **kwargs)
        except InputError as error:
            say(f"epibias: {error}")
            raise typer.Exit(2) from None
        except BrokenPipeError:
            # The reader has gone; keep Python from complaining once more at shutdown.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except OSError as error:
            file = f": {error.filename}" if error.filename else ""
            say(f"epibias: {error.strerror or error}{file}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            say("epibias: interrupted")
            raise typer.Exit(INTERRUPTED) from None

    return run


def say(message: str) -> None:
    """Print a line to stderr."""
    print(message, file=sys.stderr, flush=True)


def console(*, to_stderr: bool = False) -> Console:
    """Return a console for people, on stdout or stderr."""
    found = Console(stderr=to_stderr, highlight=False)
    if not found.is_terminal:
        found.width = WIDTH  # a file or a pipe has no width of its own
    return found


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show bars with the time left, on stderr; nothing where stderr is no terminal."""
    target = console(to_stderr=True)
    with rich_bar(console=target, disable=not target.is_terminal, transient=True) as progress:
        yield progress


def write_output(path: str, text: str) -> None:
    """Write a finished text to a file, whole or not at all, or to stdout for `-`."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    target = Path(path)
    if target.is_dir():
        raise InputError("output", "a file", "a folder", path)
    if not target.parent.is_dir():
        raise InputError("output", "a folder that exists", f"{str(target.parent)!r}")
    _files.write_text(target, text)


def json_text(value: object) -> str:
    """Return one JSON document, indented, without NaN or infinity."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show the library's warnings as one line each, without file and line."""
    with warnings.catch_warnings():
        for category in (ValidityWarning, TruncationWarning):
            warnings.simplefilter("always", category)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: object) -> None:
            if issubclass(category, ValidityWarning | TruncationWarning):
                say(f"epibias: warning: {message}")
            else:
                usual(message, category, *rest)  # type: ignore[arg-type]

        warnings.showwarning = show  # type: ignore[assignment]
        yield
