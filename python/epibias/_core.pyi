"""What the C++ core offers to Python. Checked against the built module by `tests/test_stubs.py`.

Arrays are C-contiguous and of exactly the dtype named; anything else raises `ValueError` as
`argument: expected …, got …`. The GIL is released during every call.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
# indices, offsets, positions, dropped, dropped_offsets, kept, kept_offsets, diagnostics
SelectionParts = tuple[
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    dict[str, NDArray[Any]],
]

def simd_level() -> str: ...
def simd_levels() -> list[str]: ...
def set_simd_level(level: str) -> None: ...
def n_threads() -> int: ...
def set_n_threads(n_threads: int) -> None: ...
def inverse_norms(rows: Float32Array, argument: str = "rows") -> Float64Array: ...
def cosine_topk(
    queries: Float32Array,
    passages: Float32Array,
    k: int,
    inverse_norms: Float64Array | None = None,
    tile_rows: int = 0,
) -> tuple[Int64Array, Float32Array, int]: ...
def quantized_size(n_passages: int, dim: int, bits: int) -> int: ...
def quantize_passages(
    passages: Float32Array, inverse_norms: Float64Array, bits: int = 8
) -> NDArray[np.uint8]: ...
def quantized_scan(
    queries: Float32Array,
    passages: Float32Array,
    k: int,
    inverse_norms: Float64Array,
    codes: NDArray[np.uint8],
    four_bits: NDArray[np.uint8] | None = None,
    vnni: bool = True,
    sample_stride: int = 0,
    capacity: int = 0,
    principal: tuple[Float32Array, int, NDArray[np.uint8], NDArray[np.uint8]] | None = None,
) -> tuple[Int64Array, Float32Array, int, int]: ...
def principal_sizes(n_passages: int, n_axes: int, n_leading: int) -> tuple[int, int]: ...
def quantize_principal(
    passages: Float32Array, inverse_norms: Float64Array, axes: Float32Array, n_leading: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]: ...
def quantized_scan_once(
    queries: Float32Array,
    passages: Float32Array,
    k: int,
    inverse_norms: Float64Array,
    vnni: bool = True,
) -> tuple[Int64Array, Float32Array, int, int]: ...
def polarization_axis(
    anchors: Float32Array,
    stances: Float64Array | None = None,
    normalize: bool = True,
) -> tuple[Float32Array, Float64Array, Float64Array]: ...
def anchor_scores(
    anchors: Float32Array, axes: Float32Array, normalize: bool = True
) -> Float64Array: ...
def polarization_scores(
    rows: Float32Array,
    axes: Float32Array,
    indices: Int64Array | None = None,
    axis_of_query: Int64Array | None = None,
    normalize: bool = True,
) -> Float32Array: ...
def threshold_sweep(
    similarities: Float32Array,
    scores: Float32Array,
    criterion: str = "kl",
    min_kept: int = 1,
    min_dropped: int = 1,
    kappa: float = 0.025,
    bandwidth_factor: float = 1.06,
    permutations: int = 0,
    max_exceedances: int = 0,
    seed: int = 0,
    query_ids: Int64Array | None = None,
    curve: bool = False,
    precision: str = "float64",
    method: str = "all_splits",
) -> tuple[
    Float32Array, Int64Array, Float64Array, Float64Array, Float64Array | None, Int64Array
]: ...
def sweep_is_binned(method: str, n: int) -> bool: ...
def printed_sweep(
    similarities: Float32Array,
    scores: Float32Array,
    tau: float = 0.05,
    n_thresholds: int = 100,
    floor: float = 1e-12,
    bandwidth_factor: float = 1.06,
    curve: bool = False,
) -> tuple[Float32Array, Int64Array, Float64Array, Float64Array | None]: ...
def mmr(
    similarities: Float32Array,
    embeddings: Float32Array,
    k: int,
    relevance_weight: float = 0.5,
) -> Int64Array: ...
def dpp_greedy(kernel: Float64Array, k: int) -> tuple[Int64Array, Int64Array]: ...
def rank_candidates(
    query_embeddings: Float32Array,
    candidate_embeddings: Float32Array,
    offsets: Int64Array,
    indices: Int64Array | None,
    ps_embeddings: Float32Array | None,
    axes: Float32Array,
    axis_of_query: Int64Array | None = None,
    score_offsets: Float64Array | None = None,
    normalize: bool = True,
) -> tuple[Int64Array, Int64Array, Float32Array, Float32Array]: ...
def biasdef_select(
    similarities: Float32Array,
    scores: Float32Array,
    offsets: Int64Array,
    indices: Int64Array,
    parameters: dict[str, Any],
    neutral_centres: Float64Array | None = None,
    query_ids: Int64Array | None = None,
    precision: str = "float64",
) -> SelectionParts: ...
def biasdef_select_vectors(
    query_embeddings: Float32Array,
    candidate_embeddings: Float32Array,
    offsets: Int64Array,
    indices: Int64Array | None,
    ps_embeddings: Float32Array | None,
    axes: Float32Array,
    parameters: dict[str, Any],
    axis_of_query: Int64Array | None = None,
    score_offsets: Float64Array | None = None,
    normalize: bool = True,
    neutral_centres: Float64Array | None = None,
    query_ids: Int64Array | None = None,
    precision: str = "float64",
) -> SelectionParts: ...
def bounded_selection(
    similarities: Float32Array,
    scores: Float32Array,
    offsets: Int64Array,
    indices: Int64Array,
    centres: Float64Array,
    widths: Float64Array,
    k: int,
    allowed: BoolArray | None = None,
    echoes: tuple[
        Sequence[str],
        Sequence[str],
        Float64Array,
        Float64Array,
        bool,
        BoolArray | None,
        BoolArray | None,
    ]
    | None = None,
) -> SelectionParts: ...
def echo_shares(
    questions: Sequence[str],
    passages: Sequence[str],
    offsets: Int64Array,
    queries: Int64Array,
    limits: Float64Array | None = None,
) -> Float64Array: ...
def mark_unchanged(
    similarities: Float32Array,
    scores: Float32Array,
    offsets: Int64Array,
    k: int,
    mean_similarities: Float64Array,
    mean_scores: Float64Array,
) -> BoolArray: ...
def mark_unremembered(
    similarities: Float32Array,
    scores: Float32Array,
    offsets: Int64Array,
    remembered: Sequence[tuple[int, Float64Array]],
    sparing: bool,
) -> BoolArray: ...
def refuse_newcomers(
    is_new: BoolArray,
    offsets: Int64Array,
    most_in_pool: Int64Array,
    most_in_selection: int,
    sources: Int64Array | None,
    most_of_source: int,
) -> tuple[BoolArray, Int64Array]: ...
def fingerprints(rows: Float32Array, signs: Float32Array) -> Float32Array: ...
def mark_untrusted(
    trusted: Float32Array,
    starts: Int64Array,
    columns: Int64Array,
    low: Float64Array,
    step: Float64Array,
    n_cells: int,
    tolerance: float,
    fingerprints: Float32Array,
    offsets: Int64Array,
) -> BoolArray: ...
def trusted_records(
    scores: Float32Array, offsets: Int64Array, is_new: BoolArray, k: int
) -> Float64Array: ...
