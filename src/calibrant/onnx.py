"""Calibrators as ONNX graphs: alone in a file, or appended to a model."""

from calibrant.backends.onnx import GraphNames, attach, export

__all__ = ["GraphNames", "attach", "export"]
