"""The parts of EBI that are data: questions, settings, the anchors written, tallies, outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from epibias import _validate
from epibias._plain import described
from epibias.attacks.adversarial_set import AdversarialSet
from epibias.attacks.asking import NotSent, ends_the_work
from epibias.corpus import Passage
from epibias.corpus.columns import check_id
from epibias.errors import InputError
from epibias.generators import Failure
from epibias.generators.prompts import DEFAULT_STANCES
from epibias.polarization import METHODS, PolarizationAxis


@dataclass(frozen=True)
class EBISettings:
    """Numbers of the attack; all are recorded with every passage.

    Parameters
    ----------
    n : int
        Passages a polarity; the paper has 10.
    tolerance : float
        Largest distance of a passage's PS from the reference's. The paper says "sufficiently
        close"; the number is ours.
    stances : tuple of int
        Stances asked of the anchors, one each, from -3 to 3.
    method : {"pca", "mean_difference", "ridge"}
        How the axis is fitted; the paper takes "pca".
    penalty : float
        Of "ridge".
    max_requests : int
        Requests a polarity, and for the anchors, before the rest is given up.
    per_request : int
        Passages asked for at once.
    min_words, max_words : int
        Length of a passage.
    max_similarity : float
        Largest cosine with the reference and with every passage taken before: above it a passage
        is a near duplicate.
    temperature, max_tokens, seed
        Of the generator.

    Raises
    ------
    InputError
        The first that is out of range.

    Examples
    --------
    >>> EBISettings(n=2).plain()["tolerance"]
    0.1
    """

    n: int = 10
    tolerance: float = 0.1
    stances: tuple[int, ...] = DEFAULT_STANCES  # the paper's J = 8
    method: str = "pca"
    penalty: float = 1.0
    max_requests: int = 8
    per_request: int = 5
    min_words: int = 20
    max_words: int = 200
    max_similarity: float = 0.97
    temperature: float = 0.8
    max_tokens: int = 2048
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("n", "max_requests", "per_request", "min_words", "max_tokens"):
            _validate.integer(name, getattr(self, name), low=1)
        _validate.integer("max_words", self.max_words, low=self.min_words)
        _validate.integer("seed", self.seed, low=0)
        _validate.number("tolerance", self.tolerance, above=0.0)
        _validate.number("penalty", self.penalty, above=0.0)
        _validate.number("max_similarity", self.max_similarity, above=0.0, high=1.0)
        _validate.number("temperature", self.temperature, low=0.0)
        _validate.choice("method", self.method, METHODS)
        if not isinstance(self.stances, Sequence) or isinstance(self.stances, str):
            raise InputError("stances", "a sequence of integers", described(self.stances))
        object.__setattr__(self, "stances", tuple(self.stances))
        for stance in self.stances:
            _validate.integer("stances", stance, low=-3, high=3)
        if not self.stances or not min(self.stances) < 0 < max(self.stances):
            raise InputError("stances", "stances of both signs", str(self.stances))

    def plain(self) -> dict[str, object]:
        """Give the settings as plain values."""
        return {**asdict(self), "stances": list(self.stances)}


@dataclass(frozen=True)
class EBIQuestion:
    """What the attack is to be made on.

    Parameters
    ----------
    id : str
        Starts the ids of the passages.
    text : str
        What is asked.
    anchors, stances : sequences, optional
        Use these anchor passages, with their stances where they are known, and ask for none.
        Without stances "positive" is the end of the axis that the rule of orientation makes the
        positive one; `provenance` says so.
    candidates : sequence of Passage, optional
        Passages on the question among which the extreme ones are looked for, such as those that a
        search found; by default the anchors themselves, as in the paper's experiment.

    Raises
    ------
    InputError
        A blank id or text, stances without anchors, fewer than two anchors or candidates.
    """

    id: str
    text: str
    anchors: Sequence[Passage] | None = None
    stances: Sequence[float] | None = None
    candidates: Sequence[Passage] | None = None

    def __post_init__(self) -> None:
        check_id("question_id", self.id, None)
        _validate.text("question", self.text)
        if self.candidates is not None:
            _two_passages("candidates", self.candidates)
        if self.anchors is None and self.stances is not None:
            raise InputError("stances", "anchors beside them", "none")
        _ = self.given  # checks the anchors

    @property
    def given(self) -> WrittenAnchors | None:
        """The anchors that came with the question; None where they are to be written."""
        return None if self.anchors is None else WrittenAnchors.given(self.anchors, self.stances)


@dataclass
class Tally:
    """What was not taken on the way, by reason, and the generator's last or ending failure."""

    rejections: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None

    def reject(self, reason: str, count: int = 1) -> None:
        """Count texts that are not taken."""
        if count > 0:
            self.rejections[reason] = self.rejections.get(reason, 0) + count

    def failed(self, failure: Failure, prefix: str = "") -> bool:
        """Count a failure of the generator, if it was asked; whether it ends the work."""
        if not isinstance(failure, NotSent):
            self.reject(f"{prefix}generator: {failure.reason}")
        if self.failure is None or not ends_the_work(self.failure):  # that one is told
            self.failure = failure
        return ends_the_work(failure)


@dataclass(frozen=True)
class WrittenAnchors:
    """Anchor passages with the stances that they were asked to take.

    Parameters
    ----------
    passages : tuple of Passage
        At least two.
    stances : tuple of float, optional
        One an anchor, where they are known.
    provenance : mapping
        Prompt, requests, or that they were given.
    """

    passages: tuple[Passage, ...]
    stances: tuple[float, ...] | None
    provenance: Mapping[str, object] = field(default_factory=dict, hash=False)

    @classmethod
    def given(cls, anchors: Sequence[Passage], stances: Sequence[float] | None) -> WrittenAnchors:
        """Take anchors that somebody else wrote."""
        _two_passages("anchors", anchors)
        if stances is not None:
            _validate.same_length("stances", len(stances), "anchors", len(anchors))
        known = None if stances is None else tuple(float(one) for one in stances)
        return cls(tuple(anchors), known, {"given": [one.id for one in anchors]})

    @property
    def axis_labels(self) -> list[float] | None:
        """Give the stances as labels of the axis; they orient it, and "pca" uses them for no more.

        None where they are not known.
        """
        return None if self.stances is None else list(self.stances)


def _two_passages(argument: str, given: Sequence[Passage]) -> None:
    if not isinstance(given, Sequence) or len(given) < 2:
        found = str(len(given)) if isinstance(given, Sequence) else described(given)
        raise InputError(argument, "at least two passages", found)
    for row, one in enumerate(given):
        if not isinstance(one, Passage):
            raise InputError(argument, "passages", type(one).__name__, f"row {row}")


@dataclass(frozen=True, eq=False)
class EBIOutcome:
    """What the attack made of one question.

    Parameters
    ----------
    adversarial : AdversarialSet
        The passages, with the count of what was rejected.
    anchors : WrittenAnchors, optional
        Of the axis; None where none could be had.
    axis : PolarizationAxis, optional
        The attacker's.
    references : mapping
        Polarity to the most extreme candidate that way.
    missing : mapping
        Polarity to the number of passages that are short of `n`.
    failure : str, optional
        Why there are no passages.
    generator_failure : Failure, optional
        The last one of the generator, where passages are missing after it.
    """

    adversarial: AdversarialSet
    anchors: WrittenAnchors | None = None
    axis: PolarizationAxis | None = None
    references: Mapping[str, Passage] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    failure: str | None = None
    generator_failure: Failure | None = None

    @property
    def stopped(self) -> Failure | None:
        """Why the generator went away, if so: the same run, made again, goes on from here."""
        failure = self.generator_failure
        return failure if failure is not None and ends_the_work(failure) else None
