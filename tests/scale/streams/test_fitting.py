"""Fits on streams: the same as in memory where all rows fit, and the same however they are cut."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import REGISTRY
from calibrant.data.rows import Rows
from calibrant.scale.streams._reservoir import CopyKeys, Draw, Reservoir, ceiling_for
from calibrant.streams import fit_stream, open_stream
from stream_support import rows, write_folder, write_table

LOGITS, LABELS = rows()
TWO_LOGITS, TWO_LABELS = rows(600, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "in", LOGITS, LABELS)


@pytest.mark.parametrize("method", [*REGISTRY])
def test_where_all_rows_fit_the_fit_is_that_in_memory(tmp_path: Path, method: str) -> None:
    model = calibrant.calibrator(method)
    logits, labels = (TWO_LOGITS, TWO_LABELS) if model.two_classes_only else (LOGITS, LABELS)
    write_folder(tmp_path / "in", logits, labels)
    order = np.random.default_rng(0).permutation(len(labels))
    whole = model.fit(logits[order], labels[order]).predict_proba(logits)
    fitted = fit_stream(open_stream(tmp_path / "in", batch_rows=50), method)
    np.testing.assert_allclose(fitted.predict_proba(logits), whole, atol=2e-4)
    assert fitted.fit_info_.details["sample"] == {
        "rows": 600,
        "kept": 600,
        "stratified": False,
        "unlabelled": 0,
    }


@pytest.mark.parametrize("method", ["ts", "pts", "vector", "irova"])
@pytest.mark.parametrize("stratify", [False, True])
def test_a_sample_depends_neither_on_order_nor_on_files(
    tmp_path: Path, method: str, stratify: bool
) -> None:
    one = write_folder(tmp_path / "one", LOGITS, LABELS, parts=1)
    order = np.random.default_rng(1).permutation(600)
    many = write_folder(tmp_path / "many", LOGITS[order], LABELS[order], parts=7)
    options = {"max_rows": 300, "stratify": stratify}
    first = fit_stream(open_stream(one, batch_rows=400), method, **options)
    second = fit_stream(open_stream(many, batch_rows=11), method, **options)
    assert first.fit_info_.details["sample"] == second.fit_info_.details["sample"]
    assert 250 <= first.fit_info_.details["sample"]["kept"] <= 300
    np.testing.assert_array_equal(first.predict_proba(LOGITS), second.predict_proba(LOGITS))
    other = fit_stream(open_stream(one), method, random_state=1, **options)
    assert not np.array_equal(first.predict_proba(LOGITS), other.predict_proba(LOGITS))


def test_many_classes_are_kept_as_a_profile(tmp_path: Path) -> None:
    logits, labels = rows(500, 300)
    write_folder(tmp_path / "in", logits, labels)
    whole = calibrant.PTS().fit(logits, labels)
    fitted = fit_stream(open_stream(tmp_path / "in"), "pts", max_bytes=1)
    assert fitted.fit_info_.details["sample"]["kept"] == 500
    np.testing.assert_allclose(fitted.predict_proba(logits), whole.predict_proba(logits), atol=1e-4)


def test_logits_of_an_unusual_size_are_profiled_at_their_scale(tmp_path: Path) -> None:
    logits, labels = rows(400, 80)
    logits *= 1000.0
    write_folder(tmp_path / "in", logits, labels)
    fitted = fit_stream(open_stream(tmp_path / "in", batch_rows=30), "ts")
    assert isinstance(fitted, calibrant.TS)
    expected = calibrant.TS().fit(logits, labels).temperature_
    assert fitted.temperature_ == pytest.approx(expected, rel=1e-6)


def test_copies_of_rows_are_rows(tmp_path: Path) -> None:
    twice = np.arange(600).repeat(2)
    write_folder(tmp_path / "in", LOGITS[twice], LABELS[twice])
    some = fit_stream(open_stream(tmp_path / "in"), "ts", max_rows=700)
    sample = {"rows": 1200, "kept": 700, "stratified": False, "unlabelled": 0}
    assert some.fit_info_.details["sample"] == sample
    fitted = fit_stream(open_stream(tmp_path / "in"), "ts", max_rows=1200)
    expected = calibrant.TS().fit(LOGITS[twice], LABELS[twice])
    np.testing.assert_allclose(
        fitted.predict_proba(LOGITS), expected.predict_proba(LOGITS), rtol=1e-5
    )


def test_a_memory_bound_leaves_rows_out_and_says_so(folder: Path) -> None:
    fitted = fit_stream(open_stream(folder), "vector", max_bytes=100 * 5 * 4)
    sample = fitted.fit_info_.details["sample"]
    assert (sample["kept"], sample["memory"]) == (100, "2.0 kB")
    loose = fit_stream(open_stream(folder), "vector", max_rows=100)
    np.testing.assert_array_equal(fitted.predict_proba(LOGITS), loose.predict_proba(LOGITS))


def test_rows_that_are_ignored_or_weigh_nothing_are_absent(tmp_path: Path) -> None:
    weight = np.where(np.arange(600) < 300, 0.0, 1.0)
    labels = np.where(np.arange(600) >= 550, -100, LABELS)
    write_table(tmp_path / "a.parquet", LOGITS, labels, extra={"w": weight})
    stream = open_stream(tmp_path, weights_key="w", batch_rows=100)
    fitted = fit_stream(stream, "ts", ignore_index=-100)
    expected = calibrant.TS().fit(LOGITS[300:550], LABELS[300:550])
    np.testing.assert_allclose(
        fitted.predict_proba(LOGITS), expected.predict_proba(LOGITS), rtol=1e-5
    )


def test_probabilities_are_fitted_as_such(tmp_path: Path) -> None:
    probs = np.exp(LOGITS.astype(float))
    probs /= probs.sum(axis=1, keepdims=True)
    write_table(tmp_path / "a.parquet", probs, LABELS, name="probs")
    fitted = fit_stream(open_stream(tmp_path), "ts")
    assert fitted.input == "probs"
    with pytest.raises(ValueError, match="the scores are probs, but TemperatureScaling has"):
        fit_stream(open_stream(tmp_path), calibrant.TS())


# --- the reservoir ----------------------------------------------------------------------------


def reservoir(draw: Draw, index: np.ndarray, weight: np.ndarray | None = None) -> Reservoir:
    found = Reservoir(draw, 5)
    rows = Rows(LOGITS, LABELS, weight)
    for part in np.array_split(index, 9):
        found.add(rows.take(part))
    return found


@pytest.mark.parametrize("stratify", [False, True])
def test_reservoirs_merge_to_that_of_all_rows(stratify: bool) -> None:
    draw = Draw(100, 3, stratify)
    whole = reservoir(draw, np.arange(600))
    order = np.random.default_rng(0).permutation(600)
    merged = reservoir(draw, order[:123]).merge(reservoir(draw, order[123:]))
    np.testing.assert_array_equal(whole.rows.scores, merged.rows.scores)
    np.testing.assert_array_equal(whole.rows.labels, merged.rows.labels)
    np.testing.assert_allclose(whole.rows.weight, merged.rows.weight, rtol=1e-12)
    np.testing.assert_array_equal(whole.class_weight, merged.class_weight)


def test_classes_have_equal_shares_and_weigh_what_they_had() -> None:
    rare = np.flatnonzero((LABELS != 0) | (np.arange(600) % 10 == 0))
    found = reservoir(Draw(50, 0, True), rare).rows
    assert np.bincount(found.labels).tolist() == [10, 10, 10, 10, 10]
    weights = np.bincount(found.labels, found.weight)
    np.testing.assert_allclose(weights / 50.0, np.bincount(LABELS[rare]) / len(rare), rtol=1e-12)


def test_every_row_is_as_likely_as_any_other() -> None:
    drawn = np.zeros(600)
    for seed in range(300):
        kept = reservoir(Draw(60, seed), np.arange(600)).rows.scores
        drawn += np.isin(LOGITS[:, 0], kept[:, 0])
    expected, deviation = 30.0, np.sqrt(300 * 0.1 * 0.9)
    assert drawn.sum() == 300 * 60
    assert np.abs(drawn - expected).max() < 5.0 * deviation
    assert drawn.var() == pytest.approx(deviation**2, rel=0.25)


def test_copies_are_drawn_one_by_one_in_whatever_order() -> None:
    """Of 3,000 copies of 6 rows and 600 other rows, so many of each as its share is."""
    index = np.concatenate([np.arange(600), np.repeat(np.arange(6), 499)])
    rng, kept = np.random.default_rng(0), []
    for seed in range(30):
        one, other = (reservoir(Draw(300, seed), rng.permutation(index)) for _ in range(2))
        np.testing.assert_array_equal(one.rows.scores, other.rows.scores)
        np.testing.assert_array_equal(one.rows.weight, other.rows.weight)
        copies = (one.rows.scores[:, None, 0] == LOGITS[None, :6, 0]).sum(axis=0)
        kept.append(copies)
    expected = 300 * 500 / len(index)
    np.testing.assert_allclose(np.mean(kept, axis=0), expected, rtol=0.12)
    assert np.std(kept, axis=0).max() < 2.0 * np.sqrt(expected)
    assert np.min(kept) > 0.4 * expected


def test_copies_in_parts_are_drawn_apart() -> None:
    index, kept = np.repeat(np.arange(6), 100), []
    for seed in range(60):
        parts = []
        for salt in range(10):
            part = Reservoir(Draw(600, seed), 5, salt)
            part.add(Rows(LOGITS[index], LABELS[index]))
            parts.append(part)
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.merge(pickle.loads(pickle.dumps(part)))
        kept.append((whole.rows.scores[:, 0] == LOGITS[0, 0]) @ whole.rows.weight)
    assert np.mean(kept) == pytest.approx(100.0, rel=0.05)
    assert np.std(kept) < 2.0 * np.sqrt(90.0)  # as of draws that know nothing of each other


def test_the_number_of_values_whose_copies_are_counted_is_bounded() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(2**63, size=500, dtype=np.uint64) * np.uint64(2)
    keys = CopyKeys(most=100)
    found = np.concatenate([keys.of(rng.permutation(np.tile(values, 4))) for _ in range(5)])
    assert len(keys._values) == len(keys._counts) == 100
    assert set(keys._values) == set(np.sort(values)[:100])
    assert (keys._counts == 20).all()
    assert len(set(found)) == len(found)  # no two copies share a key


def test_a_ceiling_changes_nothing_but_the_work() -> None:
    draw = ceiling_for(60, 600, 0)
    assert draw.ceiling < 2**64
    bounded, free = reservoir(draw, np.arange(600)), reservoir(Draw(60, 0), np.arange(600))
    np.testing.assert_array_equal(bounded.rows.scores, free.rows.scores)
    assert not bounded.is_short
    assert reservoir(draw, np.arange(100)).is_short  # of many copies, for one
    assert ceiling_for(60, None, 0).ceiling == ceiling_for(60, 50, 0).ceiling == 2**64


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "scores", "label", "message"),
    [
        (450, np.nan, 0, "logits must be finite or -inf, got nan"),
        (450, 1.0, 7, r"labels must lie in 0\.\.4"),
        (450, -np.inf, 1, "must not lie on a masked class"),
    ],
)
def test_bad_rows_are_refused_with_their_file(
    tmp_path: Path, row: int, scores: float, label: int, message: str
) -> None:
    logits, labels = LOGITS.copy(), LABELS.copy()
    logits[row, 1], labels[row] = scores, label
    write_folder(tmp_path / "in", logits, labels)
    with pytest.raises(ValueError, match=message) as caught:
        fit_stream(open_stream(tmp_path / "in", batch_rows=20), "ts", max_rows=10)
    assert re.search(r"part-2\.parquet, of the rows from \d+ on", caught.value.__notes__[0])


def test_settings_that_make_no_sense(folder: Path, tmp_path: Path) -> None:
    for name in ("max_rows", "max_bytes"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            fit_stream(open_stream(folder), **{name: 0})
    for method in (None, calibrant.TS, ["ts"]):
        with pytest.raises(TypeError, match="method must be a name such as 'ts' or a calibrator"):
            fit_stream(open_stream(folder), method)  # type: ignore[arg-type]
    write_table(tmp_path / "empty.parquet", LOGITS[:0], LABELS[:0])
    with pytest.raises(ValueError, match="the stream has no rows"):
        fit_stream(open_stream(tmp_path / "empty.parquet"))
