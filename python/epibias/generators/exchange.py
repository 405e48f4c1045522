"""What an OpenAI-compatible server said: status, headers and body in, reply or failure out.

Owns the meaning of every answer of a server and whether asking again makes sense. Pure functions:
nothing is sent from here. What a success must have is checked, because servers answer 200 to much
that is none: no choices, an answer cut off by its limit, an error page of a proxy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from epibias.generators.base import Failure, Prompt, Reply, Sampling

LONGEST_QUOTED = 200  # characters of a server's own words in a message
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
# Of the request; servers that do not know one say its name.
FIELDS = ("seed", "stop", "temperature", "max_tokens", "max_completion_tokens", "response_format")


@dataclass(frozen=True)
class Attempt:
    """The outcome of one request.

    Parameters
    ----------
    result : Reply or Failure
        What it is worth.
    again : bool
        Whether another attempt may go better.
    wait : float, optional
        Seconds that the server asks to wait first.
    is_unreachable : bool
        Whether there was no connection: then other prompts will not get one either.
    """

    result: Reply | Failure
    again: bool = False
    wait: float | None = None
    is_unreachable: bool = False


def failed(reason: str, message: str, *, again: bool = False, wait: float | None = None) -> Attempt:
    """Give an attempt that failed."""
    return Attempt(Failure(reason, message, attempts=1), again, wait)


def why_of(error: BaseException) -> str:
    """Give the system's words for a connection that failed; libraries wrap them several times.

    Examples
    --------
    >>> try:
    ...     raise ValueError("All attempts failed") from ConnectionRefusedError(111, "it said no")
    ... except ValueError as error:
    ...     print(why_of(error))
    Connection refused
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and isinstance(found.errno, int) and found.errno > 0:
            return os.strerror(found.errno)
        found = found.__cause__ or found.__context__
    return str(error)


def body_of(
    model: str, prompt: Prompt, sampling: Sampling, limit_field: str, json_mode: bool
) -> dict[str, object]:
    """Give what is sent: a chat completion, not streamed, one choice."""
    messages = [{"role": "user", "content": prompt.user}]
    if prompt.system is not None:
        messages.insert(0, {"role": "system", "content": prompt.system})
    body: dict[str, object] = {
        "model": model,
        "messages": messages,
        "temperature": sampling.temperature,
        limit_field: sampling.max_tokens,
        "stream": False,
    }
    seed = sampling.seed_of(prompt)
    if seed is not None:
        body["seed"] = seed
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if json_mode:
        body["response_format"] = {"type": "json_object"}
    return body


def judge(
    status: int, location: str | None, wait: float | None, content: bytes, max_tokens: int
) -> Attempt:
    """Judge a response that came whole.

    Parameters
    ----------
    status : int
        HTTP status.
    location : str, optional
        Where a redirect leads to.
    wait : float, optional
        Seconds of a ``Retry-After``.
    content : bytes
        The body, decompressed.
    max_tokens : int
        What was asked for, to notice an answer that reached it where the server does not say so.
    """
    if 200 <= status < 300:
        return _success(content, max_tokens)
    if 300 <= status < 400:
        target = (location or "nowhere").split("?")[0][:LONGEST_QUOTED]
        return failed(
            "refused",
            f"HTTP {status}, a redirect to {target}; it is not followed: prompts and key go only "
            "to the address that was named",
        )
    code, words = _error(content)
    said = f"HTTP {status}{words and f': {words}'}"
    if status == 429 and code == "insufficient_quota":
        return failed("refused", f"{said} (no quota left: waiting does not help)")
    if status == 429:
        return failed("rate_limited", said, again=True, wait=wait)
    if status in AGAIN:
        return failed("down", said, again=True, wait=wait)
    if status >= 500:
        return failed("down", said)
    return failed("refused", f"{said}{_hint(words)}")


def _success(content: bytes, max_tokens: int) -> Attempt:
    try:
        answer = json.loads(content)
    except (UnicodeDecodeError, ValueError, RecursionError):
        begin = content[:40].decode("utf-8", "replace")
        return failed("malformed", f"not JSON; it begins with {begin!r}", again=True)
    return judge_answer(answer, max_tokens)


def judge_answer(answer: object, max_tokens: int) -> Attempt:
    """Judge the parsed body of a success, whoever made it."""
    if not isinstance(answer, Mapping):
        return failed("malformed", f"JSON, but a {type(answer).__name__}", again=True)
    if answer.get("error") and not answer.get("choices"):  # some gateways answer 200 to errors
        return failed("down", f"HTTP 200 with an error: {_error_of(answer)[1]}", again=True)
    choices = answer.get("choices")
    if not isinstance(choices, list):
        return failed("malformed", "no list 'choices'", again=True)
    if not choices:
        return failed("empty", "'choices' is an empty list", again=True)
    first = choices[0]
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(first, Mapping) or not isinstance(message, Mapping):
        return failed("malformed", "the first choice has no 'message'", again=True)
    return Attempt(_reply(first, message, answer.get("usage"), max_tokens))


def _reply(
    choice: Mapping[str, object], message: Mapping[str, object], usage: object, max_tokens: int
) -> Reply | Failure:
    text = message.get("content")
    prompt_tokens, completion_tokens = _count(usage, "prompt"), _count(usage, "completion")
    finish = choice.get("finish_reason")
    if message.get("refusal"):
        return Failure("refused", "the model declines to answer", attempts=1)
    if finish == "content_filter":
        return Failure("refused", "a content filter of the server stopped the answer", attempts=1)
    if text is not None and not isinstance(text, str):
        kind = type(text).__name__
        return Failure("malformed", f"'content' is a {kind}, not a text", attempts=1)
    # A server that does not say why it ended may still have been cut off.
    is_full = completion_tokens is not None and completion_tokens >= max_tokens
    if finish == "length" or (finish is None and is_full):
        count = "" if completion_tokens is None else f" after {completion_tokens} tokens"
        message_text = f"cut off{count}; max_tokens is {max_tokens}"
        return Failure("truncated", message_text, attempts=1, text=text)
    if not text or not text.strip():
        thought = any(message.get(name) for name in ("reasoning_content", "reasoning"))
        only = "only reasoning came, no answer" if thought else "the answer is blank"
        return Failure("empty", only, attempts=1)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return Failure("malformed", "the answer has a lone surrogate", attempts=1)
    said = finish if isinstance(finish, str) and finish else "unstated"
    return Reply(text, said, prompt_tokens, completion_tokens)


def _count(usage: object, kind: str) -> int | None:
    number = usage.get(f"{kind}_tokens") if isinstance(usage, Mapping) else None
    is_count = isinstance(number, int) and not isinstance(number, bool) and number >= 0
    return number if is_count else None


def _error(content: bytes) -> tuple[str, str]:
    """Code and words of an error body; both "" where there are none."""
    try:
        answer = json.loads(content)
    except (UnicodeDecodeError, ValueError, RecursionError):
        return "", ""
    return _error_of(answer)


def _error_of(answer: object) -> tuple[str, str]:
    error = answer.get("error", answer) if isinstance(answer, Mapping) else answer
    if isinstance(error, str):
        return "", _one_line(error)
    if not isinstance(error, Mapping):
        return "", ""
    words = error.get("message") or error.get("detail") or ""
    return str(error.get("code") or error.get("type") or ""), _one_line(str(words))


def _one_line(words: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in words).split())
    return line if len(line) <= LONGEST_QUOTED else f"{line[:LONGEST_QUOTED]}…"


def _hint(words: str) -> str:
    named = [field for field in FIELDS if field in words]
    if not named:
        return ""
    if "max_completion_tokens" in named:
        return " (give limit_field='max_completion_tokens')"
    if named[0] == "seed":
        return " (this server takes no seed: give seed=None)"
    return f" (it does not take {named[0]!r} as given; nothing is left out silently)"
