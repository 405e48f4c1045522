"""Exact cosine top-k by others, each as one would write it for speed; see cosine_topk.py.

A peer gets unit passages once and unit queries at every call, and may give its k in any order: what
it is spared counts for it. `configurations` are what is tried before a case is timed; the fastest
is taken. Nothing here imports epibias, and each library is imported by the process that runs it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import distributions
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Setting = int | str
Answer = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]

# The BLAS in FAISS's wheel is of 2021 and knows few processors; these kernels run on many.
CORE_TYPES = ("SkylakeX", "Haswell", "Zen")


class Peer(Protocol):
    """A library's search over the passages it was made with."""

    def configurations(self, n_queries: int, k: int) -> Sequence[Setting]:
        """Give what is worth trying for this many queries."""
        ...

    def search(self, queries: Rows, k: int, configuration: Setting) -> Answer:
        """Give indices and similarities, [n_queries, k], in any order."""
        ...


def blocks(n_queries: int, sizes: Sequence[int]) -> list[int]:
    """Give the sizes of query blocks worth trying: fewer than 8 blocks, none larger than all."""
    return sorted({min(size, n_queries) for size in sizes if 8 * size > n_queries})


class NumPy:
    """A float32 product in blocks of queries, then argpartition of each row, or of few of each.

    "chunk maxima": the k-th largest of the maxima of 64 places is at most the k-th largest value,
    and what reaches it is little.
    """

    CHUNK = 64

    def __init__(self, passages: Rows, n_threads: int) -> None:
        self.passages = passages
        self.products = np.empty((256, len(passages)), np.float32)

    def configurations(self, n_queries: int, k: int) -> Sequence[str]:
        enough = k <= len(self.passages) // self.CHUNK
        ways = ["argpartition", "chunk maxima"] if enough else ["argpartition"]
        return [f"{size}, {way}" for size in blocks(n_queries, (1, 16, 256)) for way in ways]

    def search(self, queries: Rows, k: int, configuration: str) -> Answer:
        size, way = configuration.split(", ")
        select = self.of_few if way == "chunk maxima" else self.of_all
        indices = np.empty((len(queries), k), np.int64)
        similarities = np.empty((len(queries), k), np.float32)
        for first in range(0, len(queries), int(size)):
            block = queries[first : first + int(size)]
            products = np.matmul(block, self.passages.T, out=self.products[: len(block)])
            for number, row in enumerate(products, first):
                indices[number] = select(row, k)
                similarities[number] = row[indices[number]]
        return indices, similarities

    @staticmethod
    def of_all(row: Rows, k: int) -> NDArray[np.int64]:
        return np.argpartition(row, len(row) - k)[len(row) - k :]

    def of_few(self, row: Rows, k: int) -> NDArray[np.int64]:
        whole = len(row) // self.CHUNK * self.CHUNK
        maxima = row[:whole].reshape(-1, self.CHUNK).max(axis=1)
        bound = np.partition(maxima, len(maxima) - k)[len(maxima) - k]
        few = np.flatnonzero(row >= bound)
        return few[self.of_all(row[few], k)]


class Torch:
    """`torch.mm` in blocks of queries into a buffer, then `topk` without sorting."""

    def __init__(self, passages: Rows, n_threads: int) -> None:
        import torch

        torch.set_num_threads(n_threads)
        self.torch = torch
        self.passages = torch.from_numpy(passages)
        self.products = torch.empty((256, len(passages)))

    def configurations(self, n_queries: int, k: int) -> Sequence[int]:
        return blocks(n_queries, (1, 16, 64, 256))

    def search(self, queries: Rows, k: int, configuration: int) -> Answer:
        torch = self.torch
        asked = torch.from_numpy(queries)
        found = []
        with torch.inference_mode():
            for block in asked.split(configuration):
                products = self.products[: len(block)]
                torch.mm(block, self.passages.T, out=products)
                found.append(torch.topk(products, k, dim=1, sorted=False))
            indices = torch.cat([part.indices for part in found])
            similarities = torch.cat([part.values for part in found])
        return indices.numpy(), similarities.numpy()


class FaissDefault:
    """`IndexFlatIP` as it comes."""

    def __init__(self, passages: Rows, n_threads: int) -> None:
        import faiss

        self.faiss, self.n_threads = faiss, n_threads
        self.default_threshold = faiss.cvar.distance_compute_blas_threshold
        self.index = faiss.IndexFlatIP(passages.shape[1])
        self.index.add(passages)

    def configurations(self, n_queries: int, k: int) -> Sequence[str]:
        return [f"threshold {self.default_threshold}, threads {self.n_threads}"]

    def search(self, queries: Rows, k: int, configuration: str) -> Answer:
        threshold, threads = (int(part.split()[-1]) for part in configuration.split(","))
        self.faiss.cvar.distance_compute_blas_threshold = threshold
        self.faiss.omp_set_num_threads(threads)
        similarities, indices = self.index.search(queries, k)
        return indices, similarities


class Faiss(FaissDefault):
    """`IndexFlatIP` with core type and use of its BLAS, and the number of threads, chosen.

    As shipped, 256 queries of 384 columns stay below the threshold for a call of BLAS and take
    eight times as long; and one query takes four times as long on two threads as on one.
    """

    def configurations(self, n_queries: int, k: int) -> Sequence[str]:
        return [
            f"threshold {threshold}, threads {threads}"
            for threshold in (self.default_threshold, 20)
            for threads in sorted({1, self.n_threads})
        ]


class Panorama:
    """`IndexFlatIPPanorama` behind a PCA rotation, its number of levels swept for one query.

    The rotation is not centred, so products stay what they were; queries are rotated in the call.
    """

    LEVELS = (8, 16, 24, 32)
    BATCHES = (512, 1024)  # 128, the default, takes a fifth longer; a batch must not be below k

    def __init__(self, passages: Rows, n_threads: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.faiss, self.n_threads = faiss, n_threads
        dim = passages.shape[1]
        sample = passages[:: max(len(passages) // 20_000, 1)].astype(np.float64)
        axes = np.linalg.eigh(sample.T @ sample)[1][:, ::-1]
        self.rotation = np.ascontiguousarray(axes, np.float32)
        rotated = passages @ self.rotation
        trial = rotated[:: max(len(rotated) // 8, 1)][:8].copy()
        self.indexes: dict[str, Any] = {}
        for batch in self.BATCHES:
            fastest = float("inf")
            for levels in self.LEVELS:
                index = faiss.IndexFlatIPPanorama(dim, levels, batch)
                index.add(rotated)
                each = partial(_one_by_one, partial(index.search, k=20), trial)
                seconds = min(_seconds(each), _seconds(each))
                if seconds < fastest:
                    fastest, chosen = seconds, (f"{levels} levels, batches of {batch}", index)
                del index
            self.indexes[chosen[0]] = chosen[1]

    def configurations(self, n_queries: int, k: int) -> Sequence[str]:
        allowed = [
            name for batch, name in zip(self.BATCHES, self.indexes, strict=True) if batch >= k
        ]
        threads = sorted({1, self.n_threads})
        return [f"{name}, threads {n}" for name in allowed for n in threads]

    def search(self, queries: Rows, k: int, configuration: str) -> Answer:
        name, threads = configuration.split(", threads ")
        self.faiss.omp_set_num_threads(int(threads))
        similarities, indices = self.indexes[name].search(queries @ self.rotation, k)
        return indices, similarities


class USearch:
    """usearch's exact search: no index, the metric over every pair."""

    def __init__(self, passages: Rows, n_threads: int) -> None:
        from usearch.index import MetricKind, search

        self.passages, self.n_threads = passages, n_threads
        self.run, self.metric = search, MetricKind.IP

    def configurations(self, n_queries: int, k: int) -> Sequence[str]:
        return ["inner product"]

    def search(self, queries: Rows, k: int, configuration: str) -> Answer:
        found = self.run(self.passages, queries, k, self.metric, exact=True, threads=self.n_threads)
        shape = (len(queries), k)
        return found.keys.reshape(shape).astype(np.int64), 1 - found.distances.reshape(shape)


class NumKong:
    """NumKong's packed dot products (summed in float64), then argpartition; a pack for a thread."""

    def __init__(self, passages: Rows, n_threads: int) -> None:
        import numkong

        self.numkong = numkong
        self.parts = np.array_split(passages, n_threads)
        self.packs = [numkong.dots_pack(part) for part in self.parts]
        self.firsts = np.cumsum([0, *(len(part) for part in self.parts[:-1])])
        self.pool = ThreadPoolExecutor(n_threads)

    def configurations(self, n_queries: int, k: int) -> Sequence[int]:
        return blocks(n_queries, (16, 64))

    def search(self, queries: Rows, k: int, configuration: int) -> Answer:
        indices = np.empty((len(queries), k), np.int64)
        similarities = np.empty((len(queries), k), np.float64)

        def best(part: int, block: Rows) -> Answer:
            products = np.asarray(self.numkong.dots_packed(block, self.packs[part]))
            n = products.shape[1]
            rows = np.argpartition(products, n - k, axis=1)[:, n - k :]
            return rows + self.firsts[part], np.take_along_axis(products, rows, axis=1)

        for first in range(0, len(queries), configuration):
            block = queries[first : first + configuration]
            jobs = [self.pool.submit(best, part, block) for part in range(len(self.packs))]
            found = [job.result() for job in jobs]
            every = np.concatenate([rows for rows, _ in found], axis=1)
            products = np.concatenate([values for _, values in found], axis=1)
            top = np.argpartition(products, products.shape[1] - k, axis=1)[:, -k:]
            here = slice(first, first + len(block))
            indices[here] = np.take_along_axis(every, top, axis=1)
            similarities[here] = np.take_along_axis(products, top, axis=1)
        return indices, similarities


class ScikitLearn:
    """Brute-force `NearestNeighbors`: its cosine, or its faster Euclidean distance of unit rows."""

    def __init__(self, passages: Rows, n_threads: int) -> None:
        from sklearn.neighbors import NearestNeighbors

        self.by_metric = {
            metric: NearestNeighbors(algorithm="brute", metric=metric).fit(passages)
            for metric in ("cosine", "sqeuclidean")
        }

    def configurations(self, n_queries: int, k: int) -> Sequence[str]:
        return list(self.by_metric)

    def search(self, queries: Rows, k: int, configuration: str) -> Answer:
        distances, indices = self.by_metric[configuration].kneighbors(queries, k)
        return indices, 1 - distances / (1 if configuration == "cosine" else 2)


PEERS: dict[str, Callable[[Rows, int], Peer]] = {
    "numpy": NumPy,
    "torch": Torch,
    "FAISS": Faiss,
    "FAISS Panorama": Panorama,
    "FAISS default": FaissDefault,
    "usearch": USearch,
    "NumKong": NumKong,
    "scikit-learn": ScikitLearn,
}


def faiss_milliseconds() -> float:
    """Time a search that goes through FAISS's BLAS; the core type is the environment's."""
    import faiss

    faiss.omp_set_num_threads(1)
    faiss.cvar.distance_compute_blas_threshold = 20
    rows = np.random.default_rng(0).standard_normal((20_000, 384), np.float32)
    index = faiss.IndexFlatIP(384)
    index.add(rows)
    return 1e3 * min(_seconds(partial(index.search, rows[:256], 20)) for _ in range(4))


def versions() -> dict[str, str]:
    """Give the releases of the peers that are installed."""
    names = ("numpy", "torch", "faiss-cpu", "usearch", "numkong", "scikit-learn")
    installed = {d.name.lower(): d.version for d in distributions()}
    return {name: installed.get(name, "not installed") for name in names}


def blas() -> list[str]:
    """Give each BLAS of this process, with the processor whose kernels it chose."""
    from threadpoolctl import threadpool_info

    return sorted(
        f"{info['internal_api']} {info['version']} {info.get('architecture', '')}".strip()
        for info in threadpool_info()
        if info["user_api"] == "blas"
    )


def _one_by_one(search: Callable[[Rows], object], queries: Rows) -> None:
    for number in range(len(queries)):
        search(queries[number : number + 1])


def _seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started
