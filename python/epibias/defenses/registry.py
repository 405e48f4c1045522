"""Every defence by name, from plain parameters and named resources.

In: parameters as a TOML file or a manifest has them, and the objects that no file can hold (an
index, models). Out: the defence. What `parameters()` of any defence gives goes in again, and makes
a defence that selects the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from epibias._plain import described, first_difference
from epibias.defenses.base import Defense
from epibias.defenses.biasdef import BiasDef
from epibias.defenses.brra import BRRA
from epibias.defenses.chain import Chain
from epibias.defenses.fact_check import FactCheckFilter
from epibias.defenses.grada import GRADA
from epibias.defenses.known_answer import KnownAnswerDetection
from epibias.defenses.mmr import MMR
from epibias.defenses.none import NoDefense
from epibias.defenses.ragdefender import RAGDefender
from epibias.defenses.smart import SMART
from epibias.defenses.tilt_bound import TiltBound
from epibias.defenses.trustrag import TrustRAGClusters
from epibias.errors import InputError
from epibias.retrieval import CosineIndex


@dataclass(frozen=True)
class Entry:
    """How a defence is made.

    Parameters
    ----------
    make : callable
        The class: a dataclass whose fields are its parameters.
    resources : tuple of str
        Which of the fields are objects that no file can hold.

    Examples
    --------
    >>> REGISTRY["smart"].resources, REGISTRY["smart"].parameters
    (('nli',), ('k', 'conflict_weight', 'relevance_weight'))
    """

    make: Callable[..., Defense]
    resources: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the plain parameters, in order."""
        names = [field.name for field in fields(self.make)]  # type: ignore[arg-type]
        return tuple(name for name in names if name != "_" and name not in self.resources)


REGISTRY: dict[str, Entry] = {
    "none": Entry(NoDefense),
    "mmr": Entry(MMR),
    "biasdef": Entry(BiasDef),
    "chain": Entry(Chain),
    "brra": Entry(BRRA, ("index",)),
    "grada": Entry(GRADA),
    "ragdefender": Entry(RAGDefender),
    "trustrag": Entry(TrustRAGClusters),
    "tilt_bound": Entry(TiltBound),
    "smart": Entry(SMART, ("nli",)),
    "fact_check": Entry(FactCheckFilter, ("nli", "reference")),
    "known_answer": Entry(KnownAnswerDetection, ("generator",)),
}


def build_defense(
    parameters: Mapping[str, Any],
    resources: Mapping[str, object] | None = None,
    *,
    where: str | None = None,
) -> Defense:
    """Make a defence from plain parameters.

    Parameters
    ----------
    parameters : mapping
        "defense": a name of `REGISTRY`; and the parameters of that class, those at their defaults
        left out or not. Of a field that is a resource: nothing, to take the resource of the field's
        name; the name of another; or the identity that `parameters()` recorded, which the resource
        of the field's name must then have.
    resources : mapping, optional
        Name to object: "index", "nli", "generator", "reference", or names of one's own.
    where : str, optional
        File and line, for messages.

    Returns
    -------
    Defense

    Raises
    ------
    InputError
        An unknown name or parameter, a value out of range, a resource that is not there or not the
        one that was recorded.

    Examples
    --------
    >>> chain = build_defense({"defense": "chain", "defenses": [{"defense": "biasdef", "gate": 0.1},
    ...                                                         {"defense": "mmr", "k": 3}]})
    >>> chain.name
    'biasdef[gate=0.1] > mmr'
    >>> build_defense(chain.parameters()) == chain
    True
    >>> build_defense({"defense": "mmr", "lambda": 0.5})
    Traceback (most recent call last):
    ...
    epibias.errors.InputError: lambda: expected only k, relevance_weight for 'mmr', got 'lambda'
    """
    if not isinstance(parameters, Mapping):
        raise InputError("defense", "a table of parameters", described(parameters), where)
    given = dict(parameters)
    name = given.pop("defense", None)
    if not isinstance(name, str) or name not in REGISTRY:
        raise InputError("defense", f"one of {', '.join(REGISTRY)}", described(name), where)
    entry = REGISTRY[name]
    known = (*entry.parameters, *entry.resources)
    for key in given:
        if key not in known:
            raise InputError(str(key), f"only {', '.join(known)} for {name!r}", repr(key), where)
    available = dict(resources or {})
    for field in entry.resources:
        given[field] = _resource(name, field, given.get(field), available, where)
    if name == "chain":
        members = given.get("defenses", ())
        if isinstance(members, str | Mapping) or not isinstance(members, Sequence):
            raise InputError("defenses", "a list of tables", described(members), where)
        given["defenses"] = [build_defense(one, available, where=where) for one in members]
    try:
        return entry.make(**given)
    except InputError as error:
        if where is None or error.where is not None:
            raise
        raise InputError(error.argument, error.expected, error.got, where) from None


def identity_of(resource: object) -> Mapping[str, object]:
    """Tell what a resource is, as plain values, as `parameters()` of a defence records it.

    Parameters
    ----------
    resource : object
        An index, or anything with `identity`.

    Returns
    -------
    mapping

    Examples
    --------
    >>> import numpy as np
    >>> identity_of(CosineIndex(np.eye(3, dtype=np.float32)))
    {'n_passages': 3, 'dim': 3}
    """
    if isinstance(resource, CosineIndex):
        return {"n_passages": resource.n_passages, "dim": resource.dim}
    identity = getattr(resource, "identity", None)
    return dict(identity) if isinstance(identity, Mapping) else {}


def _resource(
    defense: str, field: str, asked: object, available: Mapping[str, object], where: str | None
) -> object:
    """Find the resource of a field: by the field's name, by another, or by what was recorded."""
    name = asked if isinstance(asked, str) else field
    if name not in available:
        there = ", ".join(sorted(available)) or "none"
        raise InputError(
            field, f"a resource {name!r} for {defense!r}", f"resources: {there}", where
        )
    resource = available[name]
    if asked is None or isinstance(asked, str):
        return resource
    if not isinstance(asked, Mapping):
        expected = "the name of a resource, or what parameters() recorded of one"
        raise InputError(field, expected, described(asked), where)
    differs = first_difference(dict(asked), dict(identity_of(resource)))
    if differs is not None:
        label, recorded, found = differs
        raise InputError(f"{field}.{label}", described(recorded), described(found), where)
    return resource
