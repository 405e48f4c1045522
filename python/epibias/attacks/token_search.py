"""Search for a trigger: words that pull a text towards questions, found without gradients.

Owns the search and its bound. In: a function that scores a batch of word sequences, and a
vocabulary. Out: the best sequence, and the objective of every evaluation. The search changes one
word at a time, the places in turn; the same seed gives the same trigger. Knows no encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from epibias import _validate
from epibias._validate import Float64Array
from epibias.errors import InputError

Objective = Callable[[Sequence[tuple[str, ...]]], Float64Array]


@dataclass(frozen=True)
class SearchSettings:
    """Bounds of the search.

    Parameters
    ----------
    length : int
        Words of the trigger.
    max_evaluations : int
        Word sequences that are scored at most, the first included.
    batch : int
        Words tried at a place before the best of them is taken.
    patience : int
        Ends the search after so many places in a row at which no word was better.
    seed : int
        Of the first sequence and of the words tried.

    Raises
    ------
    InputError
        The first that is out of range.

    Examples
    --------
    >>> SearchSettings(length=3).max_evaluations
    400
    """

    length: int = 5
    max_evaluations: int = 400
    batch: int = 16
    patience: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("length", "max_evaluations", "batch", "patience"):
            _validate.integer(name, getattr(self, name), low=1)
        _validate.integer("seed", self.seed, low=0)


@dataclass(frozen=True, eq=False)
class TokenSearch:
    """What the search found, and the way there.

    Attributes
    ----------
    words : tuple of str
        The best sequence.
    objective : float
        Its value; larger is better.
    evaluations : float64 [n_evaluations]
        Objective of every sequence, in the order in which they were scored.
    best : float64 [n_evaluations]
        The largest so far.
    """

    words: tuple[str, ...]
    objective: float
    evaluations: Float64Array
    best: Float64Array

    @property
    def n_evaluations(self) -> int:
        """Sequences that were scored."""
        return len(self.evaluations)


def search_tokens(
    objective: Objective,
    vocabulary: Sequence[str],
    settings: SearchSettings | None = None,
    progress: Callable[[int], None] | None = None,
) -> TokenSearch:
    """Find words that make an objective large, one place at a time.

    Parameters
    ----------
    objective : callable
        Scores a batch of word sequences, float64 `[n_sequences]`; larger is better. Called with at
        most `settings.batch` of them.
    vocabulary : sequence of str
        Words to choose from, each once; their order matters to the seed.
    settings : SearchSettings, optional
    progress : callable, optional
        Called with the number of evaluations since the last call.

    Returns
    -------
    TokenSearch
        Of equal sequences the first that was scored.

    Raises
    ------
    InputError
        No words, a word that stands twice or is blank, an objective that is not finite.

    References
    ----------
    The triggers of AgentPoison (arXiv:2407.12784) and BadRAG (arXiv:2406.00083) are found with
    gradients of the encoder; the search here needs only its embeddings.

    Examples
    --------
    >>> def n_trams(batch):
    ...     return np.array([words.count("tram") for words in batch], np.float64)
    >>> found = search_tokens(n_trams, ["bus", "tram", "car"], SearchSettings(length=2))
    >>> found.words, found.objective
    (('tram', 'tram'), 2.0)
    """
    settings = SearchSettings() if settings is None else settings
    words = list(vocabulary)
    if not words:
        raise InputError("vocabulary", "at least one word", "none")
    for row, word in enumerate(words):
        _validate.text("vocabulary", word, f"row {row}")
    _validate.unique("vocabulary", words)
    generator = np.random.default_rng(settings.seed)
    scored: list[float] = []

    def score(batch: Sequence[tuple[str, ...]]) -> Float64Array:
        values = np.asarray(objective(batch), dtype=np.float64)
        if values.shape != (len(batch),):
            raise InputError("objective", f"{len(batch)} values", f"shape {values.shape}")
        _validate.finite("objective", values)
        scored.extend(values.tolist())
        if progress is not None:
            progress(len(batch))
        return values

    current = tuple(words[i] for i in generator.integers(0, len(words), settings.length))
    value = float(score([current])[0])
    place, without = 0, 0
    # With one word there is nothing to change; the first sequence is the answer.
    while len(scored) < settings.max_evaluations and without < settings.patience and len(words) > 1:
        n_tried = min(settings.batch, settings.max_evaluations - len(scored))
        others = [word for word in words if word != current[place]]
        chosen = generator.choice(len(others), min(n_tried, len(others)), replace=False)
        batch = [(*current[:place], others[i], *current[place + 1 :]) for i in chosen]
        values = score(batch)
        row = int(np.argmax(values))
        if values[row] > value:
            current, value, without = batch[row], float(values[row]), 0
        else:
            without += 1
        place = (place + 1) % settings.length
    evaluations = np.array(scored)
    best = np.maximum.accumulate(evaluations)
    _validate.sealed(evaluations, best)
    return TokenSearch(current, value, evaluations, best)
