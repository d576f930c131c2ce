"""``calibrant plot``: a file of scores as a picture."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from calibrant.cli import _options as option
from calibrant.cli._inputs import (
    about,
    check_output,
    embedded,
    how_to_read,
    note_unlabelled,
    read_for,
)
from calibrant.cli._output import print_json, say, working
from calibrant.cli._pictures import Against, Kind, Picture, Subject, What
from calibrant.common.files import replacing

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator

SUFFIXES = (".png", ".svg", ".pdf")
_UNDATED = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
_OF_A_FILE = {
    "input": "--input",
    "scores_key": "--scores-key",
    "labels_key": "--labels-key",
    "weights_key": "--weights-key",
    "segments_key": "--segment-key",
    "labels_path": "--labels",
}
_MOST_PIXELS = 10**8


def plot(
    output: option.Output,
    scores: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCORES",
            help="A .npz, .npy, .csv, .parquet, .pt or .safetensors; left out: the embedded "
            "logits, beside ts and pts.",
            show_default=False,
        ),
    ] = None,
    calibrator: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Draw its probabilities beside the scores'; repeatable."),
    ] = None,
    what: Annotated[What, typer.Option(help="What is drawn.")] = "reliability",
    kind: Annotated[
        Kind | None,
        typer.Option(help="How the reliability's curve is found; left out: equal-width."),
    ] = None,
    n_bins: Annotated[
        int | None, typer.Option(min=1, help="Bins; left out: 15, of gaps 10.")
    ] = None,
    by: Annotated[
        Literal["class"] | None, typer.Option(help="Draw a small reliability diagram for each.")
    ] = None,
    notion: option.Notion = None,
    segment_key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Draw one for each segment: an array or a column of whole numbers, or texts of a "
            ".npz.",
        ),
    ] = None,
    against: Annotated[
        Against | None,
        typer.Option(help="Draw temperatures against this; left out: a histogram."),
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Light on a dark page.")] = False,
    title: Annotated[str | None, typer.Option(help="A title above the picture.")] = None,
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Width and height in inches, such as 6x4.")
    ] = None,
    dpi: Annotated[int, typer.Option(min=10, max=2400, help="Dots per inch.")] = 150,
    input_kind: option.Input = None,
    labels: option.LabelsFile = None,
    scores_key: option.ScoresKey = None,
    labels_key: option.LabelsKey = None,
    weights_key: option.WeightsKey = None,
    ignore_index: option.IgnoreIndex = None,
    max_size: option.MaxSize = None,
    as_json: option.AsJson = False,
) -> None:
    """Draw how far confidences can be believed: a .png, .svg or .pdf."""
    from calibrant.evaluation.plots._drawing import matplotlib

    check_output(output, SUFFIXES, scores, *(calibrator or ()))
    picture = Picture(what, kind, n_bins, by == "class", segment_key is not None, against, notion)
    inches = _inches(size, dpi)
    matplotlib()  # it is missed before the work
    reading = how_to_read(
        input_kind,
        scores_key,
        labels_key,
        max_size,
        weights_key=weights_key,
        segments_key=segment_key,
        labels_path=labels,
        need_labels=what != "temperatures",
    )
    subject = (
        _embedded(calibrator, reading, picture)
        if scores is None
        else _read(scores, calibrator, reading, ignore_index)
    )
    with about(scores) if scores else nullcontext(), working("drawing"):
        diagrams = picture.numbers(subject)
        _write(output, picture, diagrams, inches, dpi, dark, title)
    if as_json:
        numbers = {name: diagram.to_dict() for name, diagram in diagrams.items()}
        print_json({"file": str(output), "what": what, "diagrams": numbers})
    else:
        say(f"drew {picture.what} of {len(subject.data.scores):,} rows: {output}")


def _inches(size: str | None, dpi: int) -> tuple[float, float] | None:
    """Width and height, where they were given."""
    if size is None:
        return None
    number = r"(\d{1,3}(?:\.\d+)?)"
    found = re.fullmatch(f"{number}x{number}", size.strip().lower())
    width, height = map(float, found.groups()) if found else (0.0, 0.0)
    if min(width, height) < 1.0:
        raise ValueError(
            f"--size must be width and height in inches, each at least 1, such as 6x4, got {size!r}"
        )
    if width * height * dpi**2 > _MOST_PIXELS:
        raise ValueError(f"--size {size} at --dpi {dpi} is more than {_MOST_PIXELS:,} pixels")
    return width, height


# --- what is drawn ----------------------------------------------------------------------------


def _read(
    file: Path, calibrators: list[Path] | None, reading: dict[str, Any], ignore_index: int | None
) -> Subject:
    methods = _loaded(calibrators)
    first = next(iter(methods.values()), None)
    data = read_for(first, file, **reading)
    if reading["need_labels"]:
        with about(file):
            data, unlabelled = data.labelled()
        note_unlabelled(unlabelled, file)
    for path, method in zip(calibrators or (), methods.values(), strict=True):
        if method.input != data.input:
            raise ValueError(f"{path} takes {method.input}, but {file} has {data.input}")
    return Subject(data, ignore_index, methods)


def _embedded(calibrators: list[Path] | None, reading: dict[str, Any], picture: Picture) -> Subject:
    """The logits that come with the package, with calibrators of their validation rows."""
    from calibrant.calibrators import calibrator

    for name, flag in _OF_A_FILE.items():
        if reading[name] is not None:
            raise ValueError(f"{flag} goes with a file of scores, and there is none")
    val, test = embedded()
    methods = _loaded(calibrators)
    if not methods and not picture.of_one:
        with working("fitting"):
            methods = {name: calibrator(name).fit(val.scores, val.labels) for name in ("ts", "pts")}
    return Subject(test, None, methods)


def _loaded(files: list[Path] | None) -> dict[str, Calibrator]:
    """Calibrators by the names of their files, or by the whole paths where two are alike."""
    from calibrant.io import load_calibrator

    paths = list(dict.fromkeys(files or ()))
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    return {name: load_calibrator(path) for name, path in zip(names, paths, strict=True)}


# --- the file ---------------------------------------------------------------------------------


def _write(
    output: Path,
    picture: Picture,
    diagrams: dict[str, Any],
    inches: tuple[float, float] | None,
    dpi: int,
    dark: bool,
    title: str | None,
) -> None:
    """Without pyplot: it would choose a window system, and keep the figure."""
    from matplotlib import rc_context, style
    from matplotlib.figure import Figure

    form = output.suffix.lower()[1:]
    with (
        style.context("dark_background") if dark else nullcontext(),
        rc_context({"svg.hashsalt": "calibrant"}),
    ):
        figure = Figure(figsize=inches or picture.size(diagrams), dpi=dpi, layout="constrained")
        picture.draw(figure, diagrams)
        if title is not None:
            lines = [line for line in (title, figure.get_suptitle()) if line]
            figure.suptitle("\n".join(lines), fontsize="large", parse_math=False)
        with replacing(output) as file:
            figure.savefig(file, format=form, metadata=_UNDATED[form])
