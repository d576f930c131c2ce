"""``calibrant plot``: a file of scores as a picture."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from calibrant.cli import _inputs as inputs
from calibrant.cli import _options as option
from calibrant.cli._output import print_json, say, working
from calibrant.common.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calibrant.calibrators import Calibrator
    from calibrant.data.scorefiles import ScoreFile

What = Literal["reliability", "risk-coverage", "temperatures", "gaps", "bins"]
Kind = Literal["equal-width", "equal-mass", "isotonic", "smooth"]
Against = Literal["confidence", "margin", "entropy"]

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
        Against | None, typer.Option(help="Draw temperatures against this; left out: a histogram.")
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

    inputs.check_output(output, SUFFIXES, scores, *(calibrator or ()))
    picture = Picture(what, kind, n_bins, by == "class", segment_key is not None, against, notion)
    inches = _inches(size, dpi)
    matplotlib()  # it is missed before the work
    reading = inputs.how_to_read(
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
    with inputs.about(scores) if scores else nullcontext(), working("drawing"):
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


# --- what is drawn, from which numbers, and who draws them -------------------------------------


@dataclass(frozen=True)
class Subject:
    """Scores with all that was said about them, and the calibrators to draw beside them."""

    data: ScoreFile
    ignore_index: int | None
    methods: Mapping[str, Calibrator]

    def every(self) -> dict[str, dict[str, Any]]:
        """The arguments of a diagram by name: of the scores as they were, and calibrated."""
        data = self.data
        rows = {"sample_weight": data.weights, "ignore_index": self.ignore_index}
        given = {"uncalibrated": (data.scores, data.input)}
        for name, method in self.methods.items():
            used = data.rows.only(method.formula_.needs).covariates
            given[name] = method.predict_proba(data.scores, covariates=used), "probs"
        return {
            name: {"probs": scores, "labels": data.labels, "input": kind, **rows}
            for name, (scores, kind) in given.items()
        }

    def only(self, what: str) -> tuple[str, dict[str, Any]]:
        """What the one calibrator makes of the scores; without any, the scores."""
        if len(self.methods) > 1:
            names = ", ".join(self.methods)
            raise ValueError(f"{what} is drawn of one calibrator, got {names}")
        return list(self.every().items())[-1]


@dataclass(frozen=True)
class Picture:
    """What was asked for; combinations without a meaning are refused."""

    what: What
    kind: Kind | None
    n_bins: int | None
    by_class: bool
    by_segment: bool
    against: Against | None
    notion: Literal["class-1", "confidence"] | None = None

    def __post_init__(self) -> None:
        if self.by_class and self.by_segment:
            raise ValueError("--by class and --segment-key are two ways to divide: leave one out")
        if self.in_panels and self.what != "reliability":
            raise ValueError("--by and --segment-key go with --what reliability")
        if self.notion is not None and (self.by_class or self.what not in ("reliability", "bins")):
            raise ValueError("--notion goes with --what reliability or bins, without --by class")
        if self.against is not None and self.what != "temperatures":
            raise ValueError("--against goes with --what temperatures")
        if self.kind is not None and self.what not in ("reliability", "bins"):
            raise ValueError("--kind goes with --what reliability or bins")
        if self.what == "bins" and self.kind in ("isotonic", "smooth"):
            raise ValueError(f"--what bins takes --kind equal-width or equal-mass, got {self.kind}")
        if self.n_bins is not None and self.what not in ("reliability", "gaps"):
            raise ValueError("--n-bins goes with --what reliability or gaps")

    @property
    def in_panels(self) -> bool:
        """Whether it is small multiples."""
        return self.by_class or self.by_segment

    def numbers(self, subject: Subject) -> dict[str, Any]:
        """The diagrams by name."""
        from calibrant.evaluation import diagrams

        if self.what == "temperatures":
            return self._temperatures(subject)
        bins: dict[str, Any] = {} if self.n_bins is None else {"n_bins": self.n_bins}
        if self.in_panels:
            return self._panels(subject, bins)
        if self.what == "gaps":
            name, rows = subject.only("--what gaps")
            return {name: diagrams.class_gaps(**rows, **bins)}
        kind_of_bins, notion = self.kind or "equal-width", {"notion": self.notion}
        ways: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
            "reliability": (diagrams.reliability, {"kind": kind_of_bins, **bins, **notion}),
            "risk-coverage": (diagrams.risk_coverage, {}),
            "bins": (diagrams.ece_by_bins, {"scheme": kind_of_bins, **notion}),
        }
        compute, options = ways[self.what]
        return {name: compute(**rows, **options) for name, rows in subject.every().items()}

    def _panels(self, subject: Subject, bins: dict[str, Any]) -> dict[str, Any]:
        from calibrant.evaluation import diagrams

        flag = "--by class" if self.by_class else "--segment-key"
        _, rows = subject.only(flag)
        options = {"kind": self.kind or "equal-width", **bins, **rows}
        if self.by_class:
            found = diagrams.reliability_by_class(**options)
        else:
            segments: Any = subject.data.segments
            # tables hold floats: those without a fraction are whole numbers
            if segments.dtype.kind == "f" and (segments == segments.round()).all():
                segments = segments.astype("int64")
            found = diagrams.reliability_by_segment(
                segments=segments, notion=self.notion, **options
            )
        return {str(key): diagram for key, diagram in found.items()}

    def _temperatures(self, subject: Subject) -> dict[str, Any]:
        """Those of the one calibrator that is no TS; TS is what it is compared with."""
        from calibrant.calibrators import TemperatureScaling
        from calibrant.evaluation import diagrams

        scalings = {n: m for n, m in subject.methods.items() if isinstance(m, TemperatureScaling)}
        others = {name: m for name, m in subject.methods.items() if name not in scalings}
        drawn = others or scalings
        if len(drawn) != 1 or len(scalings) > 1:
            raise ValueError(
                "--what temperatures takes one --calibrator, such as PTS, and TS to compare with, "
                f"got {', '.join(subject.methods) or 'none'}"
            )
        ((name, method),) = drawn.items()
        reference = next(iter(scalings.values()), None)
        return {name: diagrams.temperatures(method, subject.data.scores, reference=reference)}

    def size(self, shown: Mapping[str, Any]) -> tuple[float, float]:
        """The inches of the picture, where none were asked for."""
        from calibrant.evaluation.plots import _drawing, _errors, _reliability

        if self.in_panels:
            return _reliability.grid_size(min(len(shown), _reliability.MOST_PANELS))
        if self.what == "gaps":
            return _errors.class_gaps_size(len(next(iter(shown.values())).gap))
        return _reliability.SIZE if self.what == "reliability" else _drawing.SIZE

    def draw(self, figure: Figure, shown: Mapping[str, Any]) -> None:
        """Fill a figure."""
        from calibrant.evaluation import plots

        named = {name.replace("$", r"\$"): one for name, one in shown.items()}  # no formulas
        if self.in_panels:
            plots.reliability_grid(named, figure=figure)
            return
        ax = figure.add_subplot()
        one = next(iter(named.values()))
        several = named if len(named) > 1 else one
        if self.what == "reliability":
            plots.reliability(several, ax=ax)
        elif self.what == "risk-coverage":
            plots.risk_coverage(several, ax=ax)
        elif self.what == "bins":
            plots.ece_by_bins(several, ax=ax)
        elif self.what == "gaps":
            plots.class_gaps(one, ax=ax)
        else:
            plots.temperatures(one, against=self.against, ax=ax)


# --- what is read -----------------------------------------------------------------------------


def _read(
    file: Path, calibrators: list[Path] | None, reading: dict[str, Any], ignore_index: int | None
) -> Subject:
    methods = _loaded(calibrators)
    data = inputs.read_for(methods.values(), file, **reading)
    if reading["need_labels"]:
        with inputs.about(file):
            data, unlabelled = data.labelled()
        inputs.note_unlabelled(unlabelled, file)
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
    val, test = inputs.embedded()
    methods = _loaded(calibrators)
    if not methods and not (picture.in_panels or picture.what == "gaps"):
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
