"""The stages that have kernels, by the names that `epibias.kernels` gives them.

BiasDef's selection is not among them: it comes back from a device as another type
(`biasdef_select.py`), so `epibias.kernels_select` takes it from there.
"""

from epibias.device.biasdef_select import rank_candidates
from epibias.device.cosine_topk import cosine_topk
from epibias.device.inverse_norms import inverse_norms
from epibias.device.polarization_axis import polarization_axis
from epibias.device.polarization_scores import anchor_scores, polarization_scores
from epibias.device.rerank import mmr
from epibias.device.threshold_sweep import printed_sweep, threshold_sweep

__all__ = [
    "anchor_scores",
    "cosine_topk",
    "inverse_norms",
    "mmr",
    "polarization_axis",
    "polarization_scores",
    "printed_sweep",
    "rank_candidates",
    "threshold_sweep",
]
