"""Mistakes that the shapes do not show: each one ends in an error or a warning with the remedy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant import CalibrationWarning, TemperatureProfile, metrics
from calibrant.calibrators import REGISTRY, Calibrator
from calibrant.data.likely_mistakes import association
from calibrant.data.rows import Rows

CLASSES = 5
LOOKS = "looks like probabilities"
WAYS = ("predict_proba", "predict_log_proba", "predict", "temperature", "transform")


def softmax(logits: np.ndarray) -> np.ndarray:
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def example(classes: int = CLASSES, rows: int = 300, seed: int = 0) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.normal(size=(rows, classes))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def fitted(name: str, kind: str = "logits") -> tuple[Calibrator, np.ndarray]:
    """A calibrator, and the logits that it was fitted on."""
    logits, labels = example(2 if REGISTRY[name].two_classes_only else CLASSES)
    scores = softmax(logits) if kind == "probs" else logits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrant.calibrator(name, input=kind).fit(scores, labels), logits


# --- probabilities given as logits, and the reverse -------------------------------------------


@pytest.mark.parametrize("name", REGISTRY)
def test_probabilities_for_a_calibrator_of_logits(name):
    model, logits = fitted(name)
    for way in WAYS:
        if hasattr(model, way):
            for rows in (softmax(logits), softmax(logits)[7:8], softmax(logits).astype("f2")):
                with pytest.warns(CalibrationWarning, match=f'{LOOKS}.* fit it with input="probs"'):
                    getattr(model, way)(rows)
            getattr(model, way)(logits)  # warnings are errors here


@pytest.mark.parametrize("name", REGISTRY)
def test_logits_for_a_calibrator_of_probabilities(name):
    model, logits = fitted(name, "probs")
    for way in WAYS:
        if hasattr(model, way):
            with pytest.raises(ValueError, match=r"probs must be probabilities in \[0, 1\], got"):
                getattr(model, way)(logits)


def test_probabilities_of_class_1_given_as_margins():
    logits, labels = example(2)
    margins, probs = logits[:, 1] - logits[:, 0], softmax(logits)[:, 1]
    with pytest.warns(CalibrationWarning, match=LOOKS):
        calibrant.calibrator("platt").fit(probs, labels)
    platt = calibrant.calibrator("platt").fit(margins, labels)
    with pytest.warns(CalibrationWarning, match=LOOKS):
        platt.predict_proba(probs)
    for few in ([0.3], [0.3, 0.8], margins[:40], np.zeros(30), np.ones(30)):
        platt.predict_proba(few)


@pytest.mark.parametrize(
    "logits",
    [
        [[1.0, 0.0, 0.0]],
        [[0.3, 0.7001, 0.0]],
        np.eye(3)[[0, 1, 2]],
        np.full((40, 3), 0.5),
        np.abs(example(3)[0]),
        example(3)[0] / 100.0,
        np.zeros((40, 3)),
    ],
    ids=["typed in", "nearly 1", "some votes", "sums of 1.5", "positive", "small", "zeros"],
)
def test_logits_do_not_look_like_probabilities(logits):
    model = calibrant.TS().fit(*example(3))
    model.predict_proba(logits)


def test_metrics_of_probabilities_called_logits():
    logits, labels = example()
    probs = softmax(logits)
    with pytest.warns(CalibrationWarning, match=f'{LOOKS}. If it is, say input="probs"'):
        calibrant.evaluate(probs, labels, input="logits", n_resamples=0)
    with pytest.warns(CalibrationWarning, match=LOOKS):
        metrics.CalibrationMeter(input="logits").update(probs, labels)
    with pytest.raises(ValueError, match=r"probs must be probabilities in \[0, 1\]"):
        calibrant.evaluate(logits, labels)


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("name", ["base", "ts", "ets", "pts", "pts-linear", "hts", "smart"])
def test_a_profile_of_the_other_kind(name, kind):
    logits, labels = example()
    profile = (
        TemperatureProfile.from_probs(softmax(logits), labels)
        if kind == "logits"
        else TemperatureProfile.from_logits(logits, labels)
    )
    with pytest.raises(ValueError, match=f"made from {profile.input}, but .*input='{kind}'"):
        calibrant.calibrator(name, input=kind).fit(profile)


# --- other shapes than fitted -----------------------------------------------------------------


@pytest.mark.parametrize("name", REGISTRY)
def test_another_number_of_classes_than_fitted(name):
    model, logits = fitted(name)
    classes = logits.shape[1]
    for other in (logits[:, :-1], np.c_[logits, logits]):
        if other.shape[1] < 2:
            continue
        for way in WAYS:
            if hasattr(model, way):
                with pytest.raises(
                    ValueError, match=f"fitted with {classes} classes, got {other.shape[1]}"
                ):
                    getattr(model, way)(other)


def test_a_formula_takes_any_number_of_classes_where_it_can():
    model, logits = fitted("ts")
    with pytest.raises(ValueError, match=r"the logit -inf .* formula_\(logits\) takes any number"):
        model.predict_proba(logits[:, :3])
    pruned = np.where(np.arange(CLASSES) < 3, logits, -np.inf)
    np.testing.assert_allclose(model.formula_(logits[:, :3]), model.predict_proba(pruned)[:, :3])


@pytest.mark.parametrize("name", REGISTRY)
def test_one_row_as_a_1_d_array(name):
    model, logits = fitted(name)
    if REGISTRY[name].two_classes_only:
        margins = logits[:, 1] - logits[:, 0]
        np.testing.assert_allclose(model.predict_proba(margins), model.predict_proba(logits))
        return
    for rows in (logits[0], logits[0, :2], logits[0, :0]):
        message = r"shape \(rows, 5\), got the 1-D .* one row alone is logits.reshape\(1, -1\)"
        with pytest.raises(ValueError, match=message):
            model.predict_proba(rows)
    assert model.predict_proba(logits[0].reshape(1, -1)).shape == (1, CLASSES)


def test_one_row_as_a_1_d_array_to_fit_on_or_to_judge():
    logits, labels = example(10)
    hint = r"one row alone is scores.reshape\(1, -1\)"
    for act in (
        lambda: calibrant.TS().fit(logits[0], labels[:1]),
        lambda: calibrant.calibrator("vector").fit(logits[0], labels[:10]),
        lambda: calibrant.evaluate(logits[0], labels[:1], input="logits"),
        lambda: TemperatureProfile().update(logits[0], labels[:1]),
    ):
        with pytest.raises(ValueError, match=hint):
            act()
    profile = TemperatureProfile.from_logits(logits, labels)
    meter = metrics.CalibrationMeter(input="logits").update(logits, labels)
    for stream in (profile, meter):
        with pytest.raises(ValueError, match=r"shape \(rows, 10\), got the 1-D shape \(10,\)"):
            stream.update(logits[0], labels[:1])


def test_comparing_scores_of_other_classes():
    logits, labels = example()
    with pytest.raises(ValueError, match="must have the same classes, got 5 and 4"):
        calibrant.compare(logits, labels, logits[:, :4], labels % 4, methods=["ts"])
    with pytest.raises(ValueError, match=r"shape \(rows, 5\), got the 1-D shape"):
        calibrant.compare(logits, labels, logits[0], labels[:5], methods=["ts"])


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ts", "vector", "irm", "platt", "beta"])
def test_labels_among_the_scores(name):
    logits, labels = example(2 if name == "beta" else CLASSES)
    table = pd.DataFrame(logits[:, 1:]).assign(label=labels)
    column = table.shape[1] - 1
    with pytest.raises(ValueError, match=f"column {column} of the logits equals the labels"):
        calibrant.calibrator(name).fit(table, labels)
    with pytest.raises(ValueError, match=r"it is no class\. Leave it out"):
        calibrant.evaluate(table, labels, input="logits")


@pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning")
def test_votes_are_no_labels_among_the_scores():
    labels = np.arange(40) % 2
    calibrant.TS().fit(np.eye(2)[labels], labels)
    calibrant.TS().fit(np.eye(3)[labels], labels)
    calibrant.TS().fit(labels.astype(float), labels)  # margins 0 and 1
    calibrant.TS().fit(np.zeros((40, 3)), np.zeros(40, int))


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (
            [1, 2, 3, 3],
            ValueError,
            r"in 0..2, got 3 at row 2. If they are 1, 2, .., subtract 1 from each",
        ),
        ([0.5, 1, 2, 0], ValueError, "whole numbers, got 0.5 at row 0$"),
        ([0, np.nan, 2, 0], ValueError, "got nan at row 1. Leave rows without a label out"),
        ([0, -100, 2, 0], ValueError, "say ignore_index=-100"),
        (["a", "b", "c", "a"], TypeError, r"From names of classes: .* return_inverse=True"),
        (pd.Series([0, None, 2, 0], dtype="Int64"), ValueError, "got nan at row 1. Leave rows"),
        (np.eye(3)[[0, 1, 2]], ValueError, "the same rows, got 3 and 4$"),
    ],
)
def test_labels_that_are_no_class_indices(labels, error, message):
    with pytest.raises(error, match=message):
        calibrant.TS().fit(example(3, 4)[0], labels)


@pytest.mark.parametrize("name", REGISTRY)
def test_labels_in_another_order_than_the_scores(name):
    logits, labels = example(2 if REGISTRY[name].two_classes_only else CLASSES, 1000)
    shuffled = np.random.default_rng(1).permutation(labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrant.calibrator(name).fit(logits, shuffled)
    told = [str(warning.message) for warning in caught]
    assert any("labels look unrelated to the scores" in text for text in told)
    assert any("in the same order" in text for text in told)


@pytest.mark.filterwarnings("ignore:.*an end of the allowed range")
def test_labels_off_by_one_and_profiles_of_shuffled_batches():
    logits, labels = example(10, 1000)
    with pytest.warns(CalibrationWarning, match="the label c is the class of column c"):
        calibrant.TS().fit(logits, (labels + 1) % 10)
    profile = TemperatureProfile()
    rng = np.random.default_rng(0)
    for rows in np.split(np.arange(1000), 20):
        profile.update(logits[rows], labels[rng.permutation(rows)])
    with pytest.warns(CalibrationWarning, match="labels look unrelated"):
        calibrant.TS().fit(profile)


def draw(probs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (probs.cumsum(axis=1) > rng.random((len(probs), 1))).argmax(axis=1)


def simulated(strength: float, over: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Scores that are right up to a factor, and labels; strength 0 knows the classes' shares."""
    classes, rows = int(rng.choice([2, 3, 10, 50])), int(rng.choice([20, 100, 1000]))
    shares = rng.choice([0.0, 2.0]) * rng.normal(size=classes)
    truth = strength * rng.normal(size=(rows, classes)) + shares
    return over * truth, draw(softmax(truth), rng)


@pytest.mark.parametrize("over", [0.3, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("strength", [0.0, 0.1, 0.3, 1.0, 4.0])
def test_no_false_alarm_for_models_that_are_weak_timid_or_bold(strength, over):
    rng = np.random.default_rng(8)
    for _ in range(60):
        scores, labels = simulated(strength, over, rng)
        assert not association(Rows(scores, labels, None, "logits")).looks_absent


def test_shuffled_labels_of_a_confident_model_are_found():
    rng = np.random.default_rng(8)
    found = []
    for classes in (2, 3, 10, 100) * 25:
        truth = 4.0 * rng.normal(size=(1000, classes))
        labels = rng.permutation(draw(softmax(truth), rng))
        found.append(association(Rows(truth, labels, None, "logits")).looks_absent)
    assert np.mean(found) >= 0.99


def test_the_variance_of_labels_in_random_order():
    """Its formula, and that the agreement has the mean 0, by drawing."""
    rng = np.random.default_rng(3)
    scores, labels = example(4, 60)
    formula = association(Rows(scores, labels, None, "logits"))
    drawn = [
        association(Rows(scores, rng.permutation(labels), None, "logits")).agreement
        for _ in range(2000)
    ]
    assert np.mean(drawn) == pytest.approx(0.0, abs=4.0 * np.std(drawn) / 2000**0.5)
    assert np.var(drawn) == pytest.approx(formula.variance, rel=0.15)
    assert formula.agreement > 6.0 * formula.variance**0.5


def test_rows_of_weight_0_say_nothing():
    logits, labels = example(CLASSES, 2000)
    weight = (np.arange(2000) < 1000).astype(float)
    mixed = np.r_[labels[:1000], np.random.default_rng(0).permutation(labels[1000:])]
    one = association(Rows(logits, mixed, weight, "logits"))
    assert one.rows <= 1000
    assert one == association(Rows(logits[:1000], labels[:1000], None, "logits"))
