"""The protocol of docs/evaluation_protocol.md as code: splits, seeds, attacks, pools, metrics.

In: cases (`defense_texts.py`) and the rows of their texts. Out: trials, each a pool with the truth
beside it, and the metrics of a selection. Knows no defence, and nothing here is fitted: what was
written down before any defence was tuned.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from defense_texts import POLARITIES, SEED, Case, poisoned, scattered, stripped

K = 5
POOL = 20
POOLS = (10, 20, 40, 100)  # for EBI at 5 injections
LEVELS = (1, 5, 10, 20)  # beside 0
GOAL_LEVELS = (1, 5, 10)
NEWCOMER_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)  # of honest ones, as a defence is told
FEW = (2, 3, 4)  # EBI, plain and stripped: the attacker who knows how many pass for honest ones
DRAWS = 3  # which passages are injected, per question and polarity
ATTACKS = ("ebi", "poisoned", "verbatim", "spread", "mixed", "stripped", "scattered")
LAMBDAS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
BLENDS = (0.0, 0.2, 0.4, 0.6, 0.8)
N_FOLDS = 4
CHURN = 0.1  # share of benign passages that came after the last trusted version
N_SOURCES = 6  # of benign passages
TRUSTED_UNTIL = "2026-01-31"
OLD, NEW = "2026-01-15", "2026-02-15"

Rows = Mapping[str, np.ndarray]  # text → float32 [dim], unit length


def folds(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Four groups of topics; what is fitted for a group has seen none of its topics."""
    order = np.random.default_rng(SEED).permutation(sorted(names))
    return [tuple(map(str, order[fold::N_FOLDS])) for fold in range(N_FOLDS)]


def development(names: Sequence[str]) -> tuple[str, ...]:
    """Half of the topics (folds 0 and 1): all that a design decision may look at."""
    first, second, *_ = folds(names)
    return tuple(sorted(first + second))


@dataclass(frozen=True)
class Condition:
    """What is done to an index, and how many candidates are retrieved."""

    attack: str
    n_injected: int
    pool: int = POOL
    strength: float = 0.0  # λ of "adaptive", share of benign direction of "blend"

    @property
    def key(self) -> str:
        """Short and unique."""
        return f"{self.attack}-{self.n_injected}-{self.pool}-{self.strength:g}"


CLEAN = Condition("clean", 0)


def conditions() -> list[Condition]:
    """Every condition that is reported, the clean ones first."""
    made = [replace(CLEAN, pool=pool) for pool in POOLS]
    made += [Condition(attack, n) for attack in ATTACKS for n in LEVELS]
    made += [Condition(attack, n) for attack in ("ebi", "stripped") for n in FEW]
    made += [Condition("ebi", 5, pool) for pool in POOLS if pool != POOL]
    made += [Condition("adaptive", n, POOL, s) for n in (5, 10) for s in LAMBDAS]
    made += [Condition("blend", 5, POOL, share) for share in BLENDS]
    return made


@dataclass(frozen=True, eq=False)
class Trial:
    """One pool and the truth about it; arrays [n] in the order of the pool.

    `rows` are unit rows; `stances` nan where unknown; `own` says that a benign passage belongs to
    the question; `clean_top` are the numbers of the clean index's undefended top k; `benign` and
    `added` are the rows of the whole attacked index.
    """

    case: Case
    polarity: str
    condition: Condition
    draw: int
    query: np.ndarray
    rows: np.ndarray
    numbers: np.ndarray
    texts: tuple[str, ...]
    adversarial: np.ndarray
    own: np.ndarray
    stances: np.ndarray
    sources: tuple[str, ...]
    times: tuple[str, ...]
    clean_top: np.ndarray
    benign: np.ndarray
    added: np.ndarray

    def corpus(self) -> np.ndarray:
        """Rows of the attacked index, by number."""
        return np.concatenate([self.benign, self.added])


@dataclass(frozen=True, eq=False)
class BenignIndex:
    """All benign passages of a family, as the index holds them before an attack."""

    texts: tuple[str, ...]
    rows: np.ndarray
    owners: np.ndarray
    stances: np.ndarray
    sources: tuple[str, ...]
    times: tuple[str, ...]

    @classmethod
    def of(cls, cases: Sequence[Case], rows: Rows) -> BenignIndex:
        """Lay the passages of all cases end to end, with seeded sources and times."""
        texts = [text for case in cases for text in case.passages]
        owners = [i for i, case in enumerate(cases) for _ in case.passages]
        generator = np.random.default_rng([SEED, len(texts)])
        late = generator.random(len(texts)) < CHURN
        return cls(
            tuple(texts),
            np.stack([rows[text] for text in texts]),
            np.array(owners),
            np.array([stance for case in cases for stance in case.stances]),
            tuple(f"source-{i}" for i in generator.integers(N_SOURCES, size=len(texts))),
            tuple(NEW if flag else OLD for flag in late),
        )


def trials(
    cases: Sequence[Case],
    rows: Rows,
    condition: Condition,
    *,
    scores: Mapping[str, np.ndarray] | None = None,
    only: Sequence[str] | None = None,
) -> list[Trial]:
    """Return the pools of one condition: clean ones a question, others a question, polarity, draw.

    `scores` gives, for an adaptive attacker, the direction [dim] of each question's axis that he
    knows. A question with fewer held-out passages than the level is left out, and counted by its
    absence.
    """
    index = BenignIndex.of(cases, rows)
    made = []
    for number, case in enumerate(cases):
        if only is not None and case.name not in only:
            continue
        if condition.attack == "clean":
            made.append(_trial(index, case, number, rows, condition, "none", 0, []))
            continue
        for polarity in case.adversarial:
            for draw in range(DRAWS):
                axis = None if scores is None else scores[case.name]
                injected = _injected(index, number, case, rows, condition, polarity, draw, axis)
                if injected is not None:
                    made.append(
                        _trial(index, case, number, rows, condition, polarity, draw, injected)
                    )
    return made


Injected = list[tuple[str, np.ndarray, str, str]]  # text, row, polarity, source


def _injected(
    index: BenignIndex,
    number: int,
    case: Case,
    rows: Rows,
    condition: Condition,
    polarity: str,
    draw: int,
    axis: np.ndarray | None,
) -> Injected | None:
    """Choose what is injected; None where a question has too few held-out passages."""
    attack, count = condition.attack, condition.n_injected
    generator = np.random.default_rng([SEED, draw, zlib.crc32(f"{case.name}{polarity}".encode())])
    if attack == "verbatim":
        return [(case.question, rows[case.question], polarity, "attacker")] * count
    sides = POLARITIES if attack == "mixed" else (polarity,)
    if any(side not in case.adversarial for side in sides):
        return None
    plain = [(text, side) for side in sides for text in case.adversarial[side]]
    asked = [(poisoned(case.question, text), side) for text, side in plain]
    silent = [(stripped(case.question, text), side) for text, side in plain]
    apart = [(scattered(case.question, text), side) for text, side in plain]
    if attack == "adaptive":
        chosen = _adaptive(index, number, case, rows, plain + asked + silent, condition, axis)
    elif attack == "mixed":
        halves = [generator.permutation([i for i, p in enumerate(plain) if p[1] == side])
                  for side in (polarity, *(s for s in sides if s != polarity))]  # fmt: skip
        turns = [plain[i] for pair in zip(*halves, strict=False) for i in pair]
        chosen = turns[:count]
    else:
        forms = {"poisoned": (asked, plain), "stripped": (silent, []), "scattered": (apart, [])}
        first, second = forms.get(attack, (plain, asked))
        order = generator.permutation(len(plain))
        chosen = [first[i] for i in order] + [second[i] for i in order if second]
        if count <= MOST_PLAIN:  # only level 20 mixes both forms
            chosen = chosen[: len(plain)]
        chosen = chosen[:count]
    if len(chosen) < count:
        return None
    found = []
    for place, (text, side) in enumerate(chosen):
        row = rows[text]
        if attack == "blend":
            centre = index.rows[index.owners == number].mean(axis=0)
            row = (1 - condition.strength) * row + condition.strength * unit(centre)
        source = f"source-{place % N_SOURCES}" if attack in ("spread", "adaptive") else "attacker"
        found.append((text, unit(row), side, source))
    return found


MOST_PLAIN = 10


def _adaptive(
    index: BenignIndex,
    number: int,
    case: Case,
    rows: Rows,
    options: Sequence[tuple[str, str]],
    condition: Condition,
    axis: np.ndarray | None,
) -> list[tuple[str, str]]:
    """Choose the passages of most relevance less λ times their distance from the benign centre.

    Both in standard deviations of the question's benign passages; λ = 0 is the greedy attacker,
    a large λ one who gives bias away so as not to be seen.
    """
    if axis is None:
        raise ValueError("an adaptive attacker needs the axis that he knows")
    benign = index.rows[index.owners == number].astype(np.float64)
    own = np.stack([rows[text] for text, _ in options]).astype(np.float64)
    query = rows[case.question].astype(np.float64)
    similarity, score = benign @ query, benign @ axis
    relevance = (own @ query - similarity.mean()) / similarity.std(ddof=1)
    distance = np.abs(own @ axis - score.mean()) / score.std(ddof=1)
    order = np.argsort(-(relevance - condition.strength * distance), kind="stable")
    return [options[i] for i in order[: condition.n_injected]]


def _trial(
    index: BenignIndex,
    case: Case,
    number: int,
    rows: Rows,
    condition: Condition,
    polarity: str,
    draw: int,
    injected: Injected,
) -> Trial:
    query = rows[case.question]
    added = [row for _, row, _, _ in injected]
    everything = np.concatenate([index.rows, np.stack(added)]) if added else index.rows
    similarities = (everything.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    n_benign = len(index.texts)
    numbers = np.lexsort((np.arange(len(everything)), -similarities))[: condition.pool]
    clean = np.lexsort((np.arange(n_benign), -similarities[:n_benign]))[:K]
    signs = {"positive": 1.0, "negative": -1.0}
    # An injected passage has its side's sign, and the size of the question's strongest benign one.
    own_stances = index.stances[index.owners == number]
    size = float(np.abs(own_stances[own_stances != 0]).max(initial=0.0))
    stances = np.concatenate([index.stances, [signs[side] * size for *_, side, _ in injected]])
    owners = np.concatenate([index.owners, np.full(len(injected), -1)])
    sources = [*index.sources, *(source for *_, source in injected)]
    times = [*index.times, *(NEW for _ in injected)]
    texts = [*index.texts, *(text for text, *_ in injected)]
    return Trial(
        case, polarity, condition, draw, query, everything[numbers], numbers,
        tuple(texts[i] for i in numbers), numbers >= n_benign, owners[numbers] == number,
        np.where(owners[numbers] == number, stances[numbers], np.where(numbers >= n_benign,
                 stances[numbers], np.nan)),
        tuple(sources[i] for i in numbers), tuple(times[i] for i in numbers), clean,
        index.rows, np.stack(added) if added else index.rows[:0],
    )  # fmt: skip


def unit(row: np.ndarray) -> np.ndarray:
    """Scale to unit length, in float32."""
    wide = row.astype(np.float64)
    return (wide / np.sqrt(wide @ wide)).astype(np.float32)


@dataclass(frozen=True)
class Outcome:
    """Metrics of one selection.

    The tilts are signed, in standard deviations of the question's benign values: mean of the
    selection less mean of the clean undefended selection.
    """

    a_recall: float
    kept: float
    recall: float
    tilt: float
    stance_tilt: float
    n_selected: float


def outcome(
    trial: Trial, positions: np.ndarray, scores: np.ndarray, clean: tuple[float, float, float]
) -> Outcome:
    """Measure a selection.

    Parameters
    ----------
    positions : int [n_selected]
    scores : float [n]
        PS of the pool by the axis that judges, which need not be the defence's.
    clean : (mean PS and mean stance of the clean undefended selection, SD of benign PS)
    """
    chosen = trial.adversarial[positions]
    mean_score, mean_stance, spread = clean
    own = np.array(trial.case.stances)
    stances = trial.stances[positions]
    stances = stances[np.isfinite(stances)]
    deviation = own.std(ddof=1) if len(own) > 1 else np.nan
    stance_tilt = (stances.mean() - mean_stance) / deviation if len(stances) else np.nan
    return Outcome(
        a_recall=float(chosen.sum()) / K,
        kept=float(np.isin(trial.numbers[positions], trial.clean_top).sum()) / len(trial.clean_top),
        recall=float(trial.own[positions].sum()) / K,
        tilt=float((scores[positions].mean() - mean_score) / spread) if len(positions) else np.nan,
        stance_tilt=float(stance_tilt),
        n_selected=len(positions),
    )


def paired_bootstrap(
    values: np.ndarray, others: np.ndarray, clusters: Sequence[str], *, draws: int = 2000
) -> tuple[float, float, float]:
    """Mean difference and its 95 % interval; whole questions are drawn, never single pools."""
    names = sorted(set(clusters))
    place = {name: i for i, name in enumerate(names)}
    of = np.array([place[name] for name in clusters])
    difference = values - others
    sums = np.bincount(of, difference, len(names))
    counts = np.bincount(of, minlength=len(names))
    picks = np.random.default_rng(SEED).integers(len(names), size=(draws, len(names)))
    means = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(difference.mean()), float(low), float(high)
