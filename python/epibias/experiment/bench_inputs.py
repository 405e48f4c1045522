"""From names to things: question sets, encoders, generators, attacks of an experiment.

Owns every place where an experiment loads something, so that a dry run and the tests can put
others in. Nothing here talks to a network but through what is loaded.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from epibias._dispatch import renamed
from epibias._validate import extra
from epibias.attacks.adversarial_set import AdversarialSet
from epibias.attacks.ownership import confirm
from epibias.attacks.question_copies import poisonedrag, verbatim
from epibias.corpus import Passage
from epibias.data_sets import Question, QuestionSet, load_questions
from epibias.encoder import PACKAGED_MODEL, Encoder
from epibias.encoder.model import folder_of
from epibias.errors import InputError, ValidityWarning
from epibias.experiment.config_types import (
    AttackChoice,
    Config,
    DataSetChoice,
    GeneratorChoice,
    NLIChoice,
)
from epibias.experiment.inputs import InjectedPassages
from epibias.experiment.plan import (
    DECOY_LIMIT,
    OWN_PASSAGES,
    POLARITIES,
    Attack,
    NamedDefense,
    Plan,
)
from epibias.generators.base import Generator
from epibias.nli import NLI

WRITTEN_ATTACKS = ("verbatim", "poisonedrag")  # their passages are made in memory


class Loaders:
    """How an experiment gets what its configuration names; a test gives others."""

    def questions(self, config: Config, choice: DataSetChoice) -> QuestionSet:
        """Load a question set; of a folder of the user's when there is a path."""
        source = choice.name if choice.path is None else config.path(choice.path)
        return load_questions(source, **choice.options)

    def encoder(self, name: str, *, cache: bool = True) -> Encoder:
        """Load an encoder, with its cache on disk."""
        from epibias.encoder import SentenceTransformerEncoder

        return SentenceTransformerEncoder(name, cache=cache, progress=False)

    def generator(
        self, config: Config, choice: GeneratorChoice, out: Path, *, offline: bool
    ) -> Generator:
        """Make a generator that keeps every reply in a file; offline, only what stands there."""
        from epibias.generators.cache import CachedGenerator

        path = out / f"replies-{choice.name}.jsonl"
        if choice.cache is not None:
            path = config.path(choice.cache)
        model = identity = None
        if not offline:
            model = self._model(config, choice)
        elif not path.exists():  # it was never asked, or never answered
            asked = self._model(config, replace(choice, key_variable=None))
            identity = None if asked is None else asked.identity
        if identity is not None:
            message = (
                f"generator {choice.name!r}: no reply of it is kept ({path} is not there), so "
                "offline every one of its prompts fails"
            )
            warnings.warn(message, ValidityWarning, stacklevel=2)
        kept: Generator = CachedGenerator(model, path, identity=identity)
        return kept

    def _model(self, config: Config, choice: GeneratorChoice) -> Generator | None:
        if choice.url is not None:
            from epibias.generators.openai_compatible import OpenAICompatibleGenerator

            assert choice.model is not None  # noqa: S101  for mypy; read_config saw to it
            made: Generator = OpenAICompatibleGenerator(
                choice.model,
                config.expanded(choice.url),
                api_key_variable=choice.key_variable,
                concurrency=choice.concurrency,
            )
            return made
        if choice.gguf is not None:
            from epibias.generators.gguf import GGUFGenerator

            local: Generator = GGUFGenerator(
                config.path(choice.gguf),
                name=choice.model,
                threads=choice.threads,
                reuse_context=choice.reuse_context,
            )
            return local
        return None

    def nli(self, config: Config, choice: NLIChoice, out: Path) -> NLI:
        """Load a model of natural language inference; what it judged is kept in a file."""
        from epibias.nli.cache import CachedNLI

        made: NLI
        if choice.kind == "packaged":
            from epibias.nli.packaged import packaged_nli

            made = packaged_nli(None if choice.model is None else config.path(choice.model))
        elif choice.kind == "onnx":
            from epibias.nli.onnx import OnnxNLI

            assert choice.model is not None  # noqa: S101  for mypy; read_config saw to it
            assert choice.tokenizer is not None  # noqa: S101
            tokenizer = config.path(choice.tokenizer)
            made = OnnxNLI(config.path(choice.model), tokenizer, meaning=choice.labels)
        else:
            from epibias.nli.cross_encoder import CrossEncoderNLI

            assert choice.model is not None  # noqa: S101
            made = CrossEncoderNLI(place_of_model(config, choice.model, "nli.model"))
        kept: NLI = CachedNLI(made, out / "replies-nli.jsonl")
        return kept


def place_of_model(config: Config, name: str, key: str) -> str:
    """Give the folder of a model, counted from the configuration's, or its name on the hub.

    Parameters
    ----------
    config : Config
    name : str
        As the configuration has it.
    key : str
        Where, for messages.

    Raises
    ------
    InputError
        A place where no folder is, or one that counts from the current folder.
    """
    said = config.expanded(name)
    if said == PACKAGED_MODEL:
        return said
    with renamed(name_or_path=key):
        found = folder_of(said, config.folder)
    if found is not None:
        return str(found.absolute())
    if Path(said).is_dir():
        looked = f"looked at {config.path(name).absolute()}"
        expected = "a folder that counts from the configuration's, or a name on the hub"
        raise InputError(key, expected, f"{name!r} of the current folder", looked)
    return said


@dataclass(frozen=True)
class LoadedSet:
    """A question set, with the passages that every attack has for its questions.

    Parameters
    ----------
    questions : QuestionSet
    chosen : tuple of Question
        Those that are run.
    files : mapping
        Attack name to its passages, of attacks that are read from a file.
    i_own_this_index : bool
        What attacks that write passages are told.
    """

    questions: QuestionSet
    chosen: tuple[Question, ...]
    files: Mapping[str, AdversarialSet] = field(default_factory=dict, hash=False)
    i_own_this_index: bool = False

    def injected(self, config: Config, part: Sequence[Question]) -> InjectedPassages:
        """Give what can be injected for some of the questions."""
        found: dict[tuple[str, str, str], Sequence[Passage]] = {}
        most = max(config.injections, default=0)  # none: decoys are not counted by it
        for question in part:
            for attack in config.attacks:
                for polarity in polarities_of(attack, config):
                    source = OWN_PASSAGES if attack.kind == "decoys" else attack.name
                    passages = self._of(attack, question, polarity, most)
                    found[question.id, source, polarity] = passages
        return found

    def n_injectable(self, config: Config, part: Sequence[Question]) -> dict[tuple[str, ...], int]:
        """Count what `injected` would give, by its keys; a dry run writes no adversarial text."""
        found: dict[tuple[str, ...], int] = {}
        for question in part:
            for attack in config.attacks:
                for polarity in polarities_of(attack, config):
                    source = OWN_PASSAGES if attack.kind == "decoys" else attack.name
                    found[question.id, source, polarity] = (
                        max(config.injections, default=0)
                        if attack.kind == "verbatim"
                        else len(self._given(attack, question, polarity))
                    )
        return found

    def _given(self, attack: AttackChoice, question: Question, polarity: str) -> Sequence[Passage]:
        """Texts that an attack starts from; what an injected file, or set, has is taken as is."""
        if attack.kind == "file":
            return self.files[attack.name].of(question.id, polarity, attack.attack)
        return question.adversarial.get(polarity, ())

    def _of(
        self, attack: AttackChoice, question: Question, polarity: str, most: int
    ) -> Sequence[Passage]:
        own = self._given(attack, question, polarity)
        if attack.kind in ("file", "injection", "decoys"):
            return own
        sure = self.i_own_this_index
        if attack.kind == "verbatim":
            if most == 0:
                return ()
            return list(verbatim(question.id, question.text, n=most, i_own_this_index=sure).corpus)
        if not own:
            return ()
        return list(
            poisonedrag(question.id, question.text, own, polarity, i_own_this_index=sure).corpus
        )


def writing_attacks(config: Config) -> list[str]:
    """Names of the attacks that write passages, so that the index has to be one's own."""
    return [one.name for one in config.attacks if one.kind in WRITTEN_ATTACKS]


def polarities_of(attack: AttackChoice, config: Config) -> tuple[str, ...]:
    """Sides that an attack takes; the question word for word takes none."""
    return ("none",) if attack.kind == "verbatim" else config.polarities


def load_set(
    config: Config, choice: DataSetChoice, loaders: Loaders, *, i_own_this_index: bool = False
) -> LoadedSet:
    """Load a question set and what the attacks of the configuration have for it.

    Raises
    ------
    InputError
        A set or file that cannot be loaded; fewer passages than candidates.

    Warns
    -----
    ValidityWarning
        Anchors without stances: a rule orients their axes, so which side is positive is the rule's
        choice, and an attack must have taken its polarity from the same axes.
    """
    questions = loaders.questions(config, choice)
    chosen = questions.questions[: choice.n_questions]
    if choice.adversarial is not None:
        own = AdversarialSet.read(config.path(choice.adversarial))
        chosen = tuple(_with_passages(one, own) for one in chosen)
    n_by_rule = n_oriented_by_rule(chosen)
    if n_by_rule and config.attacks:
        message = (
            f"dataset {choice.name!r}: anchors of {n_by_rule} of {len(chosen)} questions have no "
            "stances, so a rule says which side is positive: polarities must have been read from "
            "the same axes (`epibias attack make ebi --data-anchors`, with the encoder that scores)"
        )
        warnings.warn(message, ValidityWarning, stacklevel=2)
    needed = max(config.k) * config.pool_factor
    if len(questions.corpus) < needed:
        expected = f"at least {needed} passages, k · pool_factor, to retrieve"
        raise InputError(f"dataset {choice.name!r}", expected, f"{len(questions.corpus)}")
    files = {}
    for attack in config.attacks:
        if attack.kind == "file":
            assert attack.path is not None  # noqa: S101  for mypy; read_config saw to it
            files[attack.name] = AdversarialSet.read(
                config.path(attack.path),
                columns=attack.columns or None,
                values=attack.values or None,
                defaults=attack.defaults or None,
            )
    return LoadedSet(questions, tuple(chosen), files, i_own_this_index)


def n_oriented_by_rule(questions: Sequence[Question]) -> int:
    """Count the questions whose anchors have no stances: a rule says which end is positive."""
    return sum(bool(one.anchors) and one.stances is None for one in questions)


def _with_passages(question: Question, own: AdversarialSet) -> Question:
    """Give a question with the adversarial passages of a file in place of the set's."""
    sides = {polarity: own.of(question.id, polarity) for polarity in POLARITIES}
    return replace(question, adversarial=sides)


def attacks_of(config: Config) -> tuple[Attack, ...]:
    """Attacks of a configuration in table order: clean first, polarities beside each other."""
    found = [Attack("clean")]
    for choice in config.attacks:
        if choice.kind == "decoys":
            found += [Attack("decoys", polarity, DECOY_LIMIT) for polarity in config.polarities]
            continue
        found += [
            Attack(choice.name, polarity, number)
            for number in config.injections
            for polarity in polarities_of(choice, config)
        ]
    return tuple(found)


def answering(config: Config) -> tuple[str, ...]:
    """Name the generators that answer: as told, else all but the judge, if there are others."""
    if config.answers.generators:
        return config.answers.generators
    names = tuple(one.name for one in config.generators)
    judge = None if config.judge is None else config.judge.generator
    return tuple(name for name in names if name != judge) or names


def plan_of(config: Config, k: int, defenses: tuple[NamedDefense, ...]) -> Plan:
    """Plan of a configuration for one k."""
    return Plan(k, config.pool_factor, config.seed, defenses, attacks_of(config), config.axes)


def set_identity(loaded: LoadedSet) -> dict[str, Any]:
    """Tell a question set from another, for the manifest: files, counts, hashes of attack files."""
    return {
        "licence": loaded.questions.licence,
        "files": dict(loaded.questions.files),
        "n_questions": len(loaded.chosen),
        "n_passages": len(loaded.questions.corpus),
        "n_oriented_by_rule": n_oriented_by_rule(loaded.chosen),
        "content_sha256": _content_sha256(loaded),
    }


def _content_sha256(loaded: LoadedSet) -> str:
    """Hash of everything that the rows depend on: passages and questions with all their labels.

    Labels count as texts do: another polarity or stance of the same texts is another experiment.
    """
    digest = hashlib.sha256()

    def add(*parts: object) -> None:
        digest.update(json.dumps(parts, sort_keys=True, default=str).encode() + b"\n")

    def plain(one: Passage) -> list[object]:
        origin = one.source, one.tier, one.author, one.time
        return [one.id, one.title, one.text, *origin, dict(one.extra)]

    for passage in loaded.questions.corpus:
        add(plain(passage))
    for question in loaded.chosen:
        relevant = loaded.questions.relevant.get(question.id, ())
        add(question.id, question.text, question.topic, question.stances, question.poles, relevant)
        add([plain(one) for one in question.anchors])
        for polarity, passages in sorted(question.adversarial.items()):
            add(polarity, [plain(one) for one in passages])
    for name, found in loaded.files.items():
        for one in found.passages:
            add(name, one.question_id, one.polarity, one.attack, plain(one.passage))
    return digest.hexdigest()


def check_start(config: Config, *, i_own_this_index: bool) -> None:
    """Refuse what could only be told after the corpus was encoded: before the first minute.

    Raises
    ------
    InputError
        A package that is not there; an attack that writes passages, of an index that nobody said
        to own.
    """
    check_extras(config)
    if writing_attacks(config):
        confirm(i_own_this_index)


def check_extras(config: Config) -> None:
    """Refuse to start without a package that the run needs: before the first minute, not after."""
    wanted = [("pyarrow", "parquet"), ("jinja2", "report"), ("matplotlib", "figures")]
    if any(one.url is not None for one in config.generators):
        wanted.append(("httpx", "generators"))
    for package, name in wanted:
        extra("bench run", package, name)
