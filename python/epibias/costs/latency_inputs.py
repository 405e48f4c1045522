"""What latency is measured on: passages, queries and axes, from texts, vectors, or synthetic.

Vectors stand in where there is no encoder: the time of every stage but the first depends on sizes
and hardly on what the vectors mean.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epibias._validate import Float32Array, Int64Array
from epibias.costs.embeddings import opened_embeddings
from epibias.costs.stages import Batch
from epibias.costs.synthetic import SyntheticRows, queries_near
from epibias.data_sets import DebateTopic, load_debates
from epibias.encoder import Encoder, encode_in_batches
from epibias.errors import ValidityWarning
from epibias.experiment.listener import Listener
from epibias.polarization import PolarizationAxis

N_QUERIES = 1024  # distinct ones, where they are made
N_ANCHORS = 8


@dataclass(frozen=True, eq=False)
class LatencyInputs:
    """A corpus with queries.

    Parameters
    ----------
    corpus : str
        What it is, for people.
    passages : float32 [n_passages, dim]
    queries : float32 [n_queries, dim]
    axis : PolarizationAxis
        One, or one a topic.
    axis_of_query : int64 [n_queries]
    texts : tuple of str
        What is given to the encoder: the questions of the debates.
    """

    corpus: str
    passages: Float32Array
    queries: Float32Array
    axis: PolarizationAxis
    axis_of_query: Int64Array
    texts: tuple[str, ...]

    def batch(self, size: int, first: int = 0) -> Batch:
        """Take `size` queries from number `first` on, from the start again after the last.

        Texts that come round again are numbered: an encoder gives equal texts one row.
        """
        rows = (first + np.arange(size)) % len(self.queries)
        texts = []
        for number in range(first, first + size):
            lap, place = divmod(number, len(self.texts))
            texts.append(self.texts[place] + (f" ({lap})" if lap else ""))
        queries = np.ascontiguousarray(self.queries[rows])
        return Batch(texts, queries, self.axis_of_query[rows])


def debate_inputs(
    encoder: Encoder | None, dim: int, seed: int, listener: Listener
) -> LatencyInputs:
    """Benign passages and questions of the shipped debates; synthetic vectors without an encoder.

    Parameters
    ----------
    encoder : Encoder or None
    dim, seed : int
        Of the vectors that stand in.
    listener : Listener
    """
    topics = load_debates()
    n_benign = sum(len(topic.benign) for topic in topics)
    if encoder is None:
        rows = SyntheticRows(seed, dim).rows(n_benign)
        return vector_inputs("synthetic vectors in place of the debates' passages", rows, seed)
    texts = [passage.text for topic in topics for passage in topic.benign]
    anchors = [anchor.text for topic in topics for anchor in topic.anchors]
    questions = [topic.query for topic in topics]
    listener.start("encoding the debates", len(texts) + len(anchors) + len(questions))
    passages = encode_in_batches(encoder, texts, "passages", listener.advance)
    anchor_rows = encode_in_batches(encoder, anchors, "passages", listener.advance)
    queries = encode_in_batches(encoder, questions, "queries", listener.advance)
    return LatencyInputs(
        "benign passages of the shipped debates",
        passages,
        queries,
        _axis_of_topics(topics, anchor_rows),
        np.arange(len(topics)),
        tuple(questions),
    )


def vector_inputs(corpus: str, passages: Float32Array, seed: int) -> LatencyInputs:
    """Make queries near the passages, and an axis of no meaning."""
    return LatencyInputs(
        corpus,
        passages,
        queries_near(passages, N_QUERIES, seed),
        _any_axis(passages.shape[1], seed),
        np.zeros(N_QUERIES, np.int64),
        tuple(topic.query for topic in load_debates()),
    )


def synthetic_inputs(n_passages: int, dim: int, seed: int) -> LatencyInputs:
    """Make passages too.

    Examples
    --------
    >>> synthetic_inputs(100, 8, seed=0).batch(3).queries.shape
    (3, 8)
    """
    rows = SyntheticRows(seed, dim).rows(n_passages)
    return vector_inputs("synthetic passages", rows, seed)


def file_inputs(path: Path, seed: int) -> LatencyInputs:
    """Take the passages from a .npy file, memory-mapped."""
    return vector_inputs(f"{path.name}, memory-mapped", opened_embeddings(path), seed)


def _axis_of_topics(topics: list[DebateTopic], anchors: Float32Array) -> PolarizationAxis:
    ends = np.cumsum([len(topic.anchors) for topic in topics])[:-1]
    parts = [np.ascontiguousarray(part) for part in np.split(anchors, ends)]
    with warnings.catch_warnings():  # what the axis hears does not matter here
        warnings.simplefilter("ignore", ValidityWarning)
        return PolarizationAxis.fit(parts, [list(topic.stances) for topic in topics])


def _any_axis(dim: int, seed: int) -> PolarizationAxis:
    anchors = np.random.default_rng([seed, dim]).standard_normal((N_ANCHORS, dim), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        return PolarizationAxis.fit(anchors)
