"""The steps of `offline_run`: what is written, what is answered, what is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from epibias.generators import (
    Failure,
    Generator,
    Prompt,
    parse_anchors,
    parse_likert,
    parse_poles,
    render,
)
from epibias.nli import NLI
from epibias.polarization import PolarizationAxis
from offline_report import nli_stances, rounded, shortened, summary

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
COUNTED = {"truncated": "cut off", "empty": "blank", "down": "not asked yet"}  # "down": offline
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
        self.known_poles: dict[str, tuple[str, str] | None] = {}
        self.failures: dict[str, int] = {}
        self.n_asked: dict[str, int] = {}

    def report(self) -> dict[str, Any]:
        """Do all of it: what is written, what is answered, what is judged."""
        anchors = self.anchors()
        with ThreadPoolExecutor(len(self.topics)) as pool:  # a model answers several at a time
            made = pool.map(lambda topic: self.attack(topic, anchors[topic.topic]), self.topics)
            attacked = dict(zip((topic.topic for topic in self.topics), made, strict=True))
        told = {name: one.told for name, one in attacked.items()}
        self.tell("judging what was written")
        for topic in self.topics:
            one = attacked[topic.topic]
            texts: list[str | None] = [text for _, text in anchors[topic.topic]]
            if one.made is not None:
                texts += [passage.passage.text for passage in one.made.passages]
            self.judge(topic, texts, [*one.told["anchors"], *one.told.get("adversarial", ())])
        answers = self.answers({name: one for name, one in attacked.items() if one.axis})
        self.tell("judging what was answered")
        for topic in self.topics:
            if topic.topic in answers:
                self.judge(topic, answers[topic.topic], told[topic.topic]["answers"])
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
        told: dict[str, Any] = {
            "question": topic.query,
            "anchors": [{"stance": stance} for stance in stances],
        }
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
        for anchor, ps in zip(told["anchors"], axes["ridge"].score(rows), strict=True):
            anchor["ps"] = rounded(ps)
        told |= {
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
        self, topic: DebateTopic, texts: Sequence[str | None], rows: Sequence[dict[str, Any]]
    ) -> None:
        """Have both models judge the stance of texts, and note it in their rows."""
        scores = self.likert(topic, texts)
        stances = nli_stances(self.nli, self.poles(topic), texts)
        for row, score, stance in zip(rows, scores, stances, strict=True):
            row["judged"], row["nli"] = score, stance

    def poles(self, topic: DebateTopic) -> tuple[str, str] | None:
        if topic.topic in self.known_poles:
            return self.known_poles[topic.topic]
        prompt = render("poles", question=topic.query)
        [text] = self.ask("poles", [prompt], 0.0, 100, (), 0)
        poles = None if text is None else parse_poles(text)
        if text is not None and poles is None:
            self.count("poles: not in the form asked for")
        self.known_poles[topic.topic] = poles
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
            if isinstance(result, Failure) and result.reason not in COUNTED:
                raise SystemExit(f"{kind}: {result.reason}: {result.message}")
            if isinstance(result, Failure):
                self.count(f"{kind}: {COUNTED[result.reason]}")
            texts.append(None if isinstance(result, Failure) else result.text)
        return texts

    def count(self, what: str) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1
