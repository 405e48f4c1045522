"""Metrics by their definitions, against ir_measures, and intervals that can be trusted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epibias import metrics
from epibias.errors import InputError
from epibias.metrics import bias, intervals, retrieval

ROUNDING = 4 * np.finfo(np.float64).eps  # means of two or three decimals, and a quotient of them
IDS = st.lists(st.integers(0, 15), unique=True, max_size=8)
SETS = st.sets(st.integers(0, 15), max_size=8)


@given(IDS, SETS, st.integers(1, 10))
def test_counts_over_their_denominators(selected, wanted, k):
    first = set(selected[:k])
    hits = len(first & wanted)
    assert retrieval.adversarial_precision(selected, wanted, k) == hits / k
    assert retrieval.recall_over_k(selected, wanted, k) == hits / k
    assert retrieval.none_selected(selected, wanted, k) == float(hits == 0)
    for measure in (retrieval.adversarial_recall, retrieval.recall_over_relevant):
        value = measure(selected, wanted, k)
        assert np.isnan(value) if not wanted else value == hits / len(wanted)


def test_the_divisor_is_k_even_when_fewer_are_selected():
    assert retrieval.adversarial_precision(["a"], {"a"}, k=5) == 0.2
    assert retrieval.recall_over_k([], {"a"}, k=5) == 0.0


def test_rows_of_a_selection_count_like_lists():
    assert retrieval.adversarial_precision(np.array([3, 4]), [4, 9], k=2) == 0.5
    assert retrieval.adversarial_recall(np.array([3, 4]), np.array([4, 9]).tolist()) == 0.5


def test_as_ir_measures_counts():
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(0)
    qrels, run, selections = [], [], {}
    for query in range(40):
        ids = [f"p{i}" for i in rng.permutation(30)[: rng.integers(1, 9)]]
        relevant = {f"p{i}" for i in rng.permutation(30)[: rng.integers(1, 7)]}
        selections[f"q{query}"] = (ids, relevant)
        qrels += [ir_measures.Qrel(f"q{query}", one, 1) for one in sorted(relevant)]
        run += [
            ir_measures.ScoredDoc(f"q{query}", one, 1 - rank / 100) for rank, one in enumerate(ids)
        ]
    ours = {"P@5": retrieval.recall_over_k, "R@5": retrieval.recall_over_relevant}
    measures = [ir_measures.parse_measure(name) for name in ours]
    seen = 0
    for metric in ir_measures.iter_calc(measures, qrels, run):
        ids, relevant = selections[metric.query_id]
        assert ours[str(metric.measure)](ids, relevant, 5) == metric.value  # one division
        seen += 1
    assert seen == 80


def test_a_passage_selected_twice_is_refused():
    with pytest.raises(InputError, match=r"selected: expected each passage once, got 'a' twice"):
        retrieval.adversarial_precision(["a", "b", "a"], set(), k=3)
    with pytest.raises(InputError, match=r"k: expected an integer of at least 1, got 0"):
        retrieval.recall_over_k(["a"], set(), k=0)


def test_the_ratio_is_of_the_averages():
    ratio = retrieval.adversarial_to_recall_ratio
    assert ratio([0.4, 0.0], [0.1, 0.7]) == pytest.approx(0.5, rel=ROUNDING)
    assert ratio([0.4], [0.0]) == np.inf
    assert np.isnan(ratio([0.0], [0.0]))
    with pytest.raises(InputError, match=r"recalls: expected 2 rows, as many as adversarial_prec"):
        retrieval.adversarial_to_recall_ratio([0.1, 0.2], [0.3])
    with pytest.raises(InputError, match=r"recalls: expected at least one query, got none"):
        retrieval.adversarial_to_recall_ratio([], [])


def test_mean_polarization_widens_and_refuses():
    scores = np.array([0.1, 0.2, 0.4], np.float32)
    assert retrieval.mean_polarization(scores) == scores.astype(np.float64).mean()
    assert np.isnan(retrieval.mean_polarization(scores[:0]))
    with pytest.raises(InputError, match=r"scores: expected finite values, got nan \(row 1\)"):
        retrieval.mean_polarization(np.array([0, np.nan], np.float32))


def test_shifts_are_attacked_minus_clean_and_say_of_what():
    shift = bias.b_retrieval([0.3, -0.5, np.nan], [0.1, 0.1, 0.1], reference="same_defense")
    np.testing.assert_allclose(shift.values, [0.2, -0.6, np.nan])
    np.testing.assert_allclose(shift.magnitudes, [0.2, 0.6, np.nan])
    assert shift.reference == "same_defense"
    with pytest.raises(InputError, match=r"reference: expected 'same_defense' or 'undefended'"):
        bias.b_retrieval([0.1], [0.1], reference="clean")
    with pytest.raises(
        InputError, match=r"^clean: expected finite values, or NaN, got inf \(row 1"
    ):
        bias.b_retrieval([0.1, 0.1], [0.1, np.inf], reference="undefended")
    with pytest.raises(InputError, match=r"clean: expected 1 rows, as many as attacked, got 2"):
        bias.b_retrieval([0.1], [0.1, 0.2], reference="undefended")


def test_b_response_is_over_the_answers_and_a_missing_answer_fails_the_query():
    attacked = np.array([[0.1, 0.2, 0.3], [0.1, np.nan, 0.3]])
    shift = bias.b_response(attacked, np.zeros((2, 3)))
    assert shift[0] == pytest.approx(0.2, rel=ROUNDING)
    assert np.isnan(shift[1])
    with pytest.raises(InputError, match=r"attacked_scores: expected an array \[n_queries, n_ans"):
        bias.b_response(np.zeros(3), np.zeros((1, 3)))
    with pytest.raises(InputError, match=r"^attacked_scores: .* got -inf \(row 0, column 1\)"):
        bias.b_response(np.array([[0.1, -np.inf]]), np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"clean_scores: expected 2 rows, as many as attacked_sc"):
        bias.b_response(attacked, np.zeros((3, 3)))


def test_attack_success_ignores_case_and_needs_a_target():
    values = bias.attack_success(["It's BERLIN.", "Paris", "x"], ["berlin", "Rome", None])
    np.testing.assert_array_equal(values, [1, 0, np.nan])
    with pytest.raises(InputError, match=r"targets: expected a text that is not blank.*row 0"):
        bias.attack_success(["x"], [" "])
    with pytest.raises(InputError, match=r"targets: expected 1 rows, as many as answers, got 2"):
        bias.attack_success(["x"], ["a", "b"])


def test_the_interval_is_scipys_percentile_one():
    from scipy.stats import bootstrap

    values = np.random.default_rng(1).choice([0, 0.2, 0.4, 1.0], 60)
    interval = intervals.bootstrap_interval(values, seed=5, n_resamples=999)
    found = bootstrap(
        (values,), np.mean, n_resamples=999, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    assert (interval.low, interval.high) == (found.low, found.high)
    assert interval.mean == values.mean()
    assert interval == intervals.bootstrap_interval(values.tolist(), seed=5, n_resamples=999)
    assert interval != intervals.bootstrap_interval(values, seed=6, n_resamples=999)


def test_the_ratio_s_interval_is_scipys_paired_percentile_one():
    from scipy.stats import bootstrap

    rng = np.random.default_rng(3)
    above, below = rng.choice([0, 0.2, 0.4], 40), rng.choice([0.2, 0.6, 1.0], 40)
    found = bootstrap(
        (above, below),
        lambda a, b, axis: a.mean(axis) / b.mean(axis),
        paired=True, n_resamples=999, method="percentile", rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    interval = intervals.ratio_interval(above, below, n_resamples=999, seed=5)
    assert (interval.low, interval.high) == (found.low, found.high)
    assert interval.mean == above.mean() / below.mean()
    assert interval.mean == retrieval.adversarial_to_recall_ratio(above, below)


def test_draws_do_not_depend_on_how_many_are_in_memory(monkeypatch):
    values = np.random.default_rng(1).uniform(0, 1, (2, 30))
    whole = intervals.bootstrap_interval(values[0]), intervals.ratio_interval(*values)
    monkeypatch.setattr(intervals, "_DRAWS_AT_ONCE", 7 * 30)
    assert (intervals.bootstrap_interval(values[0]), intervals.ratio_interval(*values)) == whole


def test_a_query_s_two_values_stay_together():
    above = np.random.default_rng(1).uniform(0.1, 1, 50)
    interval = intervals.ratio_interval(above, 2 * above)
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.5, 0.5)
    # Failed in one of the two is failed.
    holes = intervals.ratio_interval([0.1, np.nan, 0.2, 0.3], [0.2, 0.1, np.nan, 0.6])
    assert (holes.n, holes.failed, holes.mean) == (2, (1, 2), pytest.approx(0.5, rel=ROUNDING))


def test_ratios_without_an_end_say_so():
    constant = intervals.ratio_interval([0.2] * 3, [0.4] * 3)
    assert (constant.mean, constant.low, constant.high) == (0.5, 0.5, 0.5)
    # Some resample of these holds no relevant passage.
    sparse = intervals.ratio_interval([0.2, 0.2, 0.2], [0.0, 0.0, 0.6])
    assert sparse.mean == pytest.approx(1.0, rel=ROUNDING)
    for interval, mean in (
        (sparse, sparse.mean),
        (intervals.ratio_interval([0.2, 0.2], [0, 0]), np.inf),
        (intervals.ratio_interval([0, 0], [0, 0]), np.nan),
        (intervals.ratio_interval([0.2], [0.4]), 0.5),
        (intervals.ratio_interval([], []), np.nan),
    ):
        assert interval.mean == mean or np.isnan([interval.mean, mean]).all()
        assert np.isnan([interval.low, interval.high]).all()
    for arguments, message in (
        (([0.1, 0.2], [0.1]), r"^denominators: expected 2 rows, as many as numerators, got 1"),
        (([0.1, -0.2], [1, 1]), r"^numerators: expected values of at least 0, got -0.2 \(row 1\)"),
        (([0.1], [-1.0]), r"^denominators: expected values of at least 0, got -1.0 \(row 0\)"),
        (([0.1], [np.inf]), r"^denominators: expected finite values, or NaN, got inf \(row 0\)"),
    ):
        with pytest.raises(InputError, match=message):
            intervals.ratio_interval(*arguments)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=12),
    st.lists(st.integers(-3, 3), min_size=1, max_size=12),
)
def test_auc_is_the_share_of_pairs_won_with_half_for_ties(positive, negative):
    won = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert metrics.auc(positive, negative) == np.mean(won)  # halves are exact, one division
    mirrored = (len(won) - sum(won)) / len(won)
    assert metrics.auc(negative, positive) == mirrored


def test_auc_of_float32_scores_and_of_nothing():
    scores = np.random.default_rng(0).standard_normal((2, 40)).astype(np.float32)
    assert metrics.auc(scores[0] + 9, scores[1]) == 1.0
    assert np.isnan(metrics.auc([], [0.1]))
    assert np.isnan(metrics.auc(scores[0], []))
    with pytest.raises(
        InputError, match=r"^negative_scores: expected finite values, got nan \(row"
    ):
        metrics.auc([0.1], [np.nan])
    with pytest.raises(
        InputError, match=r"^positive_scores: expected one number a passage, got sh"
    ):
        metrics.auc(scores, [0.1])


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(200):
        found = intervals.bootstrap_interval(rng.uniform(0, 1, 40), n_resamples=400)
        covered += found.low <= 0.5 <= found.high
    # 200 draws at .95, less the percentile bootstrap's known shortfall at n = 40.
    assert 0.88 <= covered / 200 <= 0.99


def test_failed_queries_are_counted_and_listed():
    values = [0.2, np.nan, 0.4, np.nan, 0.0]
    interval = intervals.bootstrap_interval(values)
    assert (interval.n, interval.n_failed, interval.failed) == (3, 2, (1, 3))
    assert interval.mean == pytest.approx(0.2, rel=ROUNDING)
    assert intervals.distribution(values).failed == (1, 3)


def test_degenerate_intervals_are_declared_without_a_warning():
    equal = intervals.bootstrap_interval([0.3] * 7)
    assert (equal.mean, equal.low, equal.high, equal.n) == (0.3, 0.3, 0.3, 7)
    one = intervals.bootstrap_interval([0.3, np.nan])
    assert (one.mean, one.n) == (0.3, 1)
    assert np.isnan(one.low)
    assert np.isnan(one.high)
    none = intervals.bootstrap_interval([np.nan, np.nan])
    assert none.n == 0
    assert np.isnan([none.mean, none.low, none.high]).all()
    assert intervals.bootstrap_interval([]).n == 0


def test_the_distribution_ends_at_one():
    found = intervals.distribution([0.2, 0.0, 0.0, 1.0, np.nan])
    assert found.values.tolist() == [0.0, 0.2, 1.0]
    assert found.shares.tolist() == [0.5, 0.75, 1.0]
    assert found.n == 4
    empty = intervals.distribution([])
    assert (len(empty.values), empty.n) == (0, 0)


@pytest.mark.parametrize("measure", [intervals.bootstrap_interval, intervals.distribution])
def test_values_that_are_no_values_are_refused(measure):
    with pytest.raises(InputError, match=r"values: expected one number a query, got shape \(1, 2"):
        measure([[0.1, 0.2]])
    with pytest.raises(InputError, match=r"values: expected finite values, or NaN, got inf \(row"):
        measure([0.1, np.inf])
    with pytest.raises(InputError, match=r"level: expected a finite number > 0 and below 1, got"):
        intervals.bootstrap_interval([0.1], level=95)
    with pytest.raises(InputError, match=r"values: expected one number a query, got dtype <U3"):
        measure(["0.1"])
    with pytest.raises(InputError, match=r"values: expected one number a query, got lists of un"):
        measure([[0.1], [0.1, 0.2]])
