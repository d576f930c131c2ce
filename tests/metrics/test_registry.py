"""One home for a metric: a single entry is found by everything that computes or prints metrics."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import calibrant
from calibrant import metrics
from calibrant.data.binning import calibration_error
from calibrant.metrics import METRICS, CalibrationMeter, Metric
from calibrant.metrics._labelled import labelled

SCORES = [name for name, metric in METRICS.items() if not metric.is_error]
ERRORS = [name for name, metric in METRICS.items() if metric.is_error]


def example(rows=300, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) * 2.0
    labels = np.argmax(logits / 2.0 + rng.gumbel(size=logits.shape), axis=1)
    probs = np.exp(logits)
    return logits, probs / probs.sum(axis=1, keepdims=True), labels


def mean_confidence(data):
    return data.top_label[0]


def half_error(stats):
    return 0.5 * calibration_error(stats)


TOYS = [
    Metric("toy", "Toy score", "a toy", "rows", mean_confidence, higher_is_better=True),
    Metric("toy", "Toy score", "a toy", "rows", mean_confidence, unit="plain"),
    Metric("toy", "Toy error", "a toy", "equal-width", half_error),
    Metric("toy", "Toy error", "a toy", "equal-mass", half_error),
    Metric("toy", "Toy error", "a toy", "cells", half_error),
    Metric("toy", "Toy error", "a toy", "kde-cells", half_error),
    Metric("toy", "Toy error", "a toy", "classes", half_error),
]


@pytest.fixture(params=TOYS, ids=lambda toy: f"{toy.reads}-{toy.unit}")
def toy(request, monkeypatch):
    monkeypatch.setitem(METRICS, "toy", request.param)
    return request.param


# --- one entry is enough ----------------------------------------------------------------------


def test_a_new_entry_is_evaluated_and_printed(toy):
    _, probs, labels = example()
    got = calibrant.evaluate(probs, labels, n_resamples=20)
    assert list(got.metrics)[-1] == "toy"
    assert got.toy.value == toy.value(labelled(probs, labels))
    line = next(line for line in str(got).splitlines() if line.startswith(toy.heading))
    assert toy.format(got.toy.value) in line
    if toy.has_interval:
        assert got.toy.low <= got.toy.high
        assert f"{toy.format(got.toy.low)} .. {toy.format(got.toy.high)}" in line
    if toy.is_error:
        assert f"{got.toy.p_value:.3f}" in line
    assert got.to_dict()["metrics"]["toy"]["value"] == got.toy.value
    assert toy.heading in got._repr_html_()


def test_a_new_entry_changes_no_other_number(toy):
    _, probs, labels = example()
    with_toy = calibrant.evaluate(probs, labels, n_resamples=10).metrics
    del METRICS["toy"]
    without = calibrant.evaluate(probs, labels, n_resamples=10).metrics
    assert {name: with_toy[name] for name in without} == without


def test_a_new_entry_is_in_the_meters_report(toy):
    _, probs, labels = example()
    whole = CalibrationMeter().update(probs, labels)
    parts = CalibrationMeter().update(probs[:90], labels[:90])
    merged = parts.merge(CalibrationMeter().update(probs[90:], labels[90:]))
    report = CalibrationMeter.from_json(merged.to_json()).compute()
    assert report.toy == pytest.approx(whole.compute().toy)
    tolerance = 1e-2 if toy.reads == "equal-mass" else 1e-12  # its edges move to those of cells
    assert report.toy == pytest.approx(toy.value(labelled(probs, labels)), rel=tolerance)
    line = next(line for line in str(report).splitlines() if line.startswith(toy.heading))
    assert toy.format(report.toy) in line
    if not toy.is_error:
        assert report.toy_std_error == pytest.approx(probs.max(axis=1).std() / np.sqrt(300))


def test_a_new_entry_is_compared_by_its_name(toy):
    logits, _, labels = example()
    got = calibrant.compare(
        logits, labels, logits, labels, methods=["base", "ts"], metrics=["toy", "ece"]
    )
    probs = calibrant.TS().fit(logits, labels).predict_proba(logits)
    assert got[1].toy == toy.value(labelled(probs, labels))
    header, unit, *rows = str(got).splitlines()[2:]
    assert toy.heading in header
    assert ("(%)" in unit.replace("(%)", "", 1)) is (toy.unit == "percent")  # the ECE has one, too
    assert toy.format(got[1].toy) in rows[1]
    assert got[1].estimates["toy"].value == got[1].toy
    assert ("toy" in got[1].differences) is (toy.reads != "classes")


def test_a_new_entry_is_tested_and_drawn(toy):
    _, probs, labels = example()
    value = toy.value(labelled(probs, labels))
    if toy.has_interval:
        assert metrics.bootstrap_ci(probs, labels, "toy", n_resamples=20).estimate == value
        pair = metrics.compare_paired(probs, probs, labels, "toy", n_resamples=20)
        assert pair.difference == 0.0
    if toy.is_error:
        test = metrics.calibration_test(probs, labels, "toy", n_resamples=20)
        assert test.observed == value
        assert test.null_mean > 0.0
    else:
        with pytest.raises(ValueError, match=r"metric must be one of ece, .* got 'toy'"):
            metrics.calibration_test(probs, labels, "toy")


def test_draws_of_classes_are_the_metric_on_drawn_rows(monkeypatch):
    """Any statistic of the classes' bins, though their sums are made only when one asks."""

    def everything(stats):
        gaps = np.abs(stats.residual).sum(axis=-1) / stats.total_weight
        spread = (stats.share * np.nan_to_num(stats.gap) ** 2).sum(axis=-1)
        columns = sum(column.sum(axis=-1) for column in stats.columns)
        return gaps + spread + 1e-3 * (columns + stats.effective_rows.sum(axis=-1))

    toy = Metric("toy", "Toy", "a toy", "classes", everything)
    monkeypatch.setitem(METRICS, "toy", toy)
    _, probs, labels = example(200)
    weight = np.random.default_rng(1).random(200)
    options = {"n_resamples": 10, "method": "percentile", "sample_weight": weight}
    got = metrics.bootstrap_ci(probs, labels, "toy", **options)
    rng = np.random.default_rng(0)
    draws = [rng.integers(0, 200, 200) for _ in range(10)]
    slow = [toy.value(labelled(probs[rows], labels[rows], weight[rows])) for rows in draws]
    assert got.std_error == pytest.approx(np.std(slow), rel=1e-9)
    assert got.low == pytest.approx(np.quantile(slow, 0.025), rel=1e-9)


# --- what the flags do ------------------------------------------------------------------------


def test_what_cannot_be_merged_drawn_or_weighted(monkeypatch):
    _, probs, labels = example()
    toy = Metric(
        "toy",
        "Toy",
        "a toy",
        "equal-width",
        half_error,
        merging=None,
        resampled=False,
        weighted=False,
    )
    monkeypatch.setitem(METRICS, "toy", toy)
    assert not toy.mergeable
    assert "toy" not in CalibrationMeter().update(probs, labels).compute().metrics
    got = calibrant.evaluate(probs, labels, n_resamples=5)
    assert got.toy == metrics.Estimate(got.toy.value)
    with pytest.raises(ValueError, match=r"metric must be one of .* got 'toy'"):
        metrics.bootstrap_ci(probs, labels, "toy")
    weight = np.ones(300)
    assert (
        "toy" not in calibrant.evaluate(probs, labels, n_resamples=0, sample_weight=weight).metrics
    )
    with pytest.raises(ValueError, match="toy takes no sample_weight"):
        calibrant.evaluate(probs, labels, metrics=["toy"], sample_weight=weight)


def test_a_metric_without_weights_is_not_reported_of_weighted_rows(monkeypatch):
    _, probs, labels = example()
    toy = Metric("toy", "Toy", "a toy", "equal-width", half_error, weighted=False)
    monkeypatch.setitem(METRICS, "toy", toy)
    plain, ones = (CalibrationMeter().update(probs, labels, w) for w in (None, np.ones(300)))
    assert plain.compute().toy == ones.compute().toy
    weighted = CalibrationMeter().update(probs, labels, np.linspace(0.5, 1.5, 300))
    assert "toy" not in weighted.compute().metrics


# --- the entries ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METRICS)
def test_every_entry_has_its_function(name):
    _, probs, labels = example()
    if not METRICS[name].suits(probs.shape[1]):
        probs, labels = np.stack([1.0 - probs[:, 0], probs[:, 0]], axis=1), (labels == 0) * 1
    weight = np.random.default_rng(1).random(300)
    for given in (None, weight):
        value = METRICS[name].value(labelled(probs, labels, given))
        assert getattr(metrics, name)(probs, labels, sample_weight=given) == value
    assert METRICS[name].name == name
    assert METRICS[name].title
    assert METRICS[name].mergeable == (
        METRICS[name].reads not in ("class-1", "confidence", "labels")
    )


def test_every_error_says_whose_calibration_it_is():
    for name in ("ece", "kde_ece", "ece_sweep"):
        assert METRICS[name].notion_of(3) == METRICS[name].notion_of(2, "confidence")
        assert METRICS[name].notion_of(2) == "class-1"
    assert METRICS["class1_ece"].notion_of(2, "confidence") == "class-1"
    assert METRICS["confidence_ece"].notion_of(2) == METRICS["ece"].notion_of(3) == "confidence"
    assert METRICS["classwise_ece"].notion_of(2) == METRICS["ace"].notion_of(5) == "classwise"
    assert METRICS["top_label_ece"].notion_of(3) == "top-label"
    assert METRICS["brier"].notion_of(3) is None


def test_every_function_has_the_same_words():
    functions = [getattr(metrics, name) for name in metrics.__all__]
    for function in filter(inspect.isfunction, functions):
        words = inspect.signature(function).parameters
        assert {"labels", "row_sums", "input", "ignore_index"} <= set(words), function
        assert words["input"].default == "probs"
        assert not {"bins", "seed", "resamples", "rows", "of"} & set(words)
        assert all(word.kind is not word.VAR_KEYWORD for word in words.values())


def test_one_way_to_print_a_value():
    assert METRICS["nll"].format(0.12345) == "0.1235"
    for name in set(METRICS) - {"nll"}:
        assert METRICS[name].format(0.12346) == "12.35"
    assert METRICS["brier"].format(np.inf) == "inf"


def test_labels_hold_the_unit():
    assert METRICS["nll"].label == "NLL (nats)"
    assert METRICS["ece"].label == "ECE (%)"
    assert METRICS["ece"].column_head == "ECE\n(%)"
    toy = Metric("toy", "Toy", "a toy", "rows", mean_confidence, unit="plain")
    assert toy.label == "Toy"
