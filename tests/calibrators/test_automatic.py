"""The automatic choice: what it takes where the answer is known, and what it says of it."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant import CalibrationWarning
from calibrant.calibrators import AutoCalibrator, Rows, calibrator
from calibrant.calibrators._choosing import error_of_difference, simplest_of_the_best
from calibrant.formulas import Pool
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


def bent(rows: int, seed: int = 0) -> Data:
    """Logits whose scale is bent, and that are noisier in some rows than in others."""
    rng = np.random.default_rng(seed)
    logits = 4.0 * rng.normal(size=(rows, 5))
    noise = np.where(logits.max(axis=1, keepdims=True) > 5.0, 2.0, 0.2)
    true = np.where(logits > 0.0, 0.3 * logits, logits) + noise * rng.normal(size=logits.shape)
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


def test_an_intercept_where_the_prior_is_wrong():
    fit, test = shifted_binary(800, 0), shifted_binary(4000, 1)
    auto = AutoCalibrator().fit(*fit)
    assert not {"base", "ts", "ets"} & set(auto.members_)
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
    assert set(auto.members_) <= {"base", "uniform", "ts", "ets", "monotone", "mpts"}
    np.testing.assert_array_equal(auto.predict(fit[0]), fit[0] > 0.0)


def test_it_says_what_was_tried_and_why():
    auto = AutoCalibrator().fit(*scaled(300, 0))
    details = auto.fit_info_.details
    tried = {row["candidate"]: row for row in details["tried"]}
    assert {"base", "class-shares", "ts", "bias", "svs", "sms", "ets", "mpts"} <= set(tried)
    assert min(row["error_of_difference"] for row in details["tried"]) == 0.0
    assert sum(row["weight"] for row in details["tried"]) == pytest.approx(1.0)
    kept = [name for name, row in tried.items() if row["weight"] > 0.0]
    assert sorted(auto.members_) == sorted(kept)
    assert f"{len(kept)} are averaged" in details["why"]
    text = str(auto.fit_info_)
    assert details["why"].partition(";")[0] in text
    assert f"{details['held_out_loss']:.5f} +- {details['held_out_error']:.5f}" in text


def test_few_rows_are_averaged_and_many_choose():
    few, many = AutoCalibrator().fit(*scaled(30, 0)), AutoCalibrator().fit(*bent(20_000))
    assert few.method_ == "pool"
    assert isinstance(few.formula_, Pool)
    assert "base" in few.members_
    assert len(few.members_) > 2
    np.testing.assert_allclose(few.weights_, few.formula_.weights)
    assert many.method_ in ("mpts", "spts")
    assert many.members_ == [many.method_]
    assert many.weights_.tolist() == [1.0]


def test_an_average_is_that_of_its_members():
    logits, labels = scaled(120, 0)
    auto = AutoCalibrator().fit(logits, labels)
    total = np.zeros(logits.shape)
    for name, weight in zip(auto.members_, auto.weights_, strict=True):
        parameters = {"prior_rows": "auto"} if name == "ts" else {}
        total += weight * calibrator(name, **parameters).fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(auto.predict_proba(logits), total, atol=1e-6)


@pytest.mark.filterwarnings("ignore:the labels look unrelated")
def test_scores_that_say_nothing_give_the_class_frequencies():
    rng = np.random.default_rng(0)
    labels = (rng.random(400) < 0.2).astype(int)
    logits = 5.0 * rng.normal(size=(400, 2))
    auto = AutoCalibrator().fit(logits, labels)
    np.testing.assert_allclose(auto.predict_proba(logits)[:, 1], labels.mean(), atol=0.06)
    kept = AutoCalibrator(preserve_accuracy=True)
    with pytest.warns(CalibrationWarning, match="the share 0.2"):
        kept.fit(logits, labels)
    assert kept.predict_proba(logits).max() < 0.6


def test_the_harm_is_bounded_where_scores_are_right():
    """Twenty calibrated problems of 30 rows: hardly worse than the scores as they are."""
    rng, harm = np.random.default_rng(0), []
    for _ in range(20):
        logits = 2.0 * rng.normal(size=(4030, 3))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        auto = AutoCalibrator().fit(logits[:30], labels[:30])
        plain = calibrator("base").fit(logits[:30], labels[:30])
        losses = [nll(one.predict_proba(logits[30:]), labels[30:]) for one in (auto, plain)]
        harm.append(losses[0] - losses[1])
    assert np.mean(harm) < 0.01
    assert max(harm) < 0.04


def test_a_small_average_says_that_the_choice_varies():
    whys = [AutoCalibrator().fit(*scaled(60, s)).fit_info_.details["why"] for s in range(5)]
    assert any("two halves of the rows prefer different methods in" in why for why in whys)


def test_only_the_wanted_methods_compete():
    logits, labels = scaled(300, 0)
    auto = AutoCalibrator(methods=["temperature", "vector", "mpts"]).fit(logits, labels)
    tried = [row["candidate"] for row in auto.fit_info_.details["tried"]]
    assert tried == ["base", "class-shares", "ts", "vector", "mpts"]


def test_wanted_methods_that_are_not_for_these_rows():
    with pytest.raises(ValueError, match="beta is for two classes, got 5"):
        AutoCalibrator(methods=["beta"]).fit(*scaled(30, 0))
    with pytest.raises(ValueError, match=r"must be a list of names such as .*, got 'ts'"):
        AutoCalibrator(methods="ts").fit(*scaled(30, 0))
    with pytest.raises(ValueError, match=r"method must be one of .*, got 'tss'"):
        AutoCalibrator(methods=["tss"]).fit(*scaled(30, 0))
    for none in ([], ["auto"]):
        with pytest.raises(ValueError, match="must name at least one method, and not 'auto'"):
            AutoCalibrator(methods=none).fit(*scaled(30, 0))


def bent_harder(rows: int, seed: int = 0) -> Data:
    """Logits of which an increasing map, and nothing else, is to be learned."""
    rng = np.random.default_rng(seed)
    true = 1.5 * rng.normal(size=(rows, 4))
    logits = np.sign(true) * np.abs(3.0 * true) ** 1.7
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


@pytest.mark.parametrize("methods", [["spts"], ["monotone", "spts"], ["monotone", "mpts"]])
def test_a_wanted_joint_method_competes_without_its_other_parts(methods):
    auto = AutoCalibrator(methods=methods).fit(*bent_harder(400))
    assert set(auto.members_) <= set(methods)


def test_each_wanted_method_competes_once():
    auto = AutoCalibrator(methods=np.array(["ts", "temperature", "TS"])).fit(*scaled(60, 0))
    assert [row["candidate"] for row in auto.fit_info_.details["tried"]] == [
        "base",
        "class-shares",
        "ts",
    ]


def test_wanted_methods_that_may_change_the_class():
    with pytest.raises(ValueError, match="svs may change the predicted class: leave it out"):
        AutoCalibrator(preserve_accuracy=True, methods=["svs"]).fit(*scaled(60, 0))
    with pytest.raises(ValueError, match=r"must be a list of names such as .*, got \['ts', 3\]"):
        AutoCalibrator(methods=["ts", 3]).fit(*scaled(60, 0))


def test_copies_of_a_few_groups_are_few_rows():
    """Twenty rows, each twenty times with a little noise: the groups say that they are twenty."""
    rng = np.random.default_rng(1)
    logits, labels = bent_harder(20, 1)
    logits = np.repeat(logits, 20, axis=0) + 0.02 * rng.normal(size=(400, 4))
    labels, groups = np.repeat(labels, 20), np.repeat(np.arange(20), 20)
    grouped = AutoCalibrator().fit(Rows(logits, labels, groups=groups))
    alone = AutoCalibrator().fit(logits, labels)
    test = bent_harder(4000, 2)
    losses = [nll(one.predict_proba(test[0]), test[1]) for one in (grouped, alone)]
    assert losses[0] < losses[1] - 0.1
    errors = [one.fit_info_.details["held_out_error"] for one in (grouped, alone)]
    assert errors[0] > 2.0 * errors[1]


def test_a_missing_class_among_many_rows(monkeypatch):
    monkeypatch.setattr("calibrant.calibrators._choosing.SAMPLE_ROWS", 300)
    logits, labels = scaled(1500, 0, classes=3)
    logits[:, :2] = np.round(logits[:, :2])  # without the third class rows are copies
    keep = labels < 2
    auto = AutoCalibrator(methods=["ts", "spts"])
    with pytest.warns(CalibrationWarning, match="no row has class 2"):
        auto.fit(logits[keep], labels[keep])
    assert set(auto.members_) <= {"base", "ts", "spts"}


def test_files_keep_an_average(tmp_path):
    logits, labels = scaled(100, 0)
    auto = AutoCalibrator(methods=["ts", "svs"]).fit(logits, labels)
    calibrant.save(auto, tmp_path / "auto.safetensors")
    again = calibrant.load(tmp_path / "auto.safetensors")
    assert (again.method_, again.members_, list(again.methods)) == (
        "pool",
        auto.members_,
        ["ts", "svs"],
    )
    np.testing.assert_array_equal(again.weights_, auto.weights_)
    np.testing.assert_array_equal(again.predict_proba(logits), auto.predict_proba(logits))


def test_whole_weights_are_repeated_rows():
    logits, labels = scaled(60, 0)
    number = 1 + np.arange(60) % 3
    repeated = np.repeat(np.arange(60), number)
    one = AutoCalibrator().fit(logits, labels, sample_weight=number)
    other = AutoCalibrator().fit(logits[repeated], labels[repeated])
    assert one.members_ == other.members_
    np.testing.assert_allclose(one.predict_proba(logits), other.predict_proba(logits), atol=1e-6)


def test_hardly_any_rows_change_nothing():
    with pytest.warns(CalibrationWarning, match="9 rows are too few to calibrate with"):
        auto = AutoCalibrator().fit(*scaled(9, 0))
    assert auto.method_ == "base"
    assert auto.accuracy_preserving


def test_the_chosen_formula_is_that_of_the_method():
    fit = bent(20_000)
    auto = AutoCalibrator().fit(*fit)
    method = calibrator(auto.method_).fit(*fit)
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
