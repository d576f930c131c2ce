"""TemperatureProfile against direct evaluation in float64, and the laws of building one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import TemperatureProfile
from calibrant.calibrators.profile import temperature_profile
from calibrant.calibrators.profile.losses import LOSSES, ProfileLoss
from hard_logits import adversarial

WIDTHS = (2, 10, 64, 65, 1000, 50_000, 200_000)  # gaps are kept up to 64 classes, nodes beyond


def rows_for(classes: int) -> int:
    return max(4, min(60, 600_000 // classes))


def labels_for(logits: np.ndarray, seed: int = 9) -> np.ndarray:
    """A label a row, on a finite logit; every other one on the top class."""
    rng = np.random.default_rng(seed)
    labels = np.array([rng.choice(np.flatnonzero(np.isfinite(row))) for row in logits])
    labels[::2] = logits.argmax(axis=1)[::2]
    return labels


def direct(
    logits: np.ndarray, labels: np.ndarray, temperature: Any
) -> tuple[np.ndarray, np.ndarray]:
    """NLL and Brier score of every row in float64."""
    wide = np.asarray(logits).astype(np.float64)
    temperature = np.broadcast_to(temperature, len(wide))[:, None]
    scaled = (wide - wide.max(axis=1, keepdims=True)) / temperature
    weight = np.exp(scaled)
    total = weight.sum(axis=1, keepdims=True)
    probs = weight / total
    chosen = np.arange(len(labels)), labels
    nll = np.log(total[:, 0]) - scaled[chosen]
    return nll, (probs**2).sum(axis=1) - 2.0 * probs[chosen] + 1.0


def assert_read_right(logits: np.ndarray, tolerance: float, rounds: int = 12, **options: Any):
    """NLL and Brier at drawn temperatures, one a row: a regular grid could keep step with the
    nodes and miss every error between them."""
    labels = labels_for(logits)
    profile = TemperatureProfile.from_logits(logits, labels, **options)
    rng = np.random.default_rng(0)
    drawn = np.exp(rng.uniform(np.log(0.05), np.log(50.0), (rounds, len(logits))))
    for temperature in (0.05, 50.0, *drawn):
        nll, brier = direct(logits, labels, temperature)
        error = np.abs(profile.row_nll(temperature) - nll) / np.maximum(1.0, np.abs(nll))
        assert error.max() <= tolerance
        error = np.abs(profile.row_brier(temperature) - brier) / np.maximum(1.0, np.abs(brier))
        assert error.max() <= tolerance


@pytest.fixture
def always_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summarise few classes by nodes as well."""
    monkeypatch.setattr(temperature_profile, "EXACT_CLASSES", 1)


# --- accuracy ---------------------------------------------------------------------------------


def test_real_rows(fashion):
    assert_read_right(fashion.val_logits[:2000], 1e-7)


@pytest.mark.usefixtures("always_nodes")
def test_real_rows_by_nodes(fashion):
    assert_read_right(fashion.val_logits[:2000], 1e-4)


@pytest.mark.parametrize("spread", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("classes", WIDTHS)
def test_gaussian_rows(classes, spread):
    rng = np.random.default_rng(classes)
    assert_read_right((spread * rng.standard_normal((rows_for(classes), classes))), 1e-4)


def near_ties(rng: np.random.Generator, rows: int, classes: int, width: float) -> np.ndarray:
    logits = rng.standard_normal((rows, classes))
    close = min(30, classes)
    logits[:, :close] = logits.max(axis=1, keepdims=True) + width * rng.random((rows, close))
    return logits


def masked(rng: np.random.Generator, rows: int, classes: int) -> np.ndarray:
    logits = 5.0 * rng.standard_normal((rows, classes))
    logits[rng.random(logits.shape) < 0.7] = -np.inf
    logits[:, 1] = 0.0
    return logits


FAMILIES: dict[str, tuple[float, Callable[[np.random.Generator, int, int], np.ndarray]]] = {
    "spread of 1e4": (1e-4, lambda rng, n, c: 1e4 * rng.standard_normal((n, c))),
    "spread of 1e30": (1e-4, lambda rng, n, c: 1e30 * rng.standard_normal((n, c))),
    "offset of 1e4": (1e-4, lambda rng, n, c: 1e4 + 3.0 * rng.standard_normal((n, c))),
    "near ties 1e-6": (1e-4, lambda rng, n, c: near_ties(rng, n, c, 1e-6)),
    "near ties 1e-2": (1e-4, lambda rng, n, c: near_ties(rng, n, c, 1e-2)),
    "near ties 0.2": (1e-4, lambda rng, n, c: near_ties(rng, n, c, 0.2)),
    "narrow": (1e-4, lambda rng, n, c: 1e-3 * rng.standard_normal((n, c))),
    "constant": (1e-4, lambda rng, n, c: np.full((n, c), -2.75)),
    "ties": (1e-4, lambda rng, n, c: rng.integers(-8, 8, (n, c))),
    "masked": (1e-4, masked),
    "student t3": (1e-3, lambda rng, n, c: rng.standard_t(3, (n, c))),
    "wide student t3": (1e-3, lambda rng, n, c: 5.0 * rng.standard_t(3, (n, c))),
    "cauchy": (1e-3, lambda rng, n, c: rng.standard_cauchy((n, c))),
    "narrow cauchy": (1e-3, lambda rng, n, c: 0.01 * rng.standard_cauchy((n, c))),
    "one class against a far crowd": (
        1e-3,
        lambda rng, n, c: np.where(np.arange(c) == 0, 0.0, -np.log(c) - rng.random((n, c))),
    ),
}


@pytest.mark.parametrize("classes", [10, 65, 1000, 50_000])
@pytest.mark.parametrize("family", FAMILIES)
def test_difficult_rows(family, classes):
    tolerance, draw = FAMILIES[family]
    rng = np.random.default_rng(classes)
    assert_read_right(draw(rng, rows_for(classes) // 2, classes), tolerance, rounds=8)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_difficult_rows_of_a_large_vocabulary(family):
    tolerance, draw = FAMILIES[family]
    assert_read_right(draw(np.random.default_rng(0), 12, 200_000), tolerance, rounds=30)


def test_confidence_and_entropy():
    rng = np.random.default_rng(1)
    logits = 3.0 * rng.standard_normal((30, 200))
    profile = TemperatureProfile.from_logits(logits, labels_for(logits))
    for temperature in (0.07, 0.9, 11.0):
        scaled = logits / temperature
        probs = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        logs = np.log(np.where(probs > 0.0, probs, 1.0))
        entropy = -(probs * logs).sum(axis=1)
        np.testing.assert_allclose(profile.confidence(temperature), probs.max(axis=1), atol=1e-5)
        np.testing.assert_allclose(profile.entropy(temperature), entropy, atol=1e-4)


# --- beyond the grid: T from 1e-12 to 1e12 ----------------------------------------------------


@pytest.mark.parametrize("classes", [10, 300])
@pytest.mark.parametrize(
    "family", ["spread of 1e4", "near ties 1e-2", "ties", "constant", "masked"]
)
def test_extreme_temperatures_give_the_exact_limits(family, classes):
    logits = FAMILIES[family][1](np.random.default_rng(2), 30, classes)
    labels = labels_for(logits)
    profile = TemperatureProfile.from_logits(logits, labels)
    for temperature in (1e-12, 1e-11, 1e11, 1e12):
        nll, brier = direct(logits, labels, temperature)
        np.testing.assert_allclose(profile.row_nll(temperature), nll, rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(profile.row_brier(temperature), brier, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("classes", [10, 300])
@pytest.mark.parametrize("family", ["spread of 1e4", "near ties 1e-2", "ties", "masked", "cauchy"])
def test_losses_and_their_gradients_are_finite_and_their_own(family, classes, loss):
    """Over 24 decades of temperature, the slope is the derivative of the loss that is read."""
    logits = FAMILIES[family][1](np.random.default_rng(3), 30, classes)
    problem = ProfileLoss(TemperatureProfile.from_logits(logits, labels_for(logits)), loss)
    step = 1e-5
    for log_b in np.linspace(np.log(1e-12), np.log(1e12), 301)[1:-1] + 0.01:
        before, here, after = (problem.rows(np.full(30, log_b + s)) for s in (-step, 0.0, step))
        assert all(np.isfinite(part).all() for part in here)
        slope = (after.value - before.value) / (2.0 * step)
        rounding = 1e-9 * np.maximum(1.0, np.abs(here.value)) / step
        assert np.all(np.abs(here.slope - slope) <= 1e-3 * np.abs(slope) + rounding)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("classes", [10, 300])
def test_curvature_of_the_losses(classes, loss):
    logits = 3.0 * np.random.default_rng(4).standard_normal((50, classes))
    problem = ProfileLoss(TemperatureProfile.from_logits(logits, labels_for(logits)), loss)
    rng, step = np.random.default_rng(5), 1e-4
    for _ in range(10):
        log_b = rng.uniform(np.log(0.02), np.log(20.0), 50)
        before, here, after = (problem.rows(log_b + s) for s in (-step, 0.0, step))
        curvature = (after.slope - before.slope) / (2.0 * step)
        np.testing.assert_allclose(here.curvature, curvature, rtol=5e-3, atol=2e-3)


def test_the_named_losses_are_brier_and_nll():
    logits = 2.0 * np.random.default_rng(6).standard_normal((20, 5))
    labels = labels_for(logits)
    profile = TemperatureProfile.from_logits(logits, labels)
    nll, brier = (part.mean() for part in direct(logits, labels, 1.7))
    for loss, (brier_share, nll_share) in LOSSES.items():
        value = ProfileLoss(profile, loss).mean(-np.log(1.7))
        assert value == pytest.approx(brier_share * brier + nll_share * nll, abs=1e-6)
    with pytest.raises(ValueError, match=r"loss must be one of .*, got 'mse'"):
        ProfileLoss(profile, "mse")


# --- building ---------------------------------------------------------------------------------


def tables(profile: TemperatureProfile) -> list[np.ndarray]:
    """Everything that a profile holds."""
    block = profile._block
    return [*vars(block.rows).values(), block.peak, block.label_gap, block.weight]


def assert_same(one: TemperatureProfile, other: TemperatureProfile) -> None:
    settings = ("n_classes", "top_k", "scale")
    assert [getattr(one, s) for s in settings] == [getattr(other, s) for s in settings]
    for a, b in zip(tables(one), tables(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def example(classes: int, rows: int = 400, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.standard_normal((rows, classes)).astype(np.float32)
    return logits, labels_for(logits), rng.random(rows)


@pytest.mark.parametrize("classes", [7, 1000])
def test_at_most_176_floats_a_row(classes):
    logits, labels, _ = example(classes)
    assert TemperatureProfile.from_logits(logits, labels).nbytes <= 176 * 4 * len(logits)


@pytest.mark.parametrize("classes", [7, 1000])
@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 119), max_size=3, unique=True).map(sorted))
def test_concat_and_update_are_one_pass(classes, cuts):
    logits, labels, weight = example(classes, 120)
    whole = TemperatureProfile.from_logits(logits, labels, sample_weight=weight)
    pieces = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, 120], strict=True)]
    updated = TemperatureProfile()
    for piece in pieces:
        updated.update(logits[piece], labels[piece], sample_weight=weight[piece])
    concatenated = TemperatureProfile.concat(
        TemperatureProfile.from_logits(logits[p], labels[p], sample_weight=weight[p])
        for p in pieces
    )
    assert_same(updated, whole)
    assert_same(concatenated, whole)


def test_concat_leaves_its_parts_alone():
    logits, labels, _ = example(7)
    one = TemperatureProfile.from_logits(logits[:100], labels[:100])
    both = TemperatureProfile.concat([one, TemperatureProfile(), one])
    both.update(logits[:5], labels[:5])
    assert (len(one), len(both)) == (100, 205)


@pytest.mark.parametrize("classes", [7, 1000])
@pytest.mark.parametrize(
    "index", [np.array([3, 3, 399, 0]), np.arange(400) % 3 == 1, [5]], ids=["index", "mask", "list"]
)
def test_take_is_the_profile_of_the_chosen_rows(classes, index):
    logits, labels, weight = example(classes)
    whole = TemperatureProfile.from_logits(logits, labels, sample_weight=weight)
    chosen = TemperatureProfile.from_logits(
        logits[index], labels[index], sample_weight=weight[index]
    )
    assert_same(whole.take(index), chosen)


@pytest.mark.parametrize("classes", [7, 1000])
def test_threads_do_not_change_a_bit(classes, monkeypatch):
    monkeypatch.setattr(
        "calibrant.calibrators.profile.temperature_profile.TILE_ELEMENTS", 7 * classes
    )
    logits, labels, _ = example(classes)
    one, two = (TemperatureProfile.from_logits(logits, labels, n_jobs=n) for n in (1, 2))
    assert_same(one, two)


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_rises_to_all_rows(threads, monkeypatch):
    monkeypatch.setattr(temperature_profile, "TILE_ELEMENTS", 700)
    calls: list[tuple[int, int]] = []
    logits, labels, _ = example(7)
    TemperatureProfile.from_logits(
        logits, labels, n_jobs=threads, progress=lambda done, total: calls.append((done, total))
    )
    assert calls == [(100, 400), (200, 400), (300, 400), (400, 400)]


def build_peak(logits: np.ndarray, labels: np.ndarray, n_jobs: int) -> int:
    tracemalloc.start()
    try:
        TemperatureProfile.from_logits(logits, labels, n_jobs=n_jobs)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_memory_while_building_does_not_depend_on_the_array(dtype, tmp_path):
    rows, classes = 1000, 8000
    file = np.lib.format.open_memmap(tmp_path / "z.npy", "w+", dtype, (rows, classes))
    rng = np.random.default_rng(7)
    for start in range(0, rows, 100):
        file[start : start + 100] = rng.standard_normal((100, classes), np.float32)
    logits = np.load(tmp_path / "z.npy", mmap_mode="r")
    labels = np.zeros(rows, int)
    assert (
        build_peak(logits, labels, n_jobs=2) < 25e6
    )  # the scratch of two threads, both at their peak
    # one thread: whether two of them hold their scratch at once is chance
    few, many = (build_peak(logits[:n], labels[:n], n_jobs=1) for n in (300, rows))
    assert many - few < 3 * 176 * 4 * (rows - 300)  # what is left is the profile, while joined


# --- inputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [7, 300])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, ">f4"])
def test_every_dtype_is_read_at_its_own_values(classes, dtype):
    rng = np.random.default_rng(8)
    assert_read_right((4.0 * rng.standard_normal((40, classes))).astype(dtype), 1e-4, rounds=4)


def test_bfloat16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(8)
    assert_read_right(rng.standard_normal((40, 7)).astype(ml_dtypes.bfloat16), 1e-4, rounds=4)


@pytest.mark.parametrize(
    "view",
    [
        lambda z: z[:, ::2],
        lambda z: z[::-3],
        lambda z: np.asfortranarray(z),
        lambda z: np.broadcast_to(z[0], (50, z.shape[1])),
        lambda z: z.tolist(),
    ],
    ids=["columns", "rows backwards", "fortran", "broadcast", "list"],
)
@pytest.mark.parametrize("classes", [8, 300])
def test_layout_does_not_matter(classes, view):
    logits = view(example(classes, 60)[0].astype(np.float64))
    plain = np.array(logits)
    labels = labels_for(plain)
    one, other = (TemperatureProfile.from_logits(z, labels) for z in (logits, plain))
    assert_same(one, other)


def test_one_dimensional_scores_are_binary_logits():
    scores = np.array([-2.0, 0.5, 3.0])
    pairs = np.stack([np.zeros(3), scores], axis=1)
    one, other = (TemperatureProfile.from_logits(z, [0, 1, 1]) for z in (scores, pairs))
    assert_same(one, other)


def test_one_hot_and_column_labels():
    logits, labels, _ = example(7)
    plain = TemperatureProfile.from_logits(logits, labels)
    for same in (np.eye(7)[labels], np.eye(7, dtype=bool)[labels], labels[:, None], labels * 1.0):
        assert_same(TemperatureProfile.from_logits(logits, same), plain)


@pytest.mark.parametrize("classes", [7, 300])
def test_weight_two_is_the_row_twice(classes):
    logits, labels, _ = example(classes, 50)
    weight = np.ones(50)
    weight[::3] = 2.0
    twice = np.r_[np.arange(50), np.arange(0, 50, 3)]
    one = TemperatureProfile.from_logits(logits, labels, sample_weight=weight)
    other = TemperatureProfile.from_logits(logits[twice], labels[twice])
    for temperature in (0.3, 1.0, 4.0):
        assert one.nll(temperature) == pytest.approx(other.nll(temperature), rel=1e-12)
        assert one.brier(temperature) == pytest.approx(other.brier(temperature), rel=1e-12)


def test_a_row_of_weight_zero_does_not_count():
    logits, labels, _ = example(7, 50)
    weight = np.r_[np.zeros(20), np.ones(30)]
    one = TemperatureProfile.from_logits(logits, labels, sample_weight=weight)
    assert one.nll(2.0) == pytest.approx(one.take(np.arange(20, 50)).nll(2.0), rel=1e-12)


@pytest.mark.parametrize("classes", [7, 300])
def test_probabilities_are_centred_log_probabilities(classes):
    probs = np.random.default_rng(10).dirichlet(np.full(classes, 0.5), 40)
    labels = labels_for(probs)
    logs = np.log(probs)
    one = TemperatureProfile.from_probs(probs, labels, top_k=5)
    other = TemperatureProfile.from_logits(logs - logs.mean(axis=1, keepdims=True), labels, top_k=5)
    for a, b in zip(tables(one), tables(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    chosen = probs[np.arange(40), labels]
    np.testing.assert_allclose(one.row_nll(1.0), -np.log(chosen), rtol=1e-5, atol=1e-6)


def test_probability_zero_is_a_masked_class():
    profile = TemperatureProfile.from_probs([[0.5, 0.0, 0.5], [0.25, 0.5, 0.25]], [0, 1])
    assert profile.finite_classes.tolist() == [2, 3]
    assert profile.row_nll(1e9)[0] == pytest.approx(np.log(2.0))
    np.testing.assert_allclose(profile.row_nll(1.0), np.log([2.0, 2.0]), rtol=1e-6)


@pytest.mark.parametrize("classes", [7, 300])
@pytest.mark.parametrize("scale", [1e-3, 2.0**10, 1000.0])
def test_scale_moves_the_temperatures(classes, scale):
    logits, labels, _ = example(classes, 50)
    logits = logits.astype(np.float64)
    plain = TemperatureProfile.from_logits(logits, labels)
    scaled = TemperatureProfile.from_logits(scale * logits, labels, scale=scale)
    for temperature in (0.05, 0.7, 50.0):
        for name in ("row_nll", "row_brier", "confidence", "entropy"):
            one = getattr(plain, name)(temperature)
            other = getattr(scaled, name)(scale * temperature)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scaled.top_logits(), scale * plain.top_logits(), rtol=1e-5)


@pytest.mark.parametrize("classes", [7, 300])
def test_top_logits_are_the_largest_in_order(classes):
    logits, labels, _ = example(classes)
    kept = TemperatureProfile.from_logits(logits, labels, top_k=5)
    largest = np.sort(logits, axis=1)[:, ::-1]
    np.testing.assert_allclose(kept.top_logits(), largest[:, :5], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(kept.top_logits(2), largest[:, :2], rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="keeps the top 5 logits, 6 were asked for"):
        kept.top_logits(6)


@pytest.mark.parametrize("classes", [7, 300])
def test_missing_top_logits_take_the_smallest_finite_one(classes):
    logits = np.full((3, classes), -np.inf)
    logits[:, [1, 4]] = 5.0, 2.0
    profile = TemperatureProfile.from_logits(logits, [1, 1, 4], top_k=4)
    np.testing.assert_array_equal(profile.top_logits(), [[5.0, 2.0, 2.0, 2.0]] * 3)
    assert profile.finite_classes.tolist() == [2, 2, 2]


def test_top_k_is_at_most_the_number_of_classes():
    logits, labels, _ = example(3)
    assert TemperatureProfile.from_logits(logits, labels).top_logits().shape == (400, 3)


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [7, 300])
def test_save_and_load_keep_every_bit(classes, tmp_path):
    logits, labels, weight = example(classes)
    profile = TemperatureProfile.from_logits(
        logits, labels, sample_weight=weight, top_k=4, scale=0.3
    )
    profile.update(logits[:3], labels[:3])
    calibrant.save(profile, tmp_path / "profile.safetensors")
    loaded = calibrant.load(tmp_path / "profile.safetensors")
    assert_same(loaded, profile)
    assert loaded.input == "logits"


def test_a_profile_is_not_a_calibrator(tmp_path: Path):
    logits, labels, _ = example(7)
    calibrant.save(TemperatureProfile.from_logits(logits, labels), tmp_path / "p.safetensors")
    with pytest.raises(calibrant.FileError, match="holds a TemperatureProfile, not a calibrator"):
        calibrant.io.load_calibrator(tmp_path / "p.safetensors")


def test_a_profile_remembers_what_it_was_made_of(tmp_path: Path):
    logits, labels, _ = example(7)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    profile = TemperatureProfile.from_probs(probs, labels)
    assert (profile.input, profile.take([0, 1]).input) == ("probs", "probs")
    calibrant.save(profile, tmp_path / "p.safetensors")
    loaded = calibrant.load(tmp_path / "p.safetensors")
    assert loaded.input == "probs"
    with pytest.raises(ValueError, match="made from probs, but TemperatureScaling has input='log"):
        calibrant.TS().fit(loaded)
    from_profile = calibrant.TS(input="probs").fit(loaded).temperature_
    assert from_profile == calibrant.TS(input="probs").fit(probs, labels).temperature_
    with pytest.raises(ValueError, match="the profile is made of probs, got rows of logits"):
        profile.update(logits, labels)
    with pytest.raises(ValueError, match=r"agree in .*input\), got"):
        TemperatureProfile.concat([profile, TemperatureProfile.from_logits(logits, labels)])


# --- refusals ---------------------------------------------------------------------------------


def test_settings_are_checked():
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        TemperatureProfile(top_k=0)
    for scale in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="scale must be a number from 1e-37 to 1e\\+37"):
            TemperatureProfile(scale=scale)


def test_an_empty_profile_says_so(tmp_path):
    for read in (
        lambda p: p.nll(1.0),
        lambda p: p.weight,
        lambda p: calibrant.save(p, tmp_path / "p.safetensors"),
        lambda p: calibrant.TS().fit(p),
    ):
        with pytest.raises(ValueError, match="the profile has no rows yet: call update first"):
            read(TemperatureProfile())
    with pytest.raises(ValueError, match="concat needs at least one profile with rows"):
        TemperatureProfile.concat([TemperatureProfile()])


def test_parts_must_agree():
    logits, labels, _ = example(7)
    profile = TemperatureProfile.from_logits(logits, labels)
    with pytest.raises(ValueError, match="the profile has 7 classes, got rows with 3"):
        profile.update([[1.0, 2.0, 3.0]], [0])
    other = TemperatureProfile.from_logits(logits, labels, top_k=3)
    with pytest.raises(ValueError, match=r"agree in \(classes, top_k, scale, input\), got .*3.*10"):
        TemperatureProfile.concat([profile, other])


def test_a_refused_update_changes_nothing():
    logits, labels, _ = example(7)
    profile = TemperatureProfile.from_logits(logits, labels)
    bad = logits.copy()
    bad[17, 3] = np.nan
    with pytest.raises(ValueError, match="got nan at row 17, class 3"):
        profile.update(bad, labels)
    assert len(profile) == 400
    assert_same(profile, TemperatureProfile.from_logits(logits, labels))


# --- what every profile obeys -----------------------------------------------------------------


@pytest.mark.parametrize("scale", [2.0**-6, 1.0, 256.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 64, 65, 700])
def test_every_profile_of_logits_is_accepted_from_a_file(classes, dtype, scale):
    """Ties, masks, near ties and huge rows: the checks of files refuse none of them."""
    logits = adversarial(classes, dtype, rows=200)
    rng = np.random.default_rng(classes)
    finite = np.isfinite(logits)
    labels = np.where(finite, rng.random(logits.shape), -1.0).argmax(axis=1)
    profile = TemperatureProfile.from_logits(
        logits, labels, sample_weight=10.0 ** rng.uniform(-20, 20, len(labels)), scale=scale
    )
    again = TemperatureProfile.from_state(*profile.to_state())
    np.testing.assert_array_equal(again.row_nll(1.3), profile.row_nll(1.3))
