"""``calibrant fit``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import calibrant
from calibrant.cli._inputs import check_not_same
from calibrant.cli._json import print_json
from calibrant.cli._options import (
    AsJson,
    Input,
    LabelsFile,
    LabelsKey,
    Output,
    ScoresFile,
    ScoresKey,
)
from calibrant.cli._progress import timed_fit, working

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator


def fit(
    val: ScoresFile,
    output: Output,
    method: Annotated[str, typer.Option(help="Acronym, see `calibrant methods`.")] = "pts",
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    kind: Input = None,
    labels: LabelsFile = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed, for methods that draw at random.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a calibrator on validation scores and save it."""
    from calibrant import scorefiles

    calibrator = _make(method, param or [], seed)
    scorefiles.check_folder(output)
    check_not_same(output, val, labels)
    with working(f"reading {val.name}"):
        data = scorefiles.read_scores(
            val, scores_key=scores_key, labels_key=labels_key, labels_path=labels, kind=kind
        )
    seconds = timed_fit(calibrator.set_params(input=data.kind), data.scores, data.labels)
    calibrant.save(calibrator, output)
    summary = _summary(method.lower(), calibrator, len(data.scores), seconds, output)
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary)


def _make(method: str, params: list[str], seed: int | None) -> Calibrator:
    """An unfitted calibrator with the given parameters."""
    from calibrant.calibrators import calibrator

    made = calibrator(method)
    valid = [name for name in made.get_params(deep=False) if name != "input"]
    given = dict(_parse_param(text) for text in params)
    for name in given:
        if name == "input":
            raise ValueError("--param: say what the scores are with --input")
        if name not in valid:
            raise ValueError(
                f"{method} has no parameter {name!r}; it has {', '.join(valid) or 'none'}"
            )
    if seed is not None and "random_state" in valid:
        if "random_state" in given:
            raise ValueError("say the seed once: --seed or --param random_state")
        given["random_state"] = seed
    return made.set_params(**given)


def _parse_param(text: str) -> tuple[str, Any]:
    """``name=value`` with a value in JSON, or else a string."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"--param must be name=value, got {text!r}")
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        parsed = value
    return name.strip(), tuple(parsed) if isinstance(parsed, list) else parsed


def _summary(
    method: str, calibrator: Calibrator, rows: int, seconds: float, output: Path
) -> dict[str, Any]:
    return {
        "method": method,
        "class": type(calibrator).__name__,
        "input": calibrator.input,
        "rows": rows,
        "classes": calibrator.n_classes_,
        "seconds": seconds,
        "file": str(output),
        "fit_info": calibrator.fit_info_,
    }


def _print_summary(summary: dict[str, Any]) -> None:
    info = summary["fit_info"]
    typer.echo(f"method  {summary['method']} ({summary['class']})")
    typer.echo(f"data    {summary['rows']} rows, {summary['classes']} classes, {summary['input']}")
    if "loss_after" in info:
        before, after = info["loss_before"], info["loss_after"]
        typer.echo(f"loss    {info['loss']} {before:.5f} -> {after:.5f} on these rows")
    if not info.get("converged", True):
        typer.echo(f"note    not converged: {info.get('message', 'no reason given')}")
    typer.echo(f"time    {summary['seconds']:.2f} s")
    typer.echo(f"file    {summary['file']}")
