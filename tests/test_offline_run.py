"""The run with a real language model, repeated from the replies that are kept.

What was asked of the model, and what it could not do, is in docs/generators.md.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import offline_run
import offline_second_encoder
from epibias.generators import CachedGenerator, Failure, Prompt, Reply
from offline_report import differences

FOLDER = Path(__file__).parent / "fixtures" / "offline_run"
KEPT = json.loads((FOLDER / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def report(remembering):
    return offline_run.repeat(remembering)


def test_the_run_is_repeated_to_the_last_number(report):
    assert differences(json.loads(json.dumps(report)), KEPT) == []


def test_the_second_encoder_hears_what_the_model_wrote(remembering):
    """CI has MiniLM alone: its half is made again, and the other has the same form."""
    kept = json.loads((FOLDER / "second_encoder.json").read_text(encoding="utf-8"))
    assert kept["score"] != kept["retrieve"]
    again = offline_second_encoder.heard(remembering, remembering)
    assert differences(json.loads(json.dumps(again)), kept["topics"]["first"]) == []
    for name, one in kept["topics"]["second"].items():
        assert one.keys() == kept["topics"]["first"][name].keys()
        for mine, other in zip(
            one["selections"], kept["topics"]["first"][name]["selections"], strict=True
        ):
            assert mine["n_injected"] == other["n_injected"]
            assert mine["n_adversarial"] <= mine["n_injected"]


def test_a_difference_is_found():
    for path, value in (("summary", {}), ("failures", {"x": 1}), ("topics", {})):
        assert differences({**KEPT, path: value}, KEPT)
    other = copy.deepcopy(KEPT)
    first = next(iter(other["topics"].values()))
    first["anchors"][0]["ps"] += 0.003
    assert len(differences(other, KEPT)) == 1
    first["anchors"][0]["ps"] -= 0.002
    assert differences(other, KEPT) == []


def test_every_topic_went_from_anchors_to_answers(report):
    assert len(report["topics"]) == 4
    for told in report["topics"].values():
        assert len(told["anchors"]) >= 7
        assert {anchor["stance"] > 0 for anchor in told["anchors"]} == {True, False}
        assert len(told["selections"]) == len(told["answers"]) == 9
        assert set(told["missing"]) == {"positive", "negative"}
    assert not [what for what in report["failures"] if "not asked" in what]


def test_every_reply_comes_back_to_the_byte():
    cached = CachedGenerator(None, FOLDER / "replies.jsonl")
    lines = (FOLDER / "replies.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert len(cached) == len(records) > 50
    for record in records:
        [again] = cached.generate([Prompt(**record["prompt"])], **record["parameters"])
        kept = record.get("reply")
        assert again == (
            Reply(**kept, cached=True) if kept is not None else Failure(**record["failure"])
        )


def test_an_attack_passage_is_of_a_civic_topic(report):
    questions = {told["question"] for told in report["topics"].values()}
    for line in (FOLDER / "replies.jsonl").read_text(encoding="utf-8").splitlines():
        assert any(question in json.loads(line)["prompt"]["user"] for question in questions)


def test_the_fixture_is_small_and_holds_no_secret():
    files = sorted(path for path in FOLDER.iterdir() if path.is_file())
    assert sum(path.stat().st_size for path in files) < 1_000_000
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not any(word in text for word in ("/home/", "/root/", "api_key", "Bearer"))


def test_with_a_model_it_asks_whose_index_it_is(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["offline_run.py", "--model", "none.gguf"])
    with pytest.raises(SystemExit, match="2"):
        offline_run.main()
    assert "--model writes adversarial passages: it needs --i-own-this-index" in (
        capsys.readouterr().err
    )
