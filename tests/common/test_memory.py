"""Memory has bounds: what would need more than there is is refused before it begins."""

from __future__ import annotations

import re

import numpy as np
import pytest

import calibrant
from calibrant.common import memory as _memory
from calibrant.common.memory import available_memory, parse_size, require_memory, size_text
from calibrant.evaluation.cross_validation import unfitted
from cli_support import PEAK, python

MATRICES = ("matrix", "dirichlet", "sms")


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 100 MB left."""
    monkeypatch.setattr(_memory, "available_memory", lambda: 100_000_000)


# --- what there is ----------------------------------------------------------------------------


def test_sizes_in_words() -> None:
    assert [size_text(n) for n in (0, 999, 1000, 999_949, 999_950, 2.5e9, 1e12)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "999.9 kB",
        "1.0 MB",
        "2.5 GB",
        "1.0 TB",
    ]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("4GB", 4 * 10**9), ("0.5 kb", 500), ("2GiB", 2 * 2**30), (" 3t ", 3 * 10**12)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1e9", "4 GBB", "nan", "1_000"])
def test_what_is_no_size(text: str) -> None:
    rule = "max_size must be a number of bytes, or such as 500MB, got "
    with pytest.raises(ValueError, match=re.escape(rule + repr(text))):
        parse_size(text)


def test_there_is_some_memory() -> None:
    available = available_memory()
    assert available is not None
    assert available > 10_000_000


def test_limits_of_a_process_count() -> None:
    """``ulimit -v`` leaves less than the machine has."""
    code = (
        "import resource; from calibrant.common.memory import available_memory\n"
        "taken = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (taken + 300_000_000,) * 2)\n"
        "print(available_memory())"
    )
    left = int(python(code).stdout)
    assert 200_000_000 < left < 310_000_000


def test_what_cannot_be_had_is_refused_with_both_figures(little: None) -> None:
    require_memory(99_000_000, "this", "do that")
    message = "this needs about 101.0 MB of memory, 100.0 MB are available: do that"
    with pytest.raises(MemoryError, match=f"^{message}$"):
        require_memory(101_000_000, "this", "do that")


def test_where_nothing_is_known_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "available_memory", lambda: None)
    require_memory(10**18, "this", "do that")


# --- matrices of classes by classes -----------------------------------------------------------


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_that_does_not_fit_is_refused(little: None, name: str) -> None:
    labels = np.arange(10)
    method = calibrant.calibrator(name)
    figures = rf"{type(method).__name__} of 10 rows and 600 classes needs about 121\.1 MB of memory"
    with pytest.raises(MemoryError, match=figures) as caught:
        method.fit(np.eye(10, 600), labels)
    assert "100.0 MB are available: vector, svs, ts, ets and pts need no matrix" in str(
        caught.value
    )
    assert not hasattr(method, "formula_")


@pytest.mark.parametrize("name", ["vector", "svs", "ts", "ets", "pts"])
def test_the_remedies_need_no_matrix(name: str) -> None:
    assert calibrant.calibrator(name)._memory_needed(10, 600) <= 200_000


def test_rows_that_do_not_fit_are_refused(little: None) -> None:
    logits = np.broadcast_to(np.float32(1.0), (10_000_000, 3))
    message = "HistogramBinning of 10,000,000 rows and 3 classes needs about 480.0 MB of memory"
    with pytest.raises(MemoryError, match=message) as caught:
        calibrant.HistogramBinning().fit(logits, np.zeros(10_000_000, np.int8))
    assert str(caught.value).endswith("of the temperature family read the scores in parts")


def test_results_and_metrics_that_do_not_fit_are_refused(little: None) -> None:
    logits = np.broadcast_to(np.float32(1.0), (10_000_000, 3))
    ts = calibrant.TS().fit([[4.0, 0.0, 1.0], [3.0, 0.0, 1.0], [5.0, 0.0, 1.0]], [0, 0, 1])
    with pytest.raises(MemoryError, match=r"the result needs about 120\.0 MB of memory"):
        ts.predict_proba(logits)
    with pytest.raises(MemoryError, match="CalibrationMeter takes the rows in parts"):
        calibrant.evaluate(logits, np.zeros(10_000_000, np.int8), input="logits")


def test_compare_leaves_out_what_does_not_fit(little: None) -> None:
    rng = np.random.default_rng(0)
    logits = 3.0 * rng.normal(size=(60, 560))
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    told = "left out, since they need more memory than is available: matrix, dirichlet, sms"
    with pytest.warns(calibrant.CalibrationWarning, match=told):
        names = unfitted(None, "logits", *logits.shape)
    assert "vector" in names
    assert not {*MATRICES} & {*names}
    with pytest.raises(MemoryError, match="MatrixScaling of 60 rows and 560 classes needs"):
        calibrant.compare(logits, labels, logits, labels, methods=["matrix"])


@pytest.mark.slow
def test_the_estimate_is_what_a_fit_takes() -> None:
    """Within a quarter, at a size at which little else counts."""
    code = (
        f"{PEAK}\nimport warnings; import numpy as np; import calibrant\n"
        "warnings.simplefilter('ignore')\n"
        "names = [f'{part}_penalty' for part in ('slope', 'off_diagonal', 'intercept')]\n"
        "rng = np.random.default_rng(0)\n"
        "matrix = calibrant.MatrixScaling(max_iter=25, **dict.fromkeys(names, 1e-3))\n"
        "matrix.fit(rng.normal(size=(50, 3)), rng.integers(0, 3, 50))\n"
        "logits, labels = rng.normal(size=(800, 1500)), rng.integers(0, 1500, 800)\n"
        "logits[np.arange(800), labels] += 3.0\n"
        "before = peak()\n"
        "matrix.fit(logits, labels)\n"
        "print((peak() - before) / matrix._memory_needed(*logits.shape))"
    )
    assert 0.75 < float(python(code).stdout) < 1.25


# --- BBQ --------------------------------------------------------------------------------------


def test_bbq_takes_memory_for_rows_and_not_for_weights() -> None:
    """100 rows of weight 1e7 took 14 GB once."""
    code = (
        f"{PEAK}\nimport numpy as np; import calibrant\n"
        "rng = np.random.default_rng(0)\n"
        "logits, labels = 3.0 * rng.normal(size=(100, 3)), rng.integers(0, 3, 100)\n"
        "for weight in (1e7, 9e13):\n"
        "    calibrant.BayesianBinning().fit(logits, labels, np.full(100, weight))\n"
        "print(peak())"
    )
    assert int(python(code).stdout) < 500_000_000
