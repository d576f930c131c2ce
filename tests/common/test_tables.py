"""What results look like: one line, tables as text and as HTML, frames."""

from __future__ import annotations

import io
import sys
from html.parser import HTMLParser

import numpy as np
import polars
import pytest
from rich.console import Console

import calibrant
from calibrant.common.tables import Shown, Table, Tables, frame_of
from calibrant.metrics import BinStats, CalibrationMeter


def example(rows=300, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes)) * 3.0
    return logits, np.argmax(logits / 2.0 + rng.gumbel(size=logits.shape), axis=1)


@pytest.fixture(scope="module")
def results():
    logits, labels = example()
    evaluation = calibrant.evaluate(logits, labels, input="logits", n_resamples=20)
    comparison = calibrant.compare(
        logits, labels, methods={"<base>": "base", "ts": "ts"}, n_resamples=20
    )
    meter = CalibrationMeter(input="logits").update(logits, labels)
    fitted = calibrant.PTS().fit(logits, labels)
    return {
        "evaluation": evaluation,
        "comparison": comparison,
        "details": comparison.details("ece"),
        "method": comparison[0],
        "difference": comparison[0].differences["nll"],
        "estimate": evaluation.ece,
        "meter": meter,
        "report": meter.compute(),
        "bins": evaluation.bins,
        "class bins": calibrant.metrics.BinStats(
            evaluation.bins.edges, *(np.stack([c, c]) for c in evaluation.bins.columns)
        ),
        "decomposition": calibrant.decompose(logits, labels, method="ts"),
        "fit": fitted.fit_info_,
        "calibrator": fitted,
        "unfitted": calibrant.TS(),
        "profile": calibrant.TemperatureProfile(),
        "data": calibrant.datasets.load("fashion-mnist-lenet5"),
    }


SHOWN = (
    *("evaluation", "comparison", "details", "meter", "report", "bins"),
    *("decomposition", "fit", "calibrator", "unfitted"),
)
FRAMES = ("evaluation", "comparison", "report", "bins", "decomposition")


def test_reprs_are_one_line(results):
    for name, result in results.items():
        text = repr(result)
        assert "\n" not in text, name
        assert text.startswith(type(result).__name__)
        assert len(text) < 300, name
    assert repr(results["meter"]) == "CalibrationMeter(300 rows, 15 bins, logits)"
    assert repr(CalibrationMeter()) == "CalibrationMeter(0 rows, 15 bins, probs)"
    assert repr(results["class bins"]) == "BinStats(2 times 15 bins)"
    assert repr(results["estimate"]).startswith("Estimate(value=0.")
    assert "None" not in repr(results["estimate"])


class Balanced(HTMLParser):
    """Every element that begins ends, in the right order."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        assert all(name in ("style", "scope") for name, _ in attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("name", SHOWN)
def test_html_is_well_formed_and_needs_nothing_else(results, name):
    html = results[name]._repr_html_()
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    assert "table" in parser.seen
    assert not {"script", "link", "style"} & set(parser.seen)


def test_html_escapes_names(results):
    html = results["comparison"]._repr_html_()
    assert "&lt;base&gt;" in html
    assert "<base>" not in html
    nasty = Table(["<a>"], [["<b>"]], title="<c>", notes=["<d>"]).html()
    assert not any(f"<{letter}>" in nasty for letter in "abcd")


def test_html_aligns_numbers_to_the_right():
    html = Table(["", "x\n(%)"], [["row", "* 1.0"]], title="three rows").html()
    assert '<caption style="text-align: left">three rows</caption>' in html
    assert '<th style="text-align: right">x<br>(%)</th>' in html
    assert '<td style="text-align: right"><b>* 1.0</b></td>' in html


@pytest.mark.parametrize("name", [name for name in SHOWN if name not in ("meter", "calibrator")])
def test_rich_shows_what_text_shows(results, name):
    result = results[name]
    if name == "unfitted":
        result = Tables(result._tables())
    console = Console(width=200, no_color=True, highlight=False)
    with console.capture() as captured:
        console.print(result)
    assert sorted(set(captured.get().replace("─", "").split())) == sorted(set(str(result).split()))


def test_what_has_no_tables_cannot_be_made():
    class Untold(Shown):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Untold()


def test_markup_is_no_markup():
    table = Table(["", "[red]x"], [["[bold]", "[/]"]], title="[link]")
    console = Console(width=80)
    with console.capture() as captured:
        console.print(Tables([table]))
    assert all(word in captured.get() for word in ("[red]x", "[bold]", "[/]", "[link]"))


def test_marks_of_direction_are_shown_and_not_obeyed():
    table = Table(["\u202ehead", "b\nc"], [["\u202ename", "1"]], "\u202etitle", ["\u202enote"])
    text = io.StringIO()
    Console(file=text, width=200).print(table.rich())
    for shown in (table.text(), table.html(), text.getvalue()):
        assert "\u202e" not in shown
        for name in ("head", "name", "title", "note"):
            assert f"\\u202e{name}" in shown


def test_text_cannot_steer_a_terminal():
    text = Table(["", "x"], [["\x1b[31mred\n", "1"]], title="a\rb").text()
    assert text.splitlines() == ["a\\rb", "", f"{'':13}  x", "\\x1b[31mred\\n  1"]


def test_one_unit_per_column_is_in_its_head(results):
    heads, units = str(results["comparison"]).splitlines()[2:4]
    assert heads.split() == ["Accuracy", "ECE", "Classwise", "ECE", "Brier", "score", "NLL", "Fit"]
    assert units.split() == ["(%)", "(%)", "(%)", "(%)", "(nats)", "(ms)"]


# --- frames -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_all_libraries_hold_the_same(results, name):
    pandas_frame = results[name].to_frame()
    polars_frame = results[name].to_frame("polars")
    arrow = results[name].to_frame(backend="pyarrow")
    assert isinstance(polars_frame, polars.DataFrame)
    assert list(pandas_frame) == polars_frame.columns == arrow.column_names
    for column in pandas_frame:
        one = [None if value != value else value for value in pandas_frame[column]]
        assert one == polars_frame[column].to_list() == arrow[column].to_pylist(), column


def test_a_frame_of_an_evaluation(results):
    frame = results["evaluation"].to_frame().set_index("metric")
    for name, estimate in results["evaluation"].metrics.items():
        assert frame.loc[name, "value"] == estimate.value
        if estimate.low is not None:
            assert frame.loc[name, "low"] == estimate.low
    assert frame.loc["classwise_ece", "notion"] == "classwise"
    assert np.isnan(frame.loc["nll", "null"])


def test_a_frame_of_a_comparison(results):
    comparison = results["comparison"]
    frame = comparison.to_frame()
    wide = frame.pivot(index="method", columns="metric", values="value")
    for result in comparison:
        for name, value in result.values.items():
            assert wide.loc[result.method, name] == value
    rows = frame.set_index(["method", "metric"])
    assert rows.loc[("<base>", "nll"), "difference"] == comparison[0].differences["nll"].value
    assert np.isnan(rows.loc[("<base>", "classwise_ece"), "difference"])
    assert rows["starred"].dtype == bool


def test_a_frame_of_bins():
    frame = BinStats.from_confidence([0.9, 0.8], [1, 0], 2).to_frame()
    assert frame["weight"].tolist() == [0.0, 2.0]
    assert np.isnan(frame["confidence"][0])
    assert frame["gap"][1] == pytest.approx(-0.35)


def test_frames_say_what_is_missing(results, monkeypatch):
    with pytest.raises(ValueError, match="backend must be one of 'pandas', 'polars', 'pyarrow'"):
        results["bins"].to_frame("excel")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"needs polars: pip install polars"):
        results["bins"].to_frame("polars")


def test_columns_keep_their_types():
    columns = {"word": ["a", None], "number": [1, 2], "truth": [True, False], "gone": [None, None]}
    frame = frame_of({**columns, "share": [0.5, None]}, "polars")
    assert frame.schema == {
        "word": polars.String,
        "number": polars.Int64,
        "truth": polars.Boolean,
        "gone": polars.Float64,
        "share": polars.Float64,
    }


# --- fits -------------------------------------------------------------------------------------


def test_a_fit_tells_how_it_went(results):
    info = results["fit"]
    assert "mean loss of its rows" in str(info)
    assert info.to_dict()["loss"] == "mixed"
    stopped = calibrant.FitInfo(False, "stopped\nearly", iterations=1)
    assert repr(stopped) == "FitInfo(not converged: stopped early, 1 iteration)"


def test_a_calibrator_shows_its_parameters_and_what_it_found(results):
    before, after = (results[name]._repr_html_() for name in ("unfitted", "calibrator"))
    assert "TemperatureScaling, not fitted yet" in before
    assert "prior_rows" in before
    assert "formula_" not in before
    assert "ParameterizedTemperatureScaling, fitted" in after
    for word in ("hidden", "(5, 5)", "NetworkTemperature", "arrays of shapes", "ended"):
        assert word in after


@pytest.mark.parametrize("method", ["mpts", "spts", "auto"])
def test_joint_fits_begin_at_the_scores_as_they_came(method):
    logits, labels = example(400)
    info = calibrant.calibrator(method).fit(logits, labels).fit_info_
    ts = calibrant.TS().fit(logits, labels).fit_info_
    assert info.after < info.before
    if info.loss == "nll":
        assert info.before == pytest.approx(ts.before)
    else:
        brier = calibrant.TS(loss="brier").fit(logits, labels).fit_info_.before
        assert info.before == pytest.approx(brier + 0.2 * ts.before)
