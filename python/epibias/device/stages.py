"""The stages that have kernels, by the names that `epibias.kernels` gives them."""

from epibias.device.cosine_topk import cosine_topk
from epibias.device.inverse_norms import inverse_norms

__all__ = ["cosine_topk", "inverse_norms"]
