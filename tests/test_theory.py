"""The theory check: its formulas against quadrature, its verdicts on the counterexamples."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import reference_theory
from epibias.cli import main
from epibias.errors import InputError
from epibias.experiment import theory_samples
from epibias.experiment.listener import Silent
from epibias.experiment.theory import TheoryPlan, rounded, run_theory
from epibias.experiment.theory_checks import (
    LEAST_REPEATS,
    LEAST_SIZE,
    check_theorem_1,
    check_theorem_2,
)
from epibias.experiment.theory_page import markdown, theory_page, verdicts
from epibias.experiment.theory_population import (
    linear_scores,
    maximizer,
    normal_scores,
    overlapping,
    population,
    touching,
    uniform_scores,
)

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def document():
    """Give one quick run."""
    return run_theory(TheoryPlan.quick())


@pytest.mark.parametrize(
    ("distance", "w2", "shift", "spread"), [(4, 0.33, 1, 1), (2, 0.5, 2, 1), (3, 0.8, 1, 2)]
)
def test_criterion_and_errors_are_those_of_quadrature(distance, w2, shift, spread):
    at = np.array([0.3, 0.36, 0.45])
    found = population(overlapping(distance), normal_scores(shift, spread), w2, at)
    np.testing.assert_array_equal(found.thresholds, at)
    for row, t in enumerate(at):
        fdr, omission = reference_theory.errors(t, distance, w2)
        assert found.fdr[row] == pytest.approx(fdr, rel=1e-9)
        assert found.omission[row] == pytest.approx(omission, rel=1e-9)
        expected = reference_theory.divergence(t, distance, w2, shift, spread)
        assert found.divergence[row] == pytest.approx(expected, abs=1e-7)


def test_kl_of_two_normals_is_the_closed_form():
    at = np.array([0.6])
    for shift, spread in ((0.5, 1.0), (3.0, 1.0), (1.0, 2.0), (1.0, 0.7)):
        found = population(touching(), normal_scores(shift, spread), 0.25, at)
        expected = np.log(spread) + (1 + shift**2) / (2 * spread**2) - 0.5
        assert found.divergence[0] == pytest.approx(expected, abs=1e-7)
    assert population(touching(), uniform_scores(0.2), 0.25, at).divergence[0] == np.inf


def test_overlap_and_crossings_are_those_of_the_densities():
    for distance in (1.0, 3.0, 5.0):
        similarities = overlapping(distance)
        expected = reference_theory.overlap(distance)
        assert similarities.overlap == pytest.approx(expected, abs=1e-9)
        for w2 in (0.2, 0.5, 0.8):
            at = similarities.crossing(w2)
            benign = reference_theory.BENIGN.pdf(at)
            adversarial = reference_theory.adversarial(distance).pdf(at)
            assert (1 - w2) * benign == pytest.approx(w2 * adversarial, rel=1e-9)


def test_draws_have_the_densities_they_come_from():
    generator = np.random.default_rng(0)
    is_adversarial = generator.random(200_000) < 0.3
    for scores in (linear_scores(0.9), normal_scores(1.5), uniform_scores(0.2)):
        drawn = scores.draw(is_adversarial, generator)
        for chosen, density in (
            (~is_adversarial, scores.benign),
            (is_adversarial, scores.adversarial),
        ):
            step = scores.grid[1] - scores.grid[0]
            mean = (scores.grid * density).sum() * step
            spread = np.sqrt(((scores.grid - mean) ** 2 * density).sum() * step)
            tolerance = 5 * spread / np.sqrt(chosen.sum()) + 0.002  # of the grid
            assert drawn[chosen].mean() == pytest.approx(mean, abs=tolerance)
            assert drawn[chosen].std() == pytest.approx(spread, abs=tolerance)
    for similarities in (touching(), overlapping(4.0)):
        drawn = similarities.draw(is_adversarial, generator)
        shares = similarities.below(np.array([0.45]))
        for chosen, share in zip((~is_adversarial, is_adversarial), shares, strict=True):
            assert (drawn[chosen] < 0.45).mean() == pytest.approx(share[0], abs=0.01)


def test_theorem_1_is_unique_only_where_the_supports_touch_and_kl_is_finite():
    found = check_theorem_1()
    assert found["largest_at_split"] == found["zero_error"] == len(found["cases"]) == 23
    assert found["unique_when_touching"] == found["n_touching"] == 21
    assert found["gap"]["width"] == pytest.approx(0.2)
    assert found["gap"]["worst_fdr_of_ties"] < 1e-12
    assert found["beyond"]["divergence"] is None  # infinite
    assert found["beyond"]["width"] == pytest.approx(0.4, abs=0.002)
    assert found["beyond"]["worst_fdr_of_ties"] == pytest.approx(0.25, abs=1e-3)


@pytest.mark.parametrize(("key", "value"), [("worst_fdr", "fdr"), ("worst_omission", "omission")])
def test_the_counterexamples_of_theorem_3_stand_by_independent_quadrature(document, key, value):
    worst = document["theorem_3"][key]
    shift, spread = (float(part.split()[-1]) for part in worst["scores"].split(", ")[1:])
    w2, distance = worst["w2"], worst["distance"]
    at = reference_theory.maximizer(distance, w2, shift, spread, worst["threshold"])
    assert at == pytest.approx(worst["threshold"], abs=2e-4)
    fdr, omission = reference_theory.errors(at, distance, w2)
    rho, w1 = reference_theory.overlap(distance), 1 - w2
    alpha = reference_theory.BENIGN.cdf(at)
    beta = reference_theory.adversarial(distance).cdf(at)
    if value == "fdr":
        error, bound = fdr, w2 * rho / (w1 * alpha + w2 * rho)
    else:
        error, bound = omission, w1 * rho / (w1 * rho + w2 * (1 - beta))
    assert error > bound + 0.05
    assert worst[value] == pytest.approx(error, abs=1e-3)
    assert worst[f"{value}_bound"] == pytest.approx(bound, abs=1e-3)


def test_in_every_case_one_of_the_two_bounds_holds(document):
    found = document["theorem_3"]
    assert found["one_holds"] == len(found["cases"]) == 120
    for row in found["cases"]:
        assert row["omission_holds"] if row["past_crossing"] else row["fdr_holds"]
    assert [one["omission_holds"] for one in found["groups"][:2]] == [60, 23]
    assert [one["fdr_holds"] for one in found["groups"][:2]] == [4, 48]


def test_the_maximizer_is_found_between_the_points_of_the_grid():
    at, at_edge = maximizer(overlapping(4.0), normal_scores(1.0), 0.33)
    expected = reference_theory.maximizer(4.0, 0.33, 1.0, 1.0, at)
    assert at == pytest.approx(expected, abs=1e-4)
    assert not at_edge
    assert maximizer(overlapping(1.0), normal_scores(1.0), 0.2)[1]  # L grows to the edge


def test_samples_repeat_and_rules_see_the_same_ones():
    one = theory_samples.case("overlap", overlapping(4.0), linear_scores(0.9), 0.33)
    first = theory_samples.thresholds(one, "default", 50, 30, seed=1)
    np.testing.assert_array_equal(first, theory_samples.thresholds(one, "default", 50, 30, seed=1))
    assert (first != theory_samples.thresholds(one, "default", 50, 30, seed=2)).any()
    wide = theory_samples.thresholds(one, "all thresholds", 20, 30, seed=1)
    slack = theory_samples.thresholds(one, "with slack", 20, 30, seed=1)
    np.testing.assert_array_equal(wide, slack)  # at 20 points, 5 % is one point


def test_an_error_that_shrinks_as_a_power_has_that_slope():
    generator = np.random.default_rng(3)
    sizes = [200, 800, 3200]
    values = [np.abs(generator.normal(size=4000)) * n**-0.4 for n in sizes]
    found = theory_samples.decay(sizes, values, 0.5)
    assert found["low"] < -0.4 < found["high"]
    assert found["high"] - found["low"] < 0.1


def test_a_run_is_the_same_again(document):
    plan = TheoryPlan.quick()
    again = check_theorem_2(plan.sizes, plan.repeats, plan.seed, Silent())
    assert rounded(again) == document["theorem_2"]
    assert rounded(check_theorem_1()) == document["theorem_1"]


def test_a_run_says_what_fails(document):
    words = {statement: verdict for statement, verdict, _ in verdicts(document)}
    assert words["1(b) FDR(x′) = FOR(x′) = 0"] == "holds"
    assert words["1(a) … and at x′ alone"] == "holds in part"
    assert words["3, eq. 15: the bound on FDR"] == "fails"
    assert words["3, eq. 16: the bound on FOR"] == "fails"
    assert words["3: one of the two bounds holds (ours)"] == "holds"
    shrinks = "2, eq. 13 and 14: FDR and FOR shrink as n^(−2/5)"
    enough = copy.deepcopy(document)  # as if of a full run
    for run in enough["theorem_2"]["runs"]:
        run["verdict"] = "slower"
    assert {one: verdict for one, verdict, _ in verdicts(enough)}[shrinks] == "fails"
    gone = copy.deepcopy(enough)
    for run in gone["theorem_2"]["runs"]:
        for name in ("fdr", "omission"):
            run["sizes"][-1][name] = dict.fromkeys(run["sizes"][-1][name], 1e-6)
    assert {one: verdict for one, verdict, _ in verdicts(gone)}[shrinks] == "not decided"
    page = theory_page(document)
    assert len(page.more_charts) == 3
    for _, chart, _ in page.more_charts:
        assert chart.svg().count("<polyline") == 4


def test_a_quick_run_gives_no_verdict_on_what_its_samples_cannot_decide(document):
    told = [one for one in verdicts(document) if one[0].startswith("2, ")]
    assert {verdict for _, verdict, _ in told} == {"too few samples"}
    assert len(told) == 4
    assert any("Too few samples" in one for one in theory_page(document).notices)
    plan = TheoryPlan()
    assert max(plan.sizes) >= LEAST_SIZE
    assert min(plan.repeats) >= LEAST_REPEATS


def test_the_command_writes_page_charts_and_json(tmp_path, capsys, monkeypatch):
    small = TheoryPlan((20, 30, 40, 50), (20, 20, 20, 20))
    monkeypatch.setattr(TheoryPlan, "quick", classmethod(lambda cls, seed=0: small))
    out = tmp_path / "out"
    assert main(["bench", "theory", "--quick", "--json", "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((out / "theory.json").read_text(encoding="utf-8"))
    names = {path.name for path in out.iterdir()}
    charts = {f"theory-{name}.svg" for name in ("touching", "overlap", "normal")}
    assert names == {"theory.json", "theory.svg", "theory.html", *charts}
    html = (out / "theory.html").read_text(encoding="utf-8")
    assert html.count("<svg") == 4
    assert main(["bench", "theory", "--quick", "--out", str(out)]) == 0  # its own are replaced
    said = capsys.readouterr().out
    assert "Verdicts" in said
    assert said.startswith("Too few samples for a verdict on Theorem 2")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda: TheoryPlan((20, 50, 100), (20, 20, 20)), r"sizes: .*at least 4 \(how many\)"),
        (lambda: TheoryPlan((10, 50, 100, 200), (20,) * 4), "sizes: .*from 20 to 100000, got 10"),
        (lambda: TheoryPlan((20, 50, 100, 200), (20,) * 3), "repeats: expected 4 rows"),
        (lambda: TheoryPlan(seed=-1), "seed: expected an integer of at least 0, got -1"),
    ],
)
def test_a_plan_out_of_range_is_refused(plan, message):
    with pytest.raises(InputError, match=message):
        plan()


def test_the_page_is_made_of_the_committed_run(document):
    committed = json.loads((ROOT / "bench" / "results" / "theory.json").read_text("utf-8"))
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    assert markdown(committed) in page, "run: python bench/theory_page.py"
    for name, keys in (
        ("theorem_1", ("largest_at_split", "unique_when_touching", "zero_error")),
        ("theorem_3", ("groups", "one_holds", "monotone")),
    ):
        for key in keys:
            assert document[name][key] == committed[name][key], key
