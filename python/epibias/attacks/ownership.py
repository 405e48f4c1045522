"""Whether the index is one's own: every maker of adversarial text must have it answered.

Owns the one sentence that says it; the command line asks with `--i-own-this-index`.
"""

from __future__ import annotations

from epibias._plain import described
from epibias.errors import InputError

OWN = (
    "True: adversarial passages are made only for the red-team evaluation of an index that you "
    "own, and are posted nowhere"
)


def confirm(i_own_this_index: object) -> None:
    """Refuse to make adversarial text unless the caller says that the index is theirs.

    Parameters
    ----------
    i_own_this_index : bool
        Nothing but True will do.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> confirm(True)
    """
    if i_own_this_index is not True:
        raise InputError("i_own_this_index", OWN, described(i_own_this_index))
