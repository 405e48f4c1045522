"""What a version must offer so that it can be read, selected from and gated: by any store.

`version_files` is the store that comes with epibias. Another one (a database, a vector store)
implements these two protocols, and `IndexReader`, `run_gate` and `diff_versions` work on it as they
do on files: they take nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epibias._validate import Float32Array, Int64Array
from epibias.index.rows import Row


class RowsView(Protocol):
    """The passages of a version, in the order of its vectors.

    Attributes
    ----------
    source_names : tuple of str
    source_codes : int32 [n_passages]
        Position of each passage's source in the names.
    """

    source_names: tuple[str, ...]
    source_codes: NDArray[np.int32]

    def __len__(self) -> int: ...

    def ids(self, rows: Int64Array) -> list[str]:
        """Ids of some passages."""
        ...

    def lineages(self, rows: Int64Array) -> list[str]:
        """Lineages of some passages."""
        ...

    def find(self, ids: Sequence[str]) -> Int64Array:
        """Rows of some ids; -1 for one that is not there."""
        ...

    def find_lineages(self, lineages: Sequence[str]) -> Int64Array:
        """Rows of some lineages; -1 for one that is not there."""
        ...

    def source(self, row: int) -> str | None:
        """Source of one passage."""
        ...

    def account(self, row: int) -> str | None:
        """Account that wrote one passage."""
        ...

    def rows_of_sources(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which passages are of one of some sources, bool [n_passages]; a new array."""
        ...

    def rows_of_accounts(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which passages were written by one of some accounts, bool [n_passages]."""
        ...

    def visible_to(self, tenant: str | None) -> NDArray[np.bool_]:
        """Which passages a tenant may read, bool [n_passages]."""
        ...

    def read(self, rows: Sequence[int] | Int64Array) -> list[Row]:
        """Read some rows whole, in the order asked for."""
        ...

    def content_hashes(self) -> Any:  # noqa: ANN401  an Arrow column
        """Hash of everything that each row says, as an Arrow array of text."""
        ...

    def times(self) -> list[str | None]:
        """Give the times of the passages, each once, in any order."""
        ...


class VersionView(Protocol):
    """One immutable version.

    Attributes
    ----------
    id : str
    vectors : float32 [n_passages, dim]
        In memory or mapped; nothing here changes or copies it whole.
    rows : RowsView
    """

    @property
    def id(self) -> str:
        """Name of the version."""
        ...

    @property
    def vectors(self) -> Float32Array:
        """Embeddings, float32 [n_passages, dim]."""
        ...

    @property
    def rows(self) -> RowsView:
        """What governs each passage."""
        ...
