"""Every defence by name, from plain parameters and named resources, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

import epibias.defenses as rooms
from baseline_pools import text_pool
from epibias.defenses import (
    BRRA,
    GRADA,
    MMR,
    SMART,
    BiasDef,
    Chain,
    FactCheckFilter,
    FactReference,
    KnownAnswerDetection,
    NoDefense,
    RAGDefender,
    TiltBound,
    TrustRAGClusters,
    build_defense,
)
from epibias.defenses.clean_memory import CleanMemory, CleanRecord, question_key
from epibias.defenses.registry import REGISTRY
from epibias.errors import InputError
from epibias.generators import FixedGenerator
from epibias.nli import FixedNLI
from epibias.retrieval import CosineIndex
from fake_encoder import FakeEncoder


def calm(premise, hypothesis):
    return (0.2, 0.3, 0.5)


INDEX = CosineIndex(np.eye(6, dtype=np.float32))
RESOURCES = {
    "index": INDEX,
    "nli": FixedNLI(calm),
    "generator": FixedGenerator("yes"),
    "reference": FactReference.build(["A fact."], FakeEncoder()),
    "other nli": FixedNLI(calm, name="other"),
}
NLI_MODEL, REFERENCE = RESOURCES["nli"], RESOURCES["reference"]
DEFENSES = [
    NoDefense(3),
    MMR(3, 0.2),
    BiasDef(4, gate=0.1, side="auto", mitigation="mahalanobis"),
    BiasDef.bare(4),
    BiasDef.printed(4, tau=0.1),
    Chain([BiasDef(4), Chain([MMR(4), SMART(NLI_MODEL, 2)])]),
    BRRA(INDEX, 3, noise="per_coordinate", seed=4),
    GRADA(3, similarity="cosine", query_penalty=0.1),
    RAGDefender(3, n_terms=7),
    TrustRAGClusters(3, precheck=False, variant="released"),
    SMART(NLI_MODEL, 3, conflict_weight=2),
    FactCheckFilter(NLI_MODEL, REFERENCE, 3, max_refuted=0.25),
    KnownAnswerDetection(RESOURCES["generator"], 3, seed=8),
    TiltBound(
        3, echo=0.4, memory=CleanMemory({question_key("Why?"): CleanRecord(0.1, 0.2, 0.6, None)}, 3)
    ),
]


@pytest.mark.parametrize("defense", DEFENSES, ids=lambda defense: defense.name)
def test_what_parameters_gives_makes_the_same_defence(defense):
    written = json.loads(json.dumps(defense.parameters()))
    made = build_defense(written, RESOURCES)
    assert made == defense
    assert made.parameters() == defense.parameters()
    assert made.name == defense.name


def test_every_defence_of_the_package_is_in_the_registry():
    classes = {entry.make for entry in REGISTRY.values()}
    for name in rooms.__all__:
        value = getattr(rooms, name)
        if isinstance(value, type) and hasattr(value, "select") and name != "Defense":
            assert value in classes, f"{name} has no name in the registry"
    assert {defense.parameters()["defense"] for defense in DEFENSES} == set(REGISTRY)


def test_defaults_may_be_left_out_and_resources_go_by_their_field():
    assert build_defense({"defense": "biasdef"}) == BiasDef()
    assert build_defense({"defense": "smart", "k": 2}, RESOURCES) == SMART(NLI_MODEL, 2)
    other = build_defense({"defense": "smart", "nli": "other nli"}, RESOURCES)
    assert other.nli is RESOURCES["other nli"]


def test_a_defence_that_was_made_selects():
    pool = text_pool(1, [9, 4])
    made = build_defense({"defense": "chain", "defenses": [
        {"defense": "trustrag", "k": 9}, {"defense": "grada", "k": 2},
    ]})  # fmt: skip
    expected = Chain([TrustRAGClusters(9), GRADA(2)]).select(pool)
    np.testing.assert_array_equal(made.select(pool).indices, expected.indices)


SMART_OTHER = SMART(RESOURCES["other nli"]).parameters()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "defense: expected one of none, mmr,"),
        ({"defense": "nono"}, "defense: expected one of none, mmr,"),
        ({"defense": ["mmr"]}, "defense: expected one of none, mmr,"),
        ("mmr", "defense: expected a table of parameters, got 'mmr'"),
        ({"defense": "mmr", "weight": 1}, "weight: expected only k, relevance_weight for 'mmr'"),
        ({"defense": "mmr", "k": 0}, "k: expected an integer of at least 1, got 0"),
        ({"defense": "mmr", "_": 1}, "_: expected only k, relevance_weight for 'mmr'"),
        ({"defense": "chain"}, "defenses: expected at least one defence, got none"),
        ({"defense": "chain", "defenses": "mmr"}, "defenses: expected a list of tables"),
        ({"defense": "chain", "defenses": ["mmr"]}, "defense: expected a table of parameters"),
        ({"defense": "smart", "nli": "mine"}, "nli: expected a resource 'mine' for 'smart'"),
        ({"defense": "smart", "nli": 3}, "nli: expected the name of a resource, or what"),
        (SMART_OTHER, "nli.model: expected 'other', got 'fixed'"),
        ({"defense": "brra", "index": {"n_passages": 7, "dim": 6}}, "index.n_passages: expected 7"),
    ],
)
def test_what_is_unknown_or_does_not_fit_is_refused(parameters, message):
    with pytest.raises(InputError) as caught:
        build_defense(parameters, RESOURCES)
    assert str(caught.value).startswith(message)


def test_a_missing_resource_is_named_with_those_there_are():
    with pytest.raises(
        InputError, match=r"^nli: expected a resource 'nli' for 'smart', got resourc"
    ):
        build_defense({"defense": "smart"})
    with pytest.raises(InputError, match="got resources: index"):
        build_defense({"defense": "smart"}, {"index": INDEX})


def test_the_place_of_a_table_is_told():
    for parameters in ({"defense": "mmr", "k": 0}, {"defense": "x"}, {"defense": "mmr", "x": 1}):
        with pytest.raises(InputError, match=r"\(run\.toml, defense 2\)$"):
            build_defense(parameters, where="run.toml, defense 2")
