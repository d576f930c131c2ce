"""Folders, patterns and many files on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant
from calibrant.streams import evaluate_stream, open_stream
from cli_support import as_json, refuse, run, succeed
from stream_support import rows, write_folder

LOGITS, LABELS = rows()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "in", LOGITS, LABELS)
    calibrant.save(calibrant.TS().fit(LOGITS, LABELS), "ts.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    "paths", [["in"], ["in/part-*.parquet"], [f"in/part-{n}.parquet" for n in range(3)]]
)
def test_fit_apply_and_evaluate(folder: Path, paths: list[str]) -> None:
    text = succeed("fit", *paths, "-o", "m.safetensors", "--method", "ts")
    assert "data    600 rows, 5 classes, logits" in text
    assert "sample" not in text
    expected = calibrant.TS().fit(LOGITS, LABELS).predict_proba(LOGITS)
    np.testing.assert_allclose(
        calibrant.load("m.safetensors").predict_proba(LOGITS), expected, rtol=1e-5
    )
    text = succeed("apply", "m.safetensors", *paths, "-o", "out")
    assert "wrote probs, prediction, confidence, label of 600 rows to out (3 shards; " in text
    assert "rows/s)" in text
    again = as_json("apply", "m.safetensors", *paths, "-o", "out")
    assert (again["n_rows"], again["shards"], again["skipped"]) == (0, 3, 3)
    document = as_json("evaluate", "out")
    known = evaluate_stream(open_stream(folder / "out"))
    assert document["scores"]["ece"] == known.ece
    assert "3 files" in succeed("evaluate", "out/")


def test_a_sample_is_told(folder: Path) -> None:
    options = ["--method", "ts", "--max-rows", "100", "-o", "m.safetensors"]
    assert "sample  100 of them, drawn by their content\n" in succeed("fit", "in", *options)
    text = succeed("fit", "in", *options, "--stratify")
    assert "drawn by their content, the same number of every class" in text
    sample = as_json("fit", "in", *options)["fit_info"]["details"]["sample"]
    assert sample == {"rows": 600, "kept": 100, "stratified": False, "unlabelled": 0}


def test_confidences_alone(folder: Path) -> None:
    succeed("apply", "ts.safetensors", "in", "-o", "out", "--only", "confidence")
    judged = as_json("evaluate", "out")["scores"]
    assert {"accuracy", "ece"} <= {*judged}
    assert "nll" not in judged
    line = refuse("evaluate", "out", "--metrics", "nll")
    assert "--metrics: nll needs more than confidences" in line


def test_arrays_as_outputs_and_a_calibrator_beside(folder: Path) -> None:
    succeed("apply", "ts.safetensors", "in", "-o", "out", "--format", "npy")
    judged = as_json("evaluate", "out")["scores"]
    both = as_json("evaluate", "in", "--calibrator", "ts.safetensors")
    for name in judged:
        assert judged[name] == pytest.approx(both["calibrated"][name], abs=1e-6)


def test_what_does_not_go_with_streams_or_with_files(folder: Path) -> None:
    np.savez("one.npz", logits=LOGITS, labels=LABELS)
    fit = ("fit", "one.npz", "-o", "m.safetensors")
    line = "goes with a folder, a pattern, or many files of scores"
    assert f"--max-rows {line}" in refuse(*fit, "--max-rows", "5")
    assert f"--stratify {line}" in refuse(*fit, "--stratify")
    assert f"--engine {line}" in refuse("evaluate", "one.npz", "--engine", "ray")
    apply = ("apply", "ts.safetensors")
    assert f"--only {line}" in refuse(*apply, "one.npz", "-o", "x.npz", "--only", "confidence")
    assert "--temperature goes with one file" in refuse(*apply, "in", "-o", "x", "--temperature")
    assert "--n-resamples goes with one file" in refuse("evaluate", "in", "--n-resamples", "5")
    assert "--address goes with --engine ray" in refuse("evaluate", "in", "--address", "x")
    assert "and one.npz is a file" in refuse(*apply, "in", "-o", "one.npz")
    assert "another folder than the input" in refuse(*apply, "in", "-o", "in/")
    assert "there is no folder no to make out in" in refuse(*apply, "in", "-o", "no/out")
    assert "no file matches in/*.csv" in refuse("evaluate", "in/*.csv")


def test_other_columns_do_not_mix(folder: Path) -> None:
    for number, index in enumerate(np.array_split(np.arange(600), 4)):
        heads = {"a_logits": LOGITS[index].tolist(), "b_logits": (-LOGITS[index]).tolist()}
        pq.write_table(pa.table(heads), folder / "in" / f"part-{number}.parquet")
    command = ("apply", "ts.safetensors", "in", "-o", "out", "--scores-key")
    succeed(*command, "a_logits")
    for number in (2, 3):
        (folder / "out" / f"part-{number}.parquet").unlink()
    line = refuse(*command, "b_logits")
    assert "the scores were read from a_logits, now b_logits" in line
    assert as_json(*command, "a_logits")["skipped"] == 2


def test_rows_without_labels_are_told(folder: Path) -> None:
    pq.write_table(pa.table({"logits": LOGITS[:10].tolist()}), folder / "in" / "part-9.parquet")
    text = succeed("fit", "in", "-o", "m.safetensors", "--method", "ts")
    assert "data    600 rows, 5 classes, logits\n        10 rows without a label were left" in text
    assert as_json("fit", "in", "-o", "m.safetensors", "--method", "ts")["n_unlabelled"] == 10
    succeed("apply", "m.safetensors", "in", "-o", "out")
    for place in ("in", "out"):
        assert "10 rows without a label were left out\n" in succeed("evaluate", place)
        answer = as_json("evaluate", place)
        assert (answer["n_rows"], answer["n_unlabelled"]) == (600, 10)
    result = run("monitor", "in", "--window", "300")
    assert result.stderr == "note: 10 rows without a label were left out\n"
    assert len(result.stdout.splitlines()) == 2


def test_swapped_arguments_are_told(folder: Path) -> None:
    np.savez("one.npz", logits=LOGITS, labels=LABELS)
    for scores, out in (("one.npz", "out.npz"), ("in", "out"), ("in/part-0.parquet", "out")):
        line = refuse("apply", scores, "ts.safetensors", "-o", out)
        assert line == (
            "error: the calibrator comes first, then the scores: ts.safetensors is a calibrator, "
            f"and {scores} is not. Say calibrant apply ts.safetensors {scores}\n"
        )
    assert "one.npz is not a file that calibrant wrote" in refuse(
        "apply", "one.npz", "one.npz", "-o", "out.npz"
    )


def test_a_corrupt_file_among_many_is_one_line(folder: Path) -> None:
    path = folder / "in" / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    for words in (
        ("fit", "in", "-o", "m.safetensors"),
        ("apply", "ts.safetensors", "in", "-o", "out"),
        ("evaluate", "in"),
    ):
        assert "in/part-1.parquet cannot be read as a parquet table" in refuse(*words)
    assert not (folder / "out").exists()


def test_monitor_prints_a_line_for_every_window(folder: Path) -> None:
    lines = succeed("monitor", "in", "--window", "250").splitlines()
    windows = [json.loads(line) for line in lines]
    assert [window["n_rows"] for window in windows] == [250, 250, 100]
    assert windows[0]["accuracy"] == (LOGITS[:250].argmax(axis=1) == LABELS[:250]).mean()
    assert windows[0]["alarm"]  # these logits are far too sure
    assert not json.loads(succeed("monitor", "in", "--min-error", "0.9"))["alarm"]
    succeed("apply", "ts.safetensors", "in", "-o", "out", "--only", "confidence")
    assert "got confidences alone" in refuse("monitor", "out")


def test_a_monitor_needs_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("none.npz", logits=np.eye(3), labels=np.full(3, np.nan))
    assert "none of the 3 rows has a label" in refuse("monitor", "none.npz")
