"""Kernels on a device; arrays come as tuples that `epibias.device.arrays` makes.

`epibias._cuda_emulated` has the same functions. Checked against it by tests/test_cuda_stubs.py.
Nothing is allocated, and nothing waits but `read_fault` and `cosine_topk_streamed`.
"""

from typing import Any

from epibias.device.arrays import ArrayTuple

Arrays = tuple[ArrayTuple, ArrayTuple, ArrayTuple]  # codes, scales, residuals
Options = tuple[bool, int, int, int]  # tensor_cores, sample_rows, capacity, round_growth
SweepOutputs = tuple[
    ArrayTuple, ArrayTuple, ArrayTuple, ArrayTuple | None, ArrayTuple | None, ArrayTuple | None
]
Outputs = tuple[ArrayTuple, ...]
Keys = tuple[ArrayTuple | None, ArrayTuple | None]  # neutral_centres, query_ids

emulated: bool

def anchor_scores(
    anchors: ArrayTuple,
    axes: ArrayTuple,
    normalize: bool,
    scores: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def biasdef_select(
    similarities: ArrayTuple,
    scores: ArrayTuple,
    offsets: ArrayTuple,
    parameters: dict[str, Any],
    precision: str,
    keys: Keys,
    outputs: Outputs,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def biasdef_select_vectors(
    rows: tuple[Any, ...],
    parameters: dict[str, Any],
    precision: str,
    keys: Keys,
    ranked: Outputs,
    outputs: Outputs,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def biasdef_select_workspace_bytes(
    n_queries: int, n_candidates: int, from_vectors: bool
) -> int: ...
def clear_fault(fault: ArrayTuple, stream: int) -> None: ...
def code_row_bytes(dim: int, storage: str) -> int: ...
def cosine_topk(
    queries: ArrayTuple,
    passages: ArrayTuple,
    inverse_norms: ArrayTuple,
    storage: str,
    codes: Arrays | None,
    k: int,
    indices: ArrayTuple,
    similarities: ArrayTuple,
    n_rescored: ArrayTuple,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
    options: Options,
) -> None: ...
def cosine_topk_streamed(
    queries: ArrayTuple,
    passages: tuple[int, int, int],
    k: int,
    tile_rows: int,
    indices: ArrayTuple,
    similarities: ArrayTuple,
    n_rescored: ArrayTuple,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
    options: Options,
) -> None: ...
def cosine_topk_streamed_workspace_bytes(
    n_queries: int, dim: int, k: int, tile_rows: int, options: Options
) -> int: ...
def cosine_topk_workspace_bytes(
    n_queries: int, dim: int, k: int, storage: str, options: Options
) -> int: ...
def device_status() -> tuple[int, str]: ...
def inverse_norms(
    rows: ArrayTuple, result: ArrayTuple, fault: ArrayTuple, stream: int, argument: int = 0
) -> None: ...
def mmr(
    similarities: ArrayTuple,
    embeddings: ArrayTuple,
    k: int,
    relevance_weight: float,
    indices: ArrayTuple,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def mmr_workspace_bytes(n_queries: int, n: int) -> int: ...
def polarization_axis(
    anchors: ArrayTuple,
    stances: ArrayTuple | None,
    normalize: bool,
    axes: ArrayTuple,
    explained_variance_ratio: ArrayTuple,
    relative_gap: ArrayTuple,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def polarization_axis_workspace_bytes(n_topics: int, n_anchors: int, dim: int) -> int: ...
def polarization_scores(
    rows: ArrayTuple,
    axes: ArrayTuple,
    indices: ArrayTuple | None,
    axis_of_query: ArrayTuple | None,
    normalize: bool,
    scores: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def prepare_passages(
    passages: ArrayTuple, inverse_norms: ArrayTuple, storage: str, codes: Arrays, stream: int
) -> None: ...
def printed_sweep(
    similarities: ArrayTuple,
    scores: ArrayTuple,
    *,
    tau: float,
    n_thresholds: int,
    floor: float,
    bandwidth_factor: float,
    outputs: SweepOutputs,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def rank_candidates(
    rows: tuple[Any, ...],
    outputs: Outputs,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def rank_candidates_workspace_bytes(n_queries: int, n_candidates: int) -> int: ...
def read_fault(fault: ArrayTuple) -> tuple[int, int]: ...
def streamed_tile_rows(dim: int) -> int: ...
def threshold_sweep(
    similarities: ArrayTuple,
    scores: ArrayTuple,
    *,
    criterion: str,
    min_kept: int,
    min_dropped: int,
    kappa: float,
    bandwidth_factor: float,
    permutations: int,
    max_exceedances: int,
    seed: int,
    precision: str,
    method: str,
    query_ids: ArrayTuple | None,
    outputs: SweepOutputs,
    workspace: ArrayTuple,
    fault: ArrayTuple,
    stream: int,
) -> None: ...
def threshold_sweep_workspace_bytes(n_queries: int, n: int) -> int: ...
