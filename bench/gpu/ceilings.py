"""What this card can do at most, as users see it: a copy, matrix products of random data."""

from __future__ import annotations

from typing import Any

from gpu import clocks

COPY_BYTES = 4 << 30
SIZE = 8192


def measure() -> dict[str, Any]:
    """Measure bytes a second (read plus written) and operations a second, by torch or cupy."""
    try:
        import torch
    except ImportError:
        return _by_cupy()
    return _by_torch(torch)


def _by_torch(torch: Any) -> dict[str, Any]:
    clock = clocks.torch_clock(torch)
    sources = [torch.randint(256, (COPY_BYTES,), dtype=torch.uint8, device="cuda") for _ in "12"]
    target = torch.empty_like(sources[0])
    copied = clocks.measured(clock, target.copy_, [(source,) for source in sources])
    found = {"status": "passed", "by": "torch", "bytes_per_s": _rate(2 * COPY_BYTES, copied)}
    del sources, target
    torch.cuda.empty_cache()
    torch.backends.cuda.matmul.allow_tf32 = True
    for name, dtype in (("tf32", torch.float32), ("bf16", torch.bfloat16)):
        pairs = [
            tuple(torch.randn(SIZE, SIZE, device="cuda", dtype=dtype) for _ in range(2))
            for _ in range(2)
        ]
        found[f"{name}_per_s"] = _rate(2 * SIZE**3, clocks.measured(clock, torch.mm, pairs))
    pairs = [
        tuple(
            torch.randint(-127, 128, (SIZE, SIZE), dtype=torch.int8, device="cuda")
            for _ in range(2)
        )
        for _ in range(2)
    ]
    transposed = [(left, right.t()) for left, right in pairs]
    found["int8_per_s"] = _rate(2 * SIZE**3, clocks.measured(clock, torch._int_mm, transposed))
    return found


def _by_cupy() -> dict[str, Any]:
    import cupy

    clock = clocks.cupy_clock(cupy)
    sources = [cupy.random.randint(0, 256, COPY_BYTES, dtype=cupy.uint8) for _ in range(2)]
    target = cupy.empty_like(sources[0])
    copied = clocks.measured(
        clock, lambda source: cupy.copyto(target, source), [(source,) for source in sources]
    )
    # cupy has no bf16 and no int8 product: their rates are multiples of tf32's, by the datasheet.
    pairs = [tuple(cupy.random.standard_normal((SIZE, SIZE), dtype=cupy.float32) for _ in range(2))]
    product = _rate(2 * SIZE**3, clocks.measured(clock, cupy.matmul, pairs))
    rates = {
        f"{name}_per_s": times * product for name, times in (("tf32", 1), ("bf16", 2), ("int8", 4))
    }
    return {
        "status": "passed",
        "by": "cupy; bf16 and int8 by the datasheet's ratios",
        "bytes_per_s": _rate(2 * COPY_BYTES, copied),
        **rates,
    }


def _rate(amount: float, measured: dict[str, float]) -> float:
    return amount / (measured["ms"] / 1e3)
