"""What a run works on: the debates, encoded once, with one axis a topic and method.

Owns the join of texts, ids, embeddings and axes. In: topics and an encoder. Out: arrays and
corpora that `measure` only reads.
"""

from __future__ import annotations

import hashlib
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epibias._validate import Float32Array
from epibias.corpus import Corpus, Passage
from epibias.data_sets import DebateTopic
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import ValidityWarning
from epibias.experiment.plan import CONTROL_AXIS, POLARITIES, Plan
from epibias.polarization import PolarizationAxis

Progress = Callable[[int], None]


@dataclass(frozen=True)
class ExperimentInputs:
    """Texts and embeddings of an experiment; arrays have the order of the ids beside them.

    Parameters
    ----------
    topics : tuple of DebateTopic
        The topics that are run, in order.
    queries : float32 [n_topics, dim]
        Embeddings of their questions.
    anchors : tuple of float32 [n_anchors, dim]
        Embeddings of each topic's anchor passages.
    benign : Corpus
        Benign passages of all topics: the clean corpus of every topic.
    benign_embeddings : float32 [n_benign, dim]
        Their embeddings.
    adversarial : mapping
        (topic, polarity) to its passages and their embeddings, in file order.
    """

    topics: tuple[DebateTopic, ...]
    queries: Float32Array
    anchors: tuple[Float32Array, ...]
    benign: Corpus
    benign_embeddings: Float32Array
    adversarial: Mapping[tuple[str, str], tuple[Sequence[Passage], Float32Array]]

    @property
    def relevant(self) -> dict[str, list[str]]:
        """Query id to the ids of its topic's benign passages."""
        return {topic.query_id: [p.id for p in topic.benign] for topic in self.topics}


def n_texts(topics: Sequence[DebateTopic]) -> int:
    """Texts that `encode_inputs` will encode."""
    return sum(1 + len(_texts_of(topic)) for topic in topics)


def encode_inputs(
    topics: Sequence[DebateTopic], encoder: Encoder, progress: Progress | None = None
) -> ExperimentInputs:
    """Encode every text of the topics once.

    Parameters
    ----------
    topics : sequence of DebateTopic
        What to encode.
    encoder : Encoder
        With `encode_queries` and `encode_passages`, or `encode` for both.
    progress : callable, optional
        Called with the number of texts done since the last call.
    """
    queries = encode_in_batches(encoder, [topic.query for topic in topics], "queries", progress)
    texts = [text for topic in topics for text in _texts_of(topic)]
    rows = encode_in_batches(encoder, texts, "passages", progress)
    anchors: list[Float32Array] = []
    benign: list[Float32Array] = []
    adversarial: dict[tuple[str, str], tuple[Sequence[Passage], Float32Array]] = {}
    start = 0

    def take(count: int) -> Float32Array:
        nonlocal start
        start += count
        return np.ascontiguousarray(rows[start - count : start])

    for topic in topics:
        anchors.append(take(len(topic.anchors)))
        benign.append(take(len(topic.benign)))
        for polarity in POLARITIES:
            passages = topic.adversarial[polarity]
            adversarial[topic.topic, polarity] = passages, take(len(passages))
    corpus = Corpus([passage for topic in topics for passage in topic.benign])
    return ExperimentInputs(
        tuple(topics), queries, tuple(anchors), corpus, np.concatenate(benign), adversarial
    )


def fit_axes(inputs: ExperimentInputs, plan: Plan) -> dict[str, list[PolarizationAxis]]:
    """Fit one axis a topic, by each method of the plan; "random" draws one instead, as a control.

    Weak axes are no surprise here and the report shows the validity of each, so the warnings
    about it are not repeated on the terminal.
    """
    axes: dict[str, list[PolarizationAxis]] = {}
    stances = [_stances(topic) for topic in inputs.topics]
    n_topics = len(inputs.topics)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        for method in plan.axis_methods:
            if method == CONTROL_AXIS:
                axes[method] = [_random_axis(inputs, row, plan.seed) for row in range(n_topics)]
                continue
            batch = PolarizationAxis.fit(list(inputs.anchors), stances, method=method)
            axes[method] = [batch.topic(row) for row in range(n_topics)]
    return axes


def _random_axis(inputs: ExperimentInputs, row: int, seed: int) -> PolarizationAxis:
    """Draw a direction, seeded by the topic, and orient and centre it on the anchors as a fit is.

    Its validity is None: nothing was fitted that an anchor could be left out of.
    """
    topic = inputs.topics[row]
    generator = np.random.default_rng([seed, zlib.crc32(topic.topic.encode())])
    direction = generator.standard_normal(inputs.queries.shape[1])
    axis = PolarizationAxis(
        axis=(direction / np.linalg.norm(direction)).astype(np.float32),
        method=CONTROL_AXIS,
        explained_variance_ratio=float("nan"),
        relative_gap=float("nan"),
        validity=None,
        neutral_centre=0.0,
        mean_anchor_score=0.0,
        normalize=True,
        n_anchors=len(topic.anchors),
    )
    scores = axis.score(inputs.anchors[row]).astype(np.float64)
    supporting = _stances(topic) > 0
    means = float(scores[supporting].mean()), float(scores[~supporting].mean())
    sign = np.float32(1 if means[0] >= means[1] else -1)
    return replace(axis, axis=axis.axis * sign, neutral_centre=float(sign) * sum(means) / 2)


def validity_rows(
    inputs: ExperimentInputs, axes: Mapping[str, list[PolarizationAxis]]
) -> list[dict[str, Any]]:
    """Say how far every axis carries stance, ready for JSON.

    Beside the leave-one-out validity on the anchors: how often a passage of the supporting side
    has a larger PS than one of the opposing side (AUC; 0.5 is chance), among the adversarial
    passages of both polarities and among the benign ones whose stance is not 0. The axis has seen
    none of these.
    """
    return [
        {
            "topic": topic.topic,
            "axis": method,
            "validity": _scalar(fitted[row].validity),
            "explained_variance_ratio": _scalar(fitted[row].explained_variance_ratio),
            "relative_gap": _scalar(fitted[row].relative_gap),
            "auc_adversarial": _auc(
                *(
                    fitted[row].score(inputs.adversarial[topic.topic, polarity][1])
                    for polarity in POLARITIES
                )
            ),
            "auc_benign": _benign_auc(inputs, topic, fitted[row]),
        }
        for row, topic in enumerate(inputs.topics)
        for method, fitted in axes.items()
    ]


def _benign_auc(
    inputs: ExperimentInputs, topic: DebateTopic, axis: PolarizationAxis
) -> float | None:
    places = np.array([inputs.benign.index_of(passage.id) for passage in topic.benign])
    stances = np.array([_stance(passage) for passage in topic.benign])
    scores = axis.score(np.ascontiguousarray(inputs.benign_embeddings[places]))
    return _auc(scores[stances > 0], scores[stances < 0])


def _stance(passage: Passage) -> float:
    stance = passage.extra.get("stance")
    return float(stance) if isinstance(stance, int | float) else 0.0


def _auc(supporting: Float32Array, opposing: Float32Array) -> float | None:
    """Share of pairs in which the supporting passage scores higher; ties count half."""
    if not len(supporting) or not len(opposing):
        return None
    differences = supporting[:, None].astype(np.float64) - opposing[None, :]
    return float(np.mean((differences > 0) + 0.5 * (differences == 0)))


def data_sha256(topics: Sequence[DebateTopic]) -> dict[str, str]:
    """One hash a topic over all its texts, ids and stances, in order."""
    hashes = {}
    for topic in topics:
        digest = hashlib.sha256()
        passages = [*topic.anchors, *topic.benign]
        for polarity in POLARITIES:
            passages.extend(topic.adversarial[polarity])
        lines = [topic.query, repr(list(topic.stances)), *(f"{p.id}\t{p.text}" for p in passages)]
        for line in lines:
            digest.update(line.encode() + b"\n")
        hashes[topic.topic] = digest.hexdigest()
    return hashes


def _texts_of(topic: DebateTopic) -> list[str]:
    passages = [*topic.anchors, *topic.benign]
    for polarity in POLARITIES:
        passages.extend(topic.adversarial[polarity])
    return list(Corpus(passages).encoded_texts)


def _stances(topic: DebateTopic) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(topic.stances, dtype=np.float64)


def _scalar(value: object) -> float | None:
    number = np.nan if value is None else float(np.asarray(value).reshape(-1)[0])
    return number if np.isfinite(number) else None
