"""Streams of mixed files: labels that are missing, and columns that pass through ``apply``."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

import calibrant
from calibrant import FileError
from calibrant.streams import apply_stream, evaluate_stream, fit_stream, open_stream
from stream_support import lists, rows, write_table

LOGITS, LABELS = rows(60)
PARTS = [slice(0, 20), slice(20, 40), slice(40, 60)]


@pytest.fixture(scope="module")
def ts() -> calibrant.TS:
    return calibrant.TS().fit(LOGITS, LABELS)


def write_parts(folder: Path, *labels: Any, **columns: Any) -> Path:
    """A Parquet file for each part of the rows, with these labels or without any."""
    folder.mkdir()
    for number, (part, some) in enumerate(zip(PARTS, labels, strict=True)):
        beside = {} if some is None else {"label": some}
        extra = {name: values[part] for name, values in columns.items()}
        table = pa.table({"logits": lists(LOGITS[part]), **beside, **extra})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


def outputs(ts: calibrant.TS, folder: Path, out: Path, **options: Any) -> Any:
    apply_stream(ts, open_stream(folder, need_labels=False), out, **options)
    return dataset.dataset(out).to_table()


# --- labels of some files ---------------------------------------------------------------------


@pytest.mark.parametrize("unlabelled", [0, 1, 2])
def test_any_file_may_lack_labels(tmp_path: Path, ts: calibrant.TS, unlabelled: int) -> None:
    labels: list[Any] = [LABELS[part] for part in PARTS]
    labels[unlabelled] = None
    folder = write_parts(tmp_path / "in", *labels)
    table = outputs(ts, folder, tmp_path / "out")
    known = [label.as_py() for label in table["label"]]
    expected = LABELS.tolist()
    expected[PARTS[unlabelled]] = [None] * 20
    assert known == expected
    kept = np.array([label is not None for label in expected])
    for stream in (open_stream(folder), open_stream(tmp_path / "out")):
        assert evaluate_stream(stream).n_unlabelled == 20
    report = evaluate_stream(open_stream(folder))
    whole = calibrant.CalibrationMeter(input="logits").update(LOGITS[kept], LABELS[kept])
    assert (report.n_rows, report.ece) == (40, whole.compute().ece)
    fitted = fit_stream(open_stream(folder), "ts")
    assert fitted.temperature_ == pytest.approx(
        calibrant.TS().fit(LOGITS[kept], LABELS[kept]).temperature_, rel=1e-6
    )
    sample = fitted.fit_info_.details["sample"]
    assert (sample["rows"], sample["unlabelled"]) == (40, 20)


def test_null_labels_are_unlabelled(tmp_path: Path, ts: calibrant.TS) -> None:
    some = [None if row % 4 == 0 else int(label) for row, label in enumerate(LABELS[:20])]
    folder = write_parts(tmp_path / "in", some, LABELS[PARTS[1]], pa.nulls(20))
    table = outputs(ts, folder, tmp_path / "out")
    assert table["label"].to_pylist() == [*some, *LABELS[20:40].tolist(), *[None] * 20]
    assert table.schema.field("label").type == pa.int64()
    assert evaluate_stream(open_stream(folder), ts).n_unlabelled == 25
    assert fit_stream(open_stream(folder), "vector").fit_info_.details["sample"]["rows"] == 35


def test_nan_labels_in_arrays_are_unlabelled(tmp_path: Path, ts: calibrant.TS) -> None:
    labels = np.where(LABELS == 0, np.nan, LABELS)
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.logits.npy", LOGITS)
    np.save(tmp_path / "in" / "a.label.npy", labels)
    none = int(np.count_nonzero(LABELS == 0))
    assert evaluate_stream(open_stream(tmp_path / "in", batch_rows=7)).n_unlabelled == none
    apply_stream(ts, open_stream(tmp_path / "in"), tmp_path / "out", format="npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "a.label.npy"), labels)
    assert evaluate_stream(open_stream(tmp_path / "out")).n_unlabelled == none


def test_a_folder_without_any_label(tmp_path: Path, ts: calibrant.TS) -> None:
    folder = write_parts(tmp_path / "in", pa.nulls(20), [None] * 20, np.full(20, np.nan))
    for work in (evaluate_stream, fit_stream):
        with pytest.raises(ValueError, match="none of the 60 rows has a label"):
            work(open_stream(folder))
    absent = write_parts(tmp_path / "absent", None, None, None)
    with pytest.raises(FileError, match=r"part-0\.parquet has no labels \(label, labels\)"):
        open_stream(absent)
    with pytest.raises(FileError, match=r"part-0\.parquet has no 'target'"):
        open_stream(absent, labels_key="target", need_labels=False)
    assert outputs(ts, absent, tmp_path / "out").num_rows == 60


def test_two_columns_of_labels(tmp_path: Path, ts: calibrant.TS) -> None:
    """One must be chosen to be judged by; both pass through."""
    folder = write_parts(tmp_path / "in", *(LABELS[p] for p in PARTS), labels=LABELS[::-1].copy())
    with pytest.raises(FileError, match="has label and labels: say which with labels_key"):
        open_stream(folder)
    table = outputs(ts, folder, tmp_path / "out")
    assert table["label"].to_pylist() == LABELS.tolist()
    assert table["labels"].to_pylist() == LABELS[::-1].tolist()


def test_text_labels_pass_through(tmp_path: Path, ts: calibrant.TS) -> None:
    names = np.array(["cat", "dog", "eel", "fox", "gnu"])[LABELS].tolist()
    folder = write_parts(tmp_path / "in", names[:20], [None] * 20, names[40:])
    table = outputs(ts, folder, tmp_path / "out")
    assert table["label"].to_pylist() == [*names[:20], *[None] * 20, *names[40:]]
    with pytest.raises(FileError, match="column 'label': must hold numbers, got string"):
        open_stream(folder)
    with pytest.raises(FileError, match="column 'label': must hold numbers, got string"):
        evaluate_stream(open_stream(folder, need_labels=False))


def test_labels_of_other_types_have_one_in_the_outputs(tmp_path: Path, ts: calibrant.TS) -> None:
    """A column of whole numbers with gaps is written as floats by many programs."""
    gaps = np.where(np.arange(20) < 5, np.nan, LABELS[PARTS[1]])
    folder = write_parts(tmp_path / "in", LABELS[PARTS[0]].astype(np.int32), gaps, None)
    table = outputs(ts, folder, tmp_path / "out")
    assert table.schema.field("label").type == pa.float64()
    np.testing.assert_array_equal(table["label"].to_numpy()[:20], LABELS[:20])
    assert evaluate_stream(open_stream(tmp_path / "out")).n_unlabelled == 25


# --- other columns ----------------------------------------------------------------------------

TIMES = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=hour) for hour in range(60)]


def test_columns_of_every_type_pass_through(tmp_path: Path, ts: calibrant.TS) -> None:
    others = {
        "id": [f"row-{number:03d}" for number in range(60)],
        "time": TIMES,
        "group": [None if number % 7 == 0 else number for number in range(60)],
        "tags": [["a"] * (number % 3) for number in range(60)],
        "place": [{"x": number, "y": 0.5} for number in range(60)],
        "kind": pa.array(["red", "green"] * 30).dictionary_encode(),
        "vector": lists(LOGITS),
        "raw": [bytes([number]) for number in range(60)],
    }
    folder = write_parts(tmp_path / "in", *(LABELS[part] for part in PARTS), **others)
    table = outputs(ts, folder, tmp_path / "out")
    names = ["probs", "prediction", "confidence", "label", *others]
    assert table.column_names == names
    whole = dataset.dataset(folder).to_table()
    for name in others:
        assert table[name].type == whole[name].type
        assert table[name].to_pylist() == whole[name].to_pylist()
    np.testing.assert_allclose(
        np.array(table["probs"].to_pylist()), ts.predict_proba(LOGITS), atol=1e-6
    )
    few = outputs(ts, folder, tmp_path / "few", only="confidence")
    assert few.column_names == names[1:]


def test_columns_as_arrays(tmp_path: Path, ts: calibrant.TS) -> None:
    others = {
        "id": [f"row-{number}" for number in range(60)],
        "time": TIMES,
        "group": [None if number == 30 else number for number in range(60)],
        "vector": lists(LOGITS),
        "tags": [["a"] * (number % 3) for number in range(60)],
        "a.b": list(range(60)),
    }
    folder = tmp_path / "in"
    folder.mkdir()
    write_table(folder / "x.parquet", LOGITS, LABELS, extra=others)
    done = apply_stream(ts, open_stream(folder, batch_rows=11), tmp_path / "out", format="npy")
    written = {p.name.split(".")[1]: np.load(p) for p in (tmp_path / "out").glob("*.npy")}
    assert (
        {*written}
        == {*done.columns}
        == {*("probs", "prediction", "confidence", "label", "id", "time", "group", "vector")}
    )
    assert done.left_out == {
        "tags": "the output format has no such type",
        "a.b": "its name has a dot or a slash, and would name a file",
    }
    assert written["id"].tolist() == others["id"]
    assert written["time"].tolist()[7] == TIMES[7]
    assert np.isnan(written["group"][30])
    np.testing.assert_array_equal(np.delete(written["group"], 30), np.delete(np.arange(60), 30))
    np.testing.assert_array_equal(written["vector"], LOGITS)
    assert evaluate_stream(open_stream(tmp_path / "out")).n_rows == 60


def test_arrays_beside_scores_pass_through(tmp_path: Path, ts: calibrant.TS) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    ids = np.array([f"row-{number}" for number in range(60)])
    others = {"id": ids, "time": np.array(TIMES, "M8[h]"), "names": np.arange(5)}
    for name, array in {"logits": LOGITS, "label": LABELS, **others}.items():
        np.save(folder / f"a.{name}.npy", array)
    done = apply_stream(ts, open_stream(folder), tmp_path / "out")
    assert done.left_out == {"names": "it does not have one value, or one list of values, per row"}
    table = dataset.dataset(tmp_path / "out").to_table()
    assert table["id"].to_pylist() == ids.tolist()
    assert table["time"].to_pylist() == TIMES
    record = json.loads((tmp_path / "out" / "_a.shard.json").read_text())
    assert str((folder / "a.id.npy").resolve()) in {one["path"] for one in record["inputs"]}


def test_other_files_pass_their_columns_too(tmp_path: Path, ts: calibrant.TS) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    ids = np.array([f"row-{number}" for number in range(30)])
    labels = np.where(np.arange(30) < 4, np.nan, LABELS[:30])
    np.savez(folder / "a.npz", logits=LOGITS[:30], label=labels, id=ids, names=np.arange(5))
    head = ["id", "label", *(f"logits_{number}" for number in range(5))]
    lines = [",".join(head)]
    for number in range(30, 60):
        label = "NA" if number < 33 else LABELS[number]
        lines.append(f'"row-{number}",{label},' + ",".join(map(str, LOGITS[number])))
    (folder / "b.csv").write_text("\n".join(lines) + "\n")
    done = apply_stream(ts, open_stream(folder, batch_rows=4), tmp_path / "out")
    assert done.columns == ["probs", "prediction", "confidence", "label", "id"]
    assert [*done.left_out] == ["names"]
    table = dataset.dataset(tmp_path / "out").to_table()
    assert table["id"].to_pylist() == [f"row-{number}" for number in range(60)]
    assert table.schema.field("label").type == pa.int64()
    assert table["label"].null_count == 7
    for place in (folder, tmp_path / "out"):
        report = evaluate_stream(open_stream(place))
        assert (report.n_rows, report.n_unlabelled) == (53, 7)


def test_a_column_of_some_files_is_null_in_the_others(tmp_path: Path, ts: calibrant.TS) -> None:
    folder = write_parts(tmp_path / "in", *(LABELS[part] for part in PARTS))
    write_table(folder / "part-1.parquet", LOGITS[20:40], LABELS[20:40], extra={"id": ["x"] * 20})
    table = outputs(ts, folder, tmp_path / "out")
    assert table["id"].to_pylist() == [*[None] * 20, *["x"] * 20, *[None] * 20]


def test_outputs_win_over_columns_of_their_names(tmp_path: Path, ts: calibrant.TS) -> None:
    """Whoever reads the outputs must find one column of scores: the calibrated one."""
    taken = {
        "probs": lists(LOGITS),
        "probs_0": np.zeros(60),
        "probs_1": np.zeros(60),
        "confidence": np.zeros(60),
        "prediction": ["?"] * 60,
    }
    folder = tmp_path / "in"
    folder.mkdir()
    write_table(folder / "x.parquet", LOGITS, LABELS, extra={**taken, "probability": LABELS})
    stream = open_stream(folder, scores_key="logits")
    done = apply_stream(ts, stream, tmp_path / "out")
    assert done.columns == ["probs", "prediction", "confidence", "label", "probability"]
    assert done.left_out == {
        "probs": "an output has its name",
        "probs_0": "it holds other scores",
        "probs_1": "it holds other scores",
        "confidence": "an output has its name",
        "prediction": "an output has its name",
    }
    expected = evaluate_stream(stream, ts)
    assert evaluate_stream(open_stream(tmp_path / "out")).ece == pytest.approx(expected.ece)
    few = apply_stream(ts, stream, tmp_path / "few", only="confidence")
    assert "probs" not in few.columns
    assert evaluate_stream(open_stream(tmp_path / "few")).ece == pytest.approx(expected.ece)


def test_a_dictionary_of_one_long_text_is_refused(tmp_path: Path, ts: calibrant.TS) -> None:
    """A few bytes of a file can stand for any amount of text."""
    text = pa.DictionaryArray.from_arrays(np.zeros(60, np.int32), ["x" * 10**6])
    folder = tmp_path / "in"
    folder.mkdir()
    write_table(folder / "x.parquet", LOGITS, LABELS, extra={"text": text.cast(pa.string())})
    stream = open_stream(folder, max_size=10**7)
    with pytest.raises(FileError, match=r"its arrays would take 60\.0 MB of memory"):
        apply_stream(ts, stream, tmp_path / "out")


def test_types_that_files_do_not_tell_stay_as_they_are(tmp_path: Path, ts: calibrant.TS) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    large = np.full(30, 2**63, np.uint64)
    write_table(folder / "a.parquet", LOGITS[:30], LABELS[:30], extra={"id": ["x"] * 30})
    np.savez(folder / "b.npz", logits=LOGITS[30:], label=large, id=np.arange(30))
    apply_stream(ts, open_stream(folder), tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "b.parquet")
    assert table["label"].to_pylist() == large.tolist()
    assert table["id"].to_pylist() == list(range(30))
