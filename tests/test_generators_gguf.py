"""The GGUF runner, with a stand-in for the library: what it is told, and what is made of it.

The real library and a real model are run by bench/offline_run.py.
"""

from __future__ import annotations

import json
import os
import sys
import types

import pytest

from epibias.errors import InputError, MissingExtraError
from epibias.generators import Failure, GGUFGenerator, Prompt, Reply
from epibias.generators.base import Sampling
from fake_servers import completion

PROMPT = Prompt("own", "1", "Why?", "Be brief.")


class Library(types.ModuleType):
    """What the runner uses of xllamacpp."""

    __version__ = "0.test"

    def __init__(self):
        super().__init__("xllamacpp")
        self.answers, self.bodies, self.parameters = [completion()], [], []
        self.wait_policy = os.environ.get("OMP_WAIT_POLICY")

    def CommonParams(self):  # its name there
        cpus = [types.SimpleNamespace(n_threads=-1) for _ in range(2)]
        return types.SimpleNamespace(
            model=types.SimpleNamespace(path=""), cpuparams=cpus[0], cpuparams_batch=cpus[1]
        )

    def Server(self, parameters):
        self.parameters.append(parameters)
        if parameters.n_ctx == 128:
            raise RuntimeError("failed to load\n model")
        return types.SimpleNamespace(handle_chat_completions=self._answer)

    def _answer(self, body):
        self.bodies.append(body)
        answer = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def library(monkeypatch):
    stand_in = Library()
    monkeypatch.setitem(sys.modules, "xllamacpp", stand_in)
    return stand_in


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF rest")
    return file


def test_a_reply_and_what_the_library_was_told(library, path):
    generator = GGUFGenerator(path, threads=3, context=1000)
    assert not library.parameters, "the model is loaded by the first prompt"
    [result] = generator.generate([PROMPT], temperature=0.5, max_tokens=7, seed=1, repeat=2)
    assert result == Reply("Yes.", "stop", 11, 3)
    [told] = library.parameters
    assert (told.model.path, told.n_ctx, told.n_parallel) == (str(path), 1000, 1)
    assert (told.cpuparams.n_threads, told.cpuparams_batch.n_threads) == (3, 3)
    assert (told.hostnames, len(told.api_keys[0])) == (["127.0.0.1"], 32)
    [body] = library.bodies
    assert [message["content"] for message in body["messages"]] == ["Be brief.", "Why?"]
    assert (body["temperature"], body["max_tokens"]) == (0.5, 7)
    assert body["seed"] == Sampling(seed=1, repeat=2).seed_of(PROMPT)
    assert body["cache_prompt"] is False
    generator.generate([PROMPT, PROMPT])
    assert (len(library.parameters), len(library.bodies)) == (1, 3)


def test_the_identity_is_of_the_file_not_of_its_place(library, path, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "small.gguf").write_bytes(path.read_bytes())
    identity = GGUFGenerator(path).identity
    assert identity == GGUFGenerator(other / "small.gguf").identity
    assert identity["xllamacpp"] == "0.test"
    assert str(tmp_path) not in json.dumps(identity)
    (other / "small.gguf").write_bytes(b"GGUF other")
    assert identity != GGUFGenerator(other / "small.gguf").identity
    assert identity != GGUFGenerator(path, parallel=2).identity
    assert identity != GGUFGenerator(path, reuse_context=True).identity
    assert GGUFGenerator(path, name="a model").identity["model"] == "a model"


def test_several_at_a_time_keep_their_order(library, path):
    library._answer = lambda body: completion(body["messages"][-1]["content"])
    generator = GGUFGenerator(path, parallel=3, context=200)
    results = generator.generate([Prompt("own", "1", str(n)) for n in range(9)])
    assert [result.text for result in results] == [str(n) for n in range(9)]
    [told] = library.parameters
    assert (told.n_parallel, told.n_ctx) == (3, 600)


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (
            RuntimeError("request (9 tokens)\nexceeds"),
            "refused",
            "llama.cpp: request (9 tokens) exceeds",
        ),
        ({"error": {"message": "bad grammar"}}, "refused", "llama.cpp: bad grammar"),
        ({"code": 400}, "refused", "llama.cpp: {'code': 400}"),
        (json.dumps(completion("I am", "length")), "truncated", "max_tokens is 512"),
        (completion(" "), "empty", "the answer is blank"),
        ({"choices": []}, "empty", "empty list"),
    ],
)
def test_faults_by_their_names(library, path, answer, reason, words):
    library.answers = [answer]
    [result] = GGUFGenerator(path).generate([PROMPT])
    assert isinstance(result, Failure)
    assert result.reason == reason
    assert words in result.message


def test_files_that_are_no_models(library, path, tmp_path):
    with pytest.raises(InputError, match=r"path: expected a GGUF file, got No such file"):
        GGUFGenerator(tmp_path / "none.gguf")
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    with pytest.raises(InputError, match=r"one that begins with b'<htm'"):
        GGUFGenerator(tmp_path / "page.gguf")
    with pytest.raises(InputError, match=r"a model that loads, got failed to load model"):
        GGUFGenerator(path, context=128).generate([PROMPT])
    with pytest.raises(InputError, match=r"threads"):
        GGUFGenerator(path, threads=0)


def test_the_library_is_imported_with_passive_waits_and_the_environment_left_alone(
    monkeypatch, path
):
    seen = []

    def load(argument, package, extra):
        seen.append(os.environ.get("OMP_WAIT_POLICY"))
        return Library()

    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr("epibias._validate.extra", load)
    GGUFGenerator(path)
    assert "OMP_WAIT_POLICY" not in os.environ
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")  # the user's own choice
    GGUFGenerator(path)
    assert seen == ["PASSIVE", "ACTIVE"]


def test_without_the_library_the_extra_is_named(monkeypatch, path):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[gguf\]"):
        GGUFGenerator(path)
