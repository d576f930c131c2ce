"""A warning where no temperature can give the classes their frequencies, and only there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationWarning
from calibrant.calibrators import calibrator


def balanced(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Margins of a model that was told both classes were as frequent, where one in 50 is."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.02).astype(int)
    return rng.normal(2.0 * labels - 1.0, 1.2), labels


@pytest.mark.parametrize("method", ["ts", "ets", "pts", "diag", "mpts"])
def test_a_wrong_prior_is_told_with_the_remedy(method):
    with pytest.warns(CalibrationWarning, match="cannot repair a wrong prior.*'platt' or 'auto'"):
        calibrator(method).fit(*balanced(3000))


@pytest.mark.parametrize("method", ["platt", "beta", "svs", "auto", "base"])
def test_methods_with_an_intercept_and_none_at_all_are_silent(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrator(method).fit(*balanced(3000))


def test_the_message_names_the_class_and_both_shares():
    with pytest.warns(CalibrationWarning) as told:
        calibrant.TS().fit(*balanced(3000))
    assert "class 0 has the mean probability 0.7" in str(told[0].message) or "class 1" in str(
        told[0].message
    )
    assert "the share 0.0" in str(told[0].message) or "the share 0.9" in str(told[0].message)


def test_several_classes_are_sent_to_a_class_map():
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(3000, 4))
    prior = np.array([2.0, 0.0, 0.0, -2.0])
    labels = (logits + prior + rng.gumbel(size=logits.shape)).argmax(axis=1)
    with pytest.warns(CalibrationWarning, match="'svs', 'spts' or 'auto' can"):
        calibrant.TS().fit(logits, labels)


@pytest.mark.parametrize("rows", [20, 200, 2000])
def test_no_false_alarm(rows):
    """Calibrated up to a temperature: of 40 fits none may warn."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        logits = 3.0 * rng.normal(size=(rows, 10))
        labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            calibrant.TS().fit(logits, labels)
