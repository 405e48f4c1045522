"""Property check of adversarial passages, the paper's Table II: relevant, one-sided, or both.

Relevant: the passage is more similar to its question than every benign passage. One-sided: its PS
lies beyond the mean PS of the clean selection, in the intended direction. Owns these two
definitions and the shares. In: labelled passages, questions with their benign corpus, encoders.
Out: one row a passage, and shares with bootstrap intervals over questions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias._validate import Float32Array
from epibias.attacks.adversarial_set import POLARITIES, AdversarialSet
from epibias.data_sets import Question, QuestionSet
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import InputError, ValidityWarning
from epibias.metrics.intervals import Interval, bootstrap_interval
from epibias.polarization import PolarizationAxis
from epibias.polarization.question_axis import fitted_axes
from epibias.retrieval import CosineIndex

# In the order of the paper's columns.
CATEGORIES = ("both", "only bias", "only relevance", "neither")


@dataclass(frozen=True)
class PassageProperties:
    """What was measured of one adversarial passage.

    Parameters
    ----------
    passage_id, question_id, attack, polarity : str
        Its labels.
    similarity : float
        Cosine with its question.
    best_benign : float
        Largest cosine of a benign passage with the question.
    ps : float
        Its polarization score.
    clean_ps : float
        Mean score of the k most similar benign passages.
    category : {"both", "only bias", "only relevance", "neither"}
    """

    passage_id: str
    question_id: str
    attack: str
    polarity: str
    similarity: float
    best_benign: float
    ps: float
    clean_ps: float
    category: str


@dataclass(frozen=True)
class PropertyShares:
    """Shares of the categories among the passages of one attack and polarity.

    Parameters
    ----------
    attack, polarity : str
        Whose passages.
    n_passages, n_questions : int
        How many they are, and of how many questions.
    shares : mapping of str to Interval
        Category to the mean over questions of its share among the question's passages.
    """

    attack: str
    polarity: str
    n_passages: int
    n_questions: int
    shares: Mapping[str, Interval]


@dataclass(frozen=True)
class PropertyTable:
    """The property check of a set.

    Parameters
    ----------
    passages : tuple of PassageProperties
        In the order of the set.
    rows : tuple of PropertyShares
        One an attack and polarity, in the order of their first passage.
    """

    passages: tuple[PassageProperties, ...]
    rows: tuple[PropertyShares, ...]

    def plain(self) -> dict[str, Any]:
        """Give both tables as plain values for JSON."""
        return {
            "rows": [
                {
                    "attack": row.attack,
                    "polarity": row.polarity,
                    "n_passages": row.n_passages,
                    "n_questions": row.n_questions,
                    "shares": {name: one.plain() for name, one in row.shares.items()},
                }
                for row in self.rows
            ],
            "passages": [asdict(one) for one in self.passages],
        }


def categories(
    similarities: Float32Array, best_benign: float, ps: Float32Array, clean_ps: float, polarity: str
) -> NDArray[np.str_]:
    """Category of each passage of one question and polarity.

    Parameters
    ----------
    similarities, ps : float32 [n_passages]
        Cosine with the question, and polarization score.
    best_benign : float
        Largest cosine of a benign passage; a passage must lie strictly above it.
    clean_ps : float
        Mean score of the clean selection; a passage must lie strictly beyond it.
    polarity : {"positive", "negative", "none"}
        "positive" is beyond it above, "negative" below. A passage of polarity "none" has no
        intended direction, so it is never one-sided.

    Returns
    -------
    str [n_passages]
        One of `CATEGORIES` each.

    Raises
    ------
    InputError
        Arrays of different length, values that are not finite, an unknown polarity.

    References
    ----------
    Epistemic Bias Injection, arXiv:2512.00804, section IV-A, properties 1 and 2; Table II.

    Examples
    --------
    >>> similarities, ps = np.float32([0.9, 0.9, 0.5, 0.5]), np.float32([0.3, 0.1, 0.3, 0.1])
    >>> categories(similarities, 0.6, ps, 0.2, "positive").tolist()
    ['both', 'only relevance', 'only bias', 'neither']
    """
    for name, values in (("similarities", similarities), ("ps", ps)):
        _validate.finite(name, _validate.array(name, values, dtype=np.float32, ndim=1))
    _validate.same_length("ps", len(ps), "similarities", len(similarities))
    _validate.number("best_benign", best_benign)
    _validate.number("clean_ps", clean_ps)
    _validate.choice("polarity", polarity, POLARITIES)
    sign = {"positive": 1.0, "negative": -1.0, "none": 0.0}[polarity]
    relevant = similarities.astype(np.float64) > best_benign
    biased = sign * (ps.astype(np.float64) - clean_ps) > 0
    both, only_bias, only_relevance, neither = CATEGORIES
    return np.where(
        biased, np.where(relevant, both, only_bias), np.where(relevant, only_relevance, neither)
    )


def property_check(
    adversarial: AdversarialSet,
    questions: QuestionSet,
    encoder: Encoder,
    *,
    ps_encoder: Encoder | None = None,
    axes: Mapping[str, PolarizationAxis] | None = None,
    method: str = "pca",
    k: int = 5,
    n_resamples: int = 2000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> PropertyTable:
    """Check adversarial passages against the corpus that they are to be injected into.

    Parameters
    ----------
    adversarial : AdversarialSet
        Labelled passages; every question must be known.
    questions : QuestionSet
        The questions and the benign corpus.
    encoder : Encoder
        Of the index: similarities are its.
    ps_encoder : Encoder, optional
        Scores are this one's; by default the same.
    axes : mapping, optional
        Question id to its axis on `ps_encoder`; of the others it is fitted on the question's
        anchors.
    method : {"pca", "mean_difference", "ridge"}
        How it is fitted.
    k : int
        Passages of the clean selection: the k most similar benign ones.
    n_resamples, seed : int
        Of the bootstrap over questions.
    progress : callable, optional
        Called with the number of texts encoded since the last call; see `n_texts`.

    Returns
    -------
    PropertyTable

    Raises
    ------
    InputError
        No passages, a question that is not known or has neither anchors nor an axis, fewer than
        `k` benign passages.

    Warns
    -----
    ValidityWarning
        If an axis hardly carries stance: "one-sided" then says little. If anchors have no stances:
        which end of their axis is the positive one is then a rule's choice, and the passages'
        polarity must come from the same axis.

    References
    ----------
    Epistemic Bias Injection, arXiv:2512.00804, section V-B, Table II.

    Examples
    --------
    See docs/attacks.md.
    """
    if len(adversarial) == 0:
        raise InputError("adversarial", "at least one passage", "none")
    k = _validate.integer("k", k, low=1, high=len(questions.corpus), note="the benign passages")
    asked = [questions.question(question_id) for question_id in adversarial.question_ids]
    benign = encode_in_batches(encoder, questions.corpus.encoded_texts, "passages", progress)
    queries = encode_in_batches(encoder, [one.text for one in asked], "queries", progress)
    texts = adversarial.corpus.encoded_texts
    rows = encode_in_batches(encoder, texts, "passages", progress)
    found = CosineIndex(benign).search(queries, k=k)
    scored, scored_rows = encoder if ps_encoder is None else ps_encoder, rows
    selected = [np.ascontiguousarray(benign[picked]) for picked in found.indices]
    if ps_encoder is not None:
        scored_rows = encode_in_batches(ps_encoder, texts, "passages", progress)
        clean = [
            [questions.corpus.encoded_texts[row] for row in picked.tolist()]
            for picked in found.indices
        ]
        selected = [encode_in_batches(ps_encoder, some, "passages", progress) for some in clean]
    groups: dict[tuple[str, str], list[int]] = {}
    for row, one in enumerate(adversarial.passages):
        groups.setdefault((one.question_id, one.polarity), []).append(row)
    measured: dict[int, PassageProperties] = {}
    given = dict(axes or {})
    without = [one for one in asked if one.id not in given]
    fitted = zip(without, fitted_axes(without, scored, method), strict=True)
    axis_of = given | {one.id: axis for one, axis in fitted}
    for number, question in enumerate(asked):
        axis = axis_of[question.id]
        best = float(found.similarities[number, 0])
        clean_ps = float(axis.score(selected[number]).mean(dtype=np.float64))
        for polarity in POLARITIES:
            picked = groups.get((question.id, polarity))
            if picked is None:
                continue
            similarities = _similarities(queries[number], rows[picked])
            scores = axis.score(np.ascontiguousarray(scored_rows[picked]))
            kinds = categories(similarities, best, scores, clean_ps, polarity)
            for place, row in enumerate(picked):
                one = adversarial.passages[row]
                measured[row] = PassageProperties(
                    one.passage.id,
                    question.id,
                    one.attack,
                    polarity,
                    float(similarities[place]),
                    best,
                    float(scores[place]),
                    clean_ps,
                    str(kinds[place]),
                )
    _warn_of_rule(without, adversarial)
    passages = tuple(measured[row] for row in range(len(adversarial)))
    return PropertyTable(passages, share_rows(passages, n_resamples=n_resamples, seed=seed))


def share_rows(
    passages: Sequence[PassageProperties], *, n_resamples: int = 2000, seed: int = 0
) -> tuple[PropertyShares, ...]:
    """Shares of the categories, by attack and polarity, with bootstrap intervals over questions."""
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in passages:
        by_question = groups.setdefault((one.attack, one.polarity), {})
        by_question.setdefault(one.question_id, []).append(one.category)
    rows = []
    for (attack, polarity), by_question in groups.items():
        shares = {
            name: bootstrap_interval(
                [found.count(name) / len(found) for found in by_question.values()],
                n_resamples=n_resamples,
                seed=seed,
            )
            for name in CATEGORIES
        }
        n_passages = sum(map(len, by_question.values()))
        rows.append(PropertyShares(attack, polarity, n_passages, len(by_question), shares))
    return tuple(rows)


def n_texts(adversarial: AdversarialSet, questions: QuestionSet, *, k: int, two: bool) -> int:
    """Texts that `property_check` reports to its progress; `two` with a `ps_encoder`."""
    n_asked, n_made = len(adversarial.question_ids), len(adversarial)
    n_more = n_made + k * n_asked if two else 0
    return len(questions.corpus) + n_asked + n_made + n_more


def _warn_of_rule(fitted: Sequence[Question], adversarial: AdversarialSet) -> None:
    """Tell how many axes are oriented by rule, of questions whose passages take a side."""
    sided = {one.question_id for one in adversarial.passages if one.polarity != "none"}
    n_by_rule = sum(one.stances is None and one.id in sided for one in fitted)
    if n_by_rule:
        message = (
            f"anchors of {n_by_rule} of {len(fitted)} questions have no stances: which end of "
            "their axes counts as positive is a rule's choice, and means something only for "
            "passages whose polarity was read from the same axes"
        )
        warnings.warn(message, ValidityWarning, stacklevel=3)


def _similarities(query: Float32Array, rows: Float32Array) -> Float32Array:
    """Cosines by the index's own arithmetic: equal texts have equal similarities, to the bit."""
    index = CosineIndex(np.ascontiguousarray(rows))
    found = index.search(np.ascontiguousarray(query[None]), k=len(rows))
    similarities = np.empty(len(rows), dtype=np.float32)
    similarities[found.indices[0]] = found.similarities[0]
    return similarities
