"""Small things that cost a newcomer the first hour: examples, names, warnings, messages, markup."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from ordinary_measures import measure

ITEM = "a newcomer's first hour"
SOURCES = Path(calibrant.__file__).parents[1]


def rows(n: int = 200, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels that belong together."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    logits = 2.0 * rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += 2.0
    return logits, labels


def command(*words: Any, folder: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in a folder, with the sources that are measured."""
    return subprocess.run(
        [sys.executable, "-m", "calibrant", *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )


def said_of(error: type[Exception], function: Any, *args: Any, **options: Any) -> str:
    """The end of the message with which a call is refused; nothing where it is not."""
    try:
        function(*args, **options)
    except error as refusal:
        return str(refusal)[-34:]
    return "not refused"


@measure(ITEM, "examples of `fit --help` that fail", "0", lambda value: value == 0)
def failing_examples() -> float:
    """Run them, each in a folder with the files that it names."""
    logits, labels = rows()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        text = command("fit", "--help", folder=folder).stdout
        text = re.sub(r"\s+", " ", text.partition("Examples:")[2])
        lines = [f"calibrant {part}" for part in text.split("calibrant ")[1:]]
        np.savez(f"{folder}/val.npz", logits=logits, labels=labels)
        np.save(f"{folder}/logits.npy", logits)
        np.save(f"{folder}/labels.npy", labels)
        table = np.column_stack([logits, labels])
        header = "logits_0,logits_1,logits_2,label"
        np.savetxt(f"{folder}/val.csv", table, "%.9g", ",", header=header, comments="")
        Path(folder, "in").mkdir()
        np.savez(f"{folder}/in/part.npz", logits=logits, labels=labels)
        for line in lines:
            words = shlex.split(line.partition(" (a folder")[0])[1:]
            done = command(*words, folder=folder)
            output = Path(words[words.index("-o") + 1])
            misnamed = not done.returncode and not isinstance(
                calibrant.load(Path(folder, output)), type(calibrant.calibrator(output.stem))
            )
            failed += bool(done.returncode) or misnamed
    return failed


@measure(
    ITEM, "`calibrant report` where report.html is there", "kept", lambda value: value == "kept"
)
def report_kept() -> str:
    """Whether a report of somebody's own survives the command without arguments."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        page.write_text("mine")
        command("report", "--methods", "ts", "--n-resamples", 0, folder=folder)
        return "kept" if page.read_text() == "mine" else "overwritten"


@measure(
    ITEM,
    "demonstration data are called so on the terminal and in the page",
    "both",
    lambda value: value == "both",
)
def demonstration_told() -> str:
    """Where a report without files says what it describes."""
    with tempfile.TemporaryDirectory() as folder:
        words = ("report", "-o", "x.html", "--methods", "ts", "--n-resamples", 0)
        done = command(*words, folder=folder)
        places = {"terminal": done.stdout, "page": Path(folder, "x.html").read_text()}
    told = [place for place, text in places.items() if "Demonstration data" in text]
    return "both" if len(told) == 2 else " ".join(told) or "neither"


@measure(ITEM, 'what calibrator("tps") suggests', "'pts'", lambda value: "'pts'?" in value)
def suggested_method() -> str:
    """A slip of two letters."""
    return said_of(ValueError, calibrant.calibrator, "tps")


@measure(
    ITEM, "lines of one warning, `ts` cross-validated in 5 folds", "1", lambda value: value == 1
)
def repeated_warnings() -> float:
    """The notes of a method whose every fold warns, with other numbers."""
    rng = np.random.default_rng(0)
    labels = np.r_[np.zeros(150, int), np.ones(40, int), np.full(3, 2)]
    logits = rng.normal(size=(len(labels), 3))
    logits[np.arange(len(labels)), labels] += 2.0
    (result,) = calibrant.compare(logits, labels, methods=["ts"], n_resamples=0)
    return len(result.notes)


@measure(
    ITEM,
    "warnings that 3 methods and 5 folds give of probabilities called logits",
    "1",
    lambda value: value == 1,
)
def warnings_of_probabilities() -> float:
    """It is one mistake, of the data."""
    logits, labels = rows()
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = calibrant.compare(probs, labels, methods=["base", "ts", "ets"], n_resamples=0)
    return len(caught) + sum("looks like" in note for one in found for note in one.notes)


def class_texts(name: str) -> tuple[str, str]:
    """How a report gives Plotly the name of a class, and the page without Plotly."""
    logits, labels = rows()
    page = calibrant.report.make_report(
        logits, labels, methods=["ts"], n_resamples=0, class_names=[name, "b", "c"]
    ).html
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    own = page[: page.index('id="data">')] + data["classes"][0]
    return data["classes"][0], own


@measure(ITEM, "a class called <b>x</b>, for Plotly", "no tag", lambda value: "<b>" not in value)
def markup_of_a_class() -> str:
    """Plotly takes a tag in a text for its own."""
    return class_texts("<b>x</b>")[0]


@measure(ITEM, "marks of direction that a name brings into a report", "0", lambda value: value == 0)
def marks_of_direction() -> float:
    """U+202E turns the rest of a line round."""
    return class_texts("gpj\u202eexe")[1].count("\u202e")


@measure(
    ITEM,
    "what metrics.ece says to logits",
    'names input="logits"',
    lambda value: 'input="logits"' in value,
)
def metrics_of_logits() -> str:
    """The fit reads logits by default, metrics read probabilities."""
    return said_of(ValueError, calibrant.metrics.ece, *rows())


@measure(
    ITEM,
    "a calibrator of logits behind Exp(LogSoftmax(x))",
    "refused",
    lambda value: value == "refused",
)
def attached_behind_probabilities() -> str:
    """The model gives probabilities already."""
    import onnx.parser

    fitted = calibrant.TS().fit(*rows())
    graph = "g (float[N, 3] x) => (float[N, 3] y) { l = LogSoftmax(x) y = Exp(l) }"
    with tempfile.TemporaryDirectory() as folder:
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
        onnx.save(model, f"{folder}/m.onnx")
        paths = (f"{folder}/m.onnx", fitted, f"{folder}/out.onnx")
        said = said_of(ValueError, calibrant.onnx.attach, *paths)
    return "attached" if said == "not refused" else "refused"
