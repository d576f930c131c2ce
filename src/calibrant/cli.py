"""The command line: parse, call, print.

Only light modules are imported here; a command imports what it needs, so that ``--help`` is quick.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TextIO

import typer
from typer.core import TyperGroup

import calibrant
from calibrant._errors import CalibrationWarning
from calibrant.papers.pts.command import app as reproduce_app

if TYPE_CHECKING:
    from rich.table import Table

    from calibrant.calibrators import Calibrator
    from calibrant.comparison import MethodResult
    from calibrant.scorefiles import ScoreFile

BAD_INPUT, INTERRUPTED = 2, 130  # exit codes
HEADINGS = {
    "accuracy": "Accuracy",
    "ece": "ECE",
    "classwise_ece": "Classwise",
    "brier": "Brier",
    "nll": "NLL",
}
DEMO_METHODS = {"Uncalibrated": "base", "TS": "ts", "ETS": "ets", "PTS": "pts"}

# typer brings its own copy of click, older releases the package: this finds either one's class.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


# --- errors and warnings in one line ----------------------------------------------------------


class _OneLineGroup(TyperGroup):
    """Tells bad input, and warnings of the library, in one line on standard error."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        with warnings.catch_warnings():
            warnings.simplefilter("always", CalibrationWarning)
            warnings.showwarning = _show_warning
            code = _exit_code(lambda: super(_OneLineGroup, self).main(*args, **kwargs))
        sys.exit(code)


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        code = run()  # typer and rich end quietly by themselves where the output's pipe is closed
    except _UsageError as error:
        return _complain(_usage_message(error))
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (ValueError, TypeError, OSError, ImportError) as error:
        if not (isinstance(error, OSError) or _is_ours(error)):
            raise
        return _complain(_message(error))
    return code if isinstance(code, int) else 0


def _is_ours(error: BaseException) -> bool:
    """Whether our code raised it; from another package it is unexpected and keeps its trace."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return str(module).split(".")[0] == "calibrant"


def _usage_message(error: Any) -> str:
    command = error.ctx.command_path if error.ctx else "calibrant"
    return f"{error.format_message().rstrip('.')} (see {command} --help)"


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _complain(message: str) -> int:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    return BAD_INPUT


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, CalibrationWarning):
        typer.echo(f"warning: {' '.join(str(message).split())}", err=True)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        typer.echo(text, file=file, err=True, nl=False)


# --- options that commands share --------------------------------------------------------------

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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ScoresFile = Annotated[
    Path,
    typer.Argument(metavar="SCORES", help="A .npz, .npy, .csv, .parquet, .pt or .safetensors."),
]
CalibratorFile = Annotated[
    Path, typer.Argument(metavar="CALIBRATOR", help="A file that `calibrant fit` wrote.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]

app = typer.Typer(
    name="calibrant",
    cls=_OneLineGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


app.add_typer(reproduce_app, name="reproduce")


def _examples(*lines: str) -> str:
    """An epilogue; typer keeps a line only where a paragraph ends."""
    return "\n\n".join(["Examples:", *lines])


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"calibrant {calibrant.__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog=_examples("calibrant demo", "calibrant fit val.npz -o pts.safetensors"),
)
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version),
    ] = False,
) -> None:
    """Make a classifier's confidences mean what they say."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# --- commands ---------------------------------------------------------------------------------


@app.command(
    epilog=_examples(
        "calibrant fit val.npz -o pts.safetensors",
        "calibrant fit val.csv -o ts.safetensors --method ts --param loss=brier",
        "calibrant fit logits.npy -o pts.safetensors --input logits --labels labels.npy",
    )
)
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
    _check_not_same(output, val, labels)
    with _working(f"reading {val.name}"):
        data = scorefiles.read_scores(
            val, scores_key=scores_key, labels_key=labels_key, labels_path=labels, kind=kind
        )
    seconds = _timed_fit(calibrator.set_params(input=data.kind), data.scores, data.labels)
    calibrant.save(calibrator, output)
    summary = _fit_summary(method.lower(), calibrator, len(data.scores), seconds, output)
    if as_json:
        _print_json(summary)
    else:
        _print_fit(summary)


@app.command(
    epilog=_examples(
        "calibrant apply pts.safetensors test.npz -o probs.npz",
        "calibrant apply pts.safetensors test.npy -o probs.parquet --temperature",
    )
)
def apply(
    calibrator: CalibratorFile,
    scores: ScoresFile,
    output: Output,
    temperature: Annotated[
        bool, typer.Option("--temperature", help="Write the temperature of each row as well.")
    ] = False,
    kind: Input = None,
    scores_key: ScoresKey = None,
    as_json: AsJson = False,
) -> None:
    """Write calibrated probabilities to a file, beside the labels where the scores have them."""
    from calibrant import scorefiles

    scorefiles.check_can_write(output)
    _check_not_same(output, calibrator, scores)
    method, data = _load_both(calibrator, scores, kind, scores_key=scores_key, need_labels=False)
    if temperature and not hasattr(method, "temperature"):
        raise ValueError(f"--temperature: {type(method).__name__} has none for each row")
    with _working("calibrating"):
        probs = method.predict_proba(data.scores)
        extra = {
            "labels": None if output.suffix.lower() == ".npy" else data.labels,
            "temperature": method.temperature(data.scores) if temperature else None,
        }
        scorefiles.write_probs(output, probs, **extra)
    names = ["probs", *(name for name, array in extra.items() if array is not None)]
    rows, classes = probs.shape
    if as_json:
        _print_json({"rows": rows, "classes": classes, "arrays": names, "file": str(output)})
    else:
        typer.echo(f"wrote {', '.join(names)} of {rows} rows, {classes} classes to {output}")


@app.command(
    epilog=_examples(
        "calibrant evaluate test.npz",
        "calibrant evaluate test.npz --calibrator pts.safetensors --json",
        "calibrant evaluate part-*.npz    (a stream: constant memory, no resampling)",
    )
)
def evaluate(
    scores: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCORES..", help="A .npz, .npy, .csv, .parquet, .pt or .safetensors, or many."
        ),
    ],
    calibrator: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judge its probabilities beside the scores'."),
    ] = None,
    bins: Annotated[
        int | None, typer.Option(min=1, help="Bins of the ECE; left out: calibrant.metrics' own.")
    ] = None,
    resamples: Annotated[
        int | None,
        typer.Option(min=0, help="Draws for intervals and null values; 0 leaves them out."),
    ] = None,
    kind: Input = None,
    labels: LabelsFile = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    as_json: AsJson = False,
) -> None:
    """Judge scores, and what a calibrator makes of them.

    One file is judged in full: every metric with its interval and the value that perfect
    calibration would show. Several files are read one after the other, in constant memory.
    """
    names: dict[str, Any] = {
        "scores_key": scores_key,
        "labels_key": labels_key,
        "labels_path": labels,
    }
    bins = bins or _default_bins()
    if len(scores) > 1:
        _evaluate_stream(scores, calibrator, kind, bins, as_json, names)
        return
    method, data = _load_both(calibrator, scores[0], kind, **names)
    with _working("evaluating"):
        probs = _as_probabilities(data)
        judged = {"scores": _judge(probs, data.labels, bins)}
        if method is not None:
            probs = method.predict_proba(data.scores)
            judged["calibrated"] = _judge(probs, data.labels, bins)
        options: dict[str, Any] = {} if resamples is None else {"resamples": resamples}
        evaluation = calibrant.evaluate(probs, data.labels, bins=bins, **options)
    rows = len(data.scores)
    if as_json:
        document = {"rows": rows, "input": data.kind, "bins": bins, **judged}
        _print_json({**document, "evaluation": evaluation.to_dict()})
        return
    if method is not None:
        _print_table(_metric_table(f"{scores[0].name}: {rows} rows", judged, bins))
    typer.echo(f"{'calibrated' if method else scores[0].name}: {evaluation}")


@app.command(
    epilog=_examples(
        "calibrant compare val.npz test.npz",
        "calibrant compare val.npz test.npz --methods ts,ets,pts --json",
    )
)
def compare(
    val: Annotated[Path, typer.Argument(metavar="VAL", help="Scores to fit on.")],
    test: Annotated[Path, typer.Argument(metavar="TEST", help="Scores to judge on.")],
    methods: Annotated[
        str | None, typer.Option(help="Acronyms, separated by commas; left out: all.")
    ] = None,
    bins: Annotated[
        int | None, typer.Option(min=1, help="Bins of the ECE; left out: calibrant.metrics' own.")
    ] = None,
    kind: Input = None,
    scores_key: ScoresKey = None,
    labels_key: LabelsKey = None,
    as_json: AsJson = False,
) -> None:
    """Fit all methods on validation scores and compare them on test scores."""
    from calibrant import comparison
    from calibrant.scorefiles import read_scores

    bins = bins or _default_bins()
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    keys: dict[str, Any] = {"scores_key": scores_key, "labels_key": labels_key, "kind": kind}
    with _working("reading"):
        fitted, judged = read_scores(val, **keys), read_scores(test, **keys)
    if fitted.kind != judged.kind:
        raise ValueError(f"{val} has {fitted.kind}, but {test} has {judged.kind}")
    with _method_bar() as progress:
        results = comparison.compare(
            fitted.scores,
            fitted.labels,
            judged.scores,
            judged.labels,
            methods=names,
            input=fitted.kind,
            bins=bins,
            progress=progress,
        )
    if as_json:
        _print_json({"bins": bins, "methods": [asdict(result) for result in results]})
        return
    title = f"fitted on {len(fitted.scores)}, judged on {len(judged.scores)} rows"
    _print_table(_metric_table(title, _for_table(results), bins))
    for result in results:
        for note in result.notes:
            typer.echo(f"{result.method}: {note}")


@app.command(epilog=_examples("calibrant demo", "calibrant demo --json"))
def demo(
    dataset: Annotated[str, typer.Option(help="One of the embedded sets of logits.")] = (
        "fashion-mnist-lenet5"
    ),
    as_json: AsJson = False,
) -> None:
    """Calibrate a real network's logits that come with the package, and compare the methods."""
    with _working("loading"):
        from calibrant import calibrators, datasets

        data, bins = datasets.load(dataset), _default_bins()
    judged: dict[str, dict[str, float]] = {}
    for name, acronym in DEMO_METHODS.items():
        method = calibrators.calibrator(acronym)
        seconds = _timed_fit(method, data.val_logits, data.val_labels)
        judged[name] = _judge(method.predict_proba(data.test_logits), data.test_labels, bins)
        judged[name]["fit_ms"] = 0.0 if acronym == "base" else 1000.0 * seconds  # nothing to fit
    if as_json:
        sizes = {"val_rows": len(data.val_labels), "test_rows": len(data.test_labels)}
        _print_json({"dataset": dataset, **sizes, "bins": bins, "methods": judged})
        return
    title = f"{dataset}: fitted on {len(data.val_labels)}, judged on {len(data.test_labels)} rows"
    _print_table(_metric_table(title, judged, bins))
    typer.echo(
        "Next: save your own validation logits and labels as the arrays `logits` and\n"
        "`labels` of val.npz, then run: calibrant fit val.npz -o pts.safetensors"
    )


@app.command(
    epilog=_examples(
        "calibrant export pts.safetensors -o pts.onnx --classes 1000",
        "calibrant export vector.safetensors -o vector.onnx --dtype float16",
    )
)
def export(
    calibrator: CalibratorFile,
    output: Output,
    classes: Annotated[
        int | None,
        typer.Option(min=2, help="Classes of the graph; left out: those of the fit."),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16", "float64"], typer.Option(help="Of the graph's scores.")
    ] = "float32",
    as_json: AsJson = False,
) -> None:
    """Write a calibrator as an ONNX graph: scores in, probabilities out."""
    from calibrant import onnx

    _check_not_same(output, calibrator)
    method = calibrant.load(calibrator)
    names = onnx.export(method, output, num_classes=classes or method.n_classes_, dtype=dtype)
    _print_graph(names, output, as_json)


@app.command(
    epilog=_examples(
        "calibrant attach model.onnx pts.safetensors -o calibrated.onnx",
        "calibrant attach model.onnx pts.safetensors -o calibrated.onnx --logits-output logits",
    )
)
def attach(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX model.")],
    calibrator: CalibratorFile,
    output: Output,
    logits_output: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model's output that holds the scores.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Append a calibrator to an ONNX model."""
    from calibrant import onnx

    _check_not_same(output, model, calibrator)
    names = onnx.attach(model, calibrant.load(calibrator), output, logits_output)
    _print_graph(names, output, as_json)


@app.command(epilog=_examples("calibrant methods", "calibrant methods --json"))
def methods(as_json: AsJson = False) -> None:
    """List the methods."""
    from calibrant.calibrators import REGISTRY

    entries = [
        {
            "method": acronym,
            "class": cls.__name__,
            "preserves_accuracy": cls.accuracy_preserving,
            "summary": (inspect.getdoc(cls) or "").partition("\n")[0],
        }
        for acronym, cls in REGISTRY.items()
    ]
    if as_json:
        _print_json(entries)
    else:
        _print_methods(entries)


# --- what the commands are made of ------------------------------------------------------------


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


def _load_both(
    calibrator: Path | None, scores: Path, kind: Any, **options: Any
) -> tuple[Any, ScoreFile]:
    """A calibrator, or None, and the scores that it takes."""
    from calibrant.scorefiles import read_scores

    method = calibrant.load(calibrator) if calibrator else None
    takes = method.input if method else None
    with _working(f"reading {scores.name}"):
        data = read_scores(scores, kind=kind, default_kind=takes, **options)
    if takes not in (None, data.kind):
        raise ValueError(
            f"{calibrator} takes {takes}, but {scores} has {data.kind}: "
            f"if they are {takes} all the same, say --input {takes}"
        )
    return method, data


def _evaluate_stream(
    files: list[Path],
    calibrator: Path | None,
    kind: Any,
    bins: int,
    as_json: bool,
    names: dict[str, Any],
) -> None:
    """Judge many files as one: the meters add up, and no file is held longer than it is read."""
    from calibrant.metrics import CalibrationMeter

    if names["labels_path"] is not None:
        raise ValueError("--labels goes with one file of scores; several must hold their labels")
    meters = {"scores": CalibrationMeter(bins=bins)}
    if calibrator is not None:
        meters["calibrated"] = CalibrationMeter(bins=bins)
    for file in files:
        method, data = _load_both(calibrator, file, kind, **names)
        meters["scores"].update(_as_probabilities(data), data.labels)
        if method is not None:
            meters["calibrated"].update(method.predict_proba(data.scores), data.labels)
    reports = {name: meter.compute() for name, meter in meters.items()}
    rows = int(reports["scores"].rows)
    judged = {
        name: {metric: getattr(report, metric) for metric in HEADINGS}
        for name, report in reports.items()
    }
    if as_json:
        _print_json({"rows": rows, "files": len(files), "bins": bins, **judged})
    else:
        _print_table(_metric_table(f"{len(files)} files: {rows} rows", judged, bins))


def _check_not_same(output: Path, *inputs: Path | None) -> None:
    for path in inputs:
        if path is not None and output.resolve() == path.resolve():
            raise ValueError(f"the output must be another file than the input, got {output} twice")


def _timed_fit(calibrator: Calibrator, scores: Any, labels: Any) -> float:
    """Fit, with progress on a terminal; returns the seconds it took."""
    with _fit_progress(calibrator):
        start = time.perf_counter()
        calibrator.fit(scores, labels)
        return time.perf_counter() - start


@contextmanager
def _fit_progress(calibrator: Calibrator) -> Iterator[None]:
    """The method's own bar where it has one, else a spinner."""
    parameters = calibrator.get_params(deep=False)
    if "verbose" not in parameters:
        with _working(f"fitting {type(calibrator).__name__}"):
            yield
        return
    calibrator.set_params(verbose=sys.stderr.isatty())
    try:
        yield
    finally:
        calibrator.set_params(verbose=parameters["verbose"])


@contextmanager
def _working(what: str) -> Iterator[None]:
    """A spinner on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(what)):
        yield


@contextmanager
def _method_bar() -> Iterator[Callable[[int, int, str], None]]:
    """A bar of methods on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("")
        yield lambda done, total, name: bar.update(
            task, completed=done, total=total, description=f"fitting {name}"
        )


def _for_table(results: list[MethodResult]) -> dict[str, dict[str, float]]:
    return {
        result.method: {
            **{metric: getattr(result, metric) for metric in HEADINGS},
            "fit_ms": 1000.0 * result.fit_seconds,
        }
        for result in results
    }


def _as_probabilities(data: ScoreFile) -> Any:
    if data.kind == "probs":
        return data.scores
    return calibrant.Uncalibrated().fit(data.scores, data.labels).predict_proba(data.scores)


def _judge(probs: Any, labels: Any, bins: int) -> dict[str, float]:
    from calibrant import metrics

    return {
        "accuracy": metrics.accuracy(probs, labels),
        "ece": metrics.ece(probs, labels, bins=bins),
        "brier": metrics.brier(probs, labels),
        "nll": metrics.nll(probs, labels),
    }


def _default_bins() -> int:
    from calibrant.metrics import ece

    return int(inspect.signature(ece).parameters["bins"].default)


def _fit_summary(
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


# --- printing ---------------------------------------------------------------------------------


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    """JSON has no infinity: null stands for it."""
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_fit(summary: dict[str, Any]) -> None:
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


def _print_graph(names: Any, output: Path, as_json: bool) -> None:
    if as_json:
        _print_json({"file": str(output), "input": names.input, "outputs": list(names.outputs)})
    else:
        typer.echo(f"wrote {output}: {names.input} -> {', '.join(names.outputs)}")


def _print_table(table: Table) -> None:
    from rich.console import Console

    Console().print(table)


def _metric_table(title: str, judged: Mapping[str, Mapping[str, float]], bins: int) -> Table:
    """One row a set of probabilities; the best value of each metric is marked."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    timed = any("fit_ms" in values for values in judged.values())
    mark = "; * the best of its column" if len(judged) > 1 else ""
    table = Table(
        title=escape(title),  # a file's name may hold [brackets]
        title_justify="left",
        caption=f"Metrics times 100; ECE in {bins} bins{mark}.",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        min_width=64,
    )
    table.add_column("")
    shown = [metric for metric in HEADINGS if all(metric in values for values in judged.values())]
    for heading in [*(HEADINGS[metric] for metric in shown), *(["Fit (ms)"] if timed else [])]:
        table.add_column(heading, justify="right")
    columns = [_marked(judged, metric) for metric in shown]
    if timed:
        columns.append([f"{values['fit_ms']:.1f}" for values in judged.values()])
    for row in zip(judged, *columns, strict=True):
        table.add_row(*row)
    return table


def _marked(judged: Mapping[str, Mapping[str, float]], metric: str) -> list[str]:
    """A column as text; nothing is marked where all values read the same."""
    shown = [round(100.0 * values[metric], 2) for values in judged.values()]
    best = max(shown) if metric == "accuracy" else min(shown)
    if len(set(shown)) == 1:
        best = math.nan
    return [f"[bold green]* {x:.2f}[/]" if x == best else f"{x:.2f}" for x in shown]


def _print_methods(entries: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table("Method", "Keeps accuracy", "Class and what it does", box=box.SIMPLE_HEAD)
    for entry in entries:
        keeps = "yes" if entry["preserves_accuracy"] else "no"
        table.add_row(entry["method"], keeps, f"{entry['class']}\n{escape(entry['summary'])}")
    _print_table(table)


def main() -> None:
    """Entry point."""
    app()
