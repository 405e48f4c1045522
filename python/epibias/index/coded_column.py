"""A column with few different texts, as small integers: sources, accounts, tenants of passages.

Owns the look-ups that every query needs and that must not compare texts a million times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """One text or none a passage.

    Attributes
    ----------
    names : tuple of str
    codes : int32 [n_passages]
        Position in the names; -1 where there is none.

    Examples
    --------
    >>> column = CodedColumn.of(["wiki", None, "desk", "wiki"])
    >>> column.at(2), column.at(1), column.is_one_of(["wiki"]).tolist()
    ('desk', None, [True, False, False, True])
    """

    names: tuple[str, ...]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, values: Iterable[str | None]) -> CodedColumn:
        """Code the texts of passages, in their order."""
        code_of: dict[str, int] = {}
        codes = [-1 if one is None else code_of.setdefault(one, len(code_of)) for one in values]
        return cls(tuple(code_of), np.array(codes, np.int32))

    def at(self, row: int) -> str | None:
        """Text of one passage."""
        code = int(self.codes[row])
        return None if code < 0 else self.names[code]

    def is_one_of(self, wanted: Collection[str]) -> NDArray[np.bool_]:
        """Which passages have one of some texts, bool [n_passages]; a new array."""
        wanted = frozenset(wanted)
        return np.isin(self.codes, [n for n, name in enumerate(self.names) if name in wanted])
