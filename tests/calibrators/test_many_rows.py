"""Many rows: a sample chooses and all rows decide, against fits that use all rows throughout."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant import TemperatureProfile
from calibrant.calibrators import _best_temperature, _choosing
from calibrant.calibrators._best_temperature import LogitLoss, best_temperature, scaling_start
from calibrant.calibrators._choosing import sample_of_logits, sample_of_profile, sampled
from calibrant.calibrators._optimizers import newton_minimum
from calibrant.data.rows import Rows

Data = tuple[np.ndarray, np.ndarray]
FEW = 400  # the size of a sample in these tests


def uneven(rows: int, classes: int, seed: int = 0) -> Data:
    """Over-confidence that grows with the gap between the two largest logits."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((rows, classes)) * rng.gamma(4.0, 0.5, (rows, 1))
    logits[np.arange(rows), rng.integers(classes, size=rows)] += rng.gamma(2.0, 2.5, rows)
    second, first = np.sort(logits, axis=1)[:, -2:].T
    temperature = 0.8 + 1.2 / (1.0 + np.exp(3.0 - (first - second)))
    labels = np.argmax(logits / temperature[:, None] + rng.gumbel(size=logits.shape), axis=1)
    return logits, labels


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(_choosing, "SAMPLE_ROWS", FEW)
    monkeypatch.setattr(_best_temperature, "SEARCH_ROWS", FEW)


# --- which rows -------------------------------------------------------------------------------


def rows_of(data: Rows) -> list[tuple[float, ...]]:
    found = sampled(data, sample_of_logits(data))
    return sorted(map(tuple, np.column_stack([found.logits, found.labels, found.weight]).tolist()))


def test_few_rows_are_all_taken():
    logits, labels = uneven(50, 3)
    assert sample_of_logits(Rows(logits, labels, np.ones(50))) is None
    assert sample_of_profile(TemperatureProfile.from_logits(logits, labels)) is None


def test_a_sample_follows_the_content_of_the_rows(small_sample):
    logits, labels = uneven(1000, 3)
    copies = np.random.default_rng(0).integers(1, 4, 1000)
    weighted = rows_of(Rows(logits, labels, copies.astype(float)))
    assert len(weighted) == FEW
    order = np.random.default_rng(1).permutation(int(copies.sum()))
    written = np.repeat(np.arange(1000), copies)[order]
    data = Rows(logits[written], labels[written], np.ones(len(written)))
    assert rows_of(data) == weighted


def test_a_value_with_many_copies_is_thinned(small_sample):
    """Kept in its share, and neither whole nor not at all."""
    rng = np.random.default_rng(0)
    shares = []
    for seed in range(40):
        logits, labels = uneven(2000, 3, seed)
        logits[:1000], labels[:1000] = 0.1 * seed, 1
        data = Rows(logits, labels, np.ones(2000))
        order = rng.permutation(2000)
        moved = Rows(logits[order], labels[order], np.ones(2000))
        assert rows_of(moved) == rows_of(data)
        sample = sample_of_logits(data)
        tied = (logits[sample.index] == 0.1 * seed).all(axis=1)
        assert tied.sum() == 1
        shares.append(sample.weight[tied][0] / sample.weight.sum())
    assert np.mean(shares) == pytest.approx(0.5, abs=0.01)
    assert 0.0 < np.std(shares) < 0.05


def test_samples_are_no_special_rows(small_sample):
    logits, labels = uneven(20_000, 4)
    index = sample_of_profile(TemperatureProfile.from_logits(logits, labels)).index
    assert len(set(index.tolist())) == FEW
    error = logits.max(axis=1).std() / np.sqrt(FEW)
    assert abs(logits[index].max(axis=1).mean() - logits.max(axis=1).mean()) < 4.0 * error


def test_rows_with_few_values_make_a_small_sample(small_sample):
    logits, labels = uneven(30, 3)
    many = np.tile(np.arange(30), 100)
    sample = sample_of_profile(TemperatureProfile.from_logits(logits[many], labels[many]))
    assert len(sample.index) == 30
    np.testing.assert_array_equal(sample.weight, 100.0)


# --- one temperature --------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["nll", "brier", "mixed"])
@pytest.mark.parametrize("classes", [2, 10, 70])
def test_temperatures_of_many_rows_are_exact(monkeypatch, loss, classes):
    logits, labels = uneven(1500, classes)
    whole = calibrant.TS(loss=loss).fit(logits, labels)
    monkeypatch.setattr(_best_temperature, "SEARCH_ROWS", 100)
    searched = calibrant.TS(loss=loss).fit(logits, labels)
    assert searched.temperature_ == pytest.approx(whole.temperature_, rel=1e-9)
    assert searched.fit_info_.after == pytest.approx(whole.fit_info_.after, rel=1e-12)


def test_labels_that_no_temperature_serves_end_at_a_bound_for_many_rows(small_sample):
    logits = uneven(1000, 3)[0]
    with pytest.warns(calibrant.CalibrationWarning, match="end of the allowed range"):
        calibrant.TS().fit(logits, logits.argmax(axis=1))


def test_newton_steps_that_go_astray_are_told():
    assert newton_minimum(lambda x: (0.0, 2.0 * (x - 1.0), 2.0), 0.8) == pytest.approx(1.0)
    assert newton_minimum(lambda x: (0.0, np.exp(x) - 2.0, np.exp(x)), 0.6) == pytest.approx(
        np.log(2.0)
    )
    assert newton_minimum(lambda x: (0.0, 1.0, 0.0), 0.0) is None  # no curvature
    assert newton_minimum(lambda x: (0.0, 1.0, 1e-3), 0.0) is None  # too far
    assert newton_minimum(lambda x: (0.0, np.nan, 1.0), 0.0) is None
    assert newton_minimum(lambda x: (0.0, np.sign(x) * abs(x) ** 0.5, 1.0), 0.1) is None  # no end


@pytest.mark.parametrize("scale", [1.0, 1e3, 0.05])
def test_the_direct_start_is_that_of_a_profile(scale):
    logits, labels = uneven(1500, 80)
    logits[::7, 3] = np.where(labels[::7] == 3, logits[::7, 3], -np.inf)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 1500)
    direct = scaling_start(Rows(scale * logits, labels, weight))
    profile = TemperatureProfile.from_logits(logits, labels, sample_weight=weight)
    table = best_temperature(profile)
    assert direct.temperature == pytest.approx(scale * table.temperature, rel=1e-5)
    assert direct.loss == pytest.approx(table.loss, rel=1e-6)
    if scale == 1.0:
        assert direct.loss_before == pytest.approx(table.loss_before, rel=1e-6)


def test_derivatives_of_the_direct_loss():
    logits, labels = uneven(300, 6)
    loss, step = LogitLoss(Rows(logits, labels)), 1e-2
    low, here, high = (loss.means(x) for x in (-0.3 - step, -0.3, -0.3 + step))
    assert here[1] == pytest.approx((high[0] - low[0]) / (2 * step), rel=1e-3)
    assert here[2] == pytest.approx((high[1] - low[1]) / (2 * step), rel=1e-3)


# --- networks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pts", "mpts", "spts", "auto", "hts", "vector"])
def test_order_and_copies_of_many_rows_do_not_matter(small_sample, method):
    logits, labels = uneven(700, 4)
    copies = np.random.default_rng(0).integers(1, 3, 700)
    order = np.random.default_rng(1).permutation(int(copies.sum()))
    written = np.repeat(np.arange(700), copies)[order]
    one = calibrant.calibrator(method).fit(logits, labels, sample_weight=copies)
    two = calibrant.calibrator(method).fit(logits[written], labels[written])
    # vectors are fitted in steps that end at a gain of 1e-7 in float32
    np.testing.assert_allclose(
        one.predict_proba(logits), two.predict_proba(logits), rtol=2e-3, atol=2e-4
    )
    assert one.fit_info_.details.get("choice") == two.fit_info_.details.get("choice")


def test_all_rows_move_what_a_sample_has_chosen(monkeypatch):
    """However poor a sample, its solutions are moved to where all rows want them."""
    train, test = uneven(6000, 5), uneven(20_000, 5, seed=1)
    whole = calibrant.PTS(penalty=15.0).fit(*train)
    monkeypatch.setattr(_choosing, "SAMPLE_ROWS", 600)
    moved = calibrant.PTS(penalty=15.0).fit(*train)
    sample = sample_of_profile(TemperatureProfile.from_logits(*train)).index
    alone = calibrant.PTS(penalty=15.0).fit(train[0][sample], train[1][sample])
    full, near, far = (
        calibrant.metrics.nll(m.predict_proba(test[0]), test[1]) for m in (whole, moved, alone)
    )
    assert abs(near / full - 1.0) < 2e-3
    assert abs(near - full) < 0.4 * abs(far - full)


def test_a_sample_chooses_the_method(small_sample):
    logits, labels = uneven(1200, 3)
    auto = calibrant.calibrator("auto").fit(logits, labels)
    simple = calibrant.calibrator("auto", preserve_accuracy=True).fit(logits, labels)
    for fitted in (auto, simple):
        assert set(fitted.members_) <= {
            row["candidate"] for row in fitted.fit_info_.details["tried"]
        }
    assert simple.accuracy_preserving


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "classes"), [(100_000, 10), (60_000, 100)])
@pytest.mark.parametrize("method", ["pts", "mpts", "spts"])
def test_a_sample_costs_next_to_nothing(monkeypatch, method, rows, classes):
    """Brier score and NLL of other rows within 0.02% of the fit that uses all rows throughout."""
    test = uneven(50_000, classes, seed=1)
    train = uneven(rows, classes)

    def scores() -> np.ndarray:
        probs = calibrant.calibrator(method).fit(*train).predict_proba(test[0])
        return np.array(
            [calibrant.metrics.brier(probs, test[1]), calibrant.metrics.nll(probs, test[1])]
        )

    quick = scores()
    monkeypatch.setattr(_choosing, "SAMPLE_ROWS", 10**9)
    monkeypatch.setattr(_best_temperature, "SEARCH_ROWS", 10**9)
    np.testing.assert_array_less(quick, 1.0002 * scores())
