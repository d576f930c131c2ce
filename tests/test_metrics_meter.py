"""The meter: what the whole array says, from parts, in any order, through any file."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import metrics
from calibrant.metrics import CalibrationMeter


def example(rows=400, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) * 2.0
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return logits, probs, rng.integers(0, classes, rows)


def in_parts(probs, labels, cuts, weight=None, **settings):
    meter = CalibrationMeter(**settings)
    for part in np.split(np.arange(len(labels)), cuts):
        if len(part):
            meter.update(probs[part], labels[part], None if weight is None else weight[part])
    return meter


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_report_is_what_the_metrics_say(classes, weighted):
    _, probs, labels = example(classes=classes)
    weight = np.random.default_rng(1).random(400) if weighted else None
    report = in_parts(probs, labels, [3, 200], weight).compute()
    options = {"sample_weight": weight}
    for name in (
        "accuracy",
        "nll",
        "brier",
        "ece",
        "mce",
        "classwise_ece",
        "smooth_ece",
        "kde_ece",
    ):
        expected = getattr(metrics, name)(probs, labels, **options)
        assert getattr(report, name) == pytest.approx(expected, abs=1e-12, rel=1e-12), name
    assert report.rows == 400
    assert report.rms_ece == pytest.approx(metrics.ece(probs, labels, norm=2, **options))
    debiased = metrics.debiased_ece(probs, labels, scheme="equal-width", **options)
    assert report.debiased_ece == pytest.approx(debiased)
    parts = metrics.brier_decomposition(probs, labels, 15, **options)
    assert report.brier_decomposition.calibration == pytest.approx(parts.calibration)
    assert report.brier_decomposition.uncertainty == pytest.approx(parts.uncertainty)


def test_the_null_value_is_that_of_consistency_resampling():
    _, probs, labels = example(5000)
    test = metrics.calibration_test(probs, labels, resamples=500)
    report = CalibrationMeter().update(probs, labels).compute()
    assert report.ece_null == pytest.approx(test.null_mean, rel=0.05)


def test_standard_errors_are_the_textbook_ones():
    _, probs, labels = example()
    report = CalibrationMeter().update(probs, labels).compute()
    rows = metrics.nll_per_row(probs, labels)
    assert report.nll_std_error == pytest.approx(rows.std() / np.sqrt(400))


@given(
    seed=st.integers(0, 50), rows=st.integers(1, 300), bins=st.integers(1, 20), coarse=st.booleans()
)
def test_the_equal_mass_error_is_within_its_stated_bound(seed, rows, bins, coarse):
    rng = np.random.default_rng(seed)
    # Confidences that share cells: the bound must earn its keep.
    confidence = 0.9 + rng.random(rows) * (2.0**-12 if coarse else 0.1)
    probs = np.stack([confidence, 1.0 - confidence], axis=1)
    labels = (rng.random(rows) > confidence).astype(int)
    report = CalibrationMeter(bins).update(probs, labels).compute()
    expected = metrics.adaptive_ece(probs, labels, bins)
    assert abs(report.adaptive_ece - expected) <= report.adaptive_ece_error + 1e-12


def test_logits_give_a_finite_nll_where_probabilities_cannot():
    logits = np.array([[0.0, 2000.0], [0.0, 1.0]])
    report = CalibrationMeter(input="logits").update(logits, [0, 1]).compute()
    assert report.nll == pytest.approx((2000.0 + np.log1p(np.exp(-1.0))) / 2.0)
    certain = CalibrationMeter().update([[0.0, 1.0]], [0])
    assert certain.compute().nll == np.inf
    assert np.isfinite(certain.sums).all()  # the state itself stays finite, and JSON


def test_logits_and_probabilities_agree():
    logits, probs, labels = example()
    first = CalibrationMeter(input="logits").update(logits, labels).compute()
    second = CalibrationMeter().update(probs, labels).compute()
    assert first.ece == pytest.approx(second.ece)
    assert first.nll == pytest.approx(second.nll)


def test_torch_and_whole_weights():
    _, probs, labels = example()
    times = np.random.default_rng(1).integers(1, 4, 400)
    weighted = CalibrationMeter().update(torch.tensor(probs), torch.tensor(labels), times).compute()
    repeated = CalibrationMeter().update(np.repeat(probs, times, axis=0), np.repeat(labels, times))
    assert weighted.ece == pytest.approx(repeated.compute().ece)
    assert weighted.brier == pytest.approx(repeated.compute().brier)
    assert weighted.rows == 400


def test_a_meter_may_leave_the_classes_out():
    _, probs, labels = example()
    lean, full = (CalibrationMeter(classwise=c).update(probs, labels) for c in (False, True))
    assert lean.compute().classwise_ece is None
    assert lean.compute().brier_decomposition is None
    assert lean.compute().ece == full.compute().ece
    assert len(full.sums) - len(lean.sums) == 4 * 4 * 15


def test_memory_does_not_grow_with_the_rows():
    _, probs, labels = example()
    once = CalibrationMeter().update(probs, labels)
    often = CalibrationMeter()
    for _ in range(5):
        often.update(probs, labels)
    assert once.sums.nbytes + once.counts.nbytes == often.sums.nbytes + often.counts.nbytes


def test_the_report_as_a_dict_is_json():
    _, probs, labels = example()
    document = CalibrationMeter().update(probs, labels).compute().to_dict()
    assert json.loads(json.dumps(document))["bins"]["weight"][-1] > 0.0


# --- adding up --------------------------------------------------------------------------------

CUTS = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted)


@settings(max_examples=20)
@given(cuts=CUTS, seed=st.integers(0, 20), weighted=st.booleans())
def test_merging_is_associative_and_commutative(cuts, seed, weighted):
    _, probs, labels = example(60, seed=seed)
    weight = np.random.default_rng(seed).random(60) + 0.1 if weighted else None
    parts = [
        in_parts(probs[p], labels[p], [], None if weight is None else weight[p])
        for p in np.split(np.arange(60), cuts)
    ]
    a, b, c = parts
    ways = [a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a).merge(b), b.merge(a).merge(c)]
    for way in ways[1:]:
        np.testing.assert_array_equal(way.counts, ways[0].counts)
        np.testing.assert_allclose(way.sums, ways[0].sums, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ways[0].counts, in_parts(probs, labels, [], weight).counts)


def test_merging_makes_a_new_meter():
    _, probs, labels = example()
    first, second = (CalibrationMeter().update(probs, labels) for _ in range(2))
    before = first.sums
    first.merge(second).update(probs, labels)
    np.testing.assert_array_equal(first.sums, before)
    first.merge(CalibrationMeter()).update(probs, labels)
    np.testing.assert_array_equal(first.sums, before)


@pytest.mark.parametrize(
    "other",
    [
        CalibrationMeter(10),
        CalibrationMeter(input="logits"),
        CalibrationMeter(rows="raw"),
        CalibrationMeter(classwise=False),
    ],
)
def test_other_settings_do_not_merge(other):
    with pytest.raises(ValueError, match="only where their settings are the same"):
        CalibrationMeter().merge(other)


def test_other_classes_do_not_merge():
    first = CalibrationMeter().update([[0.5, 0.5]], [0])
    with pytest.raises(ValueError, match="same classes, got 2 and 3"):
        first.merge(CalibrationMeter().update([[0.5, 0.25, 0.25]], [0]))
    with pytest.raises(ValueError, match="same classes, got 2 and 3"):
        first.update([[0.5, 0.25, 0.25]], [0])


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("filled", [False, True])
def test_json_and_arrow_keep_every_bit(filled):
    meter = CalibrationMeter(7, rows="raw")
    if filled:
        _, probs, labels = example()
        meter.update(probs, labels, np.random.default_rng(1).random(400))
    for copy in (
        CalibrationMeter.from_json(meter.to_json()),
        CalibrationMeter.from_arrow(meter.to_arrow()),
    ):
        assert copy.to_json() == meter.to_json()
        np.testing.assert_array_equal(copy.sums, meter.sums)
        np.testing.assert_array_equal(copy.counts, meter.counts)
        assert copy.counts.dtype == np.int64
        copy.update(*example()[1:])


def test_a_table_of_several_meters_is_their_merger():
    _, probs, labels = example()
    parts = [
        CalibrationMeter().update(probs[p], labels[p]) for p in (slice(0, 100), slice(100, 400))
    ]
    table = pa.concat_tables([part.to_arrow() for part in parts])
    merged = CalibrationMeter.from_arrow(table)
    np.testing.assert_array_equal(merged.sums, parts[0].merge(parts[1]).sums)


def test_foreign_files_are_refused():
    with pytest.raises(ValueError, match="must be JSON text"):
        CalibrationMeter.from_json("meter")
    with pytest.raises(ValueError, match="must have the format 'calibrant-meter-1', got None"):
        CalibrationMeter.from_json("[1, 2]")
    document = json.loads(CalibrationMeter().update([[0.5, 0.5]], [0]).to_json())
    document["sums"].pop()
    with pytest.raises(ValueError, match="sums of a meter with 2 classes must have"):
        CalibrationMeter.from_json(json.dumps(document))
    empty = CalibrationMeter().to_arrow().slice(0, 0)
    with pytest.raises(ValueError, match="at least one row, got none"):
        CalibrationMeter.from_arrow(empty)


# --- bad input --------------------------------------------------------------------------------


def test_a_refused_array_leaves_the_meter_as_it_was():
    _, probs, labels = example()
    meter = CalibrationMeter().update(probs, labels)
    before = meter.to_json()
    bad = probs.copy()
    bad[399, 1] = np.nan
    with pytest.raises(ValueError, match="at row 399, class 1"):
        meter.update(bad, labels)
    assert meter.to_json() == before


def test_errors_name_the_row_of_the_whole_array():
    probs = np.tile([0.5, 0.5], (600_000, 1))
    probs[555_555] = [0.5, 0.4]
    with pytest.raises(ValueError, match=r"row 555555 sums to 0\.9"):
        CalibrationMeter().update(probs, np.zeros(600_000, int))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bins": 0}, "bins must be at least 1, got 0"),
        ({"input": "scores"}, 'input must be "logits" or "probs", got \'scores\''),
        ({"rows": "loose"}, '"strict", "normalize" or "raw", got \'loose\''),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        CalibrationMeter(**settings)


def test_an_empty_meter_has_no_report():
    with pytest.raises(ValueError, match="at least one row before compute"):
        CalibrationMeter().compute()


def test_masked_and_bad_logits():
    meter = CalibrationMeter(input="logits")
    meter.update([[0.0, 1.0, -np.inf]], [1])
    with pytest.raises(ValueError, match="must not lie on a masked class"):
        meter.update([[0.0, 1.0, -np.inf]], [2])
    with pytest.raises(ValueError, match="finite or -inf, got nan"):
        meter.update([[0.0, np.nan, 1.0]], [1])
    rows = CalibrationMeter(rows="normalize").update([[0.4, 0.4]], [0]).compute()
    assert rows.brier == pytest.approx(0.5)
