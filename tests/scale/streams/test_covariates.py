"""Covariates by name: columns of the files that a calibrator conditions on, from end to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant import FileError
from calibrant.calibrators import FitInfo, Fitted, LogitCalibrator
from calibrant.data.rows import Rows
from calibrant.formulas import LogitMap
from calibrant.scale.streams._evaluating import judged
from calibrant.streams import apply_stream, evaluate_stream, fit_stream, open_stream
from stream_support import contents, rows

NAMES = ("country", "length")
LOGITS, LABELS = rows()
_RNG = np.random.default_rng(7)
COVARIATES = {"country": _RNG.integers(3, size=600), "length": _RNG.random(600).round(9)}


@dataclass(frozen=True)
class CovariateScale(LogitMap):
    """softmax(z exp(c x)): a formula that reads covariates."""

    kind: ClassVar[str] = "test.covariate-scale"
    needs: ClassVar[tuple[str, ...]] = ("covariates",)

    slope: float
    names: tuple[str, ...]

    @property
    def keeps_arg_max(self) -> bool:
        return True

    @property
    def covariate_names(self) -> tuple[str, ...]:
        return self.names

    def scores(self, rows, ops):
        factor = ops.exp(self.slope * rows.covariates[..., 1:])
        return rows.logits * factor

    def gaps(self, rows, ops):
        return ops.gaps(self.scores(rows, ops))


class ByLength(LogitCalibrator):
    """A method of somebody else that uses covariates. Preserves accuracy."""

    uses = ("covariates",)
    _gives = LogitMap

    def __init__(self, input: str = "logits") -> None:  # noqa: A002
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        """There are none."""

    def _fit_logits(self, data: Rows) -> Fitted:
        assert data.covariates is not None
        length = data.covariates["length"]
        slope = -1.0 + float(np.average(length, weights=data.weight))
        slope += float(data.covariates["country"].sum()) / 10_000.0
        details = {"lengths": np.sort(length).tolist()}
        formula = CovariateScale(slope, tuple(data.covariates))
        return formula, FitInfo(True, "exact", details=details)


def write_npy(folder: Path, part: str, columns: dict[str, Any]) -> None:
    for name, column in columns.items():
        np.save(folder / f"{part}.{name}.npy", column)


def write_npz(folder: Path, part: str, columns: dict[str, Any]) -> None:
    np.savez(folder / f"{part}.npz", **columns)


def write_csv(folder: Path, part: str, columns: dict[str, Any]) -> None:
    flat = {f"logits_{k}": column for k, column in enumerate(columns["logits"].T)}
    flat |= {name: column for name, column in columns.items() if name != "logits"}
    lines = [",".join(map(str, cells)) for cells in zip(*flat.values(), strict=True)]
    (folder / f"{part}.csv").write_text("\n".join([",".join(flat), *lines]) + "\n")


def write_parquet(folder: Path, part: str, columns: dict[str, Any]) -> None:
    table = {name: list(one) if one.ndim > 1 else one for name, one in columns.items()}
    pq.write_table(pa.table(table), folder / f"{part}.parquet", row_group_size=70)


Writer = Callable[[Path, str, dict[str, Any]], None]
WRITERS = {"npy": write_npy, "npz": write_npz, "csv": write_csv, "parquet": write_parquet}


def write_parts(folder: Path, write: Writer, order: np.ndarray | None = None, **extra: Any) -> Path:
    folder.mkdir()
    columns = {"logits": LOGITS, "label": LABELS, **COVARIATES, **extra}
    order = np.arange(600) if order is None else order
    for number, index in enumerate(np.array_split(order, 3)):
        write(folder, f"part-{number}", {name: one[index] for name, one in columns.items()})
    return folder


@pytest.fixture(params=[*WRITERS])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_parts(tmp_path / "in", WRITERS[request.param])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_parts(tmp_path / "table", write_parquet)


@pytest.fixture(scope="module")
def in_memory() -> ByLength:
    return ByLength().fit(LOGITS, LABELS, covariates=COVARIATES)


def test_every_batch_has_them(folder: Path) -> None:
    batches = list(open_stream(folder, covariates=NAMES, batch_rows=90))
    assert len(batches) > 3
    for name in NAMES:
        read = np.concatenate([batch.covariates[name] for batch in batches])
        np.testing.assert_allclose(read, COVARIATES[name], rtol=1e-15)
    assert all(batch.covariates is None for batch in open_stream(folder))


def test_a_fit_is_that_in_memory_and_says_what_it_reads(folder: Path, in_memory: ByLength) -> None:
    fitted = fit_stream(open_stream(folder, covariates=NAMES, batch_rows=50), ByLength())
    assert fitted.formula_.covariate_names == NAMES
    assert fitted.fit_info_.details["sample"]["kept"] == 600
    np.testing.assert_allclose(
        fitted.predict_proba(LOGITS, covariates=COVARIATES),
        in_memory.predict_proba(LOGITS, covariates=COVARIATES),
        rtol=1e-6,
    )


@pytest.mark.parametrize("stratify", [False, True])
def test_a_sample_keeps_them_with_their_rows(tmp_path: Path, stratify: bool) -> None:
    """Rows of one value, but for their covariates, are drawn the same in whatever order."""
    same = {"logits": np.repeat(LOGITS[:1], 600, axis=0), "label": np.repeat(LABELS[:1], 600)}
    order = np.random.default_rng(0).permutation(600)
    one = write_parts(tmp_path / "one", write_parquet, **same)
    other = write_parts(tmp_path / "other", write_npz, order, **same)
    lengths = []
    for folder, most in ((one, 400), (other, 11)):
        stream = open_stream(folder, covariates=NAMES, batch_rows=most)
        fitted = fit_stream(stream, ByLength(), max_rows=200, stratify=stratify)
        lengths.append(fitted.fit_info_.details["lengths"])
    assert len(lengths[0]) == (40 if stratify else 200)
    assert lengths[0] == lengths[1]
    assert {*lengths[0]} < {*COVARIATES["length"].tolist()}


def test_rows_that_are_left_out_take_theirs_along(tmp_path: Path) -> None:
    labels = np.where(np.arange(600) % 3 == 0, np.nan, LABELS)
    labels[1::3] = -100
    folder = write_parts(tmp_path / "in", write_parquet, label=labels)
    fitted = fit_stream(open_stream(folder, covariates=NAMES), ByLength(), ignore_index=-100)
    assert fitted.fit_info_.details["lengths"] == np.sort(COVARIATES["length"][2::3]).tolist()


def test_other_methods_do_without(table: Path) -> None:
    with_them = fit_stream(open_stream(table, covariates=NAMES), "vector", max_rows=300)
    without = fit_stream(open_stream(table), "vector", max_rows=300)
    np.testing.assert_array_equal(with_them.predict_proba(LOGITS), without.predict_proba(LOGITS))
    report = evaluate_stream(open_stream(table, covariates=NAMES), without)
    assert report.nll == evaluate_stream(open_stream(table), without).nll


@pytest.mark.parametrize("only", [None, "confidence"])
def test_outputs_are_those_in_memory(
    folder: Path, tmp_path: Path, in_memory: ByLength, only: Any
) -> None:
    """Nobody says which columns are covariates: the formula does."""
    stream = open_stream(folder, batch_rows=64)
    done = apply_stream(in_memory, stream, tmp_path / "out", only=only)
    assert {"country", "length", "label"} <= {*done.columns}
    expected = in_memory.predict_confidence(LOGITS, covariates=COVARIATES)
    tables = [pq.read_table(one) for one in sorted((tmp_path / "out").glob("part-*.parquet"))]
    written = pa.concat_tables(tables)
    np.testing.assert_allclose(written["confidence"], expected.probability, rtol=1e-6)
    np.testing.assert_allclose(written["length"], COVARIATES["length"], rtol=1e-15)
    assert written["prediction"].to_pylist() == expected.label.tolist()


def test_a_run_goes_on_where_it_was_killed(
    table: Path, tmp_path: Path, in_memory: ByLength
) -> None:
    apply_stream(in_memory, open_stream(table), tmp_path / "whole")
    apply_stream(in_memory, open_stream(table), tmp_path / "cut")
    (tmp_path / "cut" / "part-1.parquet").unlink()
    again = open_stream(table, covariates=NAMES)  # said or not said: it is the same work
    assert apply_stream(in_memory, again, tmp_path / "cut").skipped == 2
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")


def test_a_calibrator_is_judged_with_them(folder: Path, in_memory: ByLength) -> None:
    probs = in_memory.predict_proba(LOGITS, covariates=COVARIATES)
    expected = -np.log(probs[np.arange(600), LABELS]).mean()
    stream = open_stream(folder, batch_rows=70)
    assert evaluate_stream(stream, in_memory).nll == pytest.approx(expected, rel=1e-6)
    both = judged(stream, in_memory)
    assert both["calibrated"].nll == pytest.approx(expected, rel=1e-6)
    assert both["scores"].nll == evaluate_stream(stream).nll


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*WRITERS])
def test_a_missing_column_is_named_with_its_file(
    tmp_path: Path, kind: str, in_memory: ByLength
) -> None:
    """By whoever asks for it first: the opening, the calibration or the judgement."""
    folder = tmp_path / "in"
    folder.mkdir()
    columns = {"logits": LOGITS, "label": LABELS, **COVARIATES}
    WRITERS[kind](folder, "a", columns)
    del columns["length"]
    WRITERS[kind](folder, "b", columns)
    scores = r"logits_0\.\.logits_4, label" if kind == "csv" else "label, logits|logits, label"
    message = rf"b\..* has no 'length'; it has (country, )?({scores})"
    with pytest.raises(FileError, match=message):
        open_stream(folder, covariates=NAMES)
    stream = open_stream(folder)
    with pytest.raises(FileError, match=message):
        apply_stream(in_memory, stream, tmp_path / "out")
    with pytest.raises(FileError, match=message):
        evaluate_stream(stream, in_memory)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [*WRITERS])
def test_covariates_are_numbers(tmp_path: Path, kind: str, in_memory: ByLength) -> None:
    texts = np.array(["de", "fr"] * 300)
    folder = write_parts(tmp_path / "in", WRITERS[kind], country=texts)
    wrong = r"part-0.*country.*(must hold numbers|must be a number|must have one number per row)"
    with pytest.raises(FileError, match=wrong):
        fit_stream(open_stream(folder, covariates=NAMES), ByLength())
    with pytest.raises(FileError, match=wrong):
        apply_stream(in_memory, open_stream(folder), tmp_path / "out")


def test_a_method_that_uses_them_asks_for_them(table: Path) -> None:
    with pytest.raises(TypeError, match="ByLength needs covariates: name their columns"):
        fit_stream(open_stream(table), ByLength())
    with pytest.raises(TypeError, match=r"a sequence of names, such as \('length',\)"):
        open_stream(table, covariates="length")


def test_missing_values_are_refused(tmp_path: Path, in_memory: ByLength) -> None:
    length = np.where(np.arange(600) == 450, np.nan, COVARIATES["length"])
    folder = write_parts(tmp_path / "in", write_npy, length=length)
    with pytest.raises(ValueError, match="covariate length must be finite") as caught:
        evaluate_stream(open_stream(folder), in_memory)
    assert "part-2.logits.npy" in caught.value.__notes__[0]
