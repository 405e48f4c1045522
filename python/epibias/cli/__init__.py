"""The command line: `epibias demo | score | filter | doctor`.

Owns options, messages and exit codes: 0 done, 1 a check failed, 2 wrong use or wrong input,
130 interrupted. What a command computes lives in the layers below. `typer` and `rich` are the
extra `epibias[cli]`; without them `main` says so.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from epibias._validate import extra
from epibias.errors import MissingExtraError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the program name; `sys.argv[1:]` when absent.
    """
    try:
        for package in ("typer", "rich"):
            extra("epibias (the command line)", package, "cli")
    except MissingExtraError as error:
        print(f"epibias: {error}", file=sys.stderr)
        return 2
    from epibias.cli.app import app

    is_main = threading.current_thread() is threading.main_thread()
    # So that a polite kill unwinds and takes its temporary files with it.
    before = signal.signal(signal.SIGTERM, _terminate) if is_main else None
    try:
        app(args=None if arguments is None else list(arguments), prog_name="epibias")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return 130
    finally:
        if before is not None:  # whoever called this from Python keeps the handler they had
            signal.signal(signal.SIGTERM, before)
    return 0


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)
