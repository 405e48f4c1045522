"""An NLI model that is a function: for tests, examples, and rules written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from epibias._validate import Float32Array
from epibias.nli.base import check_pairs, check_probabilities


class FixedNLI:
    """Judge each pair by a function, without a model.

    Parameters
    ----------
    judge : callable
        Takes premise and hypothesis; gives the probabilities of entailment, neutral and
        contradiction.
    name : str
        What `identity` says of it.

    Examples
    --------
    >>> def by_negation(premise, hypothesis):
    ...     return (0, 0, 1) if ("not" in premise) != ("not" in hypothesis) else (1, 0, 0)
    >>> FixedNLI(by_negation).probabilities(["It is so."] * 2, ["It is so.", "It is not so."])
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """

    def __init__(self, judge: Callable[[str, str], Sequence[float]], name: str = "fixed") -> None:
        self._judge = judge
        self._name = name
        self.n_pairs = 0

    @property
    def identity(self) -> dict[str, object]:
        """Its kind and name."""
        return {"kind": "fixed", "model": self._name}

    def probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Float32Array:
        """Judge pairs of texts; see `NLI.probabilities`. Counts them in `n_pairs`."""
        check_pairs(premises, hypotheses)
        rows = [self._judge(p, h) for p, h in zip(premises, hypotheses, strict=True)]
        self.n_pairs += len(rows)
        values = np.array(rows, dtype=np.float32).reshape(len(rows), -1 if rows else 3)
        return check_probabilities(values, len(premises), self._name)
