"""Servers for tests of generators: handlers without a network, a clock without waiting."""

from __future__ import annotations

import asyncio
import json

import httpx

from epibias.generators import OpenAICompatibleGenerator, Prompt
from epibias.generators.pace import Clock


class FakeClock(Clock):
    """Time that passes only when someone waits; `waits` has how long each time."""

    def __init__(self):
        self.time, self.waits = 0.0, []
        super().__init__(lambda: self.time, self._sleep, lambda: 1_000_000.0 + self.time)

    def __setattr__(self, name, value):  # Clock is frozen; this one is not
        object.__setattr__(self, name, value)

    async def _sleep(self, seconds):
        self.waits.append(seconds)
        self.time += seconds


def completion(text="Yes.", finish="stop", **message):
    return {
        "choices": [
            {"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3},
    }


class FakeServer:
    """Answers in turn with what it was given, the last for ever; remembers the requests.

    A `dict` is a JSON body, a `bytes` a body, an exception is raised, a response sent, a function
    called with the request.
    """

    def __init__(self, *answers):
        self.answers = list(answers) or [completion()]
        self.requests: list[httpx.Request] = []
        self.transport = httpx.MockTransport(self._answer)

    @property
    def bodies(self):
        return [json.loads(request.content) for request in self.requests]

    async def _answer(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = await answer(request)
            if isinstance(answer, httpx.Response) and not hasattr(answer, "_content"):
                return answer  # one that streams
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, bytes):
            return httpx.Response(200, content=answer)
        if isinstance(answer, httpx.Response):
            return httpx.Response(
                answer.status_code, headers=answer.headers, content=answer.content
            )
        return httpx.Response(200, content=json.dumps(answer).encode())


def refusal(status, words, code="invalid_request_error", **headers):
    body = {"error": {"message": words, "code": code}}
    return httpx.Response(status, json=body, headers=headers)


class Stream(httpx.AsyncByteStream):
    """A body that comes in parts, other tasks running in between."""

    def __init__(self, *parts, for_ever=False):
        self.parts, self.for_ever = parts, for_ever

    async def __aiter__(self):
        while True:
            for part in self.parts:
                yield part
                await asyncio.sleep(0)
            if not self.for_ever:
                return


def streaming(*parts, for_ever=False, **headers):
    async def answer(request):
        return httpx.Response(200, headers=headers, stream=Stream(*parts, for_ever=for_ever))

    return answer


URL = "http://127.0.0.1:9/v1"
PROMPT = Prompt("own", "1", "Why?", "Be brief.")


def client(server, **options):
    options.setdefault("clock", FakeClock())
    return OpenAICompatibleGenerator("m", URL, transport=server.transport, **options)


def only(server, **options):
    """Ask one prompt, with options of the generator and parameters of the call."""
    parameters = {
        name: options.pop(name) for name in ("max_tokens", "seed", "stop") if name in options
    }
    [result] = client(server, **options).generate([PROMPT], **parameters)
    return result
