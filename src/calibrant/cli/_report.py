"""``calibrant report``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli._echo import say
from calibrant.cli._inputs import about, check_output, read_pair
from calibrant.cli._options import (
    DrawSeed,
    IgnoreIndex,
    Input,
    LabelsKey,
    Level,
    MaxSize,
    NBins,
    Notion,
    NResamples,
    Output,
    ScoresKey,
    TestLabels,
    ValLabels,
    WeightsKey,
    given,
    listed,
)
from calibrant.cli._progress import method_bar

if TYPE_CHECKING:
    from calibrant.data.scorefiles import ScoreFile

EMBEDDED = "fashion-mnist-lenet5"


def report(
    val: Annotated[
        Path | None,
        typer.Argument(metavar="[VAL]", help="Scores to fit on; left out: embedded ones."),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TEST]",
            help="Scores to judge on; left out: parts of VAL that are left out in turn.",
        ),
    ] = None,
    output: Output = Path("report.html"),
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Acronyms, separated by commas; left out: nine."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What stands above the page.")] = None,
    class_names: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Text with the name of a class on every line."),
    ] = None,
    n_bins: NBins = None,
    n_resamples: NResamples = None,
    level: Level = None,
    random_state: DrawSeed = None,
    notion: Notion = None,
    kind: Input = None,
    labels: ValLabels = None,
    test_labels: TestLabels = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    weights_key: WeightsKey = None,
    ignore_index: IgnoreIndex = None,
    max_size: MaxSize = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the output where it is there already.")
    ] = False,
) -> None:
    """Write one self-contained HTML page about a model and its calibrators.

    Without VAL the page describes demonstration data that come with the package.
    """
    from calibrant.common.memory import parse_size
    from calibrant.evaluation.report import make_report
    from calibrant.evaluation.report._report import SUFFIXES, Provenance, need_extra

    check_output(output, SUFFIXES, val, test, labels, test_labels, class_names)
    if output.exists() and not force:
        raise FileExistsError(
            f"{output} is there already: say --force to replace it, or name another with -o"
        )
    need_extra()  # before the work
    if val is None and (labels is not None or test_labels is not None):
        raise ValueError("--labels and --test-labels go with VAL: the embedded scores have theirs")
    reading: dict[str, Any] = {
        "input": kind,
        "scores_key": scores_key,
        "labels_key": labels_key,
        "weights_key": weights_key,
        "max_size": parse_size(max_size),
    }
    if val is None:
        fitted, judged = _embedded()
    else:
        fitted, judged = read_pair(val, test, (labels, test_labels), ignore_index, **reading)
    read = [file for file in (val, labels, test, test_labels) if file is not None]
    with method_bar() as progress:
        made = make_report(
            fitted.scores,
            fitted.labels,
            None if judged is None else judged.scores,
            None if judged is None else judged.labels,
            methods=listed(methods),
            input=fitted.input,
            val_weight=fitted.weights,
            test_weight=None if judged is None else judged.weights,
            ignore_index=ignore_index,
            class_names=None if class_names is None else _lines(class_names),
            title=title or (f"Calibration of {EMBEDDED}" if val is None else "Calibration report"),
            provenance=Provenance(
                command=shlex.join(["calibrant", *sys.argv[1:]]),
                files=tuple((file.name, _digest(file)) for file in read),
                demonstration=EMBEDDED if val is None else "",
            ),
            progress=progress,
            notion=notion,
            **given(n_bins=n_bins, n_resamples=n_resamples, level=level, random_state=random_state),
        )
    made.save(output)
    if val is None:
        say(
            f"Demonstration data: these are the logits of {EMBEDDED}, which come with calibrant, "
            "and not those of a model of yours. For your own: calibrant report val.npz test.npz"
        )
    say(*made.summary, f"wrote {output}")


def _embedded() -> tuple[ScoreFile, ScoreFile | None]:
    from calibrant.data import datasets
    from calibrant.data.scorefiles import ScoreFile

    data = datasets.load(EMBEDDED)
    return (
        ScoreFile(data.val_logits, data.val_labels, None, "logits", "", ""),
        ScoreFile(data.test_logits, data.test_labels, None, "logits", "", ""),
    )


def _lines(file: Path) -> list[str]:
    with about(file):
        return file.read_text("utf-8").splitlines()


def _digest(file: Path) -> str:
    from hashlib import file_digest

    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
