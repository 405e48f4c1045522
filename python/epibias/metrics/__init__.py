"""What a selection did, in numbers: one value a query, then means and intervals over queries."""

from epibias.metrics.intervals import (
    Distribution,
    Interval,
    bootstrap_interval,
    distribution,
    ratio_interval,
)
from epibias.metrics.ranks import auc

__all__ = [
    "Distribution",
    "Interval",
    "auc",
    "bootstrap_interval",
    "distribution",
    "ratio_interval",
]
