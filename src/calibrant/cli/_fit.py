"""``calibrant fit``, and ``calibrant methods``, which lists what can be fitted."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import _inputs as inputs
from calibrant.cli import _options as option
from calibrant.cli._errors import in_flags
from calibrant.cli._options import given
from calibrant.cli._output import fitting, print_json, print_table, row_bar, say, working
from calibrant.common.errors import did_you_mean, warn

if TYPE_CHECKING:
    from calibrant.calibrators import AutoCalibrator, Calibrator

_PYTHON = {"True": True, "False": False, "None": None}  # as in the documentation of the methods
_OWN = ("input", "progress")  # parameters that the command line decides itself


def fit(
    context: typer.Context,
    val: option.ScoresFiles,
    output: option.Output,
    method: Annotated[str, typer.Option(help="Acronym, see `calibrant methods`.")] = "auto",
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    kind: option.Input = None,
    labels: option.LabelsFile = None,
    scores_key: option.ScoresKey = None,
    labels_key: option.LabelsKey = None,
    weights_key: option.WeightsKey = None,
    covariates: option.Covariates = None,
    ignore_index: option.IgnoreIndex = None,
    random_state: Annotated[
        int | None, typer.Option(min=0, help="Seed, for methods that draw at random.")
    ] = None,
    max_size: option.MaxSize = None,
    max_rows: option.MaxRows = None,
    stratify: option.Stratify = False,
    engine: option.Engine = "local",
    address: option.Address = None,
    as_json: option.AsJson = False,
) -> None:
    """Fit a calibrator on validation scores and save it.

    Of a folder, a pattern or many files a sample of rows is fitted on, in bounded memory.
    """
    from calibrant.io import SUFFIXES, save

    calibrator = make_calibrator(method, param or [], random_state)
    calibrator._check_parameters()
    inputs.check_output(output, SUFFIXES, *val, labels)
    if covariates is not None and "covariates" not in calibrator.uses:
        raise ValueError(f"--covariates: {method} does not use any: name a --method that does")
    if covariates is None and "covariates" in calibrator.uses:
        raise ValueError(f"{method} needs covariates: name their columns with --covariates")
    keys = {"weights_key": weights_key, "labels_path": labels}
    reading = inputs.how_to_read(kind, scores_key, labels_key, max_size, covariates, **keys)
    if inputs.is_stream(val):
        stream = inputs.open_for(None, val, **reading)
        sampling = given(max_rows=max_rows, random_state=random_state, ignore_index=ignore_index)
        who = inputs.workers(engine, address)
        with row_bar("reading") as progress:
            calibrator.set_params(input=stream.input)
            who.fit_stream(stream, calibrator, stratify=stratify, progress=progress, **sampling)
        sample = calibrator.fit_info_.details["sample"]
        sizes = {"n_rows": sample["rows"], "n_unlabelled": sample["unlabelled"]}
    else:
        inputs.refuse_stream_options(
            max_rows=max_rows, stratify=stratify, engine=engine, address=address
        )
        sizes = _fit_file(calibrator, val[0], ignore_index, reading)
    save(calibrator, output)
    summary = {
        "method": method.lower(),
        "class": type(calibrator).__name__,
        "input": calibrator.input,
        **sizes,
        "n_classes": calibrator.n_classes_,
        "seconds": calibrator.fit_info_.seconds,
        "file": str(output),
        "fit_info": asdict(calibrator.fit_info_),
    }
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary, calibrator, context)


def _fit_file(
    calibrator: Calibrator, val: Path, ignore_index: int | None, reading: dict[str, Any]
) -> dict[str, int]:
    """Fit on all labelled rows of one file; gives the numbers of rows with and without a label."""
    import numpy as np

    from calibrant.data.rows import Rows
    from calibrant.data.scorefiles import read_scores

    with working(f"reading {val.name}"):
        data = read_scores(val, **reading)
    with inputs.about(val), fitting(calibrator):
        data, unlabelled = data.labelled()
        rows = Rows.of(
            data.scores,
            data.labels,
            data.weights,
            input=data.input,
            ignore_index=ignore_index,
            covariates=data.covariates,
        )
        calibrator.set_params(input=data.input).fit(rows)
        # valid labels that are all the same: often a wrong column, or sorted rows
        one_class = np.asarray(data.labels).ndim == 1 and (rows.labels == rows.labels[0]).all()
        if one_class and calibrator._will_keep_arg_max():  # the others warn of it themselves
            warn(
                f"every label is {rows.labels[0]:g}: the fit says nothing about the other classes. "
                "Check which column holds the labels, and whether the rows were sorted by class"
            )
    return {"n_rows": len(rows), "n_unlabelled": unlabelled}


def _print_summary(summary: dict[str, Any], calibrator: Calibrator, context: typer.Context) -> None:
    from calibrant.calibrators import AutoCalibrator

    info = calibrator.fit_info_
    say(f"method  {summary['method']} ({summary['class']})")
    if isinstance(calibrator, AutoCalibrator):
        _print_choice(calibrator)
    say(f"data    {summary['n_rows']} rows, {summary['n_classes']} classes, {summary['input']}")
    if summary["n_unlabelled"]:
        say(f"        {inputs.rows_without_label(summary['n_unlabelled'])}")
    sample = info.details.get("sample")  # the rows of a stream that were fitted on
    if sample is not None and sample["kept"] != sample["rows"]:
        how = ", the same number of every class" if sample["stratified"] else ""
        why = f": as many as take {sample['memory']}" if "memory" in sample else ""
        say(f"sample  {sample['kept']} of them, drawn by their content{how}{why}")
    if info.before is not None and info.after is not None:
        name = f"{info.loss} " if info.loss else ""
        say(f"loss    {name}{info.before:.5f} -> {info.after:.5f} on these rows")
    if not info.converged:
        say(f"note    not converged: {in_flags(info.message, context.command)}")
    say(f"time    {info.seconds:.2f} s")
    say(f"file    {summary['file']}")


def _print_choice(calibrator: AutoCalibrator) -> None:
    """What was chosen and why, how good it is on held-out rows, and what else was tried."""
    from calibrant.calibrators import REGISTRY

    details = calibrator.fit_info_.details
    kept = "keeps" if calibrator.accuracy_preserving else "may move"
    known = REGISTRY.get(calibrator.method_)
    name = f" ({known.__name__})" if known is not None else ""
    say(f"chosen  {calibrator.method_}{name}: {details['why']}; {kept} the arg max")
    loss, error = details["held_out_loss"], details["held_out_error"]
    say(f"        held-out log loss {loss:.5f} +- {error:.5f}")
    best = min(tried["left_out_loss"] for tried in details["tried"])
    for tried in details["tried"]:
        loss, error = tried["left_out_loss"], tried["error_of_difference"]
        above = f"{loss - best:+.5f} +- {error:.5f}" if error > 0.0 else "(lowest)"
        weight = f"weight {tried['weight']:.2f}" if tried["weight"] else ""
        say(f"        {tried['candidate']:<14}{loss:.5f}  {above:<22}{weight}".rstrip())


# --- methods ----------------------------------------------------------------------------------


def make_calibrator(method: str, params: list[str], random_state: int | None) -> Calibrator:
    """An unfitted calibrator with parameters that are words: NAME=VALUE."""
    from calibrant.calibrators import calibrator

    made = calibrator(method)
    defaults = {
        name: value for name, value in made.get_params(deep=False).items() if name not in _OWN
    }
    words = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ValueError(f"--param must be NAME=VALUE without spaces, got {text!r}")
        words[name.strip()] = value
    if "input" in words:
        raise ValueError("--param: say what the scores are with --input")
    values = {}
    for name, text in words.items():
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            hint = did_you_mean(name, defaults)
            if method == "auto":
                hint = ". For those of another method, name it with --method"
            raise ValueError(f"{method} has no parameter {name!r}; it has {known}{hint}")
        value = parse(text)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # a single number is a tuple of one, where the parameter is a tuple
        values[name] = (value,) if is_number and isinstance(defaults[name], tuple) else value
    if random_state is not None and "random_state" in defaults:
        if "random_state" in values:
            raise ValueError("say the seed once: --random-state or --param random_state")
        values["random_state"] = random_state
    return made.set_params(**values)


def parse(text: str) -> Any:
    """A value: JSON, or words and numbers with commas between them, or else a string.

    >>> parse("8,8"), parse("[8, 8]"), parse("0.05"), parse("brier"), parse('"a,b"')
    ((8, 8), (8, 8), 0.05, 'brier', 'a,b')
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        if "," in text:
            return tuple(parse(part.strip()) for part in text.split(",") if part.strip())
        return _PYTHON.get(text, text)
    return tuple(value) if isinstance(value, list) else value


def methods(as_json: option.AsJson = False) -> None:
    """List the methods."""
    from calibrant.calibrators import ALIASES, REGISTRY, load_plugins

    load_plugins()
    entries: list[dict[str, Any]] = [
        {
            "method": acronym,
            "aliases": [alias for alias, name in ALIASES.items() if name == acronym],
            "class": cls.__name__,
            "accuracy_preserving": cls().accuracy_preserving,
            "two_classes_only": cls.two_classes_only,
            "summary": (inspect.getdoc(cls) or "").partition("\n")[0],
        }
        for acronym, cls in REGISTRY.items()
    ]
    if as_json:
        print_json(entries)
        return
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table("Method", "Keeps accuracy", "Class and what it does", box=box.SIMPLE_HEAD)
    for entry in entries:
        keeps = "yes" if entry["accuracy_preserving"] else "no"
        only = " (two classes only)" if entry["two_classes_only"] else ""
        what = f"{entry['class']}{only}\n{escape(entry['summary'])}"
        names = "\n".join([entry["method"], *(f"or {alias}" for alias in entry["aliases"])])
        table.add_row(names, keeps, what)
    print_table(table)
