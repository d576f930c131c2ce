"""Methods side by side: values by name, weights, notes, and the shared table."""

from __future__ import annotations

import json
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from calibrant import metrics
from calibrant._errors import noted, warn
from calibrant._trials import timed_fit
from calibrant.calibrators import REGISTRY
from calibrant.comparison import Comparison


def example(rows=300, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) * 3.0
    return logits, np.argmax(logits / 2.0 + rng.gumbel(size=logits.shape), axis=1)


def compare(**options):
    options = {"methods": ["base", "ts", "vector"], **options}
    return calibrant.compare(*example(), *example(200, seed=1), **options)


def test_the_values_are_the_metrics_of_the_fitted_methods():
    got = compare(n_bins=7)
    logits, labels = example(200, seed=1)
    for result in got:
        model = calibrant.calibrator(result.method).fit(*example())
        probs = model.predict_proba(logits)
        assert list(result.values) == ["accuracy", "ece", "classwise_ece", "brier", "nll"]
        assert result.ece == metrics.ece(probs, labels, 7)
        assert result.classwise_ece == metrics.classwise_ece(probs, labels, 7)
        assert result.nll == metrics.nll(probs, labels)
        assert result.accuracy_preserving is (result.method != "vector")
        assert result.fit_seconds >= 0.0
    assert (got.n_bins, got.n_val, got.n_test) == (7, 300, 200)


def test_metrics_by_name():
    got = compare(metrics=["smooth_ece", "rms_ece"])
    assert got.metrics == ("smooth_ece", "rms_ece")
    assert list(got[0].values) == ["smooth_ece", "rms_ece"]
    with pytest.raises(AttributeError, match="no 'ece'; computed were smooth_ece, rms_ece"):
        _ = got[0].ece
    with pytest.raises(ValueError, match=r"one of accuracy, nll, .* got 'auc'"):
        compare(metrics=["auc"])


def test_it_is_a_sequence():
    got = compare()
    assert isinstance(got, Comparison)
    assert [result.method for result in got] == ["base", "ts", "vector"]
    assert (len(got), got[-1].method, len(got[:2])) == (3, "vector", 2)
    assert pickle.loads(pickle.dumps(got))[1].ece == got[1].ece
    assert repr(got).startswith("Comparison of base, ts, vector by accuracy")


def test_it_is_plain_and_json():
    got = compare()
    assert json.loads(got.to_json()) == json.loads(json.dumps(got.to_dict()))
    assert got.to_dict()["results"][1]["values"]["ece"] == got[1].ece
    assert got.to_dict()["results"][1]["notes"] == []


def test_the_table_marks_the_best():
    got = compare()
    header, *rows = str(got).splitlines()[3:]
    assert header.split("  ")[-1].strip() == "Fit (ms)"
    assert "all but the NLL times 100; * the best of its column" in str(got)
    best = min(got, key=lambda result: result.nll)
    line = next(row for row in rows if row.startswith(best.method))
    assert f"* {best.nll:.4f}" in line
    assert f"<b>{best.nll:.4f}</b>" in got._repr_html_()
    alone = compare(methods=["ts"])
    assert "*" not in str(alone)


def test_methods_for_two_classes():
    every = calibrant.compare(*example(60), *example(60), metrics=["ece"])
    assert [result.method for result in every] == [n for n in REGISTRY if n != "beta"]
    two = calibrant.compare(*example(60, 2), *example(60, 2), metrics=["ece"])
    assert [result.method for result in two] == list(REGISTRY)
    with pytest.raises(ValueError, match="two"):
        calibrant.compare(*example(60), *example(60), methods=["beta"])


def test_methods_are_named_as_metrics_are():
    data = (*example(60), *example(60))
    assert [r.method for r in calibrant.compare(*data, methods="ts", metrics="ece")] == ["ts"]
    assert [r.method for r in calibrant.compare(*data, methods=["TS", "ts"])] == ["ts"]
    with pytest.raises(ValueError, match="methods must name at least one of auto, base, ts"):
        calibrant.compare(*data, methods=[])
    with pytest.raises(ValueError, match="method must be one of"):
        calibrant.compare(*data, methods=["ts", "oracle"])


def test_a_class_says_itself_that_it_is_for_two_classes(monkeypatch):
    monkeypatch.setattr(REGISTRY["ts"], "two_classes_only", True, raising=False)
    got = calibrant.compare(*example(60), *example(60), metrics=["ece"])
    assert "ts" not in [result.method for result in got]


def test_weights_of_both_sides():
    rng = np.random.default_rng(2)
    times = rng.integers(1, 4, 300), rng.integers(1, 4, 200)
    weighted = compare(methods=["ts"], val_weight=times[0], test_weight=times[1])[0]
    fitted, judged = example(), example(200, seed=1)
    repeated = calibrant.compare(
        *(np.repeat(part, times[0], axis=0) for part in fitted),
        *(np.repeat(part, times[1], axis=0) for part in judged),
        methods=["ts"],
    )[0]
    for name, value in repeated.values.items():
        assert weighted.values[name] == pytest.approx(value, rel=1e-6), name


def test_ignored_rows():
    (logits, labels), test = example(), example(200, seed=1)
    marked, scores = np.append(labels, [-100]), np.vstack([logits, logits[:1]])
    got = calibrant.compare(scores, marked, *test, methods=["ts"], ignore_index=-100)
    assert got[0].values == compare(methods=["ts"])[0].values
    assert got.n_val == 300


def test_probabilities():
    (logits, labels), (scores, target) = example(), example(200, seed=1)
    got = calibrant.compare(
        softmax(logits, 1), labels, softmax(scores, 1), target, methods=["base"], input="probs"
    )
    assert got[0].ece == pytest.approx(metrics.ece(softmax(scores, 1), target))


def test_progress_counts_the_methods():
    seen = []
    compare(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


# --- timed fits -------------------------------------------------------------------------------


class Warns:
    def fit(self, scores, labels, sample_weight=None):
        warn("our own")
        warnings.warn("of others", DeprecationWarning, stacklevel=1)


def test_a_fit_notes_its_own_warnings_and_lets_others_pass():
    with pytest.warns() as passed:
        seconds, notes = timed_fit(Warns(), None, None)
    assert (seconds >= 0.0, notes) == (True, ("our own",))
    assert [str(one.message) for one in passed] == ["of others"]


def test_notes_are_those_of_this_thread_and_leave_the_filters_alone():
    before = list(warnings.filters)
    with noted() as ours, ThreadPoolExecutor(1) as other:
        warn("mine")
        with pytest.warns(match="theirs"):
            other.submit(warn, "theirs").result()
    assert ours == ["mine"]
    assert warnings.filters == before


def test_notes_are_shown_below_the_table():
    rows = np.eye(3)[np.arange(30) % 3] * 9.0
    got = calibrant.compare(rows, np.arange(30) % 3, rows, np.arange(30) % 3, methods=["ts"])
    assert got[0].notes
    assert str(got).splitlines()[-1] == f"ts: {got[0].notes[-1]}"
