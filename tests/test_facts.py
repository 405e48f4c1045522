"""Fact check of sentences: evidence, verdicts, counts and shares, worked by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from angle_encoder import AngleEncoder
from epibias.attacks.facts import check_facts, claims_of
from epibias.corpus import Corpus, Passage
from epibias.errors import InputError
from epibias.nli import FixedNLI, fact_reference
from epibias.nli.fact_reference import FactReference
from epibias.nli.verdicts import verdict_of

REFERENCE = Corpus(
    [
        Passage("r1", "Fact at angle 0. Fact at angle 10."),
        Passage("r2", "Fact at angle 90. Lie at angle 12."),
    ]
)


def judge(premise, hypothesis):
    """What calls itself a fact entails; what calls itself a lie contradicts."""
    return (0.8, 0.1, 0.1) if premise.startswith("Fact") else (0.05, 0.05, 0.9)


def reference(**options):
    return FactReference.build(REFERENCE, AngleEncoder(), **options)


def test_evidence_is_the_most_similar_sentences():
    found = reference().evidence(
        ["Claim at angle 11.", "Claim at angle 88."], 2, min_similarity=0.9
    )
    assert [[one.text for one in some] for some in found] == [
        ["Fact at angle 10.", "Lie at angle 12."],
        ["Fact at angle 90."],
    ]
    assert found[0][0].passage_id == "r1"
    assert found[0][0].similarity == pytest.approx(np.cos(np.radians(1)), abs=1e-6)


def test_a_passage_is_never_its_own_evidence():
    found = reference().evidence(["Claim at angle 0."], 1, [REFERENCE[0].text])
    assert [one.text for one in found[0]] == ["Lie at angle 12."]


def test_whole_passages_may_be_evidence():
    whole = reference(unit="passage")
    assert whole.identity["n_passages"] == 2
    found = whole.evidence(["Claim at angle 5."], 1, min_similarity=0.9)
    assert found[0][0].text == "Fact at angle 0. Fact at angle 10."


def test_verdicts_counts_and_shares_by_hand():
    passages = [
        # Supported by r1; refuted, for the lie beats the fact beside it; no evidence near.
        Passage("p1", "Claim at angle 0. Claim at angle 11. Claim at angle 50."),
        Passage("p2", "Claim at angle 90."),
        Passage("p3", "No angle here. Claim at angle 51."),
    ]
    nli = FixedNLI(judge)
    found = check_facts(passages, reference(), nli, n_evidence=2, min_similarity=0.99)
    assert [one.verdict for one in found.claims] == [
        "SUPPORTS", "REFUTES", "NOT ENOUGH INFO", "SUPPORTS", "NOT ENOUGH INFO", "NOT ENOUGH INFO",
    ]  # fmt: skip
    assert [one.evidence_id for one in found.claims][:4] == ["r1", "r2", None, "r2"]
    first = found.passages[0]
    assert (first.n_claims, first.n_supports, first.n_refutes, first.n_not_enough) == (3, 1, 1, 1)
    assert found.not_enough.mean == pytest.approx(3 / 6)
    assert found.support.mean == pytest.approx(2 / 3)
    assert nli.n_pairs == 1 + 2 + 1  # what has no evidence is not asked
    assert found.claims[1].contradiction == pytest.approx(0.9)
    assert found.claims[2].entailment == 0.0


def test_groups_are_resampled_together():
    passages = [Passage(f"p{i}", f"Claim at angle {angle}.") for i, angle in enumerate((0, 50, 0))]
    options = {"min_similarity": 0.99, "n_evidence": 1}
    grouped = check_facts(
        passages, reference(), FixedNLI(judge), groups=["q1", "q1", "q2"], **options
    )
    # q1 has one of two without a verdict, q2 none of one: resamples give 1/2, 1/3 or 0.
    assert grouped.not_enough.mean == pytest.approx(1 / 3)
    assert (grouped.not_enough.low, grouped.not_enough.high) == (0.0, 0.5)
    assert grouped.not_enough.n == 2
    assert check_facts(passages, reference(), FixedNLI(judge), **options).not_enough.n == 3


def test_what_a_passage_repeats_is_judged_once_and_counted_each_time():
    repeated = [Passage("p1", "Claim at angle 0. " * 500), Passage("p2", "Claim at angle 0.")]
    nli, encoder, steps = FixedNLI(judge), AngleEncoder(), []
    known = FactReference.build(REFERENCE, encoder)
    encoder.batches.clear()
    found = check_facts(repeated, known, nli, n_evidence=1, progress=steps.append)
    assert [one.n_supports for one in found.passages] == [500, 1]
    assert [one.number for one in found.claims[:500]] == list(range(500))
    assert (nli.n_pairs, sum(encoder.batches), sum(steps)) == (2, 2, 501)


def test_batches_do_not_matter(monkeypatch):
    passages = [
        Passage(f"p{i}", " ".join(f"Claim at angle {10 * i + j}." for j in range(5)))
        for i in range(8)
    ]
    steps = []
    options = {"min_similarity": 0.9, "n_evidence": 3}
    whole = check_facts(passages, reference(), FixedNLI(judge), progress=steps.append, **options)
    monkeypatch.setattr(fact_reference, "PAIRS_AT_ONCE", 2)
    parts = check_facts(passages, reference(), FixedNLI(judge), **options)
    assert parts == whole
    assert sum(steps) == len(claims_of(passages)) == 40


@pytest.mark.parametrize(
    ("entailment", "contradiction", "verdict"),
    [
        (0.5, 0.49, "SUPPORTS"),
        (0.49, 0.5, "REFUTES"),
        (0.49, 0.48, "NOT ENOUGH INFO"),
        (0.6, 0.6, "NOT ENOUGH INFO"),
        (0.0, 0.0, "NOT ENOUGH INFO"),
    ],
)
def test_a_verdict(entailment, contradiction, verdict):
    assert verdict_of(entailment, contradiction) == verdict


def test_the_table_goes_to_json_with_claims_only_if_asked():
    passages = [Passage("p1", "Claim at angle 0.")]
    found = check_facts(passages, reference(), FixedNLI(judge), n_evidence=1)
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert plain["counts"] == {"SUPPORTS": 1, "REFUTES": 0, "NOT ENOUGH INFO": 0}
    assert plain["support_ratio"] == {"mean": 1.0, "low": None, "high": None, "n": 1}
    assert "claims" not in plain
    assert found.plain(with_claims=True)["claims"][0]["claim"] == "Claim at angle 0."


def test_a_claim_that_nothing_verifies_has_no_support_ratio():
    found = check_facts(
        [Passage("p1", "Claim at angle 45.")], reference(), FixedNLI(judge), min_similarity=0.99
    )
    assert np.isnan(found.support.mean)
    assert found.plain()["support_ratio"]["mean"] is None


def test_wrong_arguments_are_refused():
    passages = [Passage("p1", "Claim at angle 0.")]

    def check(some=passages, nli=None, **options):
        return check_facts(some, reference(), nli or FixedNLI(judge), **options)

    with pytest.raises(InputError, match="at least one passage, got none"):
        check([])
    with pytest.raises(InputError, match="groups: expected 1 rows"):
        check(groups=["a", "b"])
    with pytest.raises(InputError, match="n_evidence: expected"):
        check(n_evidence=0)
    with pytest.raises(InputError, match="min_similarity: expected"):
        check(min_similarity=2)
    with pytest.raises(InputError, match="threshold: expected"):
        check(threshold=0)
    with pytest.raises(InputError, match="at least one sentence"):
        FactReference.build(Corpus([]), AngleEncoder())
    with pytest.raises(InputError, match="unit: expected"):
        reference(unit="word")

    class Wrong:
        identity = {"name": "wrong"}  # noqa: RUF012

        def probabilities(self, premises, hypotheses):
            return np.full((len(premises), 2), 0.5, np.float32)

    with pytest.raises(InputError, match="nli: expected"):
        check(nli=Wrong())
