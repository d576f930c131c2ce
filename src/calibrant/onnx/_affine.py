"""Affine maps as nodes."""

from __future__ import annotations

import numpy as np

from calibrant._plan import AffineMap
from calibrant.calibrators._affine_map import LARGEST
from calibrant.onnx._builder import Tensor, where
from calibrant.onnx._temperatures import scaled_gaps, softmax


def affine_map(logits: Tensor, formula: AffineMap) -> Tensor:
    """softmax(u W + b); masked classes keep 0, and are read as the smallest feature of a row."""
    graph, kind = logits.graph, logits.dtype
    finite = logits > -np.inf
    bounded = logits.at_least(-LARGEST).at_most(LARGEST)
    features = _features(bounded, finite, formula)
    smallest = where(finite, features, np.inf).min()
    features = where(finite, features, smallest)
    slopes, intercept = (
        graph.constant(formula.slopes, kind),
        graph.constant(formula.intercept, kind),
    )
    moved = features @ slopes if formula.slopes.ndim == 2 else features * slopes
    return softmax(where(finite, moved + intercept, -np.inf))


def _features(logits: Tensor, finite: Tensor, formula: AffineMap) -> Tensor:
    """What the map reads of bounded logits."""
    if formula.reads == "logits":
        return logits
    if formula.reads == "log-probs":
        gaps = scaled_gaps(logits, 1.0)
        return gaps - gaps.exp().sum().log()
    present = finite.cast(logits.dtype)
    smooth = softmax(logits, formula.temperature) * (1.0 - formula.smoothing)
    smooth = smooth + present / present.sum() * formula.smoothing
    return where(smooth > 0.0, smooth, 1.0).log()
