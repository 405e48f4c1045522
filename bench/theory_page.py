"""Put the tables and figures of a theory run into docs/theory.md.

Run `epibias bench theory --out runs/theory`, copy theory.json to bench/results, then
`python bench/theory_page.py`: it makes the part between the two marks and the charts anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from epibias.experiment.theory_page import markdown, theory_page

ROOT = Path(__file__).parents[1]
START, END = "<!-- made by bench/theory_page.py -->", "<!-- end -->"


def main() -> None:
    document = json.loads((ROOT / "bench" / "results" / "theory.json").read_text("utf-8"))
    path = ROOT / "docs" / "theory.md"
    before, rest = path.read_text(encoding="utf-8").split(START)
    after = rest.split(END)[1]
    made = f"{START}\n\n{markdown(document)}\n\n{END}"
    path.write_text(f"{before}{made}{after}", encoding="utf-8")
    page = theory_page(document)
    images = ROOT / "docs" / "images"
    (images / "theory-bounds.svg").write_text(page.chart.svg(), encoding="utf-8")
    for name, chart, _ in page.more_charts:
        (images / f"theory-{name}.svg").write_text(chart.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
