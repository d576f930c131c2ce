"""The automatic choice: what it takes where the answer is known, and what it says of it."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import CalibrationWarning
from calibrant.calibrators import AutoCalibrator, calibrator
from calibrant.calibrators._choosing import error_of_difference, simplest_of_the_best
from calibrant.metrics import nll

Data = tuple[np.ndarray, np.ndarray]


def shifted_binary(rows: int, seed: int) -> Data:
    """A classifier trained as if both classes were as frequent, where one is rare."""
    rng = np.random.default_rng(seed)
    margin = rng.normal(scale=2.0, size=rows)
    return margin, (margin - 3.5 + rng.logistic(size=rows) > 0.0).astype(int)


def scaled(rows: int, seed: int, classes: int = 5) -> Data:
    rng = np.random.default_rng(seed)
    logits = 4.0 * rng.normal(size=(rows, classes))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def test_an_intercept_where_the_prior_is_wrong():
    fit, test = shifted_binary(800, 0), shifted_binary(4000, 1)
    auto = AutoCalibrator().fit(*fit)
    assert auto.method_ in ("platt", "beta", "svs", "spts")
    platt = nll(calibrator("platt").fit(*fit).predict_proba(test[0]), test[1])
    assert nll(auto.predict_proba(test[0]), test[1]) < 1.02 * platt


def test_nothing_is_lost_where_temperature_scaling_is_the_truth():
    fit, test = scaled(600, 0), scaled(4000, 1)
    auto = AutoCalibrator().fit(*fit)
    ts = nll(calibrator("ts").fit(*fit).predict_proba(test[0]), test[1])
    assert nll(auto.predict_proba(test[0]), test[1]) < 1.01 * ts


@pytest.mark.filterwarnings("ignore:class 1 has the mean probability")
def test_accuracy_is_preserved_on_request():
    fit = shifted_binary(800, 0)
    auto = AutoCalibrator(preserve_accuracy=True).fit(*fit)
    assert auto.accuracy_preserving
    assert auto.method_ in ("ts", "ets", "mpts")
    np.testing.assert_array_equal(auto.predict(fit[0]), fit[0] > 0.0)


def test_it_says_what_was_tried_and_why():
    details = AutoCalibrator().fit(*scaled(300, 0)).fit_info_.details
    tried = [row["candidate"] for row in details["tried"]]
    assert tried[:5] == ["base", "ts", "svs", "sms", "mpts"]
    assert details["why"].startswith(("lowest left-out NLL", "simpler than"))
    assert min(row["error_of_difference"] for row in details["tried"]) == 0.0


def test_few_rows_get_a_simple_method():
    auto = AutoCalibrator().fit(*scaled(25, 0))
    assert auto.method_ in ("base", "ts", "svs")


def test_hardly_any_rows_change_nothing():
    with pytest.warns(CalibrationWarning, match="9 rows tell nothing about the scores"):
        auto = AutoCalibrator().fit(*scaled(9, 0))
    assert auto.method_ == "base"
    assert auto.accuracy_preserving


def test_the_chosen_formula_is_that_of_the_method():
    fit = scaled(600, 0)
    auto = AutoCalibrator().fit(*fit)
    settings = {"prior_rows": "auto"} if auto.method_ == "ts" else {}
    method = calibrator(auto.method_, **settings).fit(*fit)
    np.testing.assert_allclose(auto.predict_proba(fit[0]), method.predict_proba(fit[0]), atol=1e-12)


def test_parameters_that_make_no_sense():
    with pytest.raises(ValueError, match="preserve_accuracy must be True or False, got 'yes'"):
        AutoCalibrator(preserve_accuracy="yes").fit(*scaled(20, 0))


def test_patience_takes_the_simpler_of_two_alike():
    rng = np.random.default_rng(0)
    rich = rng.random(100)
    simple = rich + rng.normal(scale=0.1, size=100)
    simple += 0.001 - (simple - rich).mean()  # worse by a tenth of its standard error
    weight = np.ones(100)
    assert error_of_difference(simple, rich, weight) == pytest.approx(0.01, rel=0.2)
    assert simplest_of_the_best(["simple", "rich"], [simple, rich], weight, 0.5)[0] == 0
    assert simplest_of_the_best(["simple", "rich"], [simple + 0.1, rich], weight, 0.5)[0] == 1
    assert simplest_of_the_best(["simple", "rich"], [simple, rich], weight, 0.0)[0] == 1


def test_whole_weights_count_rows_in_the_error():
    one, other = np.random.default_rng(0).random((2, 50))
    weight = np.full(50, 4.0)
    repeated = error_of_difference(np.repeat(one, 4), np.repeat(other, 4), np.ones(200))
    assert error_of_difference(one, other, weight) == pytest.approx(repeated)


def test_a_few_rows_that_are_sure_and_wrong_are_reason_enough():
    """Their loss is as uncertain as it is large: no patience with scores left as they are."""
    rng = np.random.default_rng(0)
    labels = np.arange(57) % 2
    margin = np.where(labels == 1, 20.0, -20.0) + rng.normal(size=57)
    margin[:3] *= -1.0
    auto = AutoCalibrator().fit(np.column_stack([np.zeros(57), margin]), labels)
    assert auto.method_ != "base"
    tried = {row["candidate"]: row for row in auto.fit_info_.details["tried"]}
    worse = tried["base"]["left_out_loss"] - min(row["left_out_loss"] for row in tried.values())
    assert 0.1 < worse < 2.25 * tried["base"]["error_of_difference"]
