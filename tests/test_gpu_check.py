"""The command for a machine with a GPU: it fails where it should, and says why there is none."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import gpu_check
from gpu import cases, clocks, correctness, environment, places, plans, report, timing


def arrays(*values):
    return tuple(np.asarray(value, np.float32) for value in values)


# ---- the report ------------------------------------------------------------------------------


def test_every_step_is_on_disk_before_the_next(tmp_path):
    path = tmp_path / "out.json"
    found = report.Report(path, seed=3)
    assert json.loads(path.read_text())["status"] == "running"

    def second():
        assert json.loads(path.read_text())["steps"]["first"]["status"] == "passed"
        return {"status": "passed"}

    found.run("first", lambda: {"status": "passed"})
    found.run("second", second)
    assert found.close() == 0
    content = json.loads(path.read_text())
    assert (content["status"], content["seed"]) == ("passed", 3)
    assert list(content["steps"]) == ["first", "second"]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda: {"status": "failed", "reason": "bad"}, "bad"),
        (lambda: {"reason": "forgot"}, "did not say"),
        (lambda: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_step_that_fails_or_says_nothing_fails_the_run(tmp_path, step, said):
    found = report.Report(tmp_path / "out.json")
    found.run("step", step)
    assert found.close(no_gpu="none") == 1
    assert said in (tmp_path / "out.json").read_text()


def test_a_run_without_steps_is_no_pass(tmp_path):
    assert report.Report(tmp_path / "out.json").close() == 1


def test_without_a_driver_the_code_is_77_and_the_reason_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", "--out", str(tmp_path / "out.json")])
    assert gpu_check.main() == 77
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["status"] == "no GPU"
    assert "no NVIDIA driver" in content["reason"]


def test_the_hash_is_of_names_and_contents(tmp_path):
    (tmp_path / "cpp").mkdir()
    (tmp_path / "cpp" / "a.cpp").write_text("1")
    first = environment.source_hash(tmp_path)
    assert first == environment.source_hash(tmp_path)
    (tmp_path / "cpp" / "a.cpp").write_text("2")
    second = environment.source_hash(tmp_path)
    (tmp_path / "cpp" / "a.cpp").rename(tmp_path / "cpp" / "b.cpp")
    assert len({first, second, environment.source_hash(tmp_path)}) == 3


# ---- correctness -----------------------------------------------------------------------------


def test_comparators_refuse_other_bits_shapes_and_nan():
    one = arrays([1, 2])[0]
    cases.same("x", one, one)
    cases.near("x", one, one, 0)
    for wrong in (
        arrays([1, 3])[0],
        arrays([1])[0],
        one.astype(np.float64),
        arrays([1, np.nan])[0],
    ):
        with pytest.raises(cases.WrongAnswerError):
            cases.same("x", wrong, one)
    with pytest.raises(cases.WrongAnswerError, match=r"expected 0\.0, got -0\.0"):
        cases.same("x", arrays([-0.0])[0], arrays([0.0])[0])
    for wrong in (arrays([1, 2.1])[0], arrays([1])[0], arrays([1, np.nan])[0]):
        with pytest.raises(cases.WrongAnswerError):
            cases.near("x", wrong, one, 0.01)


def emulated_case(change=lambda answer, run: answer, judge=None, kernels_used=True):
    """One search through the emulation, and what goes wrong with it."""
    from epibias import kernels

    rows = np.eye(5, 8, dtype=np.float32)
    runs = []

    def call(queries):
        runs.append(1)
        if not kernels_used:
            return (np.zeros(1, np.int64),)
        return change(kernels.cosine_topk(queries, rows, 2)[:2], len(runs))

    return cases.Case("cosine_topk", "small", (rows,), call, judge or (lambda got: None))


def outcome(case, monkeypatch):
    monkeypatch.setattr(correctness, "all_cases", lambda rng, large: [case])
    found = correctness.check([places.Emulation()], 1, large=False, also_emulated=False)
    return found, found["records"][0]["emulation"]


def test_a_right_answer_is_right_and_stages_without_a_case_are_told(emulation, monkeypatch):
    found, said = outcome(emulated_case(), monkeypatch)
    assert said == "right"
    assert found["status"] == "failed"  # the other stages have no case here
    assert "polarization_axis: no case" in found["wrong"]


def differs_in_the_fourth_run(answer, run):
    indices = answer[0].copy()
    indices[0, 0] += run == 4
    return indices, answer[1]


def refuse(_):
    raise cases.WrongAnswerError("no")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (emulated_case(judge=refuse), "wrong: no"),
        (emulated_case(differs_in_the_fourth_run), "run 4 against run 1: they differ"),
        (emulated_case(lambda answer, run: 1 / 0), "ZeroDivisionError"),
        (emulated_case(kernels_used=False), "it ran elsewhere"),
    ],
)
def test_a_wrong_answer_is_seen(emulation, monkeypatch, case, said):
    found, told = outcome(case, monkeypatch)
    assert said in told
    assert found["status"] == "failed"
    assert said in found["reason"]


def test_nowhere_to_run_is_no_pass(monkeypatch):
    monkeypatch.setattr(correctness, "all_cases", lambda rng, large: [])
    assert correctness.check([], 1, large=False, also_emulated=False)["status"] == "failed"


# ---- timing ----------------------------------------------------------------------------------


class Arrays(places.Emulation):
    def down(self, value):
        return value


def plan(peer):
    return plans.Plan(
        "stage",
        "small",
        [(np.ones(3),), (np.zeros(3),)],
        lambda array: array + 1,
        n_bytes=1e9,
        operations=1e12,
        peers={"other": peer},
        agree=lambda ours, theirs: bool(np.array_equal(ours, theirs)),
    )


def test_a_floor_is_the_larger_of_bytes_and_operations():
    slow_memory = {"bytes_per_s": 1e11, "tf32_per_s": 1e15}
    slow_products = {"bytes_per_s": 1e12, "tf32_per_s": 1e13}
    assert plan(None).floor_ms(slow_memory) == pytest.approx(10)
    assert plan(None).floor_ms(slow_products) == pytest.approx(100)


def test_inputs_rotate_and_two_series_are_told():
    seen = []

    def clock(call):
        call()
        return 100.0 + len(seen)

    found = clocks.measured(clock, seen.append, [("a",), ("b",)])
    assert set(seen[0::2]) == {"a"}
    assert set(seen[1::2]) == {"b"}
    assert found["n"] == clocks.FEWEST
    assert found["ms_again"] > found["ms"] > 100


def test_a_peer_with_another_answer_is_not_timed():
    place, clock = Arrays(), lambda call: 2.0
    right = timing.timed(place, plan(lambda array: array + 1), clock, floor_ms=1.0)
    assert right["of_floor"] == 0.5
    assert right["times_other"] == 1.0
    assert "50 % of the floor, 1.00 times other" in timing.line(right)
    wrong = timing.timed(place, plan(lambda array: array + 2), clock, floor_ms=1.0)
    assert "other gives another answer" in wrong["error"]
    assert "ours" not in wrong
    unjudged = replace(plan(lambda array: array + 1), agree=None)
    assert "error" in timing.timed(place, unjudged, clock, floor_ms=1.0)
