"""Everything that runs on a GPU, checked against the CPU and timed, in one call.

    python benchmarks/gpu.py                     the table; writes benchmarks/results/gpu.json
    python benchmarks/gpu.py --against FILE      also fails where a ratio of FILE has grown
    python benchmarks/gpu.py --page              only writes the table of that file into docs/gpu.md
    ncu -k calibrate python benchmarks/gpu.py --once      NVIDIA's profiler on each kernel, once

The unit is a copy of the same tensor on the same device in the same run (`copies`): a read and a
write of every number, which no function that returns all probabilities can beat. Times are medians
of batches of calls, first calls and compilation not counted. `plain` is the same call with
`CALIBRANT_KERNELS=0`. Needs `calibrant[torch]` and an NVIDIA GPU with 40 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import calibrant
from calibrant.calibrators import Calibrator
from calibrant.profile import TemperatureProfile
from calibrant.torch import to_module

RESULTS = Path(__file__).parent / "results" / "gpu.json"
PAGE = Path(__file__).parents[1] / "docs" / "gpu.md"
GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "files"
BEGIN, END = "<!-- table: benchmarks/gpu.py -->\n", "<!-- end of table -->\n"
TOLERANCE = 1e-5
GROWTH = 1.15  # a ratio that has grown by more is a regression ..
GROWTH_WITH_WAIT = 1.4  # .. or by this, where the host waits in every call: hosts are noisy

FLOATS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
Call = Callable[[torch.Tensor], Any]


@dataclass(frozen=True)
class Line:
    """One job at one shape: the most copies that it may take."""

    method: str
    way: str
    target: float | None = None


@dataclass(frozen=True)
class Result:
    """What a line took."""

    rows: int
    classes: int
    dtype: str
    method: str
    way: str
    milliseconds: float
    copies: float
    target: float | None
    plain: float | None  # copies without kernels
    error: float | None  # the largest difference to the CPU's answer


PROBA, CONFIDENCE = "predict_proba", "predict_confidence"
MODULE, MODULE_CONFIDENCE = "to_module", "to_module, confidence"
JOBS: dict[tuple[int, int, str], list[Line]] = {
    (400_000, 1_000, "float32"): [
        Line("pts", PROBA, 1.35),
        Line("pts", MODULE, 1.35),
        Line("ts", PROBA, 1.2),
        Line("ts", MODULE, 1.2),
        Line("ets", PROBA, 1.5),
        Line("ets", MODULE, 1.5),
        Line("hts", PROBA),
        Line("smart", PROBA),
        Line("pts", CONFIDENCE, 0.75),
        Line("pts", MODULE_CONFIDENCE, 0.75),
        Line("ts", CONFIDENCE, 0.75),
        Line("ets", CONFIDENCE, 0.75),
        Line("pts", "predict_log_proba"),
    ],
    (400_000, 1_000, "float16"): [
        Line("pts", PROBA, 2.0),
        Line("pts", MODULE, 2.0),
        Line("ts", PROBA),
        Line("pts", CONFIDENCE),
    ],
    (2_000_000, 100, "float32"): [
        Line("pts", PROBA, 2.0),
        Line("pts", MODULE, 2.0),
        Line("ts", PROBA),
        Line("ets", PROBA),
        Line("pts", CONFIDENCE),
    ],
    (4_000_000, 10, "float32"): [
        Line("pts", PROBA, 3.0),
        Line("pts", MODULE, 3.0),
        Line("ts", PROBA),
        Line("ets", PROBA),
        Line("pts", CONFIDENCE),
    ],
    (100_000, 4_096, "float32"): [Line("pts", PROBA), Line("ts", PROBA)],
    (12_800, 32_000, "float32"): [Line("pts", PROBA), Line("ts", PROBA)],
    (4_096, 128_256, "bfloat16"): [
        Line("pts", PROBA, 3.0),
        Line("pts", MODULE, 3.0),
        Line("ts", PROBA),
        Line("pts", CONFIDENCE),
    ],
    (256, 1_000, "float32"): [Line("pts", PROBA), Line("pts", MODULE), Line("ts", MODULE)],
}
PROFILE_SHAPE, PROFILE_TARGET = (400_000, 1_000), 20.0
FIT_SHAPE, FIT_TARGET = (1_000_000, 1_000), 5.0


# --- scores ---------------------------------------------------------------------------------------


def overconfident(
    rows: int, classes: int, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of an over-confident model: the labels follow softmax(z / 1.7)."""
    torch.manual_seed(0)
    logits = torch.empty((rows, classes), dtype=dtype, device="cuda")
    labels = torch.empty(rows, dtype=torch.int64, device="cuda")
    step = max(1, 50_000_000 // classes)
    for start in range(0, rows, step):
        part = torch.randn((min(step, rows - start), classes), device="cuda") * 2.5
        logits[start : start + step] = part
        gumbel = -torch.empty_like(part).exponential_().log()
        labels[start : start + step] = (part / 1.7 + gumbel).argmax(1)
    return logits, labels


def hard_rows(classes: int) -> torch.Tensor:
    """Ties, masked classes, constant, sorted and huge rows."""
    rng = np.random.default_rng(1)
    rows = (rng.standard_normal((64, classes)) * 3.0).astype(np.float32)
    rows[0], rows[1] = 0.0, -7.5
    rows[2, : classes // 2] = -np.inf
    rows[3, 1:] = -np.inf
    rows[4], rows[5] = np.sort(rows[4]), np.sort(rows[5])[::-1]
    rows[6:16] = np.round(rows[6:16])
    rows[16] *= 1e4
    rows[17] = np.sign(rows[17]) * 3e38
    rows[18, ::2] = rows[18].max()
    rows[19, :] = rows[19, 0]
    rows[19, -1] += 1e-6
    return torch.from_numpy(rows).cuda()


def fitted(method: str, classes: int) -> Calibrator:
    """A calibrator fitted on a few rows: how well does not matter here."""
    options = {} if method in ("ts", "ets") else {"penalty": 1.0}
    return calibrant.calibrator(method, **options).fit(*overconfident(1_000, classes))


# --- checking -------------------------------------------------------------------------------------


def call_of(calibrator: Calibrator, way: str) -> Call:
    """What a line times."""
    if way in (MODULE, MODULE_CONFIDENCE):
        module = to_module(calibrator).cuda()
        return module if way == MODULE else module.confidence
    return getattr(calibrator, way)


def difference(calibrator: Calibrator, way: str, logits: torch.Tensor, result: Any) -> float:
    """The largest difference to the CPU's answer; infinite where a class differs."""
    host = logits.float().cpu().numpy()
    if way in (CONFIDENCE, MODULE_CONFIDENCE):
        wanted = calibrator.predict_confidence(host)
        if (result.label.cpu().numpy() != wanted.label).any():
            return np.inf
        return float(np.abs(result.probability.cpu().numpy() - wanted.probability).max())
    got = result.cpu().numpy()
    if way == "predict_log_proba":
        got = np.exp(got)
    wanted = calibrator.predict_proba(host)
    passed = got.max(1) > np.take_along_axis(got, host.argmax(1)[:, None], 1)[:, 0]
    return (
        np.inf
        if calibrator.accuracy_preserving and passed.any()
        else float(np.abs(got - wanted).max())
    )


def check_hard_rows() -> float:
    """Every method and way at every layout of the kernels; returns the largest difference."""
    worst = 0.0
    for classes in (2, 10, 33, 100, 129, 1_000, 1_001, 3_000, 40_000):
        logits = hard_rows(classes)
        half = torch.where(torch.isinf(logits), logits, logits.clamp(-6e4, 6e4)).half()
        for method in ("ts", "ets", "pts", "hts", "smart"):
            if method == "pts" and classes < 10:
                continue
            calibrator = fitted(method, classes)
            chosen = (PROBA, MODULE, CONFIDENCE, "predict_log_proba")
            for way in chosen if method == "pts" else chosen[:3]:
                for rows in (logits, logits[3:], half) if method == "pts" else (logits,):
                    result = call_of(calibrator, way)(rows)
                    error = difference(calibrator, way, rows, result)
                    worst = max(worst, error)
                    if not error <= TOLERANCE:
                        print(f"WRONG: {classes} {method} {way} {rows.dtype} {error}")
    for value in (np.nan, np.inf):
        rows = torch.zeros((9, 1_000), device="cuda")
        rows[4, 7] = value
        if refusal(calibrator, rows.repeat(1, 40)) != f"got {value} at row 4, class 7":
            print(f"WRONG: {value} was not refused")
            worst = np.inf
    return worst


def check_every_formula() -> float:
    """The golden files, one for each kind of formula, with a kernel or without."""
    worst = 0.0
    for path in sorted(GOLDEN.glob("*.safetensors")):
        calibrator = calibrant.load(path)
        with np.load(GOLDEN / "scores.npz") as scores:
            given = scores[f"{calibrator.input_}-{calibrator.n_classes_}"].astype(np.float32)
        rows = torch.from_numpy(given).cuda()
        for way in (PROBA, CONFIDENCE, "predict_log_proba"):
            error = difference(calibrator, way, rows, call_of(calibrator, way)(rows))
            worst = max(worst, error)
            if not error <= TOLERANCE:
                print(f"WRONG: {path.stem} {way} {error}")
    return worst


def refusal(calibrator: Calibrator, rows: torch.Tensor) -> str:
    """What is said of rows that are not valid."""
    try:
        calibrator.predict_proba(rows)
    except ValueError as error:
        return str(error).split(", ", 1)[1]
    return ""


# --- timing ---------------------------------------------------------------------------------------


def milliseconds(job: Callable[[], object], batches: int = 9) -> float:
    """The median over batches of calls, each of about 10 ms."""
    for _ in range(3):
        job()
    size = 1
    times: list[float] = []
    while len(times) < batches:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(size):
            job()
        end.record()
        end.synchronize()
        elapsed = begin.elapsed_time(end)
        if not times and elapsed < 10.0 and size < 200:
            size = min(200, max(2 * size, int(size * 12.0 / max(elapsed, 0.05))))
            continue
        times.append(elapsed / size)
    return float(np.median(times))


def copy_time(logits: torch.Tensor) -> float:
    """The unit of all ratios."""
    other = torch.empty_like(logits)
    return milliseconds(lambda: other.copy_(logits))


@contextmanager
def without_kernels() -> Iterator[None]:
    """Plain operations in the place of kernels."""
    os.environ["CALIBRANT_KERNELS"] = "0"
    try:
        yield
    finally:
        del os.environ["CALIBRANT_KERNELS"]


def timed(shape: tuple[int, int, str], lines: list[Line], plain: bool) -> list[Result]:
    """All lines of one shape."""
    rows, classes, dtype = shape
    logits, _ = overconfident(rows, classes, FLOATS[dtype])
    copy = copy_time(logits)
    softmax = milliseconds(lambda: torch.softmax(logits, -1))
    results = [_result(shape, Line("softmax", "torch"), softmax, copy, None, None)]
    checked = min(rows, max(32, 2_000_000 // classes))
    for line in lines:
        calibrator = fitted(line.method, classes)
        call = call_of(calibrator, line.way)
        taken = milliseconds(lambda call=call: call(logits))
        slow = None
        if plain:
            with without_kernels():
                slow = milliseconds(lambda call=call: call(logits), 3) / copy
        ends = [logits[:checked], logits[-checked:]]
        error = max(difference(calibrator, line.way, part, call(part)) for part in ends)
        results.append(_result(shape, line, taken, copy, slow, error))
    return results


def _result(
    shape: tuple[int, int, str],
    line: Line,
    taken: float,
    copy: float,
    plain: float | None,
    error: float | None,
) -> Result:
    result = Result(*shape, line.method, line.way, taken, taken / copy, line.target, plain, error)
    print(as_text(result), flush=True)
    return result


def as_text(result: Result) -> str:
    """A line of the table on the screen."""
    verdict = ""
    if result.target is not None:
        verdict = f"(at most {result.target:g}: {'ok' if met(result) else 'MISSED'})"
    plain = "" if result.plain is None else f"plain {result.plain:.1f}"
    error = "" if result.error is None else f"error {result.error:.0e}"
    shape = f"{result.rows:,} x {result.classes:,} {result.dtype}"
    return (
        f"{shape:<30}{result.method:<9}{result.way:<20}{result.milliseconds:>10.3f} ms "
        f"{result.copies:>7.2f} copies {verdict:<22}{plain:<14}{error}"
    )


def met(result: Result) -> bool:
    """Whether a line is as fast and as exact as it must be."""
    fast = result.target is None or result.copies <= result.target
    return fast and (result.error is None or result.error <= TOLERANCE)


def profiles(fit: bool) -> dict[str, float]:
    """The profile of 400,000 rows, what its first reading costs, and a fit of a million rows."""
    logits, labels = overconfident(*PROFILE_SHAPE)
    copy = copy_time(logits)
    taken = milliseconds(lambda: TemperatureProfile.from_logits(logits, labels), 5)
    found = TemperatureProfile.from_logits(logits, labels)
    started = time.perf_counter()
    found.nll(1.0)
    read = time.perf_counter() - started
    part = slice(0, 2_000)
    host = TemperatureProfile.from_logits(logits[part].cpu().numpy(), labels[part].cpu().numpy())
    error = max(
        float(np.abs(found.take(np.arange(2_000)).row_nll(t) - host.row_nll(t)).max())
        for t in (0.1, 0.7, 1.0, 3.0, 30.0)
    )
    with without_kernels():
        plain = milliseconds(lambda: TemperatureProfile.from_logits(logits, labels), 1)
    del logits, labels, found
    numbers = {
        "profile_ms": taken,
        "profile_copies": taken / copy,
        "profile_target": PROFILE_TARGET,
        "profile_plain_copies": plain / copy,
        "first_reading_s": read,
        "largest_difference_of_nll": error,
    }
    logits, labels = overconfident(*FIT_SHAPE)
    torch.cuda.synchronize()
    started = time.perf_counter()
    found = TemperatureProfile.from_logits(logits, labels)
    torch.cuda.synchronize()
    numbers["million_profile_s"] = time.perf_counter() - started
    started = time.perf_counter()
    found.nll(1.0)
    numbers["million_first_reading_s"] = time.perf_counter() - started
    started = time.perf_counter()
    if fit:
        calibrant.PTS().fit(found)
    numbers["million_pts_fit_s"] = time.perf_counter() - started
    numbers["million_total_s"] = sum(
        numbers[f"million_{part}_s"] for part in ("profile", "first_reading", "pts_fit")
    )
    numbers["million_target_s"] = FIT_TARGET
    for name, value in numbers.items():
        print(f"{name:<28}{value:.4g}", flush=True)
    return numbers


def once() -> None:
    """Each kernel with a target, one launch."""
    for (rows, classes, dtype), lines in JOBS.items():
        ways = {line.way for line in lines if line.target is not None}
        if not ways:
            continue
        logits, _ = overconfident(rows, classes, FLOATS[dtype])
        for way in sorted(ways & {MODULE, MODULE_CONFIDENCE}):
            call_of(fitted("pts", classes), way)(logits)
            torch.cuda.synchronize()
            print(f"launched: {rows:,} x {classes:,} {dtype}, {way}", flush=True)


# --- the table ------------------------------------------------------------------------------------


def machine(revision: str) -> dict[str, str]:
    """What the numbers are numbers of."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "memory_gib": f"{properties.total_memory / 2**30:.0f}",
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "calibrant": calibrant.__version__,
        "revision": revision,
    }


def regressions(now: list[Result], path: Path) -> list[str]:
    """Lines whose ratio has grown since the file was written."""
    before = {
        tuple(row[key] for key in ("rows", "classes", "dtype", "method", "way")): row["copies"]
        for row in json.loads(path.read_text())["results"]
    }
    return [
        f"{as_text(result)} was {before[key]:.2f} copies"
        for result in now
        if (key := (result.rows, result.classes, result.dtype, result.method, result.way)) in before
        and result.copies > before[key] * (GROWTH if "module" in result.way else GROWTH_WITH_WAIT)
    ]


def write_page(path: Path) -> None:
    """The table of a file of results, in the place that the page has for it."""
    document = json.loads(path.read_text())
    facts, numbers = document["machine"], document["profiles"]
    lines = [
        f"{facts['gpu']}, PyTorch {facts['torch']}, CUDA {facts['cuda']}, revision "
        f"{facts['revision']}. Largest difference to the CPU on hard rows: "
        f"{document['hard_rows_error']:.0e}.",
        "",
        "| scores | method | call | ms | copies | at most | without kernels |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in document["results"]:
        result = Result(**row)
        target = "" if result.target is None else f"{result.target:g}"
        target += "" if met(result) else ", missed"
        plain = "" if result.plain is None else f"{result.plain:.0f}"
        lines.append(
            f"| {result.rows:,} x {result.classes:,} {result.dtype} | {result.method} "
            f"| {result.way} | {result.milliseconds:.3f} | {result.copies:.2f} | {target} "
            f"| {plain} |"
        )
    lines += [
        "",
        f"The profile of 400,000 x 1,000 float32 logits takes {numbers['profile_copies']:.1f} "
        f"copies ({numbers['profile_plain_copies']:.0f} without the kernel) and comes to main "
        f"memory when it is first read ({numbers['first_reading_s']:.2f} s). One million rows: "
        f"profile {numbers['million_profile_s']:.2f} s, first reading "
        f"{numbers['million_first_reading_s']:.2f} s, default PTS fit on {facts['cores']} cores "
        f"{numbers['million_pts_fit_s']:.1f} s.",
        "",
    ]
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n".join(lines) + END + after)


def main() -> None:
    """Check and time everything, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="only write the table into docs/gpu.md")
    parser.add_argument("--once", action="store_true", help="only launch every kernel once")
    parser.add_argument("--against", type=Path, help="a file of earlier results")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file to write")
    parser.add_argument("--plain", action="store_true", help="also time plain operations")
    parser.add_argument("--no-fit", dest="fit", action="store_false", help="leave out the fit")
    parser.add_argument("--revision", default="of this tree", help="what is timed, for the record")
    options = parser.parse_args()
    if options.page:
        write_page(options.out)
        return
    if options.once:
        once()
        return
    error = max(check_hard_rows(), check_every_formula())
    print(f"hard rows, every formula: largest difference to the CPU {error:.1e}")
    results = [
        result for shape, lines in JOBS.items() for result in timed(shape, lines, options.plain)
    ]
    document = {
        "machine": machine(options.revision),
        "hard_rows_error": error,
        "results": [asdict(result) for result in results],
        "profiles": profiles(options.fit),
    }
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    worse = regressions(results, options.against) if options.against else []
    print(*worse, sep="\n")
    wrong = [result for result in results if result.error is not None and result.error > TOLERANCE]
    sys.exit(1 if worse or wrong or error > TOLERANCE else 0)


if __name__ == "__main__":
    main()
