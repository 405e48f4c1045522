"""A run whose server is gone, or that is stopped: what is kept, and how it goes on."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench_fakes import ANSWERS, SMALL, FakeLoaders, script, write_config
from epibias.cli import main
from epibias.errors import ValidityWarning
from epibias.experiment.bench import UNANSWERED, Experiment, run_bench
from epibias.experiment.bench_inputs import Loaders
from epibias.experiment.config import read_config
from epibias.experiment.run_folder import RunFolder
from epibias.experiment.watch import StoppedError, Watch, WatchedGenerator, WatchedNLI
from epibias.generators import (
    CachedGenerator,
    FixedGenerator,
    OpenAICompatibleGenerator,
    Prompt,
)
from epibias.generators.base import Failure
from epibias.nli import CachedNLI, FixedNLI

SERVED = SMALL.replace("[0, 1, 5]", "[1]").replace('axes = ["pca", "random"]', "")
SERVED += ANSWERS.replace('cache = "replies.jsonl"', 'url = "http://127.0.0.1:1/v1"\nmodel = "m"')


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """No figures: they take most of the time, and other tests look at them."""
    monkeypatch.setattr("epibias.experiment.bench_report.svg_of", lambda _: "<svg></svg>")


class Served(FakeLoaders):
    """A server that is killed after so many prompts; replies are kept as those of a real one."""

    def __init__(self, prompts_left):
        super().__init__(self.answer)
        self.left = prompts_left
        self.asked = []

    def answer(self, prompt, repeat):
        if self.left <= 0:
            return Failure("down", "http://127.0.0.1:1/v1 was not reached", attempts=1)
        self.left -= 1
        self.asked.append((prompt.sha256, repeat))
        return script(prompt, repeat)

    def generator(self, config, choice, out, *, offline):
        fixed = super().generator(config, choice, out, offline=offline)
        return CachedGenerator(fixed, out / f"replies-{choice.name}.jsonl", offline=offline)


def rows_of(folder):
    """All that a run found, but for times."""
    run = RunFolder(folder)
    rows = [{**one, "latency_ms": None} for one in run.rows()]
    lines = (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    return rows, [json.loads(line) for line in lines]


def test_a_run_whose_server_dies_goes_on_and_loses_and_repeats_nothing(tmp_path):
    config = read_config(write_config(tmp_path, SERVED))
    whole = run_bench(config, tmp_path / "whole", loaders=Served(10_000))
    assert whole.state == "new"
    dying = Served(20)
    first = run_bench(config, tmp_path / "run", loaders=dying)
    assert first.state == UNANSWERED
    assert "found no server: 24, in questions: 2. The same command" in first.notes[0]
    assert not (tmp_path / "run" / "complete.json").exists()
    assert (tmp_path / "run" / "report.html").exists()
    again = Served(10_000)
    second = run_bench(config, tmp_path / "run", loaders=again)
    assert second.state == "resumed"
    assert rows_of(tmp_path / "run") == rows_of(tmp_path / "whole")
    assert not {*dying.asked} & {*again.asked}
    assert len(again.asked) == len({*again.asked})
    assert not (tmp_path / "run" / "parts").exists()


def test_a_question_that_is_stopped_asks_no_further_prompt(tmp_path):
    """Threads cannot be interrupted: the run would otherwise wait for the answers of a question."""
    config = read_config(write_config(tmp_path, SERVED))
    asked = []

    class Interrupted(Served):
        def answer(self, prompt, repeat):
            asked.append(threading.current_thread())
            experiment_watch.stop.set()
            return script(prompt, repeat)

    loaders = Interrupted(10_000)
    experiment = Experiment(config, tmp_path, loaders)
    experiment_watch = experiment.watch
    prompts = [Prompt("own", "1", f"Question {number}?") for number in range(9)]
    with pytest.raises(StoppedError):
        experiment.generators["scripted"].generate(prompts, temperature=0.0, max_tokens=4)
    assert len(asked) == 1


def test_a_stop_ends_the_threads_of_a_run(tmp_path, monkeypatch):
    config = read_config(write_config(tmp_path, SERVED))
    asked = []

    class Slow(Served):
        def answer(self, prompt, repeat):
            asked.append(prompt)
            return script(prompt, repeat)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("epibias.experiment.bench.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_bench(config, tmp_path / "run", loaders=Slow(10_000))
    assert len(asked) < 12


@pytest.mark.parametrize("kind", ["generator", "nli"])
def test_a_thread_that_waited_for_its_turn_asks_nothing_after_a_stop(tmp_path, kind):
    """Else a run of many jobs asks one prompt of each before it ends."""
    watch, asked = Watch(), []
    under_way, go_on = threading.Event(), threading.Event()

    def slow(*about):
        asked.append(about)
        under_way.set()
        assert go_on.wait(20)
        return "Yes." if kind == "generator" else (0, 1, 0)

    if kind == "generator":
        cached = CachedGenerator(FixedGenerator(slow), tmp_path / "replies.jsonl")
        watched = WatchedGenerator(cached, watch, counts=True)
        ask = lambda number: watched.generate([Prompt("own", "1", f"Question {number}?")])  # noqa: E731
    else:
        judge = WatchedNLI(CachedNLI(FixedNLI(slow), tmp_path / "nli.jsonl"), watch)
        ask = lambda number: judge.probabilities([f"Text {number}."], ["So."])  # noqa: E731
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(ask, 0)
        assert under_way.wait(20)
        others = [pool.submit(ask, number) for number in (1, 2, 3)]
        while not all(one.running() for one in others):
            time.sleep(0.001)
        time.sleep(0.05)  # they wait for their turn
        watch.stop.set()
        go_on.set()
        assert len(first.result()) == 1
        for one in others:
            with pytest.raises(StoppedError):
                one.result()
    assert len(asked) == 1


def test_what_is_watched_is_as_it_was():
    watch = Watch()
    fixed = FixedGenerator("Yes.", "own")
    seen = WatchedGenerator(fixed, watch, counts=True)
    prompts = [Prompt("own", "1", f"Question {number}?") for number in range(9)]
    assert seen.identity == fixed.identity
    assert seen.generate(prompts, repeat=1) == fixed.generate(prompts, repeat=1)
    assert seen.generate([]) == []
    nli = FixedNLI(lambda one, other: (0, 0, 1) if one == other else (1, 0, 0))
    told = WatchedNLI(nli, watch)
    assert told.identity == nli.identity
    assert (told.probabilities(["a"], ["a"]) == nli.probabilities(["a"], ["a"])).all()
    watch.stop.set()
    for ask in (lambda: told.probabilities(["a"], ["a"]), lambda: seen.generate(prompts)):
        with pytest.raises(StoppedError):
            ask()


def test_the_command_ends_with_1_and_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    path = write_config(tmp_path, SERVED)
    monkeypatch.setattr("epibias.experiment.bench.Loaders", lambda: Served(1))
    out = tmp_path / "run"
    assert main(["bench", "run", str(path), "--out", str(out)]) == 1
    assert "The same command measures those questions" in capsys.readouterr().out.replace("\n", " ")
    assert not (out / "complete.json").exists()
    main(["bench", "run", str(path), "--out", str(out), "--offline"])  # taken as it is
    assert (out / "complete.json").exists()


def test_offline_with_nothing_kept_says_so_and_has_answers_that_failed(tmp_path):
    """A server that never answered leaves no file of replies."""
    config = read_config(write_config(tmp_path, SERVED.replace("questions = 3", "questions = 2")))
    out = tmp_path / "run"

    class Offline(FakeLoaders):
        def generator(self, config, choice, out, *, offline):
            return Loaders.generator(self, config, choice, out, offline=offline)

    with pytest.warns(ValidityWarning, match=r"'scripted': no reply of it is kept \(.*replies-scr"):
        run_bench(config, out, offline=True, loaders=Offline())
    assert (out / "complete.json").exists()
    _, records = rows_of(out)
    assert records
    assert {one["reason"] for one in records} == {"down"}
    assert not list(out.glob("replies-*"))
    settings = RunFolder(out).manifest()["settings"]
    made = OpenAICompatibleGenerator("m", "http://127.0.0.1:1/v1")
    assert settings["generators"]["scripted"] == made.identity  # as an online run has it
