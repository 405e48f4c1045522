"""Logits of any classifier in, the three probabilities out.

Owns the step between what a model computes and what `NLI` promises: which column is which label
for a three-way model; a fitted multinomial logistic map for a model with other classes, such as
one that was trained to tell contradiction from everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.errors import InputError
from epibias.nli.base import LABELS

PENALTY = 0.01  # of the squared weights; only keeps separable pairs from growing without end


@dataclass(frozen=True, eq=False)
class Calibration:
    """Probabilities = softmax(weights · logits + bias).

    Parameters
    ----------
    weights : float64 [3, n_logits]
        A row a label: entailment, neutral, contradiction.
    bias : float64 [3]
        One a label.

    Examples
    --------
    >>> calibration = Calibration.of_labels(["contradiction", "neutral", "entailment"])
    >>> logits = np.array([[0, 0, 5]], np.float32)
    >>> calibration.probabilities(logits).round(2).tolist()
    [[0.9900000095367432, 0.009999999776482582, 0.009999999776482582]]
    """

    weights: Float64Array
    bias: Float64Array

    def __post_init__(self) -> None:
        _validate.array("weights", self.weights, dtype=np.float64, ndim=2)
        _validate.array("bias", self.bias, dtype=np.float64, ndim=1)
        if self.weights.shape[0] != len(LABELS) or self.bias.shape != (len(LABELS),):
            found = f"{self.weights.shape} and {self.bias.shape}"
            raise InputError("weights", "shapes (3, n_logits) and (3,)", found)
        _validate.finite("weights", self.weights)
        _validate.finite("bias", self.bias)
        _validate.sealed(self.weights, self.bias)

    @property
    def n_logits(self) -> int:
        """Classes of the model."""
        return int(self.weights.shape[1])

    @classmethod
    def of_labels(cls, labels: Sequence[str]) -> Calibration:
        """For a three-way model: its columns in their order, by any name that begins alike.

        Raises
        ------
        InputError
            Unless each of the three stands once; names such as LABEL_0 tell nothing.

        Examples
        --------
        >>> Calibration.of_labels(["CONTRADICTION", "entail", "Neutral"]).weights.argmax(axis=1)
        array([1, 2, 0])
        """
        places = {
            label: [n for n, given in enumerate(labels) if str(given).lower()[:6] == label[:6]]
            for label in LABELS
        }
        if len(labels) != len(LABELS) or any(len(found) != 1 for found in places.values()):
            expected = f"the order of the columns, {', '.join(LABELS)}"
            raise InputError("labels", expected, f"{list(labels)}")
        weights = np.zeros((len(LABELS), len(labels)))
        for row, label in enumerate(LABELS):
            weights[row, places[label][0]] = 1.0
        return cls(weights, np.zeros(len(LABELS)))

    @classmethod
    def of(cls, meaning: Calibration | Sequence[str]) -> Calibration:
        """Take a fitted map as it is, and names of columns as `of_labels` does."""
        return meaning if isinstance(meaning, Calibration) else cls.of_labels(meaning)

    @classmethod
    def fit(cls, logits: Float32Array, labels: Int64Array, penalty: float = PENALTY) -> Calibration:
        """Fit the map on labelled pairs by maximum likelihood with a small ridge penalty.

        Parameters
        ----------
        logits : float32 [n_pairs, n_logits]
            What the model computes for each pair.
        labels : int64 [n_pairs]
            0 entailment, 1 neutral, 2 contradiction; each at least once.
        penalty : float
            Factor of the squared weights.

        Examples
        --------
        >>> logits = np.array([[-5], [-4], [0], [1], [5], [4]], np.float32)
        >>> fitted = Calibration.fit(logits, np.array([2, 2, 0, 0, 1, 1]))
        >>> fitted.probabilities(logits).argmax(axis=1)
        array([2, 2, 0, 0, 1, 1])
        """
        _validate.array("logits", logits, dtype=np.float32, ndim=2)
        _validate.array("labels", labels, dtype=np.int64, ndim=1)
        _validate.same_length("labels", len(labels), "logits", len(logits))
        _validate.finite("logits", logits)
        _validate.number("penalty", penalty, above=0.0)
        if set(labels.tolist()) != {0, 1, 2}:
            raise InputError("labels", "each of 0, 1, 2", f"{sorted(set(labels.tolist()))}")
        from scipy.optimize import minimize  # `import epibias` is light
        from scipy.special import log_softmax, softmax

        rows = logits.astype(np.float64)
        n_weights = len(LABELS) * rows.shape[1]
        picked = np.arange(len(rows)), labels
        target = np.zeros((len(rows), len(LABELS)))
        target[picked] = 1.0

        def loss(flat: Float64Array) -> tuple[float, Float64Array]:
            weights, bias = flat[:n_weights].reshape(len(LABELS), -1), flat[n_weights:]
            scores = rows @ weights.T + bias
            value = -log_softmax(scores, axis=1)[picked].mean() + penalty * (weights**2).sum()
            error = (softmax(scores, axis=1) - target) / len(rows)
            slope = np.concatenate(
                [(error.T @ rows + 2 * penalty * weights).ravel(), error.sum(axis=0)]
            )
            return float(value), slope

        start = np.zeros(n_weights + len(LABELS))
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000})
        flat = np.asarray(found.x, dtype=np.float64)
        return cls(flat[:n_weights].reshape(len(LABELS), -1).copy(), flat[n_weights:].copy())

    def probabilities(self, logits: Float32Array) -> Float32Array:
        """Map logits, float32 [n_pairs, n_logits], to probabilities, float32 [n_pairs, 3]."""
        if logits.ndim != 2 or logits.shape[1] != self.n_logits:
            raise InputError("logits", f"{self.n_logits} columns", f"shape {logits.shape}")
        scores = logits.astype(np.float64) @ self.weights.T + self.bias
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        values: Float32Array = (raised / raised.sum(axis=1, keepdims=True)).astype(np.float32)
        return values

    def parameters(self) -> Mapping[str, object]:
        """Weights and bias as plain values, for an identity."""
        return {"weights": self.weights.tolist(), "bias": self.bias.tolist()}
