"""One topic's axis in a JSON file, with the encoder whose embeddings it belongs to.

Owns the format and its strict reading. The file holds a vector, so it is readable by its owner
alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _files
from epibias._plain import described, finite_or_none, first_difference, shortest, vector_of_json
from epibias.corpus.readers import json_lines
from epibias.errors import InputError
from epibias.polarization.axis import METHODS, PolarizationAxis

FORMAT = "epibias-axis-1"
VECTORS = "vectors"  # in place of an encoder: the anchors came as vectors
# Numbers of the file, and what null stands for.
_NUMBERS: dict[str, float | None] = {
    "explained_variance_ratio": float("nan"),
    "relative_gap": float("nan"),
    "validity": None,
    "neutral_centre": None,
    "mean_anchor_score": None,
}
# Whatever an axis was fitted on, it has these; without a centre, side="auto" would judge nothing.
_NEVER_NULL = {"neutral_centre", "mean_anchor_score"}
_FIELDS = ("format", "method", "normalize", "n_anchors", "encoder", *_NUMBERS, "axis")
# They change the last bits of an embedding, not its meaning: an axis may move between machines.
_ONLY_LAST_BITS = ("device", "libraries")

EncoderIdentity = Mapping[str, object] | str


@dataclass(frozen=True)
class SavedAxis:
    """An axis from a file.

    Parameters
    ----------
    axis : PolarizationAxis
        One topic's axis.
    encoder : mapping or "vectors"
        Identity of the encoder that the anchors went through, or that they came as vectors.
    path : str
        Where it was read.
    """

    axis: PolarizationAxis
    encoder: EncoderIdentity
    path: str

    def check_encoder(self, encoder: EncoderIdentity) -> None:
        """Refuse embeddings of another encoder than the anchors': their scores mean nothing.

        Parameters
        ----------
        encoder : mapping or "vectors"
            `SentenceTransformerEncoder.identity`, or "vectors".

        Raises
        ------
        InputError
            The first field in which the two differ; device and library versions may.
        """
        expected: object
        found: object
        if isinstance(self.encoder, str) or isinstance(encoder, str):
            name, expected, found = "encoder", self.encoder, encoder
            if expected == found:
                return
            expected, found = (
                VECTORS if isinstance(one, str) else f"texts, by {one.get('name')!r}"
                for one in (self.encoder, encoder)
            )
        else:
            difference = first_difference(_comparable(self.encoder), _comparable(encoder))
            if difference is None:
                return
            name, expected, found = difference
            name, expected, found = f"encoder.{name}", repr(expected), repr(found)
        raise InputError(name, f"{expected}, as the axis was fitted with", str(found), self.path)


def write_axis(axis: PolarizationAxis, path: Path | str, encoder: EncoderIdentity) -> None:
    """Write one topic's axis, whole or not at all, mode 0600.

    Parameters
    ----------
    axis : PolarizationAxis
        Of one topic.
    path : Path
        Where it goes; the folder must exist.
    encoder : mapping or "vectors"
        Identity of the encoder that the anchors went through; "vectors" where nobody knows.

    Raises
    ------
    InputError
        A batch of several topics, or a path that cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1], [2, 1]], np.float32))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_axis(axis, Path(folder) / "axis.json", "vectors")
    ...     saved = read_axis(Path(folder) / "axis.json")
    >>> bool((saved.axis.axis == axis.axis).all()), saved.encoder
    (True, 'vectors')
    """
    if axis.n_topics != 1:
        raise InputError("axis", "that of one topic", f"{axis.n_topics} topics")
    record: dict[str, object] = {
        "format": FORMAT,
        "method": axis.method,
        "normalize": bool(axis.normalize),
        "n_anchors": int(np.asarray(axis.n_anchors)),
        "encoder": encoder if isinstance(encoder, str) else dict(encoder),
        **{name: finite_or_none(getattr(axis, name)) for name in _NUMBERS},
        "axis": [shortest(value) for value in axis.axis],
    }
    _files.write_text(path, json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def read_axis(path: Path | str) -> SavedAxis:
    """Read an axis that `write_axis` wrote.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    SavedAxis

    Raises
    ------
    InputError
        Another file, a field too many or too few, or a value that no axis has.
    """
    where = str(path)
    rows = [row for _, row in json_lines(path, "axis")]
    if len(rows) > 1 or rows[0].get("format") != FORMAT:
        found = "several lines" if len(rows) > 1 else described(rows[0].get("format"))
        raise InputError("axis", f"an axis file of format {FORMAT!r}", found, where)
    fields = rows[0]
    for name in _FIELDS:
        if name not in fields:
            raise InputError(name, "a field of the axis file", "none", where)
    for name in fields:
        if name not in _FIELDS:
            raise InputError("axis", "the fields of an axis file alone", described(name), where)
    if fields["method"] not in METHODS:
        expected = " or ".join(map(repr, METHODS))
        raise InputError("method", expected, described(fields["method"]), where)
    if not isinstance(fields["normalize"], bool):
        raise InputError("normalize", "true or false", described(fields["normalize"]), where)
    n_anchors = fields["n_anchors"]
    if isinstance(n_anchors, bool) or not isinstance(n_anchors, int) or n_anchors < 2:
        raise InputError("n_anchors", "an integer of at least 2", described(n_anchors), where)
    encoder = fields["encoder"]
    if encoder != VECTORS and not (isinstance(encoder, dict) and "name" in encoder):
        expected = f"an encoder's identity, or {VECTORS!r}"
        raise InputError("encoder", expected, described(encoder), where)
    vector = vector_of_json("axis", fields["axis"], where)
    length = float(np.sqrt(np.sum(vector.astype(np.float64) ** 2)))
    if abs(length - 1) > 1e-5:
        raise InputError("axis", "a vector of length 1", f"length {length:.6f}", where)
    axis = PolarizationAxis(
        axis=vector,
        method=fields["method"],
        normalize=fields["normalize"],
        n_anchors=n_anchors,
        **{name: _number(name, fields[name], where) for name in _NUMBERS},  # type: ignore[arg-type]
    )
    return SavedAxis(axis, encoder, where)


def _number(name: str, value: Any, where: str) -> float | None:  # noqa: ANN401  as JSON has it
    if value is None and name not in _NEVER_NULL:
        return _NUMBERS[name]
    expected = "a finite number" if name in _NEVER_NULL else "a finite number, or null"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(name, expected, described(value), where)
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not np.isfinite(number):
        raise InputError(name, expected, described(value), where)
    return number


def _comparable(identity: Mapping[str, object]) -> dict[str, Any]:
    # Through JSON, as the file went: a tuple is a list there.
    plain: dict[str, Any] = json.loads(json.dumps(dict(identity)))
    return {name: value for name, value in plain.items() if name not in _ONLY_LAST_BITS}
