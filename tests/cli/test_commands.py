"""The command line as a user meets it: what it prints, where, and how it ends."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import REGISTRY, FitInfo
from calibrant.evaluation.comparison import DEFAULT_METRICS
from calibrant.formulas.temperature import ConstantTemperature
from calibrant.metrics import METRICS
from calibrant.scorefiles import read_scores
from cli_support import (
    as_json,
    program,
    python,
    refuse,
    run,
    sample,
    softmax,
    succeed,
    whole_archive,
)

COMMANDS = [
    *("fit", "apply", "evaluate", "compare", "export", "attach", "demo", "methods", "reproduce")
]
SHOWN = ["accuracy", "ece", "brier", "nll"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with overconfident logits in val.npz and a fitted ts.safetensors."""
    monkeypatch.chdir(tmp_path)
    logits, labels = sample(300, 4)
    np.savez("val.npz", logits=logits, labels=labels)
    np.save("logits.npy", logits)
    np.save("labels.npy", labels)
    calibrant.save(calibrant.TS().fit(logits, labels), "ts.safetensors")
    return tmp_path


# --- help and version -------------------------------------------------------------------------


def test_alone_it_shows_help() -> None:
    text = succeed()
    assert "Usage: calibrant" in text
    assert all(command in text for command in COMMANDS)
    assert text.strip() == succeed("--help").strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    text = succeed(command, "--help")
    assert f"calibrant {command}" in text.partition("Examples:")[2]
    assert max(map(len, text.splitlines())) <= 80


def words_of_help(command: str) -> str:
    """The help without its frames, as one line."""
    return " ".join(re.sub(r"[\u2500-\u257f]", " ", succeed(command, "--help")).split())


def test_version() -> None:
    assert succeed("--version") == f"calibrant {calibrant.__version__}\n"


LOADED = """
import sys
from calibrant.cli import main
try:
    main()
except SystemExit as end:
    print(end.code, *sorted(sys.modules), file=sys.stderr)
"""


def loaded(*args: str) -> set[str]:
    """The modules that a command line loads."""
    code, *modules = python(LOADED, *args).stderr.split()
    assert code == "0"
    return set(modules)


def test_help_loads_nothing_heavy() -> None:
    modules = loaded("--help")
    assert not modules & {"numpy", "scipy", "scipy.stats", "sklearn", "torch", "onnx"}
    assert not {name for name in modules if name.startswith("calibrant_papers.")} - {
        "calibrant_papers.plugin"
    }


def test_commands_load_no_papers(folder: Path) -> None:
    modules = loaded("fit", "val.npz", "-o", "out.safetensors", "--method", "ts")
    assert not {name for name in modules if name.startswith("calibrant_papers")}
    assert not modules & {"torch", "onnx", "sklearn", "scipy.stats", "pandas"}


def test_reproduce_is_listed_by_its_own_help() -> None:
    from calibrant_papers.command import reproduce

    own = (reproduce.__doc__ or "").split()
    listed = succeed("--help").partition(" reproduce ")[2].partition("\u2570")[0]
    assert listed.replace("\u2502", " ").split() == own
    assert " ".join(own) in words_of_help("reproduce")
    assert "Usage: calibrant reproduce logits" in succeed("reproduce", "logits", "--help")


# --- fit --------------------------------------------------------------------------------------


def test_fit_saves_what_the_library_fits(folder: Path) -> None:
    text = succeed("fit", "val.npz", "-o", "out.safetensors", "--method", "TS")
    expected = calibrant.TS().fit(np.load("logits.npy"), np.load("labels.npy"))
    saved = calibrant.load("out.safetensors")
    assert isinstance(saved, calibrant.TS)
    assert saved.temperature_ == expected.temperature_
    assert saved.get_params() == expected.get_params()
    assert "ts (TemperatureScaling)" in text
    assert "300 rows, 4 classes, logits" in text
    before, after = expected.fit_info_.before, expected.fit_info_.after
    assert f"loss    nll {before:.5f} -> {after:.5f} on these rows" in text
    assert re.search(r"^time +\d+\.\d\d s$", text, re.MULTILINE)
    assert "file    out.safetensors" in text


def test_fit_json(folder: Path) -> None:
    answer = as_json("fit", "val.npz", "-o", "out.safetensors", "--method", "ets")
    saved = calibrant.load("out.safetensors")
    assert FitInfo(**answer["fit_info"]) == saved.fit_info_
    assert answer["seconds"] == answer["fit_info"]["seconds"] > 0.0
    del answer["fit_info"], answer["seconds"]
    assert answer == {
        "method": "ets",
        "class": "EnsembleTemperatureScaling",
        "input": "logits",
        "n_rows": 300,
        "n_unlabelled": 0,
        "n_classes": 4,
        "file": "out.safetensors",
    }


def fitted_with(*params: str, method: str = "pts") -> dict[str, Any]:
    """The parameters of a method that was fitted with these words."""
    options = [word for param in params for word in ("--param", param)]
    succeed("fit", "val.npz", "-o", "out.safetensors", "--method", method, *options)
    return calibrant.load("out.safetensors").get_params()


def test_fit_parameters_and_seed(folder: Path) -> None:
    """JSON where it is JSON (numbers, lists), else a string; the library's defaults elsewhere."""
    params = ["recipe=paper", "steps=3", "hidden=[4]", "learning_rate=1e-3"]
    options = [word for param in params for word in ("--param", param)]
    succeed(
        "fit",
        "val.npz",
        "-o",
        "out.safetensors",
        "--method",
        "pts",
        "--random-state",
        "7",
        *options,
    )
    given = {"recipe": "paper", "steps": 3, "hidden": (4,), "learning_rate": 1e-3}
    expected = calibrant.PTS(random_state=7, **given).get_params()
    assert calibrant.load("out.safetensors").get_params() == expected


@pytest.mark.parametrize(
    ("text", "value"), [("8,4", (8, 4)), ("[8, 4]", (8, 4)), ("8, 4", (8, 4)), ("8", (8,))]
)
def test_fit_parameters_of_several_numbers(folder: Path, text: str, value: Any) -> None:
    assert fitted_with(f"hidden={text}", "penalty=1.0", "members=1")["hidden"] == value


def test_fit_parameters_of_one_value(folder: Path) -> None:
    assert fitted_with("bounds=0.05,5", "loss=brier", method="ts")["bounds"] == (0.05, 5)
    assert fitted_with('loss="brier"', method="ts")["loss"] == "brier"
    for text in ("false", "False"):
        assert fitted_with(f"normalize={text}", method="irova")["normalize"] is False
    assert fitted_with("members=1", "penalty=2")["penalty"] == 2


def test_fit_takes_weights(folder: Path) -> None:
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    weight = np.random.default_rng(0).uniform(size=300)
    np.savez("w.npz", logits=logits, labels=labels, importance=weight)
    options = ["--method", "ts", "--weights-key", "importance"]
    succeed("fit", "w.npz", "-o", "out.safetensors", *options)
    expected = calibrant.TS().fit(logits, labels, sample_weight=weight)
    assert calibrant.load("out.safetensors").temperature_ == expected.temperature_


def test_fit_leaves_ignored_rows_out(folder: Path) -> None:
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    np.savez("x.npz", logits=logits, labels=np.where(np.arange(300) < 100, -100, labels))
    options = ["-o", "out.safetensors", "--method", "ts"]
    assert as_json("fit", "x.npz", *options, "--ignore-index", "-100")["n_rows"] == 200
    expected = calibrant.TS().fit(logits[100:], labels[100:])
    assert calibrant.load("out.safetensors").temperature_ == expected.temperature_
    np.save("few.npy", np.full(200, -100))
    options += ["--labels", "few.npy", "--ignore-index", "-100"]
    assert "labels and scores must have the same rows" in refuse("fit", "val.npz", *options)


def test_fit_takes_a_seed_where_nothing_is_random(folder: Path) -> None:
    succeed("fit", "val.npz", "-o", "out.safetensors", "--method", "ts", "--random-state", "7")


def test_fit_on_probabilities_keeps_their_kind(folder: Path) -> None:
    np.savez("p.npz", probs=softmax(np.load("logits.npy")), label=np.load("labels.npy"))
    succeed("fit", "p.npz", "-o", "out.safetensors", "--method", "ts")
    saved = calibrant.load("out.safetensors")
    assert saved.input == "probs"
    reference = calibrant.load("ts.safetensors")
    assert saved.temperature_ == pytest.approx(reference.temperature_, rel=1e-5)


def test_fit_from_two_files(folder: Path) -> None:
    options = ["--input", "logits", "--labels", "labels.npy", "--method", "ts"]
    assert as_json("fit", "logits.npy", "-o", "out.safetensors", *options)["n_rows"] == 300


def test_fit_with_named_arrays(folder: Path) -> None:
    np.savez("x.npz", val_logits=np.load("logits.npy"), target=np.load("labels.npy"))
    options = ["--scores-key", "val_logits", "--labels-key", "target", "--method", "ts"]
    assert as_json("fit", "x.npz", "-o", "out.safetensors", *options)["input"] == "logits"


def test_fit_warns_in_one_line(folder: Path) -> None:
    np.savez("x.npz", logits=softmax(np.load("logits.npy")), labels=np.load("labels.npy"))
    result = run("fit", "x.npz", "-o", "out.safetensors", "--method", "ts", "--json")
    assert result.exit_code == 0
    assert re.fullmatch(r"warning: [^\n]*looks like probabilities[^\n]*\n", result.stderr)
    assert json.loads(result.stdout)["method"] == "ts"


def test_fit_tells_where_it_did_not_converge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_early(self: calibrant.Uncalibrated, profile: Any) -> Any:
        return ConstantTemperature(1.0), FitInfo(False, "stopped after 60 iterations")

    monkeypatch.setattr(calibrant.Uncalibrated, "_fit_profile", stop_early)
    result = run("fit", "val.npz", "-o", "out.safetensors", "--method", "base")
    assert "note    not converged: stopped after 60 iterations" in result.stdout
    assert "loss" not in result.stdout
    assert result.stderr == "warning: Uncalibrated: stopped after 60 iterations\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["val.npz", "--method", "foo"], "method must be one of auto, base, ts, ets"),
        (["val.npz", "--param", "foo=1"], "those of another method, name it with --method"),
        (["val.npz", "--param", "foo=1", "--method", "pts"], "pts has no parameter 'foo'; it has"),
        (["val.npz", "--param", "foo=1", "--method", "base"], "parameter 'foo'; it has none"),
        (["val.npz", "--param", "steps"], "--param must be NAME=VALUE without spaces, got 'steps'"),
        (["val.npz", "--param", "progress=true"], "auto has no parameter 'progress'"),
        (["val.npz", "--param", "input=probs"], "say what the scores are with --input"),
        (["val.npz", "--param", "random_state=1", "--random-state", "2"], "say the seed once"),
        (
            ["val.npz", "--method", "pts", "--param", "recipe=fast"],
            "--param recipe must be one of 'auto', 'paper', got 'fast'",
        ),
        (["val.npz", "--random-state", "-1"], "Invalid value for '--random-state'"),
        (["val.npz", "--input", "scores"], "Invalid value for '--input'"),
        (["val.npz", "--scores-key", "z"], "val.npz has no 'z'; it has logits, labels"),
        (["val.npz", "--weights-key", "w"], "val.npz has no 'w'; it has logits, labels"),
        (["val.npz", "--nope"], "--nope"),
        ([], "Missing argument"),
        (["none.npz"], "none.npz does not exist"),
        (["val.txt"], "must end in one of"),
        (["logits.npy"], "logits.npy may be logits or probs: say --input logits or --input"),
        (
            ["logits.npy", "--input", "logits"],
            "give its labels in a file of their own with --labels",
        ),
        (["labels.npy", "--input", "logits", "--labels", "logits.npy"], "labels swapped?"),
        (["val.npz", "--input", "probs"], "probs must be probabilities in [0, 1], got"),
    ],
)
def test_fit_refuses(folder: Path, args: list[str], message: str) -> None:
    assert message in refuse("fit", *args, "-o", "out.safetensors")
    assert not (folder / "out.safetensors").exists()


def test_fit_refuses_places_to_write(folder: Path) -> None:
    assert "Missing option '--output'" in refuse("fit", "val.npz")
    assert "there is no folder nowhere" in refuse("fit", "val.npz", "-o", "nowhere/x.safetensors")
    before = Path("val.npz").read_bytes()
    assert "must be another file" in refuse("fit", "val.npz", "-o", folder / "val.npz")
    assert Path("val.npz").read_bytes() == before


def test_fit_names_the_cell_of_a_table(folder: Path) -> None:
    Path("x.csv").write_text("logits_0,logits_1,label\n1,2,0\n1,O.5,1\n")
    line = "error: x.csv, line 3, column 'logits_1': must be a number, got 'O.5'\n"
    assert refuse("fit", "x.csv", "-o", "out.safetensors") == line


def test_fit_names_the_row_of_a_bad_value(folder: Path) -> None:
    logits = np.load("logits.npy")
    logits[7, 2] = np.nan
    np.savez("x.npz", logits=logits, labels=np.load("labels.npy"))
    message = "got nan at row 7, class 2"
    assert message in refuse("fit", "x.npz", "-o", "out.safetensors", "--method", "ts")


# --- apply ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet", ".safetensors", ".pt"])
def test_apply_writes_every_format(folder: Path, suffix: str) -> None:
    text = succeed("apply", "ts.safetensors", "val.npz", "-o", f"out{suffix}")
    data = read_scores(f"out{suffix}", input="probs", need_labels=False)
    expected = calibrant.load("ts.safetensors").predict_proba(np.load("logits.npy"))
    np.testing.assert_array_equal(data.scores, expected)
    if suffix == ".npy":
        assert text == (
            "wrote probs of 300 rows, 4 classes to out.npy\n"
            "note    left out labels: a .npy file holds one array\n"
        )
    else:
        assert text == f"wrote probs, labels of 300 rows, 4 classes to out{suffix}\n"
        np.testing.assert_array_equal(data.labels, np.load("labels.npy"))


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".safetensors", ".pt"])
def test_apply_copies_the_other_columns(folder: Path, suffix: str) -> None:
    logits, ids = np.load("logits.npy"), np.arange(300)[::-1].copy()
    labels = np.where(np.arange(300) < 3, np.nan, np.load("labels.npy"))
    taken = {"probs_0": ids, "temperature": ids, "classes": np.arange(4)}
    np.savez("x.npz", logits=logits, label=labels, id=ids, **taken)
    out = f"out{suffix}"
    text = succeed("apply", "ts.safetensors", "x.npz", "-o", out, "--temperature")
    assert text == (
        f"wrote probs, temperature, labels, id of 300 rows, 4 classes to {out}\n"
        "note    left out classes: it does not have one value, or one list of values, per row\n"
        "note    left out probs_0: it holds other scores\n"
        "note    left out temperature: an output has its name\n"
    )
    data = read_scores(out)
    np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_array_equal(read_scores(out, labels_key="id").labels, ids)
    assert as_json("evaluate", out)["n_unlabelled"] == 3


def test_apply_needs_no_labels_it_can_read(folder: Path) -> None:
    names = np.array(["ant", "bee", "cat", "dog"])[np.load("labels.npy")]
    np.savez("x.npz", logits=np.load("logits.npy"), label=names)
    succeed("apply", "ts.safetensors", "x.npz", "-o", "out.npz")
    np.testing.assert_array_equal(whole_archive("out.npz")["labels"], names)
    one_hot = np.eye(4)[np.load("labels.npy")]
    np.savez("x.npz", logits=np.load("logits.npy"), label=one_hot)
    succeed("apply", "ts.safetensors", "x.npz", "-o", "out.csv")
    np.testing.assert_array_equal(read_scores("out.csv").labels, np.load("labels.npy"))


def test_rows_without_labels_are_left_out_and_told(folder: Path) -> None:
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    missing = np.where(np.arange(300) < 30, np.nan, labels)
    np.savez("x.npz", logits=logits, labels=missing)
    np.savez("known.npz", logits=logits[30:], labels=labels[30:])
    text = succeed("fit", "x.npz", "-o", "x.safetensors", "--method", "ts")
    assert "data    270 rows, 4 classes, logits\n        30 rows without a label were left" in text
    succeed("fit", "known.npz", "-o", "known.safetensors", "--method", "ts")
    found, expected = (calibrant.load(f"{name}.safetensors") for name in ("x", "known"))
    assert found.temperature_ == expected.temperature_
    assert as_json("fit", "x.npz", "-o", "x.safetensors", "--method", "ts")["n_unlabelled"] == 30
    assert "30 rows without a label were left out\n" in succeed("evaluate", "x.npz")
    answer, known = as_json("evaluate", "x.npz"), as_json("evaluate", "known.npz")
    assert (answer["n_rows"], answer["n_unlabelled"], known["n_unlabelled"]) == (270, 30, 0)
    assert answer["scores"] == known["scores"]
    result = run("compare", "x.npz", "known.npz", "--methods", "ts", "--json")
    assert result.stderr == "note: x.npz: 30 rows without a label were left out\n"
    assert json.loads(result.stdout)["n_val"] == 270
    np.savez("none.npz", logits=logits, labels=np.full(300, np.nan))
    for command in (("fit", "none.npz", "-o", "x.safetensors"), ("evaluate", "none.npz")):
        assert "none.npz: none of the 300 rows has a label" in refuse(*command)


def test_apply_temperature(folder: Path) -> None:
    options = ["-o", "out.npz", "--temperature"]
    answer = as_json("apply", "ts.safetensors", "logits.npy", *options)
    names = ["probs", "temperature"]
    sizes = {"n_rows": 300, "n_classes": 4}
    assert answer == {**sizes, "arrays": names, "left_out": {}, "file": "out.npz"}
    temperature = calibrant.load("ts.safetensors").temperature_
    written = read_scores("out.npz", scores_key="temperature", input="logits", need_labels=False)
    np.testing.assert_allclose(written.scores, np.full(300, temperature))


def test_apply_takes_the_kind_from_the_calibrator(folder: Path) -> None:
    """A nameless array is what the calibrator was fitted on; a named one must agree with it."""
    probs, labels = softmax(np.load("logits.npy")), np.load("labels.npy")
    calibrant.save(calibrant.TS(input="probs").fit(probs, labels), "p.safetensors")
    np.save("probs.npy", probs)
    succeed("apply", "p.safetensors", "probs.npy", "-o", "out.npz")
    line = refuse("apply", "p.safetensors", "val.npz", "-o", "out2.npz")
    assert "the calibrator takes probs, but val.npz has logits" in line
    np.savez("misnamed.npz", logits=probs)
    succeed("apply", "p.safetensors", "misnamed.npz", "-o", "out3.npz", "--input", "probs")
    line = refuse("apply", "ts.safetensors", "probs.npy", "-o", "out2.npz", "--input", "probs")
    assert "the calibrator takes logits, but probs.npy has probs" in line


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ts.safetensors", "val.npz", "-o", "out.txt"], "must end in one of"),
        (["ts.safetensors", "val.npz", "-o", "no/out.npz"], "there is no folder no"),
        (["ts.safetensors", "val.npz", "-o", "val.npz"], "must be another file"),
        (["ts.safetensors", "logits.npy", "-o", "o.npy", "--temperature"], "holds one array"),
        (["ets.safetensors", "val.npz", "-o", "o.npz", "--temperature"], "has none for each row"),
        (["none.safetensors", "val.npz", "-o", "out.npz"], "there is no file none.safetensors"),
        (["meter.safetensors", "val.npz", "-o", "out.npz"], "a CalibrationMeter, not a calibrator"),
        (["val.npz", "val.npz", "-o", "out.npz"], "val.npz is not a file that calibrant wrote"),
        (["ts.safetensors", "ets.safetensors", "-o", "out.npz"], "is no file of scores"),
    ],
)
def test_apply_refuses(folder: Path, args: list[str], message: str) -> None:
    ets = calibrant.ETS().fit(np.load("logits.npy"), np.load("labels.npy"))
    calibrant.save(ets, "ets.safetensors")
    calibrant.save(calibrant.CalibrationMeter(), "meter.safetensors")
    assert message in refuse("apply", *args)


# --- evaluate ---------------------------------------------------------------------------------


def test_evaluate_json_has_the_librarys_values(folder: Path) -> None:
    answer = as_json("evaluate", "val.npz", "--calibrator", "ts.safetensors", "--n-bins", "7")
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    calibrated = calibrant.load("ts.safetensors").predict_proba(logits)
    for name, probs in {"scores": softmax(logits), "calibrated": calibrated}.items():
        assert answer[name]["ece"] == pytest.approx(calibrant.metrics.ece(probs, labels, n_bins=7))
        for metric in ("accuracy", "brier", "nll"):
            value = getattr(calibrant.metrics, metric)(probs, labels)
            assert answer[name][metric] == pytest.approx(value)
    assert (answer["n_rows"], answer["n_bins"], answer["input"]) == (300, 7, "logits")
    assert answer["calibrated"]["ece"] < answer["scores"]["ece"]


def test_evaluate_takes_the_librarys_bins(folder: Path) -> None:
    answer = as_json("evaluate", "val.npz")
    assert answer["n_bins"] == calibrant.CalibrationMeter().n_bins
    assert f"left out: {answer['n_bins']}" in words_of_help("evaluate")
    assert "calibrated" not in answer


@pytest.mark.parametrize("files", [["val.npz"], ["val.npz", "val.npz"]])
def test_evaluate_some_metrics(folder: Path, files: list[str]) -> None:
    options = [*files, "--calibrator", "ts.safetensors", "--metrics", "mce, nll"]
    answer = as_json("evaluate", *options)
    assert list(answer["scores"]) == list(answer["calibrated"]) == ["mce", "nll"]
    text = succeed("evaluate", *options)
    assert "MCE" in text
    assert "ECE" not in text
    assert f"{answer['calibrated']['nll']:.4f}" in text
    assert "(nats)" in text
    assert "metric must be one of accuracy" in refuse("evaluate", *files, "--metrics", "mce,x")


def test_all_metrics_are_named_by_the_help_and_fit_into_a_table(folder: Path) -> None:
    assert ", ".join(DEFAULT_METRICS) in words_of_help("compare")
    known = [metric for metric in METRICS.values() if metric.suits(4)]
    names = ",".join(metric.name for metric in known)
    text = succeed("compare", "val.npz", "val.npz", "--methods", "base,ts", "--metrics", names)
    assert all(metric.heading in text for metric in known)
    row, _ = [line for line in text.splitlines() if line.split()[:1] == ["ts"]]
    assert len(re.findall(r"\d+\.\d+", row)) == len(known) + 1
    line = refuse("compare", "val.npz", "val.npz", "--metrics", "class1_ece")
    assert "class 1 of two is asked for, but there are 4 classes" in line


def test_a_level_goes_with_one_file(folder: Path) -> None:
    assert "90% interval" in succeed("evaluate", "val.npz", "--level", "0.9", "--metrics", "nll")
    assert "--level goes with one file" in refuse(
        "evaluate", "val.npz", "val.npz", "--level", "0.9"
    )


def test_evaluate_needs_all_rows_for_some_metrics(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = dataclasses.replace(METRICS["ece"], name="whole", merging=None)
    monkeypatch.setitem(METRICS, "whole", whole)
    assert "whole" in as_json("evaluate", "val.npz", "--metrics", "whole")["scores"]
    line = refuse("evaluate", "val.npz", "val.npz", "--metrics", "whole")
    assert "whole needs all rows at once" in line


@pytest.mark.parametrize("times", [1, 2])
def test_evaluate_takes_weights_and_leaves_ignored_rows_out(folder: Path, times: int) -> None:
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    weight = np.random.default_rng(0).uniform(size=300)
    ignored = np.where(np.arange(300) < 100, -100, labels)
    np.savez("x.npz", logits=logits, labels=ignored, w=weight)
    options = ["--weights-key", "w", "--ignore-index", "-100", "--calibrator", "ts.safetensors"]
    answer = as_json("evaluate", *["x.npz"] * times, *options)
    assert answer["n_rows"] == 200 * times
    probs, weights = softmax(logits)[100:], {"sample_weight": weight[100:]}
    for name in ("accuracy", "ece", "nll"):
        expected = getattr(calibrant.metrics, name)(probs, labels[100:], **weights)
        assert answer["scores"][name] == pytest.approx(expected)


def test_a_calibrator_is_loaded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads, load = [], calibrant.io.load_calibrator
    monkeypatch.setattr(
        "calibrant.io.load_calibrator", lambda path: loads.append(path) or load(path)
    )
    succeed("evaluate", "val.npz", "val.npz", "val.npz", "--calibrator", "ts.safetensors")
    assert len(loads) == 1


def test_evaluate_prints_units_and_stars_nothing(folder: Path) -> None:
    text = succeed("evaluate", "val.npz", "--calibrator", "ts.safetensors")
    answer = as_json("evaluate", "val.npz", "--calibrator", "ts.safetensors")
    calibrated = next(line for line in text.splitlines() if line.strip().startswith("calibrated"))
    known = answer["calibrated"]
    shares = [f"{100 * known[name]:.2f}" for name in ("accuracy", "ece", "classwise_ece", "brier")]
    assert calibrated.split()[1:] == [*shares, f"{known['nll']:.4f}"]
    heads, units = text.splitlines()[2:4]
    assert heads.split() == ["Accuracy", "ECE", "Classwise", "ECE", "Brier", "score", "NLL"]
    assert units.split() == ["(%)", "(%)", "(%)", "(%)", "(nats)"]
    assert "*" not in text


def test_evaluate_prints_brackets_of_a_name(folder: Path) -> None:
    Path("val.npz").rename("val[red].npz")
    assert "val[red].npz: 300 rows" in succeed("evaluate", "val[red].npz")


def test_evaluate_probabilities_as_they_are(folder: Path) -> None:
    succeed("apply", "ts.safetensors", "val.npz", "-o", "out.csv")
    answer = as_json("evaluate", "out.csv")
    assert answer["input"] == "probs"
    expected = as_json("evaluate", "val.npz", "--calibrator", "ts.safetensors")["calibrated"]
    assert answer["scores"] == pytest.approx(expected)


def test_evaluate_json_has_no_infinity(folder: Path) -> None:
    np.savez("x.npz", probs=np.array([[1.0, 0.0], [0.5, 0.5]]), labels=np.array([1, 0]))
    assert as_json("evaluate", "x.npz")["scores"]["nll"] is None
    assert " inf" in succeed("evaluate", "x.npz")


def test_evaluate_refuses(folder: Path) -> None:
    assert "Invalid value for '--n-bins'" in refuse("evaluate", "val.npz", "--n-bins", "0")
    np.savez("x.npz", logits=np.load("logits.npy"))
    assert "has no labels (label, labels); it has logits" in refuse("evaluate", "x.npz")
    assert "there is no file no" in refuse("evaluate", "val.npz", "--calibrator", "no")


# --- demo and methods -------------------------------------------------------------------------


def test_demo_json_shows_that_calibration_helps() -> None:
    answer = as_json("demo")
    assert (answer["n_val"], answer["n_test"]) == (5000, 10000)
    methods = answer["methods"]
    assert list(methods) == ["Uncalibrated", "TS", "ETS", "PTS"]
    for values in methods.values():
        assert set(values) == {*SHOWN, "fit_ms"}
        assert values["accuracy"] == methods["Uncalibrated"]["accuracy"]
    for name in ("TS", "ETS", "PTS"):
        assert methods[name]["ece"] < 0.5 * methods["Uncalibrated"]["ece"]
        assert methods[name]["fit_ms"] > 0.0
    assert methods["PTS"]["brier"] < methods["TS"]["brier"]


def test_demo_prints_a_table_and_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.cli._compare.DEMO_METHODS", {"Uncalibrated": "base", "TS": "ts"})
    text = succeed("demo")
    for heading in ("Accuracy", "ECE", "Brier", "NLL", "(ms)", "Uncalibrated", "TS"):
        assert heading in text
    assert "lenet5: fitted on 5,000 rows, judged on 10,000 rows, 15 bins" in text
    assert re.search(r"\* 0\.\d{4} ", text)
    assert len(re.findall(r"\* \d", text)) == 3
    assert len(re.findall(r"~ \d", text)) == 2  # accuracy is a tie
    assert text.rstrip().endswith("calibrant fit val.npz -o auto.safetensors")
    assert max(map(len, text.splitlines())) <= 80


def test_demo_refuses_an_unknown_data_set() -> None:
    assert "data set must be one of cifar10-lenet5" in refuse("demo", "--dataset", "x")


def test_methods_are_the_registry() -> None:
    entries = as_json("methods")
    assert [entry["method"] for entry in entries] == list(REGISTRY)
    for entry, cls in zip(entries, REGISTRY.values(), strict=True):
        assert entry["class"] == cls.__name__
        assert entry["accuracy_preserving"] is cls().accuracy_preserving
        assert entry["two_classes_only"] is cls.two_classes_only
        assert (cls.__doc__ or "").startswith(entry["summary"])
        assert entry["summary"]
    text = succeed("methods")
    assert all(cls.__name__ in text for cls in REGISTRY.values())
    assert "BetaCalibration (two classes only)" in text
    assert text.count("(two classes only)") == 1


# --- how it ends ------------------------------------------------------------------------------


def test_unknown_commands() -> None:
    assert "No such command 'fry' (see calibrant --help)" in refuse("fry")


def fail_with(error: BaseException) -> Any:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    return fail


def test_unexpected_errors_keep_their_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.evaluation.evaluate", fail_with(RuntimeError("a bug")))
    assert isinstance(run("evaluate", "val.npz").exception, RuntimeError)


def test_a_value_error_of_another_package_keeps_its_trace(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.evaluation.evaluate", lambda *args, **options: json.loads("{"))
    result = run("evaluate", "val.npz")
    assert isinstance(result.exception, json.JSONDecodeError)
    assert "error:" not in result.stderr


def test_errors_of_the_system_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = PermissionError(13, "Permission denied", "secret.npz")
    monkeypatch.setattr("calibrant.data.scorefiles.read_scores", fail_with(error))
    assert refuse("evaluate", "val.npz") == "error: secret.npz: Permission denied\n"


def test_missing_packages_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert 'pip install "calibrant[parquet]"' in refuse("evaluate", "x.parquet")


def test_an_interrupt_is_quiet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.data.scorefiles.read_scores", fail_with(KeyboardInterrupt()))
    result = run("evaluate", "val.npz")
    assert (result.exit_code, result.output) == (130, "")


def test_as_a_program(folder: Path) -> None:
    done = program("fit", "val.npz", "-o", "out.safetensors", "--method", "ts", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["n_rows"] == 300
    done = program("apply", "ts.safetensors", "val.npz", "-o", "nowhere/out.npz")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is no folder nowhere to write out.npz to\n"


@pytest.mark.parametrize("option", ["--version", "--help"])  # printed by typer, and by rich
def test_a_closed_pipe_is_quiet(option: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = program(option, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


# --- compare and streams ----------------------------------------------------------------------


def test_compare_shows_methods_side_by_side(folder: Path) -> None:
    text = succeed("compare", "val.npz", "val.npz", "--methods", "base,ts,irm,ts")
    assert all(word in text for word in ("base", "ts", "irm", "Classwise", "(ms)", "(nats)"))
    assert text.count("\nts ") == 2  # in both tables
    document = as_json("compare", "val.npz", "val.npz", "--methods", "base,ts")
    assert [entry["method"] for entry in document["methods"]] == ["base", "ts"]
    assert document["methods"][1]["nll"] < document["methods"][0]["nll"]


def test_compare_takes_all_methods_that_fit_the_number_of_classes(folder: Path) -> None:
    text = succeed("compare", "val.npz", "val.npz")
    names = [line.split()[0] for line in text.splitlines() if re.search(r"\d\.\d{4}", line)]
    assert set(names) == set(REGISTRY) - {"beta"}
    assert max(map(len, text.splitlines())) <= 80


def test_compare_some_metrics(folder: Path) -> None:
    options = ["--methods", "base,ts", "--metrics", "mce,nll"]
    entry = as_json("compare", "val.npz", "val.npz", *options)["methods"][1]
    assert {"mce", "nll"} < set(entry)
    assert "ece" not in entry
    line = next(
        line
        for line in succeed("compare", "val.npz", "val.npz", *options).splitlines()
        if line.strip().startswith("ts ")
    )
    assert f"{entry['nll']:.4f}" in line
    assert f"{100 * entry['mce']:.2f}" in line
    refused = refuse("compare", "val.npz", "val.npz", "--metrics", "x")
    assert "metric must be one of accuracy" in refused


def test_compare_takes_labels_in_files_of_their_own(folder: Path) -> None:
    options = ["--input", "logits", "--methods", "ts"]
    labels = ["--val-labels", "labels.npy", "--test-labels", "labels.npy"]
    (apart,) = as_json("compare", "logits.npy", "logits.npy", *options, *labels)["methods"]
    (beside,) = as_json("compare", "val.npz", "val.npz", *options)["methods"]
    assert apart["nll"] == beside["nll"]
    (mixed,) = as_json("compare", "val.npz", "logits.npy", *options, *labels[2:])["methods"]
    assert mixed["nll"] == beside["nll"]
    line = refuse("compare", "val.npz", "logits.npy", *options)
    assert "logits.npy is one array, which is read as scores" in line
    assert "with --labels or --test-labels" in line


@pytest.mark.filterwarnings("ignore:class .* has the mean probability")
def test_compare_takes_weights_and_leaves_ignored_rows_out(folder: Path) -> None:
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    weight = np.random.default_rng(0).uniform(size=300)
    np.savez("x.npz", logits=logits, labels=np.where(labels == 3, -1, labels), w=weight)
    options = ["--weights-key", "w", "--ignore-index", "-1", "--methods", "ts"]
    (entry,) = as_json("compare", "x.npz", "x.npz", *options)["methods"]
    rows = labels != 3
    part = {"sample_weight": weight[rows]}
    expected = calibrant.TS().fit(logits[rows], labels[rows], **part)
    probs = expected.predict_proba(logits[rows])
    assert entry["nll"] == pytest.approx(calibrant.metrics.nll(probs, labels[rows], **part))
    kept = int(rows.sum())
    text = succeed("compare", "x.npz", "x.npz", *options)
    assert f"fitted on {kept} rows, judged on {kept} rows" in text


def test_compare_cross_validates_one_file(folder: Path) -> None:
    options = ["--methods", "base,ts", "--cv", "3"]
    text = succeed("compare", "val.npz", *options)
    assert text.startswith("3-fold cross-validation of 300 rows, 15 bins\n")
    answer = as_json("compare", "val.npz", *options)
    assert (answer["n_folds"], answer["n_val"], answer["n_test"]) == (3, 300, 300)
    expected = calibrant.compare(
        np.load("logits.npy"), np.load("labels.npy"), methods=["base", "ts"], cv=3
    )
    assert [entry["nll"] for entry in answer["methods"]] == [one.nll for one in expected]
    labels = ["--input", "logits", "--labels", "labels.npy"]
    apart = as_json("compare", "logits.npy", *options, *labels)
    assert apart["methods"][1]["nll"] == answer["methods"][1]["nll"]
    refused = refuse("compare", "val.npz", "--test-labels", "labels.npy")
    assert "--test-labels needs TEST; the labels of one file are --labels" in refused
    assert "--cv goes with one file" in refuse("compare", "val.npz", "val.npz", "--cv", "3")


@pytest.mark.parametrize("command", ["compare", "report"])
def test_pairs_of_files_are_checked_before_the_work(folder: Path, command: str) -> None:
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    np.savez("p.npz", probs=softmax(logits), labels=labels)
    np.savez("bad.npz", logits=logits, labels=labels + 9)
    assert "val.npz has logits, but p.npz has probs" in refuse(command, "val.npz", "p.npz")
    for files in (["val.npz", "bad.npz"], ["bad.npz", "val.npz"], ["bad.npz"]):
        assert refuse(command, *files).startswith("error: bad.npz: labels must lie in 0..")
    assert not Path("report.html").exists()


def test_compare_draws_as_it_is_told(folder: Path) -> None:
    options = ["--methods", "base,ts", "--by", "ece", "--level", "0.8", "--n-resamples", "50"]
    text = succeed("compare", "val.npz", "val.npz", *options, "--random-state", "3")
    assert "ECE (%): paired differences to the best, ts" in text
    assert text.count("80% interval") == 2
    data = np.load("logits.npy"), np.load("labels.npy")
    draws = {"level": 0.8, "n_resamples": 50, "random_state": 3}
    expected = calibrant.compare(*data, *data, methods=["base", "ts"], **draws)
    answer = as_json("compare", "val.npz", "val.npz", *options, "--random-state", "3")
    assert answer["recommended"] == expected.recommended().method
    assert answer["methods"][0]["estimates"] == expected[0].to_dict()["estimates"]
    assert answer["methods"][0]["differences"] == expected[0].to_dict()["differences"]
    quick = as_json("compare", "val.npz", "--methods", "ts", "--n-resamples", "0")
    assert quick["methods"][0]["estimates"]["ece"]["low"] is None
    assert "--by must be one of ece, got 'nll'" in refuse(
        "compare", "val.npz", "--metrics", "ece", "--by", "nll"
    )
    assert "--level must lie between 0 and 1" in refuse("compare", "val.npz", "--level", "2")


def test_apply_takes_the_name_of_the_labels(folder: Path) -> None:
    data = whole_archive("val.npz")
    np.savez("named.npz", logits=data["logits"], truth=data["labels"])
    succeed("apply", "ts.safetensors", "named.npz", "-o", "out.npz", "--labels-key", "truth")
    np.testing.assert_array_equal(whole_archive("out.npz")["labels"], data["labels"])


def test_compare_refuses_unknown_methods_and_mixed_kinds(folder: Path) -> None:
    assert "got 'x'" in refuse("compare", "val.npz", "val.npz", "--methods", "ts,x")
    data = whole_archive("val.npz")
    np.savez("probs.npz", probs=softmax(data["logits"]), labels=data["labels"])
    assert "probs.npz has probs" in refuse("compare", "val.npz", "probs.npz")


def test_a_stream_of_files_is_judged_as_one(folder: Path) -> None:
    data = whole_archive("val.npz")
    np.savez("a.npz", logits=data["logits"][:100], labels=data["labels"][:100])
    np.savez("b.npz", logits=data["logits"][100:], labels=data["labels"][100:])
    whole = as_json("evaluate", "val.npz", "--calibrator", "ts.safetensors")
    parts = as_json("evaluate", "a.npz", "b.npz", "--calibrator", "ts.safetensors")
    assert (parts["n_rows"], parts["files"]) == (300, 2)
    for kind in ("scores", "calibrated"):
        for metric in SHOWN:
            assert parts[kind][metric] == pytest.approx(whole[kind][metric], abs=1e-9)
    assert "2 files: 300 rows" in succeed("evaluate", "a.npz", "b.npz")
    assert "--labels" in refuse("evaluate", "a.npz", "b.npz", "--labels", "labels.npy")
    np.savez("p.npz", probs=softmax(data["logits"]), labels=data["labels"])
    assert "a.npz has logits, but p.npz has probs" in refuse("evaluate", "a.npz", "p.npz")


def test_evaluate_shows_intervals_and_null_values(folder: Path) -> None:
    text = succeed("evaluate", "val.npz")
    assert "if calibrated" in text
    assert "95% interval" in text
    evaluation = as_json("evaluate", "val.npz")["evaluation"]
    assert evaluation["metrics"]["ece"]["null"] > 0.0
    quick = as_json("evaluate", "val.npz", "--n-resamples", "0")["evaluation"]
    assert quick["metrics"]["ece"]["null"] is None


# --- ONNX -------------------------------------------------------------------------------------


def test_export_and_attach_write_graphs(folder: Path) -> None:
    assert "logits -> probabilities" in succeed("export", "ts.safetensors", "-o", "ts.onnx")
    document = as_json(
        "attach", "ts.onnx", "ts.safetensors", "-o", "b.onnx", "--logits-output", "logits"
    )
    assert document["file"] == "b.onnx"
    assert Path("b.onnx").stat().st_size > 0
    line = refuse("attach", "ts.onnx", "ts.safetensors", "-o", "c.onnx")
    assert "say which one with --logits-output" in line
    assert as_json("export", "ts.safetensors", "-o", "d.onnx", "--n-classes", "7")["file"]


def test_fit_says_what_it_chose_and_what_it_tried(folder: Path) -> None:
    text = succeed("fit", "val.npz", "-o", "out.safetensors")
    fitted = calibrant.load("out.safetensors")
    assert isinstance(fitted, calibrant.AutoCalibrator)
    assert f"\nchosen  {fitted.method_}" in text
    assert (
        f"\n        held-out log loss {fitted.fit_info_.details['held_out_loss']:.5f} +- " in text
    )
    assert "(lowest)" in text
    for tried in fitted.fit_info_.details["tried"]:
        assert f"\n        {tried['candidate']:<14}{tried['left_out_loss']:.5f}" in text
    text = succeed("fit", "val.npz", "-o", "k.safetensors", "--param", "preserve_accuracy=true")
    assert "keeps the arg max" in text


def test_the_package_is_a_program(folder: Path) -> None:
    result = python("import runpy; runpy.run_module('calibrant', run_name='__main__')", "methods")
    assert result.returncode == 0, result.stderr
    assert "auto" in result.stdout
