"""CUDA kernels for the temperature family; the module `kernels` needs PyTorch."""
