"""Replies on disk: what is asked once is not asked again, and nothing is lost or mistaken."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from epibias.errors import InputError, TornRecordWarning
from epibias.generators import (
    CachedGenerator,
    Failure,
    FixedGenerator,
    Prompt,
    Reply,
)
from epibias.generators.base import REASONS

PROMPTS = [Prompt("own", "1", user, "Be brief.") for user in ("Why?", "Who?", "When?")]


def echo(prompt, repeat):
    return f"{prompt.user} {repeat} “é”\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "replies.jsonl"


@pytest.fixture
def filled(path):
    CachedGenerator(FixedGenerator(echo), path).generate(PROMPTS)
    return path


def test_a_repeated_run_asks_nobody_and_has_the_same_texts(filled):
    before = filled.read_bytes()
    generator = FixedGenerator(echo)
    cached = CachedGenerator(generator, filled)
    results = cached.generate(PROMPTS)
    assert [result.text for result in results] == [echo(prompt, 0) for prompt in PROMPTS]
    assert all(result.cached for result in results)
    assert (generator.n_calls, cached.n_known, cached.n_asked) == (0, 3, 0)
    assert filled.read_bytes() == before


def test_fresh_replies_say_so_and_known_ones_too(path):
    cached = CachedGenerator(FixedGenerator(echo), path)
    first, second = cached.generate(PROMPTS[:1]), cached.generate(PROMPTS[:1])
    assert first == [Reply(echo(PROMPTS[0], 0), "stop", None, None, cached=False)]
    assert second == [Reply(echo(PROMPTS[0], 0), "stop", None, None, cached=True)]


@pytest.mark.parametrize(
    "other",
    [
        {"temperature": 0.5},
        {"max_tokens": 9},
        {"seed": 1},
        {"seed": None},
        {"stop": ["x"]},
        {"repeat": 1},
    ],
)
def test_each_parameter_is_part_of_the_key(filled, other):
    [result] = CachedGenerator(None, filled).generate(PROMPTS[:1], **other)
    assert result == Failure("down", "offline, and not in replies.jsonl", attempts=0)


def test_numbers_of_numpy_are_the_same_numbers(filled):
    numbers = {"max_tokens": np.int64(512), "seed": np.int32(0), "repeat": np.int64(0)}
    [result] = CachedGenerator(None, filled).generate(
        PROMPTS[:1], temperature=np.float32(0), **numbers
    )
    assert result.cached


def test_both_texts_of_the_prompt_are_part_of_the_key_and_its_name_is_not(filled):
    cached = CachedGenerator(None, filled)
    others = [
        Prompt("own", "1", "Why?"),
        Prompt("own", "1", "Why!", "Be brief."),
        Prompt("own", "1", "Be brief.", "Why?"),
        Prompt("new", "2", "Why?", "Be brief."),
    ]
    assert [isinstance(result, Reply) for result in cached.generate(others)] == [False] * 3 + [True]


def test_another_generator_gets_nothing_of_this_one(filled):
    other = FixedGenerator("other", name="other")
    [result] = CachedGenerator(other, filled).generate(PROMPTS[:1])
    assert (result.text, result.cached) == ("other", False)
    with pytest.raises(
        InputError, match=r"replies of one generator, or the argument identity, got those of 2"
    ):
        CachedGenerator(None, filled)
    first = CachedGenerator(None, filled, identity=FixedGenerator("").identity)
    assert first.generate(PROMPTS[:1])[0].text == echo(PROMPTS[0], 0)
    assert first.identity == {"kind": "fixed", "model": "fixed"}


def test_equal_prompts_are_asked_once(path):
    generator = FixedGenerator(echo)
    results = CachedGenerator(generator, path).generate([PROMPTS[0], PROMPTS[1], PROMPTS[0]])
    assert generator.n_calls == 2
    assert results[0] == results[2]
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_offline_never_asks_even_where_it_could(filled):
    generator = FixedGenerator(echo)
    cached = CachedGenerator(generator, filled, offline=True)
    assert cached.generate(PROMPTS, repeat=1)[0].reason == "down"
    assert generator.n_calls == 0


def test_a_file_that_may_only_be_read_is_enough_offline(filled):
    filled.chmod(0o400)
    assert CachedGenerator(None, filled).generate(PROMPTS)[2].text == echo(PROMPTS[2], 0)


@pytest.mark.parametrize(
    ("reason", "is_kept"),
    [(reason, reason in ("truncated", "empty")) for reason in REASONS],
)
def test_what_is_the_models_doing_is_kept_and_what_is_the_networks_is_not(path, reason, is_kept):
    failure = Failure(reason, "so it was", 2, "I am" if reason == "truncated" else None)
    generator = FixedGenerator([failure, "better"])
    CachedGenerator(generator, path).generate(PROMPTS[:1])
    [second] = CachedGenerator(generator, path).generate(PROMPTS[:1])
    assert second == failure if is_kept else second.text == "better"


def test_answers_are_on_disk_before_the_next_question(path):
    seen = []

    def look(prompt, repeat):
        seen.append(path.read_bytes().count(b"\n") if path.exists() else 0)
        return "so"

    CachedGenerator(FixedGenerator(look), path).generate(PROMPTS)
    assert seen == [0, 1, 2]


def test_a_generator_with_several_at_a_time_gets_several(path):
    sizes = []

    class Wide(FixedGenerator):
        concurrency = 2

        def generate(self, prompts, **parameters):
            sizes.append(len(prompts))
            return super().generate(prompts, **parameters)

    CachedGenerator(Wide(echo), path).generate([Prompt("o", "1", str(n)) for n in range(11)])
    assert sizes == [4, 4, 3]


# ---- crashes, full disks, other processes -------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_torn_last_line_is_told_left_out_and_mended(filled, cut):
    content = filled.read_bytes()
    filled.write_bytes(content[:-cut])
    with pytest.warns(TornRecordWarning, match=r"replies.jsonl, line 3 is incomplete"):
        cached = CachedGenerator(FixedGenerator(echo), filled)
    assert (len(cached), cached.n_torn) == (2, 1)
    assert [result.cached for result in cached.generate(PROMPTS)] == [True, True, False]
    assert filled.read_bytes() == content


def test_the_torn_line_is_told_whole_and_where_the_file_was_opened(filled):
    content = filled.read_bytes()
    filled.write_bytes(content[:-7])
    with pytest.warns(TornRecordWarning) as told:
        CachedGenerator(None, filled)
    [one] = told
    n_lines = content.count(b"\n")
    assert str(one.message) == f"replies.jsonl, line {n_lines} is incomplete and is not used"
    assert one.filename == __file__


def test_a_torn_first_line(path):
    path.write_bytes(b'{"layout": 1')
    with pytest.warns(TornRecordWarning):
        cached = CachedGenerator(FixedGenerator("so"), path)
    cached.generate(PROMPTS[:1])
    assert len(CachedGenerator(None, path)) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"not JSON", "expected a JSON object, got 'not JSON'"),
        (b"\xff\xff", "expected a JSON object"),
        (b"[1]", "a record of a reply, layout 1, got list of length 1"),
        (b'{"layout": 2}', "layout 1, got 2"),
        (b'{"layout": 1}', "a record with key, identity and reply"),
        (b'{"layout": 1, "reply": {"text": 7}, "key": "k", "identity": {}}', "a record with key"),
        (
            b'{"layout": 1, "failure": {"reason": "tired", "message": "", "attempts": 1}}',
            "a record",
        ),
        (
            b'{"layout": 1, "failure": {"reason": "empty", "message": "", "attempts": 1},'
            b' "key": 7, "identity": {}}',
            "a record with key and identity",
        ),
    ],
)
def test_a_line_that_is_no_record_is_told_by_its_number(filled, line, message):
    lines = filled.read_bytes().splitlines()
    filled.write_bytes(b"\n".join([lines[0], line, lines[2], b""]))
    with pytest.raises(InputError) as caught:
        CachedGenerator(FixedGenerator(echo), filled)
    assert message in str(caught.value)
    assert str(caught.value).endswith("replies.jsonl, line 2)")


def test_the_file_is_private(filled):
    assert stat.S_IMODE(filled.stat().st_mode) == 0o600


def test_a_full_disk_is_told_and_leaves_whole_lines(filled, monkeypatch):
    content = filled.read_bytes()
    real = os.write
    room = 25

    def write(descriptor, data):
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        part, room = data[:room], room - min(room, len(data))
        return real(descriptor, part)

    cached = CachedGenerator(FixedGenerator(echo), filled)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(InputError, match=r"space left, got No space left on device"):
            cached.generate(PROMPTS, repeat=1)
    assert filled.read_bytes() == content
    assert len(CachedGenerator(None, filled)) == 3


def test_a_folder_that_is_not_there(tmp_path):
    cached = CachedGenerator(FixedGenerator("so"), tmp_path / "no" / "replies.jsonl")
    with pytest.raises(InputError, match=r"path that can be written"):
        cached.generate(PROMPTS)
    with pytest.raises(InputError, match=r"path: expected a file of replies, got none"):
        CachedGenerator(None, tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"path: expected a file to read"):
        CachedGenerator(None, tmp_path)


def _write_many(path, worker):
    cached = CachedGenerator(FixedGenerator(lambda prompt, repeat: "x" * 3000), path)
    for number in range(20):
        cached.generate([Prompt("own", "1", f"{worker} {number}")])


def test_several_write_side_by_side(path):
    # Locks belong to open files: threads with a file each meet them as processes do.
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda worker: _write_many(path, worker), range(3)))
    assert len(CachedGenerator(None, path)) == 60


_KILLED = """
import os, sys
from epibias.generators import CachedGenerator, FixedGenerator, Prompt
def answer(prompt, repeat):
    if prompt.user == "7":
        os.kill(os.getpid(), 9)
    return "so " + prompt.user
CachedGenerator(FixedGenerator(answer), sys.argv[1]).generate(
    [Prompt("own", "1", str(n)) for n in range(10)])
"""


def test_a_killed_run_loses_no_answer_and_has_none_twice(path):
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(path)], timeout=60)
    assert killed.returncode == -9
    generator = FixedGenerator(lambda prompt, repeat: f"so {prompt.user}")
    results = CachedGenerator(generator, path).generate(
        [Prompt("own", "1", str(n)) for n in range(10)]
    )
    assert [result.text for result in results] == [f"so {n}" for n in range(10)]
    assert generator.n_calls == 3
    users = [json.loads(line)["prompt"]["user"] for line in path.read_text("utf-8").splitlines()]
    assert users == [str(n) for n in range(10)]


def test_an_identity_that_json_cannot_hold(path):
    generator = FixedGenerator("so", name=object())
    with pytest.raises(InputError, match=r"identity: expected plain values"):
        CachedGenerator(generator, path)
