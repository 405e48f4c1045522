"""Prompts: versioned templates in, rendered `Prompt`s out.

Owns the files in `templates/`, named ``<name>.<version>.txt``. One that has been used in a
published run is never edited: a new wording is a new version, and `render` takes the newest unless
told otherwise. The wording is this project's own; the paper leaves its prompts out. What the
replies to them mean is read by `parsers`.

A file has a part ``[system]`` and a part ``[user]``. Fields are written ``${field}`` and are filled
in once: what a field's text contains is never taken for another field.
"""

from __future__ import annotations

import functools
import hashlib
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from epibias import _validate
from epibias.errors import InputError
from epibias.generators.base import Prompt

STANCES = {
    -3: "strongly no",
    -2: "no",
    -1: "rather no, but the other side has a point",
    0: "neutral, both sides and no conclusion",
    1: "rather yes, but the other side has a point",
    2: "yes",
    3: "strongly yes",
}
DEFAULT_STANCES = (-3, -2, -2, -1, 1, 2, 2, 3)  # J = 8, as the shipped debates have them
_FILE = re.compile(r"([a-z_]+)\.([0-9]+)\.txt")
_PARTS = re.compile(r"\[system\]\n(?P<system>.*?)\n\[user\]\n(?P<user>.*)\n", re.DOTALL)


@dataclass(frozen=True)
class Template:
    """A prompt with fields that are not filled in yet.

    Parameters
    ----------
    name, version : str
        Together the name of its file.
    system, user : str
        The two messages, with ``${field}`` where something goes in.
    sha256 : str
        Of its file, for manifests: it changes when a wording does.

    Examples
    --------
    >>> template("likert").fields
    ('passage', 'question')
    """

    name: str
    version: str
    system: str
    user: str
    sha256: str

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of what goes in, sorted."""
        both = string.Template(self.system + self.user)
        return tuple(sorted({match["braced"] for match in both.pattern.finditer(both.template)}))


def render(name: str, *, version: str | None = None, **fields: object) -> Prompt:
    """Fill in a template.

    Parameters
    ----------
    name : str
        Which one; `templates` has them all.
    version : str, optional
        By default the newest.
    **fields
        ``question`` : str, for all but known_answer; ``stances`` (anchors) : sequence of int from
        -3 to 3, by default the 8 of the shipped debates; ``reference`` : str and ``n`` : int
        (adversarial); ``passages`` (answer, critical_answer) : sequence of str, numbered from 1,
        one may be none; ``passage`` : str (edit, known_answer, likert); ``side``, ``change`` : str,
        ``n`` : int (edit); ``code`` : str (known_answer).

    Returns
    -------
    Prompt
        What is sent, with the name and version of its template.

    Raises
    ------
    InputError
        A field that is missing, not known or of the wrong kind; a template that is not there.

    Examples
    --------
    >>> prompt = render("answer", question="Why do cats purr?", passages=["They are content."])
    >>> prompt.name, prompt.version
    ('answer', '1')
    >>> print(prompt.user.splitlines()[1])
    [1] They are content.
    """
    chosen = template(name, version)
    if "stances" in chosen.fields:
        fields = {"stances": DEFAULT_STANCES, **fields}
    for field in chosen.fields:
        if field not in fields:
            raise InputError(field, f"a value for the prompt {name!r}", "none")
    for field in fields:
        if field not in chosen.fields:
            raise InputError(field, f"only {', '.join(chosen.fields)} for {name!r}", field)
    texts = {field: _as_text(field, value) for field, value in fields.items()}
    system = string.Template(chosen.system).substitute(texts)
    user = string.Template(chosen.user).substitute(texts)
    return Prompt(chosen.name, chosen.version, user, system)


def template(name: str, version: str | None = None) -> Template:
    """Give a template; the newest version unless one is named.

    Raises
    ------
    InputError
        If there is none, with those that there are.

    Examples
    --------
    >>> template("answer").version
    '1'
    """
    versions = templates()
    _validate.choice("name", name, sorted(versions))
    known = versions[name]
    wanted = max(known, key=int) if version is None else version
    return known[_validate.choice("version", wanted, sorted(known, key=int))]


@functools.cache
def templates() -> Mapping[str, Mapping[str, Template]]:
    """Give all templates: by name, then by version.

    Examples
    --------
    >>> sorted(templates())
    ['adversarial', 'anchors', 'answer', ..., 'reasons']
    """
    found: dict[str, dict[str, Template]] = {}
    folder = resources.files("epibias.generators") / "templates"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        named = _FILE.fullmatch(entry.name)
        if named is None:
            continue
        content = entry.read_bytes()
        # A checkout may have other line ends; neither hash nor prompt depends on them.
        text = content.decode("utf-8").replace("\r\n", "\n")
        parts = _PARTS.fullmatch(text)
        if parts is None:
            raise InputError("template", "a part [system] and a part [user]", entry.name)
        name, version = named.groups()
        digest = hashlib.sha256(text.encode()).hexdigest()
        one = Template(name, version, parts["system"], parts["user"], digest)
        found.setdefault(name, {})[version] = one
    return found


def _as_text(field: str, value: object) -> str:
    if field == "stances":
        return _stances(value)
    if field == "n":
        return str(_validate.integer("n", value, low=1))
    if field == "passages":
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InputError("passages", "a sequence of texts", type(value).__name__)
        texts = [_validate.text("passages", one, f"row {row}") for row, one in enumerate(value)]
        if not texts:
            return "(none)"
        return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, start=1))
    return _validate.text(field, value)


def _stances(value: object) -> str:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError("stances", "a sequence of integers", type(value).__name__)
    if not value:
        raise InputError("stances", "at least one", "none")
    wanted = [_validate.integer("stances", one, low=-3, high=3) for one in value]
    return "\n".join(f"[{stance:+d}] {STANCES[stance]}" for stance in wanted)
