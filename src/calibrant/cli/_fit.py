"""``calibrant fit``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli._echo import say
from calibrant.cli._errors import in_flags
from calibrant.cli._inputs import about, check_output, left_out_rows
from calibrant.cli._json import print_json
from calibrant.cli._options import (
    AsJson,
    IgnoreIndex,
    Input,
    LabelsFile,
    LabelsKey,
    MaxSize,
    Output,
    ScoresFiles,
    ScoresKey,
    WeightsKey,
    given,
)
from calibrant.cli._params import make
from calibrant.cli._progress import fitting, row_bar, working
from calibrant.cli._streaming import (
    Address,
    Engine,
    MaxRows,
    Stratify,
    is_stream,
    open_for,
    refuse_stream_options,
    workers,
)

if TYPE_CHECKING:
    from calibrant.calibrators import AutoCalibrator, Calibrator


def fit(
    context: typer.Context,
    val: ScoresFiles,
    output: Output,
    method: Annotated[str, typer.Option(help="Acronym, see `calibrant methods`.")] = "auto",
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    kind: Input = None,
    labels: LabelsFile = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    weights_key: WeightsKey = None,
    ignore_index: IgnoreIndex = None,
    random_state: Annotated[
        int | None, typer.Option(min=0, help="Seed, for methods that draw at random.")
    ] = None,
    max_size: MaxSize = None,
    max_rows: MaxRows = None,
    stratify: Stratify = False,
    engine: Engine = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Fit a calibrator on validation scores and save it.

    Of a folder, a pattern or many files a sample of rows is fitted on, in bounded memory.
    """
    from calibrant.common.memory import parse_size
    from calibrant.io import SUFFIXES, save

    calibrator = make(method, param or [], random_state)
    calibrator._check_parameters()
    check_output(output, SUFFIXES, *val, labels)
    reading: dict[str, Any] = {
        "scores_key": scores_key,
        "labels_key": labels_key,
        "weights_key": weights_key,
        "labels_path": labels,
        "input": kind,
        "max_size": parse_size(max_size),
    }
    if is_stream(val):
        stream = open_for(None, val, **reading)
        sampling = given(max_rows=max_rows, random_state=random_state, ignore_index=ignore_index)
        who = workers(engine, address)
        with row_bar("reading") as progress:
            calibrator.set_params(input=stream.input)
            who.fit_stream(stream, calibrator, stratify=stratify, progress=progress, **sampling)
        sample = calibrator.fit_info_.details["sample"]
        sizes = {"n_rows": sample["rows"], "n_unlabelled": sample["unlabelled"]}
    else:
        refuse_stream_options(max_rows=max_rows, stratify=stratify, engine=engine, address=address)
        sizes = _fit_file(calibrator, val[0], ignore_index, reading)
    save(calibrator, output)
    summary = _summary(method.lower(), calibrator, sizes, output)
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary, calibrator, context)


def _fit_file(
    calibrator: Calibrator, val: Path, ignore_index: int | None, reading: dict[str, Any]
) -> dict[str, int]:
    """Fit on all labelled rows of one file; gives the numbers of rows with and without a label."""
    from calibrant.data import scorefiles
    from calibrant.metrics._labelled import accepted

    with working(f"reading {val.name}"):
        data = scorefiles.read_scores(val, **reading)
    with about(val), fitting(calibrator):
        data, unlabelled = data.labelled()
        rows = accepted(data.scores, data.labels, data.weights, data.input, ignore_index)
        calibrator.set_params(input=data.input).fit(*rows)
        if calibrator._will_keep_arg_max():  # the others warn of it themselves
            _warn_if_one_class(rows[1])
    return {"n_rows": len(rows[0]), "n_unlabelled": unlabelled}


def _warn_if_one_class(labels: Any) -> None:
    """Warn of valid labels that are all the same: often a wrong column, or sorted rows."""
    import numpy as np

    from calibrant.common.errors import warn

    values = np.unique(labels)
    if values.size == 1:
        warn(
            f"every label is {values[0]:g}: the fit says nothing about the other classes. Check "
            "which column holds the labels, and whether the rows were sorted by class"
        )


def _summary(
    method: str, calibrator: Calibrator, sizes: dict[str, int], output: Path
) -> dict[str, Any]:
    return {
        "method": method,
        "class": type(calibrator).__name__,
        "input": calibrator.input,
        **sizes,
        "n_classes": calibrator.n_classes_,
        "seconds": calibrator.fit_info_.seconds,
        "file": str(output),
        "fit_info": asdict(calibrator.fit_info_),
    }


def _print_summary(summary: dict[str, Any], calibrator: Calibrator, context: typer.Context) -> None:
    from calibrant.calibrators import AutoCalibrator

    info = calibrator.fit_info_
    say(f"method  {summary['method']} ({summary['class']})")
    if isinstance(calibrator, AutoCalibrator):
        _print_choice(calibrator)
    say(f"data    {summary['n_rows']} rows, {summary['n_classes']} classes, {summary['input']}")
    if summary["n_unlabelled"]:
        say(f"        {left_out_rows(summary['n_unlabelled'])}")
    _print_sample(info.details.get("sample"))
    if info.before is not None and info.after is not None:
        name = f"{info.loss} " if info.loss else ""
        say(f"loss    {name}{info.before:.5f} -> {info.after:.5f} on these rows")
    if not info.converged:
        say(f"note    not converged: {in_flags(info.message, context.command)}")
    say(f"time    {info.seconds:.2f} s")
    say(f"file    {summary['file']}")


def _print_sample(sample: dict[str, Any] | None) -> None:
    """Which of the rows of a stream were fitted on, where it was not all."""
    if sample is None or sample["kept"] == sample["rows"]:
        return
    how = ", the same number of every class" if sample["stratified"] else ""
    why = f": as many as take {sample['memory']}" if "memory" in sample else ""
    say(f"sample  {sample['kept']} of them, drawn by their content{how}{why}")


def _print_choice(calibrator: AutoCalibrator) -> None:
    """What was chosen and why, and what else was tried."""
    from calibrant.calibrators import REGISTRY

    details = calibrator.fit_info_.details
    kept = "keeps" if calibrator.accuracy_preserving else "may move"
    name = REGISTRY[calibrator.method_].__name__
    say(f"chosen  {calibrator.method_} ({name}): {details['why']}; {kept} the arg max")
    best = min(tried["left_out_loss"] for tried in details["tried"])
    for tried in details["tried"]:
        loss, error = tried["left_out_loss"], tried["error_of_difference"]
        above = f"  {loss - best:+.5f} +- {error:.5f}" if error > 0.0 else "  (lowest)"
        say(f"        {tried['candidate']:<12}{loss:.5f}{above}")
