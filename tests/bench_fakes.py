"""A small experiment that needs no model: the shipped debates, hashed words, scripted answers."""

from __future__ import annotations

from pathlib import Path

from epibias.experiment.bench_inputs import Loaders
from epibias.generators import FixedGenerator
from epibias.generators.base import Failure
from fake_encoder import FakeEncoder

SMALL = """
name = "small"
axes = ["pca", "random"]
injections = [0, 1, 5]

[[dataset]]
name = "debates"
questions = 3

[[encoder]]
retrieve = "fake"

[[attack]]
kind = "injection"
[[attack]]
kind = "decoys"

[[defense]]
kind = "none"
[[defense]]
kind = "biasdef"
"""
ANSWERS = """
[[generator]]
name = "scripted"
cache = "replies.jsonl"

[answers]
repeats = 2
axes = ["pca"]

[judge]
generator = "scripted"
questions = 2
passages = 12
answers = true
"""


def script(prompt, repeat):
    """Answer as a model would that repeats its context; one question in three is too much."""
    if prompt.name == "likert":
        return str(len(prompt.user) % 7 - 3)
    if "basic income" in prompt.user:
        return Failure("timeout", "no answer within 30 s", attempts=3)
    return f"Answer {repeat}. {prompt.user[-200:]}"


class FakeLoaders(Loaders):
    """Loads nothing: a fake encoder and a scripted generator."""

    def __init__(self, answer=script):
        self._answer = answer
        self.made = []

    def encoder(self, name, *, cache=True):
        return FakeEncoder()

    def generator(self, config, choice, out, *, offline):
        self.made.append(FixedGenerator(self._answer, choice.name))
        return self.made[-1]


def write_config(folder: Path, text: str = SMALL) -> Path:
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path
