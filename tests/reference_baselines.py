"""What the baseline defences mean: float64, one query, one step a line, never optimised.

Each function takes one query's candidates in the pool's order and gives positions.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

SAME = 1e-10  # values nearer than this are equal: rounding decides no order


def cosine_of(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(a @ b / (math.sqrt(a @ a) * math.sqrt(b @ b)))


def ranked(values):
    """Positions by value descending; equal ones, by `SAME`, stay in order."""
    left, order = list(range(len(values))), []
    while left:
        top = max(values[i] for i in left)
        chosen = next(i for i in left if values[i] >= top - SAME)
        order.append(chosen)
        left.remove(chosen)
    return order


def brra(query, query_id, corpus, candidates, *, k, n_variants, depth, noise, intensity, seed):
    """Order by how many of the noisy copies find a candidate, then mean rank, then position."""
    unit = np.asarray(query, np.float64) / np.linalg.norm(np.asarray(query, np.float64))
    stream = np.random.Generator(np.random.Philox(key=[seed, query_id]))
    copies = [np.asarray(query, np.float32)]
    for _ in range(n_variants):
        step = stream.standard_normal(len(unit))
        if noise == "norm_matched":
            step = step / math.sqrt((step**2).sum())
        copies.append((unit + intensity * step).astype(np.float32))
    ranks = {}
    for copy in copies:
        cosine = [float(np.float32(cosine_of(copy, row))) for row in corpus]
        order = sorted(range(len(corpus)), key=lambda i: (-cosine[i], i))
        for rank, passage in enumerate(order[:depth]):
            ranks.setdefault(passage, []).append(rank)
    found = [p for p, passage in enumerate(candidates) if passage in ranks]

    def key(p):
        own = ranks[candidates[p]]
        return (-len(own), sum(own) / len(own), p)

    return sorted(found, key=key)[:k]


def terms_of(text, stop_words):
    return [w for w in re.findall(r"\w+", text.lower()) if len(w) > 1 and w not in stop_words]


def bm25(asker, text, k1=1.5):
    """BM25 of a text that is its own corpus: idf = ln(1 + 0.5/1.5), length = average."""
    total = 0.0
    for term in asker:
        if term in text:
            tf = text.count(term)
            total += math.log(1 + (1 - 1 + 0.5) / (1 + 0.5)) * tf / (tf + k1)
    return total


def grada(mutual, to_query, *, k, query_penalty, damping):
    """PageRank by iteration; `mutual[i][j]` is the similarity of j for i."""
    n = len(to_query)
    weight = np.zeros((n, n))
    for i, j in itertools.permutations(range(n), 2):
        both = 0.5 * mutual[i][j] + 0.5 * mutual[j][i]
        weight[i, j] = max(0.0, both - query_penalty * (to_query[i] + to_query[j]))
        if weight[i, j] < 1e-12:
            weight[i, j] = 0.0
    rank = np.full(n, 1 / n)
    for _ in range(3000):
        new = np.full(n, (1 - damping) / n)
        for i in range(n):
            total = weight[i].sum()
            for j in range(n):
                share = weight[i, j] / total if total > 0 else 1 / n
                new[j] += damping * rank[i] * share
        if np.abs(new - rank).max() < 1e-15:
            break
        rank = new
    return ranked(rank)[:k], rank


def ward_sizes(rows):
    """Sizes of the two clusters of Ward's method, by its definition: least growth of variance."""
    clusters = [[i] for i in range(len(rows))]

    def growth(a, b):
        gap = rows[a].mean(axis=0) - rows[b].mean(axis=0)
        return len(a) * len(b) / (len(a) + len(b)) * float(gap @ gap)

    while len(clusters) > 2:
        a, b = min(itertools.combinations(clusters, 2), key=lambda pair: growth(*pair))
        clusters = [c for c in clusters if c is not a and c is not b] + [a + b]
    return sorted(len(c) for c in clusters)


def leading_terms(texts, m):
    """TF-IDF with smoothed idf and rows of length 1, summed over the texts."""
    n, totals = len(texts), {}
    for text in texts:
        weights = {
            term: text.count(term) * (1 + math.log((1 + n) / (1 + sum(term in t for t in texts))))
            for term in set(text)
        }
        length = math.sqrt(sum(w * w for w in weights.values()))
        for term, w in weights.items():
            totals[term] = totals.get(term, 0.0) + w / length
    return sorted(totals, key=lambda term: (-round(totals[term], 12), term))[:m]


def ragdefender_by_clusters(embeddings, texts, m):
    n = len(texts)
    if n < 2:
        return 0
    rows = np.array([r / math.sqrt(r @ r) for r in np.asarray(embeddings, np.float64)])
    n_min = ward_sizes(rows)[0]
    top = leading_terms(texts, m)
    votes = sum(1 for text in texts if sum(t in text for t in top) > math.floor(len(top) / 2))
    return n_min if votes <= math.floor(n / 2) else n - n_min


def ragdefender_by_concentration(embeddings):
    n = len(embeddings)
    if n < 2:
        return 0
    means, medians = [], []
    for i in range(n):
        others = [cosine_of(embeddings[i], embeddings[j]) for j in range(n) if j != i]
        means.append(float(np.mean(others)))
        medians.append(float(np.median(others)))
    mean, median = float(np.mean(means)), float(np.median(medians))
    return sum(a > mean + SAME and b > median + SAME for a, b in zip(means, medians, strict=True))


def ragdefender_drops(embeddings, number, p):
    """The passages that weigh most in the most similar pairs."""
    if number == 0:
        return []
    n = len(embeddings)
    pairs = list(itertools.combinations(range(n), 2))
    similarity = [cosine_of(embeddings[i], embeddings[j]) for i, j in pairs]
    weight = [0.0] * n
    for place in ranked(similarity)[: max(1, math.comb(number, 2))]:
        s = similarity[place]
        for i in pairs[place]:
            weight[i] += math.copysign(abs(s) ** p, s)
    return sorted(ranked(weight)[:number])


def subsequence(a, b):
    """Longest common subsequence by the textbook's table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


def rouge_l(a, b):
    a, b = re.findall(r"\w+", a.lower()), re.findall(r"\w+", b.lower())
    common = subsequence(a, b)
    if common == 0:
        return 0.0
    precision, recall = common / len(b), common / len(a)
    return 2 * precision * recall / (precision + recall)


def best_halves(points):
    """Two clusters of least inertia, by trying all: one set of positions holds point 0."""
    n, best = len(points), None
    for bits in range(1, 2 ** (n - 1)):
        other = [i for i in range(1, n) if bits >> (i - 1) & 1]
        own = [i for i in range(n) if i not in other]
        inertia = sum(
            float(((points[side] - points[side].mean(axis=0)) ** 2).sum()) for side in (own, other)
        )
        if best is None or inertia < best[0] - SAME:
            best = (inertia, own, other)
    return best


def trustrag(embeddings, texts, halves, *, similarity=0.88, overlap=0.25, precheck=True):
    """Positions dropped, given the two clusters `halves`; near-copies by the paper's rule."""
    n = len(texts)

    def copies(i, j):
        return rouge_l(texts[i], texts[j]) > overlap + SAME

    if n < 2:
        return []
    if precheck and not any(copies(i, j) for i, j in itertools.combinations(range(n), 2)):
        return []

    def within(side):
        return float(
            np.mean(
                [
                    cosine_of(embeddings[i], embeddings[j])
                    for i, j in itertools.combinations(side, 2)
                ]
            )
        )

    def near_copies(side):
        return [i for i in side if any(copies(i, j) for j in side if j != i)]

    small, large = sorted(halves, key=len)
    if len(large) == 1:
        return []
    if len(small) == 1:
        if within(large) <= similarity:
            return small
        both = cosine_of(embeddings[large[0]], embeddings[small[0]]) > similarity
        return sorted(large + (small if both else []))
    loose, tight = sorted(halves, key=within)
    if within(loose) > similarity:
        return list(range(n))
    if within(tight) < similarity:
        return sorted(near_copies(loose) + near_copies(tight))
    return sorted(tight + near_copies(loose))


def smart(relevance, embeddings, contradiction, *, k, gamma, weight):
    """Greedy choice by determinants; `contradiction[i][j]` is P(i contradicts j)."""
    n = len(relevance)
    best = max(relevance)
    kernel = np.zeros((n, n))
    for i, j in itertools.product(range(n), repeat=2):
        conflict = 0.5 * (contradiction[i][j] + contradiction[j][i])
        s = cosine_of(embeddings[i], embeddings[j]) * math.exp(-gamma * (1 - conflict))
        kernel[i, j] = 1.0 if i == j else s
    quality = [(max(r, 0.0) / best) ** (weight / (1 - weight)) for r in map(float, relevance)]
    kernel = kernel * np.outer(quality, quality)
    values, vectors = np.linalg.eigh(kernel)
    kernel = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    chosen = []
    while len(chosen) < k:
        before = np.linalg.det(kernel[np.ix_(chosen, chosen)]) if chosen else 1.0
        gains = {
            i: np.linalg.det(kernel[np.ix_([*chosen, i], [*chosen, i])]) / before
            for i in range(n)
            if i not in chosen
        }
        top = max(gains.values(), default=0.0)
        if top <= 1e-10:
            break
        chosen.append(next(i for i, gain in gains.items() if gain >= top - 1e-12))
    return chosen
