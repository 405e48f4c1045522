"""One query through the read path: its topic, its context under the policy, a line of the log.

Owns what is logged of an answer. Never a vector; the text of the query only where the policy says
so, else a hash keyed with the store's salt, so that equal queries can be counted and none guessed
from outside.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

import numpy as np

from epibias import _validate
from epibias._validate import Float32Array
from epibias.index import axes
from epibias.index.answers import Answer, Passed
from epibias.index.topics import Placed, place_query

if TYPE_CHECKING:
    from epibias.index.audit import Line
    from epibias.index.store import IndexStore

LOGGED_QUERY = "query of the retrieval log"


def answer_query(
    store: IndexStore,
    query: str | Float32Array,
    topic: str | None,
    tenant: str | None,
    k: int | None,
) -> Answer:
    """Answer a query under the policy, and log it; as `IndexStore.search` says."""
    text = query if isinstance(query, str) else None
    if isinstance(query, str):
        row = axes.encode(store.encoder, [_validate.text("query", query)], "queries")
    else:
        row = _validate.array("query", query, dtype=np.float32, ndim=1)[None]
    reader = store.reader(tenant=tenant)
    placed = _place(store, text, row, topic)
    (found,) = reader.select(row, [placed.topic], k)
    scores = axes.scores_of(store, placed.topic, reader, found.rows)
    rows = reader.files.rows
    passages = tuple(
        Passed(name, lineage, rows.source(at), int(tier), float(similarity), ps)
        for name, lineage, at, tier, similarity, ps in zip(
            rows.ids(found.rows),
            rows.lineages(found.rows),
            found.rows.tolist(),
            reader.tiers(found.rows, placed.topic),
            found.similarities,
            scores,
            strict=True,
        )
    )
    threshold = None if found.short else float(found.scores[-1])
    answer = Answer(
        reader.files.id, placed.topic, placed.how, passages, found.short, threshold, None
    )
    line = _log(store, answer, text, row, tenant)
    return Answer(**{**vars(answer), "line": line})


def query_hash(salt: str, content: str) -> str:
    """Hash a query with the store's salt.

    Examples
    --------
    >>> query_hash("00", "Who signs?") == query_hash("00", "Who signs?")
    True
    """
    return hmac.new(bytes.fromhex(salt), content.encode(), hashlib.sha256).hexdigest()


def logged_query(store: IndexStore, line: Line) -> str | None:
    """Give the text of the query of a line of the retrieval log; None where it was not logged."""
    shown, sealer = line.body["query"], store.versions.sealer
    return shown if shown is None or sealer is None else sealer.open_text(shown, LOGGED_QUERY)


def _place(store: IndexStore, text: str | None, row: Float32Array, topic: str | None) -> Placed:
    policy = store.policy
    if topic is not None:
        policy.topic(topic)
        return Placed(topic, "caller")
    golden = store.golden.queries()
    embeddings = store.golden_embeddings(golden) if golden else None
    return place_query(text, row, policy, golden, embeddings)


def _log(
    store: IndexStore, answer: Answer, text: str | None, row: Float32Array, tenant: str | None
) -> int:
    content = text if text is not None else row.tobytes().hex()
    sealer = store.versions.sealer
    shown = text if text is not None and store.policy.log_query_text else None
    if sealer is not None:
        hashed = sealer.hash_of(content)  # a salt beside the log would help who guesses
        shown = None if shown is None else sealer.seal_text(shown, LOGGED_QUERY)
    else:
        hashed = query_hash(store.records.setting("salt"), content)
    body = {
        "query": shown,
        "query_hash": hashed,
        "tenant": tenant,
        **{
            name: getattr(answer, name)
            for name in ("version", "topic", "how", "short", "threshold")
        },
        "selected": [vars(one) for one in answer.passages],
    }
    return store.retrievals.append([("answer", body)], store.catalogue.now())
