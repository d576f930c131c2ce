"""Keeping the arg max: ties that rounding makes, and confidences given to the top class alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CERTAIN = 1.0 - 1e-9  # the largest confidence given: the logarithms of the others stay finite


def keep_arg_max(values: NDArray[Any], logits: NDArray[Any]) -> NDArray[Any]:
    """Values in which no class passes that of the (first) largest logit.

    A class with a smaller logit does not even reach it, so that the arg max of the values is that
    of the logits. For values that increase with the logits: what it changes is rounding error.
    """
    top = logits.argmax(axis=1)[:, None]
    best = np.take_along_axis(values, top, axis=1)
    below = np.nextafter(best, np.full_like(best, -np.inf))
    smaller = logits < np.take_along_axis(logits, top, axis=1)
    return np.minimum(values, np.where(smaller, below, best))


def top_label(logits: NDArray[Any]) -> tuple[NDArray[np.intp], Floats]:
    """The (first) arg max of each row and its softmax probability."""
    top = logits.argmax(axis=1)
    gaps = logits.astype(np.float64)
    gaps -= gaps.max(axis=1, keepdims=True)
    return top, 1.0 / np.exp(gaps).sum(axis=1)


def spread(logits: NDArray[Any], confidence: Floats) -> NDArray[Any]:
    """Distributions that give the top class a confidence and keep the arg max.

    The other classes share the rest in proportion to their probabilities. Where the second would
    then pass the first, their shares are mixed with equal ones just far enough. A confidence below
    1 / (finite classes) cannot be that of the arg max and is raised to it.
    """
    top, log_share, even = _shares_of_others(logits)
    confidence = _possible(confidence, even)
    share = _evened(log_share, confidence, even)
    result = (1.0 - confidence)[:, None] * share
    np.put_along_axis(result, top, confidence[:, None], axis=1)
    return keep_arg_max(result.astype(logits.dtype), logits)


def spread_log(logits: NDArray[Any], confidence: Floats) -> NDArray[Any]:
    """The logarithms of ``spread``, finite where a share is too small for its float."""
    top, log_share, even = _shares_of_others(logits)
    confidence = _possible(confidence, even)
    share = _evened(log_share, confidence, even)
    with np.errstate(divide="ignore"):
        result = np.where(share > 0.0, np.log(share), log_share) + np.log1p(-confidence)[:, None]
    np.put_along_axis(result, top, np.log(confidence)[:, None], axis=1)
    return keep_arg_max(result.astype(logits.dtype), logits)


def _shares_of_others(logits: NDArray[Any]) -> tuple[NDArray[np.intp], Floats, Floats]:
    """The top class; the log of each other's share of what it leaves; the equal share.

    The equal share is infinite where no other class is finite.
    """
    top = logits.argmax(axis=1)[:, None]
    gaps = logits.astype(np.float64)
    np.put_along_axis(gaps, top, -np.inf, axis=1)
    others = np.isfinite(gaps).sum(axis=1)
    second = gaps.max(axis=1, keepdims=True)
    gaps -= np.where(others[:, None] > 0, second, 0.0)
    gaps -= np.log(np.maximum(np.exp(gaps).sum(axis=1, keepdims=True), 1.0))
    with np.errstate(divide="ignore"):
        return top, gaps, 1.0 / others.astype(np.float64)


def _possible(confidence: Floats, even: Floats) -> Floats:
    """The nearest confidence that an arg max can have."""
    lowest = even / (1.0 + np.where(np.isfinite(even), even, 0.0))
    return np.where(np.isfinite(even), np.clip(confidence, lowest, CERTAIN), 1.0)


def _evened(log_share: Floats, confidence: Floats, even: Floats) -> Floats:
    """Shares mixed with equal ones so far that (1 - confidence) * share <= confidence."""
    share = np.exp(log_share)
    room = confidence / np.maximum(1.0 - confidence, 1e-300)
    largest = share.max(axis=1)
    excess = np.maximum(largest - room, 0.0) / np.maximum(largest - even, 1e-300)
    mixing = np.minimum(excess, 1.0)
    crowded = np.flatnonzero(mixing > 0.0)
    equal = np.isfinite(log_share[crowded]) * even[crowded, None]
    share[crowded] += mixing[crowded, None] * (equal - share[crowded])
    return share
