"""Streams give the rows of their files: all of them, once, in order, and a few at a time."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant import FileError
from calibrant.scale.streams._stream import files_of
from calibrant.streams import open_stream
from stream_support import rows, write_folder, write_table

LOGITS, LABELS = rows()


def gathered(stream: object) -> tuple[np.ndarray, np.ndarray]:
    batches = list(stream)  # type: ignore[call-overload]
    return np.concatenate([b.scores for b in batches]), np.concatenate([b.labels for b in batches])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "in", LOGITS, LABELS)


@pytest.mark.parametrize("batch_rows", [1, 7, 70, 10_000, None])
def test_all_rows_in_order_however_many_at_once(folder: Path, batch_rows: int | None) -> None:
    stream = open_stream(folder, batch_rows=batch_rows)
    assert (stream.n_rows, stream.n_classes, stream.input) == (600, 5, "logits")
    for _ in range(2):  # it begins anew each time
        scores, labels = gathered(stream)
        np.testing.assert_array_equal(scores, LOGITS)
        np.testing.assert_array_equal(labels, LABELS)
    assert max(len(batch) for batch in stream) <= (batch_rows or 600)
    first = {(batch.file.name, batch.first_row) for batch in stream}
    assert ("part-1.parquet", 0) in first


@pytest.mark.parametrize("most_bytes", [1, 1500, 10**9])
def test_pieces_are_all_rows_and_cut_between_row_groups(folder: Path, most_bytes: int) -> None:
    stream = open_stream(folder)
    pieces = stream.pieces(most_bytes)
    scores = np.concatenate([b.scores for piece in pieces for b in stream.read(piece)])
    np.testing.assert_array_equal(scores, LOGITS)
    assert {piece.start % 70 for piece in pieces} == {0}
    assert len(pieces) == {1: 9, 1500: 9, 10**9: 3}[most_bytes]


def test_numbered_columns_are_scores(tmp_path: Path) -> None:
    columns = {f"logits_{c}": LOGITS[:, c] for c in range(5)}
    pq.write_table(pa.table({**columns, "label": LABELS}), tmp_path / "a.parquet")
    stream = open_stream(tmp_path / "a.parquet", batch_rows=100)
    assert stream.n_classes == 5
    np.testing.assert_array_equal(gathered(stream)[0], LOGITS)


def test_arrays_that_belong_together(tmp_path: Path) -> None:
    for name, part in (("a", slice(0, 200)), ("b", slice(200, 600))):
        np.save(tmp_path / f"{name}.logits.npy", LOGITS[part])
        np.save(tmp_path / f"{name}.label.npy", LABELS[part])
    stream = open_stream(tmp_path, batch_rows=64)
    assert repr(stream) == "ScoreStream(2 files, 600 rows, 5 classes, logits)"
    np.testing.assert_array_equal(gathered(stream)[0], LOGITS)
    np.testing.assert_array_equal(gathered(stream)[1], LABELS)


def test_an_array_and_its_labels_elsewhere(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", np.asfortranarray(LOGITS))
    np.save(tmp_path / "y.npy", LABELS)
    stream = open_stream(
        tmp_path / "z.npy", labels_path=tmp_path / "y.npy", input="logits", batch_rows=99
    )
    np.testing.assert_array_equal(gathered(stream)[0], LOGITS)
    np.testing.assert_array_equal(gathered(stream)[1], LABELS)
    np.save(tmp_path / "y.npy", LABELS[1:])
    with pytest.raises(FileError, match=r"y\.npy has 599 rows, but .*z\.npy has 600"):
        open_stream(tmp_path / "z.npy", labels_path=tmp_path / "y.npy", input="logits")


def test_other_formats_are_read_one_by_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", logits=LOGITS[:300], labels=LABELS[:300])
    np.savez(tmp_path / "b.npz", logits=LOGITS[300:], labels=LABELS[300:])
    stream = open_stream([tmp_path / "a.npz", tmp_path / "b.npz"], batch_rows=100)
    assert stream.n_rows is None
    np.testing.assert_array_equal(gathered(stream)[0], LOGITS)


def test_files_of_folders_patterns_and_lists(folder: Path) -> None:
    names = [f"part-{n}.parquet" for n in range(3)]
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").touch()
    (folder / "notes.txt").touch()
    assert [path.name for path in files_of(folder)] == names
    assert [path.name for path in files_of(folder / "part-[12].parquet")] == names[1:]
    assert [p.name for p in files_of([folder / names[2], folder])] == [names[2], *names]
    with pytest.raises(FileNotFoundError, match="no file matches"):
        files_of(folder / "*.csv")
    with pytest.raises(ValueError, match="at least one file, got none"):
        files_of([])
    with pytest.raises(FileNotFoundError, match="holds no files of scores"):
        files_of(folder.parent)


def test_weights_travel_with_their_rows(tmp_path: Path) -> None:
    weight = np.arange(600.0)
    write_table(tmp_path / "a.parquet", LOGITS, LABELS, extra={"w": weight})
    stream = open_stream(tmp_path, weights_key="w", batch_rows=50)
    got = np.concatenate([batch.weights for batch in stream])  # type: ignore[misc]
    np.testing.assert_array_equal(got, weight)


def test_confidences_alone_are_told_by_their_columns(tmp_path: Path) -> None:
    table = {"confidence": [0.5, 0.9], "prediction": [1, 0], "label": [1, 1]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    (batch,) = open_stream(tmp_path)
    assert open_stream(tmp_path).input == "confidence"
    assert batch.predictions is not None
    assert batch.predictions.tolist() == [1, 0]


# --- what is refused --------------------------------------------------------------------------


def test_files_that_do_not_go_together(folder: Path) -> None:
    write_table(folder / "x.parquet", LOGITS[:, :4], LABELS % 4)
    with pytest.raises(FileError, match=r"part-0\.parquet has 5 classes, but .*x\.parquet has 4"):
        open_stream(folder)
    write_table(folder / "x.parquet", np.full((2, 5), 0.2), LABELS[:2], name="probs")
    with pytest.raises(FileError, match=r"part-0\.parquet has logits, but .*x\.parquet has probs"):
        open_stream(folder)


@pytest.mark.parametrize("fault", ["footer", "empty", "foreign"])
def test_a_corrupt_file_among_many_is_named_before_any_work(folder: Path, fault: str) -> None:
    path = folder / "part-1.parquet"
    whole = path.read_bytes()
    path.write_bytes({"footer": whole[:-20], "empty": b"", "foreign": b"hello" * 100}[fault])
    with pytest.raises(FileError, match=re.escape(str(path))) as caught:
        open_stream(folder)
    assert "part-0" not in str(caught.value)


def test_a_corrupt_page_among_many_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        path = folder / f"part-{number}.parquet"
        write_table(path, LOGITS, LABELS, compression="none", write_page_checksum=True)
    bad = bytearray((folder / "part-1.parquet").read_bytes())
    bad[3000] ^= 1
    (folder / "part-1.parquet").write_bytes(bad)
    with pytest.raises(FileError, match=r"part-1\.parquet cannot be read as a parquet table"):
        list(open_stream(folder))


def test_lists_of_other_lengths_and_nulls_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values = [[1.0, 2.0]] * 50 + [[1.0], [1.0, 2.0, 3.0]]
    pq.write_table(pa.table({"logits": values, "label": [0] * 52}), path)
    with pytest.raises(FileError, match=r"one length, row 50 has 1 values and row 51 has 3"):
        list(open_stream(path, batch_rows=25))
    pq.write_table(pa.table({"logits": [[1.0, 2.0]] * 52, "label": [*([0] * 51), None]}), path)
    labels = np.concatenate([batch.labels for batch in open_stream(path, batch_rows=25)])
    assert np.isnan(labels[51])
    assert not labels[:51].any()
    logits = [*([[1.0, 2.0]] * 51), None]
    pq.write_table(pa.table({"logits": logits, "label": [0] * 52}), path)
    with pytest.raises(FileError, match="one length, and no nulls, got 103 values in 52 rows"):
        list(open_stream(path, batch_rows=25))
    pq.write_table(pa.table({"logits": [[1.0, 2.0], [1.0]], "label": [0, 0]}), path)
    with pytest.raises(FileError, match="one length, and no nulls, got 3 values in 2 rows"):
        open_stream(path)


@pytest.mark.parametrize("other", ["label", "weight"])
def test_arrays_of_other_lengths_are_named(tmp_path: Path, other: str) -> None:
    """Labels come before logits in the order of names, and weights behind them."""
    arrays = {"logits": LOGITS, "label": LABELS, "weight": np.ones(600)}
    for name, array in (arrays | {other: arrays[other][:599]}).items():
        np.save(tmp_path / f"a.{name}.npy", array)
    message = rf"a\.{other}\.npy has 599 rows, but .*a\.logits\.npy has 600"
    with pytest.raises(FileError, match=message):
        open_stream(tmp_path, weights_key="weight")


def test_text_and_claims_of_too_much_memory_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"logits": [["a", "b"]], "label": [0]}), path)
    with pytest.raises(FileError, match="must hold numbers"):
        open_stream(path)
    write_table(path, LOGITS, LABELS)
    with pytest.raises(FileError, match="its arrays would take"):
        open_stream(path, max_size=1000)


def test_labels_of_several_files_and_batches_of_nothing(folder: Path) -> None:
    with pytest.raises(ValueError, match="labels_path goes with one file"):
        open_stream(folder, labels_path=folder / "part-0.parquet")
    with pytest.raises(ValueError, match="batch_rows must be at least 1, got 0"):
        open_stream(folder, batch_rows=0)
    with pytest.raises(FileNotFoundError, match=r"no\.parquet does not exist"):
        open_stream(folder / "no.parquet")


def test_files_without_rows_are_passed_over(folder: Path) -> None:
    write_table(folder / "empty.parquet", LOGITS[:0], LABELS[:0], fixed=False)
    stream = open_stream(folder)
    assert (stream.n_rows, stream.n_classes) == (600, 5)
    np.testing.assert_array_equal(gathered(stream)[0], LOGITS)
