"""Several attacks ask one generator at once: steps in, their results out, in their order.

Owns how requests of works that do not depend on each other are sent together, so that a server
with room for several is not asked one by one. A work is a Python generator that yields the requests
of a step and is sent their replies. What it makes of them depends on its own replies alone: never
on which works run beside it, nor on whose reply comes first.
"""

from __future__ import annotations

from collections.abc import Generator as Steps
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from epibias.generators import Failure, Generator, Prompt, Reply

_T = TypeVar("_T")
# The generator tried these as often as makes sense: the next request would fare no better.
GIVEN_UP = ("down", "rate_limited", "timeout")


@dataclass(frozen=True)
class Ask:
    """A request to the generator.

    Parameters
    ----------
    prompt : Prompt
        What is sent.
    repeat : int
        Number of its answer: the same prompt may be sent again, and has another one.
    """

    prompt: Prompt
    repeat: int


Answers: TypeAlias = "Sequence[Reply | Failure]"
Work: TypeAlias = Steps[Sequence[Ask], Answers, _T]


def ends_the_work(answer: Reply | Failure) -> bool:
    """Whether to ask no more: the server is gone, and not just this answer.

    What a cache does not hold offline (0 attempts) is not the server's doing: the next may be in
    it.

    Examples
    --------
    >>> ends_the_work(Failure("down", "refused", 4)), ends_the_work(Failure("empty", "blank", 1))
    (True, False)
    """
    return isinstance(answer, Failure) and answer.reason in GIVEN_UP and answer.attempts > 0


def together(
    works: Sequence[Work[_T]],
    generator: Generator,
    *,
    temperature: float,
    max_tokens: int,
    seed: int | None,
) -> list[_T]:
    """Run works to their end, the requests of their present steps in as few calls as can be.

    Parameters
    ----------
    works : sequence of generators
        Each yields the requests of a step, and is sent the replies in their order.
    generator : Generator
        Asked once a step for each number of answer among the requests.
    temperature, max_tokens, seed
        Of its requests.

    Returns
    -------
    list
        What each work returned.

    Examples
    --------
    >>> from epibias.generators import FixedGenerator
    >>> def work(name):
    ...     [reply] = yield [Ask(Prompt("own", "1", name), 0)]
    ...     return reply.text
    >>> generator = FixedGenerator(lambda prompt, repeat: prompt.user.upper())
    >>> together([work("a"), work("b")], generator, temperature=0, max_tokens=9, seed=0)
    ['A', 'B']
    """
    ended: dict[int, _T] = {}
    waiting: dict[int, Sequence[Ask]] = {}

    def go_on(number: int, answers: Answers | None) -> None:
        try:
            # The first step is reached by sending nothing.
            waiting[number] = works[number].send(answers)  # type: ignore[arg-type]
        except StopIteration as end:
            ended[number] = end.value

    for number in range(len(works)):
        go_on(number, None)
    while waiting:
        step, waiting = waiting, {}
        answered: dict[tuple[int, int], Reply | Failure] = {}
        places = [(number, place) for number, asks in step.items() for place in range(len(asks))]
        for repeat in sorted({ask.repeat for asks in step.values() for ask in asks}):
            some = [at for at in places if step[at[0]][at[1]].repeat == repeat]
            replies = generator.generate(
                [step[number][place].prompt for number, place in some],
                temperature=temperature,
                max_tokens=max_tokens,
                seed=seed,
                repeat=repeat,
            )
            answered.update(zip(some, replies, strict=True))
        for number, asks in step.items():
            go_on(number, [answered[number, place] for place in range(len(asks))])
    return [ended[number] for number in range(len(works))]
