"""Trigger passages: words found on the attacker's own encoder, in front of an adversarial text.

The class of AgentPoison and BadRAG, without gradients: a `token_search` whose objective is how
close the passage lies to the target questions, less how close it lies to others (BadRAG's
contrast), or how close it lies to the questions once they carry the trigger, too (AgentPoison).
Owns the objective and the passages; bounded by `SearchSettings.max_evaluations`. For the evaluation
of an index you own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from epibias import _validate
from epibias._validate import Float64Array
from epibias.attacks.adversarial_set import POLARITIES, AdversarialPassage, AdversarialSet
from epibias.attacks.embedding import cosines, digest, embedded, identity_of, unit
from epibias.attacks.ownership import confirm
from epibias.attacks.question_copies import texts_of
from epibias.attacks.token_search import SearchSettings, TokenSearch, search_tokens
from epibias.corpus import Passage
from epibias.corpus.columns import check_id
from epibias.encoder import Encoder
from epibias.errors import InputError

ATTACK = "trigger"
MODES = ("badrag", "agentpoison")
_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True, eq=False)
class TriggerOutcome:
    """Trigger passages, and the search that found their trigger.

    Parameters
    ----------
    adversarial : AdversarialSet
        One passage a text.
    search : TokenSearch
        With the objective of every evaluation.
    """

    adversarial: AdversarialSet
    search: TokenSearch

    @property
    def trigger(self) -> str:
        """The words, with blanks between."""
        return " ".join(self.search.words)


def trigger(
    question_id: str,
    questions: Sequence[str],
    texts: Sequence[Passage],
    polarity: str,
    encoder: Encoder,
    *,
    vocabulary: Sequence[str] | None = None,
    other_questions: Sequence[str] = (),
    contrast: float = 0.5,
    mode: str = "badrag",
    n_search_texts: int = 1,
    settings: SearchSettings | None = None,
    i_own_this_index: bool = False,
    progress: Callable[[int], None] | None = None,
) -> TriggerOutcome:
    """Make trigger passages: words that pull them towards the questions, then a text.

    Parameters
    ----------
    question_id : str
        Starts the ids of the passages.
    questions : sequence of str
        The target questions: one, or several ways to ask it.
    texts : sequence of Passage
        What follows the trigger; titles are left out.
    polarity : {"positive", "negative", "none"}
        Side that the texts take.
    encoder : Encoder
        The attacker's own. Not cached on disk, if that can be chosen: most texts are tried once.
    vocabulary : sequence of str, optional
        Words to choose from; by default `words_of` the questions, the other questions and texts.
    other_questions : sequence of str
        Questions that the passages are not to answer ("badrag").
    contrast : float
        Weight of the mean cosine with the other questions, which is subtracted.
    mode : {"badrag", "agentpoison"}
        Objective: "badrag", mean cosine of passages and questions less the contrast; "agentpoison",
        mean cosine of the passages with the questions that carry the trigger at their end, less the
        contrast to the questions without it: the passage is to be found by whoever says the words.
    n_search_texts : int
        Texts that the objective looks at, the first so many; the trigger is used for all.
    settings : SearchSettings, optional
        Each evaluation encodes `n_search_texts` texts, and in "agentpoison" the questions besides.
    i_own_this_index : bool
        True, or nothing is made.
    progress : callable, optional
        Called with the number of evaluations since the last call.

    Returns
    -------
    TriggerOutcome

    Raises
    ------
    InputError
        A wrong argument; `i_own_this_index` that is not True.

    References
    ----------
    Chen et al., AgentPoison: Red-teaming LLM Agents via Poisoning Memory or Knowledge Bases,
    arXiv:2407.12784. Xue et al., BadRAG: Identifying Vulnerabilities in Retrieval Augmented
    Generation of Large Language Models, arXiv:2406.00083.

    Examples
    --------
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[t.count("a"), t.count("b"), 1] for t in texts], np.float32)
    >>> made = trigger(
    ...     "q1", ["aaa?"], [Passage("a1", "bbb")], "none", Letters(), vocabulary=["a", "b", "c"],
    ...     settings=SearchSettings(length=2, seed=1), i_own_this_index=True,
    ... )
    >>> made.adversarial.passages[0].passage.text, made.search.best[0] < made.search.objective
    ('a a bbb', np.True_)
    """
    confirm(i_own_this_index)
    check_id("question_id", question_id, None)  # before the search, which takes long
    given = texts_of(texts)
    if isinstance(questions, str) or not questions:
        raise InputError("questions", "a sequence of at least one text", repr(questions)[:40])
    for argument, several in (("vocabulary", vocabulary), ("other_questions", other_questions)):
        if isinstance(several, str):  # a sequence of letters, as Python sees it
            raise InputError(argument, "a sequence of texts", repr(several)[:40])
    _validate.choice("polarity", polarity, POLARITIES)
    _validate.choice("mode", mode, MODES)
    contrast = _validate.number("contrast", contrast, low=0.0)
    n_searched = min(_validate.integer("n_search_texts", n_search_texts, low=1), len(given))
    settings = SearchSettings() if settings is None else settings
    if vocabulary is None:
        vocabulary = words_of([*questions, *other_questions, *(one.text for one in given)])
    objective = _Objective(
        questions,
        other_questions,
        [one.text for one in given[:n_searched]],
        encoder,
        contrast,
        mode,
    )
    search = search_tokens(objective, vocabulary, settings, progress)
    words = " ".join(search.words)
    about = {
        "trigger": words,
        "objective": search.objective,
        "first_objective": float(search.evaluations[0]),
        "n_evaluations": search.n_evaluations,
        "mode": mode,
        "contrast": contrast,
        "n_search_texts": n_searched,
        "settings": asdict(settings),
        "encoder": identity_of(encoder),
        "questions_sha256": digest(questions),
        "vocabulary": {"n_words": len(vocabulary), "sha256": digest(vocabulary)},
    }
    passages = [
        Passage(f"{question_id}-{ATTACK}-{polarity}-{number:02d}", f"{words} {one.text}")
        for number, one in enumerate(given, 1)
    ]
    rows = embedded(encoder, [one.text for one in passages], "passages", "passages")
    targets = embedded(encoder, questions, "queries", "questions")
    similarities = cosines(rows, targets).mean(axis=1)
    made = tuple(
        AdversarialPassage(
            passage,
            question_id,
            polarity,
            ATTACK,
            {
                **about,
                "text_id": one.id,
                "text_sha256": digest([one.text]),
                "similarity_to_question": float(similarity),
            },
        )
        for passage, one, similarity in zip(passages, given, similarities, strict=True)
    )
    return TriggerOutcome(AdversarialSet(made), search)


def words_of(texts: Iterable[str], limit: int = 2000) -> list[str]:
    """Give the words of texts, of at least three letters, in the order in which they first occur.

    Parameters
    ----------
    texts : iterable of str
    limit : int
        At most so many words.

    Returns
    -------
    list of str
        In lower case, each once.

    Examples
    --------
    >>> words_of(["Trams are good.", "Are 3 trams as good?"])
    ['trams', 'are', 'good']
    """
    found: dict[str, None] = {}
    for text in texts:
        for word in _WORD.findall(text.lower()):
            found.setdefault(word)
            if len(found) >= limit:
                return list(found)
    return list(found)


class _Objective:
    """Mean cosine of passages that begin with the words and questions, less the contrast."""

    def __init__(
        self,
        questions: Sequence[str],
        other_questions: Sequence[str],
        texts: Sequence[str],
        encoder: Encoder,
        contrast: float,
        mode: str,
    ) -> None:
        self._questions, self._texts = list(questions), list(texts)
        self._encoder, self._contrast, self._mode = encoder, contrast, mode
        self._targets = unit(embedded(encoder, questions, "queries", "questions"))
        self._others = self._targets[:0]
        if other_questions:
            rows = embedded(encoder, other_questions, "queries", "other_questions")
            self._others = unit(rows)
        if mode == "agentpoison":
            # The questions without the trigger are not to find the passage.
            self._others = np.concatenate([self._targets, self._others])

    def __call__(self, batch: Sequence[tuple[str, ...]]) -> Float64Array:
        triggers = [" ".join(words) for words in batch]
        texts = [f"{words} {text}" for words in triggers for text in self._texts]
        rows = unit(embedded(self._encoder, texts, "passages", "passages"))
        rows = rows.reshape(len(batch), len(self._texts), -1)
        if self._mode == "agentpoison":
            asked = [f"{question} {words}" for words in triggers for question in self._questions]
            targets = unit(embedded(self._encoder, asked, "queries", "questions"))
            targets = targets.reshape(len(batch), len(self._questions), -1)
            near = np.einsum("btd,bqd->b", rows, targets) / (
                len(self._texts) * len(self._questions)
            )
        else:
            near = (rows @ self._targets.T).mean(axis=(1, 2))
        if not len(self._others):
            return np.asarray(near)
        return np.asarray(near - self._contrast * (rows @ self._others.T).mean(axis=(1, 2)))
