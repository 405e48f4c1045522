"""Naive definitions of what `epibias.attacks` measures: float64, plain loops, never optimised."""

from __future__ import annotations

import math


def cosine(a, b):
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    norms = (math.sqrt(sum(float(x) ** 2 for x in row)) for row in (a, b))
    return dot / math.prod(norms)


def property_of(query, passage, benign, axis, polarity, k):
    """Category of one passage: relevance above all benign, PS beyond the clean selection's mean."""
    similarities = [cosine(query, row) for row in benign]
    order = sorted(range(len(benign)), key=lambda row: (-similarities[row], row))
    selected = [cosine(axis, benign[row]) for row in order[:k]]
    relevant = cosine(query, passage) > max(similarities)
    shift = cosine(axis, passage) - sum(selected) / k
    biased = {"positive": shift > 0, "negative": shift < 0, "none": False}[polarity]
    names = {(True, True): "both", (False, True): "only bias", (True, False): "only relevance"}
    return names.get((relevant, biased), "neither")
