"""Outputs of streams: whole shards or none, and the same ones whatever happened on the way."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

import calibrant
from calibrant import FileError
from calibrant.scale.streams import _applying
from calibrant.scale.streams._manifest import digest_of_file
from calibrant.streams import apply_stream, evaluate_stream, open_stream
from cli_support import SOURCE
from stream_support import contents, lists, rows, write_folder, write_table

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
    with pytest.raises(FileError, match=r"not finished: 1 of 3 shards are missing \(part-1\)"):
        open_stream(tmp_path / "out")


def test_other_work_does_not_go_on_in_a_folder(
    folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    out = tmp_path / "out"
    apply_stream(ts, open_stream(folder), out)
    before = contents(out)
    other = calibrant.TS().fit(LOGITS[:100], LABELS[:100])
    with pytest.raises(FileError, match="out holds outputs of other work: the calibrator is ano"):
        apply_stream(other, open_stream(folder), out)
    with pytest.raises(FileError, match="other work: only was None, now it is 'confidence'"):
        apply_stream(ts, open_stream(folder), out, only="confidence")
    with pytest.raises(FileError, match="other work: format was 'parquet', now it is 'npy'"):
        apply_stream(ts, open_stream(folder), out, format="npy")
    with pytest.raises(FileError, match="shard 'part-1' is no longer among the inputs"):
        apply_stream(ts, open_stream(folder / "part-0.parquet"), out)
    os.utime(folder / "part-0.parquet", ns=(1, 1))
    with pytest.raises(
        FileError, match=r"of the shard 'part-0', .*part-0\.parquet has been modified since"
    ):
        apply_stream(ts, open_stream(folder), out)
    assert contents(out) == before
    with pytest.raises(FileError, match="holds files that no earlier run wrote"):
        apply_stream(ts, open_stream(folder), folder)


def test_the_manifest_of_somebody_else_is_refused(
    folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for text in ("{", "[]", '{"format": "x"}', '{"format": "calibrant-outputs-2", "a": 1}'):
        (out / "_calibrant.json").write_text(text)
        with pytest.raises(FileError, match=r"_calibrant\.json cannot be read as what apply wrote"):
            apply_stream(ts, open_stream(folder), out)


def test_outputs_of_the_old_layout_are_refused(
    folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    old = {"format": "calibrant-outputs-1", "calibrator": "", "options": {}, "inputs": []}
    (out / "_calibrant.json").write_text(json.dumps({**old, "shards": []}))
    for use in (lambda: apply_stream(ts, open_stream(folder), out), lambda: open_stream(out)):
        with pytest.raises(
            FileError, match=r"written by an older version.*write to another folder"
        ):
            use()


# --- the same work ----------------------------------------------------------------------------


def two_heads(folder: Path) -> Path:
    """Four files with the scores of two heads, beside the ids of the rows."""
    folder.mkdir()
    for number, index in enumerate(np.array_split(np.arange(600), 4)):
        heads = {"a_logits": lists(LOGITS[index]), "b_logits": lists(-LOGITS[index])}
        pq.write_table(pa.table({**heads, "id": index}), folder / f"part-{number}.parquet")
    return folder


def interrupted(out: Path) -> dict[str, bytes]:
    """Remove two of the shards, as if the run had been killed; what is there then."""
    for name in ("part-2", "part-3"):
        (out / f"{name}.parquet").unlink()
        (out / f"_{name}.shard.json").unlink()
    return contents(out)


def test_other_columns_are_other_work(tmp_path: Path, ts: calibrant.TS) -> None:
    folder, out = two_heads(tmp_path / "in"), tmp_path / "out"
    head_a = open_stream(folder, scores_key="a_logits", need_labels=False)
    apply_stream(ts, head_a, out)
    before = interrupted(out)
    message = (
        "of the shard 'part-0', the scores were read from a_logits, now b_logits. To proceed, "
        "write to another folder, or delete this one"
    )
    with pytest.raises(FileError, match=message):
        apply_stream(ts, open_stream(folder, scores_key="b_logits", need_labels=False), out)
    with pytest.raises(
        FileError, match="of the shard 'part-0', the labels were read from no column, now id"
    ):
        apply_stream(ts, open_stream(folder, scores_key="a_logits", labels_key="id"), out)
    assert contents(out) == before
    assert apply_stream(ts, head_a, out).skipped == 2


def test_another_kind_of_scores_is_other_work(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_table(path, np.full((6, 5), 0.2), LABELS[:6], name="scores")
    logits = calibrant.TS().fit(LOGITS, LABELS)
    probs = calibrant.TS(input="probs").fit(np.full((6, 5), 0.2), LABELS[:6])
    with pytest.warns(calibrant.CalibrationWarning, match="looks like probabilities"):
        apply_stream(
            logits, open_stream(path, scores_key="scores", input="logits"), tmp_path / "out"
        )
    with pytest.raises(FileError, match="of the shard 'a', the scores were logits, now probs"):
        apply_stream(probs, open_stream(path, scores_key="scores", input="probs"), tmp_path / "out")


def test_another_folder_and_other_content_are_other_work(tmp_path: Path, ts: calibrant.TS) -> None:
    """Even where names, sizes and times are equal."""
    folder, out = write_folder(tmp_path / "in", LOGITS, LABELS, parts=4), tmp_path / "out"
    apply_stream(ts, open_stream(folder), out)
    before = interrupted(out)
    shutil.copytree(folder, tmp_path / "twin", copy_function=shutil.copy2)
    with pytest.raises(
        FileError, match=r"of the shard 'part-0', the input was .*/in/part-0\.parquet, now it is"
    ):
        apply_stream(ts, open_stream(tmp_path / "twin"), out)
    path = folder / "part-0.parquet"
    known, content = path.stat(), bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
    with pytest.raises(FileError, match=r"content of .*/in/part-0\.parquet has changed since"):
        apply_stream(ts, open_stream(folder), out)
    assert contents(out) == before


def test_a_digest_reads_little_of_a_large_file(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(2**40)  # a terabyte of nothing: to read it whole would take hours
    empty = digest_of_file(path)
    for place in (0, 2**40 - 1):
        with path.open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        assert digest_of_file(path) != empty
        empty = digest_of_file(path)


def test_a_shard_without_its_record_or_of_another_size_is_done_again(
    folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    out = tmp_path / "out"
    apply_stream(ts, open_stream(folder), out)
    whole = contents(out)
    (out / "_part-0.shard.json").unlink()
    (out / "part-1.parquet").write_bytes(b"short")
    assert apply_stream(ts, open_stream(folder), out).skipped == 1
    assert contents(out) == whole


def test_records_of_shards_are_read_with_care(
    folder: Path, tmp_path: Path, ts: calibrant.TS
) -> None:
    out = tmp_path / "out"
    apply_stream(ts, open_stream(folder), out)
    path = out / "_part-0.shard.json"
    record = json.loads(path.read_text())
    for change, message in (
        ({"files": {"../x": 1}}, "files must be names of files in the folder, got '../x'"),
        ({"inputs": [3]}, "inputs must be objects, got 3"),
        ({"n_rows": "3"}, "n_rows must be a whole number, got '3'"),
        ({"format": "x"}, "its format is not known"),
    ):
        path.write_text(json.dumps({**record, **change}))
        with pytest.raises(FileError, match=re.escape(message)):
            open_stream(out)


def test_outputs_are_a_data_set(folder: Path, tmp_path: Path, ts: calibrant.TS) -> None:
    apply_stream(ts, open_stream(folder), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir() if path.name[0] != "_"} == {*SHARDS}
    table = dataset.dataset(tmp_path / "out").to_table()
    np.testing.assert_array_equal(table["label"], LABELS)
    hidden = tmp_path / "_hidden.parquet"
    write_table(hidden, LOGITS, LABELS)
    apply_stream(ts, open_stream(hidden), tmp_path / "shown")
    assert dataset.dataset(tmp_path / "shown").count_rows() == 600


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calibrator": 3}, "calibrator must be text, got 3"),
        ({"options": []}, "options must be an object, got []"),
        ({"columns": None}, "columns must be an object, got None"),
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
    names = ["_calibrant.json", "_part-0.shard.json", "part-0.parquet"]
    assert sorted(path.name for path in out.iterdir()) == names


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
