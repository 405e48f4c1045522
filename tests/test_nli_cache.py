"""Judgements on disk: each pair once, in its order, bit for bit."""

from __future__ import annotations

import json
import stat

import numpy as np
import pytest

from epibias.errors import InputError, TornRecordWarning
from epibias.nli import CachedNLI, FixedNLI

PREMISES, HYPOTHESES = ["a", "b", "a"], ["b", "a", "a"]


def judge(premise, hypothesis):
    rng = np.random.default_rng([ord(premise[0]), ord(hypothesis[0])])
    values = rng.random(3)
    return values / values.sum()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "nli.jsonl"


@pytest.fixture
def filled(path):
    CachedNLI(FixedNLI(judge), path).probabilities(PREMISES, HYPOTHESES)
    return path


def test_a_repeated_run_asks_nobody_and_has_the_same_bits(filled):
    fresh = FixedNLI(judge).probabilities(PREMISES, HYPOTHESES)
    nli = FixedNLI(judge)
    cached = CachedNLI(nli, filled)
    np.testing.assert_array_equal(cached.probabilities(PREMISES, HYPOTHESES), fresh)
    assert (nli.n_pairs, cached.n_known, cached.n_judged) == (0, 3, 0)
    assert stat.S_IMODE(filled.stat().st_mode) == 0o600


def test_a_pair_and_its_reverse_are_two_questions(filled):
    values = CachedNLI(None, filled).probabilities(["a", "b"], ["b", "a"])
    np.testing.assert_array_equal(values, FixedNLI(judge).probabilities(["a", "b"], ["b", "a"]))
    assert not np.array_equal(values[0], values[1])


def test_equal_pairs_are_judged_once(path):
    nli = FixedNLI(judge)
    cached = CachedNLI(nli, path)
    values = cached.probabilities(["a", "b", "a"], ["b", "a", "b"])
    assert nli.n_pairs == 2
    np.testing.assert_array_equal(values[0], values[2])
    assert cached.probabilities([], []).shape == (0, 3)


def test_another_model_gets_nothing_of_this_one(filled):
    other = FixedNLI(lambda premise, hypothesis: (1, 0, 0), name="other")
    values = CachedNLI(other, filled).probabilities(PREMISES, HYPOTHESES)
    assert (values[:, 0] == 1).all()
    with pytest.raises(
        InputError, match=r"judgements of one model, or the argument identity, got those of 2"
    ):
        CachedNLI(None, filled)
    one = CachedNLI(None, filled, identity=FixedNLI(judge).identity)
    np.testing.assert_array_equal(
        one.probabilities(PREMISES, HYPOTHESES),
        FixedNLI(judge).probabilities(PREMISES, HYPOTHESES),
    )


def test_offline_a_pair_that_is_missing_is_told(filled):
    nli = FixedNLI(judge)
    with pytest.raises(InputError, match=r"got 2 that are not in it, offline \(row 1\)"):
        CachedNLI(nli, filled, offline=True).probabilities(["a", "x", "y"], ["b", "a", "a"])
    assert nli.n_pairs == 0
    with pytest.raises(InputError, match=r"path: expected a file of judgements, got none"):
        CachedNLI(None, filled.with_name("none.jsonl"))


def test_a_torn_last_line_is_told_left_out_and_mended(filled):
    content = filled.read_bytes()
    filled.write_bytes(content[:-9])
    with pytest.warns(TornRecordWarning, match=r"nli.jsonl, line 4 is incomplete"):
        cached = CachedNLI(FixedNLI(judge), filled)
    assert len(cached) == 2
    cached.probabilities(PREMISES, HYPOTHESES)
    assert filled.read_bytes() == content


def test_texts_are_not_kept(path):
    CachedNLI(FixedNLI(judge), path).probabilities(["a very secret text"], ["another"])
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"layout": 2}, "a record of a pair, layout 1, got 2"),
        ([], "a record of a pair"),
        ({"layout": 1, "model": "m", "pair": "p"}, "model, pair and values"),
        ({"layout": 1, "model": "m", "pair": "p", "values": ["x", 0, 0]}, "three numbers"),
        ({"layout": 1, "model": "m", "pair": "p", "values": [0.5, 0.4]}, "shape (1, 3)"),
        ({"layout": 1, "model": "m", "pair": "p", "values": [0.5, 0.4, 0.4]}, "add up to 1"),
        ({"layout": 1, "model": "m", "identity": {}}, "an identity with its own key"),
    ],
)
def test_a_line_that_is_no_record_is_told_by_its_number(filled, record, message):
    with filled.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    with pytest.raises(InputError) as caught:
        CachedNLI(None, filled)
    assert message in str(caught.value)
    assert "nli.jsonl, line 5" in str(caught.value)


def test_judgements_are_on_disk_before_the_next_ones(path, monkeypatch):
    monkeypatch.setattr("epibias.nli.cache.PAIRS_AT_A_TIME", 2)
    seen = []

    def look(premise, hypothesis):
        seen.append(path.read_bytes().count(b"\n") if path.exists() else 0)
        return (1, 0, 0)

    CachedNLI(FixedNLI(look), path).probabilities(list("abcde"), list("vwxyz"))
    assert seen == [0, 0, 3, 3, 5]
