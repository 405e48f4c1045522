"""What a run would do, without doing it: cells, prompts, texts, time; and what is missing.

Owns the count and the checks that need no network: data that lie here, models that lie here,
packages, the output folder. What can only be known with a network is said to be so.
"""

from __future__ import annotations

import importlib.util
import math
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from epibias.encoder.model import PACKAGED_MODEL, PACKAGED_MODULE
from epibias.errors import InputError
from epibias.experiment import bench_inputs
from epibias.experiment.bench_inputs import Loaders
from epibias.experiment.config_types import Config, DataSetChoice, EncoderChoice
from epibias.experiment.defense_kinds import KINDS
from epibias.experiment.passage_rows import passages_of_a_question
from epibias.nli.packaged import MODULE, PACKAGE

# Measured on two cores of a server, for estimates only; the report says what they are.
TEXTS_A_SECOND = 40.0  # MiniLM, passages of 140 tokens, no accelerator
CELLS_A_SECOND = 400.0
PROMPTS_A_SECOND = 1.0  # a 14 B model behind one request at a time
BYTES_A_CELL = 2_000


@dataclass(frozen=True)
class ArmCount:
    """Counts of one data set × encoder × k; None where the data set could not be loaded."""

    dataset: str
    encoder: str
    k: int
    questions: int | None
    passages: int | None
    cells: int | None
    texts: int | None
    prompts: int | None


@dataclass(frozen=True)
class DryRun:
    """What would be run, and what stands in the way.

    Parameters
    ----------
    name : str
        Of the experiment.
    arms : list of ArmCount
    problems : list of str
        What has to be put right before the run.
    unchecked : list of str
        What only a network, or the run, can tell.
    checked : list of str
        What was looked at and found.
    """

    name: str
    arms: list[ArmCount]
    problems: list[str]
    unchecked: list[str]
    checked: list[str]

    @property
    def ready(self) -> bool:
        """Whether nothing stands in the way, as far as can be told from here."""
        return not self.problems

    def total(self, name: str) -> int | None:
        """Sum of a count over the arms; None where one of them is not known."""
        values = [getattr(arm, name) for arm in self.arms]
        return None if None in values else sum(values)

    def seconds(self) -> float | None:
        """Estimate of the time, at the rates of this module."""
        cells, texts, prompts = (self.total(name) for name in ("cells", "texts", "prompts"))
        if cells is None or texts is None or prompts is None:
            return None
        of_texts = texts / TEXTS_A_SECOND
        return cells / CELLS_A_SECOND + of_texts + prompts / PROMPTS_A_SECOND

    def lines(self) -> list[str]:
        """Return what people are told."""
        cells, texts, prompts = (self._count(name) for name in ("cells", "texts", "prompts"))
        found = [
            f"Cells: {cells}. Texts to encode: {texts}, less what is cached. Prompts: at most "
            f"{prompts}; cells that select the same passages share them."
        ]
        seconds = self.seconds()
        if seconds is not None:
            found.append(
                f"Estimate: about {_duration(seconds)}, at {CELLS_A_SECOND:.0f} cells, "
                f"{TEXTS_A_SECOND:.0f} texts and {PROMPTS_A_SECOND:.0f} prompt a second (two "
                "cores, no accelerator, one request at a time), besides loading models and drawing "
                "figures; yours will differ."
            )
        for title, lines in (
            ("In the way", self.problems),
            ("Not checked here", self.unchecked),
            ("Checked", self.checked),
        ):
            found += [f"{title}: {line}" for line in lines]
        return found

    def _count(self, name: str) -> str:
        """Write a sum, and of how many arms nothing is known."""
        values = [getattr(arm, name) for arm in self.arms]
        unknown = values.count(None)
        more = f" ({unknown} of {len(values)} rows above not counted)" if unknown else ""
        return f"{sum(one or 0 for one in values):,}{more}"

    def document(self) -> dict[str, Any]:
        """Return the same as JSON can hold it."""
        names = ("cells", "texts", "prompts", "questions")
        return {
            "name": self.name,
            "ready": self.ready,
            "arms": [asdict(arm) for arm in self.arms],
            **{f"n_{name}": self.total(name) for name in names},
            "seconds": self.seconds(),
            "problems": self.problems,
            "unchecked": self.unchecked,
            "checked": self.checked,
        }


def dry_run(
    config: Config, out: Path, *, offline: bool = False, loaders: Loaders | None = None
) -> DryRun:
    """Count what a configuration would run, and check what can be checked here.

    Parameters
    ----------
    config : Config
    out : Path
        Where the run would go.
    offline : bool
        Whether answers would come from caches only.
    loaders : Loaders, optional
        How data are loaded.
    """
    problems: list[str] = []
    unchecked: list[str] = []
    checked: list[str] = []
    try:
        bench_inputs.check_extras(config)
    except InputError as error:
        problems.append(str(error))
    arms = []
    for choice in config.datasets:
        loaded = _load(config, choice, loaders or Loaders(), problems, unchecked, checked)
        for encoder in config.encoders:
            arms += [_count_arm(config, choice, encoder, k, loaded) for k in config.k]
    for name in dict.fromkeys(n for e in config.encoders for n in (e.retrieve, e.score) if n):
        _check_encoder(config, name, problems, unchecked, checked)
    _check_generators(config, offline, problems, unchecked, checked)
    _check_nli(config, problems, unchecked, checked)
    writing = bench_inputs.writing_attacks(config)
    if writing:
        names = ", ".join(writing)
        checked.append(f"{names}: passages are written, so the run wants --i-own-this-index")
    for one in config.defenses:
        missing = [n for n in KINDS[one.kind].needs if _is_missing(config, n)]
        if missing:
            problems.append(f"defense {one.key!r} needs {' and '.join(missing)}")
    cells = [arm.cells for arm in arms]
    _check_folder(out, sum(one or 0 for one in cells) * BYTES_A_CELL, problems, checked)
    return DryRun(config.name, arms, problems, unchecked, checked)


def _duration(seconds: float) -> str:
    """Write a time in the unit that people would take."""
    if seconds < 90:
        return f"{max(1, math.ceil(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _is_missing(config: Config, need: str) -> bool:
    there = {"nli": config.nli is not None, "generator": bool(config.generators)}
    return not there.get(need, True)


def _load(
    config: Config,
    choice: DataSetChoice,
    loaders: Loaders,
    problems: list[str],
    unchecked: list[str],
    checked: list[str],
) -> bench_inputs.LoadedSet | None:
    try:
        found = bench_inputs.load_set(config, choice, loaders)
    except InputError as error:
        counted = ""
        if choice.expected_questions is not None:
            counted = f"; counted as {choice.expected_questions} questions, as the file says"
        by_name = choice.path is None and error.argument != "file"
        is_here = choice.adversarial is None or config.path(choice.adversarial).is_file()
        if choice.adversarial is not None and not is_here:
            problems.append(f"data set {choice.name!r}: {choice.adversarial} is not there")
        (unchecked if by_name and counted else problems).append(
            f"data set {choice.name!r}: cannot be loaded ({error}){counted}"
        )
        return None
    no_anchors = sum(not one.anchors for one in found.chosen)
    if no_anchors:
        of = f"{no_anchors} of {len(found.chosen)} questions"
        problems.append(f"data set {choice.name!r}: {of} have no anchors to fit an axis on")
    counts = f"{len(found.chosen)} questions, {len(found.questions.corpus)} passages"
    checked.append(f"data set {choice.name!r}: {counts}, {found.questions.licence}")
    for attack in config.attacks:
        part = found.n_injectable(replace(config, attacks=(attack,)), found.chosen)
        needed = 1 if attack.kind == "decoys" else max(config.injections, default=0)
        fewer = sum(n_passages < needed for n_passages in part.values())
        if fewer:
            checked.append(
                f"attack {attack.name!r} on {choice.name!r}: {fewer} of {len(part)} questions × "
                f"polarities have fewer than {needed} passages; those cells do not apply"
            )
    return found


def _count_arm(
    config: Config,
    choice: DataSetChoice,
    encoder: EncoderChoice,
    k: int,
    loaded: bench_inputs.LoadedSet | None,
) -> ArmCount:
    n_questions, n_passages, n_texts = choice.expected_questions, choice.expected_passages, None
    n_cells = n_prompts = both = None
    if n_questions is not None and choice.n_questions is not None:
        n_questions = min(n_questions, choice.n_questions)
    if loaded is not None:
        n_questions, n_passages = len(loaded.chosen), len(loaded.questions.corpus)
        n_injected = sum(loaded.n_injectable(config, loaded.chosen).values())
        n_anchors = sum(len(one.anchors) for one in loaded.chosen)
        both = n_passages + n_injected
        n_texts = n_questions + n_anchors + both * (1 if encoder.score is None else 2)
    elif n_questions is not None and n_passages is not None:
        sources = {one.name for one in config.attacks if one.kind != "decoys"}
        of_question = 8 + len(sources) * len(config.polarities) * max(config.injections, default=0)
        both = n_passages + n_questions * of_question
        n_texts = n_questions + both * (1 if encoder.score is None else 2)
    if n_questions is not None:
        a_question = len(bench_inputs.attacks_of(config)) * len(config.axes) * len(config.defenses)
        n_cells = n_questions * a_question
        n_prompts = n_questions * _prompts_of_a_question(config)
        n_prompts += _prompts_of_the_judge(config, n_questions)
        n_prompts += _prompts_of_defenses(config, k, n_questions, both)
    return ArmCount(
        choice.name, encoder.name, k, n_questions, n_passages, n_cells, n_texts, n_prompts
    )


def _prompts_of_a_question(config: Config) -> int:
    """Most prompts that a question can need; a defence without an axis selects once for all."""
    rule = config.answers
    axes = rule.axes or config.axes
    defenses = [one for one in config.defenses if not rule.defenses or one.key in rule.defenses]
    a_cell = sum(len(axes) if KINDS[one.kind].uses_axis else 1 for one in defenses)
    contexts = a_cell * len(bench_inputs.attacks_of(config))
    judged = 2 if config.judge is not None and config.judge.answers else 1
    return contexts * rule.repeats * len(bench_inputs.answering(config)) * judged


def _prompts_of_the_judge(config: Config, n_questions: int) -> int:
    """Passages that the judge is asked about."""
    if config.judge is None:
        return 0
    n_judged = min(config.judge.questions, n_questions)
    return n_judged * passages_of_a_question(config.judge, n_judged)


def _prompts_of_defenses(config: Config, k: int, n_questions: int, n_texts: int | None) -> int:
    """Most prompts of defences that ask a generator: one a candidate, each text once."""
    n_defenses = sum("generator" in KINDS[one.kind].needs for one in config.defenses)
    n_candidates = n_questions * len(bench_inputs.attacks_of(config)) * k * config.pool_factor
    return n_defenses * (n_candidates if n_texts is None else min(n_candidates, n_texts))


def _check_encoder(
    config: Config, name: str, problems: list[str], unchecked: list[str], checked: list[str]
) -> None:
    if name == PACKAGED_MODEL:
        if importlib.util.find_spec(PACKAGED_MODULE) is None:
            problems.append(f"encoder {name!r}: its package is not installed (extra demo)")
        else:
            checked.append(f"encoder {name!r}: its package is installed")
    else:
        _check_model(config, name, "encoder", problems, unchecked, checked)


def _check_model(
    config: Config,
    name: str,
    key: str,
    problems: list[str],
    unchecked: list[str],
    checked: list[str],
) -> None:
    try:
        place = bench_inputs.place_of_model(config, name, key)
    except InputError as error:
        problems.append(str(error))
        return
    if Path(place).is_dir():
        checked.append(f"{key} {name!r}: a folder that is there")
    else:
        unchecked.append(f"{key} {name!r}: by name, from the model hub or its cache")


def _check_generators(
    config: Config, offline: bool, problems: list[str], unchecked: list[str], checked: list[str]
) -> None:
    for one in config.generators:
        if one.key_variable is not None and one.key_variable not in os.environ and not offline:
            problems.append(f"generator {one.name!r}: the variable {one.key_variable} is not set")
        if one.gguf is not None and not offline:
            is_there = _is_file(config, one.gguf, problems)
            (checked if is_there else problems).append(
                f"generator {one.name!r}: GGUF file {'is' if is_there else 'is not'} there"
            )
        if one.url is not None and not offline:
            unchecked.append(f"generator {one.name!r}: whether {one.url} has {one.model!r}")
        if one.cache is not None:
            is_there = _is_file(config, one.cache, problems)
            needed = offline or (one.url is None and one.gguf is None)
            (problems if needed and not is_there else checked).append(
                f"generator {one.name!r}: cache {'is' if is_there else 'is not'} there"
            )


def _is_file(config: Config, name: str, problems: list[str]) -> bool:
    """Whether a file that the configuration names is there; a variable that is not set is told."""
    try:
        return config.path(name).is_file()
    except InputError as error:
        problems.append(str(error))
        return False


def _check_nli(
    config: Config, problems: list[str], unchecked: list[str], checked: list[str]
) -> None:
    choice = config.nli
    if choice is None:
        return
    if choice.kind == "cross_encoder":
        assert choice.model is not None  # noqa: S101  for mypy; read_config saw to it
        _check_model(config, choice.model, "nli.model", problems, unchecked, checked)
        return
    if choice.model is None:
        is_there = importlib.util.find_spec(MODULE) is not None
        words = "is installed" if is_there else "is not installed (extra nli-trial)"
        (checked if is_there else problems).append(f"nli: {PACKAGE} {words}")
        return
    for name in (choice.model, choice.tokenizer):
        if name is None:
            continue
        try:
            is_there = config.path(name).exists()
        except InputError as error:
            problems.append(str(error))
            continue
        words = "is" if is_there else "is not"
        (checked if is_there else problems).append(f"nli: {name} {words} there")


def _check_folder(out: Path, n_bytes: int, problems: list[str], checked: list[str]) -> None:
    """Check the place of the run folder, and what is free there, by what can be told of it.

    Root may write everywhere as far as permissions go, so a file system that is mounted for
    reading, or has no size of its own (/proc, /sys), is told by that.
    """
    parent = out.absolute()
    while not parent.exists():
        parent = parent.parent
    try:
        found = os.statvfs(parent)
        is_writable = parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)
    except OSError:
        is_writable = False
    if not is_writable or found.f_flag & os.ST_RDONLY or found.f_blocks == 0:
        problems.append(f"out: {parent} is no folder that can be written to")
        return
    free = found.f_bavail * found.f_frsize
    words = f"about {n_bytes / 1e6:.0f} MB for the rows, {free / 1e9:.1f} GB free"
    (checked if free > 2 * n_bytes else problems).append(f"out: {words}")
