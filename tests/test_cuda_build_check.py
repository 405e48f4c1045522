"""The check of what nvcc made: a good log passes, and each thing that it guards against is seen."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import wheel_without_driver
from gpu import budgets, kernel_names, ptxas, sass

TARGETS = ("sm_80", "sm_90")
MANGLED = "_ZN7epibias4cuda13write_answersEPf"
SCAN = "_ZN7epibias4cuda13scan_passagesILNS0_8ScanPathE2ENS0_8ScanTileILi2ELi8ELi1ELi4EEEEEvPf"
SCAN_NAME = "scan_passages<2, ScanTile<2, 8, 1, 4>>"


def entry(name=MANGLED, target="sm_80", registers=32, stack=0, stores=0, loads=0):
    return (
        f"ptxas info    : Compiling entry function '{name}' for '{target}'\n"
        f"ptxas info    : Function properties for {name}\n"
        f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
        f"ptxas info    : Used {registers} registers, used 1 barriers, 1024 bytes smem\n"
        "ptxas info    : Compile time = 1.0 ms\n"
    )


def both(**changed):
    return entry(target="sm_80", **changed) + entry(target="sm_90", **changed)


def misses(log):
    return ptxas.misses(log, ptxas.parse(log), lambda _: 64, TARGETS)


def test_a_good_log_passes_and_is_read_whole():
    assert misses(both()) == []
    use = ptxas.parse(entry(registers=40))[0]
    assert use == ptxas.KernelUse("write_answers", "sm_80", 40, 1024, 0, 0)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (both(stores=4), "4 bytes of spills"),
        (both(loads=8), "8 bytes of spills"),
        (both(stack=16), "16 bytes of stack frame"),
        (both(registers=65), "65 registers, 64 are its budget"),
        (entry(), "not compiled for sm_90"),
        (both() + "ptxas warning : Local memory used for function\n", "warning"),
        (both() + 'a.cu(3): warning #177-D: variable "x" was never used\n', "warning"),
        (
            both() + "ptxas info    : Function properties for _Zhelper\n"
            "    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n",
            "_Zhelper, a function that is not inlined",
        ),
    ],
)
def test_a_bad_log_is_a_miss(log, said):
    found = misses(log)
    assert found
    assert said in found[0]


@pytest.mark.parametrize(
    "log",
    [
        "",
        "[1/9] Building CUDA object\n",
        entry().rpartition("ptxas info    : Used")[0],
        "".join(line + "\n" for line in entry().splitlines() if "stack frame" not in line),
    ],
)
def test_a_log_that_does_not_say_what_it_should_is_no_good_log(log):
    with pytest.raises(ptxas.UnreadableLogError):
        ptxas.parse(log)


def listing(*instructions, name=SCAN, target="sm_80"):
    lines = "".join(
        f"        /*{16 * i:04x}*/    {text} ;   /* 0x0000 */\n"
        for i, text in enumerate(instructions)
    )
    return f"\tcode for {target}\n\t\tFunction : {name}\n{lines}"


MATRIX, COPY = "@!P0 HMMA.16816.F32.BF16 R4, R8", "LDGSTS.E.BYPASS.128 [R1], [R2]"


def sass_misses(text, targets=("sm_80",)):
    counted = sass.counts(text)
    return sass.misses(counted, lambda name: budgets.find(name).instructions, [SCAN_NAME], targets)


def test_the_machine_code_that_is_meant_passes():
    assert sass_misses(listing(MATRIX, COPY, COPY)) == []
    assert sass.counts(listing(MATRIX, COPY, COPY)) == {
        (SCAN_NAME, "sm_80"): Counter({"LDGSTS.E.BYPASS.128": 2, "HMMA.16816.F32.BF16": 1})
    }
    assert sass_misses(listing(MATRIX, "LDG.E.128.CONSTANT R4, [R2]")) == []


@pytest.mark.parametrize(
    ("text", "targets", "said"),
    [
        (listing("FFMA R1, R2, R3, R4", COPY), ("sm_80",), "no instruction HMMA"),
        (listing("IMMA.16832.S8.S8 R4, R8", COPY), ("sm_80",), "no instruction HMMA"),
        (listing(MATRIX, "LDG.E R4, [R2]", "LDG.E.64 R4, [R2]"), ("sm_80",), "128"),
        (listing(MATRIX, COPY, "@P1 STL.64 [R1], R2"), ("sm_80",), "LDL and STL"),
        (listing(MATRIX, COPY, "LDL R2, [R1]"), ("sm_80",), "LDL and STL"),
        (listing(MATRIX, COPY), ("sm_80", "sm_90"), "no machine code for sm_90"),
        ("", ("sm_80",), "no machine code"),
    ],
)
def test_machine_code_of_another_kind_is_a_miss(text, targets, said):
    found = sass_misses(text, targets)
    assert found
    assert said in found[0]


def test_libraries_that_a_machine_without_cuda_lacks_are_a_miss():
    line = " 0x0000000000000001 (NEEDED)             Shared library: [{}]\n"
    good = "".join(line.format(name) for name in ("libstdc++.so.6", "libm.so.6", "libc.so.6"))
    assert sass.forbidden(sass.needed(good)) == []
    for name in ("libcuda.so.1", "libcudart.so.13", "libcublas.so.13", "libnvrtc.so.13"):
        assert sass.forbidden(sass.needed(good + line.format(name))) == [f"the module needs {name}"]


def test_a_row_of_the_table_that_no_kernel_fits_is_told():
    assert budgets.unused([]) == [row.kernels for row in budgets.BUDGETS if row.instructions]
    assert budgets.find(SCAN_NAME).kernels not in budgets.unused([SCAN_NAME])
    assert budgets.find("unheard_of<1>").registers == budgets.DEFAULT_REGISTERS


def test_kernels_have_the_names_of_their_sources():
    name = "_ZN7epibias4cuda12_GLOBAL__N_16kernelILi4EEEvPKf"
    assert kernel_names.short_names([MANGLED, SCAN, name]) == {
        MANGLED: "write_answers",
        SCAN: SCAN_NAME,
        name: "kernel<4>",
    }
    assert kernel_names.base_name(SCAN_NAME) == "scan_passages"


def test_a_wheel_with_what_it_must_not_have_or_without_what_it_must_is_a_miss():
    good = ["epibias/__init__.py", "epibias/_core.cpython-311.so", "epibias/_cuda.cpython-311.so"]
    assert wheel_without_driver.misses_of_names(good) == []
    for bad in ("epibias/_cuda_emulated.cpython-311.so", "lib/libx.a", "epibias/numeric.cu"):
        assert wheel_without_driver.misses_of_names([*good, bad]) == [f"the wheel has {bad}"]
    assert wheel_without_driver.misses_of_names(good[:2]) == ["the wheel has no _cuda"]


def test_an_installation_that_says_something_else_is_a_miss():
    good = {"found": [0, 1, 2, 3], "usable": False, "loaded": [], "emulated": False}
    good |= {"backend": "cpu", "reason": "no NVIDIA driver on this machine"}
    assert wheel_without_driver.misses_of_answer(good) == []
    for name, value in (
        ("found", [0, 1, 3, 2]),
        ("usable", True),
        ("loaded", ["torch"]),
        ("backend", "cuda"),
        ("reason", "epibias._cuda does not load"),
    ):
        (miss,) = wheel_without_driver.misses_of_answer({**good, name: value})
        assert miss.startswith(f"{name}: expected")
