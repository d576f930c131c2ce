"""The joint methods: better than their parts where there is something to find, else the parts."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.calibrators import MonotonePTS, StructuredPTS, calibrator
from calibrant.formulas import Chain, NetworkTemperature
from calibrant.metrics import nll

Data = tuple[np.ndarray, np.ndarray]


def drawn(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (true + rng.gumbel(size=true.shape)).argmax(axis=1)


def bent_and_uneven(rows: int, seed: int, classes: int = 6) -> Data:
    """Logits that need an increasing map and a temperature for each row."""
    rng = np.random.default_rng(seed)
    logits = rng.uniform(1.0, 5.0, (rows, 1)) * rng.normal(size=(rows, classes))
    mapped = np.where(logits > 0.0, 0.6 * logits, 1.5 * logits)
    return logits, drawn(mapped / (0.5 + 0.2 * np.ptp(mapped, axis=1, keepdims=True)), rng)


def wrong_prior(rows: int, seed: int, classes: int = 4) -> Data:
    """Over-confident logits whose classes have another frequency than they say."""
    rng = np.random.default_rng(seed)
    logits = 4.0 * rng.normal(size=(rows, classes))
    return logits, drawn(0.4 * logits + np.linspace(-1.5, 1.5, classes), rng)


def only_scaled(rows: int, seed: int, classes: int = 4) -> Data:
    rng = np.random.default_rng(seed)
    logits = 4.0 * rng.normal(size=(rows, classes))
    return logits, drawn(0.5 * logits, rng)


def test_the_monotone_method_beats_its_parts():
    fit, test = bent_and_uneven(4000, 0), bent_and_uneven(6000, 1)
    scores = {
        name: nll(calibrator(name).fit(*fit).predict_proba(test[0]), test[1])
        for name in ("ts", "pts", "diag", "mpts")
    }
    assert scores["mpts"] < min(scores["pts"], scores["diag"]) < scores["ts"]


def test_the_monotone_method_is_a_chain_that_keeps_the_arg_max():
    fit, test = bent_and_uneven(2000, 0), bent_and_uneven(500, 1)
    mpts = MonotonePTS().fit(*fit)
    assert isinstance(mpts.formula_, Chain)
    assert mpts.accuracy_preserving
    assert mpts.fit_info_.details["choice"] == "increasing map and network"
    np.testing.assert_array_equal(mpts.predict_proba(test[0]).argmax(1), test[0].argmax(1))


def test_the_monotone_method_is_pts_where_no_map_helps():
    fit, test = only_scaled(800, 0), only_scaled(200, 1)
    mpts = MonotonePTS().fit(*fit)
    assert isinstance(mpts.formula_, NetworkTemperature)
    assert "map" not in mpts.fit_info_.details["choice"]
    np.testing.assert_array_equal(
        mpts.predict_proba(test[0]), calibrator("pts").fit(*fit).predict_proba(test[0])
    )


@pytest.mark.filterwarnings("ignore:class . has the mean probability")
def test_the_structured_method_repairs_a_wrong_prior():
    fit, test = wrong_prior(2000, 0), wrong_prior(4000, 1)
    spts, mpts = StructuredPTS().fit(*fit), MonotonePTS().fit(*fit)
    assert spts.fit_info_.details["class_map"]["choice"] in ("vector", "matrix")
    assert not spts.accuracy_preserving
    gain = nll(mpts.predict_proba(test[0]), test[1]) - nll(spts.predict_proba(test[0]), test[1])
    assert gain > 0.1
    mean = spts.predict_proba(test[0]).mean(axis=0)
    np.testing.assert_allclose(mean, np.bincount(test[1]) / 4000.0, atol=0.03)


def test_the_structured_method_falls_back_to_the_monotone_one():
    fit = only_scaled(800, 0)
    spts = StructuredPTS().fit(*fit)
    assert spts.fit_info_.details["class_map"]["choice"] == "none"
    assert spts.accuracy_preserving
    np.testing.assert_array_equal(
        spts.predict_proba(fit[0]), MonotonePTS().fit(*fit).predict_proba(fit[0])
    )


@pytest.mark.filterwarnings("ignore:class . has the mean probability")
@pytest.mark.parametrize("wanted", ["none", "vector", "matrix"])
def test_a_class_map_can_be_asked_for(wanted):
    spts = StructuredPTS(class_map=wanted).fit(*wrong_prior(300, 0))
    assert spts.fit_info_.details["class_map"]["choice"] == wanted


def test_the_path_says_what_was_tried_and_how_good_it_was():
    details = StructuredPTS().fit(*bent_and_uneven(1500, 0)).fit_info_.details
    for part in (details["map"], details["class_map"]):
        assert {"candidate", "left_out_loss", "error_of_difference"} == set(part["path"][0])
    assert details["map"]["path"][0]["candidate"] == "temperature scaling"
    assert [tried["candidate"] for tried in details["class_map"]["path"]] == [
        "none",
        "vector",
        "matrix",
    ]


def test_a_fit_can_be_repeated():
    fit = bent_and_uneven(600, 0)
    one, other = (MonotonePTS().fit(*fit).predict_proba(fit[0]) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"knots": 0}, "knots must be a whole number of at least 1, got 0"),
        ({"hidden": 8}, r"widths of layers, each at least 1, such as \(8,\), got 8"),
        ({"class_map": "tensor"}, "class_map must be one of 'auto', 'none', 'vector', 'matrix'"),
    ],
)
def test_parameters_that_make_no_sense(parameters, message):
    with pytest.raises(ValueError, match=message):
        StructuredPTS(**parameters).fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
