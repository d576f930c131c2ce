"""Outputs of streams: whole shards or none, and the same ones whatever happened on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import calibrant
from calibrant import FileError
from calibrant.streams import _applying, apply_stream, evaluate_stream, open_stream
from cli_support import SOURCE
from stream_support import contents, rows, write_folder, write_table

LOGITS, LABELS = rows()
SHARDS = [f"part-{number}.parquet" for number in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "in", LOGITS, LABELS)


@pytest.fixture(scope="module")
def ts() -> calibrant.TS:
    return calibrant.TS().fit(LOGITS, LABELS)


def columns(folder: Path) -> dict[str, np.ndarray]:
    table = pq.read_table(folder)
    return {
        name: np.array(table[name].to_pylist() if name == "probs" else table[name])
        for name in table.column_names
    }


@pytest.mark.parametrize("method", ["ts", "vector", "irova", "venn-abers"])
def test_outputs_are_those_in_memory(folder: Path, tmp_path: Path, method: str) -> None:
    fitted = calibrant.calibrator(method).fit(LOGITS, LABELS)
    done = apply_stream(fitted, open_stream(folder, batch_rows=33), tmp_path / "out")
    assert (done.n_rows, done.n_shards, done.skipped) == (600, 3, 0)
    assert done.columns == ["probs", "prediction", "confidence", "label"]
    got = columns(tmp_path / "out")
    probs = fitted.predict_proba(LOGITS)
    np.testing.assert_allclose(got["probs"], probs, atol=1e-6)
    np.testing.assert_array_equal(got["prediction"], fitted.predict(LOGITS))
    np.testing.assert_allclose(got["confidence"], probs.max(axis=1), atol=1e-6)
    np.testing.assert_array_equal(got["label"], LABELS)


def test_confidences_alone(folder: Path, tmp_path: Path, ts: calibrant.TS) -> None:
    apply_stream(ts, open_stream(folder), tmp_path / "all")
    apply_stream(ts, open_stream(folder), tmp_path / "few", only="confidence")
    every, few = columns(tmp_path / "all"), columns(tmp_path / "few")
    assert [*few] == ["prediction", "confidence", "label"]
    np.testing.assert_array_equal(few["prediction"], every["prediction"])
    np.testing.assert_allclose(few["confidence"], every["confidence"], rtol=1e-6)


def test_arrays_as_outputs(folder: Path, tmp_path: Path, ts: calibrant.TS) -> None:
    apply_stream(ts, open_stream(folder, batch_rows=50), tmp_path / "out", format="npy")
    names = sorted(path.name for path in (tmp_path / "out").glob("part-1*"))
    assert names == [f"part-1.{n}.npy" for n in ("confidence", "label", "prediction", "probs")]
    stream = open_stream(tmp_path / "out")
    assert (stream.input, stream.n_rows) == ("probs", 600)
    got = np.concatenate([batch.scores for batch in stream])
    np.testing.assert_allclose(got, ts.predict_proba(LOGITS), atol=1e-6)
    assert evaluate_stream(stream).n_rows == 600


def test_large_files_become_several_shards(
    tmp_path: Path, ts: calibrant.TS, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "big.parquet", LOGITS, LABELS, row_group_size=70)
    monkeypatch.setattr(_applying, "SHARD_BYTES", 150 * 28)
    done = apply_stream(ts, open_stream(tmp_path / "big.parquet"), tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").glob("*.parquet"))
    assert names == [f"big-{number:05d}-of-00005.parquet" for number in range(5)]
    assert done.n_shards == 5
    np.testing.assert_array_equal(columns(tmp_path / "out")["label"], LABELS)


def test_files_of_one_name_do_not_meet(tmp_path: Path, ts: calibrant.TS) -> None:
    for name, part in (("a", slice(0, 200)), ("b", slice(200, 600))):
        (tmp_path / name).mkdir()
        write_table(tmp_path / name / "x.parquet", LOGITS[part], LABELS[part])
    stream = open_stream([tmp_path / "a", tmp_path / "b"])
    apply_stream(ts, stream, tmp_path / "out")
    np.testing.assert_array_equal(columns(tmp_path / "out")["label"], LABELS)


def test_scores_without_labels(tmp_path: Path, ts: calibrant.TS) -> None:
    np.save(tmp_path / "a.logits.npy", LOGITS)
    stream = open_stream(tmp_path / "a.logits.npy", need_labels=False)
    assert apply_stream(ts, stream, tmp_path / "out").columns == [
        "probs",
        "prediction",
        "confidence",
    ]


# --- going on ---------------------------------------------------------------------------------


def test_finished_shards_stay(folder: Path, tmp_path: Path, ts: calibrant.TS) -> None:
    out = tmp_path / "out"
    apply_stream(ts, open_stream(folder), out)
    whole = contents(out)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    (out / "part-1.parquet").unlink()
    (out / ".calibrant-0123456789abcdef.tmp").write_bytes(b"half")  # of a run that was killed
    done = apply_stream(ts, open_stream(folder), out)
    assert (done.n_rows, done.skipped) == (200, 2)
    assert contents(out) == whole
    assert before[out / "part-0.parquet"] == (out / "part-0.parquet").stat().st_mtime_ns


def test_an_unfinished_folder_is_not_judged(folder: Path, tmp_path: Path, ts: calibrant.TS) -> None:
    apply_stream(ts, open_stream(folder), tmp_path / "out")
    (tmp_path / "out" / "part-1.parquet").unlink()
    with pytest.raises(FileError, match=r"not finished: 1 of 3 files are missing \(part-1"):
        open_stream(tmp_path / "out")


def test_other_work_does_not_go_on_in_a_folder(
    folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    out = tmp_path / "out"
    apply_stream(ts, open_stream(folder), out)
    before = contents(out)
    other = calibrant.TS().fit(LOGITS[:100], LABELS[:100])
    with pytest.raises(FileError, match="outputs of other calibrators"):
        apply_stream(other, open_stream(folder), out)
    with pytest.raises(FileError, match="outputs of other options"):
        apply_stream(ts, open_stream(folder), out, only="confidence")
    os.utime(folder / "part-0.parquet", ns=(1, 1))
    with pytest.raises(FileError, match="of other inputs, or of ones that have changed since"):
        apply_stream(ts, open_stream(folder), out)
    assert contents(out) == before
    with pytest.raises(FileError, match="holds files that no earlier run wrote"):
        apply_stream(ts, open_stream(folder), folder)


def test_the_manifest_of_somebody_else_is_refused(
    folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for text in ("{", "[]", '{"format": "x"}', '{"format": "calibrant-outputs-1", "a": 1}'):
        (out / "_calibrant.json").write_text(text)
        with pytest.raises(FileError, match=r"_calibrant\.json cannot be read as what apply wrote"):
            apply_stream(ts, open_stream(folder), out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calibrator": 3}, "calibrator must be text, got 3"),
        ({"options": []}, "options must be an object, got []"),
        ({"inputs": None}, "inputs must be a list, got None"),
        ({"shards": "part-0.parquet"}, "shards must be a list, got 'part-0.parquet'"),
        *(
            ({"shards": [name]}, f"shards must be names of files in the folder, got {name!r}")
            for name in (1, "", "..", "../in/part-0.parquet", "/etc/passwd")
        ),
    ],
)
def test_a_manifest_of_other_values_is_refused(
    folder: Path, tmp_path: Path, ts: calibrant.TS, change: dict[str, Any], message: str
) -> None:
    out = tmp_path / "out"
    apply_stream(ts, open_stream(folder), out)
    manifest = out / "_calibrant.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    message = re.escape(f"_calibrant.json cannot be read as what apply wrote: {message}")
    with pytest.raises(FileError, match=message):
        apply_stream(ts, open_stream(folder), out)
    with pytest.raises(FileError, match=message):
        open_stream(out)


def test_a_corrupt_file_leaves_nothing_half_written(tmp_path: Path, ts: calibrant.TS) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in SHARDS:
        write_table(folder / name, LOGITS, LABELS, compression="none", write_page_checksum=True)
    bad = bytearray((folder / "part-1.parquet").read_bytes())
    bad[3000] ^= 1
    (folder / "part-1.parquet").write_bytes(bad)
    with pytest.raises(FileError, match=r"part-1\.parquet cannot be read"):
        apply_stream(ts, open_stream(folder), out)
    assert sorted(path.name for path in out.iterdir()) == ["_calibrant.json", "part-0.parquet"]


def test_bad_rows_name_their_file_and_leave_nothing(tmp_path: Path, ts: calibrant.TS) -> None:
    logits = LOGITS.copy()
    logits[599, 0] = np.nan
    write_folder(tmp_path / "in", logits, LABELS)
    with pytest.raises(ValueError, match="logits must be finite") as caught:
        apply_stream(ts, open_stream(tmp_path / "in"), tmp_path / "out")
    assert "part-2.parquet" in caught.value.__notes__[0]
    assert not (tmp_path / "out" / "part-2.parquet").exists()


def test_options_that_make_no_sense(folder: Path, tmp_path: Path, ts: calibrant.TS) -> None:
    for options, message in (
        ({"only": "probs"}, 'only must be "confidence" or None'),
        ({"format": "csv"}, 'format must be "parquet" or "npy"'),
    ):
        with pytest.raises(ValueError, match=message):
            apply_stream(ts, open_stream(folder), tmp_path / "out", **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a fitted calibrator of calibrant is needed"):
        apply_stream("ts", open_stream(folder), tmp_path / "out")  # type: ignore[arg-type]
    probs = calibrant.TS(input="probs").fit(np.full((4, 5), 0.2), [0, 1, 2, 3])
    with pytest.raises(ValueError, match="the calibrator takes probs, got logits"):
        apply_stream(probs, open_stream(folder), tmp_path / "out")


def test_a_stream_without_rows_makes_no_folder(tmp_path: Path, ts: calibrant.TS) -> None:
    write_table(tmp_path / "a.parquet", LOGITS[:0], LABELS[:0])
    np.save(tmp_path / "b.logits.npy", LOGITS[:0])
    for name in ("a.parquet", "b.logits.npy"):
        with pytest.raises(ValueError, match="the stream has no rows"):
            apply_stream(ts, open_stream(tmp_path / name, need_labels=False), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- killed -----------------------------------------------------------------------------------

PROGRAM = """
import sys, time
from calibrant import io
from calibrant.streams import apply_stream, open_stream
calibrator, folder, out, pause = sys.argv[1:]
stream = open_stream(folder, batch_rows=25)
print("ready", flush=True)
slow = lambda done, total: time.sleep(float(pause))
apply_stream(io.load_calibrator(calibrator), stream, out, progress=slow)
"""


def kill_after(seconds: float, calibrator: Path, folder: Path, out: Path) -> bool:
    """Kill a program that applies a calibrator so long after it began; whether it was running."""
    arguments = [str(calibrator), str(folder), str(out), "0.02"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, env=environment
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        time.sleep(seconds)
        running = program.poll() is None
        program.send_signal(signal.SIGKILL)
    return running


def killed_and_resumed(tmp_path: Path, times: int, seed: int) -> None:
    folder = write_folder(tmp_path / "in", LOGITS, LABELS, parts=6)
    ts = calibrant.TS().fit(LOGITS, LABELS)
    calibrant.save(ts, tmp_path / "ts.safetensors")
    apply_stream(ts, open_stream(folder, batch_rows=25), tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    rng, unfinished = np.random.default_rng(seed), 0
    for number in range(times):
        out = tmp_path / f"out-{number}"
        places = (tmp_path / "ts.safetensors", folder, out)
        for pause in rng.uniform(0.0, 0.4, rng.integers(1, 4)):
            running = kill_after(pause, *places)
            shards = {p.name: p.read_bytes() for p in out.glob("part-*")} if out.exists() else {}
            assert shards.items() <= whole.items()  # whole ones, under their names, or none
            unfinished += running
        apply_stream(ts, open_stream(folder, batch_rows=25), out)
        assert contents(out) == whole
    assert unfinished  # else nothing was shown


def test_killed_and_resumed(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, 1, seed=3)


@pytest.mark.slow
def test_killed_and_resumed_ten_times(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, 10, seed=0)
