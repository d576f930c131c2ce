"""Ordinary mistakes of a first hour: each message says what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from cli_support import refuse, run, sample, softmax

CLASSES = 3
LOGITS = [f"logits_{index}" for index in range(CLASSES)]
PROBS = [f"probs_{index}" for index in range(CLASSES)]


def table(path: str, header: list[str], *columns: Any, between: str = ",") -> None:
    lines = [header, *zip(*(list(column) for column in columns), strict=True)]
    Path(path).write_text("\n".join(between.join(map(str, line)) for line in lines if line) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with val.npz, ts.safetensors, and files of every mistake."""
    monkeypatch.chdir(tmp_path)
    logits, y = sample(120, CLASSES)
    p = softmax(logits)
    names = np.array(["cat", "dog", "owl"])[y]
    np.savez("val.npz", logits=logits, labels=y)
    np.savez("objects.npz", logits=logits, labels=names.astype(object))
    np.savez("transposed.npz", logits=logits.T, labels=y)
    np.savez("swapped.npz", logits=y, labels=logits)
    np.savez("percent.npz", probs=100.0 * p, labels=y)
    np.savez("called_probs.npz", probs=logits, labels=y)
    np.savez("sigmoids.npz", probs=1.0 / (1.0 + np.exp(-logits)), labels=y)
    np.savez("keys.npz", outputs=logits, target=y)
    np.save("logits.npy", logits)
    np.save("labels.npy", y)
    table("text.csv", [*LOGITS, "label"], *logits.T, names)
    table("unlabelled.csv", LOGITS, *logits.T)
    table("named.csv", ["cat", "dog", "owl", "label"], *logits.T, y)
    table("one_based.csv", ["logits_1", "logits_2", "logits_3", "label"], *logits.T, y)
    table("labels_from_1.csv", [*LOGITS, "label"], *logits.T, y + 1)
    table("one_class.csv", [*LOGITS, "label"], *logits.T, np.zeros_like(y))
    table("percent.csv", [*PROBS, "label"], *(100.0 * p).T, y)
    table("rounded.csv", [*PROBS, "label"], *p.round(1).T, y)
    table("headless.csv", [], *logits.T, y)
    table("semicolons.csv", [*LOGITS, "label"], *logits.T, y, between=";")
    table("tabs.csv", [*LOGITS, "label"], *logits.T, y, between="\t")
    for name in ("empty.csv", "empty.npz", "empty.parquet"):
        Path(name).touch()
    Path("table.npz").write_bytes(Path("text.csv").read_bytes())
    Path("archive.csv").write_bytes(Path("val.npz").read_bytes())
    calibrant.save(calibrant.TS().fit(logits, y), "ts.safetensors")
    return tmp_path


PERCENT = ". They look like percentages: divide them by 100"
SAY_LOGITS = ". If they are logits, say --input logits"
FROM_1 = "got 3 at row 2. If they are 1, 2, .., subtract 1 from each (labels - 1)"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("vla.npz", "vla.npz does not exist. Did you mean 'val.npz'?"),
        ("val.npy", "val.npy does not exist. Did you mean 'val.npz'?"),
        ("text.npz", "text.npz does not exist. Did you mean 'text.csv'?"),
        ("tests.npz", "tests.npz does not exist\n"),
        ("nowhere/val.npz", "nowhere/val.npz does not exist"),
        ("ts.safetensors", "ts.safetensors is no file of scores: calibrant wrote it for a"),
        ("text.csv", "column 'label': must be a number, got 'dog'. Number the classes 0, 1, .."),
        ("objects.npz", "'labels' holds pickled objects, which are never loaded: save an array"),
        ("unlabelled.csv", "say which with --labels-key, or give a file of labels with --labels"),
        ("named.csv", "it has cat, dog, owl, label: say which with --scores-key, or name the"),
        ("one_based.csv", "but no logits_0: the columns of the classes are numbered from 0"),
        ("labels_from_1.csv", FROM_1),
        ("percent.csv", PERCENT),
        ("percent.npz", PERCENT),
        ("called_probs.npz", SAY_LOGITS),
        ("sigmoids.npz", f"row 0 sums to 1.93384{SAY_LOGITS}"),
        ("rounded.csv", "sums to 0.9. If the values were rounded, divide every row by its sum"),
        ("headless.csv", "must have a header row, such as logits_0,logits_1,label: its first"),
        ("semicolons.csv", "must have commas between its columns, and points in its numbers"),
        ("tabs.csv", "its header has tabs"),
        ("empty.csv", "empty.csv is empty"),
        ("empty.npz", "empty.npz is empty"),
        ("empty.parquet", "empty.parquet is empty"),
        ("table.npz", "damaged, or something else. The end of its name must tell its format"),
        ("archive.csv", "it is not text in UTF-8. The end of its name must tell its format"),
        ("transposed.npz", "Scores of shape (3, 120) may have rows for columns: give scores.T"),
        ("swapped.npz", "per row, got numbers of shape (120, 3). Were scores and labels swapped?"),
    ],
)
def test_files(folder: Path, file: str, message: str) -> None:
    for command in (["fit", file, "-o", "out.safetensors"], ["evaluate", file]):
        line = refuse(*command)
        assert message in line
        assert file in line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit val.npz -o x.safetensors --method tps", "got 'tps'. Did you mean 'pts'?"),
        ("fit val.npz -o x.safetensors --method temperature-scaling", "Did you mean 'ts'?"),
        ("fit val.npz -o x.safetensors --method ts --param los=nll", "Did you mean 'loss'?"),
        ("fit val.npz -o x.safetensors --param loss =nll", "be NAME=VALUE without spaces"),
        ("fit val.npz -o x.safetensors --seed 1", "--seed. Did you mean --random-state?"),
        ("fit val.npz -o x.safetensors --input logit", "'--input': 'logit' is not one of"),
        ("fit val.npz labels.npy -o x.safetensors", "if it holds labels, give it with --labels"),
        ("fit keys.npz -o x.safetensors --scores-key output", "Did you mean 'outputs'?"),
        ("compare val.npz --methods ts,tps", "got 'tps'. Did you mean 'pts'?"),
        ("compare val.npz --folds 3", "No such option: --folds. Did you mean --cv?"),
        ("compare val.npz --by acuracy", "got 'acuracy'. Did you mean 'accuracy'?"),
        ("evaluate val.npz --metrics ECE", "got 'ECE'. Did you mean 'ece'?"),
        ("evaluate val.npz --metrics ece;nll", "must be separated by commas, such as a,b, got"),
        ("evaluate val.npz --calibrator val.npz", "val.npz is not a file that calibrant wrote"),
        ("apply val.npz ts.safetensors -o x.npz", "the calibrator comes first, then the scores"),
        ("apply st.safetensors val.npz -o x.npz", "no file st.safetensors"),
        ("demo --dataset cifar10-vgg", "Did you mean 'cifar10-vgg19'?"),
    ],
)
def test_command_lines(folder: Path, line: str, message: str) -> None:
    assert message in refuse(*line.split())


def test_labels_of_one_class(folder: Path) -> None:
    for method, message in (
        (
            "auto",
            "all rows have class 0, which leaves nothing to learn but a temperature: check the",
        ),
        (
            "ts",
            "every label is 0: the fit says nothing about the other classes. Check which column",
        ),
    ):
        result = run("fit", "one_class.csv", "-o", "out.safetensors", "--method", method)
        assert result.exit_code == 0
        assert message in result.stderr
        assert result.stderr.endswith("whether the rows were sorted by class\n")


def test_compare_warns_once_of_probabilities_called_logits(folder: Path) -> None:
    logits, labels = sample(120, CLASSES)
    np.savez("p.npz", logits=softmax(logits), labels=labels)
    for files in (["p.npz"], ["p.npz", "p.npz"]):
        result = run("compare", *files, "--methods", "base,ts,ets", "--n-resamples", "0")
        assert result.exit_code == 0
        assert result.stderr.count("warning: ") == result.stderr.count("\n") == 1
        assert result.stderr.endswith("If it is, say --input probs\n")


# --- the same in Python -----------------------------------------------------------------------


def test_unknown_names_in_python() -> None:
    with pytest.raises(ValueError, match=r"got 'tps'\. Did you mean 'pts'\?$"):
        calibrant.calibrator("tps")
    with pytest.raises(ValueError, match=r"got 'TemperatureScaling'\. Did you mean 'ts'\?$"):
        calibrant.calibrator("TemperatureScaling")
    with pytest.raises(ValueError, match=r"got 'nonsense'$"):
        calibrant.calibrator("nonsense")
    logits, labels = sample(60, CLASSES)
    with pytest.raises(ValueError, match=r"got 'breir'\. Did you mean 'brier'\?$"):
        calibrant.evaluate(softmax(logits), labels, metrics=["breir"])


@pytest.mark.parametrize("name", ["ece", "nll", "brier", "accuracy"])
def test_metrics_of_logits_suggest_to_say_so(name: str) -> None:
    logits, labels = sample(60, CLASSES)
    metric = getattr(calibrant.metrics, name)
    with pytest.raises(ValueError, match=r'\. If they are logits, say input="logits"$'):
        metric(logits, labels)
    assert metric(logits, labels, input="logits") >= 0.0
    with pytest.raises(ValueError, match=r"\. They look like percentages: divide them by 100$"):
        metric(100.0 * softmax(logits), labels)
    with pytest.raises(ValueError, match=r"got nan at row 0, class 0$"):
        metric(np.where(np.arange(60)[:, None] == 0, np.nan, logits), labels)
