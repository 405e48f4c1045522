"""What a compiled module refuses, as `InputError`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from epibias.errors import InputError

_MESSAGE = re.compile(
    r"(?P<argument>[^:]+): expected (?P<expected>.*), got (?P<got>.*?)"
    r"(?: \((?P<where>[^()]*)\))?",
    re.DOTALL,
)
_FUNCTION = re.compile(r"(?P<name>\w+)\(\)")


@contextmanager
def core_errors() -> Iterator[None]:
    """Give a module's `argument: expected …, got … (where)` back as its parts."""
    try:
        yield
    except InputError:
        raise
    except TypeError as error:
        # The binding's own message prints every argument, and embeddings are private.
        name = _FUNCTION.match(str(error))
        argument = name["name"] if name else "arguments"
        expected = "arguments of the documented types, integers within 64 bits"
        raise InputError(argument, expected, "others") from None
    except ValueError as error:
        found = input_error(str(error))
        if found is None:
            raise
        raise found from None


def input_error(message: str) -> InputError | None:
    """Take a message apart; None where it has another form."""
    parts = _MESSAGE.fullmatch(message)
    if parts is None:
        return None
    return InputError(parts["argument"], parts["expected"], parts["got"], parts["where"])
