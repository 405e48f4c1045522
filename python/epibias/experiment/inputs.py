"""What a run works on: the debates, encoded once.

Owns the join of texts, ids and embeddings. In: topics and an encoder. Out: arrays and corpora that
`axes` and `measure` only read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from epibias._validate import Float32Array
from epibias.corpus import Corpus, Passage
from epibias.data_sets import DebateTopic
from epibias.encoder import Encoder, encode_in_batches
from epibias.experiment.plan import POLARITIES

Progress = Callable[[int], None]


@dataclass(frozen=True, eq=False)
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

    def __repr__(self) -> str:
        n_topics, dim = self.queries.shape
        return f"ExperimentInputs({n_topics} topics, {len(self.benign)} benign passages, dim={dim})"


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
