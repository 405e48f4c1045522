"""An NLI model that sentence-transformers loads as a CrossEncoder.

Owns every call of sentence-transformers for NLI. What the logits mean is `calibration`'s.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.encoder.model import NOT_REACHED, _no_loading_bars, folder_of, is_hub_reached
from epibias.errors import InputError, TruncationWarning
from epibias.nli.base import check_pairs, check_probabilities
from epibias.nli.calibration import Calibration


class CrossEncoderNLI:
    """A sequence-pair classifier, such as ``cross-encoder/nli-deberta-v3-base`` of the hub.

    Parameters
    ----------
    name_or_path : str or Path
        A folder or a name on the model hub.
    revision : str, optional
        Commit, tag or branch on the hub.
    meaning : Calibration or sequence of str, optional
        What the logits mean. By default the labels that the model's configuration names.
    batch_size : int
        Pairs that go through the model together, the shorter ones padded; the last bits of a row
        may depend on it.
    device : str, optional
        "cpu", "cuda", …; by default what sentence-transformers chooses.

    Attributes
    ----------
    n_truncated : int
        Pairs judged so far that were longer than the model reads.

    Raises
    ------
    InputError
        A model that cannot be loaded, or whose configuration does not name the three labels.
    MissingExtraError
        Without sentence-transformers (extra ``encoder``).

    Warns
    -----
    TruncationWarning
        With the number of pairs that are longer than the model reads.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        revision: str | None = None,
        meaning: Calibration | Sequence[str] | None = None,
        batch_size: int = 16,
        device: str | None = None,
    ) -> None:
        self._name = _validate.text("name_or_path", os.fspath(name_or_path))
        self._batch_size = _validate.integer("batch_size", batch_size, low=1)
        folder = folder_of(self._name)
        source = self._name if folder is None else str(folder)
        library: Any = _validate.extra("CrossEncoderNLI", "sentence_transformers", "encoder")
        is_offline = folder is None and not is_hub_reached(source, revision)
        try:
            with _no_loading_bars():
                self._model = library.CrossEncoder(
                    source, revision=revision, device=device, local_files_only=is_offline
                )
        except Exception as error:  # of a dozen kinds, none documented
            why = NOT_REACHED if is_offline else ""
            reason = next((line for line in str(error).splitlines() if line.strip()), "")
            found = f"{self._name!r}: {why}{type(error).__name__}: {reason.strip()[:300]}"
            expected = "a classifier that can be loaded: a folder, or a name on the hub"
            raise InputError("name_or_path", expected, found) from error
        config = self._model.model.config
        if meaning is None:
            names: Mapping[int, str] = config.id2label
            meaning = [names[number] for number in sorted(names)]
        self._calibration = Calibration.of(meaning)
        commit = getattr(config, "_commit_hash", None)
        self._identity: dict[str, object] = {
            "kind": "cross_encoder",
            # A folder is known by its last part: the identity must not hang on where it lies.
            "model": self._name if folder is None else folder.resolve().name,
            "revision": revision or commit,
            "weights": _fingerprint(self._model),
            "tokenizer": _tokenizer_hash(self._model.tokenizer),
            "config": _config_hash(config),
            "meaning": self._calibration.parameters(),
            "max_length": int(self._model.max_seq_length or 0) or None,
            "sentence_transformers": str(library.__version__),
        }
        self.n_truncated = 0

    @property
    def identity(self) -> dict[str, object]:
        """Name, revision, hashes of weights, tokenizer and configuration, meaning, longest pair."""
        return dict(self._identity)

    def __repr__(self) -> str:
        return f"CrossEncoderNLI({self._name!r})"

    def probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Float32Array:
        """Judge pairs of texts; see `NLI.probabilities`."""
        check_pairs(premises, hypotheses)
        if not len(premises):
            return np.empty((0, 3), dtype=np.float32)
        import torch

        pairs = list(zip(premises, hypotheses, strict=True))
        self._report(pairs)
        logits = self._model.predict(
            pairs,
            batch_size=self._batch_size,
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
        )
        rows = np.asarray(logits, dtype=np.float32).reshape(len(pairs), -1)
        return check_probabilities(self._calibration.probabilities(rows), len(pairs), self._name)

    def _report(self, pairs: Sequence[tuple[str, str]]) -> None:
        longest = int(self._model.max_seq_length or 0)
        if not longest:
            return
        tokens = self._model.tokenizer(
            [premise for premise, _ in pairs],
            [hypothesis for _, hypothesis in pairs],
            truncation=False,
            padding=False,
            verbose=False,
        )
        n_cut = sum(len(ids) > longest for ids in tokens["input_ids"])
        self.n_truncated += n_cut
        if n_cut:
            message = (
                f"{n_cut} of {len(pairs)} pairs are longer than the {longest} tokens that "
                f"{self._name} reads; what lies beyond does not count"
            )
            warnings.warn(message, TruncationWarning, stacklevel=4)


def _fingerprint(model: Any) -> str:  # noqa: ANN401
    """Hash the weights: a name may come to mean other ones."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy() if flat.numel() else b"")
    return digest.hexdigest()


def _tokenizer_hash(tokenizer: Any) -> str:  # noqa: ANN401
    """Hash what makes numbers of texts: the same weights read other words with another one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    shown = json.dumps(tokenizer.get_vocab(), sort_keys=True) if backend is None else ""
    if backend is not None:
        # How the last call cut and padded stands in it, too, and is no part of the tokenizer.
        parts = json.loads(backend.to_str())
        shown = json.dumps({**parts, "truncation": None, "padding": None}, sort_keys=True)
    return hashlib.sha256(f"{type(tokenizer).__name__} {shown}".encode()).hexdigest()


def _config_hash(config: Any) -> str:  # noqa: ANN401
    """Hash what decides how weights are used (heads, activation, …), not where they came from."""
    fields = {
        name: value
        for name, value in config.to_dict().items()
        if not name.startswith("_") and name not in ("transformers_version", "id2label", "label2id")
    }
    shown = json.dumps(fields, sort_keys=True, default=str)
    return hashlib.sha256(shown.encode()).hexdigest()
