"""Options that name a generator: a server, a model file, or the replies of an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from epibias._dispatch import renamed
from epibias.errors import InputError

if TYPE_CHECKING:
    from epibias.generators import Generator

BASE_URL: Any = typer.Option(
    None, help="OpenAI-compatible server, such as http://127.0.0.1:8000/v1."
)
MODEL: Any = typer.Option(None, help="Name of the model, as the server knows it.")
KEY: Any = typer.Option(None, help="Environment variable that holds the key of the server.")
GGUF: Any = typer.Option(None, help="A GGUF model file, run in this process, instead of a server.")
REPLIES: Any = typer.Option(
    None, help="File that keeps the replies: a stopped run goes on, a finished one repeats."
)
OFFLINE: Any = typer.Option(False, "--offline", help="Only replies from that file.")
CONCURRENCY: Any = typer.Option(
    None, min=1, help="Requests that the server gets at once.", show_default="4"
)
SECONDS: Any = typer.Option(
    None, "--request-seconds", help="Deadline of one request to the server.", show_default="120"
)
ATTEMPT_DEADLINES = 2.5  # of a request, in all attempts at a prompt: as 300 is of 120 seconds


def generator_of(
    base_url: str | None,
    model: str | None,
    api_key_variable: str | None,
    gguf: str | None,
    replies: str | None,
    offline: bool,
    concurrency: int | None = None,
    seconds: float | None = None,
) -> Generator:
    """Make the generator that the options name, and see that its server can be reached.

    Where replies are kept already, they may be all that is needed: then nothing is sent yet.

    Raises
    ------
    InputError
        None or two of them, a server without a model, --offline without --replies; a server that
        takes no connection.
    """
    if offline and replies is None:
        raise InputError("--replies", "the file to repeat, with --offline", "none")
    if base_url is not None and gguf is not None:
        raise InputError("--base-url, --gguf", "one of the two", "both")
    if base_url is None and gguf is None and not offline:
        raise InputError("--base-url, --gguf", "a generator, or --offline", "neither")
    if offline and not Path(str(replies)).is_file():
        raise InputError("--replies", "a file of replies, with --offline", "none", replies)
    only_of_a_server = {
        "--model": model,
        "--api-key-variable": api_key_variable,
        "--concurrency": concurrency,
        "--request-seconds": seconds,
    }
    for option, value in only_of_a_server.items():
        if value is not None and base_url is None:
            raise InputError(option, "no such option without --base-url", repr(value))
    asked: Generator | None = None
    if base_url is not None:
        if model is None:
            raise InputError("--model", "the name of a model, with --base-url", "none")
        from epibias.generators.capabilities import check_reached
        from epibias.generators.openai_compatible import OpenAICompatibleGenerator

        given: dict[str, Any] = {"concurrency": concurrency}
        if seconds is not None:
            total = ATTEMPT_DEADLINES * seconds
            given |= {"request_seconds": seconds, "total_seconds": total}
        given = {name: value for name, value in given.items() if value is not None}
        asked = OpenAICompatibleGenerator(
            model, base_url, api_key_variable=api_key_variable, **given
        )
        if replies is None or not Path(replies).is_file():
            check_reached(asked, "--base-url")
    elif gguf is not None:
        from epibias.generators.gguf import GGUFGenerator

        asked = GGUFGenerator(gguf)
    if replies is None:
        assert asked is not None  # noqa: S101  (for the type checker; checked above)
        return asked
    from epibias.generators.cache import CachedGenerator

    with renamed(path="--replies"):
        return CachedGenerator(asked, replies, offline)
