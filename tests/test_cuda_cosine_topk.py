"""cosine_topk on the emulated device, through the Python API, against the float64 oracle."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import reference
from compare import assert_same_topk
from epibias import _core, kernels
from epibias.device import cosine_topk as on_device
from epibias.device import status
from epibias.device.cosine_topk import cosine_topk, cosine_topk_streamed, prepare_passages
from epibias.errors import InputError
from search_cases import DIMS, rows, whole_rows

# Rounds of some dozen rows, so that small inputs take several; 0 for tensor cores on.
SMALL = (True, 24, 96, 3)
PORTABLE = (False, 24, 96, 3)
WAYS = [(storage, options) for storage in on_device.STORAGES for options in (SMALL, PORTABLE)]


@pytest.fixture(autouse=True)
def emulated_device():
    with status.emulated():  # fails where the emulated module is not there
        yield


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{'tensor' if way[1][0] else 'portable'}")
def way(request):
    storage, options = request.param
    return {"storage": storage, "options": options}


def search(queries, passages, k, **keywords):
    indices, similarities, n_rescored = cosine_topk(queries, passages, k, **keywords)
    assert n_rescored >= len(queries) * k
    return indices, similarities


def load_check():
    """The bench that runs all 1,000 cases: its cases are drawn by the same code."""
    path = Path(__file__).parents[1] / "bench" / "check_cuda_cosine_topk.py"
    spec = importlib.util.spec_from_file_location("check_cuda_cosine_topk", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dim", DIMS)
def test_equals_the_oracle(way, dim):
    rng = np.random.default_rng(dim)
    n = 100
    queries, passages = rows(rng, 3, dim), rows(rng, n, dim)
    everything = reference.cosine_topk_batched(queries, passages, n)
    for k in (1, 10, n):
        expected = tuple(part[:, :k].copy() for part in everything)
        assert_same_topk(search(queries, passages, k, **way), expected)


def test_kernels_send_arrays_on_a_device_here():
    rng = np.random.default_rng(3)
    queries, passages = rows(rng, 2, 12), rows(rng, 1_100, 12)
    expected = reference.cosine_topk_batched(queries, passages, 8)
    indices, similarities, n_rescored = kernels.cosine_topk(queries, passages, 8)
    assert_same_topk((indices, similarities), expected)
    on_cpu = _core.cosine_topk(queries, passages, 8, None, 0)[2]
    assert n_rescored > 2 * 1_024 > on_cpu, "the sample is re-scored on a device alone"


def test_ties_go_to_the_lower_index(way):
    rng = np.random.default_rng(1)
    queries, passages = whole_rows(rng, 11, 5), whole_rows(rng, 400, 5)
    expected = reference.cosine_topk_batched(queries, passages, 15)
    assert (np.diff(expected[1], axis=1) == 0).any(), "the input has no ties to break"
    assert_same_topk(search(queries, passages, 15, **way), expected)


def test_prepared_norms_and_codes_give_the_same(way):
    rng = np.random.default_rng(2)
    queries, passages = rows(rng, 4, 40), rows(rng, 200, 40)
    expected = reference.cosine_topk_batched(queries, passages, 6)
    norms = _core.inverse_norms(passages)
    assert_same_topk(search(queries, passages, 6, inverse_norms=norms, **way), expected)
    if way["storage"] != "float32":
        codes = prepare_passages(passages, norms, way["storage"])
        assert codes.codes.nbytes <= passages.nbytes / 2 + 16 * len(passages)
        found = search(
            queries, passages, 6, inverse_norms=norms, codes=codes, options=way["options"]
        )
        assert_same_topk(found, expected)


def test_norms_that_float32_cannot_square(way):
    rng = np.random.default_rng(4)
    passages = rows(rng, 90, 9)
    limits = np.finfo(np.float32)
    passages[0::3] = np.sign(passages[0::3]) * limits.max
    passages[1::3] = (np.sign(passages[1::3]) * 3 * limits.smallest_subnormal).astype(np.float32)
    passages[2::6] *= np.float32(1e-25)
    queries = np.concatenate([passages[:6], rows(rng, 1, 9)])
    expected = reference.cosine_topk_batched(queries, passages, 25)
    assert_same_topk(search(queries, passages, 25, **way), expected)


@pytest.mark.parametrize("order", ["equal", "ascending"])
def test_corpora_that_defeat_the_filter_stay_exact(way, order):
    rng = np.random.default_rng(5)
    queries, passages = rows(rng, 2, 24), rows(rng, 500, 24)
    if order == "equal":
        passages[:] = passages[0]
    else:
        passages = passages[np.argsort(passages @ queries[0] / np.linalg.norm(passages, axis=1))]
    expected = reference.cosine_topk_batched(queries, passages, 20)
    assert_same_topk(search(queries, passages, 20, **way), expected)


@pytest.mark.parametrize("tile_rows", [0, 1, 37, 300])
def test_passages_in_host_memory_stream_through(tile_rows, tmp_path):
    rng = np.random.default_rng(6)
    queries, passages = whole_rows(rng, 3, 6), whole_rows(rng, 300, 6)
    path = tmp_path / "passages.raw"
    path.write_bytes(b"abc" + passages.tobytes())
    mapped = np.memmap(path, np.float32, "r", offset=3, shape=passages.shape)
    expected = reference.cosine_topk_batched(queries, passages, 12)
    for options in (SMALL, PORTABLE):
        found = cosine_topk_streamed(queries, mapped, 12, tile_rows=tile_rows, options=options)
        assert_same_topk(found[:2], expected)


def test_some_of_the_thousand_cases():
    """All of them: bench/check_cuda_cosine_topk.py."""
    check = load_check()
    result = check.run(n_cases=7)
    assert result["passed"], result["first_differing"]
    assert result["runs"] == 7 * len(on_device.STORAGES)


# ---- degenerate and wrong input ------------------------------------------------------------


def test_bad_rows_are_named_in_the_words_of_the_cpu(way):
    rng = np.random.default_rng(7)
    queries, passages = rows(rng, 3, 40), rows(rng, 300, 40)
    for row, column, value, word in [
        (290, 33, np.nan, "NaN in row "),
        (170, 2, -np.inf, "Inf in row "),
        (9, slice(None), 0, "a zero row "),
    ]:
        passages[row, column] = value
        with pytest.raises(InputError) as on_cpu:
            raise_on_cpu(queries, passages)
        message = f"^{on_cpu.value}$"
        assert message == f"^passages: expected finite rows of non-zero norm, got {word}{row}$"
        with pytest.raises(InputError, match=message):
            cosine_topk(queries, passages, 5, **way)
        with pytest.raises(InputError, match=message):
            cosine_topk(queries[:0], passages, 5, **way)
        with pytest.raises(InputError, match=message):
            cosine_topk_streamed(queries, passages, 5, tile_rows=100)
    queries[1, 7] = np.nan
    with pytest.raises(InputError, match=r"^queries: .* got NaN in row 1$"):
        cosine_topk(queries, passages, 5, **way)
    with pytest.raises(InputError, match=r"^queries: .* got NaN in row 1$"):
        cosine_topk(queries, passages[:0], 0, **way)


def raise_on_cpu(queries, passages):
    try:
        _core.cosine_topk(queries, passages, 5, None, 0)
    except ValueError as error:
        argument, _, rest = str(error).partition(": expected ")
        expected, _, got = rest.partition(", got ")
        raise InputError(argument, expected, got) from None


def test_bad_norms_are_named():
    rng = np.random.default_rng(8)
    queries, passages = rows(rng, 2, 8), rows(rng, 60, 8)
    norms = _core.inverse_norms(passages)
    norms[41] = -1
    message = r"^inverse_norms: expected positive finite numbers, got -1.000000 in row 41$"
    for storage, options in WAYS:
        with pytest.raises(InputError, match=message):
            cosine_topk(queries, passages, 3, inverse_norms=norms, storage=storage, options=options)


def test_nothing_to_search_gives_empty_arrays(way):
    rng = np.random.default_rng(9)
    queries, passages = rows(rng, 2, 8), rows(rng, 5, 8)
    assert [part.shape for part in cosine_topk(queries[:0], passages, 3, **way)[:2]] == [(0, 3)] * 2
    none = cosine_topk(queries, passages[:0], 0, **way)
    assert [part.shape for part in none[:2]] == [(2, 0), (2, 0)]
    assert none[2] == 0
    assert cosine_topk_streamed(queries, passages[:0], 0)[0].shape == (2, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 6}, r"^k: expected 1 to 5 \(the number of passages\), got 6$"),
        ({"k": 0}, r"^k: expected 1 to 5 \(the number of passages\), got 0$"),
        ({"k": -1}, "^k: "),
        ({"queries": np.ones((2, 7), np.float32)}, "^queries: expected rows of dim 8, as the "),
        ({"queries": np.ones((2, 8))}, "^queries: expected .*float32"),
        ({"inverse_norms": np.ones(4)}, "^inverse_norms: expected 5 numbers, one per passage"),
        ({"storage": "int4"}, "^storage: "),
        ({"tile_rows": -1}, "^tile_rows: "),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    arguments = {"queries": np.eye(2, 8, dtype=np.float32), "passages": np.eye(5, 8), "k": 2}
    arguments["passages"] = arguments["passages"].astype(np.float32)
    with pytest.raises(InputError, match=message):
        cosine_topk(**(arguments | change))


def test_k_above_what_a_device_keeps_is_refused():
    passages = np.ones((4_100, 1), np.float32)
    with pytest.raises(InputError, match=r"^k: expected at most 4096 on a device, got 4097$"):
        cosine_topk(passages[:1], passages, 4_097)
    found = search(passages[:1], passages, 4_096)
    assert_same_topk(found, reference.cosine_topk_batched(passages[:1], passages, 4_096))


def test_codes_of_other_passages_are_refused():
    rng = np.random.default_rng(10)
    passages = rows(rng, 20, 8)
    codes = prepare_passages(passages, _core.inverse_norms(passages), "int8")
    with pytest.raises(InputError, match=r"^codes: expected shape \(19, 16\), got shape"):
        cosine_topk(passages[:1], passages[:19], 2, codes=codes)
