"""Answers of a real server (recorded by `bench/record_server.py`): what they are taken for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from epibias.generators.base import Failure, Reply
from epibias.generators.exchange import judge

FIXTURES = Path(__file__).parent / "fixtures"
RECORDED = json.loads((FIXTURES / "server_llama_cpp.json").read_text(encoding="utf-8"))
EXCHANGES = {one["name"]: one for one in RECORDED["exchanges"]}
REFUSED = {
    "too long": r"^HTTP 400: request \(\d+ tokens\) exceeds the available context size",
    "no such format": r"^HTTP 400: .*\(it does not take 'response_format' as given; nothing is",
    "no such limit": r"^HTTP 400: .*'max_tokens'.*\(it does not take 'max_tokens' as given; ",
    "no number": r"^HTTP 400: .*\(it does not take 'temperature' as given; ",
}


def judged(name):
    one = EXCHANGES[name]
    content = json.dumps(one["body"]).encode()
    return judge(one["status"], None, None, content, one["max_tokens"])


def test_what_was_recorded_is_what_is_judged():
    assert set(EXCHANGES) == {
        "answered", "cut off", "limit by its newer name", "JSON", *REFUSED
    }  # fmt: skip
    assert {one["headers"]["server"] for one in EXCHANGES.values()} == {"llama.cpp"}


def test_an_answer_has_its_text_why_it_ended_and_its_tokens():
    attempt = judged("answered")
    assert isinstance(attempt.result, Reply)
    usage = EXCHANGES["answered"]["body"]["usage"]
    assert attempt.result.finish_reason == "stop"
    assert attempt.result.text.strip()
    assert attempt.result.prompt_tokens == usage["prompt_tokens"] > 0
    assert attempt.result.completion_tokens == usage["completion_tokens"] > 0


@pytest.mark.parametrize("name", ["cut off", "limit by its newer name", "JSON"])
def test_an_answer_that_ran_into_its_limit_is_no_answer(name):
    attempt = judged(name)
    assert isinstance(attempt.result, Failure)
    assert (attempt.result.reason, attempt.again) == ("truncated", False)
    limit = EXCHANGES[name]["max_tokens"]
    assert attempt.result.message == f"cut off after {limit} tokens; max_tokens is {limit}"
    assert attempt.result.text == EXCHANGES[name]["body"]["choices"][0]["message"]["content"]


@pytest.mark.parametrize(("name", "message"), REFUSED.items())
def test_what_the_server_refuses_is_told_in_its_words_and_not_tried_again(name, message):
    attempt = judged(name)
    assert (attempt.result.reason, attempt.again) == ("refused", False)
    assert re.search(message, attempt.result.message)
