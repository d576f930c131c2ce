"""One experiment: (logits, method, seed) -> a row of results, always the same one."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from calibrant import CalibrationWarning
from calibrant.calibrators import Calibrator, calibrator
from calibrant.metrics import accuracy, brier, calibration_test, ece, kde_ece, nll
from calibrant_papers.logit_sets import LogitSet
from calibrant_papers.per_row import packed

BINS = 10  # of the ECE in the paper's tables
BIN_SWEEP = tuple(range(5, 20, 2))
FRACTIONS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
WIDTHS = (1, 2, 3, 5, 8, 12, 20)
PUBLISHED_WIDTH = 5
TOP_K = 10
ALL_CLASSES = 1_000_000  # more than any set has: PTS then sees every logit
TOP_KS = (2, 5, 20, ALL_CLASSES)  # beside TOP_K
NULL_DRAWS = 100
MOST_TEMPERATURES = 10_000  # kept for the histograms


@dataclass(frozen=True)
class Method:
    """A calibrator of the paper's tables."""

    key: str
    label: str
    name: str  # in calibrant's registry
    options: tuple[tuple[str, Any], ...] = ()
    published: str = ""  # its column in the paper's tables
    rows: Literal["strict", "raw"] = "strict"  # whether its rows sum to 1
    slow: bool = False  # many seconds, not one
    after_ts: bool = False  # whether it is fitted on what temperature scaling gives

    def make(self, seed: int, width: int | None, kind: str, top_k: int | None = None) -> Calibrator:
        """The unfitted calibrator."""
        options = dict(self.options, input=kind)
        if width is not None:
            options["hidden"] = (width, width)
        if top_k is not None:
            options["top_k"] = top_k
        model = calibrator(self.name, **options)
        if "random_state" in model.get_params(deep=False):
            model.set_params(random_state=seed)
        return model


def _raw(name: str, label: str) -> Method:
    """The authors' own output, whose rows need not sum to 1."""
    return Method(f"{name}-raw", label, name, (("normalize", False),), label, "raw")


_PAPER = (("recipe", "paper"),)
_TOP = (("mode", "top-label"),)
# The authors' numbers of DIAG's procedure; the integral is this library's, which is more exact.
_DIAG = (("penalty", 0.0), ("starts", 1), ("max_iter", 200))
METHODS = {
    method.key: method
    for method in (
        Method("base", "Base", "base", published="Base"),
        _raw("irova", "IROvA"),
        _raw("irova-ts", "IROvA-TS"),
        _raw("irm", "IRM"),
        _raw("pbmc", "PBMC"),
        Method("diag", "DIAG", "diag", published="DIAG"),
        Method("ts", "TS", "ts", published="TS"),
        Method("ets", "ETS", "ets", published="ETS"),
        Method("pts-paper", "PTS (paper)", "pts", _PAPER, "PTS", slow=True),
        Method("pts", "PTS", "pts", published="PTS"),
        # Controls that the paper lacks. "PBMC" is in its words temperature scaling, then binning.
        Method("ts-brier", "TS by Brier", "ts", (("loss", "brier"),)),
        Method("ets-nll", "ETS by NLL", "ets", (("loss", "nll"),)),
        Method("diag-authors", "DIAG, authors' fit", "diag", _DIAG),
        Method("ts-bins", "TS, then bins", "histogram", after_ts=True),
        Method("ts-bins-top", "TS, then top-label bins", "histogram", _TOP, after_ts=True),
        Method("irova", "IROvA, normalised", "irova"),
        Method("irova-ts", "IROvA-TS, normalised", "irova-ts"),
        Method("irm", "IRM, normalised", "irm"),
        Method("pbmc", "PBMC, normalised", "pbmc"),
        Method("linear-paper", "Linear (paper)", "pts-linear", _PAPER, "Linear", slow=True),
        Method("linear", "Linear", "pts-linear", published="Linear"),
    )
}


@dataclass(frozen=True, order=True)
class Setting:
    """What is fitted on which part of which set."""

    data: str
    method: str
    seed: int = 0
    fraction: float = 1.0
    width: int | None = None  # of the hidden layers, where it is not the published one
    top_k: int | None = None  # how many logits PTS sees, where they are not the published 10

    @property
    def plain(self) -> bool:
        """Whether it is a cell of Tables 1-3: all validation rows, the published network."""
        return self.fraction == 1.0 and self.width is None and self.top_k is None


def run(setting: Setting, logits: LogitSet) -> dict[str, Any]:
    """Fit on the validation rows, judge on the test rows; everything that any table needs."""
    method = METHODS[setting.method]
    split = logits.drawn(setting.seed).with_part(setting.fraction, setting.seed)
    if method.rows == "raw":  # a few values, many of them on the edges of bins: no rounding
        split = split.in_double()
    if method.after_ts:
        split = _scaled(split)
    model = method.make(setting.seed, setting.width, split.kind, setting.top_k)
    seconds, notes = _timed_fit(model, split.val_scores, split.val_labels)
    row = asdict(setting) | {"fit_seconds": seconds, "notes": notes}
    probs = model.predict_proba(split.test_scores)
    row |= _judge(probs, split, method.rows)
    row["per_row"] = packed(probs, split.test_labels, method.rows, losses=setting.plain)
    if setting.plain:
        row["ece_by_bins"] = [
            ece(probs, split.test_labels, n_bins=bins, row_sums=method.rows) for bins in BIN_SWEEP
        ]
        if setting.seed == 0:
            row |= _some_temperatures(model, split)
    return row


def _timed_fit(model: Calibrator, scores: Any, labels: Any) -> tuple[float, list[str]]:
    """Fit a calibrator: the seconds it took, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        started = time.perf_counter()
        model.fit(scores, labels)
        seconds = time.perf_counter() - started
    notes = [one for one in caught if issubclass(one.category, CalibrationWarning)]
    for other in (one for one in caught if one not in notes):
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return seconds, [str(note.message) for note in notes]


def _scaled(split: LogitSet) -> LogitSet:
    """The probabilities that temperature scaling gives, in place of the scores."""
    model = calibrator("ts", input=split.kind).fit(split.val_scores, split.val_labels)
    val, test = (model.predict_proba(scores) for scores in (split.val_scores, split.test_scores))
    return replace(split, val_scores=val, test_scores=test, kind="probs")


def _judge(probs: Any, split: LogitSet, row_sums: Any) -> dict[str, Any]:
    """All metrics; ``row_sums="raw"`` takes what does not sum to 1 as it is."""
    labels = split.test_labels
    return {
        "classes": split.classes,
        "val_rows": len(split.val_labels),
        "test_rows": len(labels),
        "accuracy": accuracy(probs, labels, row_sums=row_sums),
        "ece": ece(probs, labels, n_bins=BINS, row_sums=row_sums),
        "ece_if_calibrated": _chance(probs, labels, row_sums),
        "kde_ece": kde_ece(probs, labels, row_sums=row_sums),
        "brier": brier(probs, labels, row_sums=row_sums),
        "nll": _finite(nll(probs, labels, row_sums=row_sums)),
    }


def _chance(probs: Any, labels: Any, row_sums: Any) -> float | None:
    """The ECE that labels drawn from the probabilities themselves would show, on average."""
    if row_sums == "raw":
        return None
    drawn = calibration_test(probs, labels, n_bins=BINS, n_resamples=NULL_DRAWS)
    return drawn.null_mean


def _finite(value: float) -> float | None:
    """JSON has no infinity, which raw outputs of 0 for the true class give."""
    return value if np.isfinite(value) else None


def _some_temperatures(model: Any, split: LogitSet) -> dict[str, list[float]]:
    """The temperatures of test rows, for the histograms; one where all rows have the same."""
    if not hasattr(model, "temperature"):
        return {}
    step = -(-len(split.test_labels) // MOST_TEMPERATURES)  # files may be in the order of classes
    every = np.asarray(model.temperature(split.test_scores[::step]), np.float64)
    kept = every[:1] if np.all(every == every[0]) else every
    return {"temperatures": [float(f"{value:.4g}") for value in kept]}


def parameter_count(method: str, width: int | None, classes: int) -> int:
    """How many numbers a calibrator of the temperature family learns; of PTS, one network."""
    if method in ("ts", "ets"):
        return {"ts": 1, "ets": 4}[method]
    width, inputs = width or PUBLISHED_WIDTH, min(TOP_K, classes)
    return inputs * width + width + width * width + width + width + 1
