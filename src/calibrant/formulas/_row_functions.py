"""Functions of score rows, along the last axis, written once for all ways of computing."""

from __future__ import annotations

import numpy as np

from calibrant.common.types import Array
from calibrant.formulas._operations import Ops


def softmax(logits: Array, temperature: Array, ops: Ops) -> Array:
    """softmax(z / T) with one temperature, or one per row (.., 1). No class passes the arg max."""
    return ops.softmax(ops.gaps(logits, temperature))


def weighted_softmax(gaps: Array, weight: Array, ops: Ops) -> Array:
    """A weight times the softmax of gaps."""
    values = ops.exp(gaps)
    return values * (weight / ops.sum(values))


def log_softmax(logits: Array, temperature: Array, ops: Ops) -> Array:
    """log softmax(z / T); finite wherever the logit is, even where the probability is 0."""
    return ops.log_softmax(ops.gaps(logits, temperature))


def log_odds(probs: Array, ops: Ops) -> Array:
    """Probabilities as logits: log p minus its mean over the classes with p > 0."""
    positive = probs > 0.0
    logs = ops.log(ops.where(positive, probs, 1.0))
    centred = logs - ops.sum(logs) / ops.sum(ops.cast(positive, probs))
    return ops.where(positive, centred, -np.inf)


def ordered_log_odds(probs: Array, ops: Ops) -> Array:
    """``log_odds`` with the arg max of the probabilities.

    The logarithms of neighbouring floats may be the same: then the smaller one is put below.
    """
    return keep_arg_max_of_scores(log_odds(probs, ops), probs, ops)


def class_log_odds(logits: Array, ops: Ops) -> Array:
    """log(p_c / (1 - p_c)) with p = softmax(z): z_c less the log-sum-exp of the other classes.

    Exact for logits of any size. A masked class has -inf; a class whose others are all masked has
    no odds, and gets 0.
    """
    gaps = ops.gaps(logits)
    first = ops.first_largest(gaps)
    weight = ops.exp(gaps)
    below = ops.log(ops.sum(weight) - ops.where(first, 0.0, weight))  # at least the arg max is left
    second = ops.top(gaps, 2)[..., 1:2]
    alone = ops.is_masked(second)
    second = ops.where(alone, 0.0, second)
    others = ops.where(first, 0.0, ops.exp(ops.minimum(gaps - second, 0.0)))
    rest = second + ops.log(ops.where(alone, 1.0, ops.sum(others)))
    return gaps - ops.where(first, rest, below)


def top_k(logits: Array, k: int, ops: Ops) -> Array:
    """The k largest values of each row in decreasing order.

    Where a row has fewer than k finite values (masked classes), its smallest finite one fills up.
    """
    largest = ops.top(logits, k)
    if not ops.any(ops.is_masked(largest[..., -1:])):
        return largest
    masked = ops.is_masked(largest)
    smallest = ops.min(ops.where(masked, largest[..., :1], largest))
    return ops.where(masked, smallest, largest)


def entropy_share(logits: Array, ops: Ops) -> Array:
    """The entropy of softmax(z) over that of the uniform distribution on its classes, (.., 1).

    With g = z - max z and r the sum of exp(g) over all classes but one of the largest, the entropy
    is log(1 + r) - sum(g exp(g)) / (1 + r): no digit of a certain row's small entropy is lost.
    """
    gaps = ops.gaps(logits)
    masked = ops.is_masked(gaps)
    safe = ops.where(masked, 0.0, gaps)
    weight = ops.where(masked, 0.0, ops.exp(safe))
    below = gaps < 0.0
    ties = ops.sum(ops.cast(ops.invert(below), gaps))
    rest = ops.sum(ops.where(below, weight, 0.0)) + (ties - 1.0)
    entropy = ops.log1p(rest) - ops.sum(safe * weight) / (rest + 1.0)
    classes = ops.sum(ops.cast(ops.invert(masked), gaps))
    return entropy / ops.log(ops.maximum(classes, 2.0))


def uniform(logits: Array, ops: Ops) -> Array:
    """Equal probabilities for the classes that are not masked."""
    masked = ops.is_masked(logits)
    if not ops.any(masked):
        return 1.0 / logits.shape[-1]
    finite = ops.cast(ops.invert(masked), logits)
    return finite / ops.sum(finite)


def log_sigmoid(x: Array, ops: Ops) -> Array:
    """log(1 / (1 + exp(-x))); nothing overflows."""
    return ops.minimum(x, 0.0) - ops.log1p(ops.exp(-ops.abs(x)))


def sigmoid(x: Array, ops: Ops) -> Array:
    """1 / (1 + exp(-x)); nothing overflows."""
    small = ops.exp(-ops.abs(x))
    return ops.where(x >= 0.0, 1.0, small) / (small + 1.0)


def keep_arg_max(values: Array, logits: Array, ops: Ops) -> Array:
    """Positive values in which no class passes that of the (first) largest logit.

    A class with a smaller logit does not even reach it, so that the arg max of the values is that
    of the logits. For values that increase with the logits: what it changes is rounding error.
    """
    best, smaller = _best_and_smaller(values, logits, ops)
    # half an epsilon less is the float below
    return ops.minimum(values, ops.where(smaller, best * (1.0 - ops.eps(values) / 2.0), best))


def keep_arg_max_of_scores(logs: Array, logits: Array, ops: Ops) -> Array:
    """``keep_arg_max`` of values of any sign, such as logarithms."""
    best, smaller = _best_and_smaller(logs, logits, ops)
    step = ops.maximum(ops.abs(best), ops.eps(logs)) * ops.eps(logs)
    return ops.minimum(logs, ops.where(smaller, best - step, best))


def _best_and_smaller(values: Array, logits: Array, ops: Ops) -> tuple[Array, Array]:
    """The value of the arg max, and where a class has a smaller logit."""
    best = ops.take(values, ops.arg_max(logits))
    return best, logits < ops.max(logits)
