"""Ways to compute a formula: Numba and CUDA inside predictions, PyTorch and ONNX to take away."""
