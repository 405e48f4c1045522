"""Perspectrum v1.0: claims, perspectives on them with the votes of a crowd, and evidence.

``perspectrum_with_answers_v1.0.json``: claims with ``cId``, ``text``, ``source``, ``topics`` and
``perspectives``: clusters of ``pids``, ``stance_label_3``, ``stance_label_5``, ``voter_counts``
(support, mildly support, mildly undermine, undermine, not a perspective) and ``evidence``.
``perspective_pool_v1.0.json`` {pId, text, source}, ``evidence_pool_v1.0.json`` {eId, text, source},
``dataset_split_v1.0.json`` {cId: split}.

Where the publishers turned a claim round, they flipped its labels and reversed the five counts, so
that "not a perspective" comes first in those (seen in claim 825). A row is read that way when its
label, or a majority for "not a perspective", rules out the usual order; it is left out of the
anchors, with a note, when it contradicts its label either way.

References
----------
Seeing Things from a Different Angle, arXiv:1906.03538, doi:10.18653/v1/N19-1053.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.data_sets.checksums import checksums
from epibias.data_sets.question_set import LARGEST_STANCE, Question, QuestionSet
from epibias.data_sets.rows import entries, read_document, take, take_integer, take_list, take_text
from epibias.errors import InputError

LICENCE = "CC BY-SA 4.0"
CLAIMS, PERSPECTIVES, EVIDENCE, SPLITS = (
    "perspectrum_with_answers_v1.0.json",
    "perspective_pool_v1.0.json",
    "evidence_pool_v1.0.json",
    "dataset_split_v1.0.json",
)
SIGNS = {"SUPPORT": 1, "UNDERMINE": -1}
# Of support, mildly support, mildly undermine, undermine; votes for "not a perspective" do not say
# where it stands.
WEIGHTS = (1.0, 0.5, -0.5, -1.0)


def perspectrum_questions(
    folder: Path | str, split: str | None = None, *, paraphrases: bool = False
) -> QuestionSet:
    """Read Perspectrum v1.0 from a local folder.

    Parameters
    ----------
    folder : Path
        With the four files.
    split : str, optional
        "train", "dev" or "test"; all claims without it.
    paraphrases : bool
        Take all perspectives of a cluster as anchors, not its first that is no paraphrase.

    Returns
    -------
    QuestionSet
        A question a claim. Its perspectives are the anchors, with stances 3 times the mean vote
        (1, ½, -½, -1 from support to undermine). The evidence pool is the corpus, and the evidence
        of a claim's perspectives is relevant to it.

    Raises
    ------
    InputError
        File, entry and finding: an id that no pool has, or twice; counts that are no five
        numbers; a label that is none.
    """
    folder = Path(folder)
    perspectives = _pool(folder / PERSPECTIVES, "pId")
    evidence = _pool(folder / EVIDENCE, "eId")
    chosen = None if split is None else _split(folder / SPLITS, split)
    questions: list[Question] = []
    relevant: dict[str, tuple[str, ...]] = {}
    contradictory: list[str] = []
    for where, row in entries(folder / CLAIMS):
        number = take_integer("cId", row, where)
        claim_id = f"claim{number}"
        if claim_id in relevant:
            raise InputError("cId", "each id once", f"{number} again", where)
        if chosen is not None and number not in chosen:
            continue
        anchors: dict[str, tuple[Passage, float]] = {}
        found: list[str] = []
        for place, cluster in enumerate(take_list("perspectives", row, where)):
            there = f"{where}, perspective {place}"
            pids = _known(cluster, "pids", perspectives, there)
            found += [evidence[one].id for one in _known(cluster, "evidence", evidence, there)]
            stance = _stance(cluster, there)
            if stance is None:
                contradictory.append(f"{claim_id}: {pids}")
                continue
            for one in _of_cluster(pids, perspectives, paraphrases):
                anchors[f"{claim_id}_{one}"] = perspectives[one], stance
        # A perspective may stand under several claims, with another stance: its id is the pair's.
        passages = tuple(
            Passage(name, one.text, source=one.source) for name, (one, _) in anchors.items()
        )
        stances = tuple(LARGEST_STANCE * stance for _, stance in anchors.values())
        text = take_text("text", row, where)
        questions.append(Question(claim_id, text, _topic(row, claim_id), passages, stances))
        relevant[claim_id] = tuple(dict.fromkeys(found))
    if not questions:
        raise InputError("split", "at least one claim", "none", f"split {split!r}")
    names = [CLAIMS, PERSPECTIVES, EVIDENCE, *([SPLITS] if split is not None else [])]
    return QuestionSet(
        "perspectrum",
        Corpus(evidence.values()),
        tuple(questions),
        relevant,
        LICENCE,
        checksums(folder, [folder / name for name in names]),
        _notes(contradictory),
    )


def mean_vote(counts: Sequence[int], label: str) -> float | None:
    """Give the mean vote in [-1, 1], read in the order that agrees with the label.

    Parameters
    ----------
    counts : sequence of 5 int
        Votes as published.
    label : {"SUPPORT", "UNDERMINE"}
        The coarse label.

    Returns
    -------
    float or None
        None where the votes contradict the label, whichever way they are read.

    Examples
    --------
    >>> mean_vote([2, 1, 0, 0, 0], "SUPPORT"), mean_vote([0, 0, 0, 1, 2], "UNDERMINE")
    (0.8333333333333334, -0.8333333333333334)
    >>> mean_vote([0, 0, 1, 1, 0], "SUPPORT") is None
    True
    """
    for four, n_none in ((counts[:4], counts[4]), (counts[1:], counts[0])):
        # What most voters took for no perspective was not published.
        if 2 * n_none < sum(counts):
            mean = sum(w * n for w, n in zip(WEIGHTS, four, strict=True)) / sum(four)
            if mean * SIGNS[label] > 0:
                return mean
    return None


def _stance(cluster: Mapping[str, Any], where: str) -> float | None:
    counts = take_list("voter_counts", cluster, where)
    is_count = [isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in counts]
    if len(counts) != 5 or not all(is_count):
        raise InputError("voter_counts", "five counts", described(counts), where)
    label = take_text("stance_label_3", cluster, where)
    if label not in SIGNS:
        expected = "'SUPPORT' or 'UNDERMINE'"
        raise InputError("stance_label_3", expected, described(label), where)
    return mean_vote(counts, label)


def _pool(path: Path, id_name: str) -> dict[int, Passage]:
    found: dict[int, Passage] = {}
    for where, row in entries(path):
        number = take_integer(id_name, row, where)
        if number in found:
            raise InputError(id_name, "each id once", f"{number} again", where)
        text, source = take_text("text", row, where), take_text("source", row, where)
        found[number] = Passage(f"{id_name[0].lower()}{number}", text, source=source)
    return found


def _known(
    cluster: Mapping[str, Any], name: str, pool: Mapping[int, Passage], where: str
) -> list[int]:
    if not isinstance(cluster, dict):
        raise InputError("perspectives", "an object", described(cluster), where)
    ids = take_list(name, cluster, where)
    for one in ids:
        if isinstance(one, bool) or not isinstance(one, int) or one not in pool:
            raise InputError(name, "ids of the pool", described(one), where)
    return ids


def _of_cluster(pids: list[int], pool: Mapping[int, Passage], paraphrases: bool) -> list[int]:
    if paraphrases:
        return pids
    originals = [one for one in pids if pool[one].source != "paraphrase"]
    return (originals or pids)[:1]


def _topic(row: Mapping[str, Any], claim_id: str) -> str:
    topics = row.get("topics")
    return ", ".join(map(str, topics)) if isinstance(topics, list) and topics else claim_id


def _split(path: Path, split: str) -> frozenset[int]:
    document = read_document(path)
    if not isinstance(document, dict):
        raise InputError("split", "an object of claim to split", described(document), path.name)
    known = sorted({str(one) for one in document.values()})
    if split not in known:
        raise InputError("split", f"one of {known}", repr(split), path.name)
    for claim in document:
        take("split", {"split": claim if claim.isdigit() else None}, f"{path.name}, {claim!r}")
    return frozenset(int(claim) for claim, name in document.items() if name == split)


def _notes(contradictory: list[str]) -> tuple[str, ...]:
    if not contradictory:
        return ()
    shown = "; ".join(contradictory[:5]) + ("; …" if len(contradictory) > 5 else "")
    count = len(contradictory)
    return (f"{count} perspectives are no anchors: their votes contradict their label ({shown})",)
