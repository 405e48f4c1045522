"""Fact-check filter: sentences, evidence, verdicts, and which candidates go."""

from __future__ import annotations

import numpy as np
import pytest

from baseline_pools import AXIS, check_promises, random_text
from epibias.corpus import Corpus, Passage
from epibias.defenses import FactCheckFilter, FactReference
from epibias.errors import InputError
from epibias.nli import FixedNLI
from epibias.nli.verdicts import NOT_ENOUGH_INFO, REFUTES, SUPPORTS
from epibias.pool import CandidatePool
from fake_encoder import FakeEncoder
from pools import make_pool

FACTS = ["The bridge opened in 1932. It is made of steel.", "Trams ran until 1961."]


def judge(fact, claim):
    """Judge by one word: the same year or material entails, another one contradicts."""
    words = {"1932", "1940", "steel", "wood", "1961"}
    known, said = words & set(fact.strip(".").split()), words & set(claim.strip(".").split())
    if not said or fact.split()[0] != claim.split()[0]:
        return (0.1, 0.8, 0.1)
    return (0.9, 0.1, 0.0) if known == said else (0.0, 0.1, 0.9)


@pytest.fixture
def reference():
    return FactReference.build(FACTS, FakeEncoder())


def pool_of(texts):
    rows = np.ones((len(texts), 6), np.float32) + 0.1 * np.eye(len(texts), 6, dtype=np.float32)
    rows[:, 1] -= 0.3 * np.arange(len(texts))
    query = np.ones((1, 6), np.float32)
    return CandidatePool.from_vectors(query, rows, AXIS, passage_texts=[texts])


def verdicts(reference, claims, nli, **options):
    return [one.verdict for one in reference.judged(claims, nli, **options)]


def evidence(reference, claims, n, own=None):
    return [[one.text for one in some] for some in reference.evidence(claims, n, own)]


def test_verdicts_by_hand(reference):
    assert reference.texts == (
        "The bridge opened in 1932.", "It is made of steel.", "Trams ran until 1961.",
    )  # fmt: skip
    claims = ["The bridge opened in 1932.", "The bridge opened in 1940.", "Trams are loud."]
    nli = FixedNLI(judge)
    assert verdicts(reference, claims, nli) == [SUPPORTS, REFUTES, NOT_ENOUGH_INFO]
    assert nli.n_pairs == 9
    assert verdicts(reference, claims, nli, n_evidence=1, threshold=0.95) == [NOT_ENOUGH_INFO] * 3
    assert verdicts(reference, [], nli) == []
    # The nearest sentence alone is asked with n_evidence=1: 3 more pairs each time.
    assert nli.n_pairs == 12
    even = FixedNLI(lambda fact, claim: (0.5, 0.0, 0.5))
    assert verdicts(reference, ["As likely as not."], even) == [NOT_ENOUGH_INFO]


def test_evidence_is_the_most_similar_sentence(reference):
    assert evidence(reference, ["Until 1961 trams ran here."], 1) == [["Trams ran until 1961."]]
    assert [len(part) for part in evidence(reference, ["a", "b"], 50)] == [3, 3]


def test_claims_are_encoded_as_the_sentences_that_they_are_compared_with():
    class Roles(FakeEncoder):
        def encode_passages(self, texts):
            return self.encode(texts)

        def encode_queries(self, texts):
            raise AssertionError(texts)

    roles = FactReference.build(FACTS, Roles())
    assert evidence(roles, ["Until 1961 trams ran here."], 1) == [["Trams ran until 1961."]]


def test_which_candidates_go_by_hand(reference):
    texts = [
        "The bridge opened in 1940.",  # 1 of 1 refuted
        "The bridge opened in 1932. It is made of wood.",  # 1 of 2
        "The bridge is old.",  # nothing known
        "The bridge opened in 1932. It is made of steel. Trams ran until 1932.",  # 1 of 3
    ]
    pool = pool_of(texts)
    assert pool.indices.tolist() == [0, 1, 2, 3]
    chosen = FactCheckFilter(FixedNLI(judge), reference, 4).select(pool)
    assert chosen.dropped[0].tolist() == [0]
    assert chosen[0].tolist() == [1, 2, 3]
    totals = {name: int(chosen.diagnostics[name][0]) for name in chosen.diagnostics}
    assert (totals["n_claims"], totals["n_supported"], totals["n_refuted"]) == (7, 3, 3)
    strict = FactCheckFilter(FixedNLI(judge), reference, 4, max_refuted=0.0).select(pool)
    assert strict.dropped[0].tolist() == [0, 1, 3]
    lenient = FactCheckFilter(FixedNLI(judge), reference, 4, threshold=0.95).select(pool)
    assert lenient.dropped[0].tolist() == []


def test_a_passage_of_the_reference_is_no_evidence_for_itself():
    texts = ["The bridge opened in 1932.", "The bridge opened in 1940.", "Trams ran until 1961."]
    reference = FactReference.build(texts, FakeEncoder())
    nli = FixedNLI(judge)
    # Each of the first two supports itself as much as the other refutes it, which decides nothing;
    # against the rest alone, each refutes the other.
    assert verdicts(reference, texts, nli) == [NOT_ENOUGH_INFO] * 2 + [SUPPORTS]
    assert verdicts(reference, texts, nli, own=texts) == [REFUTES, REFUTES, NOT_ENOUGH_INFO]
    assert FactCheckFilter(nli, reference, 3).select(pool_of(texts)).dropped[0].tolist() == [0, 1]
    # A sentence that stands in two passages is evidence for either.
    both = FactReference.build([texts[0], texts[0] + " It is made of steel."], FakeEncoder())
    assert verdicts(both, [texts[0]], nli, own=[texts[0]]) == [SUPPORTS]
    # A reference of nothing but the passage says nothing about it.
    alone = FactReference.build(texts[:1], FakeEncoder())
    n_before = nli.n_pairs
    assert verdicts(alone, [texts[0]], nli, own=[texts[0]], threshold=0.0) == [NOT_ENOUGH_INFO]
    assert nli.n_pairs == n_before


def test_a_title_is_no_sentence_and_does_not_hide_whose_text_it_is():
    corpus = Corpus([Passage("p", "The bridge opened in 1932. It is made of steel.", "Bridges")])
    reference = FactReference.build(corpus, FakeEncoder())
    assert reference.texts == ("The bridge opened in 1932.", "It is made of steel.")
    [own] = corpus.encoded_texts  # as a pool has it
    claims = ["The bridge opened in 1932."]
    assert evidence(reference, claims, 1) == [claims]
    assert evidence(reference, claims, 1, own=[own]) == [[]]


def test_as_much_evidence_is_found_whatever_is_left_out():
    long = "Trams ran until 1961. Trams ran in town. Trams ran at night. Trams ran on rails."
    reference = FactReference.build([long, *FACTS], FakeEncoder())
    (found,) = evidence(reference, ["Trams ran until 1961."], 3, own=[long])
    assert found[0] == "Trams ran until 1961."  # stands in FACTS, too
    assert sorted(found[1:]) == ["It is made of steel.", "The bridge opened in 1932."]


def test_a_text_is_judged_once_and_in_parts(reference, monkeypatch):
    texts = ["The bridge opened in 1940. Trams are loud.", "Trams are loud. It is made of steel."]
    one = pool_of(texts)
    twice = CandidatePool.from_vectors(
        np.ones((2, 6), np.float32), [one.embeddings] * 2, AXIS, passage_texts=[texts] * 2
    )
    nli = FixedNLI(judge)
    whole = FactCheckFilter(nli, reference, 2).select(twice)
    assert nli.n_pairs == 4 * 3  # four sentences of two texts, three of the reference each
    monkeypatch.setattr("epibias.defenses.fact_check.CLAIMS_OF_A_CALL", 1)
    parts = FactCheckFilter(nli, reference, 2).select(twice)
    np.testing.assert_array_equal(parts.indices, whole.indices)
    np.testing.assert_array_equal(parts.dropped[0], whole.dropped[0])


def test_a_reference_is_a_corpus_or_texts_and_has_an_identity(reference):
    corpus = Corpus([Passage(f"f{i}", text) for i, text in enumerate(FACTS)])
    same = FactReference.build(corpus, FakeEncoder())
    assert same.texts == reference.texts
    assert same.identity == reference.identity
    assert reference.identity["n_sentences"] == 3
    assert reference.identity["encoder"] == FakeEncoder.identity
    assert (
        FactReference.build(FACTS[:1], FakeEncoder()).identity["sha256"]
        != (reference.identity["sha256"])
    )
    twice = FactReference.build([FACTS[0], FACTS[0]], FakeEncoder())
    assert len(twice.texts) == 2


def test_it_keeps_the_promises_of_the_protocol():
    rng = np.random.default_rng(0)
    reference = FactReference.build([random_text(rng) for _ in range(8)], FakeEncoder())

    def by_length(fact, claim):
        rest = (len(fact) + 3 * len(claim)) % 3
        return tuple(float(place == rest) for place in range(3))

    defense = FactCheckFilter(FixedNLI(by_length), reference, 3)
    check_promises(defense)
    assert defense == FactCheckFilter(defense.nli, reference, 3)
    assert defense.name == "fact_check"
    assert FactCheckFilter(defense.nli, reference, max_refuted=0).name == (
        "fact_check[max_refuted=0.0]"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda nli, ref: FactCheckFilter("x", ref), "nli: expected an NLI model, got str"),
        (lambda nli, ref: FactCheckFilter(nli, FACTS), "reference: expected a FactReference"),
        (lambda nli, ref: FactCheckFilter(nli, ref, 0), "k: expected an integer of at least 1"),
        (lambda nli, ref: FactCheckFilter(nli, ref, n_evidence=0), "n_evidence: expected"),
        (lambda nli, ref: FactCheckFilter(nli, ref, threshold=2), "threshold: expected"),
        (lambda nli, ref: FactCheckFilter(nli, ref, max_refuted=1), "max_refuted: expected"),
        (
            lambda nli, ref: FactCheckFilter(nli, ref).select(make_pool([[0.5]], [[0.1]])),
            "pool.passage_texts: expected the passages' texts, which fact_check reads",
        ),
        (lambda nli, ref: FactReference.build([], FakeEncoder()), "reference: expected at least"),
        (lambda nli, ref: FactReference.build("text", FakeEncoder()), "reference: expected a corp"),
        (lambda nli, ref: FactReference.build(["a", " "], FakeEncoder()), "reference: expected a"),
    ],
)
def test_wrong_parameters_and_pools_are_refused(make, message, reference):
    with pytest.raises(InputError) as caught:
        make(FixedNLI(judge), reference)
    assert str(caught.value).startswith(message)
