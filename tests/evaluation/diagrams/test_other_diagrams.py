"""Risk-coverage curves, gaps, temperatures, bins and learning curves, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy

import calibrant
from calibrant import diagrams, metrics


def sample(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of four classes with many ties of confidence, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 4)).round(1) * 2.0
    labels = (logits / 2.0 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return softmax(logits, axis=1), labels


# --- risk and coverage ------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_risk_coverage_by_counting(weighted):
    probs, labels = sample()
    probs = probs.round(1)
    probs /= probs.sum(axis=1, keepdims=True)
    weight = np.random.default_rng(1).integers(0, 3, 300) if weighted else np.ones(300)
    curve = diagrams.risk_coverage(probs, labels, sample_weight=weight if weighted else None)
    confidence, wrong = probs.max(axis=1), probs.argmax(axis=1) != labels
    levels = np.unique(confidence[weight > 0.0])[::-1]
    assert len(levels) < 100, "the sample must have ties"
    np.testing.assert_array_equal(curve.confidence, levels)
    area = 0.0
    for at, level in enumerate(levels):
        answered = confidence >= level
        risk = (weight * wrong)[answered].sum() / weight[answered].sum()
        assert curve.coverage[at] == pytest.approx(weight[answered].sum() / weight.sum())
        assert curve.risk[at] == pytest.approx(risk)
        area += risk * weight[confidence == level].sum() / weight.sum()
    assert curve.aurc == pytest.approx(area)
    errors, total = (weight * wrong).sum(), weight.sum()
    number = np.round(curve.coverage * total)
    np.testing.assert_allclose(curve.optimal, np.maximum(number - (total - errors), 0.0) / number)
    assert (curve.optimal <= curve.risk + 1e-12).all()
    assert curve.excess_aurc >= 0.0


def test_a_long_risk_coverage_curve_keeps_its_ends_and_its_area():
    rng = np.random.default_rng(0)
    score = rng.uniform(0.5, 1.0, 4000)
    labels = (rng.random(4000) > score).astype(int)
    curve = diagrams.risk_coverage(np.stack([score, 1.0 - score], axis=1), labels)
    order = np.argsort(-score)
    running = np.cumsum(labels[order]) / np.arange(1, 4001)
    assert len(curve.coverage) == 500
    assert (curve.coverage[0], curve.coverage[-1]) == (1 / 4000, 1.0)
    assert curve.risk[-1] == pytest.approx(labels.mean())
    assert curve.aurc == pytest.approx(running.mean())


# --- gaps by class ----------------------------------------------------------------------------


@pytest.mark.parametrize("notion", ["top-label", "classwise"])
def test_gaps_by_loops(notion):
    probs, labels = sample()
    weight = np.random.default_rng(1).integers(0, 3, 300).astype(float)
    gaps = diagrams.class_gaps(probs, labels, notion=notion, n_bins=5, sample_weight=weight)
    for index in range(4):
        if notion == "classwise":
            score, hit, rows = probs[:, index], labels == index, np.ones(300, bool)
        else:
            rows = probs.argmax(axis=1) == index
            score, hit = probs.max(axis=1), labels == index
        for bin_ in range(5):
            inside = rows & (score > bin_ / 5) & (score <= (bin_ + 1) / 5)
            total = weight[inside].sum()
            assert gaps.bins.weight[index, bin_] == total
            if total == 0.0:
                assert np.isnan([gaps.gap[index, bin_], gaps.z[index, bin_]]).all()
                continue
            chance = weight[inside] @ score[inside] / total
            gap = weight[inside] @ hit[inside] / total - chance
            assert gaps.gap[index, bin_] == pytest.approx(gap, abs=1e-12)
            error = np.sqrt(chance * (1.0 - chance) / total)
            assert gaps.z[index, bin_] == pytest.approx(gap / error)
        together = weight[rows] @ (hit[rows] - score[rows]) / weight[rows].sum()
        assert gaps.by_class[index] == pytest.approx(together)


def test_certain_rows_and_absent_classes():
    gaps = diagrams.class_gaps([[1.0, 0.0, 0.0]] * 3, [0, 0, 0], n_bins=2)
    assert gaps.z[0, 1] == 0.0
    assert np.isnan(gaps.by_class[1:]).all()
    assert diagrams.class_gaps([[1.0, 0.0]] * 3, [0, 0, 1], n_bins=2).z[0, 1] == -np.inf
    with pytest.raises(ValueError, match='notion must be "top-label" or "classwise", got \'all\''):
        diagrams.class_gaps([[1.0, 0.0]], [0], notion="all")
    with pytest.raises(ValueError, match="n_bins must be at least 1"):
        diagrams.class_gaps([[1.0, 0.0]], [0], n_bins=0)


# --- bins -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "name"), [("equal-width", "ece"), ("equal-mass", "adaptive_ece")]
)
def test_the_ece_by_bins_is_that_of_the_metrics(scheme, name):
    probs, labels = sample()
    weight = np.random.default_rng(1).uniform(0.0, 2.0, 300)
    for w in (None, weight):
        sweep = diagrams.ece_by_bins(
            probs, labels, n_bins=[3, 9], scheme=scheme, sample_weight=w, n_resamples=0
        )
        for bins, value in zip([3, 9], sweep.ece, strict=True):
            expected = getattr(metrics, name)(probs, labels, n_bins=bins, sample_weight=w)
            assert value == pytest.approx(expected, abs=1e-12)
        assert np.isnan(sweep.null).all()


def test_the_ece_of_a_calibrated_model_by_drawing():
    probs, labels = sample()
    sweep = diagrams.ece_by_bins(probs, labels, n_bins=[5, 40], n_resamples=1000)
    rng = np.random.default_rng(5)
    confidence = probs.max(axis=1)
    for at, bins in enumerate([5, 40]):
        index = np.ceil(confidence * bins).astype(int) - 1
        draws = [
            np.abs(np.bincount(index, (rng.random(300) < confidence) - confidence)).sum() / 300
            for _ in range(1000)
        ]
        assert sweep.null[at] == pytest.approx(np.mean(draws), rel=0.05)
        assert sweep.null_high[at] == pytest.approx(np.quantile(draws, 0.95), rel=0.08)
    with pytest.raises(ValueError, match="n_bins must name at least one number of bins, got none"):
        diagrams.ece_by_bins(probs, labels, n_bins=[])
    with pytest.raises(ValueError, match="scheme must be"):
        diagrams.ece_by_bins(probs, labels, scheme="round")


# --- temperatures -----------------------------------------------------------------------------


def test_temperatures_beside_what_the_scores_say():
    probs, labels = sample()
    logits = np.log(probs) + np.arange(300)[:, None]
    hts, ts = calibrant.HTS().fit(logits, labels), calibrant.TS().fit(logits, labels)
    found = diagrams.temperatures(hts, logits, reference=ts)
    np.testing.assert_allclose(found.temperature, hts.temperature(logits))
    np.testing.assert_allclose(found.confidence, probs.max(axis=1), rtol=1e-6)
    top = np.sort(logits, axis=1)
    np.testing.assert_allclose(found.margin, top[:, -1] - top[:, -2], atol=1e-9)
    np.testing.assert_allclose(found.entropy, entropy(probs, axis=1) / np.log(4), atol=1e-9)
    assert found.reference == ts.temperature_
    assert found.method == "EntropyTemperatureScaling"
    assert diagrams.temperatures(ts, logits, reference=2).reference == 2.0
    assert diagrams.temperatures(ts, logits).reference is None


def test_temperatures_of_masked_classes_and_of_probabilities():
    probs, labels = sample()
    ts = calibrant.TS().fit(np.log(probs), labels)
    masked = diagrams.temperatures(
        ts, [[2.0, -np.inf, 0.0, -np.inf], [1.0, -np.inf, -np.inf, -np.inf]]
    )
    pair = softmax([2.0, 0.0])
    np.testing.assert_allclose(masked.confidence, [pair.max(), 1.0])
    np.testing.assert_allclose(masked.entropy, [entropy(pair) / np.log(4), 0.0], atol=1e-12)
    np.testing.assert_array_equal(masked.margin, [2.0, np.inf])
    of_probs = calibrant.TS(input="probs").fit(probs, labels)
    found = diagrams.temperatures(of_probs, probs)
    np.testing.assert_allclose(found.confidence, probs.max(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.entropy, entropy(probs, axis=1) / np.log(4), atol=1e-6)


def test_temperatures_refuse_calibrators_without():
    probs, labels = sample()
    vector = calibrant.calibrator("vector").fit(np.log(probs), labels)
    ts = calibrant.TS().fit(np.log(probs), labels)
    with pytest.raises(ValueError, match="VectorScaling gives no temperatures: PTS and its kin do"):
        diagrams.temperatures(vector, np.log(probs))
    with pytest.raises(ValueError, match="reference must be a fitted TS or a number, got Vector"):
        diagrams.temperatures(ts, np.log(probs), reference=vector)


# --- learning curves --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def halves() -> tuple[np.ndarray, ...]:
    probs, labels = sample(600)
    logits = np.log(probs)
    return logits[:200], labels[:200], logits[200:], labels[200:]


def test_learning_curves_are_single_fits(halves):
    curves = diagrams.learning_curves(
        *halves, methods=["ts", "ets"], fractions=[1.0, 0.25, 0.25], n_seeds=2, metric="nll"
    )
    assert curves.at["ts"].tolist() == curves.at["ets"].tolist() == [50, 200]
    val, labels, test, test_labels = halves
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(200)
        for place, size in enumerate([50, 200]):
            rows = np.sort(order[:size])
            for name in ("ts", "ets"):
                model = calibrant.calibrator(name).fit(val[rows], labels[rows])
                value = metrics.nll(model.predict_proba(test), test_labels)
                assert curves.values[name][seed, place] == pytest.approx(value)
    assert curves.uncalibrated == pytest.approx(metrics.nll(softmax(test, axis=1), test_labels))
    np.testing.assert_allclose(curves.mean("ts"), curves.values["ts"].mean(axis=0))
    np.testing.assert_allclose(curves.spread("ts"), curves.values["ts"].std(axis=0, ddof=1))
    again = diagrams.learning_curves(
        *halves, methods=["ts"], fractions=[0.25, 1.0], n_seeds=1, metric="nll"
    )
    assert again.values["ts"].tolist() == curves.values["ts"][:1].tolist()
    assert np.isnan(again.spread("ts")).all()


def test_capacity_curves_are_single_fits(halves):
    families = {"ts": {1: calibrant.TS()}, "pts": {9: calibrant.PTS(members=1, hidden=(2,))}}
    told = []
    curves = diagrams.capacity_curves(
        *halves, families=families, n_seeds=2, progress=lambda *done: told.append(done)
    )
    assert told == [(i, 4) for i in range(1, 5)]
    assert {name: at.tolist() for name, at in curves.at.items()} == {"ts": [1], "pts": [9]}
    val, labels, test, test_labels = halves
    for seed in range(2):
        model = calibrant.PTS(members=1, hidden=(2,), random_state=seed).fit(val, labels)
        value = metrics.ece(model.predict_proba(test), test_labels)
        assert curves.values["pts"][seed, 0] == pytest.approx(value)
    assert curves.values["ts"][0, 0] == curves.values["ts"][1, 0]
    assert families["pts"][9].get_params()["random_state"] is None, "what was given stays as it was"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": []}, "methods must name at least one method, got none"),
        ({"methods": ["none"]}, "none"),
        ({"fractions": [0.0, 0.5]}, r"fractions must lie in \(0, 1\], got \[0.0, 0.5\]"),
        ({"fractions": []}, r"fractions must lie in \(0, 1\], got \[\]"),
        ({"n_seeds": 0}, "n_seeds must be at least 1, got 0"),
        ({"metric": "nothing"}, "nothing"),
    ],
)
def test_learning_curves_refuse(halves, change, message):
    with pytest.raises(ValueError, match=message):
        diagrams.learning_curves(*halves, **change)


def test_capacity_curves_refuse(halves):
    with pytest.raises(ValueError, match="n_seeds must be at least 1, got 0"):
        diagrams.capacity_curves(*halves, n_seeds=0)


def test_documents_of_diagrams():
    probs, labels = sample(50)
    for diagram in (
        diagrams.reliability(probs, labels, n_resamples=5),
        diagrams.risk_coverage(probs, labels),
        diagrams.class_gaps(probs, labels),
        diagrams.ece_by_bins(probs, labels, n_resamples=5),
    ):
        assert type(diagram).__name__ in repr(diagram)
        assert "NaN" not in diagram.to_json()
