"""Anchors from a generator: one passage a stance, asked for again until all are there.

Owns the bookkeeping of stances: a reply that brings some of them is kept, and the next request asks
for those that are missing. Every text that is not taken is counted.
"""

from __future__ import annotations

from collections import Counter

from epibias.attacks.ebi_parts import EBISettings, WrittenAnchors
from epibias.attacks.embedding import normal_form
from epibias.corpus import Passage
from epibias.generators import Failure, Generator, parse_anchors, render


def write_anchors(
    question: str, generator: Generator, settings: EBISettings, rejections: dict[str, int]
) -> WrittenAnchors | str:
    """Have the anchors of a question written.

    Parameters
    ----------
    question : str
        What is asked.
    generator : Generator
        Writes them.
    settings : EBISettings
        `stances`, the limits of a passage and the parameters of the generator.
    rejections : dict
        Reasons to counts; added to, under "anchors: ...".

    Returns
    -------
    WrittenAnchors or str
        In the order of `settings.stances`; or why some are missing after the last request.
    """
    wanted = Counter(settings.stances)
    found: dict[int, list[str]] = {stance: [] for stance in wanted}
    known: set[str] = set()
    prompts: list[str] = []

    def reject(reason: str, count: int = 1) -> None:
        if count > 0:
            rejections[f"anchors: {reason}"] = rejections.get(f"anchors: {reason}", 0) + count

    requests = 0
    while requests < settings.max_requests:
        missing = [
            stance for stance in sorted(wanted) for _ in range(wanted[stance] - len(found[stance]))
        ]
        if not missing:
            break
        prompt = render("anchors", question=question, stances=missing)
        prompts.append(prompt.sha256)
        reply = generator.generate(
            [prompt],
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            repeat=requests,
        )[0]
        requests += 1
        if isinstance(reply, Failure):
            reject(f"generator: {reply.reason}")
            continue
        written = parse_anchors(reply.text, missing)
        reject("not in the reply", len(missing) - len(written))
        for anchor in written:
            n_words = len(anchor.text.split())
            if len(found.get(anchor.stance, ())) >= wanted[anchor.stance]:
                reject("another stance than asked for")
            elif not settings.min_words <= n_words <= settings.max_words:
                reject("too short" if n_words < settings.min_words else "too long")
            elif normal_form(anchor.text) in known:
                reject("duplicate")
            else:
                known.add(normal_form(anchor.text))
                found[anchor.stance].append(anchor.text)
    n_missing = len(settings.stances) - sum(map(len, found.values()))
    if n_missing:
        return f"{n_missing} of {len(settings.stances)} anchors missing after {requests} requests"
    ordered = [(stance, found[stance].pop(0)) for stance in settings.stances]
    passages = tuple(
        Passage(f"anchor-{number:02d}", text, extra={"stance": stance})
        for number, (stance, text) in enumerate(ordered, 1)
    )
    version = render("anchors", question=question, stances=settings.stances).version
    provenance = {
        "prompt": {"name": "anchors", "version": version, "sha256": prompts},
        "requests": requests,
    }
    return WrittenAnchors(passages, tuple(float(s) for s, _ in ordered), provenance)
