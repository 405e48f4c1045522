"""What the store needs an encoder for: texts of pages and queries, and the axes of its topics.

Reference texts (golden queries, pole statements) are embedded once and kept, so promoting and
checking need no model. An axis counts only where its leave-one-out validity reaches the policy's
minimum; where it does not, that is a note of the report, not a silent zero.
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
            warnings.simplefilter("ignore", ValidityWarning)  # judged below
            axis = PolarizationAxis.fit(rows, labels, "mean_difference")
        validity = np.nan if axis.validity is None else float(axis.validity)
        if validity >= policy.gate.min_validity:
            valid[name] = axis
        else:
            least = policy.gate.min_validity
            notes.append(
                f"no polarization scores of {name}: its axis has validity {validity:.2f}, "
                f"{least:g} is the least"
            )
    return valid, tuple(notes)


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
