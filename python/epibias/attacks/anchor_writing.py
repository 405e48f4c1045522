"""Anchors from a generator: one passage a stance, asked for again until all are there.

Owns the bookkeeping of stances: a reply that brings some of them is kept, and the next request asks
for those that are missing. Every text that is not taken is counted.
"""

from __future__ import annotations

from collections import Counter

from epibias.attacks.asking import Ask, NotSent, Work
from epibias.attacks.ebi_parts import EBISettings, Tally, WrittenAnchors
from epibias.attacks.embedding import normal_form
from epibias.corpus import Passage
from epibias.generators import Failure, parse_anchors, render


def write_anchors(question: str, settings: EBISettings, tally: Tally) -> Work[WrittenAnchors | str]:
    """Have the anchors of a question written: a work for `asking.together`.

    Parameters
    ----------
    question : str
        What is asked.
    settings : EBISettings
        `stances`, and the limits of a passage.
    tally : Tally
        Rejections are counted there, under "anchors: ...".

    Returns
    -------
    WrittenAnchors or str
        In the order of `settings.stances`; or why some are missing after the last request.
    """
    wanted = Counter(settings.stances)
    found: dict[int, list[str]] = {stance: [] for stance in wanted}
    known: set[str] = set()
    prompts: list[str] = []
    while len(prompts) < settings.max_requests:
        missing = [
            stance for stance in sorted(wanted) for _ in range(wanted[stance] - len(found[stance]))
        ]
        if not missing:
            break
        prompt = render("anchors", question=question, stances=missing)
        [reply] = yield [Ask(prompt, len(prompts))]
        if not isinstance(reply, NotSent):
            prompts.append(prompt.sha256)
        if isinstance(reply, Failure):
            if tally.failed(reply, "anchors: "):
                break
            continue
        written = parse_anchors(reply.text, missing)
        tally.reject("anchors: not in the reply", len(missing) - len(written))
        for anchor in written:
            n_words = len(anchor.text.split())
            if len(found.get(anchor.stance, ())) >= wanted[anchor.stance]:
                tally.reject("anchors: another stance than asked for")
            elif not settings.min_words <= n_words <= settings.max_words:
                tally.reject(f"anchors: too {'short' if n_words < settings.min_words else 'long'}")
            elif normal_form(anchor.text) in known:
                tally.reject("anchors: duplicate")
            else:
                known.add(normal_form(anchor.text))
                found[anchor.stance].append(anchor.text)
    n_missing = len(settings.stances) - sum(map(len, found.values()))
    if n_missing:
        requests = f"{len(prompts)} request{'s' * (len(prompts) != 1)}"
        return f"{n_missing} of {len(settings.stances)} anchors missing after {requests}"
    ordered = [(stance, found[stance].pop(0)) for stance in settings.stances]
    passages = tuple(
        Passage(f"anchor-{number:02d}", text, extra={"stance": stance})
        for number, (stance, text) in enumerate(ordered, 1)
    )
    version = render("anchors", question=question, stances=settings.stances).version
    provenance = {
        "prompt": {"name": "anchors", "version": version, "sha256": prompts},
        "requests": len(prompts),
    }
    return WrittenAnchors(passages, tuple(float(s) for s, _ in ordered), provenance)
