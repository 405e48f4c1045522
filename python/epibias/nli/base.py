"""Natural language inference: whether a premise entails, leaves open or contradicts a hypothesis.

Owns the protocol and the order of its three columns. Knows no model: `cross_encoder` and `onnx` do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.errors import InputError

LABELS = ("entailment", "neutral", "contradiction")
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)


@runtime_checkable
class NLI(Protocol):
    """A model of natural language inference.

    Examples
    --------
    >>> from epibias.nli import FixedNLI
    >>> nli = FixedNLI(lambda premise, hypothesis: (0.1, 0.2, 0.7))
    >>> isinstance(nli, NLI)
    True
    >>> nli.probabilities(["It rains."], ["It is dry."])
    array([[0.1, 0.2, 0.7]], dtype=float32)
    """

    @property
    def identity(self) -> Mapping[str, object]:
        """What the probabilities depend on, as plain values for a manifest."""
        ...

    def probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Float32Array:
        """Judge pairs of texts.

        Parameters
        ----------
        premises, hypotheses : sequence of str
            As many of both. The order within a pair matters: what entails need not be entailed.

        Returns
        -------
        float32 [n_pairs, 3]
            Probabilities of entailment, neutral and contradiction; each row adds up to 1.
        """
        ...


def check_pairs(premises: Sequence[str], hypotheses: Sequence[str]) -> None:
    """Check that these are as many premises as hypotheses, all of them texts.

    Raises
    ------
    InputError
        The row of the first that is blank or no text, or both lengths.
    """
    for argument, texts in (("premises", premises), ("hypotheses", hypotheses)):
        if isinstance(texts, str):
            raise InputError(argument, "a sequence of texts", "one text")
        for row, one in enumerate(texts):
            _validate.text(argument, one, f"row {row}")
    _validate.same_length("hypotheses", len(hypotheses), "premises", len(premises))


def check_probabilities(values: Float32Array, n_pairs: int, model: str) -> Float32Array:
    """Check what a model gave: one finite row a pair, in [0, 1], adding up to 1 within 1e-3.

    Raises
    ------
    InputError
        What is wrong, and the model's name.
    """
    if values.shape != (n_pairs, len(LABELS)) or values.dtype != np.float32:
        expected = f"float32 probabilities of shape ({n_pairs}, 3)"
        raise InputError("nli", expected, f"{values.dtype} of shape {values.shape}", model)
    _validate.finite("nli", values, model)
    total = values.sum(axis=1, dtype=np.float64)
    wrong = (values < 0).any(axis=1) | (np.abs(total - 1) > 1e-3)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            "nli", "rows that add up to 1", f"{values[row].tolist()}", f"{model}, row {row}"
        )
    return values
