"""Compare every way of computing every method, on data where adaptive methods stay adaptive.

    python attacks/attack_backends.py
    python attacks/attack_backends.py --classes 2 10 --methods pts mpts

The best temperature of the rows depends on the row, the logits are bent and some classes are more
frequent than the logits say, so that pts, mpts and spts keep their networks and maps. Where one of
them loses its network, mpts its increasing map or spts, up to 100 classes, its class map, the run
fails. Every method is fitted
on float32 logits and computed from float32 logits by NumPy, by machine code (Numba), as a torch
module, as an ONNX graph and by the CUDA sources compiled for the CPU. The reference is NumPy in
float64. The rows have ties, near ties, masked classes and certain predictions among them; a second
set has a large offset.

A line is one method and one number of classes: the largest difference of each backend to the
reference. Misbehaving is a difference above 1e-5, or another arg max of a method that preserves
accuracy. No row is one of the fit: steps and bins have their edges at scores of the fit, where the
last digit decides which side a score is on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import calibrant
from calibrant.backends.numba.dispatch import SMALLEST, compiled_probabilities
from calibrant.calibrators import REGISTRY, Calibrator
from calibrant.formulas import (
    AffineMap,
    Chain,
    FormulaRows,
    IncreasingTable,
    NetworkTemperature,
    SeenClasses,
)
from calibrant.formulas._array_operations import NUMPY, numpy_flags_ignored
from calibrant.onnx import export
from calibrant.torch import to_module

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from emulator import COMPILER, emulate
from hard_logits import adversarial

CLASSES = (2, 3, 10, 100, 1000, 5000)
MOST_DIFFERENCE = 1e-5
#: What must be part of a fitted method, and the most classes for which these rows suffice.
KEPT = {
    "pts": {"network": 5000},
    "mpts": {"map": 5000, "network": 5000},
    "spts": {"map": 5000, "network": 5000, "class map": 100},
}
OFFSETS = (0.0, 1e4)
MATRICES = {"matrix", "dirichlet", "sms"}
MATRIX_CLASSES = 100  # with more, a matrix of classes by classes takes minutes
CURVES = {"platt", "quadratic", "odds-spline"}
CURVE_CLASSES = 1000  # with more, a curve for every class takes minutes

ORDINARY, HARD = 40, 100  # rows that are computed
LARGEST = 100.0  # logits of ordinary models: 1e30 is another attack's

Rows = np.ndarray
Backend = Callable[[Calibrator, Rows], Rows | None]  # None: it has no code of its own for these


@dataclass
class Compared:
    """What the backends gave for one method, number of classes and offset."""

    method: str
    classes: int
    offset: float
    parts: dict[str, str]
    worst: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{backend} {value:.1e}" for backend, value in self.worst.items()]
        place = f"{self.method} of {self.classes} classes"
        if self.offset:
            place += f" + {self.offset:g}"
        lines = [f"{place:<36}{', '.join(self.parts.values()):<28}{'  '.join(parts)}"]
        return "\n".join([*lines, *(f"    {problem}" for problem in self.problems)])


# --- rows ---------------------------------------------------------------------------------------


def heteroscedastic(classes: int, rows: int) -> tuple[Rows, np.ndarray]:
    """Logits of another scale in every row, bent, and labels that favour some classes."""
    rng = np.random.default_rng(classes)
    scale = rng.uniform(0.5, 5.0, (rows, 1))
    true = rng.standard_normal((rows, classes)) * scale
    temperature = 0.6 + 0.5 * np.ptp(true, axis=1, keepdims=True) / 3.0
    favour = 0.7 * rng.standard_normal(classes)
    labels = np.argmax(true / temperature + favour + rng.gumbel(size=true.shape), axis=1)
    bent = true + 0.1 * np.abs(true) * true
    return (bent + scale).astype(np.float32), labels  # even two logits tell their scale


def made_rows(classes: int, offset: float) -> tuple[Rows, np.ndarray, Rows]:
    """Labelled float32 logits whose best temperature depends on the row, and others to compute."""
    count = max(600, 2000 - classes // 4)
    logits, labels = heteroscedastic(classes, count + ORDINARY)
    ordinary, hard = logits[count:], adversarial(classes, rows=HARD)
    hard = hard[np.abs(np.where(np.isfinite(hard), hard, 0.0)).max(axis=1) < LARGEST]
    rows = np.concatenate([ordinary, hard]) + np.float32(offset)
    return logits[:count] + np.float32(offset), labels[:count], rows


# --- backends -----------------------------------------------------------------------------------


@numpy_flags_ignored
def by_numpy(model: Calibrator, rows: Rows) -> Rows:
    """The formula by NumPy, in float32."""
    return model.formula_(rows)


def by_numba(model: Calibrator, rows: Rows) -> Rows | None:
    """Machine code is for large arrays: the rows are repeated until they are one."""
    times = -(-SMALLEST // rows.size)
    found = compiled_probabilities(model.formula_, np.tile(rows, (times, 1)))
    return None if found is None else found[-len(rows) :]


def by_torch(model: Calibrator, rows: Rows) -> Rows:
    """The module."""
    with torch.no_grad():
        return to_module(model)(torch.from_numpy(rows)).numpy()


def by_onnx(model: Calibrator, rows: Rows) -> Rows:
    """The graph, by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "calibrator.onnx")
        names = export(model, path)
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        return session.run([names.probabilities], {names.input: rows})[0]


def by_cuda_sources(model: Calibrator, rows: Rows) -> Rows | None:
    """The CUDA kernels on the CPU; formulas without one by the operations that a device uses."""
    if COMPILER is None:
        return None
    with pytest.MonkeyPatch.context() as patch:
        emulate(patch)
        return model.predict_proba(torch.from_numpy(rows)).numpy()


BACKENDS: dict[str, Backend] = {
    "numpy": by_numpy,
    "numba": by_numba,
    "torch": by_torch,
    "onnx": by_onnx,
    "cuda-on-cpu": by_cuda_sources,
}


# --- comparing ----------------------------------------------------------------------------------


def compare(method: str, classes: int, offset: float = 0.0) -> Compared:
    """Fit a method and compute it by all backends."""
    logits, labels, rows = made_rows(classes, offset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        model = calibrant.calibrator(method).fit(logits, labels)
        wanted = model.predict_proba(rows.astype(np.float64))
        result = Compared(method, classes, offset, parts_of(model, logits))
        for name, backend in BACKENDS.items():
            found = backend(model, rows)
            if found is not None:
                _judge(result, name, model, rows, np.asarray(found), wanted)
    for part, most in KEPT.get(method, {}).items():
        if classes <= most and part not in result.parts:
            result.problems.append(f"it has no {part}: the run shows nothing about it")
    return result


def parts_of(model: Calibrator, logits: Rows) -> dict[str, str]:
    """The adaptive parts of a fitted method, and what they do."""
    formula, parts = model.formula_, {}
    if isinstance(formula, SeenClasses):  # with few rows per class, some classes have none
        formula, logits = formula.formula, logits[:, formula.seen]
    steps = (*formula.maps, formula.last) if isinstance(formula, Chain) else (formula,)
    for at, step in enumerate(steps):
        if isinstance(step, IncreasingTable) and at + 1 < len(steps):
            parts["map"] = "map"
        if isinstance(step, NetworkTemperature):
            before = Chain(steps[:at], step).inner(FormulaRows(logits.astype(np.float64)), NUMPY)
            found = step.row_temperatures(before, NUMPY)
            if found.max() > 1.05 * found.min():
                parts["network"] = f"T {found.min():.2g} to {found.max():.2g}"
        if isinstance(step, AffineMap) and at:
            parts["class map"] = "matrix" if step.full else "vector"
    return parts


def _judge(
    result: Compared, backend: str, model: Calibrator, rows: Rows, found: Rows, wanted: Rows
) -> None:
    difference = np.abs(found - wanted)
    if not np.isfinite(found).all():
        result.problems.append(f"{backend}: not finite")
    result.worst[backend] = float(difference.max())
    if result.worst[backend] > MOST_DIFFERENCE:
        row, column = np.unravel_index(difference.argmax(), difference.shape)
        result.problems.append(
            f"{backend}: {found[row, column]:.8g} for {wanted[row, column]:.8g} "
            f"at row {row}, class {column}"
        )
    if model.accuracy_preserving:
        moved = _passed(found, rows.argmax(axis=1))
        if len(moved):
            result.problems.append(f"{backend}: another arg max at row {moved[0]}")


def _passed(probs: Rows, top: np.ndarray) -> np.ndarray:
    """The rows in which a class passes the first of the largest logits."""
    return np.flatnonzero(probs.max(axis=1) > probs[np.arange(len(probs)), top])


def possible(method: str, classes: int) -> str:
    """Why a method is left out; "" where it is not."""
    if REGISTRY[method].two_classes_only and classes > 2:
        return "it is for two classes"
    if method in MATRICES and classes > MATRIX_CLASSES:
        return f"a matrix of {classes} by {classes} classes takes minutes"
    if method in CURVES and classes > CURVE_CLASSES:
        return f"a curve for each of {classes} classes takes minutes"
    return ""


def attack(
    classes: Sequence[int], methods: Sequence[str], offsets: Sequence[float] = OFFSETS
) -> Iterator[Compared | str]:
    """What was compared, or why a method was left out."""
    for count in classes:
        for method in methods:
            reason = possible(method, count)
            if reason:
                yield f"{method} of {count} classes: left out, {reason}"
                continue
            for offset in offsets:
                yield compare(method, count, offset)


def main(arguments: list[str] | None = None) -> int:
    """Compare, print; 1 where something misbehaved."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--classes", type=int, nargs="+", default=CLASSES)
    parser.add_argument("--methods", nargs="+", default=sorted(REGISTRY), choices=sorted(REGISTRY))
    options = parser.parse_args(arguments)
    worst: dict[str, float] = {}
    compared, wrong = 0, 0
    for found in attack(options.classes, options.methods):
        print(found, flush=True)
        if isinstance(found, Compared):
            compared += len(found.worst)
            wrong += len(found.problems)
            for backend, value in found.worst.items():
                worst[backend] = max(worst.get(backend, 0.0), value)
    print("\nlargest differences: " + ", ".join(f"{k} {v:.1e}" for k, v in worst.items()))
    print(f"{compared} comparisons, {wrong} misbehaved")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
