"""Tables of a TOML file, read key by key.

Owns the messages: every error names the file, the key with its place, what was expected and what
was found; a key that nobody asked for is an error too, since it is a misspelt one.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from epibias import _validate
from epibias._plain import described
from epibias.errors import InputError

Value = TypeVar("Value")
REQUIRED: Any = object()


class Reader:
    """One table, with its place in the file; `finish` refuses the keys that were not read.

    Parameters
    ----------
    values : mapping
        The table.
    place : str
        Where it stands, such as "dataset[0]"; "" for the file's own keys.
    where : str
        The file.

    Examples
    --------
    >>> reader = Reader({"name": "debates", "k": 0}, "dataset[0]", "run.toml")
    >>> reader.text("name")
    'debates'
    >>> reader.integer("k", low=1)
    Traceback (most recent call last):
        ...
    epibias.errors.InputError: dataset[0].k: expected an integer of at least 1, got 0 (run.toml)
    """

    def __init__(self, values: Mapping[str, Any], place: str, where: str) -> None:
        self._values, self.place, self.where = dict(values), place, where
        self._known: list[str] = []

    def name_of(self, key: str) -> str:
        """Full name of a key."""
        return f"{self.place}.{key}" if self.place else key

    def error(self, key: str, expected: str, got: str) -> InputError:
        """Make an error about a key."""
        return InputError(self.name_of(key), expected, got, self.where)

    def has(self, key: str) -> bool:
        """Whether a key stands there; it need not be read for that."""
        return key in self._values

    def text(self, key: str, default: Any = REQUIRED) -> Any:  # noqa: ANN401  str, or the default
        """Read a text that is not blank."""
        return self._take(key, default, lambda name, value: _validate.text(name, value))

    def integer(
        self,
        key: str,
        default: Any = REQUIRED,  # noqa: ANN401
        *,
        low: int | None = None,
        high: int | None = None,
    ) -> Any:  # noqa: ANN401  int, or the default
        """Read an integer within bounds."""
        return self._take(
            key, default, lambda name, value: _validate.integer(name, value, low=low, high=high)
        )

    def number(
        self,
        key: str,
        default: Any = REQUIRED,  # noqa: ANN401
        *,
        low: float | None = None,
        high: float | None = None,
    ) -> Any:  # noqa: ANN401  float, or the default
        """Read a finite number within bounds."""
        return self._take(
            key, default, lambda name, value: _validate.number(name, value, low=low, high=high)
        )

    def flag(self, key: str, default: Any = REQUIRED) -> Any:  # noqa: ANN401  bool, or the default
        """Read true or false."""
        return self._take(key, default, _validate.flag)

    def choice(
        self,
        key: str,
        options: Sequence[str],
        default: Any = REQUIRED,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401  str, or the default
        """Read one of some words."""
        return self._take(key, default, lambda name, value: _validate.choice(name, value, options))

    def values(
        self,
        key: str,
        check: Callable[[str, Any], Value],
        default: Sequence[Value] = REQUIRED,
    ) -> tuple[Value, ...]:
        """Read an array of different values, at least one."""

        def checked(name: str, value: object) -> tuple[Value, ...]:
            if not isinstance(value, list) or not value:
                raise InputError(name, "an array with at least one value", described(value))
            found = [check(f"{name}[{place}]", one) for place, one in enumerate(value)]
            if len(set(found)) < len(found):
                raise InputError(name, "each value once", repr(value))
            return tuple(found)

        found: tuple[Value, ...] = self._take(key, default, checked)
        return tuple(found)

    def table(self, key: str) -> Reader | None:
        """Read a table below this one; None where there is none."""
        value = self._take(key, None, _mapping)
        return None if value is None else Reader(value, self.name_of(key), self.where)

    def mapping(self, key: str) -> dict[str, Any]:
        """Read a table as it stands, for somebody else to check; empty where there is none."""
        found: dict[str, Any] = self._take(key, {}, _mapping)
        return dict(found)

    def tables(self, key: str, *, needed: bool = False) -> list[Reader]:
        """Read an array of tables, `[[key]]`."""

        def checked(name: str, value: object) -> list[Mapping[str, Any]]:
            if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
                raise InputError(name, f"tables, each under [[{key}]]", described(value))
            if needed and not value:
                raise InputError(name, f"at least one table [[{key}]]", "none")
            return value

        found = self._take(key, REQUIRED if needed else [], checked, f"a table [[{key}]]")
        return [
            Reader(one, self.name_of(f"{key}[{place}]"), self.where)
            for place, one in enumerate(found)
        ]

    def finish(self) -> None:
        """Refuse what was not read."""
        for key in self._values:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                expected = f"one of {', '.join(sorted(self._known))}{hint}"
                raise InputError(self.name_of(key), expected, "a key that is not known", self.where)

    def _take(
        self,
        key: str,
        default: Any,  # noqa: ANN401
        check: Callable[[str, Any], Any],
        expected: str = "a value",
    ) -> Any:  # noqa: ANN401
        self._known.append(key)
        if key not in self._values:
            if default is REQUIRED:
                raise self.error(key, expected, "nothing")
            return default
        try:
            return check(self.name_of(key), self._values[key])
        except InputError as error:
            raise InputError(error.argument, error.expected, error.got, self.where) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    InputError
        A file that cannot be read, or is no TOML: with the line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("configuration", "a file that can be read", found, str(path)) from None
    module = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    toml = _validate.extra("bench run", module, "index")
    try:
        text = content.decode("utf-8")
        values: dict[str, Any] = toml.loads(text)
    except (UnicodeDecodeError, toml.TOMLDecodeError) as error:
        raise InputError("configuration", "TOML", str(error), str(path)) from None
    return values


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(name, "a table", described(value))
    return value
