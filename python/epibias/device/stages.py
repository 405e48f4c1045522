"""The stages that have kernels, by the names that `epibias.kernels` gives them."""

from epibias.device.inverse_norms import inverse_norms

__all__ = ["inverse_norms"]
