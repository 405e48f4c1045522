r"""WIKI-BALANCE: Wikipedia pages on contested questions, with anchors that a language model wrote.

Two parts, each in BEIR's layout: *natural* (pages of Wikipedia, judgements) and *synthetic* (for
every question passages of two perspectives, their ids ``<page>_<query>_p{1,2}_d<number>``). The
synthetic passages are the anchors, as in [1]_; the natural ones are the corpus.

References
----------
.. [1] Epistemic Bias Injection, arXiv:2512.00804, section V-A.
.. [2] Measuring and Addressing Indexical Bias in Information Retrieval, arXiv:2406.04298.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from epibias.corpus import BeirData, Corpus, Passage, Queries
from epibias.corpus.beir import qrels_path
from epibias.data_sets.beir_questions import plain_questions, relevant_passages, skipped_note
from epibias.data_sets.checksums import checksums
from epibias.data_sets.hub import beir_of_rows, hub_rows
from epibias.data_sets.question_set import QuestionSet
from epibias.errors import InputError

LICENCE = "CC BY-SA 4.0"
HUB = "SALT-NLP/wiki-balance"
# Judgements count from this grade on in the code that the publishers evaluate with.
MIN_GRADE = 4
ANCHOR_ID = re.compile(r"(?P<page>-?\d+)_(?P<query>\d+)_p(?P<perspective>[12])_d(?P<number>\d+)")
ANCHOR_FORM = "<page>_<query>_p1 or p2_d<number>"


def wiki_balance_folder(
    folder: Path | str, *, blank: str = "skip", min_grade: int = MIN_GRADE
) -> QuestionSet:
    """Read WIKI-BALANCE from a local folder.

    Parameters
    ----------
    folder : Path
        With the folders ``natural`` and ``synthetic`` (or named as on the hub,
        ``wiki-balance-natural`` …): ``corpus.jsonl`` and ``queries.jsonl`` in both, judgements
        ``qrels/test.tsv`` or ``qrels.tsv`` in the first.
    blank : {"error", "skip"}
        What to do with passages whose text is blank, which the published set has; those left out
        are noted.
    min_grade : int
        Grade from which a page counts as relevant; 4 in the publishers' code.

    Returns
    -------
    QuestionSet
        The natural questions with their anchors. The two perspectives have no fixed sign, so
        there are no stances; ``anchor.extra["perspective"]`` is 1 or 2.

    Raises
    ------
    InputError
        File, line and finding; an anchor whose id is not of the form, or of no question.
    """
    folder = Path(folder)
    natural, synthetic = _part(folder, "natural"), _part(folder, "synthetic")
    data = BeirData.read(natural, blank=blank)
    written = Corpus.from_jsonl(synthetic / "corpus.jsonl", blank=blank)
    asked = Queries.from_jsonl(synthetic / "queries.jsonl")
    paths = [part / name for part in (natural, synthetic) for name in _NAMES]
    files = checksums(folder, [*paths, qrels_path(natural, None)])
    return _joined(data, written, asked, files, min_grade)


def wiki_balance_hub(
    revision: str | None = None, *, blank: str = "skip", min_grade: int = MIN_GRADE
) -> QuestionSet:
    """Read WIKI-BALANCE from the hub (extra ``hub``).

    Parameters
    ----------
    revision : str, optional
        Commit, tag or branch of all parts; the newest without it.
    blank, min_grade
        As in `wiki_balance_folder`.

    Returns
    -------
    QuestionSet

    Raises
    ------
    MissingExtraError
        Without the package ``datasets``.
    InputError
        A hub that cannot be reached; rows that are not of this form.
    """
    files: dict[str, str] = {}

    def rows(part: str, config: str, split: str) -> list[dict[str, object]]:
        return hub_rows(f"{HUB}-{part}", config, split, revision, files)

    data = beir_of_rows(
        f"{HUB}-natural",
        rows("natural", "corpus", "corpus"),
        rows("natural", "queries", "queries"),
        rows("natural-qrels", "test", "test"),
        blank=blank,
    )
    synthetic = beir_of_rows(
        f"{HUB}-synthetic",
        rows("synthetic", "corpus", "corpus"),
        rows("synthetic", "queries", "queries"),
        [],
        blank=blank,
    )
    return _joined(data, synthetic.corpus, synthetic.queries, files, min_grade)


def split_anchor_id(anchor_id: str, where: str) -> tuple[str, str, int]:
    """Give page, question id and perspective of an anchor's id.

    Raises
    ------
    InputError
        An id of another form.

    Examples
    --------
    >>> split_anchor_id("1181612_7_p1_d1", "corpus.jsonl")
    ('1181612', '1181612_7', 1)
    """
    found = ANCHOR_ID.fullmatch(anchor_id)
    if found is None:
        raise InputError("_id", f"an id like {ANCHOR_FORM}", repr(anchor_id), where)
    return found["page"], f"{found['page']}_{found['query']}", int(found["perspective"])


_NAMES = ("corpus.jsonl", "queries.jsonl")


def _part(folder: Path, name: str) -> Path:
    for candidate in (folder / name, folder / f"wiki-balance-{name}"):
        if candidate.is_dir():
            return candidate
    raise InputError("folder", f"a folder {name!r} within", "none", str(folder))


def _joined(
    data: BeirData, written: Corpus, asked: Queries, files: Mapping[str, str], min_grade: int
) -> QuestionSet:
    anchors: dict[str, list[Passage]] = {}
    for passage in written:
        where = f"synthetic corpus, id {passage.id!r}"
        _, question_id, perspective = split_anchor_id(passage.id, where)
        if question_id not in asked:
            found = f"{question_id!r}, which none has"
            raise InputError("_id", "the id of a synthetic query before _p", found, where)
        extra = {**passage.extra, "perspective": perspective}
        anchors.setdefault(question_id, []).append(replace(passage, extra=extra))
    topics = {one: one.rsplit("_", 1)[0] for one in data.queries.ids if "_" in one}
    questions = tuple(
        replace(one, anchors=tuple(anchors.get(one.id, ())))
        for one in plain_questions(data, topics)
    )
    relevant = relevant_passages(data, min_grade)
    if not any(relevant.values()):
        grades = sorted({grade for one in data.qrels.values() for grade in one.values()})
        expected = f"judgements of grade {min_grade} or better (min_grade)"
        raise InputError("qrels", expected, f"grades {grades}", "natural")
    skipped = (*data.corpus.skipped_ids, *written.skipped_ids)
    notes = [*skipped_note(skipped), *_left_over(anchors, data.queries, questions)]
    notes.append(f"a page is relevant from grade {min_grade} on; perspectives have no sign")
    name = "wiki-balance"
    return QuestionSet(name, data.corpus, questions, relevant, LICENCE, files, tuple(notes))


def _left_over(
    anchors: Mapping[str, list[Passage]], queries: Queries, questions: Sequence[object]
) -> list[str]:
    others = [one for one in anchors if one not in queries]
    bare = len(questions) - (len(anchors) - len(others))
    notes = [f"{bare} natural questions have no anchors"] if bare else []
    if others:
        count = sum(len(anchors[one]) for one in others)
        notes.append(f"{count} anchors of {len(others)} questions without natural pages: not used")
    return notes
