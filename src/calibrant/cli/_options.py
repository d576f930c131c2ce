"""Arguments and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

ScoresFile = Annotated[
    Path,
    typer.Argument(metavar="SCORES", help="A .npz, .npy, .csv, .parquet, .pt or .safetensors."),
]
CalibratorFile = Annotated[
    Path, typer.Argument(metavar="CALIBRATOR", help="A file that `calibrant fit` wrote.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
Input = Annotated[
    Literal["logits", "probs"] | None,
    typer.Option("--input", help="What the scores are, where their name does not say it."),
]
LabelsFile = Annotated[
    Path | None, typer.Option("--labels", metavar="FILE", help="Labels in a file of their own.")
]
ScoresKey = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Name of the scores: an array, or columns NAME_0, NAME_1, .."
    ),
]
LabelsKey = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the labels: an array or a column.")
]
Bins = Annotated[
    int | None, typer.Option(min=1, help="Bins of the ECE; left out: calibrant.metrics' own.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
