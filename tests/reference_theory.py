"""The theorems' quantities by adaptive quadrature and closed forms, one threshold at a time."""

from __future__ import annotations

import math

from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

BENIGN = norm(0.3, 0.06)


def adversarial(distance: float):
    return norm(0.3 + 0.06 * distance, 0.06)


def errors(t: float, distance: float, w2: float) -> tuple[float, float]:
    """FDR and FOR at t (equation 11) of normal similarities."""
    w1, other = 1 - w2, adversarial(distance)
    fdr = w2 * other.cdf(t) / (w1 * BENIGN.cdf(t) + w2 * other.cdf(t))
    omission = w1 * BENIGN.sf(t) / (w1 * BENIGN.sf(t) + w2 * other.sf(t))
    return fdr, omission


def divergence(t: float, distance: float, w2: float, shift: float, spread: float) -> float:
    """L(t), with scores N(0, 1) and N(shift, spread²)."""
    a, b = errors(t, distance, w2)
    first, second = norm(0, 1), norm(shift, spread)

    def integrand(y):
        left = (1 - a) * first.pdf(y) + a * second.pdf(y)
        right = b * first.pdf(y) + (1 - b) * second.pdf(y)
        return left * math.log(left / right) if left > 0 else 0.0

    reach = 8 * max(1, spread)
    return quad(integrand, -reach, shift + reach, limit=200, epsabs=1e-11)[0]


def maximizer(distance: float, w2: float, shift: float, spread: float, near: float) -> float:
    """The threshold of largest L within 0.02 of one."""
    found = minimize_scalar(
        lambda t: -divergence(t, distance, w2, shift, spread),
        bounds=(near - 0.02, near + 0.02),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(found.x)


def overlap(distance: float) -> float:
    """ρ by quadrature on either side of the crossing."""
    other = adversarial(distance)
    middle = 0.3 + 0.03 * distance
    left = quad(other.pdf, -1, middle, epsabs=1e-12, points=[0.3])[0]
    right = quad(BENIGN.pdf, middle, 2, epsabs=1e-12, points=[0.3 + 0.06 * distance])[0]
    return left + right
