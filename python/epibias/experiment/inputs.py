"""What a run works on: a clean corpus encoded once, and some of the questions asked of it.

Owns the join of texts, ids and embeddings. In: a question set and encoders. Out: arrays and
corpora that `axes` and `measure` only read. The corpus is in memory once; questions come in
groups, so that what is held of them does not grow with the set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epibias._validate import Float32Array
from epibias.corpus import Corpus, Passage
from epibias.data_sets import DebateTopic, Question
from epibias.encoder import Encoder, encode_in_batches
from epibias.experiment.plan import OWN_PASSAGES, POLARITIES
from epibias.retrieval import CosineIndex

Progress = Callable[[int], None]
# (question id, source of the passages, polarity) to the passages that an attacker has there.
InjectedPassages = Mapping[tuple[str, str, str], Sequence[Passage]]


@dataclass(frozen=True, eq=False)
class EncodedCorpus:
    """The clean corpus of a question set, ready to be searched.

    Parameters
    ----------
    name : str
        Of the question set.
    encoder : str
        Name of the encoder, for the rows.
    corpus : Corpus
        Benign passages.
    index : CosineIndex
        Of their retrieval embeddings.
    ps_embeddings : float32 [n_passages, ps_dim]
        Of the encoder that the axes are fitted with; the retrieval embeddings where there is one
        encoder only.
    has_ps_encoder : bool
        Whether there is a second encoder.
    """

    name: str
    encoder: str
    corpus: Corpus
    index: CosineIndex
    ps_embeddings: Float32Array
    has_ps_encoder: bool = False

    def __repr__(self) -> str:
        return f"EncodedCorpus({self.name!r}, {len(self.corpus)} passages, dim={self.index.dim})"


@dataclass(frozen=True, eq=False)
class Injectable:
    """Adversarial passages of one question, source and polarity, in file order.

    Parameters
    ----------
    passages : sequence of Passage
    embeddings, ps_embeddings : float32 [n, dim], [n, ps_dim]
        The same array where there is one encoder.
    """

    passages: Sequence[Passage]
    embeddings: Float32Array = field(repr=False)
    ps_embeddings: Float32Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class ExperimentInputs:
    """Texts and embeddings of some questions; arrays have the order of the questions.

    Parameters
    ----------
    clean : EncodedCorpus
        What they are asked of.
    questions : tuple of Question
        Those that are run, in order.
    relevant : mapping
        Question id to the ids of its relevant passages.
    queries : float32 [n_questions, dim]
        Retrieval embeddings of the questions.
    anchors : tuple of float32 [n_anchors, ps_dim]
        PS embeddings of each question's anchor passages; no rows where it has none.
    injectable : mapping
        (question id, source, polarity) to what an attacker can inject.
    """

    clean: EncodedCorpus
    questions: tuple[Question, ...]
    relevant: Mapping[str, tuple[str, ...]]
    queries: Float32Array
    anchors: tuple[Float32Array, ...]
    injectable: Mapping[tuple[str, str, str], Injectable]

    def __repr__(self) -> str:
        n_questions, dim = self.queries.shape
        n_benign = len(self.clean.corpus)
        return f"ExperimentInputs({n_questions} questions, {n_benign} passages, dim={dim})"


def n_texts(questions: Sequence[Question], corpus: Corpus, injected: InjectedPassages) -> int:
    """Texts that are encoded for these questions and this corpus by one encoder."""
    of_questions = sum(1 + len(question.anchors) for question in questions)
    return of_questions + len(corpus) + sum(map(len, injected.values()))


def own_passages(questions: Iterable[Question]) -> InjectedPassages:
    """Give the adversarial passages that come with the questions."""
    return {
        (question.id, OWN_PASSAGES, polarity): question.adversarial.get(polarity, ())
        for question in questions
        for polarity in POLARITIES
    }


def encode_corpus(
    name: str,
    corpus: Corpus,
    encoder: Encoder,
    ps_encoder: Encoder | None = None,
    *,
    encoder_name: str = "",
    progress: Progress | None = None,
) -> EncodedCorpus:
    """Encode the clean corpus by one encoder, or by two.

    Parameters
    ----------
    name : str
        Of the question set.
    corpus : Corpus
    encoder : Encoder
        Retrieves; with `encode_queries` and `encode_passages`, or `encode` for both.
    ps_encoder : Encoder, optional
        The axes are fitted and passages scored with it.
    encoder_name : str
        For the rows.
    progress : callable, optional
        Called with the number of texts done since the last call.
    """
    texts = corpus.encoded_texts
    embeddings = encode_in_batches(encoder, texts, "passages", progress)
    ps_embeddings = embeddings
    if ps_encoder is not None:
        ps_embeddings = encode_in_batches(ps_encoder, texts, "passages", progress)
    index = CosineIndex(embeddings)
    return EncodedCorpus(name, encoder_name, corpus, index, ps_embeddings, ps_encoder is not None)


def encode_questions(
    clean: EncodedCorpus,
    questions: Sequence[Question],
    relevant: Mapping[str, tuple[str, ...]],
    injected: InjectedPassages,
    encoder: Encoder,
    ps_encoder: Encoder | None = None,
    *,
    progress: Progress | None = None,
) -> ExperimentInputs:
    """Encode what belongs to some questions: their texts, anchors and adversarial passages.

    Parameters
    ----------
    clean : EncodedCorpus
        Made by the same encoders.
    questions : sequence of Question
        At least one.
    relevant : mapping
        Question id to the ids of its relevant passages.
    injected : mapping
        What an attacker has; see `InjectedPassages`.
    encoder, ps_encoder : Encoder
        As in `encode_corpus`.
    progress : callable, optional
        Called with the number of texts done since the last call.
    """
    queries = encode_in_batches(encoder, [one.text for one in questions], "queries", progress)
    scorer = encoder if ps_encoder is None else ps_encoder
    anchors = _encode_groups(scorer, [one.anchors for one in questions], progress)
    groups = list(injected.values())
    embeddings = _encode_groups(encoder, groups, progress)
    ps_embeddings = embeddings
    if ps_encoder is not None:
        ps_embeddings = _encode_groups(ps_encoder, groups, progress)
    found = zip(injected, groups, embeddings, ps_embeddings, strict=True)
    return ExperimentInputs(
        clean,
        tuple(questions),
        relevant,
        queries,
        tuple(anchors),
        {key: Injectable(passages, rows, ps_rows) for key, passages, rows, ps_rows in found},
    )


def questions_of(topics: Sequence[DebateTopic]) -> tuple[Question, ...]:
    """Give debates as questions.

    Examples
    --------
    >>> from epibias.data_sets import load_debates
    >>> questions_of(load_debates())[0].topic
    'basicincome'
    """
    return tuple(
        Question(
            topic.query_id,
            topic.query,
            topic.topic,
            topic.anchors,
            tuple(float(stance) for stance in topic.stances),
            adversarial=topic.adversarial,
        )
        for topic in topics
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


def _encode_groups(
    encoder: Encoder, groups: Sequence[Sequence[Passage]], progress: Progress | None
) -> list[Float32Array]:
    """Encode passages group by group, in one call; a group without passages has no rows."""
    texts = [text for group in groups for text in Corpus(group).encoded_texts]
    if not texts:
        return [np.empty((0, 0), np.float32) for _ in groups]
    rows = encode_in_batches(encoder, texts, "passages", progress)
    ends = np.cumsum([len(group) for group in groups])
    return [np.ascontiguousarray(part) for part in np.split(rows, ends[:-1])]
