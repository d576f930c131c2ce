"""Reliability diagrams as numbers, against brute force and by simulation."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression

from calibrant import diagrams, metrics
from calibrant.diagrams import Kind
from calibrant.evaluation.diagrams.reliability import KERNEL_WIDTHS, clopper_pearson, local_lines

KINDS = get_args(Kind)
BINNED = ("equal-width", "equal-mass")


def sample(rows: int = 400, seed: int = 0, power: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of four classes, sharpened by a power, and labels; 1 is calibrated."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 4)) * 1.5
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weight = np.exp(power * logits)
    return weight / weight.sum(axis=1, keepdims=True), labels


# --- bins -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BINNED)
@pytest.mark.parametrize("n_bins", [1, 7, 15])
def test_binned_diagrams_are_the_bins_of_the_metrics(kind, n_bins):
    probs, labels = sample()
    diagram = diagrams.reliability(probs, labels, kind=kind, n_bins=n_bins, n_resamples=0)
    name = metrics.ece if kind == "equal-width" else metrics.adaptive_ece
    assert diagram.error == pytest.approx(name(probs, labels, n_bins=n_bins), abs=1e-15)
    confidence, hit = probs.max(axis=1), probs.argmax(axis=1) == labels
    for bin_ in range(len(diagram.weight)):
        inside = (confidence > diagram.edges[bin_]) & (confidence <= diagram.edges[bin_ + 1])
        assert diagram.weight[bin_] == inside.sum()
        if inside.any():
            assert diagram.accuracy[bin_] == pytest.approx(hit[inside].mean())
            assert diagram.confidence[bin_] == pytest.approx(confidence[inside].mean())
            found = binomtest(int(hit[inside].sum()), int(inside.sum())).proportion_ci(
                0.95, "exact"
            )
            np.testing.assert_allclose([diagram.low[bin_], diagram.high[bin_]], found, atol=1e-9)
        else:
            columns = (diagram.accuracy, diagram.confidence, diagram.low, diagram.high)
            assert np.isnan([column[bin_] for column in columns]).all()
    assert diagram.mean_accuracy == pytest.approx(hit.mean())
    assert diagram.mean_confidence == pytest.approx(confidence.mean())
    np.testing.assert_array_equal(diagram.gap, diagram.accuracy - diagram.confidence)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_clopper_and_pearson(level):
    rows = np.array([1, 1, 5, 5, 40, 40, 0])
    hits = np.array([0, 1, 0, 3, 40, 17, 0])
    with np.errstate(invalid="ignore"):
        low, high = clopper_pearson(hits / rows, rows.astype(float), level)
    for at in range(6):
        found = binomtest(int(hits[at]), int(rows[at])).proportion_ci(level, "exact")
        np.testing.assert_allclose([low[at], high[at]], found, atol=1e-9)
    assert np.isnan([low[6], high[6]]).all()


def test_the_band_of_bins_is_that_of_drawn_events():
    probs, labels = sample(150)
    diagram = diagrams.reliability(probs, labels, n_bins=6, n_resamples=4000)
    confidence = probs.max(axis=1)
    rng = np.random.default_rng(9)
    hits = rng.random((4000, 150)) < confidence
    for bin_ in np.flatnonzero(diagram.weight):
        inside = (confidence > diagram.edges[bin_]) & (confidence <= diagram.edges[bin_ + 1])
        ends = np.quantile(hits[:, inside].mean(axis=1), [0.025, 0.975])
        step = 1.5 / inside.sum()  # one event more or less
        assert abs(diagram.band_low[bin_] - ends[0]) <= step
        assert abs(diagram.band_high[bin_] - ends[1]) <= step
    outside = (diagram.accuracy < diagram.band_low) | (diagram.accuracy > diagram.band_high)
    np.testing.assert_array_equal(diagram.outside, outside)


# --- curves -----------------------------------------------------------------------------------


def test_isotonic_curves_are_those_of_scikit_learn():
    probs, labels = sample()
    probs = probs.round(2)
    probs /= probs.sum(axis=1, keepdims=True)
    diagram = diagrams.reliability(probs, labels, kind="isotonic", n_resamples=0)
    confidence, hit = probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(float)
    model = IsotonicRegression().fit(confidence, hit)
    np.testing.assert_allclose(model.predict(diagram.confidence), diagram.accuracy, atol=1e-12)
    error = np.abs(model.predict(confidence) - confidence).mean()
    assert diagram.error == pytest.approx(error, abs=1e-12)
    for height in np.unique(diagram.accuracy):
        ends = diagram.confidence[diagram.accuracy == height]
        assert len(ends) in (1, 2)
        inside = (confidence >= ends[0]) & (confidence <= ends[-1])
        assert hit[inside].mean() == pytest.approx(height)
        assert set(diagram.weight[diagram.accuracy == height]) == {inside.sum()}
    for column in (diagram.accuracy, diagram.low, diagram.high):
        assert (np.diff(column) >= 0.0).all()
    assert (diagram.low <= diagram.accuracy).all()
    assert (diagram.accuracy <= diagram.high).all()


def test_local_lines_are_means_that_keep_straight_lines():
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.2, 3.0, 40)
    place = (np.cumsum(weight) - weight / 2.0) / weight.sum()
    for width in KERNEL_WIDTHS:
        matrix = local_lines(place, weight, width)
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-9)
        line = 0.3 - 2.0 * place
        np.testing.assert_allclose(matrix @ line, line, atol=1e-6)
        kernel = weight * np.exp(-(((place - place[7]) / width) ** 2) / 2.0)
        design = np.stack([np.ones(40), place - place[7]], axis=1)
        values = rng.normal(size=40)
        root = np.sqrt(kernel)
        (height, _), *_ = np.linalg.lstsq(design * root[:, None], values * root, rcond=None)
        assert matrix[7] @ values == pytest.approx(height, abs=1e-5)


def test_a_smooth_curve_finds_the_truth():
    rng = np.random.default_rng(0)
    score = rng.uniform(0.0, 1.0, 20_000)
    truth = score - 0.6 * score * (1.0 - score)
    labels = (rng.random(20_000) < truth).astype(int)
    found = diagrams.reliability(score, labels, kind="smooth", class_index=1, n_resamples=100)
    expected = found.confidence - 0.6 * found.confidence * (1.0 - found.confidence)
    np.testing.assert_allclose(found.accuracy, expected, atol=0.04)
    assert found.error == pytest.approx(0.1, abs=0.01)
    assert ((found.low <= expected) & (expected <= found.high)).mean() > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_ties_and_single_values(kind):
    for probs in ([[0.9, 0.1]] * 40, [[0.9, 0.1]] * 20 + [[0.99, 0.01]] * 20):
        diagram = diagrams.reliability(probs, [0, 0, 0, 1] * 10, kind=kind, n_resamples=50)
        full = diagram.weight > 0.0
        assert np.isfinite(diagram.error)
        assert diagram.weight[full].sum() >= 40
        for column in (diagram.accuracy, diagram.low, diagram.high, diagram.band_low):
            assert np.isfinite(column[full]).all()
        np.testing.assert_allclose(diagram.accuracy[full], 0.25, atol=1e-6)


def test_ties_at_the_top_leave_no_hole_in_a_smooth_curve():
    """A calibrator may give most rows the same largest confidence, below 1."""
    rng = np.random.default_rng(0)
    score = np.where(rng.random(3000) < 0.4, 0.99, rng.uniform(0.5, 0.99, 3000))
    labels = (rng.random(3000) > score).astype(int)
    probs = np.stack([score, 1.0 - score], axis=1)
    diagram = diagrams.reliability(probs, labels, kind="smooth", n_resamples=20)
    for column in (diagram.confidence, diagram.accuracy, diagram.low, diagram.band_high):
        assert np.isfinite(column).all()
    assert diagram.weight.sum() == 3000
    assert diagram.error < 0.05


# --- laws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_are_repeated_rows(kind):
    probs, labels = sample(120)
    times = np.random.default_rng(3).integers(0, 4, 120)
    options = {"kind": kind, "n_resamples": 40}
    weighted = diagrams.reliability(probs, labels, sample_weight=times, **options)
    repeated = diagrams.reliability(probs.repeat(times, 0), labels.repeat(times), **options)
    for name in ("confidence", "accuracy", "weight", "error"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=1e-9)
    if kind != "smooth":  # its interval is drawn
        np.testing.assert_allclose(weighted.low, repeated.low, atol=1e-9)
        np.testing.assert_allclose(weighted.high, repeated.high, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_can_be_repeated_and_left_out(kind):
    probs, labels = sample(120)

    def made(seed, times=30):
        return diagrams.reliability(probs, labels, kind=kind, random_state=seed, n_resamples=times)

    np.testing.assert_array_equal(made(None).band_low, made(0).band_low)
    assert not np.array_equal(made(1).band_low, made(0).band_low, equal_nan=True)
    assert np.isnan(made(0, 0).band_low).all()
    np.testing.assert_array_equal(made(0, 0).accuracy, made(0).accuracy)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_ignored_rows(kind):
    probs, labels = sample(120)
    options = {"kind": kind, "n_resamples": 10}
    kept = np.arange(120) % 5 > 0
    plain = diagrams.reliability(probs[kept], labels[kept], **options)
    padded = np.where(kept, labels, -1)
    same = diagrams.reliability(np.log(probs), padded, input="logits", ignore_index=-1, **options)
    assert same.n_rows == plain.n_rows == kept.sum()
    np.testing.assert_allclose(same.accuracy, plain.accuracy, atol=1e-9)


def test_classes_and_segments():
    probs, labels = sample(200)
    by_class = diagrams.reliability_by_class(probs, labels, n_resamples=0)
    assert list(by_class) == [0, 1, 2, 3]
    for index, diagram in by_class.items():
        single = diagrams.reliability(
            probs[:, index], labels == index, n_resamples=0, class_index=1
        )
        assert diagram.error == pytest.approx(single.error)
        assert diagram.of == f"class {index}"
    assert list(diagrams.reliability_by_class(probs, labels, classes=[2], n_resamples=0)) == [2]
    for segments in (np.arange(200) % 3, np.array(list("abc"))[np.arange(200) % 3].tolist()):
        parts = diagrams.reliability_by_segment(probs, labels, segments, n_resamples=0)
        assert list(parts) == sorted(set(np.asarray(segments).tolist()))
        for name, diagram in parts.items():
            rows = np.asarray(segments) == name
            assert diagram.error == metrics.ece(probs[rows], labels[rows])
    padded = np.where(np.arange(200) < 60, -1, labels)
    parts = diagrams.reliability_by_segment(
        probs, padded, np.arange(200) % 2, ignore_index=-1, n_resamples=0
    )
    assert [part.n_rows for part in parts.values()] == [70, 70]
    rows = (np.arange(200) >= 60) & (np.arange(200) % 2 == 1)
    assert parts[1].error == metrics.ece(probs[rows], labels[rows])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "round"}, 'kind must be one of "equal-width", "equal-mass", .* got \'round\''),
        ({"n_bins": 0}, "n_bins must be at least 1, got 0"),
        ({"n_bins": 2.5}, "n_bins must be a whole number, got 2.5"),
        ({"level": 1.5}, "level must"),
        ({"n_resamples": -1}, "n_resamples must"),
        ({"class_index": 4}, "a class must be a whole number from 0 to 3, got 4"),
    ],
)
def test_bad_arguments(change, message):
    probs, labels = sample(20)
    with pytest.raises(ValueError, match=message):
        diagrams.reliability(probs, labels, **change)


def test_bad_segments():
    probs, labels = sample(20)
    for segments in (np.arange(19), np.zeros((20, 2), int), np.linspace(0.0, 1.0, 20)):
        with pytest.raises(ValueError, match=r"segments must be texts or whole numbers of shape"):
            diagrams.reliability_by_segment(probs, labels, segments)


# --- simulations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("equal-width", 0.01, 0.06),
        ("equal-mass", 0.01, 0.06),
        pytest.param("isotonic", 0.03, 0.13, marks=pytest.mark.slow),
        pytest.param("smooth", 0.02, 0.08, marks=pytest.mark.slow),
    ],
)
def test_a_calibrated_model_seldom_leaves_its_band(kind, low, high):
    """One point in twenty at most; of the ends of isotonic pieces, one in ten."""
    outside = []
    for seed in range(120):
        probs, labels = sample(400, seed, power=1.0)
        diagram = diagrams.reliability(
            probs, labels, kind=kind, n_bins=8, n_resamples=200, random_state=seed
        )
        outside.append(diagram.outside[diagram.weight > 0.0].mean())
    assert low < np.mean(outside) < high


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("equal-width", 0.94),
        ("equal-mass", 0.94),
        pytest.param("smooth", 0.88, marks=pytest.mark.slow),
    ],
)
def test_intervals_cover_the_frequency(kind, least):
    covered = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        score = rng.beta(4.0, 1.5, 500)
        truth = score**2
        labels = (rng.random(500) < truth).astype(int)
        found = diagrams.reliability(
            score, labels, kind=kind, class_index=1, n_bins=8, n_resamples=200, random_state=seed
        )
        if found.edges is None:
            expected = found.confidence**2
        else:
            bins = np.searchsorted(found.edges[1:-1], score, side="left")
            sums = [np.bincount(bins, w, len(found.weight)) for w in (truth, np.ones(500))]
            expected = np.divide(*sums, where=sums[1] > 0.0, out=np.full(len(sums[0]), np.nan))
        full = found.weight > 0.0
        covered.append(((found.low <= expected) & (expected <= found.high))[full].mean())
    assert np.mean(covered) > least
