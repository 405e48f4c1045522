"""Stances of texts that nobody labelled, by an NLI model; and an axis that is fitted on them.

In: texts, and short statements of both sides of a question. Out: one stance a text, from what its
sentences entail and contradict; `axis_from_nli` regresses these on the texts' embeddings, so that
a model that reads pairs is asked once, when the axis is made, and scores cost one projection.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array, Float64Array
from epibias.corpus.sentences import sentences
from epibias.errors import InputError
from epibias.nli.base import CONTRADICTION, ENTAILMENT, NLI
from epibias.polarization.axis import PolarizationAxis

MOST_SENTENCES = 4  # of a text, its first: one call of the model each and statement


def nli_stances(
    nli: NLI,
    texts: Sequence[str],
    supporting: Sequence[str],
    opposing: Sequence[str] = (),
    *,
    most_sentences: int = MOST_SENTENCES,
) -> Float64Array:
    """Judge on which side of a question each text stands.

    A sentence speaks for a statement as far as it entails it, against it as far as it contradicts
    it: e = P(entailment) − P(contradiction), averaged over the statements of a side. Its stance is
    e of the supporting side less e of the opposing one, halved; with one side alone, that side's
    e. A text has the mean of its sentences.

    Parameters
    ----------
    nli : NLI
        Asked once for each sentence and statement; `CachedNLI` keeps the answers.
    texts : sequence of str
        Premises; none is blank.
    supporting, opposing : sequence of str
        Statements of both sides, as hypotheses: sentences that claim something, no questions. One
        of the two may be empty.
    most_sentences : int
        At most so many sentences of a text, the first.

    Returns
    -------
    float64 [n_texts]
        In [−1, 1]; above 0 supports.

    Raises
    ------
    InputError
        No statement at all, a blank text or statement, one text in place of a list.

    Examples
    --------
    >>> from epibias.nli import FixedNLI
    >>> def judge(premise, hypothesis):
    ...     same = ("not" in premise) == ("not" in hypothesis)
    ...     return (0.8, 0.1, 0.1) if same else (0.1, 0.1, 0.8)
    >>> texts = ["It helps. It pays.", "It does not help."]
    >>> nli_stances(FixedNLI(judge), texts, ["It is good."], ["It is not good."]).round(2)
    array([ 0.7, -0.7])
    """
    sides = [_statements("supporting", supporting), _statements("opposing", opposing)]
    if not any(sides):
        raise InputError("supporting", "at least one statement of a side", "none of either")
    most_sentences = _validate.integer("most_sentences", most_sentences, low=1)
    if isinstance(texts, str):
        raise InputError("texts", "a sequence of texts", "one text")
    parts = [
        sentences(_validate.text("texts", text, f"row {row}"))[:most_sentences]
        for row, text in enumerate(texts)
    ]
    if not parts:
        return np.empty(0)
    read = [sentence for part in parts for sentence in part]
    statements = [statement for side in sides for statement in side]
    judged = nli.probabilities(
        [sentence for sentence in read for _ in statements], statements * len(read)
    ).astype(np.float64)
    for_it = (judged[:, ENTAILMENT] - judged[:, CONTRADICTION]).reshape(len(read), len(statements))
    n_supporting = len(sides[0])
    signs = np.where(np.arange(len(statements)) < n_supporting, 1.0, -1.0)
    counts = np.where(signs > 0, len(sides[0]), len(sides[1]))
    of_sentence = for_it @ (signs / counts) / sum(bool(side) for side in sides)
    starts = np.cumsum([0, *(len(part) for part in parts)])
    stances: Float64Array = np.add.reduceat(of_sentence, starts[:-1]) / np.diff(starts)
    return stances


def axis_from_nli(
    nli: NLI,
    texts: Sequence[str],
    embeddings: Float32Array,
    supporting: Sequence[str],
    opposing: Sequence[str] = (),
    *,
    penalty: float = 1.0,
    most_sentences: int = MOST_SENTENCES,
) -> PolarizationAxis:
    """Fit the axis of a question on its own unlabelled texts, their stances judged by a model.

    A ridge regression of `nli_stances`, less their median: where the model hears every text on one
    side, it is still told which are further there.

    Parameters
    ----------
    nli, texts, supporting, opposing, most_sentences
        As in `nli_stances`; at least two texts.
    embeddings : float32 [n_texts, dim]
        Of the texts, by the encoder whose embeddings will be scored.
    penalty : float
        Of the ridge regression.

    Returns
    -------
    PolarizationAxis
        Method "ridge". Its `validity` says how far the embeddings of left-out texts tell what the
        model heard in them; it cannot say whether the model heard right.

    Raises
    ------
    InputError
        As `nli_stances` and `PolarizationAxis.fit`; stances that do not differ.

    Warns
    -----
    ValidityWarning
        As `PolarizationAxis.fit`.

    Examples
    --------
    >>> from epibias.nli import FixedNLI
    >>> nli = FixedNLI(lambda premise, hypothesis: (0, 0, 1) if "not" in premise else (1, 0, 0))
    >>> texts = ["It helps.", "It pays.", "It does not help.", "It will not pay."]
    >>> rows = np.array([[1, 1, 0], [1, 1, 0.1], [1, -1, 0], [1, -1, 0.1]], np.float32)
    >>> axis = axis_from_nli(nli, texts, rows, ["It is good."])
    >>> bool(axis.axis[1] > 0.99), axis.validity > 0.8
    (True, True)
    """
    _validate.array("embeddings", embeddings, dtype=np.float32, ndim=2)
    if not isinstance(texts, str):
        _validate.same_length("embeddings", len(embeddings), "texts", len(texts))
    stances = nli_stances(nli, texts, supporting, opposing, most_sentences=most_sentences)
    if not len(stances) or np.ptp(stances) == 0:
        raise InputError("texts", "texts of different stances", f"{len(stances)} of one stance")
    labels = stances - np.median(stances)
    if not labels.min() < 0 < labels.max():  # more than half are equal, and at one end
        labels = stances - stances.mean()
    return PolarizationAxis.fit(embeddings, labels, "ridge", penalty=penalty)


def _statements(argument: str, given: Sequence[str]) -> list[str]:
    if isinstance(given, str):
        raise InputError(argument, "a list of statements", "one string")
    return [_validate.text(argument, one, f"row {row}") for row, one in enumerate(given)]
