"""Judgements on disk, so that no pair is judged twice and a run is repeated without its model.

Owns one file of JSON lines: a line for each identity of a model, a line for each pair. A pair is
known by a hash of premise and hypothesis in this order: (a, b) and (b, a) are two questions. Texts
are not kept. Numbers come back bit for bit. Threads take turns: models and their tokenizers need
not be safe for several at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from epibias import _records
from epibias._plain import described, shortest
from epibias._validate import Float32Array
from epibias.errors import InputError
from epibias.nli.base import LABELS, NLI, check_pairs, check_probabilities

LAYOUT = 1
PAIRS_AT_A_TIME = 64  # between two writes: what a killed run has to judge again


class CachedNLI(_records.RecordsOfOne):
    """Judge from a file; ask a model for the pairs that it does not hold.

    Parameters
    ----------
    nli : NLI, optional
        Who is asked. None: nobody, as with `offline`; the file must then hold judgements of one
        model, or `identity` name it.
    path : Path
        The file, made with mode 0600 on the first judgement; its folder must exist.
    offline : bool
        Never ask: a pair that the file does not hold is an error.
    identity : mapping, optional
        Whose judgements to give, where there is no model.

    Attributes
    ----------
    n_known, n_judged : int
        Pairs given so far from the file, and by the model.

    Raises
    ------
    InputError
        A file that is not of this layout (its line), or cannot be read or written; offline, the
        number of pairs that are missing and the row of the first.

    Warns
    -----
    TornRecordWarning
        The last line is incomplete. It is not used.

    Examples
    --------
    >>> import tempfile
    >>> from epibias.nli import FixedNLI
    >>> nli = FixedNLI(lambda premise, hypothesis: (0.2, 0.1, 0.7))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "nli.jsonl"
    ...     first = CachedNLI(nli, path).probabilities(["It rains."], ["It is dry."])
    ...     again = CachedNLI(None, path).probabilities(["It rains."], ["It is dry."])
    >>> bool((first == again).all()), nli.n_pairs
    (True, 1)
    """

    _WHAT = "judgements of one model"

    def __init__(
        self,
        nli: NLI | None,
        path: Path | str,
        offline: bool = False,
        *,
        identity: Mapping[str, object] | None = None,
    ) -> None:
        self._nli = nli
        self.n_judged = 0
        self._rows: dict[tuple[str, str], tuple[float, ...]] = {}
        super().__init__(nli, path, offline, identity)
        self._model = _model_key(self._identity)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"CachedNLI({str(self._path)!r}, {len(self)} pairs)"

    def probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Float32Array:
        """Judge pairs of texts; see `NLI.probabilities`. Equal pairs are judged once."""
        check_pairs(premises, hypotheses)
        pairs = list(zip(premises, hypotheses, strict=True))
        with self._one_thread:
            return self._probabilities(pairs)

    def _probabilities(self, pairs: Sequence[tuple[str, str]]) -> Float32Array:
        keys = [(self._model, pair_key(*pair)) for pair in pairs]
        missing = {
            key: pair for key, pair in zip(keys, pairs, strict=True) if key not in self._rows
        }
        self.n_known += len(dict.fromkeys(keys)) - len(missing)
        if missing and self._is_offline:
            first = next(row for row, key in enumerate(keys) if key in missing)
            found = f"{len(missing)} that are not in it, offline"
            raise InputError(
                "premises", f"pairs that {self._path.name} holds", found, f"row {first}"
            )
        self._judge(missing)
        values = np.array([self._rows[key] for key in keys], dtype=np.float32)
        return values.reshape(len(pairs), len(LABELS))

    def _judge(self, missing: Mapping[tuple[str, str], tuple[str, str]]) -> None:
        keys = list(missing)
        for start in range(0, len(keys), PAIRS_AT_A_TIME):
            some = keys[start : start + PAIRS_AT_A_TIME]
            assert self._nli is not None  # noqa: S101  # offline without one
            values = self._nli.probabilities(
                [missing[key][0] for key in some], [missing[key][1] for key in some]
            )
            check_probabilities(values, len(some), "the model")
            pairs: list[Mapping[str, object]] = [
                {"model": key[0], "pair": key[1], "values": [shortest(value) for value in row]}
                for key, row in zip(some, values, strict=True)
            ]
            if self._model not in self._identities:
                pairs.insert(0, {"model": self._model, "identity": self._identity})
            lines = [json.dumps({"layout": LAYOUT, **record}) for record in pairs]
            _records.append_lines(self._path, lines)
            self._identities[self._model] = self._identity
            for key, row in zip(some, values, strict=True):
                self._rows[key] = tuple(float(value) for value in row)
            self.n_judged += len(some)

    def _read(self) -> None:
        lines, self.n_torn = _records.read_lines(self._path, "a file of judgements")
        for number, line in enumerate(lines, start=1):
            where = f"{self._path}, line {number}"
            record = _records.record_of(line, "pair", LAYOUT, where)
            model, identity = record.get("model"), record.get("identity")
            if isinstance(identity, dict):
                if model != _model_key(identity):
                    raise InputError("path", "an identity with its own key", "another", where)
                self._identities.setdefault(model, identity)
            else:
                self._rows.setdefault(*_row(record, where))


def pair_key(premise: str, hypothesis: str) -> str:
    """Give the key of a pair: a hash of both texts in their order.

    Examples
    --------
    >>> pair_key("a", "b") == pair_key("b", "a"), pair_key("ab", "c") == pair_key("a", "bc")
    (False, False)
    """
    return hashlib.sha256(json.dumps([premise, hypothesis]).encode()).hexdigest()[:32]


def _model_key(identity: Mapping[str, object]) -> str:
    return hashlib.sha256(_records.canonical(identity).encode()).hexdigest()[:16]


def _row(record: Mapping[str, object], where: str) -> tuple[tuple[str, str], tuple[float, ...]]:
    model, pair, values = record.get("model"), record.get("pair"), record.get("values")
    if not isinstance(model, str) or not isinstance(pair, str) or not isinstance(values, list):
        raise InputError("path", "a record with model, pair and values", "others", where)
    try:
        numbers = np.array(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise InputError("path", "three numbers", described(values), where) from None
    check_probabilities(numbers.reshape(1, -1), 1, where)
    return (model, pair), tuple(float(value) for value in numbers)
