"""From the contents of a report to its page: one HTML file with its styles, scripts and data."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibrant
from calibrant.common.errors import printable
from calibrant.common.extras import need
from calibrant.evaluation.comparison import Comparison, MethodResult, notes_by_methods
from calibrant.evaluation.diagrams import ClassGaps, Reliability, Temperatures
from calibrant.evaluation.report._contents import BEFORE, KINDS, Contents, Shown
from calibrant.evaluation.report._words import sizes, summary
from calibrant.metrics import METRICS as RECORDS
from calibrant.metrics._tables import interval_cell, p_text

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
    chosen = contents.recommendation
    when = provenance.created or datetime.now(UTC)
    text: str = environment.from_string(_part("page.html.jinja")).render(
        title=title,
        sizes=sizes(contents),
        summary=summary(contents),
        recommended=chosen.method,
        before=BEFORE,
        table=comparison_table(contents.comparison),
        methods=list(contents.shown),
        kinds=KINDS,
        with_temperatures=[name for name, one in contents.shown.items() if one.temperatures],
        of=contents.shown[BEFORE].reliability["equal-width"].of,
        n_classes=contents.n_classes,
        n_shown=min(contents.n_classes, _MOST_CLASSES),
        mistakes=contents.mistakes,
        names=contents.class_names,
        notes=notes_by_methods(contents.comparison),
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
    method = contents.recommendation.method
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


@dataclass(frozen=True)
class ComparisonTable:
    """Columns, and for every method its cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def comparison_table(comparison: Comparison) -> ComparisonTable:
    """All methods by all metrics, with intervals, null values, differences and p-values."""
    heads: list[str] = []
    for name in comparison.metrics:
        heads.append(_head(comparison, name))
        if name == "ece":
            heads += ["ECE if calibrated (%)", "p-value of the ECE"]
    heads += ["NLL minus the lowest (nats)", "p-value of the difference", "Fit (s)"]
    rows = tuple((result.method, tuple(_cells(comparison, result))) for result in comparison)
    return ComparisonTable(tuple(heads), rows)


def _head(comparison: Comparison, name: str) -> str:
    """The metric's label, which says of the ECE of class 1 that it is that."""
    label = RECORDS[name].label
    of_class_1 = name == "ece" and comparison.notion == "class-1"
    return label.replace("ECE", "ECE of class 1", 1) if of_class_1 else label


def _cells(comparison: Comparison, result: MethodResult) -> Iterator[Cell]:
    for name in comparison.metrics:
        metric, estimate = RECORDS[name], result.estimates[name]
        starred = result.method in comparison.starred(name)
        yield Cell(
            metric.format(estimate.value), estimate.value, interval_cell(metric, estimate), starred
        )
        if name == "ece":
            yield _number(estimate.null, metric.format)
            yield _number(estimate.p_value, lambda p: p_text(p, comparison.n_resamples))
    difference = result.differences.get("nll")
    if difference is None or difference.same:
        yield from (Cell("0" if difference else "", 0.0), Cell("", math.inf))
    else:
        interval = f"{difference.low:+.4f} .. {difference.high:+.4f}"
        yield Cell(f"{difference.value:+.4f}", difference.value, interval)
        yield Cell(p_text(difference.adjusted_p_value), difference.adjusted_p_value)
    yield Cell(f"{result.fit_seconds:.2f}", result.fit_seconds)


def _number(value: float | None, form: Any) -> Cell:
    return Cell("", math.inf) if value is None else Cell(form(value), value)


# --- the data of the pictures -----------------------------------------------------------------


def _data(contents: Contents) -> dict[str, Any]:
    before = contents.shown[BEFORE]
    kept, judged = _telling_classes(before.gaps), before.reliability["equal-width"]
    return {
        "recommended": contents.recommendation.method,
        "before": BEFORE,
        "level": contents.comparison.level,
        "score_label": judged.score_label,
        "share_label": judged.share_label,
        "classes": [plotly_text(contents.class_names[index]) for index in kept],
        "labels": {name: plotly_text(name) for name in contents.shown},
        "temperature_of_ts": contents.one_temperature,
        "methods": {name: _shown(one, kept) for name, one in contents.shown.items()},
    }


def _telling_classes(gaps: ClassGaps) -> NDArray[np.intp]:
    """The classes to show: all, or those that add most to the error."""
    size = np.abs(gaps.bins.residual).sum(axis=1)
    if len(size) <= _MOST_CLASSES:
        return np.arange(len(size))
    return np.sort(np.argsort(-size, kind="stable")[:_MOST_CLASSES])


def _shown(one: Shown, classes: NDArray[np.intp]) -> dict[str, Any]:
    return {
        "reliability": {kind: _diagram(diagram) for kind, diagram in one.reliability.items()},
        "risk": {
            "coverage": one.risk.coverage,
            "risk": one.risk.risk,
            "confidence": one.risk.confidence,
            "aurc": one.risk.aurc,
        },
        "bins": {
            "n_bins": one.bins.n_bins,
            "ece": one.bins.ece,
            "null": one.bins.null,
            "null_high": one.bins.null_high,
        },
        "gaps": {
            "edges": one.gaps.bins.edges,
            "gap": one.gaps.gap[classes],
            "weight": one.gaps.bins.weight[classes],
            "z": one.gaps.z[classes],
        },
        "temperatures": None if one.temperatures is None else _cloud(one.temperatures),
    }


_FIELDS = ("confidence", "accuracy", "weight", "low", "high", "band_low", "band_high", "edges")


def _diagram(diagram: Reliability) -> dict[str, Any]:
    return {
        **{name: getattr(diagram, name) for name in _FIELDS},
        "error": diagram.error,
        "histogram": {"edges": diagram.histogram.edges, "weight": diagram.histogram.weight},
    }


def _cloud(found: Temperatures) -> dict[str, Any]:
    """A histogram of all rows, and some rows beside what their scores say."""
    low, high = np.quantile(found.temperature, [0.002, 0.998])
    counts, edges = np.histogram(found.temperature, 40, (low, max(high, low + 1e-6)))
    step = max(1, len(found.temperature) // _MOST_POINTS)
    every = slice(None, None, step)
    return {
        "edges": edges,
        "counts": counts,
        "rows": np.arange(len(found.temperature))[every],
        "temperature": found.temperature[every],
        "confidence": found.confidence[every],
        "margin": found.margin[every],
        "entropy": found.entropy[every],
    }
