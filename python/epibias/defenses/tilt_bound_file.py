"""A calibrated TiltBound in a JSON file, with the axes that its memory was measured on.

Owns the file's format. In: a defence and axes. Out: a file of mode 0600, there whole or not at all;
and back. Question texts are in it as digests only; passages and query vectors are not. A memory
says where mean scores were, so it means nothing on another axis: reading checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epibias import _files, _validate
from epibias._plain import described, shortest, vector_of_json
from epibias._validate import Float32Array
from epibias.defenses.registry import build_defense
from epibias.defenses.tilt_bound import TiltBound
from epibias.errors import InputError
from epibias.polarization import PolarizationAxis

FORMAT, VERSION = "epibias tilt_bound", 2
SAME_AXIS = 1e-5  # of the cosine: another machine's rounding is below, another fit is not


@dataclass(frozen=True, eq=False)
class SavedTiltBound:
    """A defence with the axes of its memory.

    Parameters
    ----------
    defense : TiltBound
    axes : mapping of str or None to float32 [dim]
        By topic; None is the axis of all. Empty where there is no memory: any axis will do.

    Examples
    --------
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32), [1, -1] * 2)
    >>> saved = SavedTiltBound.of(TiltBound(3), axis, [None])
    >>> saved.check_axes(axis, [None])
    """

    defense: TiltBound
    axes: Mapping[str | None, Float32Array]

    @classmethod
    def of(
        cls, defense: TiltBound, axis: PolarizationAxis, names: Sequence[str | None]
    ) -> SavedTiltBound:
        """Join a defence to the axes that its pools were scored on.

        Parameters
        ----------
        defense : TiltBound
        axis : PolarizationAxis
            One, or a batch.
        names : sequence of str or None
            Topics, in the order of the axes.

        Returns
        -------
        SavedTiltBound

        Raises
        ------
        InputError
            Another number of names than of axes, or one twice.
        """
        _validate.same_length("names", len(names), "the axes", axis.n_topics)
        _validate.unique("names", map(str, names))
        return cls(defense, dict(zip(names, np.atleast_2d(axis.axis), strict=True)))

    def check_axes(self, axis: PolarizationAxis, names: Sequence[str | None]) -> None:
        """Refuse axes that the memory was not measured on; thresholds alone go with any axis.

        Parameters
        ----------
        axis : PolarizationAxis
        names : sequence of str or None

        Raises
        ------
        InputError
            A topic that the memory does not have, or another axis of it; another number of names
            than of axes.
        """
        _validate.same_length("names", len(names), "the axes", axis.n_topics)
        if self.defense.memory is None:
            return
        for name, row in zip(names, np.atleast_2d(axis.axis), strict=True):
            where = None if name is None else f"topic {name!r}"
            known = self.axes.get(name)
            if known is None:
                raise InputError("axis", "a topic of the memory", described(name), where)
            if len(known) != len(row):
                found = f"{len(row)} columns"
                raise InputError("axis", f"{len(known)} columns, the memory's", found, where)
            cosine = float(known.astype(np.float64) @ row.astype(np.float64))
            if not cosine >= 1 - SAME_AXIS:
                expected = "the axis that the memory was measured on"
                raise InputError("axis", expected, f"one at a cosine of {cosine:.4f}", where)


def write_tilt_bound(saved: SavedTiltBound, path: Path | str) -> None:
    """Write a calibrated TiltBound, mode 0600.

    Parameters
    ----------
    saved : SavedTiltBound
    path : path

    Raises
    ------
    InputError
        A place that cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> axis = PolarizationAxis.fit(np.array([[1, 1], [1, -1]] * 2, np.float32), [1, -1] * 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder) / "memory.json"
    ...     write_tilt_bound(SavedTiltBound.of(TiltBound(3, echo=0.6), axis, [None]), place)
    ...     read_tilt_bound(place).defense.name
    'tilt_bound[echo=0.6]'
    """
    parameters = saved.defense.parameters()
    if saved.defense.trusted_index is not None:
        parameters["trusted_index"] = saved.defense.trusted_index.plain()
    document = {
        "format": FORMAT,
        "version": VERSION,
        "axes": [
            {"topic": name, "axis": [shortest(value) for value in row]}
            for name, row in saved.axes.items()
        ],
        "parameters": parameters,
    }
    text = json.dumps(document, allow_nan=False) + "\n"
    with _files.replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_tilt_bound(path: Path | str) -> SavedTiltBound:
    """Read what `write_tilt_bound` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    SavedTiltBound

    Raises
    ------
    InputError
        No such file, or not one of these.
    """
    where = str(path)
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("memory", "a file that can be read", str(error.strerror), where) from None
    except (ValueError, RecursionError):
        raise InputError("memory", "JSON", "something else", where) from None
    about = document if isinstance(document, dict) else {}
    kind, version = about.get("format"), about.get("version")
    if kind != FORMAT or version != VERSION:
        expected = f"a file of format {FORMAT!r}, version {VERSION}"
        found = f"{described(kind)}, version {described(version)}"
        raise InputError("memory", expected, found, where)
    axes, parameters = document.get("axes"), document.get("parameters")
    if not isinstance(axes, list) or not all(isinstance(one, dict) for one in axes):
        raise InputError("memory.axes", "a list of axes", described(axes), where)
    topics = [one.get("topic") for one in axes]
    for topic in topics:
        if topic is not None and not isinstance(topic, str):
            raise InputError("memory.axes", "topics that are texts", described(topic), where)
    _validate.unique("memory.axes", map(str, topics), where)
    defense = build_defense(parameters, where=where)
    if not isinstance(defense, TiltBound):
        raise InputError("memory.parameters", "TiltBound's", defense.name, where)
    rows = [vector_of_json("memory.axes", one.get("axis"), where) for one in axes]
    return SavedTiltBound(defense, dict(zip(topics, rows, strict=True)))
