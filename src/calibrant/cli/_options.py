"""Arguments and options that commands share, and how their values are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

ScoresFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="SCORES..",
        help="A .npz, .npy, .csv, .parquet, .pt or .safetensors; or a folder, a pattern, or many "
        "of them, which are read as a stream.",
    ),
]
TestScores = Annotated[
    Path | None,
    typer.Argument(
        metavar="[TEST]",
        help="Scores to judge on; left out: parts of VAL that are left out in turn.",
    ),
]
CalibratorFile = Annotated[
    Path, typer.Argument(metavar="CALIBRATOR", help="A file that `calibrant fit` wrote.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
OutputFileOrFolder = Annotated[
    Path, typer.Option("--output", "-o", help="The file to write; of a stream, the folder.")
]
Input = Annotated[
    Literal["logits", "probs"] | None,
    typer.Option("--input", help="What the scores are, where their name does not say it."),
]
LabelsFile = Annotated[
    Path | None, typer.Option("--labels", metavar="FILE", help="Labels in a file of their own.")
]
ValLabels = Annotated[
    Path | None,
    typer.Option(
        "--labels", "--val-labels", metavar="FILE", help="Labels of VAL in a file of their own."
    ),
]
TestLabels = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Labels of TEST in a file of their own.")
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
WeightsKey = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the rows' weights, beside the scores: an array or a column; left out: all 1.",
    ),
]
Covariates = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Names of what else is known of each row, beside the scores, separated by commas: "
        "columns of numbers, for methods that use them.",
    ),
]
IgnoreIndex = Annotated[
    int | None, typer.Option(metavar="INT", help="Rows with this label are left out.")
]
NBins = Annotated[int | None, typer.Option(min=1, help="Bins of the metrics; left out: 15.")]
Notion = Annotated[
    Literal["class-1", "confidence"] | None,
    typer.Option(
        "--notion",
        help="Whose calibration: class 1's of two classes, or the confidence's; left out: class-1 "
        "with two classes, confidence with more.",
    ),
]
NResamples = Annotated[
    int | None, typer.Option(min=0, help="Draws for intervals and null values; 0 leaves them out.")
]
Level = Annotated[
    float | None, typer.Option(help="Level of the intervals and tests; left out: 0.95.")
]
DrawSeed = Annotated[int | None, typer.Option(min=0, help="Seed of the draws; left out: 0.")]
MaxSize = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="The most memory that the arrays of one file may take, such as 4GB; left out: 1GB or "
        "20 times the size of the file, whichever is more. A .npy file stays on the disk.",
    ),
]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(help="Who does the work on folders and many files: this process, or Ray."),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Of the Ray cluster; left out: RAY_ADDRESS, or here."),
]
MaxRows = Annotated[
    int | None,
    typer.Option(min=1, help="The most rows of a stream that are fitted on; left out: 200000."),
]
Stratify = Annotated[
    bool, typer.Option("--stratify", help="Draw the same number of rows of every class.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def listed(text: str | None) -> list[str] | None:
    """Names that were separated by commas, each of them once; None where there were none."""
    if text is None:
        return None
    names = list(dict.fromkeys(map(str.strip, text.split(","))))
    for name in names:
        if re.search(r"[;\s]", name):
            raise ValueError(f"names must be separated by commas, such as a,b, got {text!r}")
    return names


def given(**options: Any) -> dict[str, Any]:
    """The options that were given: the library's own defaults serve for the others."""
    return {name: value for name, value in options.items() if value is not None}
