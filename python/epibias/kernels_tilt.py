"""Array in, array out: echoes and exchanges of TiltBound, on the CPU.

Beside `kernels`, and by the same rules. Ragged everywhere: query i owns the rows `offsets[i]` to
`offsets[i + 1]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epibias import _core, _validate
from epibias._dispatch import core_errors, on_cpu, on_cpu_or_none
from epibias._validate import Float32Array, Float64Array, Int64Array
from epibias.kernels_select import SelectionParts

BoolArray = NDArray[np.bool_]


class EchoTest(NamedTuple):
    """Which candidates say too much of their question again; asked where a selection hangs on it.

    Attributes
    ----------
    questions, passages : sequence of str [n_queries], [n_candidates]
    limits : float64 [n_queries]
        A larger share (`echo_shares`) is an echo. NaN: nothing of this query is read.
    limits_of_two : float64 [n_queries]
        In its place, where two of the query's first `k` candidates exceed it. NaN: there is none.
    every_candidate : bool
        Judge all, also those that no selection can come to.
    tested : bool [n_candidates], optional
        Candidates that may be echoes; the others are none, whatever they say, and are not read.
    by_others : bool [n_queries], optional
        Queries whose limits are at least the largest share of their first `k` candidates that are
        allowed and not tested; these are read where there is anybody to be tested.

    Examples
    --------
    >>> EchoTest(["Why?"], ["So."], np.ones(1), np.full(1, np.nan)).every_candidate
    False
    """

    questions: Sequence[str]
    passages: Sequence[str]
    limits: Float64Array
    limits_of_two: Float64Array
    every_candidate: bool = False
    tested: BoolArray | None = None
    by_others: BoolArray | None = None


def bounded_selection(
    similarities: Float32Array,
    scores: Float32Array,
    offsets: Int64Array,
    indices: Int64Array,
    centres: Float64Array,
    widths: Float64Array,
    k: int,
    *,
    allowed: BoolArray | None = None,
    echoes: EchoTest | None = None,
) -> SelectionParts:
    """Select up to `k` allowed candidates a query, near a centre first and similar second.

    The start is the first `k` allowed. While the mean score is farther than the width from the
    centre, one selected candidate is exchanged for one that is not: of the exchanges that reach the
    width the one that loses least similarity; where none does, of those that end nearer the centre
    the one that loses least similarity for its way. Then exchanges within the width that gain
    similarity are made, best first. Ties go to the selected candidate that ranks lower, then to the
    other that ranks higher.

    Parameters
    ----------
    similarities, scores : float32 [n_candidates]
        In the total order within each query.
    offsets : int64 [n_queries + 1]
        Where each query's candidates start.
    indices : int64 [n_candidates]
        Rows of the corpus.
    centres, widths : float64 [n_queries]
        An infinite width asks for nothing.
    k : int
    allowed : bool [n_candidates], optional
        Candidates that may be selected; all if absent.
    echoes : EchoTest, optional
        Leaves out more: a text is read when its candidate is about to be selected, and the
        selection is that of reading all of them.

    Returns
    -------
    indices, offsets, positions, dropped, dropped_offsets, kept, kept_offsets, diagnostics
        As `biasdef_select`; dropped is what is not allowed, or was found to be an echo, and kept
        the others, but for those that may be echoes and were not read. Diagnostics `before` and
        `after`: mean score less centre, at the start and at the end; 0 where nothing is allowed.
        `n_echo`: candidates found to be echoes.

    Raises
    ------
    InputError
        Arrays that do not fit, a value that is not finite, a width that is NaN or negative.

    References
    ----------
    docs/tilt_bound.md

    Examples
    --------
    >>> x, y = np.array([[0.9, 0.8, 0.7, 0.6], [1, 1, -1, 0]], np.float32)
    >>> parts = bounded_selection(
    ...     x, y, np.array([0, 4]), np.arange(4), np.zeros(1), np.full(1, 0.1), 2)
    >>> parts[0], float(parts[7]["before"][0]), float(parts[7]["after"][0])
    (array([0, 2]), 1.0, 0.0)
    """
    given = (similarities, scores, offsets, indices, centres, widths, k, allowed, echoes)
    try:
        return _core.bounded_selection(*given)
    except (TypeError, ValueError):
        pass
    on_cpu("similarities", similarities, np.float32, 1)
    on_cpu("scores", scores, np.float32, 1)
    on_cpu("offsets", offsets, np.int64, 1)
    on_cpu("indices", indices, np.int64, 1)
    on_cpu("centres", centres, np.float64, 1)
    on_cpu("widths", widths, np.float64, 1)
    k = _validate.integer("k", k, low=1)
    on_cpu_or_none("allowed", allowed, np.bool_, 1)
    if echoes is not None:
        on_cpu("limits", echoes.limits, np.float64, 1)
        on_cpu("limits_of_two", echoes.limits_of_two, np.float64, 1)
        on_cpu_or_none("tested", echoes.tested, np.bool_, 1)
        on_cpu_or_none("by_others", echoes.by_others, np.bool_, 1)
    with core_errors():
        return _core.bounded_selection(*given)


def echo_shares(
    questions: Sequence[str],
    passages: Sequence[str],
    offsets: Int64Array,
    queries: Int64Array,
    limits: Float64Array | None = None,
) -> Float64Array:
    """Tell how much of its question each passage says in one place (`epibias.defenses.echo`).

    Parameters
    ----------
    questions : sequence of str [n_queries]
    passages : sequence of str [n_passages]
        Read where they lie, or first put in lower case, without accents and what nobody sees,
        where that changes more than ASCII's capitals. Nothing is kept.
    offsets : int64 [n_queries + 1]
        Where each question's passages start.
    queries : int64 [n]
        Questions whose passages are looked at, each once.
    limits : float64 [n_queries], optional
        Where only matters whether a share is above that of its question: it is then exact in
        that alone, and takes less time. NaN for a question without.

    Returns
    -------
    float64 [n_passages]
        −∞ for passages of other questions.

    Raises
    ------
    InputError
        What is no text, arrays that do not fit, a question that there is not.

    References
    ----------
    docs/tilt_bound.md

    Examples
    --------
    >>> asked, said = ["Ban cars?", "Why?"], ["We ban cars.", "Bans", "Because."]
    >>> echo_shares(asked, said, np.array([0, 2, 3]), np.array([0])).round(2)
    array([1.  , 0.25, -inf])
    """
    try:
        return _core.echo_shares(questions, passages, offsets, queries, limits)
    except (TypeError, ValueError):
        pass
    on_cpu("offsets", offsets, np.int64, 1)
    on_cpu("queries", queries, np.int64, 1)
    on_cpu_or_none("limits", limits, np.float64, 1)
    with core_errors():
        return _core.echo_shares(questions, passages, offsets, queries, limits)
