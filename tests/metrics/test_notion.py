"""Whose calibration is judged: class 1's of two classes by default, the confidence's of more."""

from __future__ import annotations

import json

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import calibrant
from calibrant import diagrams, metrics, plots
from calibrant.metrics._registry import METRICS
from calibrant.metrics._reports import p_text
from calibrant.report import make_report
from cli_support import refuse, succeed

mpl.use("agg")

# Errors that judge one probability of each row.
ERRORS = [name for name, one in METRICS.items() if one.is_error and one.notion is None]


def squared(rows=10_000, seed=3):
    """Scores q of class 1, which comes with the chance q^2: the true error is 1/6."""
    rng = np.random.default_rng(seed)
    score = rng.random(rows)
    return score, (rng.random(rows) < score**2).astype(int)


def three_classes(rows=500):
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(3), rows), rng.integers(0, 3, rows)


# --- metrics ----------------------------------------------------------------------------------


def test_two_classes_are_judged_by_class_1():
    score, events = squared()
    bins = metrics.BinStats.from_confidence(score, events == 1)
    assert metrics.ece(score, events) == pytest.approx(bins.error(), abs=1e-12)
    assert metrics.ece(score, events) == pytest.approx(1 / 6, abs=0.01)
    assert metrics.ece(score, events) == metrics.class1_ece(score, events)
    np.testing.assert_array_equal(metrics.bin_stats(score, events).correct_sum, bins.correct_sum)


def test_the_confidence_is_there_by_name():
    score, events = squared()
    confidence, right = np.maximum(score, 1.0 - score), (score > 0.5) == (events == 1)
    expected = metrics.BinStats.from_confidence(confidence, right).error()
    assert metrics.ece(score, events, notion="confidence") == pytest.approx(expected, abs=1e-12)
    assert metrics.confidence_ece(score, events) == pytest.approx(expected, abs=1e-12)
    assert expected < 0.02


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_of_one_probability_follows_the_notion(name):
    score, events = squared(3000)
    function = getattr(metrics, name)
    assert function(score, events) == function(score, events, notion="class-1") > 0.1
    assert function(score, events, notion="confidence") < 0.1
    assert METRICS[name](score, events, notion="confidence") == pytest.approx(
        function(score, events, notion="confidence"), abs=1e-12
    )
    probs, labels = three_classes()
    assert function(probs, labels) == function(probs, labels, notion="confidence")


@pytest.mark.parametrize("name", ERRORS)
def test_tests_and_intervals_follow_the_notion(name):
    score, events = squared(2000)
    draws = {"n_resamples": 20}
    hidden = metrics.calibration_test(score, events, name, notion="confidence", **draws)
    seen = metrics.calibration_test(score, events, name, **draws)
    assert (seen.notion, hidden.notion) == ("class-1", "confidence")
    assert seen.p_value == pytest.approx(1 / 21)
    assert hidden.observed == getattr(metrics, name)(score, events, notion="confidence")
    if METRICS[name].has_interval:
        interval = metrics.bootstrap_ci(score, events, name, **draws)
        assert interval.estimate == getattr(metrics, name)(score, events)
        pair = metrics.compare_paired(score, score**2, events, name, notion="confidence", **draws)
        assert pair.first == interval_value(score, events, name)


def interval_value(score, events, name):
    return metrics.bootstrap_ci(score, events, name, notion="confidence", n_resamples=5).estimate


def test_swapped_classes_have_the_same_error_of_the_confidence_alone():
    score, events = squared(2000)
    swapped = 1.0 - score, 1 - events
    assert metrics.confidence_ece(*swapped) == pytest.approx(metrics.confidence_ece(score, events))
    assert metrics.ece(*swapped) == pytest.approx(metrics.ece(score, events), abs=0.01)


@pytest.mark.parametrize(
    ("notion", "message"),
    [
        ("class-1", "class 1 of two is asked for, but there are 3 classes"),
        ("classwise", "got 'classwise': classwise_ece judges every class"),
        ("canonical", "got 'canonical': omnibus_test and skce judge all classes together"),
        ("top", 'notion must be "confidence" or "class-1", got \'top\''),
        (["confidence"], "notion must be"),
    ],
)
def test_other_notions_are_refused(notion, message):
    probs, labels = three_classes()
    with pytest.raises(ValueError, match=message):
        metrics.ece(probs, labels, notion=notion)
    with pytest.raises(ValueError, match=message):
        metrics.CalibrationMeter(notion=notion).update(probs, labels)


# --- meters and monitors ----------------------------------------------------------------------


@pytest.mark.parametrize("notion", [None, "class-1", "confidence"])
def test_a_meter_says_what_the_functions_say(notion):
    score, events = squared(3000)
    meter = metrics.CalibrationMeter(notion=notion)
    for rows in np.split(np.arange(3000), 3):
        meter.update(score[rows], events[rows])
    report = metrics.CalibrationMeter.from_json(meter.to_json()).compute()
    assert report.notion == notion or (notion is None and report.notion == "class-1")
    for name in ("ece", "rms_ece", "mce", "smooth_ece", "kde_ece"):
        value = getattr(metrics, name)(score, events, notion=notion)
        assert getattr(report, name) == pytest.approx(value, abs=1e-9), name
    assert ("calibration of class 1" in str(report)) == (notion != "confidence")


def test_meters_of_different_notions_do_not_merge():
    score, events = squared(100)
    one = metrics.CalibrationMeter().update(score, events)
    with pytest.raises(ValueError, match="settings are the same"):
        one.merge(metrics.CalibrationMeter(notion="confidence").update(score, events))


def test_a_meter_from_before_has_bins_of_the_confidence():
    score, events = squared(1000)
    document, arrays = (
        metrics.CalibrationMeter(notion="confidence").update(score, events).to_state()
    )
    del document["notion"]
    old = metrics.CalibrationMeter.from_state(document, arrays)
    assert old.compute().notion == "confidence"
    probs, labels = three_classes()
    document, arrays = metrics.CalibrationMeter().update(probs, labels).to_state()
    del document["notion"]
    old = metrics.CalibrationMeter.from_state(document, arrays)
    assert old.merge(metrics.CalibrationMeter().update(probs, labels)).compute().n_rows == 1000


def test_a_monitor_sees_what_the_confidence_hides():
    score, events = squared(5000)
    watch = calibrant.CalibrationMonitor(window=1000)
    windows = watch.update(score, events)
    assert all(window.alarm for window in windows)
    assert windows[0].confidence == pytest.approx(score[:1000].mean())
    assert windows[0].observed == pytest.approx(events[:1000].mean())
    assert windows[0].ece == pytest.approx(metrics.ece(score[:1000], events[:1000]))
    blind = calibrant.CalibrationMonitor(window=1000, notion="confidence")
    assert not any(window.alarm for window in blind.update(score, events))
    again = calibrant.CalibrationMonitor.from_json(blind.to_json())
    (window,) = again.update(score[:1000], events[:1000])
    assert window.confidence == pytest.approx(np.maximum(score, 1.0 - score)[:1000].mean())
    assert window.observed == pytest.approx(window.accuracy)


def test_a_monitor_refuses_meters_of_another_notion():
    meter = metrics.CalibrationMeter(notion="confidence").update(*squared(100))
    with pytest.raises(
        ValueError, match='judges the notion "class-1", got a meter of "confidence"'
    ):
        calibrant.CalibrationMonitor().observe(meter, 0, 100)


# --- comparisons, diagrams, reports -----------------------------------------------------------


def test_a_comparison_follows_the_notion():
    score, events = squared(2000)
    rows = score[:1000], events[:1000], score[1000:], events[1000:]
    options = {"methods": ["base", "platt"], "metrics": ["ece", "nll"], "input": "probs"}
    found = calibrant.compare(*rows, **options)
    assert found["base"].ece == pytest.approx(metrics.ece(*rows[2:]), abs=1e-6)
    assert found.notion == "class-1"
    assert found.starred("ece") == ("platt",)
    assert "calibration of class 1" in str(found)
    assert "<= 0.005" in str(found.details("ece"))
    hidden = calibrant.compare(*rows, **options, notion="confidence")
    assert hidden["base"].ece == pytest.approx(metrics.confidence_ece(*rows[2:]), abs=1e-6)


def test_diagrams_follow_the_notion():
    score, events = squared(2000)
    diagram = diagrams.reliability(score, events, n_resamples=50)
    assert diagram.error == pytest.approx(metrics.ece(score, events))
    assert (diagram.score_label, diagram.share_label) == (
        "probability of class 1",
        "share of class 1",
    )
    assert diagram.outside.sum() > 8
    hidden = diagrams.reliability(score, events, n_resamples=50, notion="confidence")
    assert hidden.error == pytest.approx(metrics.confidence_ece(score, events))
    assert (hidden.score_label, hidden.share_label) == ("confidence", "accuracy")
    sweep = diagrams.ece_by_bins(score, events, n_bins=[15], n_resamples=0)
    assert sweep.ece[0] == pytest.approx(metrics.ece(score, events))
    halves = diagrams.reliability_by_segment(score, events, (score > 0.5).astype(int))
    assert {segment: one.of for segment, one in halves.items()} == {0: "class 1", 1: "class 1"}
    titles = [ax.get_title().split(":")[0] for ax in plots.reliability_grid(halves)]
    assert sorted(titles) == ["0", "1"]  # of segments, not of classes
    assert plots.reliability_grid(halves)[0].get_ylabel() == "share of class 1"


def test_plots_take_probabilities_and_labels():
    score, events = squared(500)
    ax = plots.reliability(score, events, ax=Figure().add_subplot())
    assert ax.get_ylabel() == "share of class 1"
    label = f"ECE {metrics.ece(score, events):.2%}"
    assert label in [text.get_text() for text in ax.get_legend().get_texts()]
    two = {"as it is": score, "squared": score**2}
    ax = plots.reliability(two, events, notion="confidence", ax=Figure().add_subplot())
    assert ax.get_ylabel() == "accuracy"
    with pytest.raises(TypeError, match=r"call plots.reliability\(probs, labels\)"):
        plots.reliability(score)
    with pytest.raises(TypeError, match="leave the labels out"):
        plots.reliability(diagrams.reliability(score, events), events)


def test_a_report_tells_of_class_1():
    rows = squared(3000)
    made = make_report(*rows, *rows, methods=["base"], input="probs", n_resamples=50)
    assert "gave class 1 a probability of" in made.summary[0]
    assert "of the rows were of class 1" in made.summary[0]
    assert "more than noise explains (p <= 0.020)" in made.summary[1]
    assert "The share of rows of class 1 (vertical)" in made.html
    assert '"score_label":"probability of class 1"' in made.html
    hidden = make_report(
        *rows, *rows, methods=["base"], input="probs", n_resamples=50, notion="confidence"
    )
    assert "How often predictions were right" in hidden.html
    assert "noise alone may explain it" in hidden.summary[1]


# --- the command line -------------------------------------------------------------------------


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "scores.npz"
    score, events = squared(1500)
    np.savez(path, probs=np.stack([1.0 - score, score], axis=1), labels=events)
    return path


def test_commands_take_a_notion(scores, tmp_path):
    score, events = squared(1500)
    expected = {
        None: metrics.ece(score, events),
        "confidence": metrics.confidence_ece(score, events),
    }
    for notion, value in expected.items():
        chosen = [] if notion is None else ["--notion", notion]
        evaluated = succeed(
            "evaluate", scores, "--metrics", "ece", "--n-resamples", 20, "--json", *chosen
        )
        assert json.loads(evaluated)["evaluation"]["metrics"]["ece"]["value"] == pytest.approx(
            value
        )
        options = ["--methods", "base", "--metrics", "ece", "--n-resamples", 0, "--json"]
        compared = json.loads(succeed("compare", scores, scores, *options, *chosen))
        assert compared["methods"][0]["ece"] == pytest.approx(value)
        assert compared["notion"] == notion or notion is None
        window = succeed("monitor", scores, "--window", 1500, *chosen)
        assert json.loads(window.splitlines()[0])["ece"] == pytest.approx(value)
        picture = tmp_path / "picture.png"
        drawn = json.loads(succeed("plot", scores, "-o", picture, "--json", *chosen))
        assert drawn["diagrams"]["uncalibrated"]["error"] == pytest.approx(value)
        page = tmp_path / "report.html"
        told = succeed(
            "report",
            scores,
            scores,
            "-o",
            page,
            "--force",
            "--methods",
            "base",
            "--n-resamples",
            0,
            *chosen,
        )
        assert f"is {value:.1%} before calibration" in told


def test_a_notion_that_a_picture_does_not_show_is_refused(scores, tmp_path):
    said = refuse("plot", scores, "-o", tmp_path / "a.png", "--by", "class", "--notion", "class-1")
    assert "--notion goes with --what reliability or bins, without --by class" in said


# --- p-values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p_value", "draws", "text"),
    [
        (1 / 201, 200, "<= 0.005"),
        (2 / 201, 200, "0.010"),
        (1 / 21, 20, "<= 0.048"),
        (1 / 301, 300, "<= 0.004"),  # never rounded to less than it is
        (1 / 1000, 999, "<= 0.001"),
        (1 / 10_001, 10_000, "< 0.001"),
        (1e-12, 200, "<= 0.005"),
        (0.0, None, "< 0.001"),
        (0.00099, None, "< 0.001"),
        (0.0312, None, "0.031"),
        (1.0, None, "1.000"),
    ],
)
def test_a_p_value_is_printed_as_a_bound_where_it_is_one(p_value, draws, text):
    assert p_text(p_value, draws) == text


def test_the_table_prints_floors_and_json_keeps_numbers():
    got = calibrant.evaluate(*squared(1500))
    lines = {line.split("  ")[0]: line for line in str(got).splitlines()}
    assert lines["ECE (%)"].endswith("<= 0.005")
    assert "p-value <= 0.005 (SKCE" in str(got)
    assert json.loads(got.to_json())["metrics"]["ece"]["p_value"] == pytest.approx(1 / 201)
    parts = calibrant.decompose(*squared(600), input="probs", method="platt", n_resamples=19)
    assert "<= 0.050" in str(parts)


def test_headings_say_where_an_error_is_a_root_mean_square():
    assert METRICS["debiased_ece"].heading == "Debiased RMS-ECE"
    assert METRICS["classwise_debiased_ece"].heading == "Classwise debiased RMS-ECE"
    rng = np.random.default_rng(0)
    score = np.where(rng.random(4000) < 0.2, 0.9, 0.1)
    events = (rng.random(4000) < np.where(score > 0.5, 0.3, 0.1)).astype(int)
    assert metrics.debiased_ece(score, events) > metrics.ece(score, events)
