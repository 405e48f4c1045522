"""Debates as a `QuestionSet`: a question a topic, its benign passages relevant to it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from epibias.corpus import Corpus
from epibias.data_sets.checksums import checksums
from epibias.data_sets.debates import load_debates
from epibias.data_sets.question_set import Question, QuestionSet

LICENCE = "Apache-2.0"


def debate_questions(folder: Path | str | None = None, licence: str = LICENCE) -> QuestionSet:
    """Give the debates as a question set.

    Parameters
    ----------
    folder : Path, optional
        A folder of the same layout instead of the one that is shipped; see `load_debates`.
    licence : str
        Of that folder's texts.

    Returns
    -------
    QuestionSet
        A question a topic, with its anchors, stances and adversarial passages; the corpus holds
        the benign passages of all topics, and those of a question's own topic are relevant to it.

    Raises
    ------
    InputError
        As `load_debates`.

    Examples
    --------
    >>> debates = debate_questions()
    >>> len(debates.questions), len(debates.corpus), debates.questions[0].topic
    (16, 288, 'basicincome')
    """
    topics = load_debates(folder)
    if folder is None:
        with resources.as_file(resources.files("epibias") / "data" / "debates") as shipped:
            files = checksums(shipped, shipped.glob("*.jsonl"))
    else:
        files = checksums(Path(folder), Path(folder).glob("*.jsonl"))
    questions = tuple(
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
    return QuestionSet(
        "debates" if folder is None else Path(folder).name or "debates",
        Corpus(passage for topic in topics for passage in topic.benign),
        questions,
        {topic.query_id: tuple(one.id for one in topic.benign) for topic in topics},
        licence,
        files,
    )
