"""Covariates on the command line: named for a fit, and then read by whatever the fit made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant
from calibrant.calibrators import REGISTRY, FitInfo, Fitted, LogitCalibrator, register
from calibrant.data.rows import Rows
from calibrant.formulas import TemperatureFormula
from cli_support import as_json, refuse, succeed
from stream_support import rows

LOGITS, LABELS = rows()
NAMES = ("country", "word count")
_RNG = np.random.default_rng(3)
COVARIATES = {"country": _RNG.integers(3, size=600), "word count": _RNG.random(600).round(6)}
FIT = ("--method", "test-by-words", "--covariates", "country, word count")


@dataclass(frozen=True)
class WordTemperature(TemperatureFormula):
    """T = exp(c x), where x is the last covariate."""

    kind: ClassVar[str] = "test.word-temperature"
    needs: ClassVar[tuple[str, ...]] = ("covariates",)

    slope: float
    names: tuple[str, ...]

    @property
    def keeps_arg_max(self) -> bool:
        return True

    @property
    def covariate_names(self) -> tuple[str, ...]:
        return self.names

    def temperature(self, rows, ops):
        return ops.exp(self.slope * rows.covariates[..., 1:])


class ByWords(LogitCalibrator):
    """A method of somebody else that uses covariates. Preserves accuracy."""

    uses = ("covariates",)
    _gives = WordTemperature

    def __init__(self, input: str = "logits") -> None:  # noqa: A002
        self.input = input

    def _will_keep_arg_max(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        """There are none."""

    def _fit_logits(self, data: Rows) -> Fitted:
        assert data.covariates is not None
        country, words = data.covariates.values()
        slope = float(np.average(words + country / 4.0, weights=data.weight))
        return WordTemperature(slope, tuple(data.covariates)), FitInfo(True, "exact")


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register("test-by-words", ByWords)
    yield
    del REGISTRY["test-by-words"]


def write_npz(index: slice) -> str:
    columns = {"logits": LOGITS, "labels": LABELS, **COVARIATES}
    np.savez("a.npz", **{name: column[index] for name, column in columns.items()})
    return "a.npz"


def write_csv(index: slice) -> str:
    columns = {f"logits_{k}": column for k, column in enumerate(LOGITS.T)}
    columns |= {"label": LABELS, **COVARIATES}
    cells = zip(*(column[index] for column in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(str, one)) for one in cells)]
    Path("a.csv").write_text("\n".join(lines) + "\n")
    return "a.csv"


def write_parquet(index: slice) -> str:
    columns = {"logits": list(LOGITS), "label": LABELS, **COVARIATES}
    pq.write_table(pa.table({n: column[index] for n, column in columns.items()}), "a.parquet")
    return "a.parquet"


def write_folder(index: slice) -> str:
    Path("in").mkdir()
    for part in range(2):
        half = slice((index.start or 0) + part, index.stop, 2)
        Path(write_parquet(half)).rename(f"in/{part}.parquet")
    return "in"


def expected(index: slice = slice(None)) -> np.ndarray:
    """The probabilities of all rows, of a fit on some of them."""
    some = {name: column[index] for name, column in COVARIATES.items()}
    model = ByWords().fit(LOGITS[index], LABELS[index], covariates=some)
    return model.predict_proba(LOGITS, covariates=COVARIATES)


@pytest.mark.parametrize("write", [write_npz, write_csv, write_parquet, write_folder])
def test_from_a_fit_to_its_judgement(write: Callable[[slice], str]) -> None:
    """Only the fit is told which columns are covariates: the calibrator knows them then."""
    file = write(slice(None))
    succeed("fit", file, "-o", "c.safetensors", *FIT)
    assert calibrant.load("c.safetensors").formula_.covariate_names == NAMES
    judged = as_json("evaluate", file, "--calibrator", "c.safetensors", "--metrics", "nll")
    probs = expected()
    nll = -np.log(probs[np.arange(600), LABELS]).mean()
    assert judged["calibrated"]["nll"] == pytest.approx(nll, rel=1e-6)
    assert judged["scores"]["nll"] != judged["calibrated"]["nll"]
    if file == "in":
        done = as_json("apply", "c.safetensors", file, "-o", "out")
        assert {*NAMES} < {*done["columns"]}
        return
    done = as_json("apply", "c.safetensors", file, "-o", "out.npz", "--temperature")
    assert done["arrays"] == ["probs", "temperature", "labels", *NAMES]
    with np.load("out.npz") as out:
        np.testing.assert_allclose(out["probs"], probs, rtol=1e-5)
        np.testing.assert_allclose(out["word count"], COVARIATES["word count"], rtol=1e-15)
        heat = np.log(out["temperature"]) / COVARIATES["word count"]
    np.testing.assert_allclose(heat, heat[0], rtol=1e-4)


def test_rows_that_are_left_out_take_theirs_along() -> None:
    labels = np.where(np.arange(600) < 200, np.nan, LABELS)
    labels[200:300] = -100
    np.savez("a.npz", logits=LOGITS, labels=labels, **COVARIATES)
    options = (*FIT, "--ignore-index", "-100")
    assert as_json("fit", "a.npz", "-o", "c.safetensors", *options)["n_rows"] == 300
    fitted = calibrant.load("c.safetensors").predict_proba(LOGITS, covariates=COVARIATES)
    np.testing.assert_array_equal(fitted, expected(slice(300, None)))


@pytest.mark.parametrize("files", [["a.npz"], ["a.npz", "b.npz"]])
def test_a_comparison_gives_them_to_methods_that_use_them(files: list[str]) -> None:
    Path(write_npz(slice(300, None))).rename("b.npz")
    write_npz(slice(0, 300))
    first, second = slice(0, 300), slice(300, None)
    some, others = ({n: c[part] for n, c in COVARIATES.items()} for part in (first, second))
    with_test = len(files) > 1
    known = calibrant.compare(
        LOGITS[first],
        LABELS[first],
        *((LOGITS[second], LABELS[second]) if with_test else ()),
        methods=["ts", "test-by-words"],
        covariates=some,
        test_covariates=others if with_test else None,
        n_resamples=0,
    )
    options = ("--methods", "ts,test-by-words", "--covariates", "country,word count")
    entries = as_json("compare", *files, *options, "--n-resamples", "0")["methods"]
    assert [entry["method"] for entry in entries] == [one.method for one in known]
    for entry, one in zip(entries, known, strict=True):
        assert entry["nll"] == one.values["nll"]


def test_a_picture_of_calibrators_that_read_other_columns(tmp_path: Path) -> None:
    file = write_npz(slice(None))
    succeed("fit", file, "-o", "words.safetensors", *FIT)
    succeed("fit", file, "-o", "ts.safetensors", "--method", "ts")
    both = ("--calibrator", "ts.safetensors", "--calibrator", "words.safetensors")
    drawn = as_json("plot", file, "-o", "a.png", *both)["diagrams"]
    assert [*drawn] == ["uncalibrated", "ts", "words"]


def test_what_is_refused() -> None:
    file, out = write_npz(slice(None)), ("-o", "c.safetensors")
    line = refuse("fit", file, *out, "--covariates", "country")
    assert "--covariates: auto does not use any: name a --method that does" in line
    for given in (file, "."):
        line = refuse("fit", given, *out, "--method", "test-by-words")
        assert "test-by-words needs covariates: name their columns with --covariates" in line
    line = refuse("fit", file, *out, *FIT[:2], "--covariates", "country,length")
    assert "a.npz has no 'length'; it has logits, labels, country, word count" in line
    succeed("fit", file, *out, *FIT)
    np.savez("bare.npz", logits=LOGITS, labels=LABELS)
    for command in (
        ("apply", "c.safetensors", "bare.npz", "-o", "out.npz"),
        ("evaluate", "bare.npz", "--calibrator", "c.safetensors"),
    ):
        assert "bare.npz has no 'country'; it has logits, labels" in refuse(*command)
    words = np.where(np.arange(600) == 7, np.nan, COVARIATES["word count"])
    np.savez("gap.npz", logits=LOGITS, labels=LABELS, **{**COVARIATES, "word count": words})
    for command in (
        ("fit", "gap.npz", "-o", "d.safetensors", *FIT),
        ("apply", "c.safetensors", "gap.npz", "-o", "out.npz"),
    ):
        assert "gap.npz: covariate word count must be finite" in refuse(*command)
