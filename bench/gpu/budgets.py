"""What every kernel may take, and which instructions it must have: the one table of both.

A budget is what leaves the blocks on a multiprocessor that the kernel's policy counts on: 65,536
registers, given out by 8 for each of a warp's threads. The first row whose pattern fits the whole
short name holds; kernels without a row have `DEFAULT_REGISTERS`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DEFAULT_REGISTERS = 64  # 1,024 threads a multiprocessor, half of what it holds

TENSOR_BF16 = r"HMMA\.16816\.F32\.BF16"
TENSOR_TF32 = r"HMMA\.1688\.F32\.TF32"
TENSOR_INT8 = r"IMMA\.16832\.S8\.S8"
# Straight to shared memory, or through registers.
SIXTEEN_BYTE_LOADS = r"LDGSTS\.E\.(BYPASS\.)?(LTC128B\.)?128|LDG\.E\.(\w+\.)*128"


class Budget(NamedTuple):
    """Registers a thread at most, and patterns of instructions that must appear."""

    kernels: str
    registers: int
    instructions: tuple[str, ...] = ()


# The second argument of ScanTile's kernels is how many blocks of 128 threads a multiprocessor runs.
_SCAN = r"scan_passages<{path}, .*, {blocks}>>"
_PORTABLE = r"\d"
_PATHS = {  # ScanPath
    "1": (TENSOR_TF32, SIXTEEN_BYTE_LOADS),
    "2": (TENSOR_BF16, SIXTEEN_BYTE_LOADS),
    "4": (TENSOR_INT8, SIXTEEN_BYTE_LOADS),
    _PORTABLE: (SIXTEEN_BYTE_LOADS,),
}
_BLOCKS = {"7": 72, "4": 128, "2": 248}

BUDGETS = (
    *(
        Budget(_SCAN.format(path=path, blocks=blocks), registers, instructions)
        for path, instructions in _PATHS.items()
        for blocks, registers in _BLOCKS.items()
        if (path, blocks) != (_PORTABLE, "2")  # that tile is for tensor cores alone
    ),
    Budget(r"merge_in_registers<\d+>", 80),  # 128 threads, 6 blocks
    Budget(r"fit_few_anchors<8, \d+>", 128),  # 4 warps, 4 blocks: 16 topics
    Budget(r"fit_few_anchors<16, \d+>", 200),  # 2 warps, 5 blocks: 10 topics
    Budget(r"fit_few_anchors<32, \d+>", 248),  # a warp: shared memory, not registers, is the limit
    Budget(r"select_by_mmr", 128),  # 4 warps, 4 blocks: queries wait for one choice after the other
    Budget(r"fit_many_anchors", 128),  # one topic at a time a multiprocessor: latency, not number
    Budget(r"centred_products", 80),  # 256 threads, 3 blocks
    Budget(r"(threshold_sweep|biasdef_select)_kernel<.*>", 128),  # 256 threads, 2 blocks
)


def find(kernel: str) -> Budget:
    """Give the row that holds for a kernel."""
    for budget in BUDGETS:
        if re.fullmatch(budget.kernels, kernel):
            return budget
    return Budget(re.escape(kernel), DEFAULT_REGISTERS)


def unused(kernels: list[str]) -> list[str]:
    """List rows that no kernel fits: renamed or gone, and so nothing would be asserted."""
    used = {find(kernel).kernels for kernel in kernels}
    return [
        budget.kernels for budget in BUDGETS if budget.instructions and budget.kernels not in used
    ]
