"""BiasDef's parameters: names, limits, and none that decides nothing."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest

from epibias.defenses import BiasDef
from epibias.defenses.biasdef_parameters import RULE_PARAMETERS
from epibias.errors import InputError
from pools import make_pool


def test_equal_parameters_are_equal_defences():
    assert BiasDef(5) == BiasDef(np.int64(5))
    assert hash(BiasDef(5)) == hash(BiasDef(5))
    assert BiasDef(5) != BiasDef(5, gate=0.1)
    assert BiasDef.bare() != BiasDef.printed()


@pytest.mark.parametrize(
    ("defense", "name"),
    [
        (BiasDef(), "biasdef"),
        (BiasDef(3), "biasdef"),
        (BiasDef(gate=0.1), "biasdef[gate=0.1]"),
        (BiasDef(side="auto", fill="refill"), "biasdef[side=auto, fill=refill]"),
        (BiasDef.bare(), "biasdef[bare]"),
        (BiasDef.printed(tau=0.1), "biasdef[printed, tau=0.1]"),
    ],
)
def test_names_tell_what_differs(defense, name):
    assert defense.name == name
    plain = json.loads(json.dumps(defense.parameters()))
    assert plain.pop("defense") == "biasdef"
    assert BiasDef(**plain) == defense


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k: expected an integer of at least 1, got 0"),
        ({"k": True}, "k: expected an integer of at least 1, got True"),
        ({"criterion": "js"}, "criterion: expected 'kl' or 'mi', got 'js'"),
        ({"side": "left"}, "side: expected 'right' or 'auto', got 'left'"),
        ({"mitigation": "off"}, "mitigation: expected None or 'mahalanobis', got 'off'"),
        ({"fill": "pad"}, "fill: expected 'short' or 'refill', got 'pad'"),
        ({"gate": 1.5}, "gate: expected a finite number from 0 to 1, got 1.5"),
        ({"slack": 0.6}, "slack: expected a finite number from 0 to 0.5, got 0.6"),
        ({"kappa": 0}, "kappa: expected a finite number > 0 and at most 1e+06, got 0"),
        ({"kappa": float("nan")}, "kappa: expected a finite number > 0 and at most 1e+06, got"),
        ({"min_kept": 0}, "min_kept: expected an integer of at least 1, got 0"),
        ({"seed": -1}, "seed: expected an integer from 0 to"),
        (
            {"gate": 0.004},
            "gate: expected at least 1 / (permutations + 1) = 0.005, the smallest p-value of 199 "
            "permutations, got 0.004",
        ),
        ({"gate": 0}, "gate: expected at least 1 / (permutations + 1) = 0.005"),
        ({"gate": 0.05, "permutations": 18}, "gate: expected at least 1 / (permutations + 1) = 0."),
    ],
)
def test_wrong_parameters_are_refused_on_creation(options, message):
    with pytest.raises(InputError) as caught:
        BiasDef(**options)
    assert message in str(caught.value)


ANOTHER = {
    "criterion": "mi", "gate": 0.1, "side": "auto", "mitigation": "mahalanobis", "min_kept": 2,
    "min_side": 2, "slack": 0.2, "kappa": 0.5, "kappa_points": 1.0, "permutations": 99, "seed": 3,
    "tau": 0.1, "n_thresholds": 50, "floor": 1e-6, "fill": "refill", "bandwidth_factor": 1.0,
}  # fmt: skip


def test_every_rule_states_what_it_reads():
    names = {field.name for field in fields(BiasDef)}
    assert set(RULE_PARAMETERS) == {"splits", "printed"}
    assert set().union(*RULE_PARAMETERS.values()) == names
    assert set(ANOTHER) == names - {"k", "rule"}


@pytest.mark.parametrize("rule", RULE_PARAMETERS)
@pytest.mark.parametrize("name", ANOTHER)
def test_what_the_rule_does_not_read_is_refused_and_not_recorded(rule, name):
    if name in RULE_PARAMETERS[rule]:
        gate = {"gate": 0.1} if name in ("permutations", "seed") else {}
        defense = BiasDef(rule=rule, **{name: ANOTHER[name]}, **gate)
        assert defense.parameters()[name] == ANOTHER[name]
        return
    with pytest.raises(InputError, match=rf"^{name}: expected .* with rule='{rule}', got"):
        BiasDef(rule=rule, **{name: ANOTHER[name]})
    default = getattr(BiasDef(), name)
    assert BiasDef(rule=rule, **{name: default}) == BiasDef(rule=rule)
    assert name not in BiasDef(rule=rule).parameters()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kappa": 0.5, "kappa_points": 1.0}, "kappa: expected 0.025 with kappa_points=1.0, got"),
        ({"kappa": 0.5, "criterion": "mi"}, "kappa: expected 0.025 with criterion='mi', got 0.5"),
        ({"kappa_points": 1.0, "criterion": "mi"}, "kappa_points: expected None with criterion='m"),
        ({"permutations": 99}, "permutations: expected 199 with gate=None, got 99"),
        ({"seed": 1}, "seed: expected 0 with gate=None, got 1"),
    ],
)
def test_what_another_choice_makes_idle_is_refused(options, message):
    with pytest.raises(InputError) as caught:
        BiasDef(**options)
    assert message in str(caught.value)


def test_a_gate_at_the_smallest_p_value_can_fire():
    x = np.linspace(0.9, 0.3, 20, dtype=np.float32)
    y = np.where(np.arange(20) < 5, np.float32(0.6), np.float32(0)) + x / 100
    chosen = BiasDef(5, gate=1 / 20, permutations=19).select(make_pool([x], [y]))
    assert chosen.diagnostics["p_value"].tolist() == [1 / 20]
    assert chosen.diagnostics["side"].tolist() == ["right"]


@pytest.mark.parametrize("defense", [BiasDef(), BiasDef.bare(), BiasDef.printed()])
def test_a_sweep_of_no_candidates_and_of_no_array(defense):
    nothing = np.empty((1, 0), np.float32)
    cut = defense.sweep(nothing, nothing)
    assert cut.n_kept.tolist() == [0]
    assert cut.threshold.tolist() == [np.inf]
    for wrong in (nothing[0], [[0.5, 0.4]]):
        with pytest.raises(InputError, match=r"^similarities: expected "):
            defense.sweep(wrong, wrong)


@pytest.mark.parametrize("defense", [BiasDef(), BiasDef.bare(), BiasDef.printed()])
def test_without_a_gate_there_is_no_p_value(defense):
    pool = make_pool([np.linspace(0.9, 0.3, 20), [0.5], [0.5, 0.4]], [np.arange(20), [1], [1, 1]])
    assert np.isnan(defense.select(pool).diagnostics["p_value"]).all()
    # With one, what could not be split was tested in vain.
    gated = BiasDef(gate=0.5, permutations=9).select(pool).diagnostics["p_value"]
    assert gated.tolist()[1:] == [1, 1]
    assert gated[0] <= 1
