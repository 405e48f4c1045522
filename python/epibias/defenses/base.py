"""What every defence offers."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from epibias.pool import CandidatePool
from epibias.selection import Selection


@runtime_checkable
class Defense(Protocol):
    """A rule that selects passages from the candidates of each query.

    Stateless: the same pool gives the same selection, and the pool is never changed. Queries do
    not influence each other. Defences compare equal when their parameters do. How many passages
    are selected, and whether that is `short`, goes by the defence's own `k`, whatever the pool was
    built for.

    Examples
    --------
    >>> from epibias.defenses import BiasDef
    >>> isinstance(BiasDef(), Defense)
    True
    """

    @property
    def name(self) -> str:
        """Short and readable; tells apart what differs from the defaults."""
        ...

    def parameters(self) -> dict[str, object]:
        """All that decides the selection, as plain values for a manifest."""
        ...

    def select(self, pool: CandidatePool) -> Selection:
        """Select from each query's candidates."""
        ...
