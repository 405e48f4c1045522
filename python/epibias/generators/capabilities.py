"""What a server can do, found by asking it: is it there; models, seeds, stops and JSON modes.

Owns the questions and the table of answers. Nothing is switched off by what is found: a parameter
that a server does not take makes a request fail, and this says so before a long run does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from epibias.errors import InputError
from epibias.generators.base import Failure, Generator, Prompt, Reply, Sampling
from epibias.generators.exchange import Attempt, body_of
from epibias.generators.openai_compatible import OpenAICompatibleGenerator, run

if TYPE_CHECKING:
    import httpx

REACH_SECONDS = 10.0  # for a server that is busy: it was reached, whatever it says later
PROBE = Prompt("probe", "1", "Name a colour.")
_SCHEMA = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
# What is added to a plain request, by the name in the table.
ADDED: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "seed": {"seed": 1},
        "stop": {"stop": ["\n\n\n"]},
        "json_object": {"response_format": {"type": "json_object"}},
        "json_schema": {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "colour", "schema": _SCHEMA},
            }
        },
    }
)


@dataclass(frozen=True)
class Capabilities:
    """What a server answered to `probe`.

    Parameters
    ----------
    failure : Failure, optional
        Why a plain request was not answered; then nothing else was asked.
    models : tuple of str, optional
        Those that it lists; None where it lists none.
    is_listed : bool, optional
        Whether the generator's model is among them; None where that is unknown.
    accepts : mapping of str to bool
        "seed", "stop", "json_object", "json_schema": whether a request with it was taken.
    said : mapping of str to str
        What it said of those that it did not take.
    seed_repeats : bool, optional
        Whether two requests at temperature 1 with one seed had the same answer; None where it
        takes no seed. Some servers take a seed and ignore it.
    """

    failure: Failure | None
    models: tuple[str, ...] | None = None
    is_listed: bool | None = None
    accepts: Mapping[str, bool] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    seed_repeats: bool | None = None

    def lines(self) -> list[str]:
        """Tell it to a person, a line a fact."""
        if self.failure is not None:
            return [f"no answer ({self.failure.reason}): {self.failure.message}"]
        listed = {True: "listed", False: "not listed", None: "no list of models"}[self.is_listed]
        lines = [f"model: answers ({listed})"]
        for name, is_taken in self.accepts.items():
            lines.append(f"{name}: {'taken' if is_taken else f'refused: {self.said[name]}'}")
        if self.seed_repeats is not None:
            lines.append(f"one seed, one answer: {'yes' if self.seed_repeats else 'no'}")
        return lines


def probe(generator: OpenAICompatibleGenerator) -> Capabilities:
    """Ask a server what it can do: at most eight short requests, none tried again.

    Parameters
    ----------
    generator : OpenAICompatibleGenerator
        As it will be used.

    Returns
    -------
    Capabilities
        What was found.
    """
    return run(_probe(generator))


def check_reached(generator: Generator, argument: str = "base_url") -> None:
    """See before a long run that a server takes connections, with one short request.

    Whatever it answers will do, and no answer at all within ten seconds, too: it may be busy.
    Generators without a server are not asked.

    Parameters
    ----------
    generator : Generator
        As it will be used.
    argument : str
        What names its address, for the message.

    Raises
    ------
    InputError
        No connection: the address and the reason.

    Examples
    --------
    >>> from epibias.generators import FixedGenerator
    >>> check_reached(FixedGenerator("yes"))
    """
    if not isinstance(generator, OpenAICompatibleGenerator):
        return
    attempt = run(_knock(generator))
    if attempt.is_unreachable:
        assert isinstance(attempt.result, Failure)  # noqa: S101  # not reached, no reply
        expected = "a server that takes connections (start it, or correct its address)"
        raise InputError(argument, expected, attempt.result.message)


async def _knock(generator: OpenAICompatibleGenerator) -> Attempt:
    async with generator.client() as client:
        return await generator.send(client, "models", None, seconds_left=REACH_SECONDS)


async def _probe(generator: OpenAICompatibleGenerator) -> Capabilities:
    async with generator.client() as client:
        failure = await _refusal(generator, client, {})
        if failure is not None:
            return Capabilities(failure)
        models = _models((await generator.send(client, "models", None)).result)
        refusals = {name: await _refusal(generator, client, added) for name, added in ADDED.items()}
        repeats = None
        if refusals["seed"] is None:
            warm = {"seed": 1, "temperature": 1.0}
            answers = [await _text(generator, client, warm) for _ in range(2)]
            repeats = answers[0] is not None and answers[0] == answers[1]
    listed = None if models is None else generator.identity["model"] in models
    return Capabilities(
        None,
        models,
        listed,
        MappingProxyType({name: failure is None for name, failure in refusals.items()}),
        MappingProxyType({name: f.message for name, f in refusals.items() if f is not None}),
        repeats,
    )


async def _ask(
    generator: OpenAICompatibleGenerator, client: httpx.AsyncClient, added: Mapping[str, Any]
) -> Reply | Failure:
    limit_field = str(generator.identity["limit_field"])
    sampling = Sampling(max_tokens=8, seed=None)
    body = body_of(str(generator.identity["model"]), PROBE, sampling, limit_field, False)
    attempt = await generator.send(client, "chat/completions", {**body, **added}, 8)
    return attempt.result


async def _refusal(
    generator: OpenAICompatibleGenerator, client: httpx.AsyncClient, added: Mapping[str, Any]
) -> Failure | None:
    """Why a request is not taken; None where it is, whatever the few tokens of its answer are."""
    result = await _ask(generator, client, added)
    is_taken = isinstance(result, Reply) or result.reason in ("truncated", "empty")
    return None if is_taken or isinstance(result, Reply) else result


async def _text(
    generator: OpenAICompatibleGenerator, client: httpx.AsyncClient, added: Mapping[str, Any]
) -> str | None:
    return (await _ask(generator, client, added)).text


def _models(listing: Reply | Failure) -> tuple[str, ...] | None:
    if isinstance(listing, Failure):
        return None
    try:
        rows = json.loads(listing.text)["data"]
        return tuple(str(row["id"]) for row in rows)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
