"""Calibrators as ONNX graphs: alone in a file, or appended to a model.

>>> from calibrant.onnx import attach, export
>>> export(pts, "pts.onnx")                                       # doctest: +SKIP
>>> attach("model.onnx", pts, "calibrated.onnx", "logits")        # doctest: +SKIP
"""

from __future__ import annotations

from calibrant.backends.onnx._attach import attach
from calibrant.backends.onnx._export import GraphNames, export

__all__ = ["GraphNames", "attach", "export"]
