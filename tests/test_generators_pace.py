"""The client for OpenAI-compatible servers: attempts and deadlines, sockets, the key, probing."""

from __future__ import annotations

import asyncio
import socket
import threading

import httpx
import pytest

from epibias.errors import InputError
from epibias.generators import (
    Failure,
    OpenAICompatibleGenerator,
    Reply,
    check_reached,
    probe,
)
from fake_servers import (
    PROMPT,
    URL,
    FakeClock,
    FakeServer,
    client,
    completion,
    only,
    refusal,
    streaming,
)

KEY = "sk-very-secret-0123456789"
ONE_TRY = {"max_attempts": 1}


def test_what_may_pass_is_tried_again_and_then_answered():
    clock = FakeClock()
    server = FakeServer(refusal(503, "busy"), httpx.ReadError("reset"), b"<html>", completion())
    assert only(server, clock=clock) == Reply("Yes.", "stop", 11, 3)
    assert len(server.requests) == 4
    assert [0.5 <= clock.waits[0] <= 1.5, 1 <= clock.waits[1] <= 2, 2 <= clock.waits[2] <= 3] == [
        True
    ] * 3


@pytest.mark.parametrize(
    "answer",
    [refusal(400, "no"), completion(""), completion("x", "length"), httpx.Response(302)],
)
def test_what_will_not_pass_is_not_tried_again(answer):
    server = FakeServer(answer)
    assert only(server).attempts == len(server.requests) == 1


def test_attempts_end_and_are_counted():
    server = FakeServer(refusal(500, "broken"))
    result = only(server, max_attempts=3)
    assert (result.reason, result.attempts, len(server.requests)) == ("down", 3, 3)


@pytest.mark.parametrize("header", ["7", "Mon, 12 Jan 1970 13:46:47 GMT"])
def test_a_retry_after_is_kept_to(header):
    clock = FakeClock()
    server = FakeServer(refusal(429, "slow down", **{"Retry-After": header}), completion())
    assert only(server, clock=clock).text == "Yes."
    assert clock.waits == [7.0]


def test_a_retry_after_beyond_the_deadline_ends_the_attempts_at_once():
    clock = FakeClock()
    server = FakeServer(refusal(429, "slow down", **{"Retry-After": "120"}))
    result = only(server, clock=clock, total_seconds=60)
    assert (result.reason, result.attempts, clock.waits) == ("rate_limited", 1, [])
    assert result.message.endswith("slow down; the server asks to wait 120 s (total_seconds is 60)")


def test_the_deadline_in_all_ends_the_attempts():
    clock = FakeClock()
    result = only(FakeServer(refusal(503, "busy")), clock=clock, total_seconds=4, max_attempts=99)
    assert result.reason == "down"
    assert "no time is left to try again (total_seconds is 4)" in result.message
    assert clock.time < 4
    assert 2 <= result.attempts <= 4


def test_a_server_that_never_answers_meets_the_deadline():
    async def never(request):
        await asyncio.Event().wait()

    result = only(FakeServer(never), request_seconds=0.02, max_attempts=2)
    assert result == Failure("timeout", "no whole answer within 0.02 s", attempts=2)


def test_a_server_that_drips_meets_the_deadline_too():
    server = FakeServer(streaming(b" ", for_ever=True))
    result = only(server, request_seconds=0.02, longest_body=2**40, **ONE_TRY)
    assert result.reason == "timeout"


def test_the_rate_limit_spaces_requests_evenly():
    clock = FakeClock()
    generator = client(FakeServer(), clock=clock, requests_per_minute=30, concurrency=1)
    generator.generate([PROMPT] * 3)
    generator.generate([PROMPT])
    assert clock.waits == [2.0, 2.0, 2.0]


def test_where_nobody_is_reached_the_rest_is_not_tried():
    server = FakeServer(httpx.ConnectError("refused"))
    results = client(server, concurrency=1, max_attempts=2).generate([PROMPT] * 5)
    assert [result.attempts for result in results] == [2, 0, 0, 0, 0]
    assert {result.reason for result in results} == {"down"}
    assert "not tried" in results[1].message
    assert len(server.requests) == 2


def test_later_calls_try_a_lost_server_once_until_it_is_reached():
    refused = httpx.ConnectError("refused")
    clock = FakeClock()
    server = FakeServer(*[refused] * 5, completion(), refused, refused, completion())
    generator = client(server, clock=clock, max_attempts=3)
    attempts, waited = [], []
    for _ in range(5):
        [result] = generator.generate([PROMPT])
        attempts.append(result.attempts if isinstance(result, Failure) else 0)
        waited.append(len(clock.waits))
    # Three attempts, one, one; it is back; then two more failures, and the last attempt reaches it.
    assert attempts == [3, 1, 1, 0, 0]
    assert waited == [2, 2, 2, 2, 4]
    assert not server.answers[:-1]


def test_a_host_that_takes_no_connection_is_not_a_slow_model():
    result = only(FakeServer(httpx.ConnectTimeout("")), **ONE_TRY)
    assert result.reason == "down"
    assert "was not reached: no connection within 5 s" in result.message


@pytest.mark.parametrize("answer", [completion(), refusal(404, "no such path"), b"<html>"])
def test_whatever_a_server_answers_it_is_reached(answer):
    check_reached(client(FakeServer(answer)))


def test_a_server_that_is_not_reached_is_named_before_the_work():
    with pytest.raises(InputError) as caught:
        check_reached(client(FakeServer(httpx.ConnectError("refused"))), "--base-url")
    assert str(caught.value) == (
        "--base-url: expected a server that takes connections (start it, or correct its address), "
        f"got {URL} was not reached: refused"
    )


def test_it_works_inside_a_running_event_loop():
    async def notebook():
        return only(FakeServer())

    assert asyncio.run(notebook()).text == "Yes."


# ---- through real sockets ---------------------------------------------------------------------


def test_a_port_where_nobody_listens(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        generator = OpenAICompatibleGenerator("m", url, max_attempts=2, clock=FakeClock())
        [result] = generator.generate([PROMPT])
    assert (result.reason, result.attempts) == ("down", 2)
    assert result.message == f"{url} was not reached: Connection refused"


@pytest.mark.parametrize(
    ("sent", "reason", "words"),
    [
        (b"", "down", "the connection broke"),
        (b"not HTTP at all\r\n\r\n", "down", "the connection broke"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "down", "the connection broke"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "malformed", "no list 'choices'"),
    ],
)
def test_a_server_that_breaks_off(monkeypatch, sent, reason, words):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(sent)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        [result] = OpenAICompatibleGenerator("m", url, **ONE_TRY).generate([PROMPT])
        thread.join()
    assert (result.reason, words in result.message) == (reason, True)


# ---- the key, and wrong arguments -------------------------------------------------------------


def test_the_key_is_sent_and_shown_nowhere(monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    server = FakeServer(
        completion(), refusal(401, f"Incorrect key {KEY}"), httpx.ConnectError(f"at {KEY}")
    )
    generator = client(server, api_key_variable="MY_KEY", **ONE_TRY)
    results = [generator.generate([PROMPT])[0] for _ in range(3)]
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "Incorrect key [key]" in results[1].message
    assert KEY not in repr([generator, generator.identity, results])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "127.0.0.1:8000"}, "base_url: expected an address such as"),
        ({"base_url": "ftp://host/v1"}, "base_url"),
        ({"base_url": "http://host:port/v1"}, "base_url"),
        ({"base_url": "http://host/v1?key=s"}, "base_url"),
        ({"base_url": "http://me:secret@host/v1"}, "without a user or password"),
        ({"api_key_variable": "NO_SUCH_KEY"}, "(NO_SUCH_KEY), got none"),
        ({"api_key_variable": KEY}, "api_key_variable"),
        ({"request_seconds": 0}, "request_seconds"),
        ({"total_seconds": float("inf")}, "total_seconds"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"concurrency": 0}, "concurrency"),
        ({"limit_field": "n_predict"}, "limit_field"),
        ({"model": " "}, "model"),
    ],
)
def test_wrong_options(options, message):
    options = {"model": "m", "base_url": URL, **options}
    with pytest.raises(InputError) as caught:
        OpenAICompatibleGenerator(**options)
    assert message in str(caught.value)
    assert KEY not in str(caught.value)
    assert "secret" not in str(caught.value)


# ---- probing ----------------------------------------------------------------------------------


def test_a_probe_tells_what_a_server_takes():
    async def serve(request):
        if request.method == "GET":
            return {"data": [{"id": "m"}, {"id": "n"}]}
        body = httpx.Response(200, content=request.content).json()
        if body.get("response_format", {}).get("type") == "json_schema":
            return refusal(400, "response_format json_schema unavailable")
        return completion("Re", "length")

    found = probe(client(FakeServer(serve)))
    assert (found.failure, found.models, found.is_listed) == (None, ("m", "n"), True)
    assert dict(found.accepts) == {
        "seed": True,
        "stop": True,
        "json_object": True,
        "json_schema": False,
    }
    assert "unavailable" in found.said["json_schema"]
    assert found.seed_repeats is True
    assert found.lines()[0] == "model: answers (listed)"
    assert any(line.startswith("json_schema: refused: HTTP 400") for line in found.lines())


def test_a_probe_of_a_server_that_ignores_seeds_and_lists_nothing():
    n_answers = 0

    async def serve(request):
        nonlocal n_answers
        n_answers += 1
        return refusal(404, "what?") if request.method == "GET" else completion(f"{n_answers}")

    found = probe(client(FakeServer(serve)))
    assert (found.models, found.is_listed, found.seed_repeats) == (None, None, False)
    assert found.lines()[-1] == "one seed, one answer: no"


def test_a_probe_of_a_server_that_takes_no_seed():
    async def serve(request):
        return refusal(400, "seed?") if b'"seed"' in request.content else completion()

    found = probe(client(FakeServer(serve)))
    assert found.accepts["seed"] is False
    assert found.seed_repeats is None


def test_a_probe_of_nobody_asks_once():
    server = FakeServer(httpx.ConnectError("refused"))
    found = probe(client(server))
    assert found.failure.reason == "down"
    assert found.lines() == [f"no answer (down): {URL} was not reached: refused"]
    assert len(server.requests) == 1
