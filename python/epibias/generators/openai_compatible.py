"""Generators behind a URL: vLLM, llama.cpp's server, Ollama, OpenAI and whatever speaks as they do.

Owns the way of a prompt through HTTP: deadlines, attempts, pace, concurrency, the longest body.
What a response means is judged in `exchange`; when to send, in `pace`. Prompts and key go to the
one address that was named, through the proxy that the environment names (HTTP_PROXY, HTTPS_PROXY)
if it does, and nowhere else: redirects are reported, not followed. The key is read from an
environment variable and is in no identity, message or repr.

asyncio is used inside, because only cancelling holds a deadline: HTTP libraries' own time limits
are for one read, and a server that sends a byte now and then never reaches them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from epibias import _validate
from epibias.errors import InputError
from epibias.generators.base import Failure, Prompt, Reply, Sampling, check_prompts
from epibias.generators.exchange import Attempt, body_of, failed, judge, why_of
from epibias.generators.pace import Clock, RateLimit, retry_after

if TYPE_CHECKING:  # heavy ones are imported where they are used: `import epibias` is light
    import asyncio

    import httpx
    import tenacity

_T = TypeVar("_T")
OnResult: TypeAlias = "Callable[[int, Reply | Failure], None]"
LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between attempts, doubling, plus up to 1 at random
CONNECT_SECONDS = 5.0  # a host that takes no connection is not a slow model


class OpenAICompatibleGenerator:
    """A language model on a server that speaks the OpenAI protocol of chat completions.

    Parameters
    ----------
    model : str
        Its name, as the server knows it.
    base_url : str
        Address up to and with the version: ``http://127.0.0.1:8000/v1`` (vLLM),
        ``http://127.0.0.1:8080/v1`` (llama.cpp), ``http://127.0.0.1:11434/v1`` (Ollama),
        ``https://api.openai.com/v1``.
    api_key_variable : str, optional
        Name of the environment variable that holds the key; None for a server that wants none.
    request_seconds : float
        Deadline of one request, from its first byte out to its last byte in.
    total_seconds : float
        Deadline of a prompt in all: its attempts, and the waits between them.
    max_attempts : int
        Most requests for one prompt.
    requests_per_minute : float, optional
        Rate limit over all prompts, attempts included; evenly spaced.
    concurrency : int
        Most requests at a time of one call of `generate`; those of calls from several threads add
        up.
    longest_body : int
        Bytes of a response, decompressed, beyond which it is a failure.
    limit_field : {"max_tokens", "max_completion_tokens"}
        What the server calls the longest answer.
    json_mode : bool
        Ask for a JSON object (``response_format``); refused by some servers: see `probe`.
    transport : httpx.AsyncBaseTransport, optional
        Instead of the network.
    clock : Clock, optional
        Instead of the system's.

    Raises
    ------
    InputError
        An address that is no http(s) URL or holds a password; a variable that is not set.
    MissingExtraError
        Without httpx or tenacity (extra ``generators``).

    Notes
    -----
    Tried again, with waits of 0.5, 1, 2 … 30 s or what the server asks for: no connection, a broken
    one, a timeout, HTTP 408, 425, 429, 500, 502–504 and 529, a 200 that is not JSON or has no
    choices. Never: other 4xx, redirects, a body that is too long, an answer that is blank or was
    cut off. A ``Retry-After`` beyond the deadline ends the attempts at once. Where one prompt has
    found no connection in all its attempts, those of the same call that have not begun are not
    tried, and later calls try once, without a wait, until the server is reached again.

    Examples
    --------
    >>> generator = OpenAICompatibleGenerator("llama3", "http://127.0.0.1:8000/v1")
    >>> generator.identity["model"], generator.identity["base_url"]
    ('llama3', 'http://127.0.0.1:8000/v1')
    """

    tells_each_result = True  # `generate` takes `on_result`

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        api_key_variable: str | None = None,
        request_seconds: float = 120.0,
        total_seconds: float = 300.0,
        max_attempts: int = 4,
        requests_per_minute: float | None = None,
        concurrency: int = 4,
        longest_body: int = 2**20,
        limit_field: str = "max_tokens",
        json_mode: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._model = _validate.text("model", model)
        self._base_url = _address(base_url)
        self._variable = api_key_variable
        self._key = _key(api_key_variable)
        self._request_seconds = _validate.number("request_seconds", request_seconds, above=0.0)
        self._total_seconds = _validate.number("total_seconds", total_seconds, above=0.0)
        self._max_attempts = _validate.integer("max_attempts", max_attempts, low=1, high=100)
        if requests_per_minute is not None:
            _validate.number("requests_per_minute", requests_per_minute, above=0.0)
        self.concurrency = _validate.integer("concurrency", concurrency, low=1, high=1000)
        self._longest_body = _validate.integer("longest_body", longest_body, low=1)
        self._limit_field = _validate.choice("limit_field", limit_field, LIMIT_FIELDS)
        self._json_mode = _validate.flag("json_mode", json_mode)
        self._transport = transport
        self._clock = clock or Clock()
        self._pace = RateLimit(requests_per_minute, self._clock)
        self._is_lost = False  # the last prompt was tried to the end and found no connection
        for package in ("httpx", "tenacity"):
            _validate.extra("OpenAICompatibleGenerator", package, "generators")

    @property
    def identity(self) -> dict[str, object]:
        """Kind, model, address and what changes the request; no key."""
        return {
            "kind": "openai_compatible",
            "model": self._model,
            "base_url": self._base_url,
            "limit_field": self._limit_field,
            "json_mode": self._json_mode,
        }

    def __repr__(self) -> str:
        return f"OpenAICompatibleGenerator({self._model!r}, {self._base_url!r})"

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        temperature: float = 0.0,
        max_tokens: int = 512,
        seed: int | None = 0,
        stop: Sequence[str] = (),
        repeat: int = 0,
        on_result: OnResult | None = None,
    ) -> list[Reply | Failure]:
        """Answer each prompt; see `Generator.generate`. Works inside a running event loop, too.

        `on_result` is called with the place of a prompt and its result as soon as that is there.
        """
        check_prompts(prompts)
        sampling = Sampling(temperature, max_tokens, seed, stop, repeat)
        return run(self._all(prompts, sampling, on_result)) if prompts else []

    async def _all(
        self, prompts: Sequence[Prompt], sampling: Sampling, on_result: OnResult | None
    ) -> list[Reply | Failure]:
        import asyncio

        call = _Call(asyncio.Semaphore(self.concurrency))

        async def one(place: int, client: httpx.AsyncClient) -> Reply | Failure:
            result = await self._one(client, prompts[place], sampling, call)
            if on_result is not None:
                on_result(place, result)
            return result

        async with self.client() as client:
            tasks = [one(place, client) for place in range(len(prompts))]
            return list(await asyncio.gather(*tasks))

    async def _one(
        self, client: httpx.AsyncClient, prompt: Prompt, sampling: Sampling, call: _Call
    ) -> Reply | Failure:
        body = body_of(self._model, prompt, sampling, self._limit_field, self._json_mode)
        async with call.room:
            if call.is_unreachable:
                message = f"not tried: {self._base_url} was not reached for a prompt before"
                return Failure("down", message, attempts=0)
            attempt, count = await self._attempts(client, body, sampling.max_tokens)
            call.is_unreachable |= attempt.is_unreachable
            self._is_lost = attempt.is_unreachable
        if isinstance(attempt.result, Failure):
            return replace(attempt.result, attempts=count)
        return attempt.result

    async def _attempts(
        self, client: httpx.AsyncClient, body: dict[str, object], max_tokens: int
    ) -> tuple[Attempt, int]:
        """Ask until it is answered, of no use, or too late; the last attempt, and how many."""
        import tenacity

        start = self._clock.now()
        ends = start + self._total_seconds
        doubling = tenacity.wait_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT)
        backoff = doubling + tenacity.wait_random(0, 1)  # so that clients do not come back as one

        def wait(state: tenacity.RetryCallState) -> float:
            asked = _outcome(state).wait
            return float(backoff(state)) if asked is None else asked

        def is_over(state: tenacity.RetryCallState) -> bool:
            is_too_late = self._clock.now() + state.upcoming_sleep >= ends
            is_still_lost = self._is_lost and _outcome(state).is_unreachable
            return is_too_late or is_still_lost or state.attempt_number >= self._max_attempts

        def last(state: tenacity.RetryCallState) -> Attempt:
            return self._given_up(_outcome(state), state)

        retrying = tenacity.AsyncRetrying(
            sleep=self._clock.sleep,
            stop=is_over,
            wait=wait,
            retry=tenacity.retry_if_result(lambda attempt: attempt.again),
            retry_error_callback=last,
        )
        count = 0

        async def once() -> Attempt:
            nonlocal count
            count += 1
            await self._pace.wait()
            # A wait for one's turn before the first attempt is not the server's doing.
            left = self._total_seconds if count == 1 else ends - self._clock.now()
            return await self.send(client, "chat/completions", body, max_tokens, left)

        return await retrying(once), count

    def _given_up(self, attempt: Attempt, state: tenacity.RetryCallState) -> Attempt:
        assert isinstance(attempt.result, Failure)  # noqa: S101  # replies are not tried again
        is_still_lost = self._is_lost and attempt.is_unreachable
        if is_still_lost or state.attempt_number >= self._max_attempts:
            return attempt
        why = (
            f"; the server asks to wait {attempt.wait:g} s"
            if attempt.wait is not None
            else "; no time is left to try again"
        )
        said = f"{attempt.result.message}{why} (total_seconds is {self._total_seconds:g})"
        return replace(attempt, result=replace(attempt.result, message=said))

    def client(self) -> httpx.AsyncClient:
        """Give a client for one call; connections do not outlive an event loop."""
        import httpx

        headers = {"User-Agent": "epibias", "Accept": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return httpx.AsyncClient(
            headers=headers,
            # `send` holds the deadline of the whole request.
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=self.concurrency),
            transport=self._transport,
        )

    async def send(
        self,
        client: httpx.AsyncClient,
        path: str,
        body: dict[str, object] | None,
        max_tokens: int = 1,
        seconds_left: float = float("inf"),
    ) -> Attempt:
        """Send one request within its deadline and judge what comes back."""
        import asyncio

        import httpx

        seconds = min(self._request_seconds, seconds_left)
        late = failed("timeout", f"no whole answer within {seconds:g} s", again=True)
        try:
            attempt = await asyncio.wait_for(
                self._exchange(client, path, body, max_tokens), max(seconds, 0.0)
            )
        except (httpx.ConnectTimeout, httpx.ConnectError, httpx.ProxyError) as error:
            why = why_of(error) or f"no connection within {CONNECT_SECONDS:g} s"
            message = f"{self._base_url} was not reached: {self._without_key(why)}"
            return replace(failed("down", message, again=True), is_unreachable=True)
        except (asyncio.TimeoutError, httpx.TimeoutException):
            return late
        except httpx.DecodingError:
            return failed("malformed", "the body does not decompress", again=True)
        except httpx.TransportError as error:
            kind = type(error).__name__
            message = f"the connection broke: {self._without_key(str(error)) or kind}"
            return failed("down", message, again=True)
        if isinstance(attempt.result, Failure):
            said = self._without_key(attempt.result.message)
            return replace(attempt, result=replace(attempt.result, message=said))
        return attempt

    async def _exchange(
        self,
        client: httpx.AsyncClient,
        path: str,
        body: dict[str, object] | None,
        max_tokens: int,
    ) -> Attempt:
        method = "GET" if body is None else "POST"
        address = f"{self._base_url}/{path}"
        async with client.stream(method, address, json=body) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > self._longest_body:
                    message = f"the response is longer than {self._longest_body} bytes"
                    return failed("malformed", message)
            wait = retry_after(response.headers.get("Retry-After"), self._clock)
            location = response.headers.get("Location")
            if body is None:
                return _listing(response.status_code, location, wait, bytes(content))
            return judge(response.status_code, location, wait, bytes(content), max_tokens)

    def _without_key(self, words: str) -> str:
        return words.replace(self._key, "[key]") if self._key else words


@dataclass
class _Call:
    """What the prompts of one call of `generate` share."""

    room: asyncio.Semaphore = field(repr=False)
    is_unreachable: bool = False


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end, also where an event loop is running already (a notebook)."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _outcome(state: tenacity.RetryCallState) -> Attempt:
    assert state.outcome is not None  # noqa: S101  # asked only after an attempt
    attempt: Attempt = state.outcome.result()
    return attempt


def _listing(status: int, location: str | None, wait: float | None, content: bytes) -> Attempt:
    """Judge a GET: the body itself is the reply."""
    if 200 <= status < 300:
        return Attempt(Reply(content.decode("utf-8", "replace"), "stop", None, None))
    return judge(status, location, wait, content, 1)


def _address(base_url: str) -> str:
    _validate.text("base_url", base_url)
    try:
        parts = urlsplit(base_url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises for one that is no number
    except ValueError:
        is_whole = False
    if not is_whole or parts.query or parts.fragment:
        expected = "an address such as http://127.0.0.1:8000/v1, without ? and #"
        raise InputError("base_url", expected, repr(base_url[:80].split("?")[0]))
    if parts.username is not None or parts.password is not None:
        expected = "an address without a user or password (see api_key_variable)"
        raise InputError("base_url", expected, "one with a user before the @")
    return base_url.rstrip("/")


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    _validate.text("api_key_variable", variable)
    key = os.environ.get(variable, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        found = "a key with characters that no header can hold" if key else "none"
        # The variable's name is shown only if it looks like one: a key may stand in its place.
        shown = variable if variable.isidentifier() and variable.isupper() else "that name"
        expected = f"the name of an environment variable with a key in it ({shown})"
        raise InputError("api_key_variable", expected, found)
    return key
