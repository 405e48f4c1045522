"""Where `score` and `filter` get their polarization axis: anchors, or an axis saved before.

Owns the encoder that both commands load when lines hold texts, and sees to it that everything of
one call comes from one source: one encoder, or vectors throughout.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from epibias import _files, _validate
from epibias._plain import finite_or_none
from epibias._validate import Float32Array
from epibias.cli import jsonl
from epibias.cli.console import check_output, progress_bar
from epibias.cli.streams import say
from epibias.encoder import SentenceTransformerEncoder, encode_in_batches
from epibias.errors import InputError, ValidityWarning
from epibias.polarization import METHODS, PolarizationAxis
from epibias.polarization.axis_file import (
    VECTORS,
    EncoderIdentity,
    SavedAxis,
    read_axis,
    write_axis,
)

DEFAULT_METHOD, DEFAULT_PENALTY = "pca", 1.0
TEXTS = "texts"


class LazyEncoder:
    """Loads the encoder when the first text comes; lines of vectors never need one.

    Parameters
    ----------
    name : str
        A SentenceTransformer by name or path.
    cache : bool
        Whether embeddings are kept on disk.
    """

    def __init__(self, name: str, *, cache: bool = True) -> None:
        self.name, self.cache = name, cache
        self._encoder: SentenceTransformerEncoder | None = None
        self._kind: tuple[str, str] | None = None  # "texts" or "vectors", and who came first
        self._saved: SavedAxis | None = None

    @property
    def identity(self) -> EncoderIdentity:
        """What the rows of this call come from, for an axis file."""
        return VECTORS if self._encoder is None else dict(self._encoder.identity)

    def expect(self, saved: SavedAxis) -> None:
        """Refuse from now on whatever does not come from the encoder of a saved axis."""
        self._saved = saved

    def passages(self, lines: Sequence[jsonl.Line], argument: str) -> Float32Array:
        """Embed the lines' vectors or texts, float32 `[n_lines, dim]`."""
        if jsonl.holds_vectors(lines, argument):
            return self._given(jsonl.vectors(lines, argument), argument)
        return self._encode(jsonl.encoded_texts(lines, argument), "passages", argument)

    def queries(self, lines: Sequence[jsonl.Line]) -> Float32Array:
        """Embed the lines' `query_vector` or `query`, float32 `[n_lines, dim]`."""
        if jsonl.holds_vectors(lines, "queries", "query_vector"):
            return self._given(jsonl.vectors(lines, "queries", "query_vector"), "queries")
        texts = [jsonl.text(line, "query") for line in lines]
        return self._encode(texts, "queries", "queries")

    def _given(self, rows: Float32Array, argument: str) -> Float32Array:
        self._settle(VECTORS, argument)
        if self._saved is not None:
            self._saved.check_encoder(VECTORS)
        return rows

    def _encode(self, texts: list[str], role: str, argument: str) -> Float32Array:
        self._settle(TEXTS, argument)
        encoder = self._load()
        if self._saved is not None:
            self._saved.check_encoder(encoder.identity)
        distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        with progress_bar() as progress:
            task = progress.add_task(f"encoding {argument}", total=len(distinct))
            rows = encode_in_batches(
                encoder, list(distinct), role, lambda done: progress.advance(task, done)
            )
        return np.ascontiguousarray(rows[[distinct[text] for text in texts]])

    def _load(self) -> SentenceTransformerEncoder:
        if self._encoder is None:
            self._encoder = SentenceTransformerEncoder(self.name, cache=self.cache, progress=False)
            if self.cache:
                from epibias.encoder.cache import default_folder

                say(
                    f"epibias: the embeddings of these texts are kept in {default_folder()}; "
                    "--no-cache keeps none"
                )
        return self._encoder

    def _settle(self, kind: str, argument: str) -> None:
        """Refuse vectors beside texts: nobody knows whether they are of the same encoder."""
        if self._kind is None:
            self._kind = kind, argument
        elif self._kind[0] != kind:
            raise InputError(argument, f"{self._kind[0]}, as in {self._kind[1]}", kind)


def axis_of_options(
    anchors: str | None,
    axis_file: str | None,
    encoder: LazyEncoder,
    *,
    method: str | None,
    penalty: float | None,
    center: bool | None,
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
        given = {"--method": method, "--penalty": penalty, "--center": center}
        for option, value in given.items():
            if value is not None:
                raise InputError(option, "no such option with --axis", "one; the axis has its own")
        saved = read_axis(axis_file)
        encoder.expect(saved)
        return saved.axis, [None]
    assert anchors is not None  # noqa: S101 (for the type checker; checked above)
    method = DEFAULT_METHOD if method is None else method
    if method not in METHODS:
        raise InputError("--method", " or ".join(map(repr, METHODS)), repr(method))
    if penalty is not None and method != "ridge":
        raise InputError("--penalty", f"no such option with --method {method}", repr(penalty))
    lines = jsonl.read_lines(anchors, "anchors")
    rows = encoder.passages(lines, "anchors")
    stances = _stances(lines)
    topics = _topics(lines)
    names = list(dict.fromkeys(topics))
    options: dict[str, Any] = {
        "method": method,
        "penalty": DEFAULT_PENALTY if penalty is None else penalty,
        "center": bool(center),
    }
    if len(names) == 1:
        return PolarizationAxis.fit(rows, stances, **options), names
    members = [np.array([topic == name for topic in topics]) for name in names]
    labels = None if stances is None else [stances[member] for member in members]
    batch = [np.ascontiguousarray(rows[member]) for member in members]
    with _topics_by_name(names):
        return PolarizationAxis.fit(batch, labels, **options), names


@contextlib.contextmanager
def _topics_by_name(names: Sequence[str | None]) -> Iterator[None]:
    """Tell topics by name in warnings and errors of a fit, which knows their numbers only."""

    def named(text: str) -> str:
        return re.sub(r"\btopic (\d+)\b", lambda found: f"topic {names[int(found[1])]!r}", text)

    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ValidityWarning)
            yield
    except InputError as error:
        where = None if error.where is None else named(error.where)
        raise InputError(error.argument, named(error.expected), error.got, where) from None
    for one in told:
        warnings.warn(named(str(one.message)), one.category, stacklevel=2)


def describe(axis: PolarizationAxis, names: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return method and validity of every axis, ready for JSON; never its vector."""
    return [
        {
            "topic": names[number],
            "method": one.method,
            "validity": finite_or_none(one.validity),
            "explained_variance_ratio": finite_or_none(one.explained_variance_ratio),
            "relative_gap": finite_or_none(one.relative_gap),
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


def check_save_axis(path: str | None, output: str) -> None:
    """Refuse a place for the axis that cannot be written, or that the output takes."""
    if path is None:
        return
    if path == "-":
        raise InputError("--save-axis", "a file", "'-'")
    check_output(path, "--save-axis")
    if output != "-" and os.path.realpath(path) == os.path.realpath(output):
        raise InputError("--save-axis", "another file than --output", repr(path))


@contextlib.contextmanager
def saving_axis(axis: PolarizationAxis, path: str | None, encoder: LazyEncoder) -> Iterator[None]:
    """Write one topic's axis and its encoder to a JSON file, mode 0600, if the body succeeds too.

    With no path, only the body runs.
    """
    if path is None:
        yield
        return
    with _files.replacing(path) as temporary:
        write_axis(axis, temporary, encoder.identity)
        yield


def _topics(lines: Sequence[jsonl.Line]) -> list[str | None]:
    if not any("topic" in line.fields for line in lines):
        return [None] * len(lines)
    for line in lines:
        if "topic" not in line.fields:
            raise InputError("anchors", "'topic' on every line or on none", "none", line.where)
    return [jsonl.text(line, "topic") for line in lines]


def _stances(lines: Sequence[jsonl.Line]) -> Any:  # noqa: ANN401
    given = ["stance" in line.fields for line in lines]
    if not any(given):
        return None
    if not all(given):
        line = lines[given.index(False)]
        raise InputError("anchors", "'stance' on every line or on none", "none", line.where)
    stances = []
    for line in lines:
        value = jsonl.field(line, "stance", (int, float), "a number")
        stances.append(_validate.number("stance", value, where=line.where))
    return np.asarray(stances, dtype=np.float64)
