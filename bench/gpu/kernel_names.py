"""Kernels by the names that a reader knows: from `_ZN7epibias4cuda…` to `scan_passages<5, …>`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable

_NAMESPACES = re.compile(r"(\(anonymous namespace\)|\w+)::")
_CAST = re.compile(r"\(\w+\)(?=-?\d)")  # an enumerator as a template argument: (ScanPath)5


def short_names(mangled: Iterable[str]) -> dict[str, str]:
    """Give each linker name's short one: namespaces, result and arguments left out."""
    names = list(dict.fromkeys(mangled))
    if not names:
        return {}
    command = ["c++filt", "--no-params", *names]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(names, map(_short, lines), strict=True))


def base_name(short: str) -> str:
    """Give the function's name without its template arguments."""
    return short.partition("<")[0]


def _short(demangled: str) -> str:
    demangled = _NAMESPACES.sub("", demangled)
    head, _, arguments = demangled.partition("<")
    name = head.rsplit(" ", 1)[-1].partition("(")[0]
    if not arguments:
        return name
    inside = arguments[: arguments.rindex(">")].rstrip()
    return f"{name}<{_CAST.sub('', inside).replace(' >', '>')}>"
