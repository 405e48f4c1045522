"""What every generator offers: prompts in, replies or failures out, one each and in order.

Owns the four types that the rest of epibias sees of a language model. Knows no protocol, no model
and no file: `openai_compatible`, `gguf` and `cache` do. A prompt that could not be answered is a
`Failure`, a value like any other: a run of a thousand questions goes on, and counts it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from epibias import _validate
from epibias.errors import InputError

REASONS = ("down", "timeout", "rate_limited", "empty", "truncated", "malformed", "refused")


@dataclass(frozen=True)
class Prompt:
    """What is sent to a generator, ready to be read by it.

    Parameters
    ----------
    name, version : str
        Of the template that it was rendered from; they are recorded, not sent.
    user : str
        The user's message.
    system : str, optional
        The system message.

    Examples
    --------
    >>> Prompt("own", "1", "Why do cats purr?").system is None
    True
    """

    name: str
    version: str
    user: str
    system: str | None = None

    def __post_init__(self) -> None:
        _validate.text("user", self.user, f"prompt {self.name!r}")
        if self.system is not None:
            _validate.text("system", self.system, f"prompt {self.name!r}")

    @property
    def sha256(self) -> str:
        """Hash of name, version and both texts: what provenance records of a prompt."""
        parts = [self.name, self.version, self.system, self.user]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Reply:
    """What a generator answered, whole.

    Parameters
    ----------
    text : str
        The answer, as it came: never stripped, never blank.
    finish_reason : str
        Why it ended, in the generator's word: "stop" as a rule.
    prompt_tokens, completion_tokens : int, optional
        Lengths in tokens of the generator's own; None where it does not tell.
    cached : bool
        Whether it was read back from a file.

    Examples
    --------
    >>> Reply("Because they are content.", "stop", 9, 6).completion_tokens
    6
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cached: bool = False


@dataclass(frozen=True)
class Failure:
    """Why there is no reply.

    Parameters
    ----------
    reason : str
        "down" (not reached, an error of the server, or not in an offline cache), "timeout",
        "rate_limited", "empty", "truncated" (ended by a limit of tokens), "malformed" (not what
        the protocol promises, or beyond the longest body), "refused" (the server does not take
        the request: wrong key, unknown model, a parameter that it does not know).
    message : str
        What happened, for a person; without keys. Of an error it has the server's own words, up to
        200 characters, of a body that is not JSON the first 40.
    attempts : int
        How often it was tried.
    text : str, optional
        Of a truncated reply: what had come.

    Examples
    --------
    >>> Failure("timeout", "no answer within 30 s", attempts=3).reason
    'timeout'
    """

    reason: str
    message: str
    attempts: int
    text: str | None = None

    def __post_init__(self) -> None:
        _validate.choice("reason", self.reason, REASONS)


@runtime_checkable
class Generator(Protocol):
    """A language model that answers prompts.

    Examples
    --------
    >>> from epibias.generators import FixedGenerator
    >>> isinstance(FixedGenerator("yes"), Generator)
    True
    """

    @property
    def identity(self) -> Mapping[str, object]:
        """What the replies depend on, as plain values for a manifest; never a secret."""
        ...

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        temperature: float = 0.0,
        max_tokens: int = 512,
        seed: int | None = 0,
        stop: Sequence[str] = (),
        repeat: int = 0,
    ) -> list[Reply | Failure]:
        """Answer each prompt: one result a prompt, in order; a bad one never raises.

        Parameters
        ----------
        prompts : sequence of Prompt
            What to answer.
        temperature : float
            0 takes the likeliest token each time.
        max_tokens : int
            Longest answer, in tokens; one that reaches it is a `Failure("truncated", …)`.
        seed : int, optional
            Of the sampling: what is sent is drawn from it, the prompt and `repeat`
            (`Sampling.seed_of`). None leaves it to the generator.
        stop : sequence of str
            Texts that end an answer.
        repeat : int
            Number of this answer among several to the same prompt.
        """
        ...


@dataclass(frozen=True)
class Sampling:
    """The parameters of `Generator.generate`, checked.

    Raises
    ------
    InputError
        The first that is out of range.

    Examples
    --------
    >>> one, other = (Sampling(repeat=n).seed_of(Prompt("own", "1", "Why?")) for n in range(2))
    >>> one == other, Sampling(seed=None).seed_of(Prompt("own", "1", "Why?")) is None
    (False, True)
    """

    temperature: float = 0.0
    max_tokens: int = 512
    seed: int | None = 0
    stop: Sequence[str] = ()
    repeat: int = 0

    def __post_init__(self) -> None:
        _validate.number("temperature", self.temperature, low=0.0, high=2.0)
        max_tokens = _validate.integer("max_tokens", self.max_tokens, low=1)
        repeat = _validate.integer("repeat", self.repeat, low=0, high=2**20)
        if self.seed is not None:
            seed = _validate.integer("seed", self.seed, low=0, high=2**31 - 1)
            object.__setattr__(self, "seed", seed)
        if isinstance(self.stop, str):
            raise InputError("stop", "a sequence of texts", "one text")
        for place, word in enumerate(self.stop):
            if not isinstance(word, str) or not word:
                raise InputError("stop", "texts that are not empty", repr(word), f"place {place}")
        # Plain numbers: they go into a request and a key, and JSON holds none of numpy's.
        object.__setattr__(self, "max_tokens", max_tokens)
        object.__setattr__(self, "repeat", repeat)
        object.__setattr__(self, "temperature", float(self.temperature))
        object.__setattr__(self, "stop", tuple(self.stop))

    def seed_of(self, prompt: Prompt) -> int | None:
        """Give the seed that is sent with a prompt: one of its own for each prompt and repeat.

        Of the prompt's two texts alone, as a cache's key is: the same request has the same seed,
        whatever its template is called.

        Were it the same for all, the first random number would be, too, and one that leads a
        model astray would do so on every question: with a 1.5B model and seed 1, 12 replies of 12
        were of no use, with three other seeds 2 of 40. Questions are to be independent.
        """
        if self.seed is None:
            return None
        text = json.dumps([int(self.seed), int(self.repeat), prompt.system, prompt.user])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def check_prompts(prompts: Sequence[Prompt]) -> None:
    """Check that these are prompts.

    Raises
    ------
    InputError
        The place of the first that is none.
    """
    if isinstance(prompts, Prompt | str):
        raise InputError("prompts", "a sequence of Prompt", f"one {type(prompts).__name__}")
    for place, prompt in enumerate(prompts):
        if not isinstance(prompt, Prompt):
            raise InputError("prompts", "Prompt", type(prompt).__name__, f"place {place}")
