"""The plan names every cell once, and its settings tell runs apart."""

from __future__ import annotations

import json

import pytest

from epibias._plain import first_difference
from epibias.defenses import MMR, BiasDef, NoDefense, TiltBound
from epibias.errors import InputError
from epibias.experiment.plan import check_topics, demo_plan


def test_the_demo_runs_what_the_issue_asks_for():
    plan = demo_plan()
    assert plan.conditions == ("0", "1", "5", "10", "decoys")
    assert [attack.key for attack in plan.attacks] == [
        "clean",
        "injection-positive-1",
        "injection-negative-1",
        "injection-positive-5",
        "injection-negative-5",
        "injection-positive-10",
        "injection-negative-10",
        "decoys-positive",
        "decoys-negative",
    ]
    by_key = {named.key: named.defense for named in plan.defenses}
    assert by_key == {
        "none": NoDefense(k=5),
        "mmr": MMR(k=5),
        "biasdef": BiasDef(k=5),
        "biasdef-bare": BiasDef.bare(k=5),
        "biasdef-printed": BiasDef.printed(k=5),
        "biasdef-gate": BiasDef(k=5, gate=0.1),
        "biasdef-auto": BiasDef(k=5, side="auto"),
        "tilt-bound-index": TiltBound(5, echo=1.0),
    }
    assert [named.key for named in plan.defenses if named.learn] == ["tilt-bound-index"]
    assert plan.axis_methods == ("pca", "ridge", "random")
    assert plan.n_cells == 8 * 9 * 3


def test_settings_are_json_and_name_every_parameter():
    settings = demo_plan(seed=3).settings()
    assert json.loads(json.dumps(settings, allow_nan=False)) == settings
    assert settings["defenses"]["biasdef-gate"]["gate"] == 0.1
    assert settings["defenses"]["biasdef-gate"]["seed"] == 3
    assert "file order" in settings["injection_order"]
    assert "5th best benign" in settings["decoy_rule"]


@pytest.mark.parametrize("change", [{"seed": 1}, {"k": 4}, {"pool_factor": 3}])
def test_a_changed_plan_has_other_settings(change):
    difference = first_difference(demo_plan().settings(), demo_plan(**change).settings())
    assert difference is not None


@pytest.mark.parametrize(
    ("recorded", "wanted", "expected"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ("a.b[1]", 2, 3)),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1]}}, ("a.b", [1, 2], [1])),
        ({"a": [{"k": [1]}, {"k": [2]}]}, {"a": [{"k": [1]}, {"k": [3]}]}, ("a[1].k[0]", 2, 3)),
        ({"a": [{"k": 1}]}, {"a": [[1]]}, ("a[0]", {"k": 1}, [1])),
        ({"a": 1, "c": 2}, {"a": 1}, ("c", 2, "nothing")),
        ({"a": 1}, {"a": 1, "c": 2}, ("c", "nothing", 2)),
        ({"a": {"b": 1}}, {"a": 5}, ("a", {"b": 1}, 5)),
    ],
)
def test_first_difference_names_the_field(recorded, wanted, expected):
    assert first_difference(recorded, wanted) == expected


def test_topics_come_in_the_order_of_the_data():
    assert check_topics(["a", "b", "c"], ["c", "a"]) == ["a", "c"]
    assert check_topics(["a", "b"], None) == ["a", "b"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["x"], "topics: expected 'a' or 'b', got 'x'"),
        (["a", "a"], "topics: expected each id once"),
        ([], "topics: expected at least one topic"),
    ],
)
def test_wrong_topics_are_refused(wanted, message):
    with pytest.raises(InputError, match=message):
        check_topics(["a", "b"], wanted)


@pytest.mark.parametrize("change", [{"k": 0}, {"pool_factor": 0}, {"seed": -1}, {"k": 2.5}])
def test_a_plan_out_of_range_is_refused(change):
    with pytest.raises(InputError, match=f"{next(iter(change))}: expected an integer"):
        demo_plan(**change)
