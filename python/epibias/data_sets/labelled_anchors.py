"""Anchors out of a labelled corpus: passages whose stance is known move from corpus to anchors."""

from __future__ import annotations

from dataclasses import replace

from epibias import _validate
from epibias.corpus import Corpus
from epibias.data_sets.question_set import LARGEST_STANCE, Question, QuestionSet
from epibias.errors import InputError


def labelled_anchors(questions: QuestionSet, n_per_side: int = 4) -> QuestionSet:
    """Make anchors of relevant passages that have a stance; they leave the corpus.

    For sets without anchors of their own whose passages are labelled, such as PROCON and the
    flattened layout. Questions that share passages share the anchors too.

    Parameters
    ----------
    questions : QuestionSet
        ``passage.extra["stance"]``, in [-1, 1], is the stance towards the questions to which the
        passage is relevant. Where ``passage.extra["query_id"]`` names a question, as the flattened
        layout has it, it is the stance towards that one, and no anchor of another: a yes to one
        question may be a no to the next.
    n_per_side : int
        Anchors a side: the first passages above 0, and the first below, in corpus order.

    Returns
    -------
    QuestionSet
        Questions with fewer passages on a side keep what they had, and a note counts them. A
        stance is 3 times the label.

    Raises
    ------
    InputError
        No question has enough passages on both sides.

    Examples
    --------
    >>> from epibias.corpus import Passage
    >>> texts = [("p1", "Yes.", 1.0), ("p2", "No.", -1.0), ("p3", "Maybe.", 0.0)]
    >>> corpus = Corpus([Passage(name, text, extra={"stance": s}) for name, text, s in texts])
    >>> one = QuestionSet("q", corpus, (Question("q1", "Is it?", "it"),),
    ...                   {"q1": ("p1", "p2", "p3")}, "CC0-1.0", {})
    >>> found = labelled_anchors(one, n_per_side=1)
    >>> [anchor.id for anchor in found.questions[0].anchors], found.questions[0].stances
    (['p2', 'p1'], (-3.0, 3.0))
    >>> found.corpus.ids, found.relevant["q1"]
    (('p3',), ('p3',))
    """
    n_per_side = _validate.integer("n_per_side", n_per_side, low=1)
    corpus = questions.corpus
    stances, owners = _stances(corpus), _owners(corpus)
    made: list[Question] = []
    taken: set[str] = set()
    for question in questions.questions:
        relevant = sorted(questions.relevant[question.id], key=corpus.index_of)
        ids = [one for one in relevant if owners.get(one, question.id) == question.id]
        sides = [
            [one for one in ids if sign * stances.get(one, 0.0) > 0][:n_per_side]
            for sign in (-1, 1)
        ]
        if question.anchors or min(map(len, sides)) < n_per_side:
            made.append(question)
            continue
        chosen = [*sides[0], *sides[1]]
        taken.update(chosen)
        anchors = tuple(corpus[corpus.index_of(one)] for one in chosen)
        values = tuple(LARGEST_STANCE * stances[one] for one in chosen)
        made.append(replace(question, anchors=anchors, stances=values))
    if not taken:
        expected = f"a question without anchors, with {n_per_side} passages of either side"
        raise InputError("questions", expected, "none", questions.name)
    without = sum(not question.anchors for question in made)
    notes = [f"{len(taken)} labelled passages became anchors and left the corpus"]
    if without:
        notes.append(f"{without} questions have no anchors: too few labelled passages on a side")
    return replace(
        questions,
        corpus=Corpus(one for one in corpus if one.id not in taken),
        questions=tuple(made),
        relevant={
            one: tuple(name for name in ids if name not in taken)
            for one, ids in questions.relevant.items()
        },
        notes=(*questions.notes, *notes),
    )


def _owners(corpus: Corpus) -> dict[str, object]:
    """Give the question that a passage's stance is towards, of the passages that name one."""
    if "query_id" not in corpus.metadata_names:
        return {}
    named = zip(corpus.ids, corpus.metadata("query_id"), strict=True)
    return {passage_id: owner for passage_id, owner in named if owner is not None}


def _stances(corpus: Corpus) -> dict[str, float]:
    if "stance" not in corpus.metadata_names:
        raise InputError("questions", "passages with a stance", "none", "extra['stance']")
    found = {}
    for passage_id, stance in zip(corpus.ids, corpus.metadata("stance"), strict=True):
        if stance is not None:
            where = f"passage {passage_id!r}"
            found[passage_id] = _validate.number("stance", stance, low=-1.0, high=1.0, where=where)
    return found
