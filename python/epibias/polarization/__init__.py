"""The polarization axis: `axis` is what callers hold, `fit` the methods, `inputs` their checks."""

from epibias.polarization.axis import METHODS, PolarizationAxis

__all__ = ["METHODS", "PolarizationAxis"]
