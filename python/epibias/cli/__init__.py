"""The command line: `epibias demo | score | filter | calibrate | index | doctor`.

Owns options, messages and exit codes: 0 done, 1 a check failed, 2 wrong use or wrong input,
130 interrupted. What a command computes lives in the layers below. `typer` and `rich` are the
extra `epibias[cli]`; without them `main` says so.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from epibias._validate import extra
from epibias.cli import streams
from epibias.errors import InputError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the program name; `sys.argv[1:]` when absent.
    """
    try:
        # Before the imports, which take longer than many a command.
        with _unwinding():
            code = _run(arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except (InputError, OSError, KeyboardInterrupt) as error:
        code = streams.told(error)
    if code == 0 and sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError as error:
            code = streams.told(error)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    for package in ("typer", "rich"):
        extra("epibias (the command line)", package, "cli")
    from epibias.cli.app import app

    streams.escape_what_cannot_be_encoded()
    app(args=None if arguments is None else list(arguments), prog_name="epibias")
    return 0


@contextlib.contextmanager
def _unwinding() -> Iterator[None]:
    """Let a polite kill unwind and take its temporary files with it."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminate) if is_main else None
    try:
        yield
    finally:
        if before is not None:  # whoever called this from Python keeps the handler they had
            signal.signal(signal.SIGTERM, before)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)
