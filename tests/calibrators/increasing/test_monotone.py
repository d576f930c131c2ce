"""The smooth increasing map as a method of its own."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import CalibrationWarning
from calibrant.calibrators import MonotoneScaling, TemperatureScaling
from calibrant.formulas import ConstantTemperature, IncreasingTable
from calibrant.metrics import nll


def bent(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from softmax(m(z)), m increasing and far from linear."""
    rng = np.random.default_rng(seed)
    logits = 4.0 * rng.normal(size=(rows, 5))
    true = np.where(logits > 0.0, 0.25 * logits, logits)
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


def test_it_finds_a_bend_with_few_rows():
    fit, test = bent(200), bent(5000, seed=1)
    monotone, ts = MonotoneScaling().fit(*fit), TemperatureScaling().fit(*fit)
    assert isinstance(monotone.formula_, IncreasingTable)
    assert nll(monotone.predict_proba(test[0]), test[1]) < (
        nll(ts.predict_proba(test[0]), test[1]) - 0.02
    )
    info = monotone.fit_info_
    assert info.after < info.before
    assert info.after == pytest.approx(nll(monotone.predict_proba(fit[0]), fit[1]), rel=1e-6)


def test_the_predicted_class_does_not_change():
    logits, labels = bent(300)
    monotone = MonotoneScaling().fit(logits, labels)
    assert monotone.accuracy_preserving
    np.testing.assert_array_equal(monotone.predict(logits), logits.argmax(axis=1))
    probs = monotone.predict_proba(logits)
    assert (np.sort(probs, axis=1) == np.take_along_axis(probs, logits.argsort(1), 1)).all()


def test_temperature_scaling_where_logits_do_not_differ():
    with pytest.warns(CalibrationWarning, match="a prior keeps the temperature near 1"):
        monotone = MonotoneScaling().fit(np.zeros((30, 3)), np.arange(30) % 3)
    assert isinstance(monotone.formula_, ConstantTemperature)
    assert monotone.fit_info_.details["choice"] == "temperature scaling"


def test_the_order_of_the_rows_does_not_matter():
    logits, labels = bent(500)
    order = np.random.default_rng(0).permutation(500)
    one = MonotoneScaling().fit(logits, labels).predict_proba(logits)
    other = MonotoneScaling().fit(logits[order], labels[order]).predict_proba(logits)
    np.testing.assert_array_equal(one, other)


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr("calibrant.calibrators._choosing.SAMPLE_ROWS", 400)
    fit, test = bent(4000), bent(5000, seed=1)
    monotone = MonotoneScaling().fit(*fit)
    monkeypatch.undo()
    whole = MonotoneScaling().fit(*fit)
    assert nll(monotone.predict_proba(test[0]), test[1]) == pytest.approx(
        nll(whole.predict_proba(test[0]), test[1]), abs=0.003
    )


def test_knots_must_be_a_count():
    with pytest.raises(ValueError, match="knots must be a whole number of at least 1, got 0"):
        MonotoneScaling(knots=0).fit(*bent(20))
