"""Where the edits of Topic-FlipRAG's first stage come from: a generator, or none.

An editor takes the present text and the number of the round and gives `Edit`s: `GeneratorEditor`
asks a language model, `SplicingEditor` takes sentences of other texts, `replacing_editor` replaces
words. Owns the request to the generator and what its reply means; `topic_fliprag` decides which
edit is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from epibias import _validate
from epibias.attacks.asking import Asker, NotSent
from epibias.attacks.embedding import digest
from epibias.attacks.ownership import confirm
from epibias.corpus.sentences import sentences
from epibias.errors import InputError
from epibias.generators import Failure, Generator, parse_passages, render

# Rounds go from words to sentences to phrases, as the paper's granularities do, and begin again.
CHANGES = (
    "a few words replaced by others",
    "one sentence rewritten",
    "one short phrase inserted",
)
SIDES = {"positive": "yes", "negative": "no"}


@dataclass(frozen=True)
class Edit:
    """One proposal for the next text of a passage.

    Parameters
    ----------
    text : str
        The whole passage, edited.
    provenance : mapping
        How it was made; plain values.
    failure : str, optional
        Why there is no text: it is counted under this reason.

    Examples
    --------
    >>> Edit("Trams are excellent.").failure is None
    True
    """

    text: str
    provenance: Mapping[str, object] = field(default_factory=dict, hash=False)
    failure: str | None = None


Editor = Callable[[str, int], Sequence[Edit]]


class GeneratorEditor:
    """Ask a generator for edits.

    Parameters
    ----------
    generator : Generator
        Writes them; a `CachedGenerator` makes a stopped run go on.
    question : str
        Whose answer is to be turned.
    polarity : {"positive", "negative"}
        Side: towards "yes" or towards "no".
    n : int
        Edits a round.
    temperature, max_tokens, seed
        Of the generator.
    i_own_this_index : bool
        True, or nothing is written: an edit is adversarial text.

    Raises
    ------
    InputError
        A wrong argument; `i_own_this_index` that is not True.

    Examples
    --------
    >>> from epibias.generators import FixedGenerator
    >>> generator = FixedGenerator("[1] Trams are best.")
    >>> editor = GeneratorEditor(generator, "Trams?", "positive", n=1, i_own_this_index=True)
    >>> editor("Trams are good.", 0)[0].text
    'Trams are best.'
    """

    def __init__(
        self,
        generator: Generator,
        question: str,
        polarity: str,
        *,
        n: int = 3,
        temperature: float = 0.8,
        max_tokens: int = 2048,
        seed: int = 0,
        i_own_this_index: bool = False,
    ) -> None:
        confirm(i_own_this_index)
        self._generator = generator
        self._asker = Asker(generator, temperature=temperature, max_tokens=max_tokens, seed=seed)
        self._question = _validate.text("question", question)
        self._side = SIDES[_validate.choice("polarity", polarity, tuple(SIDES))]
        self._n = _validate.integer("n", n, low=1)
        self._sampling = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}

    @property
    def identity(self) -> dict[str, object]:
        """The generator's, with the parameters of the requests."""
        return {"generator": dict(self._generator.identity), "n": self._n, **self._sampling}

    @property
    def stopped(self) -> Failure | None:
        """Why the generator went away, if so: it is not asked again, and there are no edits."""
        return self._asker.stopped

    def __call__(self, text: str, number: int) -> list[Edit]:
        """Ask for edits of a text in a round."""
        prompt = render(
            "edit",
            question=self._question,
            passage=text,
            side=self._side,
            change=CHANGES[number % len(CHANGES)],
            n=self._n,
        )
        [reply] = self._asker.ask([prompt], number)
        if isinstance(reply, NotSent):
            return []
        if isinstance(reply, Failure):
            return [Edit("", failure=f"generator: {reply.reason}")]
        found = parse_passages(reply.text, self._n)
        about = {"name": prompt.name, "version": prompt.version, "sha256": prompt.sha256}
        edits = [
            Edit(one, {"prompt": about, "number_in_reply": i}) for i, one in enumerate(found, 1)
        ]
        return edits + [Edit("", failure="not in the reply")] * (self._n - len(found))


class SplicingEditor:
    """Edit without a generator: a sentence of the passage gives way to one that takes a side.

    Parameters
    ----------
    texts : sequence of str
        One-sided texts; their sentences are spliced in.
    n : int
        Edits a round, drawn from all pairs of a place and a sentence.
    seed : int
        Of the draws; each round and passage has its own.
    i_own_this_index : bool
        True, or nothing is written: an edit is adversarial text.

    Raises
    ------
    InputError
        No sentence; a wrong argument; `i_own_this_index` that is not True.

    Examples
    --------
    >>> editor = SplicingEditor(["Trams are best."], n=2, i_own_this_index=True)
    >>> sorted(edit.text for edit in editor("Trams cost money. They are quiet.", 0))
    ['Trams are best. They are quiet.', 'Trams cost money. Trams are best.']
    """

    def __init__(
        self,
        texts: Sequence[str],
        *,
        n: int = 16,
        seed: int = 0,
        i_own_this_index: bool = False,
    ) -> None:
        confirm(i_own_this_index)
        found = (one for text in texts for one in sentences(_validate.text("texts", text)))
        self._sentences = list(dict.fromkeys(found))
        if not self._sentences:
            raise InputError("texts", "at least one sentence", "none")
        self._n = _validate.integer("n", n, low=1)
        self._seed = _validate.integer("seed", seed, low=0)

    @property
    def identity(self) -> dict[str, object]:
        """What the edits depend on."""
        return {
            "kind": "splicing",
            "sentences_sha256": digest(self._sentences),
            "n": self._n,
            "seed": self._seed,
        }

    def __call__(self, text: str, number: int) -> list[Edit]:
        """Draw edits of a text in a round."""
        own = sentences(text)
        n_pairs = len(own) * len(self._sentences)
        key = [self._seed, number, int(digest([text])[:8], 16)]
        drawn = np.random.default_rng(key).choice(n_pairs, min(self._n, n_pairs), replace=False)
        edits = []
        for pair in drawn.tolist():
            place, row = divmod(pair, len(self._sentences))
            spliced = [*own[:place], self._sentences[row], *own[place + 1 :]]
            edits.append(Edit(" ".join(spliced), {"place": place, "sentence": row}))
        return edits


def replacing_editor(edits: Mapping[str, str]) -> Editor:
    """Make an editor of replacements: every word of `edits` that occurs, one replacement an edit.

    Parameters
    ----------
    edits : mapping of str to str
        What is replaced by what, wherever it occurs.

    Returns
    -------
    callable
        For `topic_fliprag`.

    Examples
    --------
    >>> editor = replacing_editor({"good": "excellent", "bad": "poor"})
    >>> [edit.text for edit in editor("Trams are good.", 0)]
    ['Trams are excellent.']
    """

    def editor(text: str, number: int) -> list[Edit]:
        return [
            Edit(text.replace(old, new), {"replaced": old, "by": new, "in_round": number})
            for old, new in edits.items()
            if old in text
        ]

    return editor
