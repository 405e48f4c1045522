"""stdin, stdout and stderr as the shell gave them: perhaps closed, full, or of another encoding.

Results are UTF-8 whatever the locale says, because JSON is. Imports neither typer nor rich, so that
`main` can speak before they are there.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import BinaryIO, TextIO

from epibias.errors import InputError


def say(message: str) -> None:
    """Print a line to stderr; characters that it cannot take are escaped."""
    if sys.stderr is None:
        return
    try:
        try:
            print(message, file=sys.stderr, flush=True)
        except UnicodeEncodeError:
            escaped = message.encode("ascii", "backslashreplace").decode("ascii")
            print(escaped, file=sys.stderr, flush=True)
    except OSError:  # nobody is left to tell
        let_go(sys.stderr)


def write_stdout(text: str) -> None:
    """Write a finished text to stdout, in UTF-8, and see that it arrived."""
    stream = open_stdout()
    buffer = getattr(stream, "buffer", None)
    try:
        stream.flush()
        if buffer is None:  # replaced by a stream of texts, as in a notebook
            stream.write(text)
        else:
            # A lone surrogate, of a file name that is not UTF-8, becomes the escape that JSON has.
            buffer.write(text.encode("utf-8", "backslashreplace"))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        let_go(stream)
        found = error.strerror or type(error).__name__
        raise InputError("output", "a stdout that takes the result", found) from None


def open_stdout() -> TextIO:
    """Return stdout, or say that it is closed."""
    if sys.stdout is None:
        raise InputError("output", "an open stdout", "a closed one")
    return sys.stdout


def open_stdin(argument: str) -> BinaryIO:
    """Return stdin, as bytes, or say that it is closed."""
    if sys.stdin is None:
        raise InputError(argument, "an open stdin", "a closed one")
    return sys.stdin.buffer


def escape_what_cannot_be_encoded() -> None:
    """Let tables and help for people go out in any encoding, with escapes in place of errors."""
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def told(error: BaseException) -> int:
    """Say one line about what ended a command; returns the exit code.

    Parameters
    ----------
    error : InputError, OSError or KeyboardInterrupt
    """
    if isinstance(error, InputError):
        say(f"epibias: {error}")
        return 2
    if isinstance(error, KeyboardInterrupt):
        say("epibias: interrupted")
        return 130
    let_go(sys.stdout)
    if isinstance(error, BrokenPipeError):  # the reader has gone, as with `| head`
        return 1
    assert isinstance(error, OSError)  # noqa: S101 (for the type checker)
    file = f": {error.filename}" if error.filename else ""
    say(f"epibias: {error.strerror or error}{file}")
    return 2


def let_go(stream: TextIO | None) -> None:
    """Point a stream that takes no more at nothing, or Python would complain again at shutdown."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)
