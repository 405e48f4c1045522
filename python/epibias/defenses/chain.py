"""Several defences in order, each on what the one before it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epibias.defenses.base import Defense
from epibias.defenses.tilt_bound import TiltBound
from epibias.errors import InputError
from epibias.pool import CandidatePool
from epibias.selection import Selection


@dataclass(frozen=True)
class Chain:
    """Run defences in order; the last one's selection is the result.

    Each defence gets the pool restricted to what the one before it kept (`Selection.kept`): all
    that a filter such as BiasDef did not drop or put back by refill, whatever its `k`; what MMR or
    NoDefense selected, so give those a larger `k` when they stand first. `dropped` collects what
    any of them dropped; the diagnostics of defence i are named "i.name".

    Parameters
    ----------
    defenses : sequence of Defense
        At least one.

    Raises
    ------
    InputError
        None given, or something without `select`.

    Examples
    --------
    >>> from epibias.defenses import MMR, NoDefense
    >>> Chain([NoDefense(k=10), MMR(k=5)]).name
    'none > mmr'
    """

    defenses: tuple[Defense, ...]

    def __init__(self, defenses: Sequence[Defense]) -> None:
        members = tuple(defenses)
        if not members:
            raise InputError("defenses", "at least one defence", "none")
        for number, member in enumerate(members):
            if not isinstance(member, Defense):
                found = type(member).__name__
                raise InputError("defenses", "a defence", found, f"number {number}")
        object.__setattr__(self, "defenses", members)

    @property
    def name(self) -> str:
        """The names in order."""
        return " > ".join(defense.name for defense in self.defenses)

    def parameters(self) -> dict[str, object]:
        """Return the parameters of every defence, in order.

        Returns
        -------
        dict
        """
        return {
            "defense": "chain",
            "defenses": [defense.parameters() for defense in self.defenses],
        }

    def select(self, pool: CandidatePool) -> Selection:
        """Let each defence select from what is left.

        Parameters
        ----------
        pool : CandidatePool

        Returns
        -------
        Selection
            Its positions count among the candidates of `pool`.
        """
        left = pool
        # Positions in `pool` of what is left, as `left` counts them.
        original = [np.arange(size) for size in pool.sizes.tolist()]
        dropped: list[list[NDArray[Any]]] = [[] for _ in original]
        diagnostics: dict[str, NDArray[Any]] = {}
        for number, defense in enumerate(self.defenses):
            chosen = _select_judging_all(defense, left)
            for query, indices in enumerate(chosen.dropped):
                dropped[query].append(indices)
            diagnostics |= {f"{number}.{name}": v for name, v in chosen.diagnostics.items()}
            positions = [chosen.positions_of(query) for query in range(len(chosen))]
            selected = [rows[part] for rows, part in zip(original, positions, strict=True)]
            original = [rows[part] for rows, part in zip(original, chosen.kept, strict=True)]
            if number < len(self.defenses) - 1:
                left = left.restrict(chosen.kept)
        empty = np.empty(0, np.int64)
        last = {name: chosen.diagnostics[name] for name in ("n_selected", "short")}
        return Selection(
            chosen.indices,
            chosen.offsets,
            np.concatenate([empty, *selected]),
            tuple(np.concatenate([empty, *parts]) for parts in dropped),
            tuple(original),
            {**last, **diagnostics},
        )


def _select_judging_all(defense: Defense, pool: CandidatePool) -> Selection:
    """Ask for all that may be chosen from later, where a defence looks at no more than it needs."""
    if isinstance(defense, TiltBound):
        return defense.select(pool, judge_all=True)
    return defense.select(pool)
