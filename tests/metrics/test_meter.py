"""The meter: what the whole array says, from parts, in any order, through any file."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import metrics
from calibrant.metrics import CalibrationMeter
from calibrant.metrics.meter import ConfidenceMeter


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
    merged = [name for name, metric in metrics.METRICS.items() if metric.mergeable]
    assert list(report.metrics) == merged
    for name in set(merged) - {"adaptive_ece", "debiased_ece"}:
        expected = getattr(metrics, name)(probs, labels, **options)
        assert report.metrics[name].value == pytest.approx(expected, abs=1e-12, rel=1e-12), name
        assert getattr(report, name) == report.metrics[name].value
    assert (report.n_rows, report.n_classes) == (400, classes)
    debiased = metrics.debiased_ece(probs, labels, scheme="equal-width", **options)
    assert report.debiased_ece == pytest.approx(debiased)
    parts = metrics.brier_decomposition(probs, labels, 15, **options)
    assert report.brier_decomposition.calibration == pytest.approx(parts.calibration)
    assert report.brier_decomposition.uncertainty == pytest.approx(parts.uncertainty)


def test_the_null_value_is_that_of_consistency_resampling():
    _, probs, labels = example(5000)
    test = metrics.calibration_test(probs, labels, n_resamples=500)
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
    assert weighted.n_rows == 400


def test_a_meter_may_leave_the_classes_out():
    _, probs, labels = example()
    lean, full = (CalibrationMeter(classwise=c).update(probs, labels) for c in (False, True))
    assert lean.compute().brier_decomposition is None
    with pytest.raises(AttributeError, match="no 'classwise_ece'; computed were accuracy, nll"):
        _ = lean.compute().classwise_ece
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
        CalibrationMeter(row_sums="raw"),
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
    meter = CalibrationMeter(7, row_sums="raw")
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
    with pytest.raises(ValueError, match="must have the format 'calibrant-meter-2', got None"):
        CalibrationMeter.from_json("[1, 2]")
    with pytest.raises(ValueError, match=r"must have the format .* got 'calibrant-meter-1'"):
        CalibrationMeter.from_json('{"format": "calibrant-meter-1"}')
    with pytest.raises(ValueError, match="at least one row, got none"):
        CalibrationMeter.from_arrow(CalibrationMeter().to_arrow().slice(0, 0))
    with pytest.raises(ValueError, match="must have the column 'settings'"):
        CalibrationMeter.from_arrow(pa.table({"x": [1]}))


def test_any_flipped_bit_of_the_text_is_refused():
    text = CalibrationMeter(2).update([[0.5, 0.5], [0.3, 0.7]], [0, 1]).to_json()
    spots = np.random.default_rng(0).integers(0, len(text), 25)
    for spot in {0, 1, 13, 80, 90, len(text) - 1, *spots.tolist()}:
        for bit in range(7):
            flipped = text[:spot] + chr(ord(text[spot]) ^ (1 << bit)) + text[spot + 1 :]
            if flipped.strip() != text:
                with pytest.raises(ValueError, match=r"SHA-256|JSON|format"):
                    CalibrationMeter.from_json(flipped)
    assert CalibrationMeter.from_json(f" {text}\n").to_json() == text


def test_a_number_that_reads_the_same_is_a_change_of_the_text_too():
    text = CalibrationMeter().update([[0.5, 0.5]], [0]).to_json()
    with pytest.raises(ValueError, match="SHA-256 does not match"):
        CalibrationMeter.from_json(text.replace("0.5", "0.50", 1))
    with pytest.raises(ValueError, match="SHA-256 does not match"):
        CalibrationMeter.from_json(json.dumps(json.loads(text), indent=1))
    assert CalibrationMeter.from_json(json.dumps(json.loads(text))).to_json() == text


@pytest.mark.parametrize("column", ["counts", "sums", "settings", "sha256"])
def test_a_changed_table_is_refused(column):
    table = CalibrationMeter().update([[0.5, 0.5]], [0]).to_arrow()
    value = table[column][0].as_py()
    if column == "settings":
        changed = value.replace('"n_bins": 15', '"n_bins": 14')
    elif column == "sha256":
        changed = value.swapcase()
    else:
        changed = [value[0] + 1, *value[1:]]
    place = table.column_names.index(column)
    new = pa.array([changed], table.schema.field(column).type)
    with pytest.raises(ValueError, match="SHA-256 does not match"):
        CalibrationMeter.from_arrow(table.set_column(place, column, new))
    with pytest.raises(ValueError, match=r"must be lists of|SHA-256"):
        CalibrationMeter.from_arrow(table.set_column(place, column, pa.nulls(1, new.type)))


# --- the state --------------------------------------------------------------------------------


def state(**options):
    _, probs, labels = example(50)
    meter = CalibrationMeter(3, **options).update(probs, labels, np.linspace(0.5, 2.0, 50))
    return meter.to_state()


def test_a_state_goes_round_and_is_plain():
    document, arrays = state(row_sums="raw")
    assert json.loads(json.dumps(document)) == document
    assert {name: array.dtype.name for name, array in arrays.items()} == {
        "counts": "int64",
        "sums": "float64",
    }
    again = CalibrationMeter.from_state(document, arrays)
    np.testing.assert_array_equal(again.sums, arrays["sums"])
    assert again.to_state()[0] == document
    again.update(*example(50)[1:])  # its own arrays, not those that it was given
    np.testing.assert_array_equal(arrays["sums"], state(row_sums="raw")[1]["sums"])
    empty = CalibrationMeter(np.int64(4)).to_state()
    assert CalibrationMeter.from_state(*empty).to_state()[0] == json.loads(json.dumps(empty[0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_bins": 0}, "n_bins must be at least 1, got 0"),
        ({"n_bins": 3.0}, "n_bins must be a whole number, got 3.0"),
        ({"n_bins": 4}, r"sums of such a meter must have shape \(.*\), got"),
        ({"n_classes": 5}, "sums of such a meter must have shape"),
        ({"n_classes": 10**12}, "sums of such a meter must have shape"),
        ({"n_classes": 1}, "n_classes must be a whole number from 2 on, or none, got 1"),
        ({"n_classes": None}, "a meter without classes must have no sums, got"),
        ({"classwise": 1}, "classwise must be true or false, got 1"),
        ({"classwise": False}, "sums of such a meter must have shape"),
        ({"input": "scores"}, 'input must be "logits" or "probs"'),
        ({"row_sums": "loose"}, '"strict", "normalize" or "raw"'),
        ({"scores": ["nll"]}, "counts of such a meter must have shape"),
        ({"scores": "nll"}, "scores must be a list of names, got 'nll'"),
        ({"scores": ["nll", "nll"]}, "scores must be different names"),
    ],
)
def test_a_document_that_no_meter_has_is_refused(change, message):
    document, arrays = state()
    with pytest.raises(ValueError, match=message):
        CalibrationMeter.from_state({**document, **change}, arrays)


@pytest.mark.parametrize("part", ["n_bins", "scores", "counts", "sums"])
def test_a_state_must_be_whole(part):
    document, arrays = state()
    document.pop(part, None)
    arrays.pop(part, None)
    with pytest.raises(ValueError, match=f"must have '{part}'"):
        CalibrationMeter.from_state(document, arrays)


# The flat vectors of 3 bins and 4 classes: counts are the rows and three counts of infinite scores;
# sums begin with weight, its squares, 3 x 3 moments, 3 null variances, then the bins' four rows.
@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("counts", 1, -1, "counts of a meter must be at least 0, got -1"),
        ("counts", 0, 0, "at least one row, got 0"),
        ("counts", 2, 51, "at most the rows, 50, got 51"),
        ("sums", 4, np.nan, "sums of a meter must be finite, got nan"),
        ("sums", -1, np.inf, "sums of a meter must be finite, got inf"),
        ("sums", 0, -1.0, "weights of a meter must have positive sums, got -1.0"),
        ("sums", 1, 0.0, "weights of a meter must have positive sums, got 0.0"),
        ("sums", 11, -3.0, "null_variance of a meter must be numbers from -.*, got -3.0"),
        ("sums", 14, -2.0, "sums of the bins 'equal-width' must be at least 0, got -2.0"),
        ("sums", 14, 1e6, "the weights of 'equal-width' must add up to"),
        ("sums", 18, 1e6, "confidences of 'equal-width' must lie in their bins, got 1000000.0"),
        ("sums", 100, 1e6, "the weights of 'cells' must add up to"),
        ("sums", -1, -1.0, "sums of the bins 'classes' must be at least 0"),
        ("sums", 26 + 2 * 4 * 2**14, 1e6, "the weights of 'label_weight' must add up to"),
        ("sums", 26 + 2 * 4 * 2**14, -1.0, "label_weight of a meter must be at least 0, got -1.0"),
        ("counts", 0, 2**60, "rows of a meter must be at most 9.0072e\\+15, got 11529"),
        ("counts", 1, 1, "no score of 'accuracy' can be infinite, got 1"),
        ("sums", 0, 1e61, "the weight of a meter must be numbers from 1e-60 to 1e"),
        ("sums", 1, 1e9, "the squared weights of a meter must be numbers from"),
        ("sums", 2, 63.0, "the moments of 'accuracy' must be numbers from .* to 62.5006, got 63.0"),
        ("sums", 3, -1.0, "the moments of 'accuracy' must be numbers from"),
        ("sums", 5, 1e200, "the moments of 'nll' must be numbers from"),
        ("sums", 8, 251.0, "the moments of 'brier' must be numbers from"),
        ("sums", 22, 60.0, "sums of 'equal-width' must not pass its weight, got 60.0"),
        ("sums", 23, 60.0, "the weights of 'equal-width, squared' must add up to 87.88"),
    ],
)
def test_a_state_that_no_rows_can_have_is_refused(name, at, value, message):
    document, arrays = state()
    arrays[name][at] = value
    with pytest.raises(ValueError, match=message):
        CalibrationMeter.from_state(document, arrays)


@settings(max_examples=100)
@given(data=st.data())
def test_every_state_of_rows_is_accepted(data):
    """Weights and logits of any size, rows that sum to anything, meters that were merged."""
    seed, classes = data.draw(st.integers(0, 2**32)), data.draw(st.integers(2, 5))
    rng = np.random.default_rng(seed)
    kind, rule = data.draw(
        st.sampled_from([("logits", "strict"), ("probs", "raw"), ("probs", "strict")])
    )
    logits = rng.normal(size=(9, classes)) * 10.0 ** data.draw(st.floats(-4.0, 30.0))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    if rule == "raw":
        probs *= rng.uniform(0.0, 1.0, probs.shape)
    weight = data.draw(
        st.sampled_from([None, rng.random(9), 10.0 ** rng.uniform(-20, 20, 9), np.arange(9.0)])
    )
    meter = CalibrationMeter(data.draw(st.integers(1, 30)), kind, row_sums=rule)
    meter.update(probs if kind == "probs" else logits, rng.integers(0, classes, 9), weight)
    if data.draw(st.booleans()):
        meter = meter.merge(meter)
    again = CalibrationMeter.from_state(*meter.to_state())
    np.testing.assert_array_equal(again.sums, meter.sums)


def test_certain_rows_have_no_noise_below_0():
    """Confidences that rounding leaves above 1 have a variance below 0."""
    meter = CalibrationMeter().update([[1.0 + 5e-7, 0.0]], [0])
    assert meter.compute().ece_null == 0.0


def test_too_many_bins_are_refused_before_they_are_made():
    for n_bins in (10**9, 10**400):
        with pytest.raises(ValueError, match="n_bins must be at most 1000000, got 10"):
            CalibrationMeter(n_bins)
        document, arrays = CalibrationMeter().to_state()
        with pytest.raises(ValueError, match="n_bins must be at most 1000000, got 10"):
            CalibrationMeter.from_state(document | {"n_bins": n_bins}, arrays)
    with pytest.raises(ValueError, match="counts of a meter must be a vector"):
        CalibrationMeter.from_state(document, arrays | {"counts": np.zeros((1, 1), np.int64)})


@pytest.mark.parametrize("text", ["[" * 99_999, '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_json_that_is_none(text):
    with pytest.raises(ValueError, match="a meter must be JSON text, got"):
        CalibrationMeter.from_json(text)


def test_a_state_of_other_numbers_is_refused():
    document, arrays = state()
    for name, dtype in (("counts", np.float64), ("sums", np.float32)):
        with pytest.raises(ValueError, match=f"{name} of a meter must be"):
            CalibrationMeter.from_state(document, {**arrays, name: arrays[name].astype(dtype)})


def test_probabilities_a_rounding_above_one_make_a_valid_state():
    meter = CalibrationMeter(row_sums="raw")
    meter.update([[1.0 + 9e-7, -9e-7]] * 3, [0, 0, 1], [1e6, 3.0, 1e6])
    assert CalibrationMeter.from_json(meter.to_json()).to_json() == meter.to_json()


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
        ({"n_bins": 0}, "n_bins must be at least 1, got 0"),
        ({"input": "scores"}, 'input must be "logits" or "probs", got \'scores\''),
        ({"row_sums": "loose"}, '"strict", "normalize" or "raw", got \'loose\''),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        CalibrationMeter(**settings)


def test_rows_that_are_ignored_do_not_count():
    logits, _, labels = example()
    marked = np.where(np.arange(400) % 3 == 0, -100, labels)
    weight = np.random.default_rng(1).random(400)
    kept = marked >= 0
    meter = CalibrationMeter(input="logits").update(logits, marked, weight, ignore_index=-100)
    plain = CalibrationMeter(input="logits").update(logits[kept], labels[kept], weight[kept])
    assert meter.to_json() == plain.to_json()


def test_errors_name_the_row_of_the_array_with_ignored_rows():
    logits, probs, labels = example()
    labels[::3] = -100
    logits[0] = probs[0] = np.nan  # ignored, whatever it holds
    for scores, kind, message in (
        (probs, "probs", "got nan at row 100, class 2"),
        (logits, "logits", "got nan at row 100, class 2"),
    ):
        meter = CalibrationMeter(input=kind).update(scores, labels, ignore_index=-100)
        before = meter.to_json()
        bad = scores.copy()
        bad[100, 2] = np.nan
        with pytest.raises(ValueError, match=message):
            meter.update(bad, labels, ignore_index=-100)
        assert meter.to_json() == before
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.3, got 9 at row 100"):
        meter.update(logits, np.where(np.arange(400) == 100, 9, labels), ignore_index=-100)
    confident = ConfidenceMeter()
    with pytest.raises(ValueError, match=r"got 1\.5 in row 2"):
        confident.update([9.0, 0.5, 1.5], [0, 0, 0], [-1, 0, 0], ignore_index=-1)


def test_ignored_rows_of_weights_that_are_zero_everywhere():
    _, probs, _ = example(3)
    with pytest.raises(ValueError, match="must not be zero everywhere"):
        CalibrationMeter().update(probs, [0, 1, -1], [0.0, 0.0, 1.0], ignore_index=-1)


def test_probabilities_as_logits_are_told_beside_ignored_rows():
    _, probs, labels = example()
    labels[::2] = -100
    padded = np.where(labels[:, None] < 0, 50.0, probs)
    with pytest.warns(calibrant.CalibrationWarning, match="looks like probabilities"):
        CalibrationMeter(input="logits").update(padded, labels, ignore_index=-100)


def test_errors_name_rows_without_a_positive_value():
    probs = np.full((300_000, 4), 0.2)
    probs[290_000] = 0.0
    with pytest.raises(ValueError, match="row 290000 has none"):
        CalibrationMeter(row_sums="normalize").update(probs, np.zeros(300_000, int))


def test_the_report_prints_a_table():
    _, probs, labels = example()
    report = CalibrationMeter().update(probs, labels).compute()
    lines = {line.split("  ")[0]: line.split() for line in str(report).splitlines()}
    assert lines["ECE (%)"][2:] == [f"{100 * report.ece:.2f}", f"{100 * report.ece_null:.2f}"]
    assert lines["NLL (nats)"][2:] == [f"{report.nll:.4f}", f"{report.nll_std_error:.4f}"]
    assert f">{100 * report.ece:.2f}</td>" in report._repr_html_()
    assert json.loads(report.to_json())["metrics"]["ece"]["null"] == report.ece_null


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
    rows = CalibrationMeter(row_sums="normalize").update([[0.4, 0.4]], [0]).compute()
    assert rows.brier == pytest.approx(0.5)
