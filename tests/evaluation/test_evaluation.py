"""Everything about one set of probabilities, as numbers, JSON and text."""

from __future__ import annotations

import json
import pickle
import re

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant.evaluation.evaluation import Estimate, evaluate

USUAL = [name for name, metric in metrics.METRICS.items() if metric.by_default]
ERRORS = [name for name in USUAL if metrics.METRICS[name].is_error]


def example(rows=500, seed=0, temperature=1.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 3)) * 2.0
    probs, true = (np.exp(logits / t) for t in (1.0, temperature))
    probs, true = (p / p.sum(axis=1, keepdims=True) for p in (probs, true))
    labels = (rng.random((rows, 1)) > true.cumsum(axis=1)).sum(axis=1)
    return probs, np.minimum(labels, 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_value_is_its_metric(weighted):
    probs, labels = example()
    weight = np.random.default_rng(1).random(500) if weighted else None
    got = evaluate(probs, labels, n_resamples=20, sample_weight=weight)
    assert list(got.metrics) == USUAL
    for name in USUAL:
        expected = getattr(metrics, name)(probs, labels, sample_weight=weight)
        assert getattr(got, name).value == pytest.approx(expected, rel=1e-12), name
    assert got.brier_decomposition == metrics.brier_decomposition(
        probs, labels, sample_weight=weight
    )
    assert got.spiegelhalter == metrics.spiegelhalter_test(probs, labels, sample_weight=weight)
    assert (got.n_rows, got.n_classes) == (500, 3)


def test_every_error_stands_beside_its_null_value_and_interval():
    got = evaluate(*example(temperature=2.5), n_resamples=50)
    for name in ERRORS:
        estimate = getattr(got, name)
        assert estimate.null >= 0.0
        if metrics.METRICS[name].has_interval:
            assert 0.0 <= estimate.low <= estimate.high
        else:
            assert (estimate.low, estimate.high) == (None, None)
    assert got.ece.value > 2.0 * got.ece.null
    assert got.ece.p_value == pytest.approx(1 / 51)


def test_without_resampling_only_values_remain():
    got = evaluate(*example(), n_resamples=0)
    assert got.ece == Estimate(got.ece.value)
    assert got.classwise_ece.low is None
    assert 'if calibrated":' not in str(got)


def test_json_reads_back():
    got = evaluate(*example(), n_resamples=20)
    document = json.loads(got.to_json())
    assert document == json.loads(json.dumps(got.to_dict()))
    assert len(document["bins"]["weight"]) == 15
    certain = evaluate([[1.0, 0.0], [0.5, 0.5]], [1, 0], n_resamples=5)
    assert certain.nll.value == np.inf
    assert json.loads(certain.to_json())["metrics"]["nll"]["value"] is None


def cells(line):
    """The columns of a line of a table: they are two blanks apart."""
    return re.split(r"\s{2,}", line.strip())


def test_the_table_prints_every_metric_by_its_own_rule():
    got = evaluate(*example(), n_resamples=20)
    rows = {cells(line)[0]: cells(line)[1:] for line in str(got).splitlines()}
    for name, estimate in got.metrics.items():
        metric = metrics.METRICS[name]
        shown = rows[metric.label]
        assert shown[0] == metric.format(estimate.value)
        if metric.has_interval:
            assert shown[1] == f"{metric.format(estimate.low)} .. {metric.format(estimate.high)}"
        if metric.is_error:
            floored = estimate.p_value == pytest.approx(1 / 21)
            p_value = "<= 0.048" if floored else f"{estimate.p_value:.3f}"
            assert shown[-2:] == [metric.format(estimate.null), p_value]
    assert rows["ECE (%)"][0] == f"{100.0 * got.ece.value:.2f}"
    assert rows["NLL (nats)"][0] == f"{got.nll.value:.4f}"
    assert rows["calibration"] == [f"{100.0 * got.brier_decomposition.calibration:.2f}", "0.00"]
    assert str(got).startswith("500 rows, 3 classes, 15 bins\n")
    assert max(map(len, str(got).splitlines())) <= 88


RARER = sorted(set(metrics.METRICS) - set(USUAL) - {"class1_ece", "confidence_ece"})


@pytest.mark.parametrize("name", RARER)
def test_the_rarer_errors_are_there_when_asked_for(name):
    probs, labels = example(200)
    got = evaluate(probs, labels, metrics=[name], n_resamples=20)
    estimate = got.metrics[name]
    assert estimate.value == getattr(metrics, name)(probs, labels)
    assert (estimate.low, estimate.high) == (None, None)
    assert 0.0 <= estimate.null < 0.3
    test = metrics.calibration_test(probs, labels, name, n_resamples=20)
    assert test.null_mean == pytest.approx(estimate.null, rel=0.5)
    times = np.random.default_rng(0).integers(0, 4, 200)
    weighted = evaluate(probs, labels, metrics=[name], n_resamples=100, sample_weight=times)
    repeated = np.repeat(probs, times, axis=0), np.repeat(labels, times)
    copied = evaluate(*repeated, metrics=[name], n_resamples=100)
    assert weighted.metrics[name].null == pytest.approx(copied.metrics[name].null, rel=0.15)
    many = evaluate(probs, labels, metrics=[name], n_resamples=2, sample_weight=times * 10**9)
    assert many.metrics[name].null < 0.2 * copied.metrics[name].null + 1e-3
    with pytest.raises(ValueError, match="no interval"):
        metrics.bootstrap_ci(probs, labels, name, n_resamples=20)
    spread = metrics.bootstrap_ci(probs, labels, name, n_resamples=20, method="basic").std_error
    assert 0.0 < spread < 0.1


def test_each_error_stands_under_whose_calibration_it_is():
    """A shift of class 1 is large in its own error, and hardly seen in the confidence's."""
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.1, 0.8, 4000)
    events = (rng.random(4000) < chance).astype(int)
    got = evaluate(chance + 0.1, events, n_resamples=20)
    assert got.notion == got.notions["ece"] == got.notions["kde_ece"] == "class-1"
    assert got.notions["confidence_ece"] == "confidence"
    assert got.ece.low < 0.1 < got.ece.high
    assert got.confidence_ece.value < 0.07
    lines = [line.split("  ")[0] for line in str(got).splitlines()]
    assert lines.index("of class 1:") < lines.index("ECE (%)") < lines.index("of the confidence:")
    assert lines.index("Confidence ECE (%)") < lines.index("of every class:")
    assert evaluate(chance, events).to_dict()["notions"]["classwise_ece"] == "classwise"
    with pytest.raises(ValueError, match="class 1 of two is asked for, but there are 3 classes"):
        evaluate(*example(), metrics=["class1_ece"])


def test_the_confidence_comes_first_where_it_is_asked_for():
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.1, 0.8, 4000)
    events = (rng.random(4000) < chance).astype(int)
    got = evaluate(chance + 0.1, events, n_resamples=20, notion="confidence")
    assert got.ece.value == metrics.confidence_ece(chance + 0.1, events) < 0.07
    assert got.class1_ece.value == metrics.ece(chance + 0.1, events)
    assert "confidence_ece" not in got.metrics
    lines = [line.split("  ")[0] for line in str(got).splitlines()]
    assert lines.index("of the confidence:") < lines.index("ECE (%)") < lines.index("of class 1:")
    assert lines.index("of class 1:") < lines.index("Class-1 ECE (%)")


def test_a_notebook_shows_the_same_table():
    got = evaluate(*example(), metrics=["nll", "ece"], n_resamples=20)
    html = got._repr_html_()
    assert "<caption" in html
    assert "500 rows, 3 classes, 15 bins</caption>" in html
    assert f">{100.0 * got.ece.value:.2f}</td>" in html
    assert "Spiegelhalter" not in html  # metrics were named
    whole = evaluate(*example(), n_resamples=0)._repr_html_()
    assert "Spiegelhalter&#x27;s test" in whole


def test_torch_and_seed():
    probs, labels = example()
    one, two = (
        evaluate(probs, labels, n_resamples=20),
        evaluate(torch.tensor(probs), labels, n_resamples=20),
    )
    assert (one.ece, one.classwise_ece) == (two.ece, two.classwise_ece)
    # sums of rows are added up in another order
    assert one.kde_ece.value == pytest.approx(two.kde_ece.value, rel=1e-12)
    assert one.kde_ece.null == pytest.approx(two.kde_ece.null, rel=1e-12)
    assert one.skce.z == pytest.approx(two.skce.z)
    assert one.to_json() == evaluate(probs, labels, n_resamples=20).to_json()
    assert one.to_json() != evaluate(probs, labels, n_resamples=20, random_state=1).to_json()


def test_small_and_raw_data():
    assert evaluate([[0.3, 0.7]], [1], n_resamples=5).skce is None
    raw = evaluate([[0.3, 0.3], [0.9, 0.6]], [1, 0], row_sums="raw", n_resamples=5)
    assert raw.brier.value == pytest.approx(
        metrics.brier([[0.3, 0.3], [0.9, 0.6]], [1, 0], row_sums="raw")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": -1}, "n_resamples must be at least 0, got -1"),
        ({"level": 0.0}, "level must lie between 0 and 1, got 0.0"),
        ({"n_bins": 0}, "n_bins must be at least 1, got 0"),
    ],
)
def test_evaluate_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*example(), **options)


# --- metrics by name --------------------------------------------------------------------------


def test_only_the_metrics_that_were_named():
    probs, labels = example()
    got = evaluate(probs, labels, metrics=["kde_ece", "accuracy"], n_resamples=20)
    assert list(got.metrics) == ["kde_ece", "accuracy"]
    assert got.accuracy == evaluate(probs, labels, n_resamples=20).accuracy
    assert got.kde_ece.null is not None
    with pytest.raises(AttributeError, match="no 'ece'; computed were kde_ece, accuracy"):
        _ = got.ece
    assert evaluate(probs, labels, metrics="ece", n_resamples=0).ece.value > 0.0


def test_metrics_of_the_same_bins_share_their_draws():
    probs, labels = example()
    every = evaluate(probs, labels, n_resamples=20)
    alone = evaluate(probs, labels, metrics=["mce"], n_resamples=20)
    assert alone.mce == every.mce


def test_an_unknown_metric_is_refused_with_the_names():
    with pytest.raises(ValueError, match=r"one of accuracy, nll, brier, ece, .*got 'f1'"):
        evaluate(*example(), metrics=["ece", "f1"])
    with pytest.raises(ValueError, match="at least one of accuracy, nll"):
        evaluate(*example(), metrics=[])


def test_an_evaluation_can_be_pickled():
    got = evaluate(*example(), metrics=["ece"], n_resamples=5)
    again = pickle.loads(pickle.dumps(got))
    assert again.ece == got.ece
    assert again.to_json() == got.to_json()


def test_progress_counts_to_the_end():
    seen = []
    evaluate(*example(), n_resamples=5, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 6) for done in range(7)]


def test_a_mean_below_zero_keeps_its_interval(monkeypatch):
    toy = metrics.Metric("toy", "Toy", "log-likelihood", "rows", lambda d: np.log(d.true_class))
    monkeypatch.setitem(metrics.METRICS, "toy", toy)
    got = evaluate(*example(), metrics=["toy", "nll"], n_resamples=0)
    assert (got.toy.low, got.toy.high) == pytest.approx((-got.nll.high, -got.nll.low))
