"""Rewrite the results table in README.md from a run folder of `epibias demo`.

    python bench/readme_table.py runs/demo
    python bench/readme_table.py runs/demo --check     # exit 1 when README says something else

The table stands between the markers `demo-table:begin` and `demo-table:end`; nothing else changes.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- demo-table:begin -->", "<!-- demo-table:end -->"


def table(folder: Path) -> str:
    """Give what belongs between the markers: both main tables, and what they were made with."""
    if not (folder / "complete.json").is_file():
        raise SystemExit(f"{folder}: expected a finished run (complete.json), got none")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    marker = json.loads((folder / "complete.json").read_text(encoding="utf-8"))
    settings = manifest["settings"]
    with (folder / "tables" / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    n_decoys = next(
        row["n"]
        for row in rows
        if (row["defense"], row["condition"], row["polarity"], row["metric"])
        == ("none", "decoys", "both", "adversarial_precision")
    )
    encoder, code = settings["encoder"], settings["code"]
    commit = manifest["sessions"][0]["environment"]["commit"]
    source = f"commit {commit[:12]}" if commit else f"code {code['code_sha256'][:12]}"
    made = (
        f"Encoder `{encoder['name']}` ({encoder['dim']} dimensions), "
        f"{len(settings['topics'])} topics, {marker['n_rows']} cells, {source}. Decoys exist on "
        f"{n_decoys} of the topics; the others are left out of that column. More metrics, and "
        "how far each axis carries stance: `report.html`."
    )
    tables = (folder / "tables" / "results.md").read_text(encoding="utf-8").strip()
    return f"{tables}\n\n{made}"


def replaced(text: str, content: str) -> str:
    """Give README's text with other content between the markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md: expected the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{content}\n{END}{after}"


def main() -> int:
    """Rewrite, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it differs")
    arguments = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    new = replaced(text, table(arguments.run))
    if arguments.check:
        return int(new != text)
    temporary = README.with_suffix(".tmp")
    temporary.write_text(new, encoding="utf-8")
    temporary.replace(README)
    return 0


if __name__ == "__main__":
    sys.exit(main())
