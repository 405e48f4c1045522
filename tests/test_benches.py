"""What the benches rest on: checks that can fail, rows as they should be, turns that are turns."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import epibias as eb

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import answers
import embeddings
import interleave
import peers

K = 8


@pytest.fixture(scope="module")
def searched():
    """Queries, passages with a tie among them, and the exact answer."""
    rng = np.random.default_rng(0)
    queries, passages = (rng.standard_normal((n, 48), np.float32) for n in (20, 600))
    passages[300:310] = passages[:10]
    found = eb.CosineIndex(passages).search(queries, K)
    return queries, passages, (found.indices, found.similarities)


def changed(answer, row, column, index=None, similarity=None):
    indices, similarities = answer[0].copy(), answer[1].copy()
    if index is not None:
        indices[row, column] = index
    if similarity is not None:
        similarities[row, column] = similarity
    return indices, similarities


def test_the_exact_answer_passes_both_checks(searched):
    queries, passages, exact = searched
    answers.check_ours(exact, queries, passages)
    assert answers.check_peer(exact, exact, queries, passages)["other_ids_a_query"] == 0


def test_one_bit_one_swap_and_one_omission_of_ours_are_found(searched):
    queries, passages, exact = searched
    one_up = np.nextafter(exact[1][1, 3], np.float32(2))
    with pytest.raises(answers.WrongAnswerError, match="not the oracle's"):
        answers.check_ours(changed(exact, 1, 3, similarity=one_up), queries, passages)
    swapped = tuple(part[:, [1, 0, *range(2, K)]] for part in exact)
    with pytest.raises(answers.WrongAnswerError, match="order of rank"):
        answers.check_ours(swapped, queries, passages)
    without_first = tuple(part[:, 1:] for part in exact)
    with pytest.raises(answers.WrongAnswerError, match="was left out"):
        answers.check_ours(without_first, queries, passages)


def test_a_peer_may_swap_ties_but_not_omit_or_repeat_or_be_far_off(searched):
    queries, passages, exact = searched
    twin = passages[:1].copy()  # passages 0 and 300 are equal
    found = eb.CosineIndex(passages).search(twin, 1)
    other = np.array([[300]]), found.similarities
    judged = answers.check_peer(other, (found.indices, found.similarities), twin, passages)
    assert judged["other_ids_a_query"] == 1
    worst = int(np.argmin(answers.cosines(queries[0], passages)))
    for wrong, words in (
        (changed(exact, 0, 4, index=worst), "the k-th has"),
        (changed(exact, 0, 4, index=exact[0][0, 0]), "7 distinct ids of 8"),
        (changed(exact, 0, 4, similarity=np.nan), "off by nan"),
        (changed(exact, 0, 4, similarity=exact[1][0, 4] + 1e-3), "off by 0.001"),
    ):
        with pytest.raises(answers.WrongAnswerError, match=words):
            answers.check_peer(wrong, exact, queries, passages)


@pytest.mark.parametrize(
    "name", ["numpy", "torch", "FAISS", "FAISS Panorama", "FAISS default", "scikit-learn"]
)
def test_every_configuration_of_a_peer_answers_right(name, searched):
    queries, passages, exact = searched
    unit = passages / np.linalg.norm(passages, axis=1, keepdims=True)
    asked = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    peer = peers.PEERS[name](unit, 1)
    settings = peer.configurations(len(asked), K)
    assert settings
    for setting in settings:
        answers.check_peer(peer.search(asked, K, setting), exact, asked, unit)


def clustered_rows(n=1200, dim=24):
    rng = np.random.default_rng(3)
    spectrum = np.arange(1, dim + 1) ** -0.5
    centres = rng.standard_normal((40, dim)) * spectrum + 0.3
    rows = centres[rng.integers(0, 40, n)] + 0.4 * rng.standard_normal((n, dim)) * spectrum
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_groups_hold_every_row_once():
    members = embeddings.groups(clustered_rows())
    assert sorted(np.concatenate(members)) == list(range(1200))
    assert {len(group) for group in members} <= set(range(9, embeddings.GROUP + 1))


@pytest.mark.parametrize("parts", [1, 2])
def test_drawn_rows_keep_similarities_and_spectrum_and_copy_nothing(parts):
    real = clustered_rows()
    dim = parts * real.shape[1]
    drawn = embeddings.draw_passages(real, 5000, dim)
    assert drawn.tobytes() == embeddings.draw_passages(real, 5000, dim).tobytes()
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-6)
    assert len(np.unique(drawn.round(6), axis=0)) > 4800
    queries = embeddings.draw_queries(real[:50], real, 80, dim)
    assert queries.shape == (80, dim)
    if parts == 1:
        assert np.array_equal(queries[:50], real[:50] / np.linalg.norm(real[:50], axis=1)[:, None])
        expected, found = (embeddings.quantiles(real[:50], rows) for rows in (real, drawn))
        for share in ("0.5", "0.1", "0.01"):
            assert abs(expected[share] - found[share]) < 0.03
        covariance = np.cov(real, rowvar=False)
        assert np.abs(np.cov(drawn, rowvar=False) - covariance).max() < 0.1 * covariance.max()


def test_calls_take_turns_and_a_slow_one_fewer(monkeypatch):
    monkeypatch.setattr(interleave, "IDLE_SECONDS", 0)
    order = []

    def call(name, seconds):
        order.append(name)
        return seconds, 2 * seconds

    calls = {name: partial(call, name, s) for name, s in (("a", 1.0), ("b", 9.0))}
    times = interleave.interleaved(calls, rounds=5, budget_s=20)
    assert "".join(order) == "abababaa"
    assert times["a"].summary() == {
        "median_ms": 1000,
        "fastest_ms": 1000,
        "slowest_ms": 1000,
        "cpu_ms": 2000,
        "rounds": 5,
    }
    assert times["b"].summary()["rounds"] == 3


def environment_process():
    return lambda name, request: os.environ.get(name, "unset") if name.isupper() else request[5]


def test_a_process_has_the_environment_it_wants_and_reports_its_errors(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    process = interleave.Process(environment_process, n_threads=2)
    assert process.ask("OPENBLAS_CORETYPE") == "unset"
    assert process.ask("OMP_NUM_THREADS") == process.ask("EPIBIAS_THREADS") == "2"
    with pytest.raises(RuntimeError, match="IndexError"):
        process.ask("fail")
    process.close()
    own = {"OPENBLAS_CORETYPE": "Zen"}
    process = interleave.Process(environment_process, n_threads=1, environment=own)
    assert process.ask("OPENBLAS_CORETYPE") == "Zen"
    process.close()
    assert (os.environ["OPENBLAS_CORETYPE"], os.environ["OMP_NUM_THREADS"]) == ("Prescott", "7")
