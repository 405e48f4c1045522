"""What the store needs an encoder for: texts of pages and queries, and the axes of its topics.

Reference texts (golden queries, pole statements) are embedded once and kept, so promoting and
checking need no model. An axis counts only where its validity reaches the policy's minimum; where
it does not, that is a note of the report, not a silent zero.

Pole statements come in mirrored pairs about the same rule, so validity leaves a pair out, not a
statement. With one statement left out, its twin stays on the other side and its own side's mean
moves away from it (by 1/(n − 1) of its distance): what they have in common, which is most of an
embedding, then counts against it, and leave-one-out comes out below chance by construction.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from epibias._validate import Float32Array, Int64Array
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError, ValidityWarning
from epibias.index.policy import Policy
from epibias.index.reader import IndexReader
from epibias.polarization import PolarizationAxis

if TYPE_CHECKING:
    from epibias.index.store import IndexStore

FEWEST_PAIRS = 5  # of pole statements; all of fewer are ranked right too often by chance


def identity_of(encoder: Encoder | None) -> dict[str, Any]:
    """Say which encoder it is, as JSON has it.

    Examples
    --------
    >>> class Lengths:
    ...     def encode(self, texts): ...
    >>> identity_of(Lengths())
    {'name': 'Lengths'}
    """
    if encoder is None:
        raise InputError("encoder", "an encoder, or embeddings", "None")
    identity = getattr(encoder, "identity", {"name": type(encoder).__name__})
    return dict(json.loads(json.dumps(identity)))


def encode(encoder: Encoder | None, texts: Sequence[str], role: str) -> Float32Array:
    """Embed texts in a role, float32 [n_texts, dim]."""
    if encoder is None:
        raise InputError("encoder", "an encoder", "None")
    return encode_in_batches(encoder, texts, role)


def reference_embeddings(store: IndexStore, texts: Sequence[str], role: str) -> Float32Array:
    """Embeddings of reference texts under the encoder of the current version.

    Raises
    ------
    InputError
        An embedding is missing and the store has no encoder, or another one.
    """
    manifest = store.current_files().manifest
    identity = manifest.encoder
    if not texts:
        return np.empty((0, manifest.dim), np.float32)

    def checked(missing: list[str]) -> Float32Array:
        if identity_of(store.encoder) != dict(identity):
            raise InputError("encoder", "the encoder of the current version", "another")
        return encode(store.encoder, missing, role)

    return store.golden.embeddings(texts, role, identity, checked if store.encoder else None)


def topic_axes(
    store: IndexStore, policy: Policy
) -> tuple[dict[str, PolarizationAxis], tuple[str, ...]]:
    """Axes of the topics that have pole statements; the valid ones, and notes on the others.

    Fitted once for a policy and an encoder.
    """
    identity = json.dumps(dict(store.current_files().manifest.encoder), sort_keys=True)
    key = store.records.setting("policy_sha256"), identity
    known: tuple[Any, tuple[dict[str, PolarizationAxis], tuple[str, ...]]] | None
    known = store.axes_cached
    if known is None or known[0] != key:
        known = store.axes_cached = key, _fitted(store, policy)
    return known[1]


def _fitted(
    store: IndexStore, policy: Policy
) -> tuple[dict[str, PolarizationAxis], tuple[str, ...]]:
    valid: dict[str, PolarizationAxis] = {}
    notes = []
    for name, topic in policy.topics.items():
        if not topic.follow:
            notes.append(f"no polarization scores of {name}: no pole statements")
            continue
        statements = [*topic.follow, *topic.shortcut]
        rows = reference_embeddings(store, statements, "passages")
        labels = [1.0] * len(topic.follow) + [-1.0] * len(topic.shortcut)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ValidityWarning)  # of leave-one-out: see above
            axis = PolarizationAxis.fit(rows, labels, "mean_difference")
        n_pairs = len(topic.follow)
        validity = paired_validity(rows[:n_pairs], rows[n_pairs:])
        if n_pairs >= FEWEST_PAIRS and validity >= policy.gate.min_validity:
            valid[name] = axis
        else:
            least = policy.gate.min_validity
            notes.append(
                f"no polarization scores of {name}: its axis has validity {validity:.2f} "
                f"({n_pairs} pairs), {least:g} ({FEWEST_PAIRS} pairs) is the least"
            )
    return valid, tuple(notes)


def paired_validity(follow: Float32Array, shortcut: Float32Array) -> float:
    """Give the share of pairs that an axis of the others ranks right, less the share ranked wrong.

    Parameters
    ----------
    follow, shortcut : float32 [n_pairs, dim]
        Embeddings; rows of the same number mirror each other. At least three.

    Returns
    -------
    float
        In [-1, 1]; 0 on average where embeddings do not carry the difference.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rules = rng.standard_normal((12, 8), dtype=np.float32)
    >>> stance = np.eye(8, dtype=np.float32)[0]
    >>> paired_validity(rules + stance, rules - stance)
    1.0
    """
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (follow, shortcut)]
    differences = (units[0] - units[1]).astype(np.float64)
    # The axis of the others is along the sum of their differences.
    rest = differences.sum(axis=0) - differences
    return float(np.sign(np.einsum("ij,ij->i", differences, rest)).mean())


def scores_of(
    store: IndexStore, topic: str | None, reader: IndexReader, rows: Int64Array
) -> list[float | None]:
    """Polarization scores of some passages on a topic's axis; None without a valid one."""
    nothing: list[float | None] = [None] * len(rows)
    if topic is None or len(rows) == 0:
        return nothing
    axis = topic_axes(store, reader.policy)[0].get(topic)
    if axis is None:
        return nothing
    vectors = np.ascontiguousarray(reader.files.vectors[rows])
    return [float(score) for score in axis.score(vectors)]
