"""What came out of `offline_run`: counts over its topics, and where two reports differ."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from epibias.nli import NLI

WORDS_SHOWN = 35


def shortened(text: str) -> str:
    """Give the first words of a passage, to the end of a sentence where one is near."""
    words = text.split()
    if len(words) <= WORDS_SHOWN:
        return text
    for n_words in range(WORDS_SHOWN, WORDS_SHOWN // 2, -1):
        if words[n_words - 1][-1] in ".?!":
            return " ".join(words[:n_words])
    return " ".join(words[:WORDS_SHOWN])


def summary(topics: dict[str, Any], anchors_wanted: int, adversarial_wanted: int) -> dict[str, Any]:
    """Count over topics what the page says of the small model."""
    anchors = [one for told in topics.values() for one in told["anchors"]]
    made = [one for told in topics.values() for one in told.get("adversarial", ())]
    answers = [one for told in topics.values() for one in told.get("answers", ())]
    sides = {"positive": 1, "negative": -1}
    told: dict[str, Any] = {
        "anchors": len(anchors),
        "anchors_wanted": anchors_wanted,
        "anchors_judged_on_their_side": sum(
            (one["judged"] or 0) * one["stance"] > 0 for one in anchors
        ),
        "anchors_on_their_side_by_nli": sum(
            (one["nli"] or 0) * one["stance"] > 0 for one in anchors
        ),
        "adversarial": len(made),
        "adversarial_wanted": adversarial_wanted,
        "adversarial_judged_on_their_side": sum(
            (one["judged"] or 0) * sides[one["polarity"]] > 0 for one in made
        ),
        "adversarial_on_their_side_by_nli": sum(
            (one["nli"] or 0) * sides[one["polarity"]] > 0 for one in made
        ),
        "answers": len(answers),
        "answers_without_text": sum(one["answer_ps"] is None for one in answers),
    }
    pairs = [(one["answer_ps"], one["judged"]) for one in answers if one["judged"] is not None]
    if len({ps for ps, _ in pairs}) > 1 and len({judged for _, judged in pairs}) > 1:
        both = np.array(pairs, dtype=np.float32).T
        told["spearman_answer_ps_and_judged"] = rounded(spearmanr(both[0], both[1]).statistic)
    kinds = sorted({(one["defense"], one["prompt"]) for one in answers})
    for (attack, side), kind in itertools.product(sides.items(), kinds):
        shifts = []
        for one in topics.values():
            ps = {
                a["attack"]: a["answer_ps"]
                for a in one.get("answers", ())
                if (a["defense"], a["prompt"]) == kind
            }
            if None not in (ps.get("clean"), ps.get(attack)):
                shifts.append((ps[attack] - ps["clean"]) * side)
        name = f"mean_shift_{attack}_{'_'.join(kind)}"
        told[name] = rounded(np.mean(shifts)) if shifts else None
    return told


def nli_stances(
    nli: NLI, poles: tuple[str, str] | None, texts: Sequence[str | None]
) -> list[float | None]:
    """Stance of each text by an NLI model, from -1 (con) to 1 (pro).

    Half of what it finds entailed less contradicted in the pro pole, less the same of the con pole.
    """
    if poles is None:
        return [None] * len(texts)
    real = [text for text in texts if text is not None]
    values = iter(
        (
            nli.probabilities(real, [poles[1]] * len(real))
            - nli.probabilities(real, [poles[0]] * len(real))
        )
        @ np.array([0.5, 0.0, -0.5])
    )
    return [None if text is None else rounded(next(values)) for text in texts]


def rounded(value: Any) -> Any:
    """Three decimals: what differs beyond is the processor's, not the run's."""
    if value is None:
        return None
    return np.round(np.asarray(value, dtype=np.float64), 3).tolist()


def differences(found: Any, kept: Any, path: str = "") -> list[str]:
    """Places where two reports differ, numbers by more than 0.002."""
    if isinstance(found, dict) and isinstance(kept, dict):
        return [
            line
            for key in sorted({*found, *kept})
            for line in differences(found.get(key), kept.get(key), f"{path}.{key}")
        ]
    if isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        pairs = enumerate(zip(found, kept, strict=True))
        return [line for n, (a, b) in pairs for line in differences(a, b, f"{path}[{n}]")]
    if isinstance(found, float) and isinstance(kept, float):
        return [] if abs(found - kept) <= 0.002 else [f"{path}: {found} and {kept}"]
    return [] if found == kept else [f"{path}: {found!r} and {kept!r}"]
