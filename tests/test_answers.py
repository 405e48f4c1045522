"""What is kept of an answer: the answer itself, without what a model thought before it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from epibias.experiment import answers
from epibias.generators import Failure, Prompt, Reply

INPUTS = SimpleNamespace(
    questions=[SimpleNamespace(id="q1")], clean=SimpleNamespace(name="debates", encoder="fake")
)
PROMPT = Prompt("answer", "1", "Should we?")


def record_of(result):
    return answers._record(INPUTS, 0, "llm", PROMPT, ("p1",), 0, result)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("We should.", "We should."),
        ("<think>Yes? No?</think>\n\nWe should.", "We should."),
        ("Yes? No?\n</think>\nWe should.", "We should."),
    ],
)
def test_an_answer_is_kept_without_the_thoughts_before_it(text, kept):
    found = record_of(Reply(text, "stop", 3, 4))
    assert (found["status"], found["text"], found["completion_tokens"]) == ("ok", kept, 4)


def test_thoughts_alone_are_no_answer_and_are_counted_as_a_failure():
    found = record_of(Reply("<think>Yes? No?", "stop", 3, 4))
    assert (found["status"], found["reason"]) == ("failed", "empty")
    assert found["message"] == "only reasoning came, no answer"
    assert "text" not in found
    down = record_of(Failure("down", "nobody there", attempts=3))
    assert (down["status"], down["reason"]) == ("failed", "down")
