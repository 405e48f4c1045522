"""Replies on disk, so that a run is repeated without its model, to the byte.

Owns one file of JSON lines: for each answer its key, the identity of the generator, parameters,
prompt and reply. The key is a hash of all that the answer depends on, so another model, wording,
temperature or repeat never gets this answer. An answer is written as soon as it is there, in one
piece, under a lock that other processes respect: a killed run loses at most what was not answered
yet. A last line that was torn by a crash is told and cut off before the next is written.

Threads take turns, so that no prompt is asked twice, whose two answers would make the second run
another one; the generator itself asks several prompts of a call at once.

What is the model's doing is kept, an answer that was cut off or blank included; what is the
network's doing (down, timeout, …) is not, and is asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epibias import _records, _validate
from epibias.errors import InputError
from epibias.generators.base import Failure, Generator, Prompt, Reply, Sampling, check_prompts

LAYOUT = 1
KEPT_FAILURES = ("truncated", "empty")
PROMPTS_PER_SLOT = 2  # so that a slow answer does not leave the other slots of a server idle


class CachedGenerator(_records.RecordsOfOne):
    r"""Answer from a file of replies; ask a generator for what it does not hold.

    Parameters
    ----------
    generator : Generator, optional
        Who is asked. None: nobody, as with `offline`; the file must then hold replies of one
        identity, or `identity` name it.
    path : Path
        The file, made with mode 0600 on the first answer; its folder must exist.
    offline : bool
        Never ask: what the file does not hold is a ``Failure("down", …)``.
    identity : mapping, optional
        Whose replies to give, where there is no generator.

    Attributes
    ----------
    n_known, n_asked : int
        Answers given so far from the file, and by the generator.
    n_torn : int
        Lines that were incomplete: 0 or 1.

    Raises
    ------
    InputError
        A file that is not of this layout (its line), or cannot be read or written; a full disk.

    Warns
    -----
    TornRecordWarning
        The last line is incomplete. It is not used.

    Examples
    --------
    >>> import tempfile
    >>> from epibias.generators import FixedGenerator, Prompt
    >>> prompt = Prompt("own", "1", "Why do cats purr?")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "replies.jsonl"
    ...     first = CachedGenerator(FixedGenerator("They are content."), path).generate([prompt])
    ...     offline = CachedGenerator(None, path)
    ...     [again] = offline.generate([prompt])
    ...     [other] = offline.generate([prompt], repeat=1)
    >>> again.text, again.cached, other.reason
    ('They are content.', True, 'down')
    """

    _WHAT = "replies of one generator"

    def __init__(
        self,
        generator: Generator | None,
        path: Path | str,
        offline: bool = False,
        *,
        identity: Mapping[str, object] | None = None,
    ) -> None:
        self._generator = generator
        self.n_asked = 0
        self._known: dict[str, Reply | Failure] = {}
        super().__init__(generator, path, offline, identity)
        self._identity_text = _records.canonical(self._identity)

    @property
    def concurrency(self) -> int:
        """Prompts that the generator is asked at once; 1 where it says nothing, or is not asked."""
        return int(getattr(self._generator, "concurrency", 1))

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"CachedGenerator({str(self._path)!r}, {len(self)} replies)"

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        temperature: float = 0.0,
        max_tokens: int = 512,
        seed: int | None = 0,
        stop: Sequence[str] = (),
        repeat: int = 0,
    ) -> list[Reply | Failure]:
        """Answer each prompt; see `Generator.generate`. Equal prompts are asked once."""
        check_prompts(prompts)
        sampling = Sampling(temperature, max_tokens, seed, stop, repeat)
        with self._one_thread:
            return self._generate(prompts, sampling)

    def _generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Reply | Failure]:
        keys = [self._key(prompt, sampling) for prompt in prompts]
        wanted = dict(zip(keys, prompts, strict=True))
        missing = [key for key in wanted if key not in self._known]
        fresh = {} if self._is_offline else self._ask(missing, wanted, sampling)
        self.n_asked += len(fresh)
        self.n_known += sum(key in self._known and key not in fresh for key in wanted)
        results = []
        for key in keys:
            if key in fresh:
                results.append(fresh[key])
            elif key in self._known:
                results.append(self._known[key])
            else:
                results.append(self._miss())
        return results

    def _ask(
        self, keys: Sequence[str], prompts: Mapping[str, Prompt], sampling: Sampling
    ) -> dict[str, Reply | Failure]:
        asked: Any = self._generator
        # With a generator that tells each result nothing waits for the slowest of a chunk.
        tells_each = getattr(asked, "tells_each_result", False)
        is_one_by_one = not hasattr(asked, "concurrency")
        chunk = 1 if is_one_by_one else PROMPTS_PER_SLOT * self.concurrency
        fresh: dict[str, Reply | Failure] = {}

        def keep(key: str, result: Reply | Failure) -> None:
            fresh[key] = result
            if isinstance(result, Reply) or result.reason in KEPT_FAILURES:
                self._append(key, prompts[key], sampling, result)

        told: dict[str, Any] = {}
        if tells_each:
            chunk = max(1, len(keys))
            told["on_result"] = lambda place, result: keep(keys[place], result)
        for start in range(0, len(keys), chunk):
            some = keys[start : start + chunk]
            results = asked.generate(
                [prompts[key] for key in some],
                temperature=sampling.temperature,
                max_tokens=sampling.max_tokens,
                seed=sampling.seed,
                stop=sampling.stop,
                repeat=sampling.repeat,
                **told,
            )
            _validate.same_length("replies", len(results), "prompts", len(some))
            for key, result in zip(some, results, strict=True):
                if key not in fresh:
                    keep(key, result)
        return fresh

    def _miss(self) -> Failure:
        return Failure("down", f"offline, and not in {self._path.name}", attempts=0)

    def _key(self, prompt: Prompt, sampling: Sampling) -> str:
        # The template's name and version decide nothing that its texts do not.
        asked = [self._identity_text, _parameters(sampling), prompt.system, prompt.user]
        return hashlib.sha256(_records.canonical(asked).encode()).hexdigest()

    def _append(
        self, key: str, prompt: Prompt, sampling: Sampling, result: Reply | Failure
    ) -> None:
        record = {
            "layout": LAYOUT,
            "key": key,
            "identity": self._identity,
            "parameters": _parameters(sampling),
            "prompt": {
                "name": prompt.name,
                "version": prompt.version,
                "system": prompt.system,
                "user": prompt.user,
            },
            **_plain(result),
        }
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        _records.append_lines(self._path, [line])
        self._known[key] = _known(result)

    def _read(self) -> None:
        lines, self.n_torn = _records.read_lines(self._path, "a file of replies")
        for number, line in enumerate(lines, start=1):
            key, identity, result = _record(line, f"{self._path}, line {number}")
            # The first of two is kept, as a second run would have found it.
            self._known.setdefault(key, result)
            self._identities.setdefault(_records.canonical(identity), identity)


def _parameters(sampling: Sampling) -> dict[str, object]:
    return {
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop),
        "repeat": sampling.repeat,
    }


def _plain(result: Reply | Failure) -> dict[str, object]:
    if isinstance(result, Failure):
        kept = {"reason": result.reason, "message": result.message, "attempts": result.attempts}
        return {"failure": {**kept, "text": result.text}}
    return {
        "reply": {
            "text": result.text,
            "finish_reason": result.finish_reason,
            "prompt_tokens": result.prompt_tokens,
            "completion_tokens": result.completion_tokens,
        }
    }


def _known(result: Reply | Failure) -> Reply | Failure:
    if isinstance(result, Failure):
        return result
    return Reply(
        result.text,
        result.finish_reason,
        result.prompt_tokens,
        result.completion_tokens,
        cached=True,
    )


def _record(line: bytes, where: str) -> tuple[str, Mapping[str, object], Reply | Failure]:
    record = _records.record_of(line, "reply", LAYOUT, where)
    try:
        kept: Any = record.get("reply")
        result: Reply | Failure
        result = Failure(**record["failure"]) if kept is None else Reply(**kept, cached=True)
        if isinstance(result, Reply) and not isinstance(result.text, str):
            raise TypeError("text")
        key, identity = record["key"], record["identity"]
    except (KeyError, TypeError, InputError) as error:
        found = f"one without it: {type(error).__name__} {error}"
        raise InputError("path", "a record with key, identity and reply", found, where) from None
    if not isinstance(key, str) or not isinstance(identity, dict):
        raise InputError("path", "a record with key and identity", "others", where)
    return key, identity, result
