"""Which defences an experiment can name, and how each is made of its parameters.

Owns the names of a configuration. In: a kind, parameters, k, and what a defence may need besides
(an NLI model, a generator). Out: `NamedDefense`. A parameter that the defence does not have is an
error that lists those it has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epibias.defenses import MMR, BiasDef, NoDefense
from epibias.defenses.base import Defense
from epibias.defenses.brra import BRRA
from epibias.defenses.fact_check import FactCheckFilter
from epibias.defenses.grada import GRADA
from epibias.defenses.known_answer import KnownAnswerDetection
from epibias.defenses.ragdefender import RAGDefender
from epibias.defenses.smart import SMART
from epibias.defenses.tilt_bound import TiltBound
from epibias.defenses.trustrag import TrustRAGClusters
from epibias.errors import InputError
from epibias.experiment.config_types import DefenseChoice
from epibias.experiment.plan import NamedDefense
from epibias.retrieval import CosineIndex


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
    make : callable
        Takes the parameters by name.
    uses_axis : bool
        Whether the axis can change what it selects.
    needs : tuple of str
        Fields of `Services` that it takes by the same name.
    seeded : bool
        Whether it takes `seed` whatever the other parameters are.
    of_index : bool
        Whether it searches the index again.
    prompt : str, optional
        Template of the answers from what it selects.
    """

    title: str
    make: Callable[..., Defense]
    uses_axis: bool = False
    needs: tuple[str, ...] = ()
    seeded: bool = False
    of_index: bool = False
    prompt: str | None = None
    parameters: tuple[str, ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters that a configuration may give."""
        if self.parameters:
            return self.parameters
        taken = {"k", "index", *self.needs}
        known = inspect.signature(self.make).parameters.values()
        return tuple(
            one.name
            for one in known
            if one.name not in taken and one.kind is not one.VAR_KEYWORD and one.name != "_"
        )


def _plain(make: Callable[..., Defense], *objects: str) -> tuple[str, ...]:
    """Name the parameters of a class that a file can hold; k is the experiment's."""
    given = inspect.signature(make).parameters
    return tuple(one for one in given if one not in ("k", "_", *objects))


_BIASDEF = _plain(BiasDef)
KINDS: Mapping[str, DefenseKind] = {
    "none": DefenseKind("no defence", NoDefense),
    "critical_thinking": DefenseKind("critical thinking", NoDefense, prompt="critical_answer"),
    "mmr": DefenseKind("MMR", MMR),
    "brra": DefenseKind("BRRA", BRRA, seeded=True, of_index=True),
    "smart": DefenseKind("SMART", SMART, needs=("nli",)),
    "fact_check": DefenseKind("fact check", FactCheckFilter, needs=("nli", "reference")),
    "known_answer": DefenseKind(
        "known answer", KnownAnswerDetection, needs=("generator",), seeded=True
    ),
    "grada": DefenseKind("GRADA", GRADA),
    "ragdefender": DefenseKind("RAGDefender", RAGDefender),
    "trustrag": DefenseKind("TrustRAG clusters", TrustRAGClusters),
    "tilt_bound": DefenseKind(
        "TiltBound", TiltBound, uses_axis=True, parameters=_plain(TiltBound, "memory")
    ),
    "biasdef": DefenseKind("BiasDef", BiasDef, uses_axis=True, parameters=_BIASDEF),
    "biasdef_bare": DefenseKind("BiasDef bare", BiasDef.bare, uses_axis=True, parameters=_BIASDEF),
    "biasdef_printed": DefenseKind(
        "BiasDef printed", BiasDef.printed, uses_axis=True, parameters=_BIASDEF
    ),
}


def make_defense(
    choice: DefenseChoice, k: int, seed: int, services: Services, where: str = ""
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
    try:
        if not kind.of_index:
            return NamedDefense(
                choice.key, title, made(), uses_axis=kind.uses_axis, prompt=kind.prompt
            )
        tiny = CosineIndex(np.eye(2, dtype=np.float32))  # only for the parameters
        return NamedDefense(
            choice.key, title, made(tiny), kind.uses_axis, of_index=made, prompt=kind.prompt
        )
    except InputError as error:
        name = f"{place}, parameters.{error.argument}"
        raise InputError(name, error.expected, error.got, where) from None


def _title(kind: DefenseKind, choice: DefenseChoice) -> str:
    """Title with the parameters that differ, so that two forms of a defence can be told apart."""
    if not choice.parameters:
        return kind.title
    return f"{kind.title} {', '.join(f'{n}={v}' for n, v in choice.parameters.items())}"
