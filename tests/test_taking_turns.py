"""`--jobs` threads share encoders, NLI models and generators: one is inside at a time."""

from __future__ import annotations

import itertools
import threading
import warnings

import numpy as np
import pytest

from epibias.encoder import encode_in_batches
from epibias.errors import TruncationWarning
from epibias.generators import CachedGenerator, FixedGenerator, Prompt
from epibias.nli import CachedNLI, FixedNLI

LONGEST_WAIT = 0.1  # seconds that the first thread gives a second one to come in


class Room:
    """Counts who is inside; who is alone waits a moment for company."""

    def __init__(self):
        self.inside = self.most = 0
        self.count = threading.Lock()
        self.company = threading.Event()

    def __enter__(self):
        with self.count:
            self.inside += 1
            self.most = max(self.most, self.inside)
            if self.inside > 1:
                self.company.set()
        self.company.wait(LONGEST_WAIT)

    def __exit__(self, *_):
        with self.count:
            self.inside -= 1


def in_two_threads(action):
    """What `action(0)` and `action(1)` give, begun together."""
    begun, found = threading.Barrier(2), {}

    def one(number):
        begun.wait()
        found[number] = action(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found[0], found[1]


def test_the_room_sees_two_threads():
    room = Room()

    def enter(_):
        with room:
            pass

    in_two_threads(enter)
    assert room.most == 2


def test_texts_are_encoded_by_one_thread_at_a_time():
    room = Room()

    class Lengths:
        n_truncated = 0

        def encode(self, texts):
            with room:
                self.n_truncated += 1
                return np.array([[len(text)] for text in texts], np.float32)

    encoder = Lengths()
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TruncationWarning)
        rows = in_two_threads(
            lambda number: encode_in_batches(encoder, ["a" * (number + 1)], "passages")
        )
    assert [one.tolist() for one in rows] == [[[1.0]], [[2.0]]]
    assert room.most == 1
    # Each tells of its own text, not of the other's too.
    assert [str(one.message)[:6] for one in told] == ["1 of 1", "1 of 1"]
    assert warnings.filters == before


def test_a_pair_is_judged_once_whatever_thread_asks(tmp_path):
    room, numbers = Room(), itertools.count(1)

    def judge(premise, hypothesis):
        with room:
            share = 1 / (1 + next(numbers))
            return (share, 1 - share, 0)

    nli = CachedNLI(FixedNLI(judge), tmp_path / "nli.jsonl")
    first, second = in_two_threads(lambda _: nli.probabilities(["a"], ["b"]))
    assert room.most == 1
    np.testing.assert_array_equal(first, second)
    assert (nli.n_judged, nli.n_known) == (1, 1)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_prompt_is_asked_once_whatever_thread_asks(tmp_path, temperature):
    room, numbers = Room(), itertools.count(1)

    def answer(prompt, repeat):
        with room:
            return f"answer {next(numbers)}"

    path, prompt = tmp_path / "replies.jsonl", Prompt("own", "1", "Why?")
    cached = CachedGenerator(FixedGenerator(answer), path)
    results = in_two_threads(lambda _: cached.generate([prompt], temperature=temperature))
    assert [one.text for [one] in results] == ["answer 1", "answer 1"]
    assert room.most == 1
    assert len(path.read_text().splitlines()) == 1
    [again] = CachedGenerator(None, path).generate([prompt], temperature=temperature)
    assert again.text == "answer 1"
