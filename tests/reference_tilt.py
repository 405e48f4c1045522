"""The meaning of echoes, of the exchanges of TiltBound and of the pooled axis: naive float64."""

from __future__ import annotations

import unicodedata
from itertools import combinations

import numpy as np

ROUNDING = 1e-12


def letter_triples(text):
    """Triples of lower-case letters and digits, words one space apart and at each end."""
    padded = " " + " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split()) + " "
    return [padded[i : i + 3] for i in range(len(padded) - 2)]


def as_read(text):
    """Lower case, without accents and what nobody sees; spaces of any width and marks as spaces."""
    kept = []
    for letter in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(letter)
        if letter in "\t\n\r" or kind[0] in "ZPS":
            kept.append(" ")
        elif kind[0] != "C" and kind != "Mn":
            kept.append(letter)
    return unicodedata.normalize("NFC", "".join(kept))


def triple_numbers(text):
    """The same triples as numbers of 16 bits, letters beyond ASCII folded to 223 classes."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    codes = [0]
    for letter in as_read(text):
        code = 37 + ord(letter) % 223 if ord(letter) > 127 else letters.find(letter) + 1
        if code or codes[-1]:
            codes.append(code)
    codes += [0] if codes[-1] else []
    codes = codes if len(codes) > 2 else []
    triples = zip(codes, codes[1:], codes[2:], strict=False)
    return [((a * 260 + b) * 260 + c) * 2_654_435_769 % 2**32 >> 16 for a, b, c in triples]


def echo_share(question, passage, triples=letter_triples):
    """Most different triples of the question in a window, less 1/12 for each doubling of it."""
    asked, said = triples(question), triples(passage)
    wanted = set(asked)
    best, width, doublings = 0.0, 2 * len(asked), 0
    while wanted and said:
        held = max(len(wanted & set(said[i : i + width])) for i in range(len(said)))
        best = max(best, held / len(wanted) - doublings / 12)
        if width >= len(said):
            break
        width, doublings = 2 * width, doublings + 1
    return best


def unremembered(x, y, pairs):
    """Which of one query's candidates were not among the remembered pairs, each met but once."""
    left, marks = pairs.tolist(), []
    for similarity, score in zip(x.astype(float), y.astype(float), strict=True):
        ways = [max(abs(similarity - one[0]), abs(score - one[1])) for one in left]
        met = bool(ways) and min(ways) <= 1e-6
        if met:
            left.pop(ways.index(min(ways)))  # a copy needs another
        marks.append(not met and similarity > pairs[:, 0].min() + 1e-6)
    return marks


def untrusted(own, trusted, tolerance):
    """Which of one query's candidates are not in an index, by their numbers; copies one for one."""
    marks, free = [], np.ones(len(trusted), bool)
    for row in own.astype(float):
        ways = np.where(free, np.abs(trusted.astype(float) - row).max(axis=1), np.inf)
        met = ways.min() <= tolerance
        free[ways.argmin()] &= not met
        marks.append(not met)
    return marks


def refused(new, most_in_pool, most_in_selection, sources, most_of_source):
    """Which of one query's newcomers may not be selected."""
    if sum(new) > most_in_pool:
        return list(new)
    marks, passed, taken = [], 0, {}
    for place, is_new in enumerate(new):
        passes = is_new
        if is_new and sources is not None:
            taken[sources[place]] = taken.get(sources[place], 0) + 1
            passes = taken[sources[place]] <= most_of_source
        passes = passes and passed < most_in_selection
        passed += passes
        marks.append(is_new and not passes)
    return marks


def bounded_selection(x, y, centre, width, allowed, k):
    """Positions selected from one query's candidates, and the drift before and after."""
    chosen = [i for i in range(len(x)) if allowed[i]][:k]
    if not chosen:
        return [], 0.0, 0.0
    limit = width * (1 + ROUNDING)

    def drift(positions):
        return sum(y[i] - centre for i in positions) / len(positions)

    before = now = drift(chosen)
    if abs(before) <= limit:
        return chosen, before, before

    def exchanges():
        for leaving in sorted(chosen, reverse=True):
            for entering in range(len(x)):
                if allowed[entering] and entering not in chosen:
                    loss = x[leaving] - x[entering]
                    moved = now + (y[entering] - y[leaving]) / len(chosen)
                    yield leaving, entering, loss, moved

    while abs(now) > limit:
        options = list(exchanges())
        within = [o for o in options if abs(o[3]) <= limit]
        nearer = [o for o in options if abs(o[3]) < abs(now)]
        if within:
            best = min(within, key=lambda o: o[2])
        elif nearer:
            best = min(nearer, key=lambda o: o[2] / (abs(now) - abs(o[3])))
        else:
            return sorted(chosen), before, now
        chosen = [i for i in chosen if i != best[0]] + [best[1]]
        now = best[3]
    while True:
        gains = [o for o in exchanges() if abs(o[3]) <= limit and o[2] < -ROUNDING]
        if not gains:
            return sorted(chosen), before, now
        best = min(gains, key=lambda o: o[2])
        chosen = [i for i in chosen if i != best[0]] + [best[1]]
        now = best[3]


def best_selection(x, y, centre, width, k):
    """The most similar `k` whose mean score lies within the width, by trying all; None if none."""
    best = None
    for positions in combinations(range(len(x)), k):
        if abs(np.mean([y[i] for i in positions]) - centre) <= width * (1 + ROUNDING):
            total = sum(x[i] for i in positions)
            if best is None or total > best:
                best = total
    return best


def pooled_axis(passages, stances, contexts, context, shared, penalty):
    """Direction of the ridge regression on explicit features: context ⊗ passage."""
    features, signs = [], []
    u = [np.append(c / np.linalg.norm(c), np.sqrt(shared)) for c in np.asarray(contexts, float)]
    for rows, labels, unit in zip(passages, stances, u, strict=True):
        rows = np.asarray(rows, float)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows - rows.mean(axis=0)
        for row, label in zip(rows, labels, strict=True):
            features.append(np.outer(unit, row).ravel())
            signs.append(label / np.abs(labels).max())
    design = np.array(features)
    gram = design.T @ design + penalty * np.eye(design.shape[1])
    weights = np.linalg.solve(gram, design.T @ np.array(signs))
    own = np.asarray(context, float)
    own = np.append(own / np.linalg.norm(own), np.sqrt(shared))
    direction = own @ weights.reshape(len(own), -1)
    return direction / np.linalg.norm(direction)
