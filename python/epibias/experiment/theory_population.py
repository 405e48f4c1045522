"""The setting of the paper's theorems in population: densities, the criterion, errors and bounds.

Owns the formulas of [1]_, section VI-B, by quadrature in float64: no sample and no kernel here.
Passages are benign (class 1) with probability 1 − `w2` and adversarial (class 2) with `w2`; a class
has a density of similarity x, and independently of it one of polarization score y.

References
----------
.. [1] arXiv:2512.00804, section VI-B and appendix C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epibias._validate import Float64Array

# Least probability on either side of a threshold: beyond it a side is empty in practice.
LEAST_MASS = 1e-4


@dataclass(frozen=True, eq=False)
class Scores:
    """Densities of the polarization score of benign and adversarial passages, on a grid.

    Attributes
    ----------
    name : str
        What they are.
    grid : float64 [n_grid]
        Scores, evenly spaced.
    benign, adversarial : float64 [n_grid]
        p1 and p2.
    """

    name: str
    grid: Float64Array
    benign: Float64Array
    adversarial: Float64Array

    def draw(self, is_adversarial: np.ndarray, generator: np.random.Generator) -> Float64Array:
        """Draw a score for every passage, by the inverse of the distribution on the grid."""
        uniform = generator.random(is_adversarial.shape)
        found = np.empty(is_adversarial.shape)
        for chosen, density in ((~is_adversarial, self.benign), (is_adversarial, self.adversarial)):
            steps = (density[1:] + density[:-1]) / 2 * np.diff(self.grid)
            distribution = np.concatenate([[0.0], steps.cumsum()])
            rising = np.concatenate([[True], np.diff(distribution) > 0])
            shares = distribution[rising] / distribution[-1]
            found[chosen] = np.interp(uniform[chosen], shares, self.grid[rising])
        return found


def normal_scores(shift: float, spread: float = 1.0) -> Scores:
    """Give normal scores: benign N(0, 1), adversarial N(shift, spread²); units of benign spread."""
    reach = 8.0 * max(1.0, spread)
    grid = np.linspace(-reach, shift + reach, 801)  # smooth: the error is below 1e-9
    benign = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi)
    adversarial = np.exp(-0.5 * ((grid - shift) / spread) ** 2) / (spread * np.sqrt(2 * np.pi))
    return Scores(f"normal, shift {shift:g}, spread {spread:g}", grid, benign, adversarial)


def linear_scores(slope: float) -> Scores:
    """Give scores on [−1, 1] with densities (1 ∓ slope·y)/2: bounded away from zero."""
    grid = np.linspace(-1.0, 1.0, 801)
    name = f"linear, slope {slope:g}"
    return Scores(name, grid, (1 - slope * grid) / 2, (1 + slope * grid) / 2)


def uniform_scores(overlap: float) -> Scores:
    """Give uniform scores on [−1, overlap] and [−overlap, 1]: KL(p1 ‖ p2) is infinite."""
    grid = np.linspace(-1.0, 1.0, 801)
    height = 1 / (1 + overlap)
    return Scores(
        "uniform, each reaching beyond the other",
        grid,
        np.where(grid <= overlap, height, 0.0),
        np.where(grid >= -overlap, height, 0.0),
    )


@dataclass(frozen=True)
class Similarities:
    """Similarities of both classes: uniform on two intervals, or normal with one spread.

    Attributes
    ----------
    kind : {"uniform", "normal"}
    benign, adversarial : pair of float
        Ends of the interval, or mean and standard deviation.
    """

    kind: str
    benign: tuple[float, float]
    adversarial: tuple[float, float]

    def below(self, thresholds: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give F1 and F2: the share of either class below each threshold."""
        return _below(self.kind, self.benign, thresholds), _below(
            self.kind, self.adversarial, thresholds
        )

    def above(self, thresholds: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Give 1 − F1 and 1 − F2, without cancelling digits."""
        if self.kind == "uniform":
            below = self.below(thresholds)
            return 1 - below[0], 1 - below[1]
        mirrored = [(-mean, spread) for mean, spread in (self.benign, self.adversarial)]
        return _below("normal", mirrored[0], -thresholds), _below(
            "normal", mirrored[1], -thresholds
        )

    @property
    def overlap(self) -> float:
        """ρ = ∫ min(f1, f2): 0 for the intervals, 2Φ(−Δ/2) for normals Δ spreads apart."""
        return 0.0 if self.kind == "uniform" else 2 * _phi(-self.distance / 2)

    @property
    def distance(self) -> float:
        """Distance of the two means in spreads; of normals only."""
        return (self.adversarial[0] - self.benign[0]) / self.benign[1]

    def crossing(self, w2: float = 0.5) -> float:
        """Where (1 − w2)·f1 = w2·f2: the Bayes-optimal threshold; of normals only.

        With w2 = ½ it is where the two densities are equal.
        """
        middle = (self.benign[0] + self.adversarial[0]) / 2
        return middle + self.benign[1] / self.distance * float(np.log((1 - w2) / w2))

    def draw(self, is_adversarial: np.ndarray, generator: np.random.Generator) -> Float64Array:
        """Draw a similarity for every passage."""
        places = (np.where(is_adversarial, self.adversarial[i], self.benign[i]) for i in (0, 1))
        first, second = places
        if self.kind == "uniform":
            return first + (second - first) * generator.random(is_adversarial.shape)
        return first + second * generator.standard_normal(is_adversarial.shape)


def touching(split: float = 0.6, gap: float = 0.0) -> Similarities:
    """Give disjoint similarities: uniform on [0, split] and [split + gap, 1]."""
    return Similarities("uniform", (0.0, split), (split + gap, 1.0))


def overlapping(distance: float) -> Similarities:
    """Give normal similarities of spread 0.06: around 0.3, and `distance` spreads above."""
    return Similarities("normal", (0.3, 0.06), (0.3 + 0.06 * distance, 0.06))


@dataclass(frozen=True, eq=False)
class Population:
    """The criterion and both errors at thresholds, in population.

    Attributes
    ----------
    thresholds, divergence, fdr, omission : float64 [n_thresholds]
        L(t) in nats, the false discovery rate (adversarial among the kept) and the false omission
        rate (benign among the dropped).
    """

    thresholds: Float64Array
    divergence: Float64Array
    fdr: Float64Array
    omission: Float64Array


def population(
    similarities: Similarities, scores: Scores, w2: float, thresholds: Float64Array
) -> Population:
    """Give L, FDR and FOR (equations 10 and 11) at thresholds with mass on both sides."""
    w1 = 1 - w2
    below, above = similarities.below(thresholds), similarities.above(thresholds)
    kept, dropped = w1 * below[0] + w2 * below[1], w1 * above[0] + w2 * above[1]
    chosen = (kept >= LEAST_MASS) & (dropped >= LEAST_MASS)
    fdr = w2 * below[1][chosen] / kept[chosen]
    omission = w1 * above[0][chosen] / dropped[chosen]
    return Population(thresholds[chosen], mixture_divergence(scores, fdr, omission), fdr, omission)


def mixture_divergence(scores: Scores, fdr: Float64Array, omission: Float64Array) -> Float64Array:
    """KL(q_L ‖ q_R), nats: the kept side has a share `fdr` of p2, the other `omission` of p1."""
    step = scores.grid[1] - scores.grid[0]
    weights = np.full(len(scores.grid), step)
    weights[[0, -1]] /= 2
    found = np.empty(len(fdr))
    for start in range(0, len(fdr), 256):  # 256 thresholds × 801 scores: 2 MB
        rows = slice(start, start + 256)
        a, b = fdr[rows, None], omission[rows, None]
        left = (1 - a) * scores.benign + a * scores.adversarial
        right = b * scores.benign + (1 - b) * scores.adversarial
        with np.errstate(divide="ignore"):  # left/0 is +inf, as it ought to be
            ratio = np.divide(left, right, out=np.ones_like(left), where=left > 0)
            found[rows] = (left * np.log(ratio)) @ weights
    return found


def maximizer(similarities: Similarities, scores: Scores, w2: float) -> tuple[float, bool]:
    """Give the threshold of largest L, to 1e-5, and whether it lies where a side runs empty."""
    low, high = 0.0, 1.0
    at_edge = False
    for n_points in (401, 101, 101):
        found = population(similarities, scores, w2, np.linspace(low, high, n_points))
        best = int(found.divergence.argmax())
        last = len(found.thresholds) - 1
        if n_points == 401:
            at_edge = best in (0, last)
        step = (high - low) / (n_points - 1)
        middle = found.thresholds[best]
        low, high = middle - step, middle + step
    return float(middle), at_edge


def _below(kind: str, shape: tuple[float, float], thresholds: Float64Array) -> Float64Array:
    first, second = shape
    if kind == "uniform":
        shares: Float64Array = np.clip((thresholds - first) / (second - first), 0.0, 1.0)
        return shares
    from scipy.special import ndtr

    normal: Float64Array = ndtr((thresholds - first) / second)
    return normal


def _phi(value: float) -> float:
    from scipy.special import ndtr

    return float(ndtr(value))
