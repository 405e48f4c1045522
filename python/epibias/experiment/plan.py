"""What an experiment runs: attacks × axes × defences, as data.

Owns the list of cells and the settings that identify a run. It computes nothing and reads
nothing; the order here is the order of every table. `demo_plan` is the demo's; `bench` makes one
from a configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epibias import _validate
from epibias.defenses import MMR, BiasDef, NoDefense, TiltBound
from epibias.defenses.base import Defense
from epibias.errors import InputError
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex

if TYPE_CHECKING:
    from epibias.experiment.inputs import EncodedCorpus

# Clean corpus, id of the question and its own clean pool to the defence that knows them.
Learn = Callable[["EncodedCorpus", str, CandidatePool], Defense]

CONTROL_AXIS = "random"  # knows nothing of stance: what works on it does not work by stance
AXIS_METHODS = ("pca", "ridge", CONTROL_AXIS)
POLARITIES = ("positive", "negative")
INJECTIONS = (1, 5, 10)
DECOY_LIMIT = 5
OWN_PASSAGES = "injection"  # the adversarial passages that come with a question


@dataclass(frozen=True)
class Attack:
    """What is injected for one question.

    Parameters
    ----------
    kind : str
        "clean": nothing. "injection": the first `injections` of the question's own adversarial
        passages, in file order. "decoys": up to `injections` of them that lie below the query's
        k-th best benign passage. Any other word: the first `injections` passages of the attack of
        that name.
    polarity : {"none", "positive", "negative"}
        Side of the injected passages; "none" for the clean corpus.
    injections : int
        Passages asked for; decoys may be fewer, and the raw rows say how many there were.

    Examples
    --------
    >>> Attack("injection", "positive", 5).condition
    '5'
    """

    kind: str
    polarity: str = "none"
    injections: int = 0

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Attack:
        """Give the attack that a raw row was measured under.

        Examples
        --------
        >>> cells = {"attack": "injection", "polarity": "negative", "condition": "10"}
        >>> Attack.of_row(cells).key
        'injection-negative-10'
        """
        number = row["condition"].rpartition("-")[2]
        asked = DECOY_LIMIT if row["attack"] == "decoys" else int(number)
        return cls(row["attack"], row["polarity"], asked)

    @property
    def condition(self) -> str:
        """Column of the tables: "0", "1", "5", "10", "decoys", or "verbatim-5" for other attacks.

        Both polarities share one.
        """
        if self.kind == "decoys":
            return "decoys"
        number = str(self.injections)
        return number if self.kind in ("clean", OWN_PASSAGES) else f"{self.kind}-{number}"

    @property
    def source(self) -> str:
        """Whose passages are injected: the question's own, or those of the attack."""
        return OWN_PASSAGES if self.kind == "decoys" else self.kind

    @property
    def key(self) -> str:
        """Name for files and selectors, e.g. `injection-positive-5`, `clean`."""
        if self.kind == "clean":
            return "clean"
        parts = [self.kind, self.polarity]
        return "-".join(parts if self.kind == "decoys" else [*parts, str(self.injections)])


@dataclass(frozen=True)
class NamedDefense:
    """A defence with the name it has in tables and files.

    Parameters
    ----------
    key : str
        Short name for columns and files.
    title : str
        Name for people.
    defense : Defense
        The defence with all its parameters.
    uses_axis : bool
        Whether the axis can change what it selects. Where not, its selection metrics are reported
        once, under axis "any".
    of_index : callable, optional
        Makes the defence anew for an index, where it searches that itself; `defense` then only
        tells the parameters. What it makes has `reach`, as `BRRA.reach` is.
    prompt : str, optional
        Template of the answers from what it selects, where it has one of its own.
    learn : callable, optional
        Gives the defence that knows clean pools, of other questions or of this one; `defense` then
        only tells the other parameters. See `calibration.Learner`.
    """

    key: str
    title: str
    defense: Defense
    uses_axis: bool = True
    of_index: Callable[[CosineIndex], Any] | None = None
    prompt: str | None = None
    learn: Learn | None = None


@dataclass(frozen=True)
class Plan:
    """All cells of an experiment.

    Parameters
    ----------
    k : int
        Size of the selection.
    pool_factor : int
        Candidates a query, in units of `k`.
    seed : int
        For the permutation test and the bootstrap.
    defenses : tuple of NamedDefense
        Defences in table order.
    attacks : tuple of Attack
        Attacks in table order.
    axis_methods : tuple of str
        How the axis is fitted.

    Examples
    --------
    >>> plan = demo_plan()
    >>> len(plan.attacks), len(plan.defenses), plan.n_cells
    (9, 8, 216)
    """

    k: int
    pool_factor: int
    seed: int
    defenses: tuple[NamedDefense, ...]
    attacks: tuple[Attack, ...]
    axis_methods: tuple[str, ...] = AXIS_METHODS

    @property
    def n_cells(self) -> int:
        """Raw rows a topic gives."""
        return len(self.defenses) * len(self.attacks) * len(self.axis_methods)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Columns of the tables, in order, each once."""
        return tuple(dict.fromkeys(attack.condition for attack in self.attacks))

    @property
    def injected(self) -> tuple[str, ...]:
        """Conditions under which a number of passages is injected, in order."""
        kinds = {attack.condition: attack.kind for attack in self.attacks}
        return tuple(c for c in self.conditions if kinds[c] == OWN_PASSAGES)

    def settings(self) -> dict[str, Any]:
        """Everything in the plan that can change a result, ready for JSON."""
        return {
            "k": self.k,
            "pool_factor": self.pool_factor,
            "seed": self.seed,
            "axis_methods": list(self.axis_methods),
            "attacks": [attack.key for attack in self.attacks],
            "injection_order": "the first n adversarial passages in file order",
            "decoy_rule": (
                f"up to {DECOY_LIMIT} adversarial passages strictly below the query's "
                f"{self.k}th best benign passage, the most similar first, injected alone"
            ),
            "defenses": {named.key: _parameters(named) for named in self.defenses},
        }


def _parameters(named: NamedDefense) -> dict[str, object]:
    """Parameters of a defence; its index is another one under each attack, so none is told."""
    parameters = named.defense.parameters()
    if named.of_index is not None:
        del parameters["index"]
    return parameters


def demo_attacks() -> tuple[Attack, ...]:
    """Clean, 1/5/10 of either polarity, and decoys of either polarity."""
    injections = [
        Attack("injection", polarity, number) for number in INJECTIONS for polarity in POLARITIES
    ]
    decoy_attacks = [Attack("decoys", polarity, DECOY_LIMIT) for polarity in POLARITIES]
    return (Attack("clean"), *injections, *decoy_attacks)


def demo_plan(k: int = 5, pool_factor: int = 4, seed: int = 0) -> Plan:
    """Plan of `epibias demo`: none, MMR, five forms of BiasDef and TiltBound, three axes.

    TiltBound knows all passages of the clean index, and no question.

    Parameters
    ----------
    k : int
        Size of the selection.
    pool_factor : int
        Candidates a query, in units of `k`.
    seed : int
        For the permutation test (gate) and the bootstrap.

    Raises
    ------
    InputError
        For values that are out of range.
    """
    from epibias.experiment.calibration import Learner  # which knows the inputs of a plan

    k = _validate.integer("k", k, low=1)
    pool_factor = _validate.integer("pool_factor", pool_factor, low=1)
    seed = _validate.integer("seed", seed, low=0)
    defenses = (
        NamedDefense("none", "no defence", NoDefense(k=k), uses_axis=False),
        NamedDefense("mmr", "MMR", MMR(k=k), uses_axis=False),
        NamedDefense("biasdef", "BiasDef", BiasDef(k=k)),
        NamedDefense("biasdef-bare", "BiasDef bare", BiasDef.bare(k=k)),
        NamedDefense("biasdef-printed", "BiasDef printed", BiasDef.printed(k=k)),
        NamedDefense("biasdef-gate", "BiasDef gate .1", BiasDef(k=k, gate=0.1, seed=seed)),
        NamedDefense("biasdef-auto", "BiasDef side auto", BiasDef(k=k, side="auto")),
        NamedDefense(
            "tilt-bound-index",
            "TiltBound, index known",
            TiltBound(k, echo=1.0),
            learn=Learner(k, pool_factor, {"echo": 1.0}, trust_index=True),
        ),
    )
    return Plan(k, pool_factor, seed, defenses, demo_attacks())


def check_topics(available: list[str], wanted: list[str] | None) -> list[str]:
    """Topics to run, in the order of the data; an unknown or repeated name is an error."""
    if wanted is None:
        return available
    if not wanted:
        raise InputError("topics", "at least one topic, or none for all", "an empty list")
    _validate.unique("topics", wanted)
    for topic in wanted:
        _validate.choice("topics", topic, available)
    return [topic for topic in available if topic in wanted]
