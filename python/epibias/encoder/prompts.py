"""Prompts that encoders want before a query or a passage.

Owns the choice: what the caller says; else what the model's own configuration says; else, for
families whose authors state prompts only in their model card, the table below; else none. Where the
prompt came from is recorded with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

QUERY_NAMES = ("query", "search_query")
PASSAGE_NAMES = ("document", "passage", "corpus", "search_document")
_SEARCH = "Represent this sentence for searching relevant passages: "
_SEARCH_ZH = "为这个句子生成表示以用于检索相关文章："

# Name of the model (its last part), query prompt, passage prompt; from the authors' model cards.
FAMILIES = (
    (re.compile(r"(multilingual-)?e5-(small|base|large)(-v2)?"), "query: ", "passage: "),
    (re.compile(r"bge-(small|base|large)-en(-v1[.]5)?"), _SEARCH, ""),
    (re.compile(r"bge-(small|base|large)-zh(-v1[.]5)?"), _SEARCH_ZH, ""),
    (re.compile(r"mxbai-embed-large-v1"), _SEARCH, ""),
    (re.compile(r"nomic-embed-text-v1([.]5)?"), "search_query: ", "search_document: "),
)


@dataclass(frozen=True)
class Prompts:
    """Texts put before queries and passages, and where they came from.

    `origin` is "argument", "model" (its configuration), "table" (`FAMILIES`) or "none", for queries
    and for passages.
    """

    query: str
    passage: str
    origin: tuple[str, str]


def choose_prompts(
    name: str,
    configured: Mapping[str, str],
    default_name: str | None,
    query_prompt: str | None = None,
    passage_prompt: str | None = None,
) -> Prompts:
    """Choose the prompts of a model.

    Parameters
    ----------
    name : str
        Name or path of the model.
    configured : mapping
        `prompts` of the model's configuration.
    default_name : str, optional
        Its `default_prompt_name`: the prompt for whatever has none of its own.
    query_prompt, passage_prompt : str, optional
        The caller's choice; "" for none.

    Examples
    --------
    >>> choose_prompts("intfloat/e5-base-v2", {}, None).passage
    'passage: '
    >>> choose_prompts("m", {"query": "Q: ", "document": ""}, None, passage_prompt="P: ")
    Prompts(query='Q: ', passage='P: ', origin=('model', 'argument'))
    """
    query, query_origin = _choose(name, configured, default_name, QUERY_NAMES, query_prompt, 0)
    passage, passage_origin = _choose(
        name, configured, default_name, PASSAGE_NAMES, passage_prompt, 1
    )
    return Prompts(query, passage, (query_origin, passage_origin))


def _choose(
    name: str,
    configured: Mapping[str, str],
    default_name: str | None,
    names: tuple[str, ...],
    given: str | None,
    side: int,
) -> tuple[str, str]:
    if given is not None:
        return given, "argument"
    # Sentence-transformers fills in empty prompts where a model states none.
    if any(configured.values()):
        for known in (*names, default_name):
            if known is not None and configured.get(known):
                return configured[known], "model"
        return "", "model"
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    for pattern, *prompts in FAMILIES:
        if pattern.fullmatch(last):
            return prompts[side], "table"
    return "", "none"
