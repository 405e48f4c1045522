"""Let a small model write reasons for and against the questions that `reasoned_axis.py` judges.

    python bench/write_reasons.py --external DIR --model model.gguf --cache FILE

Writes `bench/reasons.json`: what the model said, by family and id; nothing of the data set itself.
Asked are the 16 debates, each claim of Perspectrum's split dev that an axis can be judged on, and
a seeded part of those of split train that `choose_axis.py` judges: as many as there was time for.
Nobody has read the replies before they were used, and none was asked for twice.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from choose_axis import FOLDS, LEAST
from defense_frontier import MOST_CLAIMS
from defense_texts import Case, debates, perspectrum
from epibias.generators import CachedGenerator, Failure, GGUFGenerator, render, template
from epibias.generators.reasons import MOST_TOKENS, STOP

REASONS = Path(__file__).parent / "reasons.json"
TRAINING_CLAIMS, ORDER = 56, 7  # of those that can be judged; seed of their order
LEAST_BENIGN = 2  # passages a side, as in defense_axes.py
AT_ONCE = 4

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--external", type=Path, required=True, help="folder of the public data")
parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
parser.add_argument("--cache", type=Path, required=True, help="file of replies, with the prompts")


def training_claims(folder: Path) -> list[Case]:
    """Claims with enough perspectives a side, in a seeded order."""
    judged = [case for case in perspectrum(folder, "train")[:MOST_CLAIMS] if _is_rich(case)]
    by_fold = [case for fold in range(FOLDS) for case in judged[fold::FOLDS]]
    order = np.random.default_rng(ORDER).permutation(len(by_fold))
    return [by_fold[place] for place in order[:TRAINING_CLAIMS]]


def judged_claims(cases: Sequence[Case]) -> list[Case]:
    """Those whose benign passages an axis can be judged on, and that have anchors."""
    return [case for case in cases if case.anchors and min(_sides(case.stances)) >= LEAST_BENIGN]


def main() -> None:
    """Ask, and write."""
    options = parser.parse_args()
    folder = options.external / "perspectrum_dev"
    held_out = judged_claims(perspectrum(folder, "dev"))
    asked = {"debates": debates(), "perspectrum": [*held_out, *training_claims(folder)]}
    model = GGUFGenerator(
        options.model, context=1024, name="Qwen2.5-Coder-1.5B-Instruct Q4",
        reuse_context=True, parallel=AT_ONCE,
    )  # fmt: skip
    generator = CachedGenerator(model, options.cache)
    replies: dict[str, dict[str, str]] = {}
    for family, cases in asked.items():
        for start in range(0, len(cases), AT_ONCE):
            some = cases[start : start + AT_ONCE]
            prompts = [render("reasons", question=case.question) for case in some]
            found = generator.generate(prompts, max_tokens=MOST_TOKENS, stop=(STOP,))
            for case, reply in zip(some, found, strict=True):
                if isinstance(reply, Failure):
                    print(f"{family} {case.name}: {reply.reason}: {reply.message}", flush=True)
                else:
                    replies.setdefault(family, {})[case.name] = reply.text.strip()
    document = {
        "made_by": "python bench/write_reasons.py",
        "generator": dict(model.identity),
        "prompt": {"name": "reasons", "sha256": template("reasons").sha256},
        "asked": {family: len(cases) for family, cases in asked.items()},
        "replies": replies,
    }
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    REASONS.write_text(text, encoding="utf-8")


def _is_rich(case: Case) -> bool:
    own = dict(
        zip(("positive", "negative"), _sides((*case.stances, *case.anchor_stances)), strict=True)
    )
    return all(own[side] + len(case.adversarial.get(side, ())) >= LEAST for side in own)


def _sides(stances: Sequence[float]) -> tuple[int, int]:
    signs = np.sign(stances)
    return int((signs > 0).sum()), int((signs < 0).sum())


if __name__ == "__main__":
    main()
