"""The attacks on the shipped debates, with a real encoder: property table, checks, seconds.

Makes verbatim, PoisonedRAG, trigger and Topic-FlipRAG passages (spliced, without a generator) for
the 16 questions, and checks them beside the hand-written passages of the debates, which stand for
EBI. The table is computed with the PCA axis and with the ridge axis: with a small encoder the first
hardly hears stance. Exit code 1 when a check fails: copies of the question are not all relevant, a
question in front makes passages less relevant, a search exceeds its bound or is worse than where it
began, a limit of the edits is exceeded, or a second run gives another set.

`python bench/check_attacks.py [--evaluations N] [--out FILE]`; it needs the extra `demo`.
`python bench/attack_table.py` puts the table into docs/attacks.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import attack_table
from epibias.attacks import AdversarialPassage, AdversarialSet
from epibias.attacks.fliprag_editor import SplicingEditor
from epibias.attacks.properties import property_check
from epibias.attacks.question_copies import poisonedrag, verbatim
from epibias.attacks.token_search import SearchSettings
from epibias.attacks.topic_fliprag import FlipSettings, topic_fliprag
from epibias.attacks.trigger import trigger
from epibias.data_sets import Question, QuestionSet, load_questions
from epibias.encoder import PACKAGED_MODEL, SentenceTransformerEncoder
from epibias.errors import ValidityWarning
from epibias.polarization.question_axis import fitted_axis
from epibias.retrieval import CosineIndex

SIDES = ("positive", "negative")
OWN: dict[str, Any] = {"i_own_this_index": True}  # the shipped debates, in memory
METHODS = ("pca", "ridge")
N_EDITED = 2  # nearest benign passages that are edited, a question and side
N_TEXTS = 5  # one-sided texts a question and side that get a trigger


def hand_written(debates: QuestionSet) -> AdversarialSet:
    """Give the one-sided passages of the debates, as the reference for EBI."""
    return AdversarialSet(
        tuple(
            AdversarialPassage(passage, question.id, side, "ebi, hand-written")
            for question in debates.questions
            for side in SIDES
            for passage in question.adversarial[side]
        )
    )


def triggers(
    question: Question, others: list[str], encoder: Any, n_evaluations: int, problems: list[str]
) -> tuple[AdversarialSet, list[dict[str, Any]]]:
    """Trigger passages of a question, and how far the search came."""
    made, searches = [], []
    for side in SIDES:
        settings = SearchSettings(max_evaluations=n_evaluations)
        texts = question.adversarial[side][:N_TEXTS]
        found = trigger(
            question.id, [question.text], texts, side, encoder, other_questions=others,
            settings=settings, **OWN,
        )  # fmt: skip
        first, last = float(found.search.evaluations[0]), found.search.objective
        if found.search.n_evaluations > n_evaluations:
            problems.append(f"{question.id}: {found.search.n_evaluations} evaluations")
        if last < first:
            problems.append(f"{question.id}: objective fell from {first} to {last}")
        made.append(found.adversarial)
        facts = {"first": first, "last": last, "n_evaluations": found.search.n_evaluations}
        searches.append({"question_id": question.id, "polarity": side, **facts})
    return AdversarialSet.joined(made), searches


def flipped(
    question: Question, nearest: list[Any], encoder: Any, problems: list[str]
) -> AdversarialSet:
    """Topic-FlipRAG on the nearest benign passages, with sentences of the hand-written ones."""
    settings = FlipSettings(trigger_length=3, max_evaluations=40)
    axis = fitted_axis(question, encoder, "ridge")
    made = []
    for side in SIDES:
        editor = SplicingEditor([one.text for one in question.adversarial[side]], n=12, **OWN)
        found = topic_fliprag(
            question.id, [question.text], nearest, side, editor, encoder, axis, settings=settings,
            **OWN,
        )  # fmt: skip
        for one in found.passages:
            about: Any = one.provenance
            if about["similarity_to_original"] < 0.85 or abs(about["length_change"]) > 0.3:
                problems.append(f"{one.passage.id}: beyond a limit of the edits")
        made.append(found)
    return AdversarialSet.joined(made)


def main() -> int:
    """Make the sets, check them, write the document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evaluations", type=int, default=120)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/attacks.json")
    options = parser.parse_args()
    # An axis that hardly hears stance is what the two tables are about; it is said below.
    warnings.simplefilter("ignore", ValidityWarning)
    debates = load_questions("debates")
    kept = SentenceTransformerEncoder(PACKAGED_MODEL, cache=True, progress=False)
    tried = SentenceTransformerEncoder(PACKAGED_MODEL, cache=False, progress=False)
    problems: list[str] = []
    seconds: dict[str, float] = {}
    started = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        seconds[name] = round(time.perf_counter() - started, 1)
        started = time.perf_counter()
        print(f"{name}: {seconds[name]} s", flush=True)

    queries = kept.encode_queries([one.text for one in debates.questions])
    benign = kept.encode_passages(list(debates.corpus.encoded_texts))
    nearest = CosineIndex(benign).search(queries, k=N_EDITED).indices
    lap("encode the debates")
    sets = [hand_written(debates)]
    sets += [verbatim(one.id, one.text, **OWN) for one in debates.questions]
    sets += [
        poisonedrag(one.id, one.text, one.adversarial[side], side, **OWN)
        for one in debates.questions
        for side in SIDES
    ]
    lap("hand-written, verbatim, PoisonedRAG")
    searches: list[dict[str, Any]] = []
    for question in debates.questions:
        others = [one.text for one in debates.questions if one.id != question.id]
        made, found = triggers(question, others, tried, options.evaluations, problems)
        sets.append(made)
        searches += found
    lap("trigger searches")
    for question, rows in zip(debates.questions, nearest.tolist(), strict=True):
        passages = [debates.corpus[row] for row in rows]
        sets.append(flipped(question, passages, tried, problems))
    lap("Topic-FlipRAG, spliced")
    question = debates.questions[0]
    others = [one.text for one in debates.questions[1:]]
    again, _ = triggers(question, others, tried, options.evaluations, problems)
    whole = AdversarialSet.joined(sets)
    if again.passages != tuple(
        one for one in whole.passages if one.question_id == question.id and one.attack == "trigger"
    ):
        problems.append("a second trigger search gave another set")
    lap("one question's triggers again")
    tables = {method: property_check(whole, debates, kept, method=method) for method in METHODS}
    lap("property tables")
    relevant = {}
    for row in tables["pca"].rows:
        shares = row.shares
        relevant[row.attack, row.polarity] = shares["both"].mean + shares["only relevance"].mean
    if relevant["verbatim", "none"] != 1.0:
        problems.append("a copy of the question is not the most similar passage")
    problems += [
        f"{side}: the question in front made passages less relevant"
        for side in SIDES
        if relevant["poisonedrag", side] < relevant["ebi, hand-written", side]
    ]
    for method, table in tables.items():
        print(f"\nProperties with the {method} axis, %, 95 % intervals over 16 questions")
        print(attack_table.table(table.plain()["rows"]))
    gain = [one["last"] - one["first"] for one in searches]
    print(f"\ntrigger objective: mean gain {sum(gain) / len(gain):.3f} in {len(gain)} searches")
    print(f"Topic-FlipRAG: refused {whole.rejections}")
    document = {
        "command": "python bench/check_attacks.py",
        "encoder": {name: kept.identity[name] for name in ("name", "revision")},
        "data": "debates",
        "options": {"evaluations": options.evaluations, "n_edited": N_EDITED, "n_texts": N_TEXTS},
        "seconds": seconds,
        "tables": {method: table.plain()["rows"] for method, table in tables.items()},
        "searches": searches,
        "rejections": dict(whole.rejections),
        "problems": problems,
    }
    options.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for problem in problems:
        print(f"PROBLEM: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
