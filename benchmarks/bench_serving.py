"""Latency and memory of calibrated probabilities in NumPy, PyTorch and onnxruntime.

    python benchmarks/bench_serving.py

Times are the best of a few repetitions, in microseconds a call and as multiples of
`scipy.special.softmax` on the same array in the same run, because machines are shared and noisy.
Memory is what the process' peak grows by over one large batch, as multiples of the batch itself;
each number comes from a process of its own. PyTorch and onnxruntime run on one thread;
`predict_proba` uses all cores for batches of more than 131,072 numbers. Linux only, and needs
`calibrant[torch,onnx,fast]`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import softmax

import calibrant
from calibrant.calibrators import Calibrator

METHODS = ("ts", "ets", "pts", "hts", "irm")
RUNTIMES = ("numpy", "torch", "onnxruntime")
SHAPES = ((1, 10), (1, 1_000), (256, 10), (256, 1_000), (32, 50_000))
MEMORY_SHAPE = (20_000, 1_000)
Predict = Callable[[np.ndarray], np.ndarray]


def scores(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of an over-confident model and labels."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((rows, classes), np.float32) * 2.5
    return logits, np.argmax(logits[:, :] / 1.7 + rng.gumbel(size=logits.shape), axis=1)


def fitted(method: str, classes: int) -> Calibrator:
    """A calibrator fitted on a few rows: how well does not matter here."""
    if method == "irm":
        from calibrant.calibrators import MultiClassIsotonic

        return MultiClassIsotonic().fit(*scores(1_000, classes))
    options = {"penalty": 1.0} if method in ("pts", "hts") else {}
    return calibrant.calibrator(method, **options).fit(*scores(1_000, classes))


def predictor(runtime: str, calibrator: Calibrator) -> Predict:
    """logits -> probabilities, both NumPy arrays."""
    if runtime == "numpy":
        return calibrator.predict_proba
    return _torch(calibrator) if runtime == "torch" else _onnxruntime(calibrator)


def _torch(calibrator: Calibrator) -> Predict:
    import torch

    from calibrant.torch import to_module

    torch.set_num_threads(1)
    module = to_module(calibrator)

    def predict(logits: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return module(torch.from_numpy(logits)).numpy()

    return predict


def _onnxruntime(calibrator: Calibrator) -> Predict:
    import onnxruntime

    from calibrant.onnx import export

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "calibrator.onnx")
        names = export(calibrator, path)
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    return lambda logits: session.run([names.probabilities], {names.input: logits})[0]


def best_time(job: Callable[[], object], budget: float) -> float:
    """Seconds of the fastest of the runs that fit into the budget, the first one not counted."""
    job()
    best, end = np.inf, time.perf_counter() + budget
    while time.perf_counter() < end:
        started = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - started)
    return best


def latencies(budget: float) -> None:
    """One line a shape and method."""
    print("microseconds a call (multiples of scipy.special.softmax)")
    print(f"{'shape':<14}{'method':<8}" + "".join(f"{name:>20}" for name in RUNTIMES))
    for rows, classes in SHAPES:
        logits, _ = scores(rows, classes)
        unit = best_time(lambda logits=logits: softmax(logits, axis=1), budget)
        print(f"{f'{rows} x {classes}':<14}{'softmax':<8}{1e6 * unit:>13.1f}")
        for method in METHODS if classes <= 1_000 else ("ts", "pts"):
            calibrator = fitted(method, classes)
            cells = []
            for runtime in RUNTIMES:
                predict = predictor(runtime, calibrator)
                seconds = best_time(lambda p=predict, z=logits: p(z), budget)
                cells.append(f"{1e6 * seconds:>12.1f} ({seconds / unit:4.1f})")
            print(f"{'':<14}{method:<8}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


def peak() -> float:
    """Bytes of the process' peak so far (getrusage would count what the parent process held)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * float(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def growth(runtime: str, method: str) -> float:
    """What one large batch adds to the peak of this process, over the size of the batch."""
    rows, classes = MEMORY_SHAPE
    predict = predictor(runtime, fitted(method, classes))
    logits = np.random.default_rng(0).standard_normal((rows, classes), np.float32)
    predict(logits[:100])  # whatever is loaded for large batches alone
    before = peak()
    predict(logits)
    return (peak() - before) / logits.nbytes


def memory() -> None:
    """One process a number."""
    print(f"\npeak growth over a batch of {MEMORY_SHAPE} float32, in batches (the result is one)")
    print(f"{'':<14}{'method':<8}" + "".join(f"{name:>20}" for name in RUNTIMES))
    for method in METHODS:
        cells = []
        for runtime in RUNTIMES:
            command = [sys.executable, __file__, "--growth", runtime, method]
            cells.append(float(subprocess.run(command, capture_output=True, check=True).stdout))
        print(f"{'':<14}{method:<8}" + "".join(f"{cell:>20.1f}" for cell in cells), flush=True)


def main() -> None:
    """Run everything, or measure one growth of the peak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for each time")
    parser.add_argument("--growth", nargs=2, metavar=("RUNTIME", "METHOD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.growth:
        print(growth(*options.growth))
        return
    latencies(options.budget)
    memory()


if __name__ == "__main__":
    main()
