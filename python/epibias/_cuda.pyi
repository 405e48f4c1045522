"""Kernels on a device; arrays come as tuples that `epibias.device.arrays` makes.

`epibias._cuda_emulated` has the same functions. Checked against it by tests/test_cuda_stubs.py.
Nothing is allocated, and nothing waits but `read_fault` and `cosine_topk_streamed`.
"""

from epibias.device.arrays import ArrayTuple

Arrays = tuple[ArrayTuple, ArrayTuple, ArrayTuple]  # codes, scales, residuals
Options = tuple[bool, int, int, int]  # tensor_cores, sample_rows, capacity, round_growth

emulated: bool

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
def prepare_passages(
    passages: ArrayTuple, inverse_norms: ArrayTuple, storage: str, codes: Arrays, stream: int
) -> None: ...
def read_fault(fault: ArrayTuple) -> tuple[int, int]: ...
def streamed_tile_rows(dim: int) -> int: ...
