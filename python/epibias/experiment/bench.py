"""`bench run`: the cross product of a configuration, measured question by question.

Owns the order of the steps and what the user is told. In: a configuration and an output folder.
Out: the run folder, finished. An *arm* is a data set × an encoder × a k; its corpus is encoded and
held once. Questions come in groups: a group is encoded, its axes fitted, its questions measured by
`jobs` threads (the kernels and the network leave Python free), each kept before the next group
begins. No row depends on the group or on the number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias.attacks.facts import FactTable
from epibias.corpus import Passage
from epibias.encoder import Encoder
from epibias.experiment import bench_inputs, manifest
from epibias.experiment.answers import ANSWERS, Asked
from epibias.experiment.bench_inputs import LoadedSet, Loaders
from epibias.experiment.bench_work import Work
from epibias.experiment.config_types import Config, DataSetChoice, EncoderChoice
from epibias.experiment.defense_kinds import KINDS, CleanQuestions, Services, make_defense
from epibias.experiment.inputs import encode_corpus, encode_questions
from epibias.experiment.listener import Listener, Silent
from epibias.experiment.passage_rows import PASSAGES, VALIDITY
from epibias.experiment.plan import Plan
from epibias.experiment.run_folder import RunFolder
from epibias.experiment.stage_costs import costs_of_arms
from epibias.experiment.watch import Watch, WatchedGenerator, WatchedNLI
from epibias.generators.base import Generator
from epibias.nli.fact_reference import FactReference

QUESTIONS_OF_A_GROUP = 32
TABLES = (PASSAGES, ANSWERS, VALIDITY)  # beside the main one
UNANSWERED = "unanswered"  # state of a run with prompts that found no server


@dataclass(frozen=True)
class Arm:
    """One data set × encoder × k of an experiment."""

    number: int
    dataset: DataSetChoice
    encoder: EncoderChoice
    k: int

    def part(self, question: int) -> str:
        """Name of the part of a question, by its number: ids may hold what no file name can."""
        return f"{self.number:03d}-{question:06d}"


@dataclass
class Experiment:
    """A configuration with all that it loads, each thing once and only when it is needed."""

    config: Config
    out: Path
    loaders: Loaders
    offline: bool = False
    i_own_this_index: bool = False
    sets: dict[str, LoadedSet] = field(default_factory=dict)
    encoders: dict[str, Encoder] = field(default_factory=dict)
    references: dict[tuple[str, str], FactReference] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)

    def arms(self) -> list[Arm]:
        """Every data set × encoder × k, in table order."""
        config = self.config
        found = [(d, e, k) for d in config.datasets for e in config.encoders for k in config.k]
        return [Arm(number, *one) for number, one in enumerate(found)]

    def loaded(self, choice: DataSetChoice) -> LoadedSet:
        """Give a question set, loaded once."""
        if choice.name not in self.sets:
            found = bench_inputs.load_set(
                self.config, choice, self.loaders, i_own_this_index=self.i_own_this_index
            )
            self.sets[choice.name] = found
        return self.sets[choice.name]

    def encoder(self, name: str) -> Encoder:
        """Give an encoder, loaded once."""
        if name not in self.encoders:
            self.encoders[name] = self.fresh_encoder(name, cache=True)
        return self.encoders[name]

    def fresh_encoder(self, name: str, *, cache: bool) -> Encoder:
        """Load an encoder; a folder counts from the configuration's."""
        place = bench_inputs.place_of_model(self.config, name, "encoder")
        return self.loaders.encoder(place, cache=cache)

    @cached_property
    def generators(self) -> dict[str, Generator]:
        """Generators by name."""
        return {
            one.name: WatchedGenerator(
                self.loaders.generator(self.config, one, self.out, offline=self.offline),
                self.watch,
                counts=one.url is not None and not self.offline,
            )
            for one in self.config.generators
        }

    @cached_property
    def nli(self) -> Any:  # noqa: ANN401  an NLI, or None
        """Model of natural language inference, if the configuration has one."""
        choice = self.config.nli
        if choice is None:
            return None
        return WatchedNLI(self.loaders.nli(self.config, choice, self.out), self.watch)

    @cached_property
    def asked(self) -> list[Asked]:
        """Generators that answer, with the judge of their answers."""
        judge = self.config.judge
        said = self.generators[judge.generator] if judge is not None and judge.answers else None
        names = bench_inputs.answering(self.config)
        return [Asked(name, self.generators[name], said) for name in names]

    def plan(self, arm: Arm) -> Plan:
        """Plan of an arm, with its defences made."""
        config = self.config
        needs = {name for one in config.defenses for name in KINDS[one.kind].needs}
        services = Services(
            self.nli if "nli" in needs else None,
            next(iter(self.generators.values()), None) if "generator" in needs else None,
            self._reference(arm) if "reference" in needs else None,
        )
        made = tuple(
            make_defense(one, arm.k, config.seed, services, config.name, self._clean(arm))
            for one in config.defenses
        )
        return bench_inputs.plan_of(config, arm.k, made)

    def _clean(self, arm: Arm) -> CleanQuestions:
        """Give what defences may learn from: all questions of the set, whichever are run."""
        questions, name = self.loaded(arm.dataset).questions.questions, arm.encoder.retrieve
        return CleanQuestions(lambda: (questions, self.encoder(name)), self.config.pool_factor)

    def _reference(self, arm: Arm) -> FactReference:
        """Give the sentences of an arm's clean corpus, encoded once."""
        key = arm.dataset.name, arm.encoder.retrieve
        if key not in self.references:
            corpus = self.loaded(arm.dataset).questions.corpus
            self.references[key] = FactReference.build(corpus, self.encoder(arm.encoder.retrieve))
        return self.references[key]

    def settings(self) -> dict[str, Any]:
        """Everything that decides the results, for the manifest; a resumed run must agree."""
        config = self.config
        plain = {name: value for name, value in asdict(config).items() if name != "folder"}
        for one in plain["generators"]:
            del one["concurrency"], one["threads"]  # how long it takes, not what comes out
        plans = {str(arm.k): self.plan(arm) for arm in self.arms()}
        names = dict.fromkeys(n for e in config.encoders for n in (e.retrieve, e.score) if n)
        return {
            "kind": "bench",
            "code": manifest.code_identity(),
            "config": plain,
            "data": {
                one.name: bench_inputs.set_identity(self.loaded(one)) for one in config.datasets
            },
            # By the name in the file, not by where it lies on this machine.
            "encoders": {n: {**_identity(self.encoder(n)), "name": n} for n in names},
            "generators": {n: dict(one.identity) for n, one in self.generators.items()},
            "nli": None if self.nli is None else dict(self.nli.identity),
            "plans": {k: plan.settings() for k, plan in plans.items()},
            "defenses": [
                {"key": one.key, "title": one.title, "uses_axis": one.uses_axis,
                 "prompt": one.prompt}
                for one in next(iter(plans.values())).defenses
            ],
        }  # fmt: skip


def _identity(encoder: Encoder) -> dict[str, Any]:
    return dict(getattr(encoder, "identity", {"name": type(encoder).__name__}))


@dataclass(frozen=True)
class BenchResult:
    """A run: its folder, what was found there, and the notes of the report.

    `state` is "new", "resumed", "complete" (it was before) or `UNANSWERED`: not finished.
    """

    folder: Path
    state: str
    n_rows: int
    notes: list[str]
    seconds: float
    figures: list[str]
    all_failed: list[str]


def run_bench(
    config: Config,
    out: Path,
    *,
    jobs: int = 1,
    offline: bool = False,
    overwrite: bool = False,
    i_own_this_index: bool = False,
    listener: Listener | None = None,
    loaders: Loaders | None = None,
) -> BenchResult:
    """Run an experiment, resume it, or render a finished one again.

    Parameters
    ----------
    config : Config
    out : Path
        Run folder; see `RunFolder`.
    jobs : int
        Questions that are measured at once.
    offline : bool
        Whether generators answer from their caches only.
    overwrite : bool
        Start anew, whatever is in the folder. Cached replies in it are kept.
    i_own_this_index : bool
        True where an attack writes passages (verbatim, poisonedrag); they stay in memory.
    listener : Listener, optional
        Takes messages and progress.
    loaders : Loaders, optional
        How things are loaded.

    Raises
    ------
    InputError
        A configuration that does not fit the data, a folder of something else, a full disk. What
        was measured until then is kept; the same call goes on from there.
    """
    from epibias.experiment.bench_report import report_bench

    started = time.perf_counter()
    listener = listener or Silent()
    _validate.integer("jobs", jobs, low=1)
    bench_inputs.check_start(config, i_own_this_index=i_own_this_index)
    experiment = Experiment(config, out, loaders or Loaders(), offline, i_own_this_index)
    folder = RunFolder(out)
    with folder.locked():
        listener.start("loading data and models", None)
        settings = experiment.settings()
        state = folder.open(settings, manifest.environment(), overwrite=overwrite)
        if state == "complete":
            listener.say(f"{out} holds this run, finished: tables and report are rendered again.")
        else:
            keys = _measure(experiment, folder, jobs, listener)
            listener.start("joining, tables, figures", None)
            n_rows = folder.join_table(keys)
            for table in TABLES:
                folder.join_table(keys, table)
            folder.join_lines(keys, "answers.jsonl")
            folder.write_json("costs.json", costs_of_arms(experiment, listener))
        found = report_bench(folder)
        notes = found.notes
        if state != "complete":
            left = {} if offline else folder.unanswered(keys)
            if left:
                state, notes = UNANSWERED, [_unanswered_note(left), *notes]
            else:
                folder.complete(n_rows)
    seconds = time.perf_counter() - started
    return BenchResult(out, state, found.n_rows, notes, seconds, found.figures, found.all_failed)


def _unanswered_note(left: Mapping[str, int]) -> str:
    return (
        f"Not finished: prompts that found no server: {sum(left.values())}, in questions: "
        f"{len(left)}. The same command measures those questions again; with --offline the run is "
        "taken as it is."
    )


def _measure(experiment: Experiment, folder: RunFolder, jobs: int, listener: Listener) -> list[str]:
    """Measure what is missing; the parts of the whole run, in order."""
    arms = experiment.arms()
    keys = {
        arm: [arm.part(row) for row in range(len(experiment.loaded(arm.dataset).chosen))]
        for arm in arms
    }
    every = [key for arm in arms for key in keys[arm]]
    done = set(folder.topics_done(every, TABLES))
    if not experiment.offline:
        done -= set(folder.unanswered(every))
    total = sum(map(len, keys.values()))
    if done:
        listener.say(f"Resuming: {len(done)} of {total} questions were measured before.")
    for arm in arms:
        missing = [row for row, key in enumerate(keys[arm]) if key not in done]
        if missing:
            _measure_arm(experiment, folder, arm, missing, jobs, listener)
    return every


def _measure_arm(
    experiment: Experiment,
    folder: RunFolder,
    arm: Arm,
    missing: Sequence[int],
    jobs: int,
    listener: Listener,
) -> None:
    loaded, plan = experiment.loaded(arm.dataset), experiment.plan(arm)
    label = f"{arm.dataset.name}, {arm.encoder.name}, k = {arm.k}"
    encoder = experiment.encoder(arm.encoder.retrieve)
    scorer = None if arm.encoder.score is None else experiment.encoder(arm.encoder.score)
    corpus = loaded.questions.corpus
    listener.start(f"{label}: encoding", len(corpus) * (1 if scorer is None else 2))
    clean = encode_corpus(
        arm.dataset.name,
        corpus,
        encoder,
        scorer,
        encoder_name=arm.encoder.name,
        progress=listener.advance,
    )
    facts = _fact_check(experiment, arm)
    listener.start(f"{label}: measuring", len(missing))
    for group in _groups(missing):
        part = [loaded.chosen[row] for row in group]
        injected = loaded.injected(experiment.config, part)
        inputs = encode_questions(clean, part, loaded.questions.relevant, injected, encoder, scorer)
        work = Work(experiment, arm, plan, inputs, scorer or encoder, facts)
        with ThreadPoolExecutor(jobs) as pool:
            futures = [
                pool.submit(work.question, folder, place, row) for place, row in enumerate(group)
            ]
            try:
                for future in futures:
                    future.add_done_callback(lambda _: listener.advance(1))
                wait(futures, return_when=FIRST_EXCEPTION)
                for future in futures:
                    if future.done():
                        future.result()
            except BaseException:
                experiment.watch.stop.set()  # questions that ask models take minutes
                pool.shutdown(wait=True, cancel_futures=True)
                raise
            for future in futures:
                future.result()


def _fact_check(
    experiment: Experiment, arm: Arm
) -> Callable[[Sequence[Passage]], FactTable] | None:
    """Make the check of sentences against the clean corpus, where the configuration asks for it."""
    if not experiment.config.fact_check:
        return None
    from epibias.attacks.facts import check_facts

    corpus = experiment.loaded(arm.dataset).questions.corpus
    reference = FactReference.build(corpus, experiment.encoder(arm.encoder.retrieve))
    return lambda passages: check_facts(passages, reference, experiment.nli)


def _groups(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(rows), QUESTIONS_OF_A_GROUP):
        yield rows[start : start + QUESTIONS_OF_A_GROUP]
