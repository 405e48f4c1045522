"""Defences of an experiment that know clean pools: what they have seen, what they select."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest

from bench_fakes import FakeLoaders, write_config
from epibias.corpus import query_keys
from epibias.data_sets import load_questions
from epibias.defenses import TiltBound
from epibias.defenses.clean_memory import CleanMemory
from epibias.defenses.trusted_index import TrustedIndex
from epibias.errors import CalibrationWarning, InputError
from epibias.experiment import calibration
from epibias.experiment.axes import fit_axes
from epibias.experiment.bench import Experiment, run_bench
from epibias.experiment.calibration import Learner
from epibias.experiment.config import read_config
from epibias.experiment.inputs import encode_corpus, encode_questions, own_passages
from epibias.experiment.measure import measure_question
from epibias.experiment.run_folder import RunFolder
from epibias.pool import CandidatePool
from fake_encoder import FakeEncoder

TEXT = """
name = "learning"
injections = [5]
axes = ["ridge"]
[[dataset]]
name = "debates"
questions = 2
[[encoder]]
retrieve = "fake"
[[attack]]
kind = "injection"
[[defense]]
kind = "none"
[[defense]]
kind = "tilt_bound"
[[defense]]
kind = "tilt_bound"
key = "calibrated"
calibrate = true
false_removal = 0.1
[[defense]]
kind = "tilt_bound"
key = "memory"
calibrate = true
remember = true
false_removal = 0.1
parameters = { bound = 0.2 }
[[defense]]
kind = "tilt_bound"
key = "index"
trust_index = true
"""
SET = load_questions("debates")
ENCODER = FakeEncoder()


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """No figures: they take most of the time, and other tests look at them."""
    monkeypatch.setattr("epibias.experiment.bench_report.svg_of", lambda _: "<svg></svg>")


def measured(tmp_path):
    """Inputs, axes, plan and rows of two questions."""
    experiment = Experiment(read_config(write_config(tmp_path, TEXT)), tmp_path, FakeLoaders())
    [arm] = experiment.arms()
    plan = experiment.plan(arm)
    chosen = SET.questions[:2]
    clean = encode_corpus("debates", SET.corpus, ENCODER, encoder_name="fake")
    inputs = encode_questions(clean, chosen, SET.relevant, own_passages(chosen), ENCODER)
    axes = fit_axes(inputs, plan)
    return inputs, axes, plan, [measure_question(inputs, axes, plan, row) for row in range(2)]


def pools_of(clean, questions, axis):
    texts = [one.text for one in questions]
    return CandidatePool.build(
        clean.index, ENCODER.encode(texts), axis, query_texts=texts, corpus=clean.corpus,
        query_ids=query_keys([one.id for one in questions]),
    )  # fmt: skip


def test_thresholds_are_of_all_other_questions_and_the_memory_of_the_clean_pool(tmp_path):
    inputs, axes, _, found = measured(tmp_path)
    for row, rows in enumerate(found):
        own = SET.questions[row]
        others = [one for one in SET.questions if one.id != own.id]
        assert len(others) == 15
        axis = axes["ridge"][row]
        pool = pools_of(inputs.clean, others, axis)
        calibrated = TiltBound.calibrated(pool, 5, false_removal=0.1, remember=False)
        memory = CleanMemory.of(pools_of(inputs.clean, [own], axis), 5)
        expected = {
            "tilt-bound": TiltBound(5),
            "calibrated": calibrated,
            "memory": replace(calibrated, memory=memory, bound=0.2),
            "index": TiltBound(5, trusted_index=TrustedIndex.of(inputs.clean.index)),
        }
        assert calibrated.echo is not None
        assert 0 < calibrated.echo < 1
        of_question = {
            side: inputs.injectable[own.id, "injection", side] for side in own.adversarial
        }
        for one in rows:
            if one["defense"] == "none":
                continue
            added = of_question.get(one["polarity"])
            texts = [*inputs.clean.corpus.encoded_texts]
            names = [*inputs.clean.corpus.ids]
            vectors = inputs.clean.index.embeddings
            if added is not None:
                texts += [passage.text for passage in added.passages[:5]]
                names += [passage.id for passage in added.passages[:5]]
                vectors = np.concatenate([vectors, added.embeddings[:5]])
            where = [names.index(name) for name in one["candidate_ids"]]
            attacked = CandidatePool.from_vectors(
                inputs.queries[row : row + 1], vectors[where], axis, indices=np.array(where),
                query_texts=[own.text], passage_texts=[[texts[i] for i in where]],
            )  # fmt: skip
            chosen = expected[one["defense"]].select(attacked)[0]
            assert one["selected_ids"] == [names[i] for i in chosen], one["defense"]
    clean = [one for rows in found for one in rows if one["attack"] == "clean"]
    undefended = {one["query_id"]: one["selected_ids"] for one in clean if one["defense"] == "none"}
    for one in clean:
        if one["defense"] in ("memory", "tilt-bound"):
            assert one["selected_ids"] == undefended[one["query_id"]]


def test_a_question_beyond_the_first_few_learns_from_as_many(monkeypatch):
    monkeypatch.setattr(calibration, "MOST_POOLS", 3)
    clean = encode_corpus("debates", SET.corpus, ENCODER, encoder_name="fake")
    seen = []
    kept = calibration.clean_pools

    def looked_at(clean, questions, *more):
        seen.append([one.id for one in questions])
        return kept(clean, questions, *more)

    monkeypatch.setattr(calibration, "clean_pools", looked_at)
    learner = Learner(5, 4, {}, lambda: (SET.questions, ENCODER), 0.1, remember=False)
    ids = [one.id for one in SET.questions]
    with pytest.warns(CalibrationWarning, match="3 clean questions gave no echo limit"):
        _ = [learner(clean, ids[number], None) for number in (0, 9, 3, 12, 0)]
    assert seen == [[ids[1], ids[2], ids[3]], [ids[0], ids[1], ids[2]]]


def test_a_single_question_has_rows_that_failed(tmp_path):
    learner = Learner(5, 4, {}, lambda: (SET.questions[:1], ENCODER), 0.1, remember=False)
    clean = encode_corpus("debates", SET.corpus, ENCODER, encoder_name="fake")
    with pytest.raises(InputError, match="calibrate: expected another question of the set"):
        learner(clean, SET.questions[0].id, None)


def test_a_set_of_a_single_question_is_run_to_its_end(tmp_path):
    """Also the timing of its stages, which learns once more."""

    class Single(FakeLoaders):
        def questions(self, config, choice):
            [only] = SET.questions[:1]
            relevant = {only.id: SET.relevant[only.id]}
            return replace(SET, questions=(only,), relevant=relevant)

    config = read_config(write_config(tmp_path, TEXT))
    run_bench(config, tmp_path / "run", loaders=Single())
    assert (tmp_path / "run" / "complete.json").exists()
    failed = {
        one["defense"]: one["status"] == "failed" for one in RunFolder(tmp_path / "run").rows()
    }
    expected = {"none": False, "tilt-bound": False, "calibrated": True, "memory": True}
    assert failed == {**expected, "index": False}


def test_a_whole_run_by_two_jobs_has_the_same_rows(tmp_path):
    _, _, _, found = measured(tmp_path)
    config = read_config(write_config(tmp_path, TEXT))
    result = run_bench(config, tmp_path / "run", jobs=2, loaders=FakeLoaders())
    assert not result.all_failed
    rows = RunFolder(tmp_path / "run").rows()
    expected = [one["selected_ids"] for part in found for one in part]
    assert [one["selected_ids"] for one in rows] == expected
    table = (tmp_path / "run" / "tables" / "results.csv").read_text(encoding="utf-8")
    assert "calibrated,any," in table
    assert "memory,ridge," in table
    assert "index,ridge," in table


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'kind = "none"\n',
            'kind = "none"\nremember = true\n',
            r"^defense\[0\]\.remember: expected only of kind tilt_bound, got one of none",
        ),
        (
            "remember = true\nfalse_removal",
            "remember = true\nfalse_removals",
            r"^defense\[3\]\.false_removals: .*did you mean 'false_removal'",
        ),
        (
            'key = "calibrated"\ncalibrate = true',
            'key = "calibrated"\ncalibrate = false',
            r"^defense\[2\]\.false_removal: expected calibrate = true beside it, got none",
        ),
        (
            'key = "calibrated"\ncalibrate = true\nfalse_removal = 0.1',
            'key = "calibrated"\nparameters = { calibrate = true }',
            r"^defense\[2\]\.parameters\.calibrate: expected calibrate beside parameters",
        ),
    ],
)
def test_wrong_keys_are_told(tmp_path, old, new, message):
    assert old in TEXT
    with pytest.raises(InputError, match=message):
        read_config(write_config(tmp_path, TEXT.replace(old, new)))


def test_the_rate_is_that_of_the_class_unless_the_file_says_another(tmp_path):
    text = TEXT.replace("false_removal = 0.1\n", "")
    config = read_config(write_config(tmp_path, text))
    usual = inspect.signature(TiltBound.calibrated).parameters["false_removal"].default
    assert {one.false_removal for one in config.defenses} == {usual}
