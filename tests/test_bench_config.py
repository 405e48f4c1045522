"""The configuration of an experiment: every error names the key, the kind and what was found."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from bench_fakes import ANSWERS, SMALL, FakeLoaders, write_config
from epibias.attacks import AdversarialPassage, AdversarialSet
from epibias.corpus import Corpus, Passage
from epibias.defenses import BiasDef
from epibias.defenses.registry import REGISTRY
from epibias.errors import InputError, ValidityWarning
from epibias.experiment import bench_inputs
from epibias.experiment.bench import Experiment, run_bench
from epibias.experiment.bench_inputs import attacks_of, check_extras, load_set, set_identity
from epibias.experiment.config import SHIPPED, read_config
from epibias.experiment.config_types import DefenseChoice
from epibias.experiment.defense_kinds import KINDS, Services, make_defense
from epibias.experiment.dry_run import dry_run
from epibias.experiment.plan import demo_plan


def test_a_file_becomes_checked_values(tmp_path):
    config = read_config(write_config(tmp_path, SMALL + ANSWERS))
    assert config.injections == (1, 5)
    assert config.polarities == ("positive", "negative")
    assert config.datasets[0].n_questions == 3
    assert config.encoders[0].name == "fake"
    assert config.answers.repeats == 2
    assert config.judge.passages == 12
    assert config.path("x.jsonl") == tmp_path / "x.jsonl"
    assert [attack.key for attack in attacks_of(config)] == [
        "clean",
        "injection-positive-1",
        "injection-negative-1",
        "injection-positive-5",
        "injection-negative-5",
        "decoys-positive",
        "decoys-negative",
    ]


WRONG = [
    ('name = "small"', "", r"^name: expected a value, got nothing \(.*small\.toml\)$"),
    ('name = "small"', "name = 5", r"^name: expected a text, got int"),
    ('axes = ["pca", "random"]', 'axes = ["pcs"]', r"^axes\[0\]: expected 'pca' or .*got 'pcs'"),
    ('axes = ["pca", "random"]', 'axes = "pca"', r"^axes: expected an array .*got 'pca'"),
    ("[0, 1, 5]", "[1, 1]", r"^injections: expected each value once, got \[1, 1\]"),
    ("[0, 1, 5]", "[-1]", r"^injections\[0\]: expected an integer of at least 0, got -1"),
    ("questions = 3", "questions = 0", r"^dataset\[0\]\.questions: expected an integer of at "),
    ("questions = 3", "question = 3", r"dataset\[0\]\.question: .*did you mean 'questions'"),
    ('retrieve = "fake"', "", r"^encoder\[0\]\.retrieve: expected a value, got nothing"),
    ('kind = "decoys"', 'kind = "lies"', r"^attack\[1\]\.kind: expected 'injection' or .*'lies'"),
    ('kind = "decoys"', 'kind = "file"', r"^attack\[1\]\.name: expected a value, got nothing"),
    ('kind = "decoys"', 'kind = "injection"', r"^attack\[1\]: expected each name once"),
    ('kind = "biasdef"', 'kind = "biasdeff"', r"^defense\[1\]\.kind: expected 'none' or"),
    ('kind = "biasdef"', 'kind = "mmr"\nkey = "a/b"', r"^defense\[1\]\.key: expected letters"),
    ('kind = "none"', 'kind = "mmr"', r"^defense\[0\]\.kind: expected kind 'none' first"),
    ("[[encoder]]", "[encoder]", r"^encoder: expected tables, each under \[\[encoder\]\]"),
    ('name = "small"', 'name = "small', r"^configuration: expected TOML, got .*line 2"),
    ('name = "small"', 'name = "small"\nspeed = 1', r"^speed: expected one of .*a key that is not"),
    ('name = "small"', 'name = "a"\nfact_check = true', r"^fact_check: expected false, or a table"),
    ('"scripted"\ncache = "replies.jsonl"', '"scripted"', r"^generator\[0\]\.url: expected a url"),
    ("repeats = 2", 'repeats = "2"', r"^answers\.repeats: expected an integer from 1 to 100"),
    ('axes = ["pca"]', 'axes = ["ridge"]', r"^answers\.axes: expected some of pca, random"),
    ('[judge]\ngenerator = "scripted"', '[judge]\ngenerator = "gpt"',
     r"^judge\.generator: expected the name of a \[\[generator\]\]: scripted, got 'gpt'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_wrong_key_is_named(tmp_path, old, new, message):
    text = SMALL + ANSWERS
    assert old in text
    with pytest.raises(InputError, match=message):
        read_config(write_config(tmp_path, text.replace(old, new)))


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match=r"configuration: expected a file that can be read"):
        read_config(tmp_path / "none.toml")


def test_parameters_of_a_defence_are_checked_by_name_and_value():
    with pytest.raises(InputError, match=r"defense 'b', parameters\.gates: expected one of .*gate"):
        make_defense(DefenseChoice("biasdef", "b", None, {"gates": 1}), 5, 0, Services())
    with pytest.raises(InputError, match=r"defense 'b', parameters\.side: expected 'right' or"):
        make_defense(DefenseChoice("biasdef", "b", None, {"side": "left"}), 5, 0, Services())
    with pytest.raises(InputError, match=r"defense 's', kind: expected a table \[nli\]"):
        make_defense(DefenseChoice("smart", "s"), 5, 0, Services())
    made = make_defense(DefenseChoice("biasdef", "b", None, {"gate": 0.1}), 3, 7, Services())
    assert made.defense == BiasDef(k=3, gate=0.1, seed=7)
    assert made.title == "BiasDef gate=0.1"


def test_passages_of_a_file_stand_in_for_those_of_the_set(tmp_path):
    from epibias.data_sets import load_questions

    [question, other] = load_questions("debates").questions[:2]
    made = [
        AdversarialPassage(Passage(f"new-{n}", f"Own text {n}."), question.id, "positive", "ebi")
        for n in range(3)
    ]
    AdversarialSet(tuple(made)).write(tmp_path / "own.jsonl")
    text = SMALL.replace("questions = 3", 'adversarial = "own.jsonl"\nquestions = 2')
    config = read_config(write_config(tmp_path, text))
    loaded = load_set(config, config.datasets[0], FakeLoaders())
    found = loaded.injected(config, loaded.chosen)
    ids = [passage.id for passage in found[question.id, "injection", "positive"]]
    assert ids == ["new-0", "new-1", "new-2"]
    assert found[question.id, "injection", "negative"] == ()
    assert found[other.id, "injection", "positive"] == ()


def test_every_kind_can_stand_in_a_file_without_a_key(tmp_path):
    kinds = [f'[[defense]]\nkind = "{name}"\n' for name in KINDS if name not in ("none", "biasdef")]
    config = read_config(write_config(tmp_path, SMALL + "".join(kinds)))
    assert {one.kind for one in config.defenses} == set(KINDS)
    assert "known-answer" in [one.key for one in config.defenses]


def relabelled(loaded, **changes):
    """The same set but for something of its first question."""
    first, *rest = loaded.chosen
    return replace(loaded, chosen=(replace(first, **changes), *rest))


def test_a_set_with_the_same_texts_and_other_labels_is_another_one(tmp_path):
    config = read_config(write_config(tmp_path))
    loaded = load_set(config, config.datasets[0], FakeLoaders())
    first = loaded.chosen[0]
    sides = first.adversarial
    passage, *rest = loaded.questions.corpus
    corpus = Corpus([replace(passage, extra={**passage.extra, "stance": -9}), *rest])
    attack = [
        AdversarialSet((AdversarialPassage(Passage("a", "Text."), first.id, side, "ebi"),))
        for side in ("positive", "negative")
    ]
    others = [
        loaded,
        relabelled(
            loaded, adversarial={"positive": sides["negative"], "negative": sides["positive"]}
        ),
        *(relabelled(loaded, adversarial={side: sides["positive"]}) for side in sides),
        relabelled(loaded, stances=tuple(-one for one in first.stances)),
        relabelled(loaded, poles=("no", "yes")),
        replace(loaded, questions=replace(loaded.questions, corpus=corpus)),
        *(replace(loaded, files={"own": one}) for one in attack),
    ]
    hashes = [set_identity(one)["content_sha256"] for one in others]
    assert len(set(hashes)) == len(others)
    again = load_set(config, config.datasets[0], FakeLoaders())
    assert set_identity(again)["content_sha256"] == hashes[0]


def test_decoys_alone_need_no_number_of_injections(tmp_path):
    text = SMALL.replace("[0, 1, 5]", "[0]").replace('kind = "injection"', 'kind = "verbatim"')
    config = read_config(write_config(tmp_path, text))
    assert config.injections == ()
    found = dry_run(config, tmp_path / "run", loaders=FakeLoaders())
    assert [attack.key for attack in attacks_of(config)] == [
        "clean",
        "decoys-positive",
        "decoys-negative",
    ]
    assert found.total("cells") == 3 * 3 * 2 * 2
    loaded = load_set(config, config.datasets[0], FakeLoaders(), i_own_this_index=True)
    there = loaded.injected(config, loaded.chosen)
    assert len(there[loaded.chosen[0].id, "injection", "positive"]) == 10


def test_every_defence_of_the_registry_can_be_named():
    assert {kind.defense for kind in KINDS.values()} == set(REGISTRY) - {"chain"}
    needed = {name for kind in KINDS.values() for name in kind.needs}
    assert needed == {field.name for field in fields(Services)}


def test_a_manifest_tells_of_no_index_that_no_run_has_seen():
    made = make_defense(DefenseChoice("brra", "b", None, {"depth": 7}), 4, 3, Services())
    found = replace(demo_plan(), defenses=(made,)).settings()["defenses"]["b"]
    assert (found["depth"], found["seed"], found["k"]) == (7, 3, 4)
    assert "index" not in found
    assert "index" in made.defense.parameters()


def test_every_kind_that_needs_no_model_can_be_made():
    for name, kind in KINDS.items():
        if not kind.needs:
            made = make_defense(DefenseChoice(name, name), 4, 0, Services())
            assert made.defense.parameters()["k"] == 4, name
            assert (made.of_index is None) is (not kind.of_index)


def test_a_dry_run_counts_and_runs_nothing(tmp_path):
    config = read_config(write_config(tmp_path, SMALL + ANSWERS))
    loaders = FakeLoaders()
    found = dry_run(config, tmp_path / "run", loaders=loaders)
    [arm] = found.arms
    attacks = 1 + 2 * 2 + 2
    assert (arm.questions, arm.passages) == (3, 288)
    assert arm.cells == 3 * attacks * 2 * 2
    assert arm.texts == 3 + 3 * 8 + 288 + 3 * 2 * 10
    # Per attack two contexts (none; biasdef on pca); two repeats, each judged; 12 passages judged.
    assert arm.prompts == 3 * attacks * 2 * 2 * 2 + 12
    assert not (tmp_path / "run").exists()
    assert loaders.made == []
    assert any("cache is not there" in problem for problem in found.problems)
    assert not found.ready


def test_a_dry_run_writes_no_adversarial_text(tmp_path, monkeypatch):
    text = SMALL.replace('"decoys"', '"poisonedrag"') + '[[attack]]\nkind = "verbatim"\n'
    config = read_config(write_config(tmp_path, text))
    owned = load_set(config, config.datasets[0], FakeLoaders(), i_own_this_index=True)
    written = {key: len(found) for key, found in owned.injected(config, owned.chosen).items()}
    assert owned.n_injectable(config, owned.chosen) == written

    def refuse(*_, **__):
        raise AssertionError("a dry run writes nothing")

    for name in ("verbatim", "poisonedrag"):
        monkeypatch.setattr(bench_inputs, name, refuse)
    [arm] = dry_run(config, tmp_path / "run", loaders=FakeLoaders()).arms
    # Both sides of the hand-written ones and of their copies with the question; the question.
    assert arm.texts == 3 + 3 * 8 + 288 + 3 * (2 * 10 + 2 * 10 + 5)


def test_every_prompt_that_a_run_could_ask_for_is_counted(tmp_path):
    """The judge's share is rounded up a question; known-answer detection asks about candidates."""
    text = (SMALL + ANSWERS).replace("passages = 12", "passages = 11")
    text = text.replace('kind = "biasdef"', 'kind = "known_answer"')
    config = read_config(write_config(tmp_path, text))
    [arm] = dry_run(config, tmp_path / "run", loaders=FakeLoaders()).arms
    attacks = 1 + 2 * 2 + 2
    of_answers, of_judge = 3 * attacks * 2 * 2 * 2, 2 * 6
    # 288 passages and 3 × 2 × 10 injected ones are fewer than 3 × 7 pools of 20.
    assert arm.prompts == of_answers + of_judge + min(288 + 60, 3 * attacks * 20)


def test_polarities_of_axes_that_only_a_rule_oriented_are_told(tmp_path):
    class Unlabelled(FakeLoaders):
        def questions(self, config, choice):
            found = super().questions(config, choice)
            asked = [replace(one, stances=None) for one in found.questions[:2]]
            return replace(found, questions=(*asked, *found.questions[2:]))

    config = read_config(write_config(tmp_path))
    with pytest.warns(ValidityWarning, match="anchors of 2 of 3 questions have no stances"):
        load_set(config, config.datasets[0], Unlabelled())


def test_the_paper_can_be_counted_where_its_data_are_not(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")

    class Nowhere(FakeLoaders):
        def questions(self, config, choice):
            raise InputError("name", "a set that is here", "none")

    config = read_config("paper")
    found = dry_run(config, tmp_path / "run", loaders=Nowhere())
    wiki = found.arms[0]
    assert (wiki.dataset, wiki.questions, wiki.k) == ("wiki-balance", 452, 5)
    assert wiki.cells == 452 * 7 * len(config.defenses)
    assert config.answers.repeats == 3
    assert {one.model for one in config.generators} >= {
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
        "gpt-4.1",
    }
    assert any("wiki-balance" in line for line in found.unchecked)
    assert any("ebi-wiki-balance.jsonl is not there" in line for line in found.problems)
    assert any("tas-b" in line for line in found.unchecked)
    assert "(3 of 3 rows" not in found.lines()[0]
    assert "(1 of 3 rows above not counted)" in found.lines()[0]


def test_the_shipped_debates_are_ready(tmp_path, monkeypatch):
    (tmp_path / "debates").mkdir()  # a folder of that name is no configuration
    monkeypatch.chdir(tmp_path)
    config = read_config("debates")
    check_extras(config)
    found = dry_run(config, tmp_path / "run")
    assert found.problems == []
    assert found.total("prompts") == 0
    assert found.document()["n_cells"] == found.total("cells") > 5000


def test_what_the_file_leaves_to_the_environment_is_told_and_found(tmp_path, monkeypatch):
    """A dry run says which variable is wanted; the settings keep its name, not a path of here."""
    text = SMALL + ANSWERS.replace('cache = "replies.jsonl"', 'gguf = "${OWN_MODEL}"\nthreads = 1')
    config = read_config(write_config(tmp_path, text))
    monkeypatch.delenv("OWN_MODEL", raising=False)
    found = dry_run(config, tmp_path / "run", loaders=FakeLoaders())
    wanted = (
        "OWN_MODEL: expected a value in the environment, for '${OWN_MODEL}' in the configuration"
    )
    assert any(problem.startswith(wanted) for problem in found.problems)
    monkeypatch.setenv("OWN_MODEL", str(tmp_path / "small.toml"))
    found = dry_run(config, tmp_path / "run", loaders=FakeLoaders())
    assert "generator 'scripted': GGUF file is there" in found.checked
    settings = Experiment(config, tmp_path, FakeLoaders()).settings()
    assert settings["config"]["generators"][0]["gguf"] == "${OWN_MODEL}"
    assert "threads" not in settings["config"]["generators"][0]


def test_a_dry_run_tells_of_every_part_of_an_nli_model(tmp_path):
    def told(table):
        config = read_config(write_config(tmp_path, f"{SMALL}\n[nli]\n{table}"))
        return dry_run(config, tmp_path / "run", loaders=FakeLoaders())

    (tmp_path / "m.onnx").touch()
    found = told('kind = "onnx"\nmodel = "m.onnx"\ntokenizer = "${NO_SUCH}/t.json"')
    assert "nli: m.onnx is there" in found.checked
    assert any(problem.startswith("NO_SUCH: expected a value") for problem in found.problems)
    found = told('kind = "onnx"\nmodel = "none.onnx"\ntokenizer = "t.json"')
    assert {"nli: none.onnx is not there", "nli: t.json is not there"} <= {*found.problems}
    found = told('kind = "cross_encoder"\nmodel = "owner/name"')
    assert "nli.model 'owner/name': by name, from the model hub or its cache" in found.unchecked


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "MY_TOKEN", "db_password", "NAMED"])
def test_a_key_has_no_place_in_an_address_that_is_kept(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "s3cr3t")
    url = f'url = "http://127.0.0.1:1/${{{name}}}"\nmodel = "m"\nkey_variable = "NAMED"'
    text = SMALL + ANSWERS.replace('cache = "replies.jsonl"', url)
    config = read_config(write_config(tmp_path, text))
    with pytest.raises(InputError, match=r"expected no variable with a key here") as told:
        config.expanded(config.generators[0].url)
    assert "s3cr3t" not in str(told.value)
    assert config.expanded("a path without any") == "a path without any"


def test_a_tokenizer_is_no_token(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENIZER", "t.json")
    assert read_config(write_config(tmp_path)).expanded("${TOKENIZER}") == "t.json"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('key_variable = "sk-s3cr3t"', r"key_variable: expected the name of an environment var"),
        ('key_variable = "s3cr3t"', r"key_variable: expected the name of an environment variable"),
        ('url = "http://me:s3cr3t@host/v1"\nmodel = "m"', r"url: expected an address without a us"),
    ],
)
def test_a_key_in_the_file_itself_is_refused_and_not_shown(tmp_path, given, message):
    text = SMALL + ANSWERS.replace('cache = "replies.jsonl"', f'cache = "replies.jsonl"\n{given}')
    with pytest.raises(InputError, match=message) as told:
        read_config(write_config(tmp_path, text))
    assert "s3cr3t" not in str(told.value)


@pytest.mark.parametrize("key", ["reuse_context = true", "threads = 1"])
def test_keys_of_a_gguf_file_want_one(tmp_path, key):
    text = SMALL + ANSWERS.replace('cache = "replies.jsonl"', f'cache = "replies.jsonl"\n{key}')
    with pytest.raises(InputError, match=r"^generator\[0\]\.\w+: expected a gguf file beside it"):
        read_config(write_config(tmp_path, text))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_file_can_be_read(name):
    config = read_config(name)
    assert config.name == name
    assert config.defenses[0].kind == "none"


def test_a_place_that_takes_no_files_is_no_place_with_no_space(tmp_path):
    """Root may write anywhere, as permissions go; /proc says no."""
    config = read_config(write_config(tmp_path))
    found = dry_run(config, Path("/proc/own/run"), loaders=FakeLoaders())
    assert found.problems == ["out: /proc is no folder that can be written to"]
    assert not any("GB free" in one for one in found.checked)
    found = dry_run(config, tmp_path / "run", loaders=FakeLoaders())
    assert found.problems == []
    assert any("GB free" in one for one in found.checked)


def test_the_report_says_which_axes_a_rule_oriented(tmp_path, monkeypatch):
    monkeypatch.setattr("epibias.experiment.bench_report.svg_of", lambda _: "<svg></svg>")

    class Unlabelled(FakeLoaders):
        def questions(self, config, choice):
            found = super().questions(config, choice)
            return replace(
                found, questions=(replace(found.questions[0], stances=None), *found.questions[1:])
            )

    text = SMALL.replace("questions = 3", "questions = 2").replace("[0, 1, 5]", "[1]")
    config = read_config(write_config(tmp_path, text))
    with pytest.warns(ValidityWarning, match="1 of 2 questions have no stances"):
        result = run_bench(config, tmp_path / "run", loaders=Unlabelled())
    told = "debates: the axes (pca, random) of 1 of 2 questions were oriented by a rule"
    assert result.notes[0].startswith(told)
    assert told in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
