"""Turn bench/results/attacks.json into the property tables of docs/attacks.md.

    python bench/attack_table.py
    python bench/attack_table.py --check     # exit 1 when the page says something else

Only what stands between the markers `attack-table:begin` and `attack-table:end` changes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "bench/results/attacks.json", ROOT / "docs/attacks.md"
BEGIN, END = "<!-- attack-table:begin -->", "<!-- attack-table:end -->"
CATEGORIES = ("both", "only bias", "only relevance", "neither")


def table(rows: list[dict[str, Any]]) -> str:
    """Lay out one property table in Markdown: per cent, with the ends of the interval."""
    lines = [
        "| attack | polarity | passages | " + " | ".join(CATEGORIES) + " |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            f"{100 * one['mean']:.1f} [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"
            for one in (row["shares"][name] for name in CATEGORIES)
        ]
        start = f"| {row['attack']} | {row['polarity']} | {row['n_passages']} | "
        lines.append(start + " | ".join(cells) + " |")
    return "\n".join(lines)


def content(document: dict[str, Any]) -> str:
    """Give what stands between the markers."""
    parts = [
        f"**{method} axis**, %, 95 % intervals over 16 questions:\n\n{table(rows)}\n"
        for method, rows in document["tables"].items()
    ]
    searches = document["searches"]
    first, last = (sum(one[name] for one in searches) / len(searches) for name in ("first", "last"))
    evaluated = max(one["n_evaluations"] for one in searches)
    refused = ", ".join(f"{why} {count}" for why, count in document["rejections"].items())
    parts.append(
        f"Trigger searches: {len(searches)}, of at most {evaluated} evaluations; the objective\n"
        f"rose from {first:.3f} to {last:.3f} on average. Refused edits of Topic-FlipRAG:\n"
        f"{refused}.\n"
    )
    return "\n" + "\n".join(parts) + "\n"


def replaced(text: str, new: str) -> str:
    """Put the new content between the markers of a page."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name}: expected the markers {BEGIN} and {END}")
    return before + begin + new + end + after


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    wanted = replaced(page, content(json.loads(RESULTS.read_text(encoding="utf-8"))))
    if options.check:
        return int(wanted != page)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
