"""Parts of `gpu_check.py` and `check_cuda_build.py`, one job a file."""
