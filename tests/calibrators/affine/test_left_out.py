"""Leaving one row out by a Newton step, against fits that leave it out."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import CalibrationWarning
from calibrant.calibrators import (
    BiasCorrection,
    LogitCalibrator,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    calibrator,
)
from calibrant.calibrators._choosing import row_nll
from calibrant.data.folds import folds_of
from calibrant.data.rows import Rows

METHODS = (BiasCorrection, StructuredVectorScaling, StructuredMatrixScaling)


def uneven(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident logits of a model with a wrong prior and noise of its own in every row."""
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.normal(size=(rows, classes))
    true = 0.4 * logits + np.linspace(-1.0, 1.0, classes) + 0.5 * rng.normal(size=logits.shape)
    return logits, (true + rng.gumbel(size=logits.shape)).argmax(axis=1)


def data_of(logits: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    return Rows(logits, labels, np.ones(len(labels)) if weight is None else weight)


def left_out(method: type[LogitCalibrator], data: Rows) -> np.ndarray:
    """By as many fits as there are rows."""
    every = np.arange(len(data))
    fits = (method()._fit_seen(data.take(every != row))[0] for row in every)
    return np.concatenate(
        [row_nll(fit, data.take([row])) for row, fit in zip(every, fits, strict=True)]
    )


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("method", METHODS)
def test_it_agrees_with_refits(method, classes):
    data = data_of(*uneven(120, classes))
    judged = method()._judged(data, folds_of(data))
    exact, own = left_out(method, data), row_nll(judged.fit()[0], data)
    assert np.corrcoef(judged.held_out, exact)[0, 1] > 0.999
    optimism = (exact - own).mean()
    assert optimism > 0.005  # there is something to be wrong about
    assert (judged.held_out - own).mean() == pytest.approx(optimism, rel=0.2)


@pytest.mark.parametrize("method", METHODS)
def test_the_fit_is_that_of_the_method(method):
    logits, labels = uneven(150, 3)
    judged = method()._judged(data_of(logits, labels), folds_of(data_of(logits, labels)))
    fitted = method().fit(logits, labels)
    np.testing.assert_allclose(
        fitted.formula_(logits), judged.fit()[0](logits), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("method", METHODS)
def test_masked_classes_and_a_class_without_rows(method):
    logits, labels = uneven(200, 5)
    keep = labels != 3
    logits, labels = logits[keep], labels[keep]
    logits[::7, 4] = np.where(labels[::7] == 4, logits[::7, 4], -np.inf)
    data = data_of(logits, labels)
    held_out = method()._judged(data, folds_of(data)).held_out
    assert np.isfinite(held_out).all()
    own = row_nll(method()._fit_seen(data)[0], data)
    assert own.mean() < held_out.mean() < own.mean() + 0.3


@pytest.mark.parametrize("method", METHODS)
def test_whole_weights_are_repeated_rows(method):
    logits, labels = uneven(120, 3)
    number = 1 + np.arange(120) % 3
    weighted = data_of(logits, labels, number.astype(float))
    repeated = data_of(np.repeat(logits, number, axis=0), np.repeat(labels, number))
    folds = folds_of(weighted)
    mean = np.average(method()._judged(weighted, folds).held_out, weights=folds.weight)
    other = method()._judged(repeated, folds_of(repeated)).held_out.mean()
    assert mean == pytest.approx(other, rel=1e-4)


def test_folds_serve_few_rows_and_groups():
    logits, labels = uneven(200, 3)
    for data in (
        data_of(logits[:40], labels[:40]),
        Rows(logits, labels, np.ones(200), groups=np.arange(200) // 4),
    ):
        folds = folds_of(data)
        judged = StructuredVectorScaling()._judged(data, folds)
        plain = LogitCalibrator._judged(StructuredVectorScaling(), data, folds)
        np.testing.assert_allclose(judged.held_out, plain.held_out, rtol=1e-4, atol=1e-5)


def test_many_parameters_are_judged_by_folds_from_the_solution_of_all_rows():
    data = data_of(*uneven(300, 20))
    folds = folds_of(data)
    judged = StructuredMatrixScaling()._judged(data, folds)
    plain = LogitCalibrator._judged(StructuredMatrixScaling(), data, folds)
    np.testing.assert_allclose(judged.held_out, plain.held_out, rtol=1e-3, atol=1e-4)


def test_a_bias_alone_repairs_a_wrong_prior():
    logits, labels = uneven(600, 4)
    bias = BiasCorrection().fit(logits, labels)
    np.testing.assert_allclose(bias.slopes_, 1.0, atol=1e-4)
    assert (np.diff(bias.intercept_) > 0.0).all()  # the prior's, from -1 to 1
    with pytest.warns(CalibrationWarning, match="a method that keeps the arg max cannot repair"):
        ts = calibrator("ts").fit(logits, labels)
    assert bias.fit_info_.after < ts.fit_info_.after - 0.05
