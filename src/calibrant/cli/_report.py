"""``calibrant report``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli import _inputs as inputs
from calibrant.cli import _options as option
from calibrant.cli._options import given, listed
from calibrant.cli._output import method_bar, say


def report(
    val: Annotated[
        Path | None,
        typer.Argument(metavar="[VAL]", help="Scores to fit on; left out: embedded ones."),
    ] = None,
    test: option.TestScores = None,
    output: option.Output = Path("report.html"),
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Acronyms, separated by commas; left out: nine."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What stands above the page.")] = None,
    class_names: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Text with the name of a class on every line."),
    ] = None,
    n_bins: option.NBins = None,
    n_resamples: option.NResamples = None,
    level: option.Level = None,
    random_state: option.DrawSeed = None,
    notion: option.Notion = None,
    kind: option.Input = None,
    labels: option.ValLabels = None,
    test_labels: option.TestLabels = None,
    scores_key: option.ScoresKey = None,
    labels_key: option.LabelsKey = None,
    weights_key: option.WeightsKey = None,
    ignore_index: option.IgnoreIndex = None,
    max_size: option.MaxSize = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the output where it is there already.")
    ] = False,
) -> None:
    """Write one self-contained HTML page about a model and its calibrators.

    Without VAL the page describes demonstration data that come with the package.
    """
    from hashlib import file_digest

    from calibrant.evaluation.report import make_report
    from calibrant.evaluation.report._report import SUFFIXES, Provenance, need_extra

    inputs.check_output(output, SUFFIXES, val, test, labels, test_labels, class_names)
    if output.exists() and not force:
        raise FileExistsError(
            f"{output} is there already: say --force to replace it, or name another with -o"
        )
    need_extra()  # before the work
    if val is None and (labels is not None or test_labels is not None):
        raise ValueError("--labels and --test-labels go with VAL: the embedded scores have theirs")
    reading = inputs.how_to_read(kind, scores_key, labels_key, max_size, weights_key=weights_key)
    if val is None:
        rows = inputs.pair_arguments(*inputs.embedded())
    else:
        pair = inputs.read_pair(val, test, (labels, test_labels), ignore_index, **reading)
        rows = inputs.pair_arguments(*pair)
    digests = []
    for file in (val, labels, test, test_labels):
        if file is not None:
            with file.open("rb") as stream:
                digests.append((file.name, file_digest(stream, "sha256").hexdigest()))
    names = None
    if class_names is not None:
        with inputs.about(class_names):
            names = class_names.read_text("utf-8").splitlines()
    default = f"Calibration of {inputs.EMBEDDED}" if val is None else "Calibration report"
    with method_bar() as progress:
        made = make_report(
            **rows,
            methods=listed(methods),
            ignore_index=ignore_index,
            class_names=names,
            title=title or default,
            provenance=Provenance(
                command=shlex.join(["calibrant", *sys.argv[1:]]),
                files=tuple(digests),
                demonstration=inputs.EMBEDDED if val is None else "",
            ),
            progress=progress,
            notion=notion,
            **given(n_bins=n_bins, n_resamples=n_resamples, level=level, random_state=random_state),
        )
    made.save(output)
    if val is None:
        say(
            f"Demonstration data: these are the logits of {inputs.EMBEDDED}, which come with "
            "calibrant, and not those of a model of yours. For your own: calibrant report val.npz "
            "test.npz"
        )
    say(*made.summary, f"wrote {output}")
