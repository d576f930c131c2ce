"""The report's words and numbers, and the page as text."""

from __future__ import annotations

import html
import json
import re
import time
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.evaluation.report._contents import worst_chance
from calibrant.evaluation.report._report import as_json
from calibrant.report import Provenance, make_report
from cli_support import refuse, sample, succeed

QUICK = {"methods": ["ts", "ets"], "n_resamples": 20}


@pytest.fixture(scope="module")
def rows():
    logits, labels = sample(1200, 4)
    return logits[:600], labels[:600], logits[600:], labels[600:]


@pytest.fixture(scope="module")
def made(rows):
    return make_report(*rows, **QUICK)


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


class Balanced(HTMLParser):
    """Fails where a tag is not closed in its turn."""

    EMPTY = frozenset({"meta", "link", "br", "hr", "img", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole(made):
    page = Balanced()
    page.feed(made.html)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    targets = re.findall(r'(?:href="#|for="|aria-labelledby=")([\w-]+)"', made.html)
    assert set(targets) <= set(page.ids)


def test_nothing_is_loaded_from_anywhere(made):
    own = made.html.replace(calibrant_plotly(), "")
    assert "Content-Security-Policy" in own
    assert "default-src 'none'" in own
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", own)


def calibrant_plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def test_the_numbers_are_the_metrics_own(made, rows):
    shown = data_of(made.html)["methods"]
    ts = calibrant.TS().fit(*rows[:2])
    probs = ts.predict_proba(rows[2])
    stats = calibrant.metrics.bin_stats(probs, rows[3])
    diagram = shown["ts"]["reliability"]["equal-width"]
    assert diagram["weight"] == stats.weight.tolist()
    known = [value for value in diagram["accuracy"] if value is not None]
    assert known == pytest.approx(stats.accuracy[stats.weight > 0].tolist(), rel=1e-4)
    assert diagram["error"] == pytest.approx(calibrant.metrics.ece(probs, rows[3]), rel=1e-4)
    assert made.comparison["ts"].nll == pytest.approx(calibrant.metrics.nll(probs, rows[3]))
    assert data_of(made.html)["temperature_of_ts"] == pytest.approx(ts.temperature_, rel=1e-4)


def test_the_summary_says_what_was_promised_and_what_came(made):
    first = made.summary[0]
    assert re.fullmatch(
        r"Where the model said \d+%, it was right \d+% of the time; after (ts|ets), \d+%\.", first
    )
    said, was, after = map(int, re.findall(r"(\d+)%", first))
    assert was < said - 5  # the sample is over-confident
    assert abs(after - said) < abs(was - said)
    assert made.recommended in ("ts", "ets")
    assert "cross-validation of the validation rows" in made.summary[-1]
    assert str(made) == "\n".join(made.summary)
    assert "\n" not in repr(made)


def test_the_test_rows_do_not_choose(rows):
    """With test labels at random the recommendation stays."""
    wrong = np.random.default_rng(0).permutation(rows[3])
    assert (
        make_report(*rows[:3], wrong, **QUICK).recommended
        == make_report(*rows, **QUICK).recommended
    )


def test_auto_says_what_it_chose(rows):
    made = make_report(*rows, methods=["auto"], n_resamples=0)
    assert made.recommended == "auto"
    assert re.search(r"it uses \w", made.summary[-1])


def test_one_file_is_cross_validated(rows):
    made = make_report(*rows[:2], **QUICK)
    assert made.comparison.n_folds == 5
    assert "5-fold cross-validation of 600 rows" in made.html


def mistaken(page: str) -> list[int]:
    """The numbers of the rows in the page's list of mistakes."""
    return [int(n) for n in re.findall(r'<tr><th scope="row" data-order="(\d+)"', page)]


def surest_mistakes(rows, judged: np.ndarray) -> list[int]:
    """The 20 of the judged test rows with the surest wrong predictions."""
    logits, labels = rows[2:]
    wrong = judged[logits[judged].argmax(axis=1) != labels[judged]]
    confidence = calibrant.Uncalibrated().fit(*rows[:2]).predict_proba(logits).max(axis=1)
    found = wrong[np.argsort(-confidence[wrong], kind="stable")][:20].tolist()
    assert len(found) == 20
    return found


def test_mistakes_keep_their_row_numbers(rows):
    logits, labels = rows[2], rows[3].copy()
    ignored = np.zeros(len(labels), bool)
    ignored[::3] = True
    labels[ignored] = -100
    page = make_report(*rows[:2], logits, labels, ignore_index=-100, **QUICK).html
    assert mistaken(page) == surest_mistakes(rows, np.flatnonzero(~ignored))


def test_rows_that_folds_split_keep_their_numbers_and_are_listed_once(rows):
    logits, labels = rows[:2]
    weight = np.arange(len(labels)) % 4.0
    made = make_report(logits, labels, val_weight=weight, **QUICK)
    listed = mistaken(made.html)
    assert len(set(listed)) == len(listed) == 20
    assert (logits[listed].argmax(axis=1) != labels[listed]).all()
    assert (weight[listed] > 0.0).all()


@pytest.mark.parametrize("shape", ["one-hot", "column"])
@pytest.mark.parametrize("ignore_index", [0, -100])
def test_mistakes_keep_their_row_numbers_whatever_the_shape_of_labels(rows, shape, ignore_index):
    """The ignored label is no entry of one-hot rows: 0 is in all of them, and leaves none out."""
    logits, labels = rows[2], rows[3]
    shaped = np.eye(4, dtype=int)[labels] if shape == "one-hot" else labels[:, None]
    page = make_report(*rows[:2], logits, shaped, ignore_index=ignore_index, **QUICK).html
    kept = np.ones(len(labels), bool) if shape == "one-hot" else labels != ignore_index
    assert mistaken(page) == surest_mistakes(rows, np.flatnonzero(kept))


def test_names_and_titles_are_escaped(rows):
    names = ["<script>alert(1)</script>", "a&b", '"c"', "</script><b>"]
    made = make_report(
        *rows,
        **QUICK,
        title="<i>x</i>",
        class_names=names,
        provenance=Provenance(command="calibrant report '<x>'", files=(("<f>", "0"),)),
    )
    own = made.html.replace(calibrant_plotly(), "")
    assert "<script>alert" not in own
    assert "<i>x</i>" not in own
    assert data_of(made.html)["classes"] == [html.escape(name, quote=False) for name in names]
    page = Balanced()
    page.feed(made.html)


def test_names_are_neither_markup_nor_marks_of_direction(rows):
    """Plotly reads some HTML, its entities, and %{..} in what it shows on hovering."""
    names = ["<b>bold</b>", "a & b", "\u202egnp.exe", "%{x}"]
    methods = {"<b>ts</b>": "ts", "x\u202ey": "ets"}
    made = make_report(*rows, methods=methods, n_resamples=0, class_names=names, title="\u2067t")
    shown = data_of(made.html)
    assert shown["classes"] == [
        "&lt;b&gt;bold&lt;/b&gt;",
        "a &amp; b",
        r"\u202egnp.exe",
        "&#37;{x}",
    ]
    assert shown["labels"] == {
        "base": "base",
        "<b>ts</b>": "&lt;b&gt;ts&lt;/b&gt;",
        r"x\u202ey": r"x\u202ey",
    }
    assert set(shown["labels"]) == set(shown["methods"])
    own = made.html.replace(calibrant_plotly(), "")
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", own)
    assert r"\u202egnp.exe" in own  # in the table of mistakes, or at least in the data
    assert r"<h1>\u2067t</h1>" in own
    assert r'<option value="x\u202ey"' in own


def test_the_script_gives_plotly_no_bare_name():
    script = files("calibrant.evaluation.report").joinpath("page.js").read_text()
    bare = re.compile(r"<b>\$\{name\}|\bname, (mode|showlegend)|showlegend: false, name,")
    assert not bare.search(script)
    assert script.count("label(name)") >= 8


def test_json_between_script_tags():
    text = as_json({"a": [float("nan"), 1.23456789, "</script>"], "b": np.array([1, 2])})
    assert "<" not in text
    assert json.loads(text) == {"a": [None, 1.23457, "</script>"], "b": [1, 2]}


def test_a_calibrated_model_is_not_accused():
    rng = np.random.default_rng(3)
    logits = 2.0 * rng.normal(size=(4000, 5))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    made = make_report(logits[:2000], labels[:2000], logits[2000:], labels[2000:], **QUICK)
    assert made.recommended == "base"
    assert "noise alone may explain it" in made.summary[1]


def test_the_level_that_tells_most():
    probs = np.repeat([[0.95, 0.05], [0.6, 0.4]], 500, axis=0)
    labels = np.r_[np.zeros(250, int), np.ones(250, int), np.zeros(300, int), np.ones(200, int)]
    rows = {"kind": "smooth", "n_resamples": 0}
    assert worst_chance(calibrant.diagrams.reliability(probs, labels, **rows)) == 0.05
    confidence = calibrant.diagrams.reliability(probs, labels, **rows, notion="confidence")
    assert worst_chance(confidence) == 0.95


def test_weights_are_repeated_rows(rows):
    times = np.random.default_rng(0).integers(0, 3, 600)
    weighted = make_report(*rows, **QUICK, test_weight=times)
    repeated = make_report(
        *rows[:2], np.repeat(rows[2], times, axis=0), np.repeat(rows[3], times), **QUICK
    )
    for method in ("base", "ts"):
        one, other = (
            data_of(made.html)["methods"][method]["reliability"]["equal-width"]
            for made in (weighted, repeated)
        )
        assert one["weight"] == other["weight"]
        assert one["low"] == other["low"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class_names": ["a"]}, "one name per class, got 1 for 4 classes"),
        ({"methods": ["nonsense"]}, "nonsense"),
        ({"level": 2.0}, "level must lie between 0 and 1"),
        ({"n_resamples": -1}, "n_resamples must be at least 0"),
    ],
)
def test_bad_arguments(rows, change, message):
    with pytest.raises(ValueError, match=message):
        make_report(*rows, **{**QUICK, **change})


def test_without_the_extra(rows, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(
        ImportError, match=r'a report needs plotly: pip install "calibrant\[report\]"'
    ):
        make_report(*rows, **QUICK)


def test_save_takes_html_alone(made, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.html"):
        made.save(tmp_path / "report.txt")


@pytest.mark.slow
def test_ten_thousand_rows_of_a_hundred_classes():
    """Nine methods, within a minute on two cores and in less than 6 MB."""
    logits, labels = sample(20_000, 100)
    began = time.perf_counter()
    made = make_report(logits[:10_000], labels[:10_000], logits[10_000:], labels[10_000:])
    assert time.perf_counter() - began < 60.0
    assert len(made.comparison) == 9
    assert len(made.html.encode()) < 6_000_000


# --- the command ---


def test_the_command(tmp_path, rows):
    for name, scores, labels in (("val", *rows[:2]), ("test", *rows[2:])):
        np.savez(tmp_path / f"{name}.npz", logits=scores, labels=labels)
    (tmp_path / "names.txt").write_text("ant\nbee\ncat\ndog\n")
    target = tmp_path / "report.html"
    said = succeed(
        "report",
        tmp_path / "val.npz",
        tmp_path / "test.npz",
        "-o",
        target,
        "--methods",
        "ts,ets",
        "--class-names",
        tmp_path / "names.txt",
        "--n-resamples",
        10,
    )
    assert said.startswith("Where the model said")
    page = target.read_text()
    assert "val.npz" in page
    assert data_of(page)["classes"] == ["ant", "bee", "cat", "dog"]


def test_the_command_without_files_says_that_it_describes_demonstration_data(tmp_path):
    target = tmp_path / "report.html"
    said = succeed("report", "-o", target, "--methods", "ts", "--n-resamples", 0)
    assert said.startswith("Demonstration data: these are the logits of fashion-mnist-lenet5")
    page = target.read_text()
    assert '<p class="demonstration" role="note"><b>Demonstration data.</b>' in page
    assert page.index('class="demonstration"') < page.index("<h1>")


def test_a_report_of_files_has_no_banner(made):
    assert 'class="demonstration"' not in made.html


def test_a_report_that_is_there_is_replaced_by_force_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = ["--methods", "ts", "--n-resamples", 0]
    Path("report.html").write_text("mine")
    line = "report.html is there already: say --force to replace it, or name another with -o"
    assert refuse("report", *quick) == f"error: {line}\n"
    assert refuse("report", "-o", "report.html", *quick) == f"error: {line}\n"
    assert Path("report.html").read_text() == "mine"
    succeed("report", "--force", *quick)
    assert "fashion-mnist-lenet5" in Path("report.html").read_text()


def test_names_of_classes_are_counted_before_the_first_fit(rows, tmp_path, monkeypatch):
    monkeypatch.setattr("calibrant.calibrators.TemperatureScaling.fit", None)
    np.savez(tmp_path / "val.npz", logits=rows[0], labels=rows[1])
    (tmp_path / "names.txt").write_text("a\nb\n")
    line = refuse(
        "report", tmp_path / "val.npz", "-o", tmp_path / "x.html", "--methods", "ts",
        "--class-names", tmp_path / "names.txt",
    )  # fmt: skip
    assert "--class-names must have one name per class, got 2 for 4 classes" in line


def test_bad_command_lines(tmp_path, rows):
    np.savez(tmp_path / "val.npz", logits=rows[0], labels=rows[1])
    assert ".html" in refuse("report", tmp_path / "val.npz", "-o", tmp_path / "x.pdf")
    assert "--test-labels needs TEST; the labels of one file are --labels" in refuse(
        "report", tmp_path / "val.npz", "-o", tmp_path / "x.html", "--test-labels", tmp_path / "y"
    )
    for option in ("--labels", "--test-labels"):
        assert "--labels and --test-labels go with VAL" in refuse(
            "report", "-o", tmp_path / "x.html", option, tmp_path / "val.npz"
        )
    np.savez(tmp_path / "bad.npz", logits=rows[0], labels=rows[1] + 9)
    assert "bad.npz" in refuse(
        "report", tmp_path / "val.npz", tmp_path / "bad.npz", "-o", tmp_path / "x.html"
    )
    assert not (tmp_path / "x.html").exists()
