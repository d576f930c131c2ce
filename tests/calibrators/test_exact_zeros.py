"""Probabilities of exactly 0 and 1 are served by every method."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import calibrant
from calibrant.calibrators import REGISTRY
from calibrant.data.rows import Rows
from calibrant.formulas import Smoothed
from calibrant.streams import fit_stream, open_stream
from calibrant.torch import to_module

VALUES = np.array([0.0, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0])
TRUTH = np.array([0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.52, 0.6, 0.62, 0.7, 0.78, 0.85])
SHARES = np.array([4, 2, 2, 2, 5, 3, 5, 12, 8, 18, 19, 20]) / 100


def confidences(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """What a language model says, and whether it was right; it is often wrong at "100%"."""
    rng = np.random.default_rng(seed)
    at = rng.choice(len(VALUES), rows, p=SHARES)
    return VALUES[at], (rng.random(rows) < TRUTH[at]).astype(int)


PROBS, LABELS = confidences(1000)
TEST, TEST_LABELS = confidences(20_000, 1)


def votes(rows: int, trees: int = 5, classes: int = 4, seed: int = 0):
    """Votes of a few trees: most rows have a class without any."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(classes, 0.4), rows)
    probs = np.array([rng.multinomial(trees, p) for p in truth]) / trees
    return probs, np.array([rng.choice(classes, p=p) for p in truth])


@pytest.mark.parametrize("method", REGISTRY)
def test_every_method_serves_a_label_of_probability_0(method):
    model = calibrant.calibrator(method, input="probs").fit(PROBS, LABELS)
    probs = model.predict_proba(TEST)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    if method == "base":
        np.testing.assert_allclose(probs[:, 1], TEST, atol=1e-12)
        return
    assert isinstance(model.formula_, Smoothed)
    assert model.fit_info_.details["uniform_share"] == model.formula_.share
    assert calibrant.metrics.nll(probs, TEST_LABELS) < 0.57  # the best possible is 0.559
    # an exact 1 is mapped as its neighbours are
    near = model.predict_proba(np.array([0.999999, 1.0]))[:, 1]
    if method not in ("venn-abers",):  # which steps below every known score
        assert abs(near[1] - near[0]) < 1e-3


@pytest.mark.parametrize("method", [name for name in REGISTRY if name != "base"])
def test_every_method_serves_votes(method):
    if REGISTRY[method].two_classes_only:
        pytest.skip("for two classes")
    probs, labels = votes(600)
    fresh, fresh_labels = votes(5000, seed=1)
    model = calibrant.calibrator(method, input="probs").fit(probs, labels)
    got = model.predict_proba(fresh)
    assert np.isfinite(calibrant.metrics.nll(got, fresh_labels))
    if model.accuracy_preserving:
        best = fresh == fresh.max(axis=1, keepdims=True)
        assert best[np.arange(len(fresh)), got.argmax(axis=1)].all()


def test_more_smoothing_beats_less_where_held_out_rows_say_so():
    """Platt scaling of log-odds without end is worse by far."""
    model = calibrant.calibrator("platt", input="probs").fit(PROBS, LABELS)
    clipped = calibrant.calibrator("platt", input="probs").fit(PROBS.clip(1e-12, 1 - 1e-12), LABELS)
    smooth, plain = (
        calibrant.metrics.nll(one.predict_proba(TEST.clip(1e-12, 1 - 1e-12)), TEST_LABELS)
        for one in (model, clipped)
    )
    assert smooth < plain - 0.02


def test_scores_without_exact_zeros_are_fitted_as_before():
    probs = PROBS.clip(0.02, 0.98)
    model = calibrant.TS(input="probs").fit(probs, LABELS)
    odds = np.log(probs) - np.log1p(-probs)
    assert not isinstance(model.formula_, Smoothed)
    half = np.column_stack([-0.5 * odds, 0.5 * odds])
    assert model.temperature_ == pytest.approx(calibrant.TS().fit(half, LABELS).temperature_)


def test_no_smoothing_is_a_candidate_where_no_label_has_probability_0():
    """Zeros that are right, as those of a softmax in float32, stay zeros."""
    rng = np.random.default_rng(0)
    logits = 60.0 * rng.normal(size=(2000, 5)).astype(np.float32)
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    assert (probs == 0.0).any()
    model = calibrant.TS(input="probs").fit(probs, labels)
    assert not isinstance(model.formula_, Smoothed)
    assert (model.predict_proba(probs)[probs == 0.0] == 0.0).all()


def test_smoothed_calibrators_have_temperatures_modules_and_files(tmp_path: Path):
    model = calibrant.PTS(input="probs").fit(PROBS, LABELS)
    two = np.column_stack([1.0 - TEST[:100], TEST[:100]])
    temperatures = model.temperature(two)
    assert temperatures.shape == (100,)
    assert (temperatures > 0.0).all()
    label, probability, temperature = model.predict_confidence(two)
    np.testing.assert_array_equal(label, two.argmax(axis=1))
    np.testing.assert_allclose(probability, model.predict_proba(two).max(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(temperature, temperatures)
    module = to_module(model)
    np.testing.assert_allclose(module.temperature(torch.from_numpy(two)), temperatures, rtol=1e-9)
    np.testing.assert_allclose(module(torch.from_numpy(two)), model.predict_proba(two), rtol=1e-9)
    calibrant.save(model, tmp_path / "pts.safetensors")
    again = calibrant.load(tmp_path / "pts.safetensors")
    np.testing.assert_array_equal(again.predict_proba(two), model.predict_proba(two))
    assert calibrant.TS(input="probs").fit(PROBS, LABELS).temperature_ > 0.0


def test_rows_that_sum_to_1_by_rounding_are_served():
    model = calibrant.TS(input="probs").fit(PROBS, LABELS)
    rows = np.array([[1.00001, 0.0], [0.50001, 0.5]])
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0)
    one = model.predict_proba(np.array([1.00001, 1.0]))
    assert one[0] == pytest.approx(one[1], abs=1e-6)
    for probs in (rows, rows[:, 1]):
        assert np.isfinite(calibrant.metrics.ece(probs, [0, 1]))
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\], got -0\.1"):
        model.predict_proba(np.array([1.1]))


def test_weights_count_as_copies():
    values, inverse = np.unique(np.column_stack([PROBS, LABELS]), axis=0, return_inverse=True)
    count = np.bincount(inverse.ravel())
    written = calibrant.calibrator("platt", input="probs").fit(PROBS, LABELS)
    weighted = calibrant.calibrator("platt", input="probs").fit(
        values[:, 0], values[:, 1].astype(int), sample_weight=count
    )
    np.testing.assert_allclose(weighted.predict_proba(VALUES), written.predict_proba(VALUES))


@pytest.mark.parametrize("method", ["ts", "platt"])
def test_streams_serve_them_too(tmp_path: Path, method: str):
    for part in range(4):
        rows = slice(250 * part, 250 * (part + 1))
        np.save(tmp_path / f"{part}.probs.npy", PROBS[rows])
        np.save(tmp_path / f"{part}.label.npy", LABELS[rows])
    streamed = fit_stream(open_stream(tmp_path), method)
    whole = calibrant.calibrator(method, input="probs").fit(PROBS, LABELS)
    np.testing.assert_allclose(
        streamed.predict_proba(VALUES), whole.predict_proba(VALUES), rtol=1e-6
    )


def test_a_profile_says_what_to_do():
    profile = calibrant.TemperatureProfile()
    with pytest.raises(ValueError, match="Fit on the probabilities themselves, which serves"):
        profile.update(np.array([[1.0, 0.0]]), [1], input="probs")


def test_files_without_zeros_stay_on_the_disk(tmp_path: Path):
    """Only the parts that are looked at come into memory, and nothing is copied."""
    np.save(tmp_path / "p.npy", np.full((1000, 4), 0.25, np.float32))
    probs = np.load(tmp_path / "p.npy", mmap_mode="r")
    given = Rows.of(probs, np.arange(1000) % 4, input="probs")
    rows, share = calibrant.TS(input="probs")._mixed(given)
    assert rows.scores is given.scores
    assert np.shares_memory(rows.scores, probs)
    assert share == 0.0
