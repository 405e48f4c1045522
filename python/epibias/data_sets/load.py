"""One door to every question set: by name, or from a path whose layout is recognised by its files.

Owns names, and how a layout is told from another. What the files mean is each loader's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from epibias import _validate
from epibias.data_sets.beir_questions import UNKNOWN_LICENCE, beir_questions
from epibias.data_sets.debate_questions import debate_questions
from epibias.data_sets.flat_questions import flat_questions
from epibias.data_sets.hotpotqa import FILE as HOTPOTQA_FILE
from epibias.data_sets.hotpotqa import SPLIT as HOTPOTQA_SPLIT
from epibias.data_sets.hotpotqa import hotpotqa_file, hotpotqa_hub
from epibias.data_sets.own_jsonl import read_questions
from epibias.data_sets.perspectrum import CLAIMS, perspectrum_questions
from epibias.data_sets.procon import FILE as PROCON_FILE
from epibias.data_sets.procon import procon_questions
from epibias.data_sets.question_set import QuestionSet
from epibias.data_sets.reddit_dialogues import FILES as REDDIT_FILES
from epibias.data_sets.reddit_dialogues import reddit_dialogues
from epibias.data_sets.wiki_balance import wiki_balance_folder, wiki_balance_hub
from epibias.errors import InputError

NAMES = ("debates", "wiki-balance", "hotpotqa")


@dataclass(frozen=True)
class Layout:
    """A layout of files: how it is recognised, how it is read, and which options it takes.

    Parameters
    ----------
    matches : callable
        Whether a path is of this layout.
    read : callable
        Path, split (or None) and blank (or None) to a question set.
    options : tuple of str
        Those of "split" and "blank" that it has.
    """

    matches: Callable[[Path], bool]
    read: Callable[[Path, str | None, str | None], QuestionSet]
    options: tuple[str, ...] = ()


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda path: any((path / name).exists() for name in names)


def _has_all(*names: str) -> Callable[[Path], bool]:
    return lambda path: all((path / name).is_file() for name in names)


# The first that matches is taken: a flattened folder is a BEIR folder with a file more.
LAYOUTS: dict[str, Layout] = {
    "jsonl": Layout(
        lambda path: path.is_file() and path.suffix == ".jsonl",
        lambda path, _split, _blank: read_questions(path),
    ),
    "wiki-balance": Layout(
        _has("natural", "wiki-balance-natural"),
        lambda path, _split, blank: wiki_balance_folder(path, blank=blank or "skip"),
        ("blank",),
    ),
    "hotpotqa": Layout(
        lambda path: path.suffix == ".json" or (path / HOTPOTQA_FILE).is_file(),
        lambda path, _split, _blank: hotpotqa_file(path),
    ),
    "reddit-dialogues": Layout(
        _has(*REDDIT_FILES), lambda path, split, _: reddit_dialogues(path, split), ("split",)
    ),
    "procon": Layout(_has(PROCON_FILE), lambda path, _split, _blank: procon_questions(path)),
    "perspectrum": Layout(
        _has(CLAIMS), lambda path, split, _: perspectrum_questions(path, split), ("split",)
    ),
    "flat": Layout(
        _has_all("corpus.jsonl", "queries.jsonl", "queries_meta.jsonl"),
        lambda path, _split, blank: flat_questions(path, blank=blank or "error"),
        ("blank",),
    ),
    "beir": Layout(  # one of its files is enough to miss the other by name
        _has("corpus.jsonl", "queries.jsonl"),
        lambda path, split, blank: beir_questions(path, split, blank=blank or "error"),
        ("split", "blank"),
    ),
    "debates": Layout(
        lambda path: any(path.glob("*.jsonl")),
        lambda path, _split, _blank: debate_questions(path, licence=UNKNOWN_LICENCE),
    ),
}


def load_questions(
    name_or_path: Path | str = "debates",
    *,
    layout: str | None = None,
    split: str | None = None,
    blank: str | None = None,
    revision: str | None = None,
    licence: str | None = None,
) -> QuestionSet:
    """Load a question set.

    Parameters
    ----------
    name_or_path : str or Path
        "debates" (shipped), "wiki-balance" or "hotpotqa" (from the hub, extra ``hub``); or a
        folder or file of a layout that epibias reads.
    layout : str, optional
        One of `LAYOUTS`; recognised by the files without it.
    split : str, optional
        Part of the set, where the layout has such: BEIR, Reddit-Dialogues, Perspectrum, HotpotQA
        from the hub.
    blank : {"error", "skip"}, optional
        What to do with passages whose text is blank. Without it an error, except for WIKI-BALANCE,
        which is known to have some; those left out are noted.
    revision : str, optional
        Of the set on the hub.
    licence : str, optional
        Of files whose layout has no place for it.

    Returns
    -------
    QuestionSet

    Raises
    ------
    InputError
        A name that is not known, a path that is not there, an option that the layout does not
        have, a file that is not of its layout.
    MissingExtraError
        A set from the hub, without the package ``datasets``.

    Examples
    --------
    >>> debates = load_questions("debates")
    >>> debates.questions[0].text, debates.licence
    ('Should countries introduce a universal basic income?', 'Apache-2.0')
    """
    if blank is not None:
        _validate.choice("blank", blank, ("error", "skip"))
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in NAMES and layout is None:
        found = _named(name_or_path, split, blank, revision)
    else:
        _refuse("revision", revision, "no revision for files")
        if not path.exists():
            raise InputError(
                "name_or_path",
                f"a folder or file that exists, or one of {', '.join(NAMES)}",
                repr(str(name_or_path)),
            )
        chosen = _recognised(path) if layout is None else _layout(layout)
        for option, value in (("split", split), ("blank", blank)):
            if option not in LAYOUTS[chosen].options:
                _refuse(option, value, f"no {option} for the layout {chosen!r}")
        found = LAYOUTS[chosen].read(path, split, blank)
    if licence is None:
        return found
    if found.licence != UNKNOWN_LICENCE:
        raise InputError("licence", f"none: the set has {found.licence!r}", repr(licence))
    return replace(found, licence=licence)


def _named(name: str, split: str | None, blank: str | None, revision: str | None) -> QuestionSet:
    if name == "debates":
        for option, value in (("split", split), ("blank", blank), ("revision", revision)):
            _refuse(option, value, f"no {option} for 'debates'")
        return debate_questions()
    if name == "hotpotqa":
        _refuse("blank", blank, "no blank for 'hotpotqa'")
        return hotpotqa_hub(revision, split or HOTPOTQA_SPLIT)
    _refuse("split", split, "no split for 'wiki-balance'")
    return wiki_balance_hub(revision, blank=blank or "skip")


def _layout(name: str) -> str:
    return _validate.choice("layout", name, tuple(LAYOUTS))


def _recognised(path: Path) -> str:
    for name, layout in LAYOUTS.items():
        if layout.matches(path):
            return name
    expected = f"files of one of the layouts {', '.join(LAYOUTS)}"
    there = sorted(one.name for one in path.iterdir()) if path.is_dir() else [path.name]
    shown = ", ".join(there[:8]) or "an empty folder"
    raise InputError("name_or_path", expected, shown, str(path))


def _refuse(option: str, value: str | None, expected: str) -> None:
    if value is not None:
        raise InputError(option, expected, repr(value))
