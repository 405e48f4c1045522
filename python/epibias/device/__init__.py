"""CUDA for arrays that lie on a device: torch CUDA tensors, cupy arrays, others through DLPack.

`cuda_status` says whether it can be used and why not, `check` raises what kernels found in their
data, `using` gives stream and allocator for arrays of other frameworks. The stages are called
through `epibias.kernels`, as for numpy arrays.
"""

from epibias.device.arrays import using
from epibias.device.faults import check
from epibias.device.status import CudaStatus, cuda_status

__all__ = ["CudaStatus", "check", "cuda_status", "using"]
