"""Attacks that ask for several things at once: how many at a time, and that nothing hangs on it."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from angle_encoder import AngleEncoder
from epibias import _records
from epibias.attacks import AdversarialSet
from epibias.attacks.asking import Ask, Asker, NotSent, together
from epibias.attacks.ebi import ebi, ebi_of_many
from epibias.attacks.ebi_parts import EBIQuestion, EBISettings
from epibias.errors import InputError
from epibias.generators import (
    CachedGenerator,
    Failure,
    FixedGenerator,
    OpenAICompatibleGenerator,
    Prompt,
    Reply,
)
from fake_servers import URL, completion

SETTINGS = EBISettings(
    n=2, tolerance=0.05, per_request=1, max_requests=4, min_words=3, max_similarity=0.99999
)
QUESTIONS = [EBIQuestion(f"q{number}", f"Shall town {number} build a tram?") for number in range(4)]
SAMPLING = {"temperature": 0.0, "max_tokens": 9, "seed": 0}


def town_of(text):
    return next(word for word in text.split() if word.isdigit())


def answer(user, seed):
    """Anchors, or a passage of the side and town of its prompt, at an angle by the seed."""
    town = town_of(user)
    if "[+3]" in user:
        return "\n".join(
            f"[{stance:+d}] Town {town} at angle {10 * stance + place}."
            for place, stance in enumerate((-3, -2, -2, -1, 1, 2, 2, 3))
        )
    side = -30 if "angle -" in user else 37
    return f"[1] In town {town} the tram at angle {side + seed % 5 - 2}."


class Room:
    """A server with room for several requests; the later one is sent, the sooner it is answered."""

    def __init__(self):
        self.now = self.most = self.n_requests = 0
        self.transport = httpx.MockTransport(self._answer)

    async def _answer(self, request):
        body = json.loads(request.content)
        self.now += 1
        self.n_requests += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.02 / self.n_requests)
        self.now -= 1
        words = answer(body["messages"][-1]["content"], body["seed"])
        return httpx.Response(200, json=completion(words))

    def generator(self, concurrency):
        return OpenAICompatibleGenerator(
            "m", URL, transport=self.transport, concurrency=concurrency
        )


def attack(generator, questions=QUESTIONS):
    return ebi_of_many(
        questions, generator, AngleEncoder(), i_own_this_index=True, settings=SETTINGS
    )


def test_a_step_is_one_call_for_each_number_of_answer():
    calls = []

    class Listening(FixedGenerator):
        concurrency = 4

        def generate(self, prompts, *, repeat=0, **sampling):
            calls.append(([prompt.user for prompt in prompts], repeat))
            return super().generate(prompts, repeat=repeat, **sampling)

    def work(name, n_steps, repeat):
        said = []
        for step in range(n_steps):
            prompts = [Prompt("own", "1", f"{name}{step}{place}") for place in "xy"]
            replies = yield [Ask(prompt, repeat + step) for prompt in prompts]
            said += [reply.text for reply in replies]
        return said

    works = [work("a", 1, 0), work("b", 2, 0), work("c", 0, 0), work("d", 1, 1)]
    echo = Listening(lambda prompt, repeat: f"{prompt.user}-{repeat}")
    assert together(works, Asker(echo, **SAMPLING)) == [
        ["a0x-0", "a0y-0"], ["b0x-0", "b0y-0", "b1x-1", "b1y-1"], [], ["d0x-1", "d0y-1"],
    ]  # fmt: skip
    assert calls == [
        (["a0x", "a0y", "b0x", "b0y"], 0), (["d0x", "d0y"], 1), (["b1x", "b1y"], 1),
    ]  # fmt: skip
    assert together([], Asker(echo, **SAMPLING)) == []


def test_no_request_begins_after_one_that_the_server_is_gone_for():
    asked = []

    class Dying(FixedGenerator):
        concurrency = 2

    def answer(prompt, repeat):
        asked.append((prompt.user, repeat))
        return Failure("timeout", "late", attempts=3) if len(asked) == 3 else "yes"

    def work(name):
        return (yield [Ask(Prompt("own", "1", name + place), repeat) for place, repeat in ASKS])

    ASKS = [("x", 0), ("y", 0), ("z", 1)]
    found = together([work("a"), work("b")], Asker(Dying(answer), **SAMPLING))
    # The two under way with it are answered; the steps are by the number of the answer.
    assert asked == [("ax", 0), ("ay", 0), ("bx", 0), ("by", 0)]
    late, gone = Failure("timeout", "late", 3), NotSent("timeout", "late", 0)
    assert [one.text if isinstance(one, Reply) else one for one in found[0]] == ["yes", "yes", gone]
    assert [one.text if isinstance(one, Reply) else one for one in found[1]] == [late, "yes", gone]


@pytest.mark.parametrize("n_answered", [0, 5])
def test_a_server_that_hangs_costs_one_deadline_and_not_one_for_each_request(n_answered):
    room = Room()
    hung = []

    async def serve(request):
        if room.n_requests >= n_answered:
            hung.append(request)
            await asyncio.Event().wait()
        return await room._answer(request)

    generator = OpenAICompatibleGenerator(
        "m", URL, transport=httpx.MockTransport(serve), concurrency=2, request_seconds=0.1,
        max_attempts=1,
    )  # fmt: skip
    outcomes = attack(generator)
    assert 1 <= len(hung) <= 2
    assert [one.stopped.message for one in outcomes] == ["no whole answer within 0.1 s"] * 4
    counted = sum(
        count
        for one in outcomes
        for reason, count in one.adversarial.rejections.items()
        if "timeout" in reason
    )
    assert counted == len(hung), "what was not sent is not counted"
    assert bool(sum(len(one.adversarial) for one in outcomes)) == bool(n_answered)
    assert outcomes[3].failure == (
        "8 of 8 anchors missing after 0 requests; the generator: no whole answer within 0.1 s"
    )


def test_the_server_is_given_as_much_as_it_has_room_for():
    room = Room()
    attack(room.generator(4))
    assert room.most == 4
    one = Room()
    attack(one.generator(1))
    assert one.most == 1
    assert one.n_requests == room.n_requests


def test_the_set_is_the_same_byte_for_byte_however_it_was_asked(tmp_path):
    files = []
    for concurrency in (1, 64):
        outcomes = attack(Room().generator(concurrency))
        files.append(tmp_path / f"{concurrency}.jsonl")
        AdversarialSet.joined(one.adversarial for one in outcomes).write(files[-1])
    assert len(AdversarialSet.read(files[0])) > len(QUESTIONS) * 3
    contents = {file.read_bytes() for file in files}
    assert len(contents) == 1
    # One question alone has what it has among the others.
    alone = ebi(
        "q3", QUESTIONS[3].text, Room().generator(2), AngleEncoder(),
        i_own_this_index=True, settings=SETTINGS,
    )  # fmt: skip
    assert alone.adversarial.passages == outcomes[3].adversarial.passages
    # And so has a run from the replies of another.
    replies = tmp_path / "replies.jsonl"
    attack(CachedGenerator(Room().generator(5), replies))
    again = attack(CachedGenerator(None, replies))
    AdversarialSet.joined(one.adversarial for one in again).write(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() in contents


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": " "}, "question_id: expected"),
        ({"text": ""}, "question: expected"),
        ({"stances": [1.0]}, "anchors beside them"),
        ({"anchors": []}, "at least two passages, got 0"),
        ({"candidates": []}, "at least two passages, got 0"),
        ({"candidates": 3}, "candidates: expected at least two passages, got 3"),
        ({"anchors": ["a", "b"]}, r"anchors: expected passages, got str \(row 0\)"),
    ],
)
def test_a_question_that_is_none_is_refused_before_anything_is_asked(options, message):
    with pytest.raises(InputError, match=message):
        EBIQuestion(**{"id": "q1", "text": "Shall town 1 build a tram?", **options})


def test_each_reply_is_on_disk_before_the_slowest_is_there(tmp_path):
    """A run that is killed, or whose disk is full, asks again only for what was not answered."""
    replies = tmp_path / "replies.jsonl"
    seen = []

    async def slow_last(request):
        words = json.loads(request.content)["messages"][-1]["content"]
        if words == "0":
            for _ in range(1000):  # until all others are answered and written
                await asyncio.sleep(0.005)
                seen.append(replies.read_bytes().count(b"\n") if replies.exists() else 0)
                if seen[-1] == 5:
                    break
        return httpx.Response(200, json=completion(f"to {words}"))

    transport = httpx.MockTransport(slow_last)
    generator = OpenAICompatibleGenerator("m", URL, transport=transport, concurrency=2)
    prompts = [Prompt("own", "1", str(number)) for number in range(6)]
    found = CachedGenerator(generator, replies).generate(prompts)
    assert [one.text for one in found] == [f"to {number}" for number in range(6)]
    assert seen[-1] == 5
    again = CachedGenerator(None, replies).generate(prompts)
    assert [one.text for one in again] == [one.text for one in found]


def test_a_full_disk_ends_the_asking_and_keeps_whole_lines(tmp_path, monkeypatch):
    replies = tmp_path / "replies.jsonl"
    append = _records.append_lines

    def full_after_two(path, lines):
        if path.exists() and path.read_bytes().count(b"\n") == 2:
            raise InputError("path", "a path that can be written", "No space left", str(path))
        append(path, lines)

    monkeypatch.setattr(_records, "append_lines", full_after_two)
    room = Room()
    prompts = [Prompt("own", "1", f"Town {number} angle") for number in range(40)]
    with pytest.raises(InputError, match="No space left"):
        CachedGenerator(room.generator(2), replies).generate(prompts)
    assert len(CachedGenerator(None, replies)) == 2
    assert room.n_requests < 10, "the rest is not asked for"
