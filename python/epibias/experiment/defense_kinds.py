"""Which defences an experiment can name, and what it says of each.

Owns the names of a configuration, titles, and presets. What a defence is made by, which parameters
it has and which models it needs is the registry's (`defenses.registry`); a test sees to it that
every defence there can be named here. In: a kind, parameters, k, and models. Out: `NamedDefense`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epibias.data_sets import Question
from epibias.defenses import BiasDef
from epibias.defenses.base import Defense
from epibias.defenses.registry import REGISTRY
from epibias.encoder import Encoder
from epibias.errors import InputError
from epibias.experiment.calibration import Learner
from epibias.experiment.config_types import DefenseChoice
from epibias.experiment.plan import NamedDefense
from epibias.retrieval import CosineIndex

INDEX = "index"  # the resource that an experiment has one of for each attack


@dataclass(frozen=True)
class Services:
    """What a defence may need besides the pool.

    Parameters
    ----------
    nli : NLI, optional
        Of the configuration's table [nli].
    generator : Generator, optional
        The first of the configuration.
    reference : FactReference, optional
        What claims are checked against: the clean corpus.
    """

    nli: Any = None
    generator: Any = None
    reference: Any = None


@dataclass(frozen=True)
class DefenseKind:
    """One kind of defence.

    Parameters
    ----------
    title : str
        Name for people.
    defense : str
        Name in the registry.
    preset : callable, optional
        Makes it with other defaults than the class; takes the same parameters.
    uses_axis : bool
        Whether the axis can change what it selects.
    seeded : bool
        Whether it takes `seed` whatever the other parameters are.
    prompt : str, optional
        Template of the answers from what it selects.
    learns : bool
        Whether it can be calibrated on clean pools, remember one, and know the clean index.

    Examples
    --------
    >>> KINDS["fact_check"].needs, KINDS["grada"].names
    (('nli', 'reference'), ('similarity', 'query_penalty', 'damping', 'saturation'))
    """

    title: str
    defense: str
    preset: Callable[..., Defense] | None = None
    uses_axis: bool = False
    seeded: bool = False
    prompt: str | None = None
    learns: bool = False

    @property
    def make(self) -> Callable[..., Defense]:
        """Takes the parameters, and what it needs, by name."""
        return self.preset or REGISTRY[self.defense].make

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters that a configuration may give; `k` is the experiment's."""
        return tuple(name for name in REGISTRY[self.defense].parameters if name != "k")

    @property
    def needs(self) -> tuple[str, ...]:
        """Fields of `Services` that it takes by the same name."""
        return tuple(name for name in REGISTRY[self.defense].resources if name != INDEX)

    @property
    def of_index(self) -> bool:
        """Whether it searches the index again."""
        return INDEX in REGISTRY[self.defense].resources


KINDS: Mapping[str, DefenseKind] = {
    "none": DefenseKind("no defence", "none"),
    "critical_thinking": DefenseKind("critical thinking", "none", prompt="critical_answer"),
    "mmr": DefenseKind("MMR", "mmr"),
    "brra": DefenseKind("BRRA", "brra", seeded=True),
    "smart": DefenseKind("SMART", "smart"),
    "fact_check": DefenseKind("fact check", "fact_check"),
    "known_answer": DefenseKind("known answer", "known_answer", seeded=True),
    "grada": DefenseKind("GRADA", "grada"),
    "ragdefender": DefenseKind("RAGDefender", "ragdefender"),
    "trustrag": DefenseKind("TrustRAG clusters", "trustrag"),
    "biasdef": DefenseKind("BiasDef", "biasdef", uses_axis=True),
    "biasdef_bare": DefenseKind("BiasDef bare", "biasdef", BiasDef.bare, uses_axis=True),
    "biasdef_printed": DefenseKind("BiasDef printed", "biasdef", BiasDef.printed, uses_axis=True),
    "tilt_bound": DefenseKind("TiltBound", "tilt_bound", uses_axis=True, learns=True),
}


@dataclass(frozen=True)
class CleanQuestions:
    """What defences may learn from: questions of a set, how they are searched, how deep."""

    others: Callable[[], tuple[Sequence[Question], Encoder]]
    pool_factor: int


def make_defense(
    choice: DefenseChoice,
    k: int,
    seed: int,
    services: Services,
    where: str = "",
    clean: CleanQuestions | None = None,
) -> NamedDefense:
    """Make a defence of what a configuration says.

    Parameters
    ----------
    choice : DefenseChoice
    k : int
        Passages to select.
    seed : int
        For what is random in it, unless the parameters name another.
    services : Services
        What it may need.
    where : str
        The file, for messages.
    clean : CleanQuestions, optional
        For a choice that says `calibrate`, `remember` or `trust_index`.

    Raises
    ------
    InputError
        A parameter that is not known or out of range; a model that is needed and not there.

    Examples
    --------
    >>> choice = DefenseChoice("biasdef", "biasdef-gate", None, {"gate": 0.1})
    >>> make_defense(choice, 5, 7, Services()).defense.seed
    7
    """
    kind = KINDS[choice.kind]
    place = f"defense {choice.key!r}"
    for name in choice.parameters:
        if name not in kind.names:
            known = ", ".join(kind.names) or "none: it has no parameters"
            raise InputError(f"{place}, parameters.{name}", f"one of {known}", "another", where)
    options: dict[str, Any] = {"k": k, **choice.parameters}
    if kind.seeded or options.get("gate") is not None:
        options.setdefault("seed", seed)
    for name in kind.needs:
        options[name] = getattr(services, name)
        if options[name] is None:
            table = {"nli": "a table [nli]", "generator": "a [[generator]]"}.get(name, name)
            raise InputError(f"{place}, kind", f"{table}, which it needs", "none", where)

    def made(index: CosineIndex | None = None) -> Defense:
        more = {} if index is None else {"index": index}
        return kind.make(**options, **more)

    title = choice.title or _title(kind, choice)
    learn = None
    if clean is not None and (choice.calibrate or choice.remember or choice.trust_index):
        learn = Learner(
            k,
            clean.pool_factor,
            choice.parameters,
            clean.others,
            choice.false_removal if choice.calibrate else None,
            choice.remember,
            choice.trust_index,
        )
    try:
        if not kind.of_index:
            return NamedDefense(
                choice.key,
                title,
                made(),
                uses_axis=kind.uses_axis and (not kind.learns or _is_bounded(choice)),
                prompt=kind.prompt,
                learn=learn,
            )
        tiny = CosineIndex(np.eye(2, dtype=np.float32))  # only for the parameters
        return NamedDefense(
            choice.key, title, made(tiny), kind.uses_axis, of_index=made, prompt=kind.prompt
        )
    except InputError as error:
        name = f"{place}, parameters.{error.argument}"
        raise InputError(name, error.expected, error.got, where) from None


def _is_bounded(choice: DefenseChoice) -> bool:
    """Whether a TiltBound has a centre to bound scores around: without one it reads texts alone."""
    centred = {"memory", "trusted_until", "trusted_index"}
    return choice.remember or choice.trust_index or not centred.isdisjoint(choice.parameters)


def _title(kind: DefenseKind, choice: DefenseChoice) -> str:
    """Title with the parameters that differ, so that two forms of a defence can be told apart."""
    differs = [name for name in ("calibrate", "remember", "trust_index") if getattr(choice, name)]
    differs += [f"{name}={value}" for name, value in choice.parameters.items()]
    return f"{kind.title} {', '.join(differs)}" if differs else kind.title
