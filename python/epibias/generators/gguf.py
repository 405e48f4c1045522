"""A language model in this process: a GGUF file, run by llama.cpp through xllamacpp.

Owns every call of xllamacpp. What it answers has the shape of the OpenAI protocol, and is judged by
the same rules (`exchange`). The model is loaded by the first prompt, so that a run whose replies
are all cached needs neither memory nor time for it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from epibias import _validate
from epibias._files import sha256_of
from epibias.errors import InputError
from epibias.generators.base import Failure, Prompt, Reply, Sampling, check_prompts
from epibias.generators.exchange import body_of, judge_answer

MAGIC = b"GGUF"
_WAIT_POLICY = "OMP_WAIT_POLICY"


class GGUFGenerator:
    """A quantised language model in a GGUF file.

    Parameters
    ----------
    path : Path
        The file.
    threads : int
        Of llama.cpp; more than the cores there are make it slower.
    context : int
        Longest prompt and answer of one request together, in tokens.
    name : str, optional
        What `identity` calls the model; by default the file's name.
    reuse_context : bool
        Keep what a prompt has in common with the one before it. Saves most of the time of prompts
        that share a long beginning, but the last bits, and now and then a word, depend on the
        order of the prompts.
    parallel : int
        Prompts that are answered together. Eight take little more time than one on a CPU, but the
        last bits of an answer depend on what is answered beside it.

    Raises
    ------
    InputError
        A file that is not there, is no GGUF or cannot be loaded.
    MissingExtraError
        Without xllamacpp (extra ``gguf``).

    Notes
    -----
    As it is by default, prompts are answered one after the other, each from an empty context: other
    prompts do not change the bits of an answer. At temperature 0 the same file, release and
    processor then give the same answer again. An answer cannot be interrupted: `max_tokens`
    bounds how long it takes. xllamacpp opens a port on 127.0.0.1; it is locked with a random key
    that nobody is told.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        threads: int = 2,
        context: int = 4096,
        name: str | None = None,
        reuse_context: bool = False,
        parallel: int = 1,
    ) -> None:
        self._path = Path(path)
        self._threads = _validate.integer("threads", threads, low=1)
        self._context = _validate.integer("context", context, low=128)
        self._name = self._path.name if name is None else _validate.text("name", name)
        try:
            with self._path.open("rb") as file:
                begin = file.read(len(MAGIC))
        except OSError as error:
            found = error.strerror or str(error)
            raise InputError("path", "a GGUF file", found, str(path)) from error
        if begin != MAGIC:
            raise InputError("path", "a GGUF file", f"one that begins with {begin!r}", str(path))
        self._reuse_context = _validate.flag("reuse_context", reuse_context)
        self.concurrency = _validate.integer("parallel", parallel, low=1, high=64)
        self._library = _library()

    @functools.cached_property
    def identity(self) -> dict[str, object]:
        """Name, hash of the file, length of the context, release of xllamacpp."""
        return {
            "kind": "gguf",
            "model": self._name,
            "sha256": sha256_of(self._path),
            "context": self._context,
            "reuse_context": self._reuse_context,
            "parallel": self.concurrency,
            "xllamacpp": str(self._library.__version__),
        }

    def __repr__(self) -> str:
        return f"GGUFGenerator({self._path.name!r})"

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
        """Answer each prompt; see `Generator.generate`."""
        check_prompts(prompts)
        sampling = Sampling(temperature, max_tokens, seed, stop, repeat)
        if self.concurrency == 1 or len(prompts) < 2:
            return [self._one(prompt, sampling) for prompt in prompts]
        _ = self._server  # loaded once, not by each thread
        with ThreadPoolExecutor(self.concurrency) as pool:
            return list(pool.map(lambda prompt: self._one(prompt, sampling), prompts))

    def _one(self, prompt: Prompt, sampling: Sampling) -> Reply | Failure:
        body = body_of(self._name, prompt, sampling, "max_tokens", False)
        body["cache_prompt"] = self._reuse_context
        try:
            answer = self._server.handle_chat_completions(body)
        except InputError:  # from loading the model
            raise
        except Exception as error:
            said = _one_line(str(error)) or type(error).__name__
            return Failure("refused", f"llama.cpp: {said}", attempts=1)
        if isinstance(answer, str | bytes):
            answer = json.loads(answer)
        if isinstance(answer, dict) and "choices" not in answer:
            told = answer.get("error", answer)
            words = told.get("message", told) if isinstance(told, dict) else told
            return Failure("refused", f"llama.cpp: {_one_line(str(words))}", attempts=1)
        return judge_answer(answer, sampling.max_tokens).result

    @functools.cached_property
    def _server(self) -> Any:  # noqa: ANN401
        parameters = self._library.CommonParams()
        parameters.model.path = str(self._path)
        parameters.n_ctx = self._context * self.concurrency
        parameters.n_parallel = self.concurrency
        parameters.cpuparams.n_threads = self._threads
        parameters.cpuparams_batch.n_threads = self._threads
        parameters.hostnames = ["127.0.0.1"]
        parameters.port = 0
        parameters.api_keys = [secrets.token_hex(16)]
        parameters.warmup = False
        parameters.verbosity = -1
        try:
            return self._library.Server(parameters)
        except Exception as error:
            found = _one_line(str(error)) or type(error).__name__
            raise InputError("path", "a model that loads", found, str(self._path)) from error


def _library() -> Any:  # noqa: ANN401
    """Import xllamacpp; waiting threads sleep instead of taking a core each."""
    with _passive_waits():
        return _validate.extra("GGUFGenerator", "xllamacpp", "gguf")


@contextlib.contextmanager
def _passive_waits() -> Iterator[None]:
    """Set the policy that the OpenMP runtime reads when it is loaded, unless the user did."""
    if _WAIT_POLICY in os.environ:
        yield
        return
    os.environ[_WAIT_POLICY] = "PASSIVE"
    try:
        yield
    finally:
        os.environ.pop(_WAIT_POLICY, None)


def _one_line(words: str) -> str:
    return " ".join(words.split())[:200]
