"""Row-wise functions of score arrays: pure, and the same in every array namespace."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

Array = Any


def softmax(logits: Array, temperature: Array | float = 1.0) -> Array:
    """softmax(z / T) with one temperature, or one a row. No class passes the arg max."""
    weight = array_namespace(logits).exp(scaled_gaps(logits, temperature))
    return weight / array_namespace(logits).sum(weight, axis=1, keepdims=True)


def log_softmax(logits: Array, temperature: Array | float = 1.0) -> Array:
    """log softmax(z / T); finite wherever the logit is, even where the probability is 0."""
    xp = array_namespace(logits)
    gaps = scaled_gaps(logits, temperature)
    return gaps - xp.log(xp.sum(xp.exp(gaps), axis=1, keepdims=True))


def scaled_gaps(logits: Array, temperature: Array | float) -> Array:
    """(z - max z) / T: dividing after the subtraction, nothing overflows and 0 stays 0."""
    xp = array_namespace(logits)
    gaps = logits - xp.max(logits, axis=1, keepdims=True)
    if isinstance(temperature, float):
        return gaps / temperature
    return gaps / xp.reshape(temperature, (-1, 1))


def top_k(logits: Array, k: int) -> Array:
    """The k largest values of each row in decreasing order.

    Where a row has fewer than k finite values (masked classes), its smallest finite one fills up.
    """
    xp = array_namespace(logits)
    if is_numpy_array(logits):
        largest = _top_k_numpy(logits, k)
    elif is_torch_array(logits):
        largest = logits.topk(k, dim=1).values
    else:
        largest = xp.sort(logits, axis=1, descending=True)[:, :k]
    masked = ~xp.isfinite(largest)
    if not bool(xp.any(masked)):
        return largest
    peak = largest[:, :1]
    smallest = xp.min(xp.where(masked, peak, largest), axis=1, keepdims=True)
    return xp.where(masked, smallest, largest)


def _top_k_numpy(logits: Array, k: int) -> Array:
    classes = logits.shape[1]
    if k < classes:
        logits = np.partition(logits, classes - k, axis=1)[:, classes - k :]
    return np.sort(logits, axis=1)[:, ::-1]
