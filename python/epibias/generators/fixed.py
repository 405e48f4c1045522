"""A generator that says what it was told to: for tests, examples and dry runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from epibias.generators.base import Failure, Prompt, Reply, Sampling, check_prompts


class FixedGenerator:
    """Answer with fixed texts, without a model.

    Parameters
    ----------
    answer : str, sequence or callable
        One text for every prompt; texts (or failures) that are given out in turn, round and
        round; or a function of the prompt and the repeat's number that gives either.
    name : str
        What `identity` says of it.

    Examples
    --------
    >>> generator = FixedGenerator(lambda prompt, repeat: f"{prompt.user} {repeat}")
    >>> [reply.text for reply in generator.generate([Prompt("own", "1", "Why?")], repeat=2)]
    ['Why? 2']
    """

    def __init__(
        self,
        answer: str | Sequence[str | Failure] | Callable[[Prompt, int], str | Failure],
        name: str = "fixed",
    ) -> None:
        self._answer = answer
        self._name = name
        self.n_calls = 0

    @property
    def identity(self) -> dict[str, object]:
        """Its kind and name."""
        return {"kind": "fixed", "model": self._name}

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
        """Answer each prompt; see `Generator.generate`. Counts calls in `n_calls`."""
        check_prompts(prompts)
        Sampling(temperature, max_tokens, seed, stop, repeat)
        return [self._one(prompt, repeat) for prompt in prompts]

    def _one(self, prompt: Prompt, repeat: int) -> Reply | Failure:
        if isinstance(self._answer, str):
            answer: str | Failure = self._answer
        elif callable(self._answer):
            answer = self._answer(prompt, repeat)
        else:
            answer = self._answer[self.n_calls % len(self._answer)]
        self.n_calls += 1
        if isinstance(answer, Failure):
            return answer
        if not answer.strip():
            return Failure("empty", "the answer is blank", attempts=1)
        return Reply(answer, "stop", None, None)
