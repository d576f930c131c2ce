"""The report as an object: made from scores, saved as one HTML file with styles and data."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibrant
from calibrant.common.docstrings import documented
from calibrant.common.errors import printable
from calibrant.common.extras import need
from calibrant.common.files import check_output, replacing
from calibrant.common.progress import reporter
from calibrant.common.types import InputKind, Progress, RandomState
from calibrant.data.checks import as_numpy
from calibrant.evaluation import comparison as comparing
from calibrant.evaluation.comparison import Comparison, MethodResult, MetricOptions
from calibrant.evaluation.cross_validation import Experiment, Methods
from calibrant.evaluation.diagrams.reliability import Curve
from calibrant.evaluation.report import _contents as about
from calibrant.evaluation.report._contents import BEFORE, Contents, MethodDiagrams
from calibrant.metrics import METRICS as RECORDS
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._intervals import DEFAULT_LEVEL, DEFAULT_RESAMPLES
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._reports import interval_cell, p_text

SUFFIXES = (".html",)
_DIGITS = 6  # that a number of the page's data keeps
_MOST_CLASSES = 60  # in the picture of the classes: those with the largest gaps
_MOST_POINTS = 1500  # in a cloud of temperatures
_PACKAGES = ("numpy", "scipy", "scikit-learn", "plotly")


@dataclass(frozen=True)
class Provenance:
    """Where a report comes from.

    Parameters
    ----------
    command : str, optional
        The command that made it.
    files : tuple of (str, str)
        The names of the files that it read, and their SHA-256.
    created : datetime, optional
        When; now by default.
    demonstration : str, optional
        The embedded data set that it describes in place of a model of the reader's; the page says
        so above everything else.
    """

    command: str = ""
    files: tuple[tuple[str, str], ...] = ()
    created: datetime | None = None
    demonstration: str = ""


@dataclass(frozen=True, repr=False)
class Report:
    """A report: its words, its numbers and its page.

    Parameters
    ----------
    title : str
        What stands above it.
    summary : tuple of str
        What it says in words.
    recommended : str
        The method that validation rows choose.
    comparison : Comparison
        All methods side by side.
    html : str
        The page, which needs nothing else.
    """

    title: str
    summary: tuple[str, ...]
    recommended: str
    comparison: Comparison
    html: str

    def __repr__(self) -> str:
        return f"Report({self.title!r}: {len(self.html) / 1e6:.1f} MB, {self.recommended})"

    def __str__(self) -> str:
        return "\n".join(self.summary)

    def save(self, path: str | Path) -> None:
        """Write the page into a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file, which ends in .html.
        """
        check_output(Path(path), SUFFIXES)
        with replacing(Path(path)) as file:
            file.write(self.html.encode())


@documented
def make_report(
    val_scores: Any,
    val_labels: Any,
    test_scores: Any = None,
    test_labels: Any = None,
    *,
    methods: Methods | None = None,
    input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
    title: str = "Calibration report",
    class_names: Sequence[str] | None = None,
    n_bins: int = DEFAULT_BINS,
    level: float = DEFAULT_LEVEL,
    n_resamples: int = DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    val_weight: Any = None,
    test_weight: Any = None,
    ignore_index: int | None = None,
    provenance: Provenance | None = None,
    progress: Progress = False,
) -> Report:
    """Fit methods, judge them, and make one self-contained HTML page of it.

    Parameters
    ----------
    {val_scores}
    {val_labels}
    test_scores : array of shape (n_test, n_classes) or (n_test,), optional
        The scores to judge on; left out, the validation rows are cross-validated.
    test_labels : array of shape (n_test,), optional
        Their true classes.
    methods : str, Calibrator, iterable or mapping of them, optional
        What ``compare`` takes; by default nine methods, "auto" among them. The scores as they are
        ("base") are always there.
    {input_logits}
    title : str, default "Calibration report"
        What stands above the page.
    class_names : sequence of str, optional
        What the classes are called; by default their numbers.
    {n_bins}
    level : float, default 0.95
        The level of the intervals, bands and tests.
    n_resamples : int, default 200
        How often rows and labels are drawn.
    {random_state}
    {notion}
    {val_weight}
    {test_weight}
    ignore_index : int, optional
        Rows with this label are left out; the others keep their numbers.
    provenance : Provenance, optional
        Files and commands to show, so that others can repeat it.
    {progress}

    Returns
    -------
    Report
        Its words, its numbers and its page; ``save`` writes it.

    Raises
    ------
    ValueError
        Where a name or an array is refused.
    ImportError
        Where the extra ``report`` is not installed.

    Notes
    -----
    The method that is recommended is chosen on validation rows alone: by "auto" where it is among
    the methods, else by the log loss in a cross-validation. The page loads nothing from anywhere,
    and its own security policy forbids it to.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> report = make_report(
    ...     data.val_logits[:500], data.val_labels[:500], data.test_logits[:500],
    ...     data.test_labels[:500], methods=["ts", "ets"], n_resamples=20,
    ... )
    >>> report.recommended in ("ts", "ets")
    True
    """
    need_extra()
    options = MetricOptions(n_bins, level, n_resamples, random_state, notion)
    experiment = Experiment.of(
        (val_scores, val_labels, val_weight, None),
        (test_scores, test_labels, test_weight, None),
        about.with_uncalibrated(methods),
        input=input,
        ignore_index=ignore_index,
    )
    # The numbers that held-out rows have in what was given. Ignored rows are missing; so are, from
    # a cross-validation, those of weight 0, and rows whose weight lies in several folds are split.
    folds = experiment.folds
    given = as_numpy(test_labels if folds is None else val_labels)
    used = np.ones(len(given), bool)
    if ignore_index is not None and given.size == len(given):  # one-hot rows ignore nothing
        used = given.ravel() != ignore_index
    if folds is not None and val_weight is not None:
        used &= as_numpy(val_weight) > 0.0
    row_numbers = np.flatnonzero(used)
    if folds is not None:
        row_numbers = folds.of(row_numbers)
    with reporter("reporting", progress) as tell:
        contents = about.gather(experiment, row_numbers, class_names, options, tell)
    return Report(
        title=title,
        summary=tuple(about.summary(contents)),
        recommended=contents.recommended,
        comparison=contents.comparison,
        html=page(contents, title, provenance or Provenance()),
    )


# --- the page ------------------------------------------------------------------------------------


def page(contents: Contents, title: str, provenance: Provenance) -> str:
    """The whole page."""
    jinja2, plotly = need_extra()
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: _visible(value) if type(value) is str else value,
    )
    when = provenance.created or datetime.now(UTC)
    text: str = environment.from_string(_part("page.html.jinja")).render(
        title=title,
        sizes=about.sizes(contents),
        summary=about.summary(contents),
        recommended=contents.recommended,
        before=BEFORE,
        columns=_columns(contents.comparison),
        rows=[(one.method, list(_cells(contents.comparison, one))) for one in contents.comparison],
        methods=list(contents.diagrams),
        kinds=about.KINDS,
        with_temperatures=[name for name, one in contents.diagrams.items() if one.temperatures],
        of=contents.diagrams[BEFORE].reliability["equal-width"].of,
        n_classes=contents.n_classes,
        n_shown=min(contents.n_classes, _MOST_CLASSES),
        mistakes=contents.mistakes,
        names=contents.class_names,
        notes=comparing.warnings_by_methods(contents.comparison),
        level=contents.comparison.level,
        created=f"{when:%Y-%m-%d %H:%M} UTC",
        provenance=provenance,
        versions=list(_versions()),
        snippet=_snippet(contents),
        style=_part("page.css"),
        script=_part("page.js"),
        plotly=plotly.get_plotlyjs(),
        data=as_json(_data(contents)),
    )
    return text


def need_extra() -> tuple[Any, Any]:
    """What templates and interaction are made with, or an error that says how to install it."""
    return (
        need("jinja2", "report", "a report needs"),
        need("plotly.offline", "report", "a report needs"),
    )


def _part(name: str) -> str:
    return files("calibrant.evaluation.report").joinpath(name).read_text("utf-8")


def as_json(document: Any) -> str:
    """JSON that can stand between script tags: no "<" ends them, no NaN is in it."""
    text = json.dumps(_plain(document), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _visible(text: str) -> str:
    """Text of others for the page: control characters and marks of direction as escapes."""
    return "\n".join(map(printable, text.split("\n")))


def plotly_text(text: str) -> str:
    """Text for Plotly, which reads some HTML, and %{..} in the texts that it shows on hovering.

    >>> plotly_text("<b>cat</b> & %{x}")
    '&lt;b&gt;cat&lt;/b&gt; &amp; &#37;{x}'
    """
    return escape(_visible(text), quote=False).replace("%", "&#37;")


def _plain(value: Any) -> Any:
    """Lists, numbers of a few digits, and null for what is no number."""
    if isinstance(value, str):
        return _visible(value)
    if isinstance(value, dict):
        return {_visible(str(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def _versions() -> Iterator[tuple[str, str]]:
    yield "calibrant", calibrant.__version__
    yield "Python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:  # vendored, or run from a source tree
            continue


def _snippet(contents: Contents) -> str:
    """How to make the recommended calibrator, in Python."""
    method = contents.recommended
    kind = "" if contents.input == "logits" else ', input="probs"'
    return (
        "import calibrant\n\n"
        f'calibrator = calibrant.calibrator("{method}"{kind})\n'
        "calibrator.fit(val_scores, val_labels)\n"
        'calibrant.save(calibrator, "calibrator.safetensors")\n'
        "probs = calibrator.predict_proba(new_scores)"
    )


# --- the table --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What a cell shows, by what it is sorted, and whether it is marked as the best."""

    text: str
    order: float
    below: str = ""
    starred: bool = False


def _columns(comparison: Comparison) -> list[str]:
    """The heads of the columns of all cells of a method."""
    heads: list[str] = []
    for name in comparison.metrics:
        label = RECORDS[name].label
        if name == "ece" and comparison.notion == "class-1":
            label = label.replace("ECE", "ECE of class 1", 1)
        heads.append(label)
        if name == "ece":
            heads += ["ECE if calibrated (%)", "p-value of the ECE"]
    return [*heads, "NLL minus the lowest (nats)", "p-value of the difference", "Fit (s)"]


def _cells(comparison: Comparison, result: MethodResult) -> Iterator[Cell]:
    """A method by all metrics, with intervals, null values, differences and p-values."""
    for name in comparison.metrics:
        metric, estimate = RECORDS[name], result.estimates[name]
        starred = result.method in comparison.starred(name)
        yield Cell(
            metric.format(estimate.value), estimate.value, interval_cell(metric, estimate), starred
        )
        if name == "ece":
            null, p_value = estimate.null, estimate.p_value
            yield Cell("", math.inf) if null is None else Cell(metric.format(null), null)
            if p_value is None:
                yield Cell("", math.inf)
            else:
                yield Cell(p_text(p_value, comparison.n_resamples), p_value)
    difference = result.differences.get("nll")
    if difference is None or difference.same:
        yield from (Cell("0" if difference else "", 0.0), Cell("", math.inf))
    else:
        interval = f"{difference.low:+.4f} .. {difference.high:+.4f}"
        yield Cell(f"{difference.value:+.4f}", difference.value, interval)
        yield Cell(p_text(difference.adjusted_p_value), difference.adjusted_p_value)
    yield Cell(f"{result.fit_seconds:.2f}", result.fit_seconds)


# --- the data of the pictures -----------------------------------------------------------------


def _data(contents: Contents) -> dict[str, Any]:
    before = contents.diagrams[BEFORE]
    judged = before.reliability["equal-width"]
    # all classes, or those that add most to the error
    size = np.abs(before.gaps.bins.residual).sum(axis=1)
    kept = np.sort(np.argsort(-size, kind="stable")[:_MOST_CLASSES])
    return {
        "recommended": contents.recommended,
        "before": BEFORE,
        "level": contents.comparison.level,
        "score_label": judged.score_label,
        "share_label": judged.share_label,
        "classes": [plotly_text(contents.class_names[index]) for index in kept],
        "labels": {name: plotly_text(name) for name in contents.diagrams},
        "temperature_of_ts": contents.one_temperature,
        "methods": {name: _pictures(one, kept) for name, one in contents.diagrams.items()},
    }


def _pictures(one: MethodDiagrams, classes: NDArray[np.intp]) -> dict[str, Any]:
    curves: dict[str, Any] = {}
    for kind, diagram in one.reliability.items():
        curves[kind] = {name: getattr(diagram, name) for name in Curve._fields}
        histogram = diagram.histogram
        curves[kind]["histogram"] = {"edges": histogram.edges, "weight": histogram.weight}
    temperatures, found = None, one.temperatures
    if found is not None:  # a histogram of all rows, and some rows beside what their scores say
        low, high = np.quantile(found.temperature, [0.002, 0.998])
        counts, edges = np.histogram(found.temperature, 40, (low, max(high, low + 1e-6)))
        every = slice(None, None, max(1, len(found.temperature) // _MOST_POINTS))
        columns = ("temperature", "confidence", "margin", "entropy")
        temperatures = {
            "edges": edges,
            "counts": counts,
            "rows": np.arange(len(found.temperature))[every],
            **{name: getattr(found, name)[every] for name in columns},
        }
    risk, bins = ("coverage", "risk", "confidence", "aurc"), ("n_bins", "ece", "null", "null_high")
    return {
        "reliability": curves,
        "risk": {name: getattr(one.risk, name) for name in risk},
        "bins": {name: getattr(one.bins, name) for name in bins},
        "gaps": {
            "edges": one.gaps.bins.edges,
            "gap": one.gaps.gap[classes],
            "weight": one.gaps.bins.weight[classes],
            "z": one.gaps.z[classes],
        },
        "temperatures": temperatures,
    }
