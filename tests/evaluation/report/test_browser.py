"""The report in a real browser: opened from the file system, sorted, switched, hovered over."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import calibrant
from browser import chromium, needs_chromium, open_page
from calibrant.report import make_report

pytestmark = needs_chromium

METHODS = ["base", "ts", "ets", "pts"]


@pytest.fixture(scope="module")
def data():
    return calibrant.datasets.load("fashion-mnist-lenet5")


@pytest.fixture(scope="module")
def file(data, tmp_path_factory) -> Path:
    made = make_report(
        data.val_logits[:2000],
        data.val_labels[:2000],
        data.test_logits,
        data.test_labels,
        methods=METHODS,
        n_resamples=20,
        title="A <b>report</b>",
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    made.save(path)
    return path


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def watched(browser, file):
    opened = open_page(browser, file)
    yield opened
    opened.page.close()


def hover(page, plot: str, x: float, y: float) -> str:
    """The text that appears where the pointer rests on a place of a plot's axes."""
    at = page.evaluate(
        """([id, x, y]) => {
            const plot = document.getElementById(id), layout = plot._fullLayout;
            plot.scrollIntoView({block: "center"});
            const box = plot.getBoundingClientRect();
            return [box.left + layout.xaxis._offset + layout.xaxis.d2p(x),
                    box.top + layout.yaxis._offset + layout.yaxis.d2p(y)];
        }""",
        [plot, x, y],
    )
    page.mouse.move(at[0] - 40, at[1] - 40)
    page.mouse.move(*at, steps=4)
    page.wait_for_selector(f"#{plot} .hovertext")
    return page.evaluate(
        """(id) => [...document.querySelectorAll(`#${id} .hovertext *`)]
            .filter((one) => one.children.length === 0).map((one) => one.textContent)
            .join("\\n")""",
        plot,
    )


def drawn(page, plot: str) -> list[str]:
    return page.evaluate("(id) => document.getElementById(id).data.map((one) => one.name)", plot)


def test_it_opens_without_a_word_and_asks_nobody_for_anything(watched, file):
    assert watched.complaints == []
    assert [url for url in watched.requests if not url.startswith("data:")] == [file.as_uri()]
    assert watched.page.title() == "A <b>report</b>"
    assert watched.page.locator("h1").inner_text() == "A <b>report</b>"


def test_sorting(watched):
    page = watched.page
    head = page.locator("#comparison-table thead th", has_text="NLL (nats)")
    column = page.locator("#comparison-table tbody tr td:nth-child(8)")
    values = lambda: [float(text.split("\n")[0].split()[0]) for text in column.all_inner_texts()]  # noqa: E731
    first = values()
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(first) != first
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(first, reverse=True)


def test_switching_methods_changes_the_diagram(watched):
    page = watched.page
    heights = """() => document.getElementById("reliability-plot").data
        .find((one) => one.error_y && one.name !== "base").y"""
    page.select_option("#reliability-method", "pts")
    before = page.evaluate(heights)
    assert "pts" in drawn(page, "reliability-plot")
    page.select_option("#reliability-method", "ets")
    assert "pts" not in drawn(page, "reliability-plot")
    assert page.evaluate(heights) != before
    page.select_option("#reliability-beside", "nothing")
    assert "base" not in drawn(page, "reliability-plot")
    caption = page.locator("#reliability-table caption")
    assert caption.evaluate("(one) => one.textContent") == "Reliability of ets"
    for kind in ("equal-mass", "isotonic", "smooth"):
        page.select_option("#reliability-kind", kind)
        assert drawn(page, "reliability-plot")[-1] == "ets"
    assert watched.complaints == []


def test_names_are_shown_as_they_are(browser, data, tmp_path):
    """Plotly shows the letters of a name, and takes none of them for markup."""
    names = ["<b>bold</b>", "a & b &lt;", "%{x}", *"3456789"]
    made = make_report(
        *(data.val_logits[:500], data.val_labels[:500], data.test_logits, data.test_labels),
        methods={"<b>ts</b>": "ts"},
        n_resamples=0,
        class_names=names,
    )
    made.save(tmp_path / "report.html")
    opened = open_page(browser, tmp_path / "report.html")
    ticks = opened.page.locator("#classes-plot .ytick text").all_text_contents()
    assert sorted(ticks) == sorted(names)
    legend = opened.page.locator("#risk-plot .legendtext").all_text_contents()
    assert "<b>ts</b>" in legend
    assert opened.complaints == []
    opened.page.close()


def test_hovering_shows_the_metrics_own_numbers(watched, data):
    probs = calibrant.TS().fit(data.val_logits[:2000], data.val_labels[:2000])
    stats = calibrant.metrics.bin_stats(probs.predict_proba(data.test_logits), data.test_labels)
    watched.page.select_option("#reliability-method", "ts")
    watched.page.select_option("#reliability-beside", "nothing")
    for at in (7, 11):
        shown = hover(
            watched.page, "reliability-plot", 100 * stats.confidence[at], 100 * stats.accuracy[at]
        )
        assert f"rows {int(stats.weight[at]):,}" in shown
        told = dict(re.findall(r"(confidence|accuracy) ([\d.]+)%", shown))
        assert float(told["confidence"]) == pytest.approx(100 * stats.confidence[at], abs=0.006)
        assert float(told["accuracy"]) == pytest.approx(100 * stats.accuracy[at], abs=0.006)


def test_the_table_beside_the_diagram_has_its_numbers(watched, data):
    stats = calibrant.metrics.bin_stats(
        data.test_logits, data.test_labels, input="logits", n_bins=15
    )
    watched.page.select_option("#reliability-method", "base")
    rows = watched.page.evaluate(
        """() => [...document.querySelectorAll("#reliability-table tbody tr")]
            .map((row) => [...row.cells].map((cell) => cell.textContent))"""
    )
    assert [float(row[1]) for row in rows] == stats.weight.tolist()
    for row, accuracy in zip(rows, stats.accuracy, strict=True):
        assert row[3] == ("\u2013" if np.isnan(accuracy) else f"{100 * accuracy:.2f}%")


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_layout_holds(browser, file, width, scheme):
    opened = open_page(browser, file, width, scheme)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for plot in page.locator(".plot").all():
        box = plot.bounding_box()
        assert box["width"] <= width
        assert box["height"] > 100
        inner = plot.locator(".main-svg").first.bounding_box()
        assert inner["width"] <= box["width"] + 1
    assert opened.complaints == []
    page.close()


def test_the_keyboard_reaches_everything(watched):
    page = watched.page
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"reliability-method", "reliability-kind", "classes-method", "BUTTON", "A"} <= reached
    unnamed = """() => [...document.querySelectorAll("select, button, [role=img], [role=region]")]
        .filter((one) => !one.textContent.trim() && !one.getAttribute("aria-label")
                && !one.labels?.length).length"""
    assert page.evaluate(unnamed) == 0


def test_it_prints(watched, tmp_path):
    """On paper there are no controls, and no picture is cut."""
    page = watched.page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".controls").first.is_hidden()
    widths = [one.bounding_box()["width"] for one in page.locator(".plot .main-svg").all()]
    assert max(widths) <= 690
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") <= 10
