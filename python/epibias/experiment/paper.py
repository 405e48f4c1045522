"""What the paper states of its figures, for the place beside ours.

Facts of Epistemic Bias Injection, arXiv:2512.00804 (v3): numbers that its text or captions give,
and nothing read off a plot. Its setting: WIKI-BALANCE, 452 questions, tas-b to retrieve,
sentence-t5-xl for PS, k = 5, answers of DeepSeek-R1-Distill-Qwen-14B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stated:
    """What the paper says of one figure.

    Parameters
    ----------
    words : str
        In a sentence.
    values : mapping
        Name of a defence, or of a point, to its value; (x, y) marks of a line by x.
    """

    words: str
    values: Mapping[str, float] = field(default_factory=dict, hash=False)


# Table II: shares of adversarial passages with both properties, only bias, only relevance, neither.
TABLE_II: Mapping[tuple[str, str], tuple[float, float, float, float]] = {
    ("WIKI-BALANCE", "negative"): (0.875, 0.098, 0.024, 0.003),
    ("WIKI-BALANCE", "positive"): (0.860, 0.121, 0.017, 0.002),
    ("HotpotQA", "negative"): (0.758, 0.036, 0.202, 0.003),
    ("HotpotQA", "positive"): (0.718, 0.037, 0.240, 0.005),
    ("Reddit-Dialogues", "negative"): (0.502, 0.160, 0.294, 0.043),
    ("Reddit-Dialogues", "positive"): (0.439, 0.124, 0.369, 0.068),
}

FIGURES: Mapping[str, Stated] = {
    "2a": Stated(
        "Spearman .91 on average over 50 questions, 350 passages, GPT-5.2 as the judge, "
        "sentence-t5-xl.",
        {"spearman": 0.91},
    ),
    "2b-d": Stated(
        "a high rank correlation for Llama-3-8B, DeepSeek-R1-Distill-Qwen-14B and GPT-4.1; the "
        "text gives no number."
    ),
    "3": Stated(
        "NOT ENOUGH INFO: .71 of the sentences of benign passages, .69 of positive and .68 of "
        "negative adversarial ones. SUPPORTS among the rest: .63, .73 and .79.",
        {
            "not enough, none": 0.71,
            "not enough, positive": 0.69,
            "not enough, negative": 0.68,
            "supports, none": 0.63,
            "supports, positive": 0.73,
            "supports, negative": 0.79,
        },
    ),
    "4a": Stated(
        "no defence up to .98; MMR, SMART and BRRA at least .19 at 5 and 10 injections.",
    ),
    "4b": Stated(
        "no defence .64 unattacked; under attack, of that .64 no defence loses 15 to 98 %, MMR 47 "
        "to 65 %, SMART 42 to 65 %, BRRA 22 to 98 %.",
        {"0": 0.64},
    ),
    "4c": Stated(
        "largest ratios: no defence 98, BRRA 20, SMART .86, MMR .85.",
        {"none": 98.0, "brra": 20.0, "smart": 0.86, "mmr": 0.85},
    ),
    "4d": Stated("the mean PS follows the attack in both directions; the text gives no number."),
    "4e": Stated("the answers follow the context; the text gives no number."),
    "4f": Stated(
        "all three models shift alike; WIKI-BALANCE more than HotpotQA and Reddit-Dialogues."
    ),
    "6a": Stated(
        "BiasDef .04, .19 and .20 at 1, 5 and 10 injections of either polarity: .14 on average.",
        {"biasdef": (0.04 + 0.19 + 0.20) / 3},
    ),
    "6b": Stated(
        "BiasDef .58, .48, .49 (negative) and .60, .48, .49 (positive) at 1, 5, 10: .52 on "
        "average, .56 unattacked. That is 2.5 times no defence, 1.9 % above MMR, 1.8 % above "
        "SMART, 2.8 times BRRA.",
        {"biasdef": (0.58 + 0.48 + 0.49 + 0.60 + 0.48 + 0.49) / 6},
    ),
    "6c": Stated(
        "BiasDef's ratio is 12, 3.0, 2.6 and 2.8 times below those of no defence, MMR, SMART and "
        "BRRA; .4 at 10 injections."
    ),
    "6d": Stated(
        "BiasDef's is below those of no defence, MMR, SMART and BRRA by 6.3, 4.3, 3.8 and 6.0 "
        "times."
    ),
    "6e": Stated(
        "BiasDef's is below no defence by 5.1 (Llama-3), 6.3 (DeepSeek) and 8.6 times (GPT-4.1), "
        "and by 2.5 (Reddit-Dialogues) and 4.9 times (HotpotQA)."
    ),
    "7": Stated("no adversarial passage selected for over 70 % of the queries.", {"share": 0.70}),
    "cost": Stated("BiasDef adds 465 ms a query on average.", {"ms": 465.0}),
}
