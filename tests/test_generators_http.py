"""The client for OpenAI-compatible servers: every way a server can fail, told as what it is."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest

from epibias.generators import Failure, Prompt, Reply
from epibias.generators.base import Sampling
from fake_servers import PROMPT, URL, FakeServer, client, completion, only, refusal, streaming


def test_a_reply_and_what_was_sent_for_it():
    server = FakeServer(completion(" Because.\n"))
    [result] = client(server).generate(
        [PROMPT], temperature=0.7, max_tokens=9, seed=3, stop=["END"], repeat=2
    )
    assert result == Reply(" Because.\n", "stop", 11, 3)
    assert server.requests[0].url == f"{URL}/chat/completions"
    assert "authorization" not in server.requests[0].headers
    assert server.bodies == [
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Why?"},
            ],
            "temperature": 0.7,
            "max_tokens": 9,
            "stream": False,
            "seed": Sampling(seed=3, repeat=2).seed_of(PROMPT),
            "stop": ["END"],
        }
    ]


def test_options_change_the_request_and_the_identity():
    server = FakeServer()
    generator = client(server, limit_field="max_completion_tokens", json_mode=True)
    generator.generate([Prompt("own", "1", "Why?")], seed=None)
    [body] = server.bodies
    assert body["max_completion_tokens"] == 512
    assert body["response_format"] == {"type": "json_object"}
    assert not {"seed", "stop", "max_tokens"} & set(body)
    assert len(body["messages"]) == 1
    assert generator.identity == {
        "kind": "openai_compatible",
        "model": "m",
        "base_url": URL,
        "limit_field": "max_completion_tokens",
        "json_mode": True,
    }


def test_numbers_of_numpy_are_sent_as_numbers():
    server = FakeServer()
    client(server).generate([PROMPT], max_tokens=np.int64(9), seed=np.int32(3), repeat=np.int8(1))
    plain = Sampling(seed=3, repeat=1).seed_of(PROMPT)
    assert [server.bodies[0][name] for name in ("max_tokens", "seed")] == [9, plain]


def test_many_prompts_keep_their_order_and_a_bad_one_stays_alone():
    async def echo(request):
        user = httpx.Response(200, content=request.content).json()["messages"][-1]["content"]
        await asyncio.sleep(0)  # others overtake
        return refusal(400, "too rude") if user == "3" else completion(f"answer {user}")

    server = FakeServer(echo)
    results = client(server, concurrency=3).generate([Prompt("o", "1", str(n)) for n in range(8)])
    assert [r.text for n, r in enumerate(results) if n != 3] == [
        f"answer {n}" for n in range(8) if n != 3
    ]
    assert results[3] == Failure("refused", "HTTP 400: too rude", attempts=1)
    assert client(server).generate([]) == []


def test_no_more_requests_at_a_time_than_asked_for():
    now, most = 0, 0

    async def slow(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(5):
            await asyncio.sleep(0)
        now -= 1
        return completion()

    client(FakeServer(slow), concurrency=2).generate([PROMPT] * 9)
    assert most == 2


# ---- each fault by its name -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (httpx.ConnectError("refused"), "down", "was not reached: refused"),
        (httpx.RemoteProtocolError("peer closed"), "down", "the connection broke: peer closed"),
        (httpx.ReadTimeout("slow"), "timeout", "no whole answer within 120 s"),
        (refusal(503, "loading model"), "down", "HTTP 503: loading model"),
        (refusal(501, "not built"), "down", "HTTP 501: not built"),
        (refusal(429, "slow down"), "rate_limited", "HTTP 429: slow down"),
        (refusal(429, "pay", "insufficient_quota"), "refused", "waiting does not help"),
        (refusal(401, "wrong key"), "refused", "HTTP 401: wrong key"),
        (refusal(404, "no model m"), "refused", "HTTP 404: no model m"),
        (
            refusal(400, "unknown field: seed"),
            "refused",
            "this server takes no seed: give seed=None",
        ),
        (
            refusal(400, "use max_completion_tokens"),
            "refused",
            "give limit_field='max_completion_tokens'",
        ),
        (refusal(422, "bad stop"), "refused", "it does not take 'stop' as given"),
        (httpx.Response(404, content=b"<html>"), "refused", "HTTP 404"),
        (
            httpx.Response(307, headers={"Location": "https://elsewhere/v1?key=s"}),
            "refused",
            "a redirect to https://elsewhere/v1; it is not followed",
        ),
        (b"<html>Bad gateway</html>", "malformed", "not JSON; it begins with '<html>Bad gateway"),
        (b"\xff\xfe", "malformed", "not JSON"),
        (b"", "malformed", "not JSON"),
        (b"[" * 100_000, "malformed", "not JSON"),
        (b"[]", "malformed", "JSON, but a list"),
        (b'{"id": 1}', "malformed", "no list 'choices'"),
        (b'{"choices": [{}]}', "malformed", "the first choice has no 'message'"),
        (b'{"choices": [7]}', "malformed", "the first choice has no 'message'"),
        (b'{"error": {"message": "oops"}}', "down", "HTTP 200 with an error: oops"),
        ({"choices": []}, "empty", "'choices' is an empty list"),
        (completion(""), "empty", "the answer is blank"),
        (completion(" \n"), "empty", "the answer is blank"),
        (completion(None, reasoning_content="Hm."), "empty", "only reasoning came, no answer"),
        (completion(["Yes."]), "malformed", "'content' is a list, not a text"),
        (completion("\ud800"), "malformed", "a lone surrogate"),
        (completion("I am", "length"), "truncated", "cut off after 3 tokens; max_tokens is 512"),
        (completion("x", "content_filter"), "refused", "a content filter"),
        (completion("", refusal="No."), "refused", "the model declines"),
        (
            streaming(b"not gzip", **{"Content-Encoding": "gzip"}),
            "malformed",
            "the body does not decompress",
        ),
        (
            streaming(b"x" * 1500, b"x" * 1500),
            "malformed",
            "the response is longer than 2000 bytes",
        ),
    ],
)
def test_each_fault_has_its_reason(answer, reason, words):
    server = FakeServer(answer)
    longest = 2000 if "2000" in words else 2**20
    result = only(server, longest_body=longest, max_attempts=1)
    assert isinstance(result, Failure)
    assert (result.reason, result.attempts) == (reason, 1)
    assert words in result.message
    assert "\n" not in result.message
    assert len(result.message) < 400


def test_what_had_come_of_a_truncated_answer_is_kept():
    assert only(FakeServer(completion("I am", "length"))).text == "I am"


def test_a_server_that_does_not_say_why_it_ended():
    assert only(FakeServer(completion("Yes.", None))).finish_reason == "unstated"
    assert only(FakeServer(completion("Yes.", None)), max_tokens=3).reason == "truncated"


def test_token_counts_that_are_none():
    for usage in (
        None,
        {},
        {"prompt_tokens": -1, "completion_tokens": "3"},
        {"prompt_tokens": True},
    ):
        result = only(FakeServer({**completion(), "usage": usage}))
        assert (result.prompt_tokens, result.completion_tokens) == (None, None)
