"""What each row's loss would be had an affine fit not seen the row, from one Newton step.

At the minimum of the penalised mean loss, with Hessian H, leaving out row i moves the parameters by
about H^-1 g_i / n, g_i being the row's gradient. The temperature from which the fit starts moves in
the same way. The row's loss is then computed at the moved parameters, not expanded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.affine._affine_loss import AffineFit, AffineLoss
from calibrant.common.types import Floats

LARGEST = 256  # parameters up to which a Newton step costs less than fits on folds
TILE = 1 << 20  # gradients' entries at once
MOST_MOVED = 0.5  # share by which one row may move the temperature


def left_out_losses(fit: AffineFit) -> Floats | None:
    """The loss of each row had the row been left out; None where there are many parameters."""
    loss, flat, pull = fit.loss, fit.minimum.x, fit.pull
    if loss.size > LARGEST:
        return None
    inverse = np.linalg.pinv(_hessian(loss, flat) + 2.0 * np.diag(pull), hermitian=True)
    stretch = np.clip(loss.copy_share * _moved_start(loss), -MOST_MOVED, MOST_MOVED)
    result = np.empty(len(loss.features))
    for rows in _tiles(loss):
        inputs, _, _, residual = (np.asarray(part, np.float64) for part in _tile(loss, flat, rows))
        moved = _per_parameter(loss, inputs, residual) @ inverse
        moved *= loss.copy_share[rows, None]
        result[rows] = _losses_at(loss, flat + moved, 1.0 + stretch[rows, None], rows)
    return result


def _hessian(loss: AffineLoss, flat: Floats) -> Floats:
    """That of the mean loss: the mean of J' (diag p - p p') J, J being the scores' Jacobian."""
    classes, result = loss.features.n_classes, np.zeros((loss.size, loss.size))
    for rows in _tiles(loss):
        inputs, share, _, residual = (np.asarray(p, np.float64) for p in _tile(loss, flat, rows))
        probs = residual
        probs[np.arange(len(probs)), loss.features.labels[rows]] += 1.0
        both = _per_parameter(loss, inputs, probs)
        result -= (both.T * share) @ both
        weighted = probs * share[:, None]
        if loss.full:
            read = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
            for own in range(classes):
                block = np.s_[own::classes, own::classes]
                result[block] += (read.T * weighted[:, own]) @ read
        else:
            slope, intercept = np.arange(classes), classes + np.arange(classes)
            cross = (weighted * inputs).sum(axis=0)
            result[slope, slope] += (weighted * inputs**2).sum(axis=0)
            result[slope, intercept] += cross
            result[intercept, slope] += cross
            result[intercept, intercept] += weighted.sum(axis=0)
    return result


def _per_parameter(loss: AffineLoss, inputs: Floats, per_class: Floats) -> Floats:
    """What each class adds to the derivative by each parameter, given a number for the class."""
    if not loss.full:
        return np.concatenate([inputs * per_class, per_class], axis=1)
    slopes = inputs[:, :, None] * per_class[:, None, :]
    return np.concatenate([slopes.reshape(len(inputs), -1), per_class], axis=1)


def _moved_start(loss: AffineLoss) -> Floats:
    """By what share a row's features grow, per its own share, where the start leaves it out."""
    start, slope, curvature = np.zeros(loss.size), np.empty(len(loss.features)), 0.0
    for rows in _tiles(loss):
        _, share, _, residual = (np.asarray(p, np.float64) for p in _tile(loss, start, rows))
        features = np.asarray(loss.features.scores[rows], np.float64)
        slope[rows] = np.vecdot(residual, features)
        residual[np.arange(len(residual)), loss.features.labels[rows]] += 1.0
        mean = np.vecdot(residual, features)
        curvature += float(share @ (np.vecdot(residual, features**2) - mean**2))
    return slope / curvature if curvature > 0.0 else np.zeros_like(slope)


def _losses_at(loss: AffineLoss, flat: Floats, stretch: Floats, rows: slice) -> Floats:
    """The loss of each row at parameters of its own."""
    classes = loss.features.n_classes
    features = stretch * np.asarray(loss.features.scores[rows], np.float64)
    inputs, change, intercept = loss.inputs[rows], flat[:, :-classes], flat[:, -classes:]
    if loss.full:
        change = change.reshape(len(flat), -1, classes)
        scores = features + np.einsum("ni,nik->nk", inputs, change) + intercept
    else:
        scores = features + inputs * change + intercept
    if loss.finite is not None:
        scores[~loss.finite[rows]] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    true = scores[np.arange(len(scores)), loss.features.labels[rows]]
    return np.asarray(np.log(np.exp(scores).sum(axis=1)) - true)


def _tile(loss: AffineLoss, flat: Floats, rows: slice) -> tuple[NDArray[np.floating], ...]:
    return loss.tile(flat.astype(loss.features.scores.dtype), rows)


def _tiles(loss: AffineLoss) -> list[slice]:
    step = max(1, TILE // loss.size)
    return [slice(at, at + step) for at in range(0, len(loss.features), step)]
