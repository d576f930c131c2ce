"""Scores larger than memory, as docs/guide/scale.md tells: time, memory, and what a kill leaves.

    python benchmarks/scale.py                      all of it; 1.2 GB, then 10 GB on the disk
    python benchmarks/scale.py --rows 300000 --parts files
    python benchmarks/scale.py --parts ray          needs the extra ray

Every step is a process of its own. Its memory is the most that it held, less what it held after
its imports; on Ray that of the largest process, and all of them together (without the object
store, whose use is told apart).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
PARTS = ("files", "ray", "vocabulary", "sizing")

COMMON = """
import json, sys, time
import numpy as np, pyarrow.parquet, calibrant, calibrant.io
from calibrant import streams
from calibrant.calibrators import REGISTRY
from calibrant.scale.streams import _applying, _evaluating, _fitting, _reservoir

def held(name="VmHWM"):
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name + ":")))

arguments = json.loads(sys.argv[1])
who = streams
if arguments.get("ray"):
    import calibrant.ray
    who = calibrant.ray.connected()
    import ray
before, started = held(), time.perf_counter()
"""
END = """
result = {"seconds": time.perf_counter() - started, "memory": held() - before, **(said or {})}
print("RESULT " + json.dumps(result))
"""
STEPS = {
    "write": """
import pyarrow as pa
rng, classes, per = np.random.default_rng(0), arguments["classes"], arguments["file_rows"]
for number in range(arguments["files"]):
    logits = np.float32(3.0) * rng.standard_normal((per, classes), dtype=np.float32)
    label = (logits / 2 - np.log(rng.standard_exponential((per, classes), np.float32))).argmax(1)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), classes)
    pa.parquet.write_table(
        pa.table({"logits": lists, "label": label}), f"{arguments['in']}/part-{number:04d}.parquet",
        row_group_size=max(1, 2**25 // (4 * classes)), use_dictionary=["label"], compression="none",
    )
said = None
""",
    "write-wide": """
import pyarrow as pa
rng, classes, rows = np.random.default_rng(0), arguments["classes"], 250
base = np.float32(2.0) * rng.standard_normal((rows, classes), dtype=np.float32)
for number in range(arguments["files"]):
    columns = []
    for start in range(0, arguments["file_rows"], rows):
        # other rows each time, for far less than so many normal numbers cost
        logits = np.roll(base, int(rng.integers(classes)), axis=1)
        logits += rng.standard_normal((rows, 1), dtype=np.float32)
        logits[np.arange(rows), rng.integers(0, classes, rows)] += rng.uniform(8, 24, rows)
        chance = np.exp(logits / 1.5 - logits.max(axis=1, keepdims=True) / 1.5).cumsum(axis=1)
        point = rng.uniform(size=rows) * chance[:, -1]
        label = np.array([np.searchsorted(c, p) for c, p in zip(chance, point)])
        columns.append((logits, np.minimum(label, classes - 1)))
    logits, label = (np.concatenate(part) for part in zip(*columns))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(logits.ravel()), classes)
    pa.parquet.write_table(
        pa.table({"logits": lists, "label": label}), f"{arguments['in']}/part-{number:04d}.parquet",
        row_group_size=64, use_dictionary=["label"], compression="none",
    )
said = None
""",
    "copy": """
from calibrant.scale.streams._shard_files import writing
from pathlib import Path
stream = streams.open_stream(arguments["in"])
for index, source in enumerate(stream.sources):
    with writing(Path(arguments["out"]) / source.path.stem, ["probs", "label"], "parquet") as file:
        for piece in stream.pieces():
            if piece.source == index:
                for batch in stream.read(piece):
                    file.write({"probs": batch.scores, "label": batch.labels})
said = None
""",
    "fit": """
stream = streams.open_stream(arguments["in"])
fitted = who.fit_stream(stream, arguments["method"])
calibrant.save(fitted, arguments["calibrator"])
said = {"sample": fitted.fit_info_.details["sample"], "fit_seconds": fitted.fit_info_.seconds}
""",
    "apply": """
stream = streams.open_stream(arguments["in"])
fitted = calibrant.io.load_calibrator(arguments["calibrator"])
done = who.apply_stream(fitted, stream, arguments["out"], only=arguments.get("only"))
said = {"shards": done.n_shards}
""",
    "evaluate": """
report = who.evaluate_stream(streams.open_stream(arguments["out"]))
said = {name: report.metrics[name].value for name in ("accuracy", "ece")}
""",
}


def main() -> None:
    """Run the parts that were asked for, in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--vocabulary", type=int, default=128_256)
    parser.add_argument("--vocabulary-rows", type=int, default=20_000)
    parser.add_argument("--method", default="pts")
    parser.add_argument("--parts", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--folder", type=Path, help="where to write; left out: a temporary one")
    parser.add_argument("--rates", type=Path, help="a file to keep the measured rates in")
    options = parser.parse_args()
    parts = options.parts.split(",")
    folder = Path(tempfile.mkdtemp(prefix="calibrant-scale-", dir=options.folder))
    try:
        rates: dict[str, Any] = {}
        if {"files", "ray"} & {*parts}:
            rates = tall(folder, options, parts)
        if "sizing" in parts and "files" in rates:
            sizing(rates["files"], options)
        if "vocabulary" in parts:
            wide(folder, options)
        if options.rates:
            options.rates.write_text(json.dumps(rates, indent=1) + "\n")
    finally:
        shutil.rmtree(folder)


# --- many rows --------------------------------------------------------------------------------


def tall(folder: Path, options: argparse.Namespace, parts: list[str]) -> dict[str, Any]:
    """Fit, apply and evaluate, here and on Ray, beside a plain copy of the same files."""
    files = max(1, options.rows // 100_000)
    inputs = folder / "in"
    inputs.mkdir()
    common = {"in": str(inputs), "method": options.method, "classes": options.classes}
    step("write", {**common, "files": files, "file_rows": options.rows // files})
    size = sum(path.stat().st_size for path in inputs.iterdir())
    rows = files * (options.rows // files)
    print(f"\n{rows:,} rows x {options.classes} classes in {files} files, {size / 1e9:.2f} GB")
    copies = folder / "copy"
    copies.mkdir()
    step("copy", {**common, "out": str(copies)})  # the disk's cache is warm for all that follow
    shutil.rmtree(copies)
    copies.mkdir()
    copy = step("copy", {**common, "out": str(copies)})
    shutil.rmtree(copies)
    tell("read and write", copy, rows, copy)
    rates: dict[str, Any] = {}
    for engine in ("files", "ray"):
        if engine in parts:
            rates[engine] = _engine(folder, common, engine, rows, copy)
    shutil.rmtree(inputs)
    return rates


def _engine(
    folder: Path, common: dict[str, Any], engine: str, rows: int, copy: dict[str, Any]
) -> dict[str, Any]:
    print(f"\n{'this process' if engine == 'files' else 'a local Ray cluster'}")
    used = {**common, "ray": engine == "ray", "calibrator": str(folder / f"{engine}.safetensors")}
    found: dict[str, Any] = {"rows": rows, "copy": copy}
    for name, extra in (
        ("fit", {}),
        ("apply", {"out": str(folder / "all")}),
        ("evaluate", {"out": str(folder / "all")}),
        ("apply", {"out": str(folder / "few"), "only": "confidence"}),
        ("evaluate", {"out": str(folder / "few")}),
    ):
        result = step(name, {**used, **extra})
        label = f"{name}{' --only confidence' if str(extra.get('out', '')).endswith('few') else ''}"
        tell(label, result, rows, copy)
        found[label] = result
    for name in ("all", "few"):
        shutil.rmtree(folder / name)
    return found


# --- many classes -----------------------------------------------------------------------------


def wide(folder: Path, options: argparse.Namespace) -> None:
    """A vocabulary: the profile of every row, PTS from it, and confidences judged."""
    inputs = folder / "wide"
    inputs.mkdir()
    files = max(1, options.vocabulary_rows // 1000)
    common = {"in": str(inputs), "classes": options.vocabulary, "method": "pts"}
    common |= {"calibrator": str(folder / "wide.safetensors"), "out": str(folder / "wide-out")}
    step("write-wide", {**common, "files": files, "file_rows": options.vocabulary_rows // files})
    size = sum(path.stat().st_size for path in inputs.iterdir())
    rows = files * (options.vocabulary_rows // files)
    print(f"\n{rows:,} rows x {options.vocabulary:,} classes, {size / 1e9:.2f} GB")
    for name, extra in (("fit", {}), ("apply", {"only": "confidence"}), ("evaluate", {})):
        tell(name, step(name, {**common, **extra}), rows)


# --- sizes that were not measured -------------------------------------------------------------


def sizing(known: dict[str, Any], options: argparse.Namespace) -> None:
    """Hours for 1e9 rows of 1000 classes, at the measured rates per number."""
    numbers = known["rows"] * options.classes
    print("\n1e9 rows x 1000 classes float32 (4 TB), by the seconds per number that were measured")
    print("| step | s per 1e6 rows x 100 | 1 machine, 2 cores | 16 such | 64 such | written |")
    print("|---|---|---|---|---|---|")
    written = {"fit": "a few kB", "evaluate": "nothing", "apply": "4 TB"}
    for name, result in known.items():
        if name in ("rows", "copy"):
            continue
        confidence = name.startswith("evaluate --only")
        fixed = result.get("fit_seconds", 0.0)  # of the sample, however many rows there are
        rate = (result["seconds"] - fixed) / (known["rows"] if confidence else numbers)
        whole = (rate * (1e9 if confidence else 1e12) + fixed) / 3600
        million = (result["seconds"] - fixed) / known["rows"] * 1e6
        size = written.get(name, "20 GB" if name.startswith("apply") else "nothing")
        hours = " | ".join(f"{whole / machines:.1f} h" for machines in (1, 16, 64))
        print(f"| {name} | {million:.1f} | {hours} | {size} |")


# --- steps ------------------------------------------------------------------------------------


def step(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run one step as a process of its own."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "CALIBRANT_SCALE": mark}
    environment |= {"RAY_DEDUP_LOGS": "0", "RAY_AUTH_MODE": "disabled"}
    code = COMMON + STEPS[name] + END
    with subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as program:
        watch = Watch(mark) if arguments.get("ray") else None
        out, err = program.communicate()
        watched = watch.stop() if watch else {}
    lines = [line for line in out.splitlines() if line.startswith("RESULT ")]
    if program.returncode or not lines:
        raise SystemExit(f"{name} failed:\n{err[-3000:]}")
    return {**json.loads(lines[0].removeprefix("RESULT ")), **watched}


class Watch:
    """The private memory of all processes that a step has started."""

    def __init__(self, mark: str) -> None:
        self.mark, self.running = mark.encode(), True
        self.first: dict[int, int] = {}
        self.largest = self.together = 0
        self.thread = threading.Thread(target=self._look)
        self.thread.start()

    def stop(self) -> dict[str, int]:
        """The most that one of Ray's workers held, and that all of them held together."""
        self.running = False
        self.thread.join()
        return {"worker": self.largest, "workers": self.together}

    def _look(self) -> None:
        while self.running:
            held = [size for size in map(self._size, Path("/proc").glob("[0-9]*")) if size]
            self.largest = max(self.largest, max(held, default=0))
            self.together = max(self.together, sum(held))
            time.sleep(0.2)

    def _size(self, process: Path) -> int:
        """Private bytes of a worker, above the first that was seen of it: its imports of Ray."""
        try:
            name = (process / "cmdline").read_bytes()
            if not name.startswith(b"ray::") or self.mark not in (process / "environ").read_bytes():
                return 0
            lines = (process / "status").read_text().splitlines()
        except OSError:
            return 0
        held = 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))
        return max(0, held - self.first.setdefault(int(process.name), held))


def tell(name: str, result: dict[str, Any], rows: int, copy: dict[str, Any] | None = None) -> None:
    """A line of results."""
    said = [f"{result['seconds']:8.1f} s", f"{rows / result['seconds']:12,.0f} rows/s"]
    if copy is not None:
        said.append(f"{result['seconds'] / copy['seconds']:5.2f} x read and write")
    said.append(f"{result['memory'] / 1e6:6.0f} MB")
    if "worker" in result:
        said.append(
            f"workers {result['worker'] / 1e6:.0f} MB, together {result['workers'] / 1e6:.0f}"
        )
    extra = {k: result[k] for k in ("sample", "fit_seconds", "ece", "accuracy") if k in result}
    print(f"{name:28}" + "  ".join(said), extra or "", flush=True)


if __name__ == "__main__":
    main()
