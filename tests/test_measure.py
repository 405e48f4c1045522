"""One question measured: candidates are those of an index of the attacked corpus, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from epibias.attacks import inject
from epibias.corpus import Corpus, query_keys
from epibias.data_sets import Question, load_debates
from epibias.defenses.brra import BRRA
from epibias.experiment.axes import fit_axes
from epibias.experiment.inputs import (
    encode_corpus,
    encode_questions,
    own_passages,
    questions_of,
)
from epibias.experiment.measure import measure_question
from epibias.experiment.plan import Attack, NamedDefense, Plan, demo_plan
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex
from fake_encoder import FakeEncoder

TOPICS = [one for one in load_debates() if one.topic in ("remote", "wolves", "tipping")]
ENCODER = FakeEncoder()


class OtherEncoder:
    """Another space of another width, as a second encoder has."""

    def encode(self, texts):
        return np.ascontiguousarray(np.abs(ENCODER.encode(texts))[:, ::2] + 0.5)


def encoded(ps_encoder=None, questions=None):
    questions = questions or questions_of(TOPICS)
    corpus = Corpus([passage for topic in TOPICS for passage in topic.benign])
    clean = encode_corpus("debates", corpus, ENCODER, ps_encoder, encoder_name="fake")
    relevant = {topic.query_id: tuple(one.id for one in topic.benign) for topic in TOPICS}
    injected = own_passages(questions)
    return encode_questions(clean, questions, relevant, injected, ENCODER, ps_encoder)


@pytest.mark.parametrize("second", [False, True])
def test_candidates_are_those_of_an_index_of_the_attacked_corpus(second):
    ps_encoder = OtherEncoder() if second else None
    inputs, plan = encoded(ps_encoder), demo_plan()
    axes = fit_axes(inputs, plan)
    checked = 0
    for row, question in enumerate(inputs.questions):
        for found in measure_question(inputs, axes, plan, row):
            if found["defense"] != "none" or found["status"] != "ok":
                continue
            names = set(found["injected_ids"])
            added = [p for side in question.adversarial.values() for p in side if p.id in names]
            added.sort(key=lambda passage: found["injected_ids"].index(passage.id))
            attacked = inject(inputs.clean.corpus, added)
            texts = list(attacked.corpus.encoded_texts)
            pool = CandidatePool.build(
                CosineIndex(ENCODER.encode(texts)),
                inputs.queries[row : row + 1],
                axes[found["axis"]][row],
                None if ps_encoder is None else ps_encoder.encode(texts),
                query_ids=query_keys([question.id]),
            )
            assert found["candidate_ids"] == [attacked.corpus.ids[i] for i in pool.indices]
            assert found["candidate_similarities"] == pool.similarities.tolist()
            assert found["candidate_scores"] == pool.scores.tolist()
            checked += 1
    assert checked >= 3 * 7 * 3


@pytest.mark.parametrize("noise", ["norm_matched", "per_coordinate"])
def test_a_defence_that_searches_again_selects_as_from_an_index_of_the_attacked_corpus(noise):
    inputs = encoded()
    sizes = []

    def of_index(index):
        sizes.append(index.n_passages)
        return BRRA(index, 5, depth=6, n_variants=4, noise=noise)

    named = NamedDefense("brra", "BRRA", demo_plan().defenses[0].defense, False, of_index)
    attacks = (Attack("clean"), *(Attack("injection", "positive", n) for n in (1, 5)))
    plan = Plan(5, 4, 0, (named,), attacks, ("pca", "ridge"))
    axes = fit_axes(inputs, plan)
    for row, question in enumerate(inputs.questions):
        added = inputs.injectable[question.id, "injection", "positive"]
        for found in measure_question(inputs, axes, plan, row):
            part = slice(0, found["injections"])
            names = [*inputs.clean.corpus.ids, *(one.id for one in added.passages[part])]
            parts = [inputs.clean.index.embeddings, added.embeddings[part]]
            whole = CosineIndex(np.concatenate(parts))
            pool = CandidatePool.build(
                whole,
                inputs.queries[row : row + 1],
                axes[found["axis"]][row],
                query_ids=query_keys([question.id]),
            )
            expected = of_index(whole).select(pool)
            assert found["selected_ids"] == [names[i] for i in expected[0]]
            assert found["dropped_ids"] == [names[i] for i in expected.dropped[0]]
    # Besides the check's own: one of all clean passages a question; the others are smaller.
    n_clean = len(inputs.clean.corpus)
    assert sum(size >= n_clean for size in sizes) == len(inputs.questions) * (1 + 2 * len(attacks))


def test_a_question_without_anchors_has_rows_that_failed():
    topic = TOPICS[0]
    bare = Question(topic.query_id, topic.query, topic.topic, adversarial=topic.adversarial)
    inputs, plan = encoded(questions=(bare,)), demo_plan()
    rows = measure_question(inputs, fit_axes(inputs, plan), plan, 0)
    assert len(rows) == plan.n_cells
    usable = [row for row in rows if row["status"] != "not_applicable"]
    assert {row["status"] for row in usable} == {"failed"}
    assert "anchors: expected passages to fit an axis on, got none" in usable[0]["message"]


def test_an_attack_with_too_few_passages_does_not_apply():
    topic = TOPICS[0]
    [question] = questions_of([topic])
    few = Question(
        question.id,
        question.text,
        question.topic,
        question.anchors,
        question.stances,
        adversarial={"positive": question.adversarial["positive"][:3]},
    )
    inputs = encoded(questions=(few,))
    attacks = (Attack("clean"), Attack("injection", "positive", 1))
    attacks += (Attack("injection", "positive", 5), Attack("injection", "negative", 1))
    plan = Plan(5, 4, 0, demo_plan().defenses[:1], attacks, ("pca",))
    rows = measure_question(inputs, fit_axes(inputs, plan), plan, 0)
    assert [row["status"] for row in rows] == ["ok", "ok", "not_applicable", "not_applicable"]
    assert rows[2]["message"] == "expected 5 passages to inject, got 3"
