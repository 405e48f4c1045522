"""`epibias attack make` with a generator: what is made, and what is left when it goes away."""

from __future__ import annotations

import json
import socket
import time

import pytest

from attack_cli import DATA, QUESTION, make, run
from epibias.attacks import AdversarialSet
from epibias.attacks.ebi import ebi
from epibias.attacks.ebi_parts import EBISettings
from epibias.cli import attack_options, generator_options
from epibias.data_sets import load_questions
from epibias.errors import ValidityWarning
from epibias.generators import CachedGenerator, Failure, FixedGenerator
from fake_encoder import FakeEncoder


@pytest.fixture
def fake(monkeypatch):
    """An encoder of hashed words in place of the real one."""
    monkeypatch.setattr(attack_options, "loaded_encoder", lambda *_, **__: FakeEncoder())


def scripted(prompt, repeat):
    """Anchors of eight stances, and passages that take the side of their reference."""
    if prompt.name == "anchors":
        return "\n".join(
            f"[{stance:+d}] Word{stance + place} city {'for' if stance > 0 else 'against'} cars"
            for place, stance in enumerate((-3, -2, -2, -1, 1, 2, 2, 3))
        )
    side = "for" if "for cars" in prompt.user else "against"
    return f"[1] Other{repeat} city {side} cars"


@pytest.mark.usefixtures("fake")
def test_a_run_repeats_offline_what_another_was_told(capsys, tmp_path):
    replies = tmp_path / "replies.jsonl"
    settings = EBISettings(n=2, min_words=3, tolerance=2.0, max_requests=3)
    question = load_questions("debates").question(QUESTION)
    generator = CachedGenerator(FixedGenerator(scripted), replies)
    with pytest.warns(ValidityWarning, match="does not part the sides"):
        outcome = ebi(
            QUESTION, question.text, generator, FakeEncoder(), settings=settings,
            i_own_this_index=True,
        )  # fmt: skip
    options = ["--n", 2, "--min-words", 3, "--tolerance", 2, "--max-requests", 3]
    before = replies.read_bytes()
    code, said = make(
        capsys, "ebi", tmp_path / "e.jsonl", "--replies", replies, "--offline", *options
    )
    assert code == 0, said.err
    assert AdversarialSet.read(tmp_path / "e.jsonl") == outcome.adversarial
    assert replies.read_bytes() == before


@pytest.mark.usefixtures("fake")
def test_ebi_with_a_generator(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(generator_options, "generator_of", lambda *_: FixedGenerator(scripted))
    options = ["--n", 2, "--min-words", 3, "--tolerance", 2, "--max-requests", 3]
    code, said = make(capsys, "ebi", tmp_path / "e.jsonl", *options)
    document = json.loads(said.out)
    assert code == 0, said.err
    made = AdversarialSet.read(tmp_path / "e.jsonl")
    assert {len(made.of(QUESTION, side)) for side in ("positive", "negative")} == {2}
    assert document["failures"] == document["missing"] == {}
    assert document["settings"]["tolerance"] == 2
    # With the anchors of the data the generator writes none.
    code, said = make(capsys, "ebi", tmp_path / "d.jsonl", "--data-anchors", *options)
    assert code == 0, said.err
    given = AdversarialSet.read(tmp_path / "d.jsonl").passages[0].provenance["anchors"]["given"]
    assert given[0] == "carfree-anchor-01"


@pytest.mark.usefixtures("fake")
def test_ebi_that_makes_nothing_exits_with_1_and_says_why(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(
        generator_options, "generator_of", lambda *_: FixedGenerator("I would rather not.")
    )
    code, said = make(capsys, "ebi", tmp_path / "e.jsonl", "--max-requests", 1)
    assert code == 1
    document = json.loads(said.out)
    assert document["failures"] == {QUESTION: "8 of 8 anchors missing after 1 request"}
    assert document["rejections"] == {"anchors: not in the reply": 8}
    assert document["output"] is None
    assert "no passage could be made, so no file is written" in said.err
    assert not (tmp_path / "e.jsonl").exists()


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("kind", ["ebi", "topic-fliprag"])
def test_a_server_that_is_not_there_is_named_before_any_work(capsys, tmp_path, kind, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "set.jsonl").write_text("of an earlier run", encoding="utf-8")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        start = time.monotonic()
        code, said = make(
            capsys, kind, tmp_path / "set.jsonl", "--base-url", url, "--model", "m",
            "--replies", tmp_path / "replies.jsonl",
        )  # fmt: skip
    assert code == 2
    assert time.monotonic() - start < 5
    assert said.err == (
        "epibias: --base-url: expected a server that takes connections (start it, or correct its "
        f"address), got {url} was not reached: Connection refused\n"
    )
    assert (tmp_path / "set.jsonl").read_text(encoding="utf-8") == "of an earlier run"
    assert len(list(tmp_path.iterdir())) == 1


GONE = Failure("down", "http://127.0.0.1:9/v1 was not reached: Connection refused", attempts=4)
SHORT = ["--n", 2, "--per-request", 1, "--min-words", 3, "--tolerance", 2, "--max-requests", 3]


@pytest.mark.usefixtures("fake")
def test_a_server_that_dies_leaves_what_was_made_and_the_run_goes_on(capsys, tmp_path, monkeypatch):
    answered = []

    def for_a_while(limit):
        def answer(prompt, repeat):
            if len(answered) == limit:
                return GONE
            answered.append(prompt)
            return scripted(prompt, repeat)

        def generator_of(url, model, key, gguf, replies, *rest):
            asked = FixedGenerator(answer)
            return asked if replies is None else CachedGenerator(asked, replies)

        monkeypatch.setattr(generator_options, "generator_of", generator_of)

    two = ["--question", "fourday-query-01"]
    for_a_while(1000)
    code, said = make(capsys, "ebi", tmp_path / "whole", *SHORT, *two)
    assert code == 0, said.err
    n_requests = len(answered)
    answered.clear()
    for_a_while(n_requests - 3)
    keep = ["--replies", tmp_path / "replies"]
    code, said = make(capsys, "ebi", tmp_path / "set", *SHORT, *two, *keep)
    assert code == 1
    assert not (tmp_path / "set").exists()
    kept = AdversarialSet.read(tmp_path / "set.unfinished")
    assert len(kept.of(QUESTION)) == 4
    document = json.loads(said.out)
    assert document["output"] == str(tmp_path / "set.unfinished")
    assert document["stopped"] == [
        f"epibias: the generator went away, 1 question unfinished: {GONE.message}",
        f"epibias: {len(kept)} passages are kept in {document['output']}; the same command goes "
        f"on: it asks only for what {tmp_path / 'replies'} does not hold",
    ]
    assert document["stopped"][0] in said.err
    # The same command goes on, and the set is that of a run that was never stopped.
    for_a_while(1000)
    code, said = make(capsys, "ebi", tmp_path / "set", *SHORT, *two, *keep)
    assert code == 0, said.err
    assert len(answered) == n_requests
    assert (tmp_path / "set").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "set.unfinished").exists()
    # Nothing at all was made, and nothing keeps the replies: no file, and the option is named.
    answered.clear()
    for_a_while(0)
    code, said = make(capsys, "ebi", tmp_path / "none", *SHORT)
    assert code == 1
    assert "no passage was made; give --replies FILE" in said.err
    assert not list(tmp_path.glob("none*"))


@pytest.mark.usefixtures("fake")
def test_a_run_that_is_interrupted_says_how_it_goes_on(capsys, tmp_path, monkeypatch):
    def answer(prompt, repeat):
        if prompt.name == "adversarial":
            raise KeyboardInterrupt
        return scripted(prompt, repeat)

    replies = tmp_path / "replies"
    kept = CachedGenerator(FixedGenerator(answer), replies)
    monkeypatch.setattr(generator_options, "generator_of", lambda *_: kept)
    code, said = make(capsys, "ebi", tmp_path / "set", *SHORT, "--replies", replies)
    assert code == 130
    how = f"the same command goes on: it asks only for what {replies} does not hold"
    assert said.err.splitlines()[-2:] == [f"epibias: {how}", "epibias: interrupted"]
    assert [path.name for path in tmp_path.iterdir()] == ["replies"]
    assert len(CachedGenerator(None, replies)) == 1


@pytest.mark.usefixtures("fake")
def test_passages_that_a_dead_generator_did_not_edit_are_no_result(capsys, tmp_path, monkeypatch):
    answered = []

    def answer(prompt, repeat):
        answered.append(prompt)
        passage = prompt.user.split('Passage:\n"')[1].split('"\n')[0]
        return GONE if len(answered) > 4 else f"[1] {passage} Yes."

    monkeypatch.setattr(generator_options, "generator_of", lambda *_: FixedGenerator(answer))
    short = ["--passages", 2, "--rounds", 2, "--max-evaluations", 5, "--length", 2, "--edits", 1]
    two = ["--question", "fourday-query-01"]
    code, said = make(capsys, "topic-fliprag", tmp_path / "set", *short, *two)
    assert code == 1
    assert len(answered) == 5
    made = AdversarialSet.read(tmp_path / "set.unfinished")
    assert {one.polarity for one in made.passages} == {"positive"}
    assert not (tmp_path / "set").exists()
    assert "the generator went away, 2 questions unfinished" in said.err


@pytest.mark.usefixtures("fake")
def test_a_question_without_anchors_does_not_end_the_run(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(generator_options, "generator_of", lambda *_: FixedGenerator("no form"))
    data = ["--data", DATA / "wiki_balance", "--data-anchors", "--max-requests", 1]
    options = ["-o", tmp_path / "e.jsonl", "--i-own-this-index", "--json"]
    code, said = run(capsys, "make", "ebi", *data, *options)
    assert code == 1  # nothing of the form came
    document = json.loads(said.out)
    assert document["failures"] == {"8002_3": "the data has 0 anchors for it"}
    assert document["missing"] == {"-7001_0": {"positive": 10, "negative": 10}}
