"""Methods side by side: values by name, weights, notes, and the shared table."""

from __future__ import annotations

import json
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from calibrant import metrics
from calibrant.calibrators import REGISTRY, FitInfo, LogitCalibrator
from calibrant.common.errors import noted, warn
from calibrant.data.rows import Rows
from calibrant.evaluation.comparison import Comparison, MetricOptions, compare_predictions
from calibrant.evaluation.cross_validation import Experiment, HeldOutPredictions, warnings_of_folds
from calibrant.formulas import LogitMap
from calibrant.metrics._registry import metrics_named


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
    assert got["ts"] is got[1]
    with pytest.raises(KeyError, match="'pts'; compared were base, ts, vector"):
        got["pts"]
    assert repr(got).startswith("Comparison(base, ts, vector by accuracy")


def test_it_is_plain_and_json():
    got = compare()
    assert json.loads(got.to_json()) == json.loads(json.dumps(got.to_dict()))
    assert got.to_dict()["results"][1]["values"]["ece"] == got[1].ece
    assert got.to_dict()["results"][1]["notes"] == []


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


# --- methods of one's own ---------------------------------------------------------------------


def test_calibrators_are_copied_and_called_by_their_parameters():
    mine = calibrant.TS(loss="brier")
    got = compare(methods=[mine, "ts", calibrant.VectorScaling()])
    assert [result.method for result in got] == ["ts(loss='brier')", "ts", "vector"]
    assert not hasattr(mine, "temperature_")
    assert got[1].values == compare(methods="ts")[0].values
    assert got[0].brier != got[1].brier
    alone = compare(methods=mine)
    assert alone[0].values == got[0].values


def test_a_mapping_names_methods():
    got = compare(methods={"raw": "base", "mine": calibrant.TS()})
    assert [result.method for result in got] == ["raw", "mine"]
    assert got["mine"].values == compare()["ts"].values


@pytest.mark.parametrize(
    ("methods", "error", "message"),
    [
        ([calibrant.TS(), calibrant.TS()], ValueError, "two methods are called 'ts': name them"),
        ([calibrant.TS(input="probs")], ValueError, "takes probs, but the scores are logits"),
        ([3], TypeError, "methods must be names such as 'ts' or calibrators, got 3"),
        ({"mine": 3}, TypeError, "methods must be names such as 'ts' or calibrators, got 3"),
        ({}, ValueError, "methods must name at least one of auto, base, ts"),
    ],
)
def test_methods_that_are_none(methods, error, message):
    with pytest.raises(error, match=message):
        compare(methods=methods)


# --- estimates and differences ----------------------------------------------------------------


def test_estimates_are_those_of_evaluate():
    logits, labels = example(200, seed=1)
    got = compare(random_state=5, n_resamples=50, level=0.9)
    for result in got:
        probs = calibrant.calibrator(result.method).fit(*example()).predict_proba(logits)
        alone = calibrant.evaluate(
            probs, labels, metrics=got.metrics, random_state=5, n_resamples=50, level=0.9
        )
        assert result.estimates == alone.metrics
        assert result.values == {name: known.value for name, known in alone.metrics.items()}


def test_differences_are_paired():
    logits, labels = example(200, seed=1)
    got = compare(n_resamples=400)
    best, other = got.best("nll"), got["base"]
    losses = (
        [metrics.nll(softmax(logits, 1)[[row]], labels[[row]]) for row in range(200)],
        -np.log(
            calibrant.calibrator(best.method)
            .fit(*example())
            .predict_proba(logits)[np.arange(200), labels]
        ),
    )
    gaps = np.array(losses[0]) - losses[1]
    found = other.differences["nll"]
    assert found.value == pytest.approx(gaps.mean())
    assert found.high - found.low == pytest.approx(2 * 1.959964 * gaps.std() / np.sqrt(200))
    assert found.adjusted_p_value == pytest.approx(2 * found.p_value)  # the smallest of two
    assert best.differences["nll"].same
    probs = {
        name: calibrant.calibrator(name).fit(*example()).predict_proba(logits)
        for name in ("base", got.best("ece").method)
    }
    pair = metrics.compare_paired(*probs.values(), labels, "ece", n_resamples=400)
    ece = got["base"].differences["ece"]
    assert ece.value == pytest.approx(pair.difference, abs=0.02)
    assert (ece.p_value < 0.05) is (pair.p_value < 0.05)


def test_without_draws_only_scores_are_tested():
    got = compare(n_resamples=0)
    assert set(got[0].differences) == {"accuracy", "brier", "nll"}
    assert got[0].estimates["ece"].low is None
    assert got.starred("ece") == ()
    assert "not tested: ECE, Classwise ECE (nothing was drawn)" in str(got)
    with pytest.raises(ValueError, match="differences of ece are not tested: nothing was drawn"):
        got.recommended("ece")
    with pytest.raises(ValueError, match="n_resamples must be at least 0"):
        compare(n_resamples=-1)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        compare(level=1.0)


def judged(seed, noises, rows=500, metric_names=("accuracy", "ece", "brier", "nll")):
    """A comparison of models that see the truth through noise, of the same size or not."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 4)) * 1.5
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    rows = Rows(logits, labels)
    predictions = []
    for at, size in enumerate(noises):
        probs = softmax(logits + size * rng.normal(size=logits.shape), 1)
        found = rows.with_scores(probs, "probs")
        predictions.append(HeldOutPredictions(f"m{at}", found, None, False, 0.0, ()))
    experiment = Experiment({}, rows, rows)
    return compare_predictions(
        experiment, predictions, metrics_named(metric_names), MetricOptions(n_resamples=50)
    )


@pytest.mark.parametrize(
    ("times", "models", "most"),
    # at most 5% on average, for the fewest methods; three standard deviations above that
    [(15, 3, 3), pytest.param(300, 2, 26, marks=pytest.mark.slow)],
)
def test_equal_models_are_hardly_ever_starred(times, models, most):
    starred = dict.fromkeys(("accuracy", "ece", "brier", "nll"), 0)
    for seed in range(times):
        got = judged(seed, [0.7] * models)
        for name in starred:
            starred[name] += bool(got.starred(name))
            assert got.best(name) in got.tied(name)
    assert max(starred.values()) <= most


def test_a_better_model_is_starred_and_recommended():
    got = judged(0, [2.0, 0.2, 2.0])
    for name in ("accuracy", "brier", "nll"):
        assert got.starred(name) == ("m1",)
        assert got.tied(name) == (got["m1"],)
    assert got.recommended() is got["m1"]
    assert f"* {got['m1'].nll:.4f}" in str(got)
    assert f"<b>* {got['m1'].nll:.4f}</b>" in got._repr_html_()


def test_the_first_of_equals_is_recommended():
    got = judged(0, [0.7, 0.7, 3.0])
    assert got.tied() == (got["m0"], got["m1"])
    assert got.recommended() is got["m0"]
    assert got.starred("nll") == ()
    for result in got[:2]:
        assert f"~ {result.nll:.4f}" in str(got)
    assert f"~ {got['m2'].nll:.4f}" not in str(got)


def test_auto_comes_last_and_the_same_probabilities_share_a_star():
    data = (*example(2000), *example(4000, seed=1))
    got = calibrant.compare(*data, methods={"auto": "ts", "again": "ts", "base": "base"})
    assert got.starred("nll") == ("auto", "again")
    assert got.recommended() is got["again"]
    assert got["again"].differences["nll"].same


def test_scores_as_they_are_need_more_than_a_large_noise():
    """Few rows that are sure and wrong: the noise is as large as the loss."""
    logits = np.zeros((60, 2))
    logits[:, 0] = 2.0
    logits[0, 0] = 300.0
    labels = np.r_[1, np.arange(59) % 5 == 0].astype(int)
    got = calibrant.compare(logits, labels, logits, labels, methods=["base", "ts"])
    assert not got["base"].differences["nll"].adjusted_p_value < 0.05
    assert got["base"].nll > got["ts"].nll + 0.1
    assert got.recommended().method == "ts"


def test_an_impossible_label_is_beyond_noise():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 50)
    good = np.full((50, 2), 0.5)
    wrong = good.copy()
    wrong[0] = np.eye(2)[1 - labels[0]]
    rows = Rows(good, labels)
    predictions = [
        HeldOutPredictions(name, rows.with_scores(probs, "probs"), None, True, 0.0, ())
        for name, probs in (("good", good), ("wrong", wrong), ("as wrong", wrong))
    ]
    got = compare_predictions(
        Experiment({}, rows, rows), predictions, metrics_named(["nll"]), MetricOptions()
    )
    assert got["wrong"].differences["nll"].p_value == 0.0
    assert got.starred("nll") == ("good",)
    json.loads(got.to_json())
    both = compare_predictions(
        Experiment({}, rows, rows), predictions[1:], metrics_named(["nll"]), MetricOptions()
    )
    assert both.starred("nll") == ()


def test_the_table_of_one_metric():
    got = compare()
    text = str(got.details("ece"))
    assert text.startswith("ECE (%): paired differences to the best, ")
    assert "without the noise" in text
    assert "no test is known that holds" in str(got.details("classwise_ece"))
    with pytest.raises(ValueError, match=r"by must be one of accuracy, ece, .* got 'mce'"):
        got.details("mce")
    assert "ECE (%): paired" in got.details("ece")._repr_html_()


# --- cross-validation -------------------------------------------------------------------------


def test_every_row_is_judged_once_by_a_fit_on_other_folds():
    logits, labels = example(303)
    experiment = Experiment.of((logits, labels, None, None), methods=["ts"], cv=4)
    parts = experiment.folds.parts
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(303))
    (one,) = experiment.run()
    assert one.calibrator is None
    for fold in parts:
        others = np.setdiff1d(np.arange(303), fold)
        model = calibrant.TS().fit(logits[others], labels[others])
        np.testing.assert_array_equal(one.rows.scores[fold], model.predict_proba(logits[fold]))
    got = calibrant.compare(logits, labels, methods=["ts"], cv=4)
    assert (got.n_folds, got.n_val, got.n_test) == (4, 303, 303)
    assert got[0].nll == metrics.nll(one.rows.scores, labels)
    assert str(got).startswith("4-fold cross-validation of 303 rows, 15 bins")


def test_copies_are_as_good_as_weights():
    (logits, labels), times = example(), np.random.default_rng(2).integers(0, 4, 300)
    copies = np.repeat(logits, times, axis=0), np.repeat(labels, times)
    written = calibrant.compare(*copies, methods=["base", "ts"], n_resamples=0)
    weighted = calibrant.compare(
        logits, labels, methods=["base", "ts"], val_weight=times, n_resamples=0
    )
    for one, other in zip(written, weighted, strict=True):
        for name, value in one.values.items():
            assert other.values[name] == pytest.approx(value, rel=1e-5), name
        for name, known in one.differences.items():
            found = other.differences[name]
            assert found.value == pytest.approx(known.value, rel=1e-4, abs=1e-9)
            assert found.high == pytest.approx(known.high, rel=1e-4, abs=1e-9)


def test_what_cross_validation_refuses():
    logits, labels = example(40)
    with pytest.raises(ValueError, match="cv must be at least 2, got 1"):
        calibrant.compare(logits, labels, cv=1)
    with pytest.raises(ValueError, match=r"cv must be a whole number, got 2\.5"):
        calibrant.compare(logits, labels, cv=2.5)
    with pytest.raises(TypeError, match="test_labels needs test_scores"):
        calibrant.compare(logits, labels, None, labels)
    with pytest.raises(TypeError, match="test_scores need test_labels"):
        calibrant.compare(logits, labels, logits)
    with pytest.raises(ValueError, match="there must be rows to leave out, got 1 in all"):
        calibrant.compare(logits[:1], labels[:1])


def test_progress_counts_the_folds():
    seen = []
    calibrant.compare(
        *example(100),
        methods=["base", "ts"],
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 10) for done in range(11)]


# --- covariates -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SlopeByColumn(LogitMap):
    """softmax(z (a + b x)): a slope that depends on the row's covariate x."""

    kind: ClassVar[str] = "test.slope-by-column"
    needs: ClassVar[tuple[str, ...]] = ("covariates",)

    columns: tuple[str, ...]
    slopes: np.ndarray

    @property
    def covariate_names(self):
        return self.columns

    @property
    def keeps_arg_max(self):
        return True

    @property
    def n_classes(self):
        return None

    def scores(self, rows, ops):
        slopes = ops.constant(self.slopes, rows.logits)
        return rows.logits * (slopes[0] + slopes[1] * rows.covariates)

    def gaps(self, rows, ops):
        return ops.gaps(self.scores(rows, ops))


class ScalingByColumn(LogitCalibrator):
    """A temperature for each value of the one column, which is 0 or 1."""

    uses = ("covariates",)
    _gives = LogitMap

    def __init__(self, input="logits"):  # noqa: A002
        self.input = input

    def _will_keep_arg_max(self):
        return True

    def _check_parameters(self):
        """There are none."""

    def _fit_logits(self, data):
        ((name, column),) = data.covariates.items()
        parts = [data.take(column == value) for value in (0, 1)]
        first, second = (
            1.0 / calibrant.TS().fit(part.logits, part.labels, part.weight).temperature_
            for part in parts
        )
        return SlopeByColumn((name,), np.array([first, second - first])), FitInfo(True, "exact")


def with_column(rows, seed):
    """Logits that are four times too large where the column is 1."""
    logits, labels = example(rows, seed=seed)
    column = np.arange(rows) % 2
    return logits * np.where(column, 4.0, 0.5)[:, None], labels, {"blurred": column}


@pytest.mark.parametrize("crossed", [True, False])
def test_covariates_reach_the_methods_that_use_them(crossed):
    logits, labels, covariates = with_column(600, 0)
    methods = {"ts": "ts", "by column": ScalingByColumn()}
    options = {"methods": methods, "covariates": covariates, "metrics": ["nll"]}
    if crossed:
        got = calibrant.compare(logits, labels, **options)
        judged_logits, judged_labels = logits, labels
    else:
        judged_logits, judged_labels, test_covariates = with_column(400, 1)
        test = (judged_logits, judged_labels)
        got = calibrant.compare(logits, labels, *test, test_covariates=test_covariates, **options)
        model = ScalingByColumn().fit(logits, labels, covariates=covariates)
        probs = model.predict_proba(judged_logits, covariates=test_covariates)
        assert got["by column"].nll == metrics.nll(probs, judged_labels)
    alone = calibrant.compare(
        logits, labels, *(() if crossed else test), methods=["ts"], metrics=["nll"]
    )
    assert got["ts"].nll == alone["ts"].nll
    assert got["by column"].nll < got["ts"].nll - 0.05
    assert got.starred("nll") == ("by column",)


def test_covariates_that_are_missing_or_left_over():
    logits, labels, covariates = with_column(100, 0)
    with pytest.raises(TypeError, match="ScalingByColumn needs covariates"):
        calibrant.compare(logits, labels, methods=ScalingByColumn())
    with pytest.raises(TypeError, match="test_covariates needs test_scores"):
        calibrant.compare(logits, labels, covariates=covariates, test_covariates=covariates)
    with pytest.raises((TypeError, ValueError), match="covariates"):
        calibrant.compare(
            logits, labels, logits, labels, methods=ScalingByColumn(), covariates=covariates
        )


# --- warnings of fits -------------------------------------------------------------------------


class Warns:
    uses = ()
    accuracy_preserving = True

    def fit(self, rows):
        warn("our own")
        warnings.warn("of others", DeprecationWarning, stacklevel=1)

    def predict_proba(self, rows):
        return rows.scores


def test_a_fit_notes_its_own_warnings_and_lets_others_pass():
    rows = Rows(*example())
    with pytest.warns() as passed:
        (one,) = Experiment({"warns": Warns()}, rows, rows).run()
    assert (one.fit_seconds >= 0.0, one.warnings) == (True, ("our own",))
    assert [str(one.message) for one in passed] == ["of others"]


def test_notes_are_those_of_this_thread_and_leave_the_filters_alone():
    before = list(warnings.filters)
    with noted() as ours, ThreadPoolExecutor(1) as other:
        warn("mine")
        with pytest.warns(match="theirs"):
            other.submit(warn, "theirs").result()
    assert ours == ["mine"]
    assert warnings.filters == before


def imbalanced():
    """Scores that favour no class, of labels that are mostly 0: a fit by a temperature warns."""
    rng = np.random.default_rng(0)
    labels = np.r_[np.zeros(150, int), np.ones(40, int), np.full(3, 2)]
    logits = rng.normal(size=(len(labels), 3))
    logits[np.arange(len(labels)), labels] += 2.0
    return logits, labels


def test_a_warning_of_all_folds_is_told_once_with_their_number():
    got = calibrant.compare(*imbalanced(), methods=["base", "ts", "ets"], n_resamples=0)
    for name in ("ts", "ets"):
        (note,) = got[name].notes
        assert note.startswith("class 0 has the mean probability 0.6")
        assert note.endswith(" (in 5 of 5 folds; the numbers are those of the first)")
        assert got.to_dict()["results"][1]["notes"] == list(got["ts"].notes)
    lines = [line for line in str(got).splitlines() if "mean probability" in line]
    assert lines == [f"ts (likewise ets): {got['ts'].notes[0]}"]


def test_warnings_of_folds():
    assert warnings_of_folds([["a"], ["a"], []]) == ("a (in 2 of 3 folds)",)
    assert warnings_of_folds([["b", "a"], ["a"]]) == ("b (in 1 of 2 folds)", "a (in 2 of 2 folds)")
    first = "lost 1.5e-3 (in 2 of 2 folds; the numbers are those of the first)"
    assert warnings_of_folds([["lost 1.5e-3"], ["lost 0.2"]]) == (first,)
    assert warnings_of_folds([[], []]) == ()


@pytest.mark.parametrize("crossed", [True, False])
def test_probabilities_called_logits_are_told_once(crossed):
    logits, labels = example()
    rows = [softmax(logits, axis=1), labels]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = calibrant.compare(*rows, *([] if crossed else rows), methods=["base", "ts", "ets"])
    assert [str(one.message).partition(". ")[2] for one in caught] == [
        'If it is, say input="probs"'
    ]
    assert not any("probabilities" in note for result in got for note in result.notes)


def test_notes_are_shown_below_the_table():
    rows = np.eye(3)[np.arange(30) % 3] * 9.0
    got = calibrant.compare(rows, np.arange(30) % 3, rows, np.arange(30) % 3, methods=["ts"])
    assert got[0].notes
    assert str(got).splitlines()[-1] == f"ts: {got[0].notes[-1]}"
