"""The command line as a user meets it: what it prints, where, and how it ends."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import REGISTRY
from calibrant.scorefiles import read_scores
from cli_support import as_json, refuse, run, succeed

COMMANDS = [
    *("fit", "apply", "evaluate", "compare", "export", "attach", "demo", "methods", "reproduce")
]
MAIN = [sys.executable, "-c", "from calibrant.cli import main; main()"]
METRICS = ["accuracy", "ece", "brier", "nll"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with overconfident logits in val.npz and a fitted ts.safetensors."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 300)
    logits = rng.normal(size=(300, 4)) * 3.0
    logits[np.arange(300), labels] += 3.0
    np.savez("val.npz", logits=logits, labels=labels)
    np.save("logits.npy", logits)
    np.save("labels.npy", labels)
    calibrant.save(calibrant.TS().fit(logits, labels), "ts.safetensors")
    return tmp_path


def softmax(logits: np.ndarray) -> np.ndarray:
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


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


def test_version() -> None:
    assert succeed("--version") == f"calibrant {calibrant.__version__}\n"


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, calibrant.cli; print([m for m in ('numpy', 'scipy', 'torch', 'sklearn')"
    code += " if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


# --- fit --------------------------------------------------------------------------------------


def test_fit_saves_what_the_library_fits(folder: Path) -> None:
    text = succeed("fit", "val.npz", "-o", "out.safetensors", "--method", "TS")
    expected = calibrant.TS().fit(np.load("logits.npy"), np.load("labels.npy"))
    saved = calibrant.load("out.safetensors")
    assert isinstance(saved, calibrant.TS)
    assert saved.temperature_ == expected.temperature_
    assert "ts (TemperatureScaling)" in text
    assert "300 rows, 4 classes, logits" in text
    before, after = (expected.fit_info_[f"loss_{when}"] for when in ("before", "after"))
    assert f"nll {before:.5f} -> {after:.5f}" in text
    assert re.search(r"^time +\d+\.\d\d s$", text, re.MULTILINE)
    assert "file    out.safetensors" in text


def test_fit_json(folder: Path) -> None:
    answer = as_json("fit", "val.npz", "-o", "out.safetensors", "--method", "ets")
    saved = calibrant.load("out.safetensors")
    assert answer["fit_info"] == saved.fit_info_
    assert answer["seconds"] > 0.0
    del answer["fit_info"], answer["seconds"]
    assert answer == {
        "method": "ets",
        "class": "EnsembleTemperatureScaling",
        "input": "logits",
        "rows": 300,
        "classes": 4,
        "file": "out.safetensors",
    }


def test_fit_parameters_and_seed(folder: Path) -> None:
    """JSON where it is JSON (numbers, lists), else a string; the library's defaults elsewhere."""
    params = ["recipe=paper", "steps=3", "hidden=[4]", "learning_rate=1e-3"]
    options = [word for param in params for word in ("--param", param)]
    succeed("fit", "val.npz", "-o", "out.safetensors", "--seed", "7", *options)
    given = {"recipe": "paper", "steps": 3, "hidden": (4,), "learning_rate": 1e-3}
    expected = calibrant.PTS(random_state=7, **given).get_params()
    assert calibrant.load("out.safetensors").get_params() == expected


def test_fit_takes_a_seed_where_nothing_is_random(folder: Path) -> None:
    succeed("fit", "val.npz", "-o", "out.safetensors", "--method", "ts", "--seed", "7")


def test_fit_on_probabilities_keeps_their_kind(folder: Path) -> None:
    np.savez("p.npz", probs=softmax(np.load("logits.npy")), label=np.load("labels.npy"))
    succeed("fit", "p.npz", "-o", "out.safetensors", "--method", "ts")
    saved = calibrant.load("out.safetensors")
    assert saved.input == "probs"
    reference = calibrant.load("ts.safetensors")
    assert saved.temperature_ == pytest.approx(reference.temperature_, rel=1e-5)


def test_fit_from_two_files(folder: Path) -> None:
    options = ["--input", "logits", "--labels", "labels.npy", "--method", "ts"]
    assert as_json("fit", "logits.npy", "-o", "out.safetensors", *options)["rows"] == 300


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
    def stop_early(self: calibrant.Uncalibrated, profile: Any) -> None:
        self.fit_info_ = {"converged": False, "message": "stopped after 60 iterations"}

    monkeypatch.setattr(calibrant.Uncalibrated, "_fit_profile", stop_early)
    text = succeed("fit", "val.npz", "-o", "out.safetensors", "--method", "base")
    assert "note    not converged: stopped after 60 iterations" in text
    assert "loss" not in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["val.npz", "--method", "foo"], "method must be one of base, ts, ets"),
        (["val.npz", "--param", "foo=1"], "pts has no parameter 'foo'; it has"),
        (["val.npz", "--param", "foo=1", "--method", "base"], "parameter 'foo'; it has none"),
        (["val.npz", "--param", "steps"], "--param must be name=value, got 'steps'"),
        (["val.npz", "--param", "input=probs"], "say what the scores are with --input"),
        (["val.npz", "--param", "random_state=1", "--seed", "2"], "say the seed once"),
        (["val.npz", "--param", "recipe=fast"], "recipe must be 'auto' or 'paper', got 'fast'"),
        (["val.npz", "--seed", "-1"], "Invalid value for '--seed'"),
        (["val.npz", "--input", "scores"], "Invalid value for '--input'"),
        (["val.npz", "--scores-key", "z"], "val.npz has no 'z'; it has logits, labels"),
        (["val.npz", "--nope"], "--nope"),
        ([], "Missing argument"),
        (["none.npz"], "none.npz does not exist"),
        (["val.txt"], "must end in one of"),
        (["logits.npy"], "logits.npy may be logits or probs"),
        (["logits.npy", "--input", "logits"], "name a file with --labels"),
        (["labels.npy", "--input", "logits", "--labels", "logits.npy"], "one-hot labels must"),
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
    data = read_scores(f"out{suffix}", kind="probs", need_labels=False)
    expected = calibrant.load("ts.safetensors").predict_proba(np.load("logits.npy"))
    np.testing.assert_array_equal(data.scores, expected)
    if suffix == ".npy":
        assert text == "wrote probs of 300 rows, 4 classes to out.npy\n"
    else:
        assert text == f"wrote probs, labels of 300 rows, 4 classes to out{suffix}\n"
        np.testing.assert_array_equal(data.labels, np.load("labels.npy"))


def test_apply_temperature(folder: Path) -> None:
    options = ["-o", "out.npz", "--temperature"]
    answer = as_json("apply", "ts.safetensors", "logits.npy", *options)
    names = ["probs", "temperature"]
    assert answer == {"rows": 300, "classes": 4, "arrays": names, "file": "out.npz"}
    temperature = calibrant.load("ts.safetensors").temperature_
    written = read_scores("out.npz", scores_key="temperature", kind="logits", need_labels=False)
    np.testing.assert_allclose(written.scores, np.full(300, temperature))


def test_apply_takes_the_kind_from_the_calibrator(folder: Path) -> None:
    """A nameless array is what the calibrator was fitted on; a named one must agree with it."""
    probs, labels = softmax(np.load("logits.npy")), np.load("labels.npy")
    calibrant.save(calibrant.TS(input="probs").fit(probs, labels), "p.safetensors")
    np.save("probs.npy", probs)
    succeed("apply", "p.safetensors", "probs.npy", "-o", "out.npz")
    line = refuse("apply", "p.safetensors", "val.npz", "-o", "out2.npz")
    assert "p.safetensors takes probs, but val.npz has logits" in line
    np.savez("misnamed.npz", logits=probs)
    succeed("apply", "p.safetensors", "misnamed.npz", "-o", "out3.npz", "--input", "probs")
    line = refuse("apply", "ts.safetensors", "probs.npy", "-o", "out2.npz", "--input", "probs")
    assert "ts.safetensors takes logits, but probs.npy has probs" in line


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ts.safetensors", "val.npz", "-o", "out.txt"], "must end in one of"),
        (["ts.safetensors", "val.npz", "-o", "no/out.npz"], "there is no folder no"),
        (["ts.safetensors", "val.npz", "-o", "val.npz"], "must be another file"),
        (["ts.safetensors", "logits.npy", "-o", "o.npy", "--temperature"], "holds one array"),
        (["ets.safetensors", "val.npz", "-o", "o.npz", "--temperature"], "has none for each row"),
        (["none.safetensors", "val.npz", "-o", "out.npz"], "there is no file none.safetensors"),
        (["val.npz", "val.npz", "-o", "out.npz"], "val.npz is not a whole safetensors file"),
        (["ts.safetensors", "ets.safetensors", "-o", "out.npz"], "it has weights_"),
    ],
)
def test_apply_refuses(folder: Path, args: list[str], message: str) -> None:
    ets = calibrant.ETS().fit(np.load("logits.npy"), np.load("labels.npy"))
    calibrant.save(ets, "ets.safetensors")
    assert message in refuse("apply", *args)


# --- evaluate ---------------------------------------------------------------------------------


def test_evaluate_json_has_the_librarys_values(folder: Path) -> None:
    answer = as_json("evaluate", "val.npz", "--calibrator", "ts.safetensors", "--bins", "7")
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    calibrated = calibrant.load("ts.safetensors").predict_proba(logits)
    for name, probs in {"scores": softmax(logits), "calibrated": calibrated}.items():
        assert answer[name]["ece"] == pytest.approx(calibrant.metrics.ece(probs, labels, bins=7))
        for metric in ("accuracy", "brier", "nll"):
            value = getattr(calibrant.metrics, metric)(probs, labels)
            assert answer[name][metric] == pytest.approx(value)
    assert (answer["rows"], answer["bins"], answer["input"]) == (300, 7, "logits")
    assert answer["calibrated"]["ece"] < answer["scores"]["ece"]


def test_evaluate_takes_the_librarys_bins(folder: Path) -> None:
    default = inspect.signature(calibrant.metrics.ece).parameters["bins"].default
    answer = as_json("evaluate", "val.npz")
    assert answer["bins"] == default
    assert "calibrated" not in answer


def test_evaluate_prints_times_100_and_marks_the_best(folder: Path) -> None:
    text = succeed("evaluate", "val.npz", "--calibrator", "ts.safetensors")
    answer = as_json("evaluate", "val.npz", "--calibrator", "ts.safetensors")
    calibrated = next(line for line in text.splitlines() if line.strip().startswith("calibrated"))
    assert f"* {100 * answer['calibrated']['ece']:.2f}" in calibrated
    assert calibrated.split()[1] == f"{100 * answer['calibrated']['accuracy']:.2f}"  # a tie
    assert "times 100" in text
    assert "*" not in succeed("evaluate", "val.npz")


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
    assert "Invalid value for '--bins'" in refuse("evaluate", "val.npz", "--bins", "0")
    np.savez("x.npz", logits=np.load("logits.npy"))
    assert "has no labels (label, labels); it has logits" in refuse("evaluate", "x.npz")
    assert "there is no file no" in refuse("evaluate", "val.npz", "--calibrator", "no")


# --- demo and methods -------------------------------------------------------------------------


def test_demo_json_shows_that_calibration_helps() -> None:
    answer = as_json("demo")
    assert (answer["val_rows"], answer["test_rows"]) == (5000, 10000)
    methods = answer["methods"]
    assert list(methods) == ["Uncalibrated", "TS", "ETS", "PTS"]
    for values in methods.values():
        assert set(values) == {*METRICS, "fit_ms"}
        assert values["accuracy"] == methods["Uncalibrated"]["accuracy"]
    for name in ("TS", "ETS", "PTS"):
        assert methods[name]["ece"] < 0.5 * methods["Uncalibrated"]["ece"]
        assert methods[name]["fit_ms"] > 0.0
    assert methods["PTS"]["brier"] < methods["TS"]["brier"]


def test_demo_prints_a_table_and_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.cli._demo.DEMO_METHODS", {"Uncalibrated": "base", "TS": "ts"})
    text = succeed("demo")
    for heading in ("Accuracy", "ECE", "Brier", "NLL", "Fit (ms)", "Uncalibrated", "TS"):
        assert heading in text
    assert "fitted on 5000, judged on 10000 rows" in text
    assert "times 100" in text
    assert len(re.findall(r"\* \d", text)) == 3  # accuracy is a tie
    assert text.rstrip().endswith("calibrant fit val.npz -o pts.safetensors")
    assert max(map(len, text.splitlines())) <= 80


def test_demo_refuses_an_unknown_data_set() -> None:
    assert "data set must be one of cifar10-lenet5" in refuse("demo", "--dataset", "x")


def test_methods_are_the_registry() -> None:
    entries = as_json("methods")
    assert [entry["method"] for entry in entries] == list(REGISTRY)
    for entry, cls in zip(entries, REGISTRY.values(), strict=True):
        assert entry["class"] == cls.__name__
        assert entry["preserves_accuracy"] is cls.accuracy_preserving
        assert (cls.__doc__ or "").startswith(entry["summary"])
        assert entry["summary"]
    text = succeed("methods")
    assert all(cls.__name__ in text for cls in REGISTRY.values())


# --- how it ends ------------------------------------------------------------------------------


def test_unknown_commands() -> None:
    assert "No such command 'fry' (see calibrant --help)" in refuse("fry")


def fail_with(error: BaseException) -> Any:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    return fail


def test_unexpected_errors_keep_their_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.cli._evaluate.judge", fail_with(RuntimeError("a bug")))
    assert isinstance(run("evaluate", "val.npz").exception, RuntimeError)


def test_a_value_error_of_another_package_keeps_its_trace(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.cli._evaluate.judge", lambda *args: json.loads("{"))
    result = run("evaluate", "val.npz")
    assert isinstance(result.exception, json.JSONDecodeError)
    assert "error:" not in result.stderr


def test_errors_of_the_system_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = PermissionError(13, "Permission denied", "secret.npz")
    monkeypatch.setattr("calibrant.scorefiles.read_scores", fail_with(error))
    assert refuse("evaluate", "val.npz") == "error: secret.npz: Permission denied\n"


def test_missing_packages_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("x.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert 'pip install "calibrant[parquet]"' in refuse("evaluate", "x.parquet")


def test_an_interrupt_is_quiet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.scorefiles.read_scores", fail_with(KeyboardInterrupt()))
    result = run("evaluate", "val.npz")
    assert (result.exit_code, result.output) == (130, "")


def test_as_a_program(folder: Path) -> None:
    command = [*MAIN, "fit", "val.npz", "-o", "out.safetensors", "--method", "ts", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rows"] == 300
    assert done.stderr == ""
    command = [*MAIN, "apply", "ts.safetensors", "val.npz", "-o", "nowhere/out.npz"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is no folder nowhere to write out.npz to\n"


@pytest.mark.parametrize("option", ["--version", "--help"])  # printed by typer, and by rich
def test_a_closed_pipe_is_quiet(option: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*MAIN, option], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


# --- compare and streams ----------------------------------------------------------------------


def test_compare_shows_methods_side_by_side(folder: Path) -> None:
    text = succeed("compare", "val.npz", "val.npz", "--methods", "base,ts,irm")
    assert all(word in text for word in ("base", "ts", "irm", "Classwise", "Fit (ms)"))
    document = as_json("compare", "val.npz", "val.npz", "--methods", "base,ts")
    assert [entry["method"] for entry in document["methods"]] == ["base", "ts"]
    assert document["methods"][1]["nll"] < document["methods"][0]["nll"]


def test_compare_takes_all_methods_that_fit_the_number_of_classes(folder: Path) -> None:
    names = [entry["method"] for entry in as_json("compare", "val.npz", "val.npz")["methods"]]
    assert set(names) == set(REGISTRY) - {"platt", "beta"}


def test_compare_refuses_unknown_methods_and_mixed_kinds(folder: Path) -> None:
    assert "got 'x'" in refuse("compare", "val.npz", "val.npz", "--methods", "ts,x")
    data = np.load("val.npz")
    np.savez("probs.npz", probs=softmax(data["logits"]), labels=data["labels"])
    assert "probs.npz has probs" in refuse("compare", "val.npz", "probs.npz")


def test_a_stream_of_files_is_judged_as_one(folder: Path) -> None:
    data = np.load("val.npz")
    np.savez("a.npz", logits=data["logits"][:100], labels=data["labels"][:100])
    np.savez("b.npz", logits=data["logits"][100:], labels=data["labels"][100:])
    whole = as_json("evaluate", "val.npz", "--calibrator", "ts.safetensors")
    parts = as_json("evaluate", "a.npz", "b.npz", "--calibrator", "ts.safetensors")
    assert (parts["rows"], parts["files"]) == (300, 2)
    for kind in ("scores", "calibrated"):
        for metric in METRICS:
            assert parts[kind][metric] == pytest.approx(whole[kind][metric], abs=1e-9)
    assert "2 files: 300 rows" in succeed("evaluate", "a.npz", "b.npz")
    assert "--labels" in refuse("evaluate", "a.npz", "b.npz", "--labels", "labels.npy")


def test_evaluate_shows_intervals_and_null_values(folder: Path) -> None:
    text = succeed("evaluate", "val.npz")
    assert "if calibrated" in text
    assert "95% interval" in text
    evaluation = as_json("evaluate", "val.npz")["evaluation"]
    assert evaluation["ece"]["null"] > 0.0
    quick = as_json("evaluate", "val.npz", "--resamples", "0")["evaluation"]
    assert quick["ece"]["null"] is None


# --- ONNX -------------------------------------------------------------------------------------


def test_export_and_attach_write_graphs(folder: Path) -> None:
    assert "logits -> probabilities" in succeed("export", "ts.safetensors", "-o", "ts.onnx")
    document = as_json(
        "attach", "ts.onnx", "ts.safetensors", "-o", "b.onnx", "--logits-output", "probabilities"
    )
    assert document["file"] == "b.onnx"
    assert Path("b.onnx").stat().st_size > 0
    assert "logits_output" in refuse("attach", "ts.onnx", "ts.safetensors", "-o", "c.onnx")
