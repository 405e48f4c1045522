"""A folder in BEIR's layout as a question set; any set whose three parts have been read, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epibias.corpus import BeirData
from epibias.corpus.beir import qrels_path
from epibias.data_sets.checksums import checksums
from epibias.data_sets.question_set import Question, QuestionSet

UNKNOWN_LICENCE = "not stated"


def beir_questions(
    folder: Path | str,
    split: str | None = None,
    *,
    blank: str = "error",
    min_grade: int = 1,
    licence: str = UNKNOWN_LICENCE,
) -> QuestionSet:
    r"""Read a folder in BEIR's layout.

    Parameters
    ----------
    folder : Path
        With ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv`` or ``qrels.tsv``.
    split : str, optional
        Which judgements, as `BeirData.read` takes it. Queries without any are kept.
    blank : {"error", "skip"}
        What to do with a passage whose text is blank; what is left out is noted.
    min_grade : int
        Grade from which a passage counts as relevant.
    licence : str
        Of the texts; the layout has no place for it.

    Returns
    -------
    QuestionSet
        Without anchors and adversarial passages. The topic of a question is its field ``topic``
        where it has one, else its id.

    Raises
    ------
    InputError
        File, line and finding, as `BeirData.read`.

    References
    ----------
    BEIR, arXiv:2104.08663.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     _ = (folder / "corpus.jsonl").write_text('{"_id": "p1", "text": "Yes."}\n')
    ...     _ = (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "Is it?"}\n')
    ...     _ = (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tp1\t1\n")
    ...     beir_questions(folder, licence="CC0-1.0").relevant["q1"]
    ('p1',)
    """
    folder = Path(folder)
    data = BeirData.read(folder, split, blank=blank)
    paths = [folder / "corpus.jsonl", folder / "queries.jsonl", qrels_path(folder, split)]
    return QuestionSet(
        folder.resolve().name or "beir",
        data.corpus,
        plain_questions(data),
        relevant_passages(data, min_grade),
        licence,
        checksums(folder, paths),
        skipped_note(data.corpus.skipped_ids),
    )


def plain_questions(
    data: BeirData, topics: Mapping[str, str] | None = None
) -> tuple[Question, ...]:
    """Make a question of every query; its topic is given, or its field ``topic``, or its id."""
    own = data.queries.metadata("topic") if "topic" in data.queries.metadata_names else None
    found = []
    for row, (query_id, text) in enumerate(zip(data.queries.ids, data.queries.texts, strict=True)):
        named = (topics or {}).get(query_id) or (own[row] if own else None)
        topic = named if isinstance(named, str) and named.strip() else query_id
        found.append(Question(query_id, text, topic))
    return tuple(found)


def relevant_passages(data: BeirData, min_grade: int = 1) -> dict[str, tuple[str, ...]]:
    """Give the passages of a grade or better, of every question that was judged."""
    return {one: data.qrels.relevant(one, min_grade) for one in data.qrels}


def skipped_note(skipped: tuple[str, ...]) -> tuple[str, ...]:
    """Say which passages were left out because their text is blank.

    Examples
    --------
    >>> skipped_note(("p1", "p2"))
    ('2 passages with a blank text were left out: p1, p2',)
    """
    if not skipped:
        return ()
    shown = ", ".join(skipped[:10]) + (", …" if len(skipped) > 10 else "")
    return (f"{len(skipped)} passages with a blank text were left out: {shown}",)
