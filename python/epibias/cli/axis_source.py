"""Where `score` and `filter` get their polarization axis: anchors, or an axis saved before.

Owns the axis file (JSON, mode 0600, because it holds a vector) and the encoder that both commands
load when lines hold texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _files
from epibias._validate import Float32Array
from epibias.cli import jsonl
from epibias.cli.console import progress_bar
from epibias.corpus import Corpus
from epibias.encoder import SentenceTransformerEncoder
from epibias.errors import InputError
from epibias.experiment.inputs import encode_in_batches
from epibias.polarization import METHODS, PolarizationAxis

AXIS_FORMAT = "epibias-axis-1"


class LazyEncoder:
    """Loads the encoder when the first text comes; lines of vectors never need one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._encoder: SentenceTransformerEncoder | None = None

    def passages(self, lines: Sequence[jsonl.Line], argument: str) -> Float32Array:
        """Embed the lines' vectors or texts, float32 `[n_lines, dim]`."""
        if jsonl.holds_vectors(lines, argument):
            return jsonl.vectors(lines, argument)
        found = jsonl.passages(lines, argument)
        texts = list(Corpus(found).texts)
        return self._encode(texts, "passages", f"encoding {argument}")

    def queries(self, lines: Sequence[jsonl.Line]) -> Float32Array:
        """Embed the lines' `query_vector` or `query`, float32 `[n_lines, dim]`."""
        if jsonl.holds_vectors(lines, "queries", "query_vector"):
            return jsonl.vectors(lines, "queries", "query_vector")
        texts = [jsonl.field(line, "query", str, "a text") for line in lines]
        for text, line in zip(texts, lines, strict=True):
            if not text.strip():
                raise InputError("query", "a text that is not blank", repr(text), line.where)
        return self._encode(texts, "queries", "encoding queries")

    def _encode(self, texts: list[str], role: str, description: str) -> Float32Array:
        if self._encoder is None:
            self._encoder = SentenceTransformerEncoder(self.name, progress=False)
        with progress_bar() as progress:
            task = progress.add_task(description, total=len(texts))
            return encode_in_batches(
                self._encoder, texts, role, lambda done: progress.advance(task, done)
            )


def axis_of_options(
    anchors: str | None,
    axis_file: str | None,
    encoder: LazyEncoder,
    *,
    method: str,
    penalty: float,
    center: bool,
) -> tuple[PolarizationAxis, list[str | None]]:
    """Fit the axis on an anchors file, or read a saved one.

    Returns
    -------
    PolarizationAxis
        One topic, or a batch where the anchors name several.
    list of str or None
        Topic names in the order of the axes; `[None]` where the anchors name none.
    """
    if (anchors is None) == (axis_file is None):
        found = "neither" if anchors is None else "both"
        raise InputError("--anchors, --axis", "one of the two", found)
    if axis_file is not None:
        for option, changed in (
            ("--method", method != "pca"),
            ("--penalty", penalty != 1.0),
            ("--center", center),
        ):
            if changed:
                raise InputError(option, "no such option with --axis", "one; the axis has its own")
        return read_axis(axis_file), [None]
    assert anchors is not None  # noqa: S101 (for the type checker; checked above)
    lines = jsonl.read_lines(anchors, "anchors")
    if method not in METHODS:
        raise InputError("--method", " or ".join(map(repr, METHODS)), repr(method))
    rows = encoder.passages(lines, "anchors")
    stances = _stances(lines)
    topics = [line.fields.get("topic") for line in lines]
    names = list(dict.fromkeys(topics))
    if None in names and len(names) > 1:
        line = lines[topics.index(None)]
        raise InputError("anchors", "'topic' on every line or on none", "none", line.where)
    options: dict[str, Any] = {"method": method, "penalty": penalty, "center": center}
    if len(names) == 1:
        return PolarizationAxis.fit(rows, stances, **options), names
    members = [np.array([topic == name for topic in topics]) for name in names]
    labels = None if stances is None else [stances[member] for member in members]
    batch = [np.ascontiguousarray(rows[member]) for member in members]
    return PolarizationAxis.fit(batch, labels, **options), names


def describe(axis: PolarizationAxis, names: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return method and validity of every axis, ready for JSON; never its vector."""
    return [
        {
            "topic": names[number],
            "method": one.method,
            "validity": _number(one.validity),
            "explained_variance_ratio": _number(one.explained_variance_ratio),
            "relative_gap": _number(one.relative_gap),
            "n_anchors": int(one.n_anchors),
        }
        for number, one in ((i, axis.topic(i)) for i in range(axis.n_topics))
    ]


def summary(described: dict[str, Any]) -> str:
    """Return one line for people about one axis."""
    known = [
        f"{label} {described[name]:.2f}"
        for name, label in (
            ("validity", "leave-one-out rank correlation"),
            ("explained_variance_ratio", "explained variance"),
            ("relative_gap", "relative gap"),
        )
        if described[name] is not None
    ]
    topic = f" of topic {described['topic']!r}" if described["topic"] is not None else ""
    return f"{described['method']} axis{topic}, {described['n_anchors']} anchors: " + ", ".join(
        known
    )


def save_axis(axis: PolarizationAxis, path: str) -> None:
    """Write one topic's axis to a JSON file, mode 0600."""
    if axis.n_topics != 1:
        raise InputError("--save-axis", "anchors of one topic", f"{axis.n_topics} topics")
    if not Path(path).parent.is_dir():
        raise InputError("--save-axis", "a folder that exists", repr(str(Path(path).parent)))
    fields = {name: _number(getattr(axis, name)) for name in _AXIS_NUMBERS}
    vector = [jsonl.plain(value) for value in axis.axis]
    record = {"format": AXIS_FORMAT, "method": axis.method, "normalize": axis.normalize}
    record |= {"n_anchors": int(axis.n_anchors), **fields, "axis": vector}
    _files.write_text(Path(path), json.dumps(record, allow_nan=False) + "\n")


def read_axis(path: str) -> PolarizationAxis:
    """Read an axis that `save_axis` wrote."""
    (line, *rest) = jsonl.read_lines(path, "axis")
    if rest or line.fields.get("format") != AXIS_FORMAT:
        found = repr(line.fields.get("format")) if not rest else "several lines"
        raise InputError("axis", f"an axis file of format {AXIS_FORMAT!r}", found, path)
    vector = jsonl.vector(line, "axis", "axis")
    length = float(np.sqrt(np.sum(vector.astype(np.float64) ** 2)))
    if abs(length - 1) > 1e-5:
        raise InputError("axis", "a vector of length 1", f"length {length:.6f}", path)
    numbers: dict[str, Any] = {}
    for name, empty in _AXIS_NUMBERS.items():
        value = line.fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InputError(name, "a number or null", repr(value)[:60], path)
        numbers[name] = empty if value is None else float(value)
    return PolarizationAxis(
        axis=vector,
        method=str(jsonl.field(line, "method", str, "a method")),
        normalize=line.fields.get("normalize") is not False,
        n_anchors=jsonl.field(line, "n_anchors", int, "a number of anchors"),
        **numbers,
    )


# Numbers of an axis file, and what null stands for.
_AXIS_NUMBERS: dict[str, float | None] = {
    "explained_variance_ratio": float("nan"),
    "relative_gap": float("nan"),
    "validity": None,
    "neutral_centre": float("nan"),
    "mean_anchor_score": 0.0,
}


def _stances(lines: Sequence[jsonl.Line]) -> Any:  # noqa: ANN401
    given = ["stance" in line.fields for line in lines]
    if not any(given):
        return None
    if not all(given):
        line = lines[given.index(False)]
        raise InputError("anchors", "'stance' on every line or on none", "none", line.where)
    values = [jsonl.field(line, "stance", (int, float), "a number") for line in lines]
    return np.asarray(values, dtype=np.float64)


def _number(value: Any) -> float | None:  # noqa: ANN401
    return None if value is None or not np.isfinite(value) else float(value)
