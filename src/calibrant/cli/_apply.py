"""``calibrant apply``."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli._echo import say
from calibrant.cli._inputs import about, check_output, read_for
from calibrant.cli._json import print_json
from calibrant.cli._options import (
    AsJson,
    CalibratorFile,
    Input,
    LabelsKey,
    MaxSize,
    Output,
    ScoresFile,
    ScoresKey,
)
from calibrant.cli._progress import working


def apply(
    calibrator: CalibratorFile,
    scores: ScoresFile,
    output: Output,
    temperature: Annotated[
        bool, typer.Option("--temperature", help="Write the temperature of each row as well.")
    ] = False,
    kind: Input = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    max_size: MaxSize = None,
    as_json: AsJson = False,
) -> None:
    """Write calibrated probabilities to a file, beside the labels where the scores have them."""
    from calibrant import scorefiles
    from calibrant._memory import parse_size
    from calibrant.io import load_calibrator
    from calibrant.scorefiles._formats import SUFFIXES

    check_output(output, SUFFIXES, calibrator, scores)
    method = load_calibrator(calibrator)
    if temperature and not hasattr(method, "temperature"):
        raise ValueError(f"--temperature: {type(method).__name__} has none for each row")
    data = read_for(
        method,
        scores,
        input=kind,
        scores_key=scores_key,
        labels_key=labels_key,
        need_labels=False,
        max_size=parse_size(max_size),
    )
    with about(scores), working("calibrating"):
        probs = method.predict_proba(data.scores)
        extra = {
            "labels": None if output.suffix.lower() == ".npy" else data.labels,
            "temperature": method.temperature(data.scores) if temperature else None,
        }
        scorefiles.write_probs(output, probs, **extra)
    names = ["probs", *(name for name, array in extra.items() if array is not None)]
    rows, classes = probs.shape
    if as_json:
        print_json({"n_rows": rows, "n_classes": classes, "arrays": names, "file": str(output)})
    else:
        say(f"wrote {', '.join(names)} of {rows} rows, {classes} classes to {output}")
