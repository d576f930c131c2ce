"""Streams are judged as their rows would be at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.metrics import CalibrationMeter, ConfidenceMeter
from calibrant.scale.streams import _evaluating
from calibrant.scale.streams._evaluating import Judge, Measured, judged
from calibrant.streams import apply_stream, evaluate_stream, open_stream
from stream_support import rows, write_folder, write_table

LOGITS, LABELS = rows()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "in", LOGITS, LABELS)


@pytest.fixture(scope="module")
def ts() -> calibrant.TS:
    return calibrant.TS().fit(LOGITS, LABELS)


def close(one: object, other: object) -> None:
    first, second = one.metrics, other.metrics  # type: ignore[attr-defined]
    assert {*first} == {*second}
    for name in first:
        assert first[name].value == pytest.approx(second[name].value, abs=1e-9), name


def test_scores_and_what_a_calibrator_makes_of_them(folder: Path, ts: calibrant.TS) -> None:
    stream = open_stream(folder, batch_rows=31)
    whole = CalibrationMeter(input="logits").update(LOGITS, LABELS).compute()
    close(evaluate_stream(stream), whole)
    calibrated = CalibrationMeter().update(ts.predict_proba(LOGITS), LABELS).compute()
    close(evaluate_stream(stream, ts), calibrated)
    both = judged(stream, ts)
    close(both["scores"], whole)
    close(both["calibrated"], calibrated)


def test_what_apply_wrote_is_judged_by_its_columns(
    folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    apply_stream(ts, open_stream(folder), tmp_path / "all")
    apply_stream(ts, open_stream(folder), tmp_path / "few", only="confidence")
    every = evaluate_stream(open_stream(tmp_path / "all"))
    close(every, evaluate_stream(open_stream(folder), ts))
    few = evaluate_stream(open_stream(tmp_path / "few"))
    assert {"accuracy", "ece", "mce", "adaptive_ece", "debiased_ece", "smooth_ece"} <= {
        *few.metrics
    }
    assert not {"nll", "brier", "classwise_ece", "kde_ece"} & {*few.metrics}
    for name in few.metrics:
        assert few.metrics[name].value == pytest.approx(every.metrics[name].value, abs=1e-6), name
    assert (few.n_rows, few.n_classes) == (600, 5)


def test_parts_merge(folder: Path, ts: calibrant.TS) -> None:
    stream = open_stream(folder)
    judge = Judge("logits", ts, also_scores=True)
    parts = [judge.measured(stream.read(piece)) for piece in stream.pieces()]
    total = Measured({})
    for part in parts:
        total = total.merge(part)
    whole = judge.measured(stream)
    for name in ("scores", "calibrated"):
        one, other = total.meters[name], whole.meters[name]
        np.testing.assert_array_equal(one.counts, other.counts)
        np.testing.assert_allclose(one.sums, other.sums, rtol=1e-9, atol=1e-9)


def test_weights_and_ignored_rows(tmp_path: Path) -> None:
    weight = np.where(np.arange(600) < 100, 0.0, np.arange(600))
    labels = np.where(np.arange(600) >= 550, -1, LABELS)
    write_table(tmp_path / "a.parquet", LOGITS, labels, extra={"w": weight})
    stream = open_stream(tmp_path, weights_key="w", batch_rows=50)
    kept = slice(100, 550)
    whole = CalibrationMeter(input="logits").update(LOGITS[kept], LABELS[kept], weight[kept])
    close(evaluate_stream(stream, ignore_index=-1), whole.compute())


def test_very_many_classes_keep_no_bins_of_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_evaluating, "MANY_CLASSES", 4)
    assert "classwise_ece" not in evaluate_stream(open_stream(folder)).metrics


def test_what_cannot_be_judged(folder: Path, tmp_path: Path, ts: calibrant.TS) -> None:
    np.save(tmp_path / "a.logits.npy", LOGITS)
    with pytest.raises(ValueError, match="none of the 600 rows has a label"):
        evaluate_stream(open_stream(tmp_path / "a.logits.npy", need_labels=False))
    apply_stream(ts, open_stream(folder), tmp_path / "few", only="confidence")
    with pytest.raises(ValueError, match="a calibrator reads logits or probs, got confidences"):
        evaluate_stream(open_stream(tmp_path / "few"), ts)
    write_table(tmp_path / "empty.parquet", LOGITS[:0], LABELS[:0])
    with pytest.raises(ValueError, match="there are no rows to judge"):
        evaluate_stream(open_stream(tmp_path / "empty.parquet"))


# --- the meter of confidences -----------------------------------------------------------------


def test_confidence_meters_merge_and_refuse() -> None:
    rng = np.random.default_rng(0)
    said, chosen, true = rng.uniform(size=90), rng.integers(0, 4, 90), rng.integers(0, 4, 90)
    whole = ConfidenceMeter().update(said, chosen, true)
    parts = [ConfidenceMeter().update(said[i::3], chosen[i::3], true[i::3]) for i in range(3)]
    total = parts[0].merge(parts[1]).merge(parts[2])
    np.testing.assert_array_equal(total.counts, whole.counts)
    np.testing.assert_allclose(total.sums, whole.sums, rtol=1e-12)
    assert repr(whole) == "ConfidenceMeter(90 rows, 15 bins)"
    with pytest.raises(ValueError, match="bins are the same, got 15 and 10"):
        whole.merge(ConfidenceMeter(10))
    with pytest.raises(ValueError, match=r"confidences must lie in \[0, 1\], got 1.5 in row 1"):
        whole.update([0.5, 1.5], [0, 0], [0, 0])
    with pytest.raises(ValueError, match="predictions must be classes"):
        whole.update([0.5], [-1], [0])
    with pytest.raises(ValueError, match="must have one shape"):
        whole.update([0.5], [1, 0], [0])
    with pytest.raises(ValueError, match="at least one row before compute"):
        ConfidenceMeter().compute()
    np.testing.assert_array_equal(total.counts, whole.counts)  # refused rows left no trace
