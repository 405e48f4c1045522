"""PROCON as Topic-FlipRAG publishes it: topics of ProCon.org with passages for and against.

``PROCON_data.json`` is a list of topics: ``topic`` (a yes-or-no question), ``queries`` (about 25
others on it), ``passages`` [[number, 1 for pro or 0 for con, null, text, topic], …] and, in some
versions, ``category``. Beside it, or in a folder below it, may lie what the attack made of topic
number i towards a side: ``opinion_result_<i>_<0 or 1>.json``, a list of ``num``, ``passage_ori``,
``know_passage``, ``trigger``.

Layout seen in a public copy of the repository, the first passages of the first topic and one file
of results; not all 42 topics.

References
----------
Topic-FlipRAG, arXiv:2502.01386.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias._plain import described
from epibias.corpus import Corpus, Passage
from epibias.data_sets.checksums import checksums
from epibias.data_sets.question_set import Question, QuestionSet
from epibias.data_sets.rows import entries, take_integer, take_list, take_text
from epibias.errors import InputError

LICENCE = "not stated for the texts of ProCon.org; MIT for the repository"
FILE = "PROCON_data.json"
RESULT = re.compile(r"opinion_result_(\d+)_([01])\.json")
ASKS = ("queries", "topics")
SIDES = {1: "positive", 0: "negative"}


def procon_questions(folder: Path | str, *, ask: str = "queries") -> QuestionSet:
    """Read Topic-FlipRAG's PROCON from a local folder.

    Parameters
    ----------
    folder : Path
        With ``PROCON_data.json``, and results of the attack where there are any.
    ask : {"queries", "topics"}
        One question a query of each topic, as Topic-FlipRAG evaluates, or one a topic.

    Returns
    -------
    QuestionSet
        All passages of a topic are relevant to its questions. ``passage.extra["stance"]`` is 1.0
        (pro) or -1.0 (con); `labelled_anchors` makes anchors of some. Results of the attack are
        the adversarial passages, trigger first, as the authors join them. Their attack puts them
        in place of the original (``extra["replaces"]``); injection here adds them.

    Raises
    ------
    InputError
        File, entry and finding: a stance that is neither 0 nor 1, a number that stands twice, a
        passage of another topic, results of a topic that is not there.
    """
    folder = Path(folder)
    _validate.choice("ask", ask, ASKS)
    path = folder / FILE
    topics = list(entries(path))
    attacked, used = _results(folder, topics)
    passages: list[Passage] = []
    questions: list[Question] = []
    relevant: dict[str, tuple[str, ...]] = {}
    for number, (where, row) in enumerate(topics):
        topic = take_text("topic", row, where)
        own = list(_passages(number, topic, row, where))
        passages.extend(own)
        if ask == "topics":
            texts = [topic]
        else:
            texts = [
                take_text("queries", {"queries": one}, where)
                for one in take_list("queries", row, where)
            ]
        for place, text in enumerate(texts):
            question_id = f"procon{number}" if ask == "topics" else f"procon{number}_q{place}"
            adversarial = attacked.get(number, {})
            questions.append(Question(question_id, text, topic, adversarial=adversarial))
            relevant[question_id] = tuple(one.id for one in own)
    files = checksums(folder, [path, *used])
    corpus = Corpus(passages)
    return QuestionSet("procon", corpus, tuple(questions), relevant, LICENCE, files)


def _passages(number: int, topic: str, row: Mapping[str, Any], where: str) -> Iterator[Passage]:
    seen: set[int] = set()
    for place, one in enumerate(take_list("passages", row, where)):
        there = f"{where}, passage {place}"
        if not isinstance(one, list) or len(one) != 5:
            expected = "[number, 1 or 0, null, text, topic]"
            raise InputError("passages", expected, described(one), there)
        index = take_integer("number", {"number": one[0]}, there)
        if index in seen:
            raise InputError("number", "each number once", f"{index} again", there)
        seen.add(index)
        if isinstance(one[1], bool) or one[1] not in SIDES:
            raise InputError("stance", "1 (pro) or 0 (con)", described(one[1]), there)
        if one[4] != topic:
            raise InputError("topic", repr(topic), described(one[4]), there)
        text = take_text("text", {"text": one[3]}, there)
        extra = {"stance": 1.0 if one[1] else -1.0, "topic": topic}
        yield Passage(f"procon{number}_p{index}", text, source="procon.org", extra=extra)


def _results(
    folder: Path, topics: list[tuple[str, dict[str, Any]]]
) -> tuple[dict[int, dict[str, tuple[Passage, ...]]], list[Path]]:
    """Read what the attack made; by topic and side. The same name in two folders is refused."""
    found: dict[int, dict[str, tuple[Passage, ...]]] = {}
    used: dict[str, Path] = {}
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/*.json")]):
        named = RESULT.fullmatch(path.name)
        if named is None:
            continue
        if path.name in used:
            other = used[path.name].parent.name
            raise InputError("folder", f"one {path.name}", f"another in {other!r}", str(path))
        used[path.name] = path
        number, side = int(named[1]), int(named[2])
        if number >= len(topics):
            expected = f"a topic from 0 to {len(topics) - 1}"
            raise InputError("topic", expected, str(number), path.name)
        made = []
        for where, row in entries(path):
            index = take_integer("num", row, where)
            text = f"{take_text('trigger', row, where)} {take_text('know_passage', row, where)}"
            extra = {"replaces": f"procon{number}_p{index}", "attack": "topic-fliprag"}
            made.append(Passage(f"flip{number}_{side}_{index}", text, extra=extra))
        found.setdefault(number, {})[SIDES[side]] = tuple(made)
    return found, list(used.values())
