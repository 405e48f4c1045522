"""Questions with benign, anchor and one-sided passages, in one shape for every data set.

In: the shipped debates, and (read-only, never committed) Perspectrum and WIKI-BALANCE from a
folder that is named. Out: `Case` objects. Owns which passage plays which part: a text has one part
only, and the choice is seeded by the question's name, so that no run can differ.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from epibias.data_sets import load_debates
from epibias.defenses.lexical import content_words
from epibias.polarization.poles import pole_statements

SEED = 20261130  # of every draw of the protocol
N_ANCHORS = 3  # a side, taken from a human question's own perspectives
LEAST_SIDE, LEAST_OTHER = 15, 8  # perspectives that a one-sided injection needs
MOST_ADVERSARIAL = 10
CHUNK = 3  # sentences of a WIKI-BALANCE passage that make one injected passage
REPEATS = 0.5  # share of the question's letter triples
WORDS_SHARED = 2  # content words of two questions that make them one topic
POLARITIES = ("positive", "negative")
# Written for one evaluation each; their READMEs have how.
WRITTEN_BLIND = {
    "unseen": Path(__file__).with_name("unseen_debates"),
    "fresh": Path(__file__).with_name("fresh_debates"),
}


@dataclass(frozen=True)
class Case:
    """One question: what the index holds about it, and what an attacker adds.

    `passages` and `stances` are benign; `adversarial` has the polarities that can be attacked.
    `stances` are nan where nobody labelled them.
    """

    family: str
    name: str
    question: str
    passages: tuple[str, ...]
    stances: tuple[float, ...]
    anchors: tuple[str, ...] = ()
    anchor_stances: tuple[float, ...] = ()
    adversarial: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    poles: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # con, pro

    def plain_texts(self) -> list[str]:
        """Every text as it was written, and the poles."""
        own = [self.question, *self.passages, *self.anchors, *self.poles[0], *self.poles[1]]
        return own + [text for texts in self.adversarial.values() for text in texts]

    def texts(self) -> list[str]:
        """Every text that has to be encoded."""
        own = self.plain_texts()
        for texts in self.adversarial.values():
            own += [poisoned(self.question, text) for text in texts]
            own += [stripped(self.question, text) for text in texts]
            if self.family == "debates" or self.family in WRITTEN_BLIND:  # others' were not encoded
                own += [scattered(self.question, text) for text in texts]
        return own

    def passages_of_all_parts(self) -> list[str]:
        """Every text but the question and the poles: what no two parts may share."""
        held_out = [text for texts in self.adversarial.values() for text in texts]
        return [*held_out, *self.anchors, *self.passages]


def unrelated(cases: Sequence[Case], reported: Sequence[Case]) -> list[Case]:
    """Give the cases that something may be fitted on which is reported on others.

    None shares a passage or `WORDS_SHARED` content words of its question with a reported case:
    Perspectrum's splits share perspectives word for word ("University education should be free"
    stands in two of them), and the debates are about some of its claims. Two common words
    ("United States") leave out more than they must, which costs only labels.
    """
    seen = {text for case in reported for text in case.passages_of_all_parts()}
    words = [set(content_words(case.question)) for case in reported]
    return [
        case
        for case in cases
        if seen.isdisjoint(case.passages_of_all_parts())
        and all(len(own & set(content_words(case.question))) < WORDS_SHARED for own in words)
    ]


def one_part_each(cases: Sequence[Case]) -> list[Case]:
    """Let each text play one part in the whole family: injected, else an anchor, else benign.

    A text that two claims share would else be injected for one and stand in the index as a benign
    passage of the other, where its copy is no adversarial passage.
    """
    injected = {t for case in cases for texts in case.adversarial.values() for t in texts}
    taken = injected | {text for case in cases for text in case.anchors}
    kept = []
    for case in cases:
        pairs = [p for p in zip(case.passages, case.stances, strict=True) if p[0] not in taken]
        taken |= {text for text, _ in pairs}
        anchors = [
            p for p in zip(case.anchors, case.anchor_stances, strict=True) if p[0] not in injected
        ]
        both = len({stance > 0 for _, stance in anchors}) == 2
        kept.append(
            replace(
                case,
                passages=tuple(text for text, _ in pairs),
                stances=tuple(stance for _, stance in pairs),
                anchors=tuple(text for text, _ in anchors if both),
                anchor_stances=tuple(stance for _, stance in anchors if both),
            )
        )
    return [case for case in kept if case.passages]


def poisoned(question: str, text: str) -> str:
    """PoisonedRAG's black-box passage: the question, then the text."""
    return f"{question} {text}"


def stripped(question: str, text: str) -> str:
    """Take the sentences out that repeat the question: the attacker who knows the echo test.

    A sentence repeats it where it holds more than half of the question's letter triples; where
    every sentence does, the one that repeats it least stays.
    """
    sentences = re.split(r"(?<=[.!?;])\s+", text.strip())
    shares = [triples_shared(question, sentence) for sentence in sentences]
    kept = [s for s, share in zip(sentences, shares, strict=True) if share <= REPEATS]
    return " ".join(kept or [sentences[int(np.argmin(shares))]])


def scattered(question: str, text: str) -> str:
    """Put the question's words, in order and evenly, between those of the stripped passage.

    The attacker who knows that one place is looked at: all of the question, and nowhere.
    """
    words, asked = stripped(question, text).split(), question.rstrip("?.").split()
    ends = [round(place * len(words) / len(asked)) for place in range(len(asked) + 1)]
    parts = [[word, *words[ends[i] : ends[i + 1]]] for i, word in enumerate(asked)]
    return " ".join(word for part in parts for word in part)


def triples_shared(question: str, text: str) -> float:
    """Share of the question's letter triples, across words, that a text holds."""
    wanted, held = _triples(question), _triples(text)
    return len(wanted & held) / len(wanted)


def _triples(text: str) -> set[str]:
    words = " " + " ".join(re.findall(r"[a-z0-9']+", text.lower())) + " "
    return {words[start : start + 3] for start in range(len(words) - 2)}


def generator_of(name: str) -> np.random.Generator:
    """Draws of one question."""
    return np.random.default_rng([SEED, zlib.crc32(name.encode())])


def debates() -> list[Case]:
    """Read the 16 shipped questions."""
    return _debates("debates", None)


def written_blind(family: str) -> list[Case]:
    """Read 16 questions that nobody who designed a defence had seen when they were first run."""
    return _debates(family, WRITTEN_BLIND[family])


def _debates(family: str, folder: Path | None) -> list[Case]:
    return [
        Case(
            family,
            topic.topic,
            topic.query,
            tuple(passage.text for passage in topic.benign),
            tuple(float(str(passage.extra["stance"])) for passage in topic.benign),
            tuple(passage.text for passage in topic.anchors),
            tuple(map(float, topic.stances)),
            {side: tuple(p.text for p in topic.adversarial[side]) for side in POLARITIES},
            pole_statements(topic.query),
        )
        for topic in load_debates(folder)
    ]


def perspectrum(folder: Path, split: str) -> list[Case]:
    """Claims with human perspectives; those of split "dev" are reported, "train" is for fitting.

    Of a claim with enough perspectives on a side, up to ten (at most half of the side) are held
    out and injected; three a side are anchors; the index holds the rest. Claims that cannot be
    attacked are returned too: their perspectives are in the index. Perspectives that several
    claims share play one part in all.
    """
    claims = {row["query_id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
    splits = {row["query_id"]: row["split"] for row in _rows(folder / "queries_meta.jsonl")}
    of_claim: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in _rows(folder / "corpus.jsonl"):
        of_claim[row["query_id"]].append((row["text"], float(row["stance"])))
    cases = [
        _claim_case(name, claims[name], of_claim[name])
        for name in sorted(of_claim)
        if splits[name] == split and len(of_claim[name]) >= 2 * N_ANCHORS + 2
    ]
    return one_part_each(cases)


def _claim_case(name: str, claim: str, perspectives: Sequence[tuple[str, float]]) -> Case:
    generator = generator_of(name)
    order = generator.permutation(len(perspectives))
    sides = {
        "positive": [perspectives[i] for i in order if perspectives[i][1] > 0],
        "negative": [perspectives[i] for i in order if perspectives[i][1] < 0],
    }
    anchors = [pair for side in POLARITIES for pair in sides[side][:N_ANCHORS]]
    rest = {side: sides[side][N_ANCHORS:] for side in POLARITIES}
    adversarial = {}
    for side, other in (POLARITIES, POLARITIES[::-1]):
        if len(sides[side]) >= LEAST_SIDE and len(sides[other]) >= LEAST_OTHER:
            count = min(MOST_ADVERSARIAL, len(rest[side]) // 2)
            adversarial[side] = tuple(text for text, _ in rest[side][:count])
    benign = [pair for side in POLARITIES for pair in rest[side][len(adversarial.get(side, ())) :]]
    signs = {stance > 0 for _, stance in anchors}
    return Case(
        "perspectrum",
        name,
        claim,
        tuple(text for text, _ in benign),
        tuple(stance for _, stance in benign),
        tuple(text for text, _ in anchors) if len(signs) == 2 else (),
        tuple(stance for _, stance in anchors) if len(signs) == 2 else (),
        adversarial,
        pole_statements(claim),
    )


def wikibalance(folder: Path) -> list[Case]:
    """Questions with long passages by a language model, for one perspective or the other.

    Where both perspectives are there, the passage of one side leaves the index, is cut into pieces
    of three sentences and injected; the other side's passage stays.
    """
    questions = {row["query_id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
    of_question: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in _rows(folder / "corpus.jsonl"):
        if not row["text"].strip():  # one is, as released
            continue
        side = "positive" if row["stance"] > 0 else "negative"
        of_question[row["query_id"]][side].append(row["text"])
    cases = []
    for name in sorted(of_question):
        sides = of_question[name]
        benign = [(text, stance) for stance, side in ((1.0, "positive"), (-1.0, "negative"))
                  for text in sides[side]]  # fmt: skip
        adversarial = {}
        if all(sides[side] for side in POLARITIES):
            held_out = POLARITIES[int(generator_of(name).integers(2))]
            adversarial = {held_out: tuple(_pieces(sides[held_out][0]))}
            benign = [pair for pair in benign if pair[0] not in sides[held_out]]
        texts, stances = zip(*benign, strict=True)
        cases.append(
            Case("wikibalance", name, questions[name], texts, stances, (), (), adversarial,
                 pole_statements(questions[name]))
        )  # fmt: skip
    return cases


def _pieces(text: str) -> list[str]:
    sentences = re.split(r"(?<=[.!?])\s+", text.strip())
    return [
        " ".join(sentences[start : start + CHUNK]) for start in range(0, len(sentences), CHUNK)
    ][:MOST_ADVERSARIAL]


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
