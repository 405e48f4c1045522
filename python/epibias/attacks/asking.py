"""How attacks ask a generator: several at once, and nothing more once its server is gone.

Owns the one rule for a server that died or hangs (`Asker`), and how requests of works that do not
depend on each other are sent together (`together`), so that a server with room for several is not
asked one by one. A work is a Python generator that yields the requests of a step and is sent their
replies. What it makes of them depends on its own replies alone: never on which works run beside it,
nor on whose reply comes first.
"""

from __future__ import annotations

from collections.abc import Generator as Steps
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from epibias import _validate
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


@dataclass(frozen=True)
class NotSent(Failure):
    """A request that was not sent, because the server was gone by then; in the words of why.

    Examples
    --------
    >>> NotSent("down", "refused", attempts=0).attempts
    0
    """


def ends_the_work(answer: Reply | Failure) -> bool:
    """Whether to ask no more: the server is gone, and not just this answer.

    What a cache does not hold offline (0 attempts) is not the server's doing: the next may be in
    it.

    Examples
    --------
    >>> ends_the_work(Failure("down", "refused", 4)), ends_the_work(Failure("empty", "blank", 1))
    (True, False)
    """
    if isinstance(answer, NotSent):
        return True
    return isinstance(answer, Failure) and answer.reason in GIVEN_UP and answer.attempts > 0


class Asker:
    """Ask a generator until its server is gone: from then on nothing is sent.

    At most as many requests as the generator has room for are under way, so that none begins after
    one has failed: a server that hangs costs the deadline of one request, not of each.

    Parameters
    ----------
    generator : Generator
        Asked for `concurrency` replies a call, or one where it says nothing of that.
    temperature, max_tokens, seed
        Of every request.

    Attributes
    ----------
    stopped : Failure, optional
        The first that said that the server is gone.

    Examples
    --------
    >>> from epibias.generators import FixedGenerator
    >>> dead = FixedGenerator(lambda prompt, repeat: Failure("down", "refused", 4))
    >>> asker = Asker(dead, temperature=0, max_tokens=9, seed=0)
    >>> first, second = asker.ask([Prompt("own", "1", name) for name in "ab"], 0)
    >>> first.attempts, second
    (4, NotSent(reason='down', message='refused', attempts=0, text=None))
    """

    def __init__(
        self, generator: Generator, *, temperature: float, max_tokens: int, seed: int | None
    ) -> None:
        self._generator = generator
        self._room = int(getattr(generator, "concurrency", 1))
        self._temperature, self._max_tokens, self._seed = temperature, max_tokens, seed
        self.stopped: Failure | None = None

    def ask(self, prompts: Sequence[Prompt], repeat: int) -> list[Reply | Failure]:
        """Answer each prompt, in order; `NotSent` for those that the server was gone for."""
        answers: list[Reply | Failure] = []
        for start in range(0, len(prompts), self._room):
            some = prompts[start : start + self._room]
            if self.stopped is not None:
                gone = NotSent(self.stopped.reason, self.stopped.message, attempts=0)
                answers += [gone] * len(some)
                continue
            found = self._generator.generate(
                some,
                temperature=self._temperature,
                max_tokens=self._max_tokens,
                seed=self._seed,
                repeat=repeat,
            )
            _validate.same_length("replies", len(found), "prompts", len(some))
            answers += found
            ended = (one for one in found if isinstance(one, Failure) and ends_the_work(one))
            self.stopped = next(ended, None)
        return answers


def together(works: Sequence[Work[_T]], asker: Asker) -> list[_T]:
    """Run works to their end, the requests of their present steps side by side.

    Parameters
    ----------
    works : sequence of generators
        Each yields the requests of a step, and is sent the replies in their order.
    asker : Asker
        Asked once a step for each number of answer among the requests.

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
    >>> asker = Asker(generator, temperature=0, max_tokens=9, seed=0)
    >>> together([work("a"), work("b")], asker)
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
            replies = asker.ask([step[number][place].prompt for number, place in some], repeat)
            answered.update(zip(some, replies, strict=True))
        for number, asks in step.items():
            go_on(number, [answered[number, place] for place in range(len(asks))])
    return [ended[number] for number in range(len(works))]
