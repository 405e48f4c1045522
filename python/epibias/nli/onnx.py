"""An NLI model as an ONNX file, with the tokenizer that belongs to it; no torch.

Owns every call of onnxruntime and tokenizers. What the logits mean is `calibration`'s.

A pair goes through the model alone unless told otherwise: an int8 model takes the range of its
activations over the whole batch, so that a pair's logits depend on what else is in it, and a cached
run would not have the numbers of a fresh one. Measured with `packaged`: a probability moved by up
to .35 between a batch of one and a batch of eight.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epibias import _validate
from epibias._files import sha256_of
from epibias._validate import Float32Array, Int64Array
from epibias.errors import InputError, TruncationWarning
from epibias.nli.base import check_pairs, check_probabilities
from epibias.nli.calibration import Calibration

KNOWN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
DEFAULT_LENGTH = 512  # tokens, where neither model nor tokenizer says another


class OnnxNLI:
    """A sequence-pair classifier in ONNX.

    Parameters
    ----------
    model : Path
        The ``.onnx`` file: inputs ``input_ids``, ``attention_mask`` and perhaps
        ``token_type_ids``; output logits [n_pairs, n_classes].
    tokenizer : Path
        Its ``tokenizer.json``.
    meaning : Calibration or sequence of str
        What the logits mean: names of the three columns in their order, or a fitted map.
    batch_size : int
        Pairs that go through the model together; see above why 1.
    threads : int
        Of onnxruntime, for one batch.
    max_length : int, optional
        Longest pair, in tokens. By default what the model fixes, else what the tokenizer states,
        else 512.

    Attributes
    ----------
    n_truncated : int
        Pairs judged so far that were longer than `max_length`.

    Raises
    ------
    InputError
        A file that cannot be loaded or has other inputs; a meaning of another number of columns.
    MissingExtraError
        Without onnxruntime or tokenizers (extra ``nli``).

    Warns
    -----
    TruncationWarning
        With the number of pairs that are longer than the model reads; the longer text of a pair is
        cut first.
    """

    def __init__(
        self,
        model: Path | str,
        tokenizer: Path | str,
        *,
        meaning: Calibration | Sequence[str],
        batch_size: int = 1,
        threads: int = 1,
        max_length: int | None = None,
    ) -> None:
        runtime: Any = _validate.extra("OnnxNLI", "onnxruntime", "nli")
        tokenizers: Any = _validate.extra("OnnxNLI", "tokenizers", "nli")
        self._batch_size = _validate.integer("batch_size", batch_size, low=1)
        _validate.integer("threads", threads, low=1)
        self._model_path, self._tokenizer_path = Path(model), Path(tokenizer)
        self._session = _session(runtime, self._model_path, threads)
        self._tokenizer = _loaded_tokenizer(tokenizers, self._tokenizer_path)
        self._inputs = [one.name for one in self._session.get_inputs()]
        unknown = [name for name in self._inputs if name not in KNOWN_INPUTS]
        if unknown or "input_ids" not in self._inputs:
            expected = f"a model with inputs among {', '.join(KNOWN_INPUTS)}"
            raise InputError("model", expected, f"{self._inputs}", str(model))
        self._fixed = _fixed_length(self._session)
        self.max_length = self._longest(max_length)
        self._calibration = Calibration.of(meaning)
        self._identity = self._describe(str(runtime.__version__))
        self.n_truncated = 0
        self._pad_id = _pad_id(self._tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @property
    def identity(self) -> dict[str, object]:
        """File names, their hash, meaning of the logits, lengths and the runtime's version."""
        return dict(self._identity)

    def __repr__(self) -> str:
        return f"OnnxNLI({self._model_path.name!r})"

    def probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Float32Array:
        """Judge pairs of texts; see `NLI.probabilities`."""
        logits = self.logits(premises, hypotheses)
        if not len(logits):
            return np.empty((0, 3), dtype=np.float32)
        values = self._calibration.probabilities(logits)
        return check_probabilities(values, len(logits), self._model_path.name)

    def logits(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Float32Array:
        """Give what the model computes, before it is given a meaning: for `Calibration.fit`.

        Returns
        -------
        float32 [n_pairs, n_logits]
            One row a pair.
        """
        check_pairs(premises, hypotheses)
        pairs = list(zip(premises, hypotheses, strict=True))
        parts = []
        n_cut = 0
        for start in range(0, len(pairs), self._batch_size):
            rows, cut = self._tokens(pairs[start : start + self._batch_size])
            n_cut += cut
            parts.append(self._run(rows))
        self._report(n_cut, len(pairs))
        if not parts:
            return np.empty((0, self._calibration.n_logits), dtype=np.float32)
        return np.concatenate(parts)

    def _tokens(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[Any], int]:
        encodings = []
        n_cut = 0
        for premise, hypothesis in pairs:
            encoding = self._tokenizer.encode(premise, hypothesis)
            if len(encoding.ids) > self.max_length:
                n_cut += 1
                self._tokenizer.enable_truncation(self.max_length, strategy="longest_first")
                encoding = self._tokenizer.encode(premise, hypothesis)
                self._tokenizer.no_truncation()
            encodings.append(encoding)
        return encodings, n_cut

    def _run(self, encodings: Sequence[Any]) -> Float32Array:
        width = self._fixed or max(len(encoding.ids) for encoding in encodings)
        fed: dict[str, Int64Array] = {}
        for name, attribute, filler in (
            ("input_ids", "ids", self._pad_id),
            ("attention_mask", "attention_mask", 0),
            ("token_type_ids", "type_ids", 0),
        ):
            if name in self._inputs:
                rows = np.full((len(encodings), width), filler, dtype=np.int64)
                for row, encoding in zip(rows, encodings, strict=True):
                    values = getattr(encoding, attribute)
                    row[: len(values)] = values
                fed[name] = rows
        output = np.asarray(self._session.run(None, fed)[0])
        expected = (len(encodings), self._calibration.n_logits)
        if output.shape != expected:
            raise InputError("meaning", f"{expected[1]} logits a pair", f"shape {output.shape}")
        return output.astype(np.float32)

    def _report(self, n_cut: int, n_pairs: int) -> None:
        self.n_truncated += n_cut
        if n_cut:
            message = (
                f"{n_cut} of {n_pairs} pairs are longer than the {self.max_length} tokens that "
                f"{self._model_path.name} reads; what lies beyond does not count"
            )
            warnings.warn(message, TruncationWarning, stacklevel=4)

    def _longest(self, asked: int | None) -> int:
        stated = (self._tokenizer.truncation or {}).get("max_length", DEFAULT_LENGTH)
        bound = self._fixed or int(stated)
        if asked is None:
            return bound
        return _validate.integer("max_length", asked, low=8, high=self._fixed)

    def _describe(self, version: str) -> dict[str, object]:
        digest = hashlib.sha256()
        for path in (self._model_path, self._tokenizer_path):
            digest.update(bytes.fromhex(sha256_of(path)))
        return {
            "kind": "onnx",
            "model": self._model_path.name,
            "sha256": digest.hexdigest(),
            "meaning": self._calibration.parameters(),
            "max_length": self.max_length,
            "batch_size": self._batch_size,
            "onnxruntime": version,
        }


def _session(runtime: Any, path: Path, threads: int) -> Any:  # noqa: ANN401
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        content = path.read_bytes()
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("model", "an ONNX file", found, str(path)) from error
    except Exception as error:  # its own kinds have no common base that it exports
        raise InputError("model", "an ONNX file", type(error).__name__, str(path)) from error


def _loaded_tokenizer(tokenizers: Any, path: Path) -> Any:  # noqa: ANN401
    try:
        return tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError("tokenizer", "a tokenizer.json", found, str(path)) from error
    except Exception as error:  # the library raises plain Exception
        raise InputError("tokenizer", "a tokenizer.json", str(error)[:200], str(path)) from error


def _fixed_length(session: Any) -> int | None:  # noqa: ANN401
    """Columns that the file fixes; None where any number goes."""
    shape = next(one.shape for one in session.get_inputs() if one.name == "input_ids")
    return int(shape[1]) if len(shape) == 2 and isinstance(shape[1], int) else None


def _pad_id(tokenizer: Any) -> int:  # noqa: ANN401
    padding: Mapping[str, Any] | None = tokenizer.padding
    if padding is not None:
        return int(padding["pad_id"])
    for token in ("[PAD]", "<pad>"):
        number = tokenizer.token_to_id(token)
        if number is not None:
            return int(number)
    return 0
