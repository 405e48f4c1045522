"""The axis of a question: its anchors in, a fitted axis out.

Owns which texts of a question an axis is fitted on: its anchors as an index encodes them, title and
text, with their stances where they are known. `axis` fits.
"""

from __future__ import annotations

import warnings

from epibias.corpus.passages import encoded_text
from epibias.data_sets import Question
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError
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
    where = f"question {question.id!r}"
    if len(question.anchors) < 2:
        expected = "at least two anchors, or an axis in axes"
        raise InputError("questions", expected, str(len(question.anchors)), where)
    texts = [encoded_text(one.title, one.text) for one in question.anchors]
    rows = encode_in_batches(encoder, texts, "passages")
    labels = None if question.stances is None else list(question.stances)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        axis = PolarizationAxis.fit(rows, labels=labels, method=method)
    for one in told:  # of many questions, which?
        warnings.warn(f"{where}: {one.message}", one.category, stacklevel=2)
    return axis
