"""The axes of questions: their anchors in, fitted axes out.

Owns which texts of a question an axis is fitted on: its anchors as an index encodes them, title and
text, with their stances where they are known. `axis` fits.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from epibias.corpus.passages import encoded_text
from epibias.data_sets import Question
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError, ValidityWarning
from epibias.polarization.axis import PolarizationAxis


def fitted_axis(question: Question, encoder: Encoder, method: str = "pca") -> PolarizationAxis:
    """Fit the axis of a question on its anchors, with their stances where they are known.

    Parameters
    ----------
    question : Question
        With at least two anchors.
    encoder : Encoder
    method : {"pca", "mean_difference", "ridge"}

    Returns
    -------
    PolarizationAxis

    Raises
    ------
    InputError
        Fewer than two anchors, or anchors that do not differ.
    """
    return fitted_axes([question], encoder, method)[0]


def fitted_axes(
    questions: Sequence[Question], encoder: Encoder, method: str = "pca"
) -> list[PolarizationAxis]:
    """Fit the axis of each question, and tell in one warning which may not carry stance.

    Parameters
    ----------
    questions : sequence of Question
        Each with at least two anchors.
    encoder : Encoder
    method : {"pca", "mean_difference", "ridge"}

    Returns
    -------
    list of PolarizationAxis

    Raises
    ------
    InputError
        Fewer than two anchors, or anchors that do not differ.

    Warns
    -----
    ValidityWarning
        If any axis may not carry stance: how many, the first three, and why the first.
    """
    axes = []
    doubts: dict[str, str] = {}
    for question in questions:
        where = f"question {question.id!r}"
        if len(question.anchors) < 2:
            expected = "at least two anchors, or an axis in axes"
            raise InputError("questions", expected, str(len(question.anchors)), where)
        texts = [encoded_text(one.title, one.text) for one in question.anchors]
        rows = encode_in_batches(encoder, texts, "passages")
        labels = None if question.stances is None else list(question.stances)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            axes.append(PolarizationAxis.fit(rows, labels=labels, method=method))
        for one in told:
            if issubclass(one.category, ValidityWarning):
                doubts[question.id] = str(one.message)
            else:
                warnings.warn(one.message, one.category, stacklevel=2)
    if doubts:
        names = ", ".join(map(repr, list(doubts)[:3])) + ", …" * (len(doubts) > 3)
        which = f"question {names}"
        if len(questions) > 1:
            which = f"{len(doubts)} of {len(questions)} questions ({names}); the first"
        message = f"{which}: {next(iter(doubts.values()))}"
        warnings.warn(message, ValidityWarning, stacklevel=2)
    return axes
