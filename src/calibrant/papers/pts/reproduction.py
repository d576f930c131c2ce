"""The whole reproduction: run what is missing, then write tables, figures and the page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant._files import check_output, write_text
from calibrant.papers.pts import claims, figures, page, plan, runner
from calibrant.papers.pts._extras import need
from calibrant.papers.pts.experiments import FRACTIONS, METHODS
from calibrant.papers.pts.logit_sets import (
    PAPER_ROWS,
    STAND_INS,
    Source,
    imagenet_group,
    of_the_paper,
)
from calibrant.papers.pts.summary import (
    PERCENT,
    Results,
    Table,
    linear_table,
    metric_table,
    normalised_table,
    published,
    row_label,
)

FILES = ("index.md", "index.html", "rows.csv", "tables.json")
TITLE = "Parameterized Temperature Scaling, reproduced"
MAIN = tuple(key for key in plan.TABLE_METHODS if METHODS[key].published)
RAW = (*plan.NON_PARAMETRIC, "pbmc-raw")  # with a normalised twin each
STAND_IN_NOTE = (
    "Logits of ImageNet are not here: every set stands in for them. Files named imagenet-NETWORK "
    "replace the stand-ins."
)
PAIRED = tuple(key for raw in RAW for key in (raw, raw.removesuffix("-raw")))


@dataclass(frozen=True)
class Reproduction:
    """What was found, and where it was written."""

    results: Results
    tables: dict[str, Table]
    verdicts: list[claims.Verdict]
    page: Path


def reproduce(
    sources: Sequence[Source],
    out: Path,
    *,
    scope: plan.Scope = plan.FULL,
    workers: int | None = None,
    report: runner.Report = lambda done, total, left: None,
) -> Reproduction:
    """Run the experiments on all sets and write the result page into ``out``.

    Rows that ``out/rows`` holds from an earlier or interrupted run are not computed again.
    """
    need("matplotlib")  # before an hour of work, not after it
    _check_can_write(out)
    names = [source.name for source in sources]
    settings = plan.settings(names, scope)
    rows = runner.run_all(settings, sources, out / "rows", workers=workers, report=report)
    results = Results(sorted(rows, key=lambda row: names.index(row["data"])))
    group, real = imagenet_group(names)
    tables = all_tables(results, group)
    judged = of_the_paper(names)
    verdicts = claims.judge_all(results, judged, imagenet_group(judged)[0])
    drawn = figures.draw_all(results, group, real, out / "figures")
    sections = _sections(results, tables, verdicts, drawn, real)
    made = Reproduction(results, tables, verdicts, out / "index.html")
    texts = (
        *(page.markdown(TITLE, sections), page.html(TITLE, sections)),
        *(_rows_as_csv(rows), tables_as_json(made)),
    )
    for name, text in zip(FILES, texts, strict=True):
        write_text(out / name, text)
    return made


def _check_can_write(out: Path) -> None:
    """Refuse an output folder that cannot take the page; one that is not there can be made."""
    for file in (*(out / name for name in FILES), *figures.files(out / "figures")):
        if file.parent.exists():
            check_output(file)


def all_tables(results: Results, group: Sequence[str]) -> dict[str, Table]:
    """Tables 1-5, and the raw outputs beside the normalised ones."""
    spread = "Mean ± standard deviation over seeds; "
    beside = f"{spread}the paper's number, where it has one, is the second one."
    return {
        "1": metric_table(results, "ece", MAIN, "ECE in 10 bins (%)", beside),
        "2": metric_table(results, "kde_ece", MAIN, "KDE-ECE (%)", beside),
        "3": metric_table(
            results,
            "gain",
            MAIN[1:],
            "Calibration gain (100 x drop of the Brier score)",
            beside,
            max,
        ),
        "raw": metric_table(
            results, "ece", PAIRED, "ECE in 10 bins (%): raw and normalised", beside
        ),
        "raw-gain": metric_table(
            results, "gain", PAIRED, "Calibration gain: raw and normalised", beside, max
        ),
        "4-paper": normalised_table(results, group, "pts-paper", plan.RIVALS_BY_SIZE),
        "4": normalised_table(results, group, "pts", (*plan.RIVALS_BY_SIZE, "pts-paper")),
        "5": linear_table(results, group),
    }


# --- the page ---------------------------------------------------------------------------------


def _sections(
    results: Results,
    tables: dict[str, Table],
    verdicts: list[claims.Verdict],
    drawn: list[figures.Figure],
    real: bool,
) -> list[page.Section]:
    whose = "" if real else STAND_IN_NOTE
    divisors = (
        "The mean over sets of the ratio, for each seed; the paper's numbers are the mean over its "
        "five ImageNet networks with 12,500 validation rows. Both divisions are shown: by the ECE "
        "of the published recipe (one seed below 100%) and by that of the default."
    )
    pairs = (
        "Each pair has the same seeds. The published linear model is the network without its "
        "nonlinearities; the default one is a single linear map of the logits, whereas the "
        "default PTS averages four networks on log-gaps, so that more than the nonlinearity "
        "separates them."
    )
    return [
        page.Section("What this is", _introduction(results)),
        page.Section("The paper's claims", (), (_verdict_table(verdicts),)),
        page.Section("Table 1: ECE", (), (tables["1"],)),
        page.Section("Table 2: KDE-ECE", (), (tables["2"],)),
        page.Section("Table 3: calibration gain", (), (tables["3"],)),
        page.Section(
            "Raw and normalised outputs",
            (
                "The authors' code for IROvA, IROvA-TS, IRM and PBMC returns rows that do not sum "
                "to 1, and the paper's tables are made of them; calibrant normalises by default.",
            ),
            (tables["raw"], tables["raw-gain"]),
        ),
        page.Section(
            "Table 4: ECE over that of PTS, by validation size",
            _filled(whose, divisors),
            (tables["4-paper"], tables["4"]),
        ),
        page.Section("Table 5: linear against PTS", _filled(whose, pairs), (tables["5"],)),
        *(
            page.Section(figure.title, (), (page.Picture(figure.file, figure.caption),))
            for figure in drawn
        ),
        page.Section("Where and why the numbers differ", _reasons(results), (_sets(results),)),
        page.Section("What the fits said", (), (_notes(results),)),
        page.Section("Run it again", _again(results)),
    ]


def _filled(*texts: str) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


def _introduction(results: Results) -> tuple[str, ...]:
    seeds = len(results.seeds)
    slow, parts = (
        max(len(results.by_seed(name, "pts-paper", fraction)) for name in results.names)
        for fraction in (1.0, FRACTIONS[0])
    )
    return (
        "Tables 1-5 and the figures of Tomani, Cremers and Buettner, Parameterized Temperature "
        "Scaling for Boosting the Expressive Power in Post-Hoc Uncertainty Calibration (ECCV "
        f"2022), made by calibrant {calibrant.__version__} from the logits of {len(results.names)} "
        "networks. Methods are fitted on validation rows and judged on test rows.",
        f"Seeds: {seeds}; of the published recipe of PTS, half a minute a fit, {slow} at full "
        f"validation size and {parts} for smaller sizes, other widths and the linear model. Seed 0 "
        "is the split that came with the logits; the others pool the rows to fit on and to judge "
        "on and split them anew. Spreads are standard deviations over seeds, whose test rows "
        "overlap; the paper has none.",
        "PTS (paper) is the published recipe, Adam for 100,000 steps on the Brier score; PTS is "
        "this library's default. The paper has one PTS, whose number stands beside both.",
    )


def _verdict_table(verdicts: list[claims.Verdict]) -> page.Words:
    paper, default = plan.RECIPES
    rows = tuple(
        (
            verdict.claim,
            verdict.verdicts[paper],
            verdict.evidence[paper],
            verdict.verdicts[default],
            verdict.evidence[default],
        )
        for verdict in verdicts
    )
    return page.Words(("Claim", "PTS (paper)", "Evidence", "PTS (default)", "Evidence"), rows)


def _reasons(results: Results) -> tuple[str, ...]:
    reasons = [
        "The authors' weights, logits and ImageNet split are not public. The networks here are "
        "others of the same kind: their accuracy and their miscalibration (ECE of Base, below) are "
        "not the paper's, and what a calibrator leaves depends on both.",
        "With a finite number of test rows the ECE of a calibrated model is not 0: the table has "
        "what labels drawn from PTS's own probabilities show on average.",
        "PBMC cuts each class's outputs into bins of equal mass. With 10 bins, the code's default, "
        "the top bin of a class holds a tenth of all rows; with 100 classes most of them are other "
        "classes', no probability can be large, and accuracy is lost. The paper does not give its "
        "number of bins; its gains are near what 200 bins give, so they have a column as well.",
        "DIAG starts here at temperature scaling, has a weak penalty and is fitted until it "
        "converges (docs/diag.md). The paper leaves Xception blank, and its 9.30 for VGG19 on "
        "CIFAR-100, far above TS, looks like a fit that had not converged.",
        "The gain is 100 times the drop of the class-summed Brier score; the paper does not define "
        "its scale.",
    ]
    if any(name in STAND_INS for name in results.names):
        reasons.append(
            "imagenet5k-mobilenetv2 is a quantised MobileNetV2 on 5,000 of the 50,000 images: with "
            "2,500 rows for 1,000 classes, methods that fit each class by itself suffer more than "
            "with the paper's 12,500."
        )
    return tuple(reasons)


def _sets(results: Results) -> page.Words:
    paper = published()["ece"]
    rows = []
    for name in results.names:
        base = results.by_seed(name, "base")[0]
        theirs = paper.get(PAPER_ROWS.get(name) or STAND_INS.get(name, ""), {}).get("Base")
        rows.append(
            (
                row_label(name),
                str(base["classes"]),
                f"{base['val_rows']} / {base['test_rows']}",
                f"{PERCENT * base['accuracy']:.2f}",
                f"{PERCENT * base['ece']:.2f}",
                f"{results.mean('ece_if_calibrated', name, 'pts'):.2f}",
                page.NOTHING if theirs is None else f"{theirs:.2f}",
            )
        )
    columns = (
        *("Set", "Classes", "Rows to fit / judge", "Accuracy (%)", "ECE of Base"),
        *("ECE if PTS were calibrated", "ECE of Base in the paper"),
    )
    return page.Words(columns, tuple(rows))


def _notes(results: Results) -> page.Words:
    """Warnings of fits, each once with how often it came."""
    counts: dict[tuple[str, str, str], int] = {}
    for row in results.rows:
        for note in row["notes"]:
            key = (row_label(row["data"]), METHODS[row["method"]].label, note)
            counts[key] = counts.get(key, 0) + 1
    rows = tuple((*key, str(count)) for key, count in sorted(counts.items()))
    return page.Words(
        ("Set", "Method", "Said", "Fits"), rows or ((page.NOTHING, page.NOTHING, "nothing", "0"),)
    )


def _again(results: Results) -> tuple[str, ...]:
    seconds = sum(row["fit_seconds"] for row in results.rows)
    return (
        "calibrant reproduce --out FOLDER runs all of it (make reproduce in a clone, which adds "
        "the logits in data/); --add NAME VAL TEST adds your own logits. Rows are kept in "
        "FOLDER/rows: a second run computes only what is new.",
        f"{len(results.rows)} experiments, {seconds / 60.0:.0f} minutes of fitting in all; "
        "rows.csv has every one of them.",
    )


# --- rows for others --------------------------------------------------------------------------

COLUMNS = (
    *("data", "method", "seed", "fraction", "width", "classes", "val_rows", "test_rows"),
    *("accuracy", "ece", "kde_ece", "brier", "gain", "nll", "fit_seconds"),
)


def _rows_as_csv(rows: Sequence[dict[str, Any]]) -> str:
    ordered = sorted(rows, key=lambda row: [str(row[name]) for name in COLUMNS[:5]])
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(ordered)
    return text.getvalue()


def tables_as_json(reproduction: Reproduction) -> str:
    """Tables and verdicts for programs."""
    tables = {
        key: {
            row: {
                column: {"mean": cell.mean, "values": cell.values, "published": cell.published}
                for column, cell in zip(table.columns, cells, strict=True)
                if not np.isnan(cell.mean)
            }
            for row, cells in table.rows.items()
        }
        for key, table in reproduction.tables.items()
    }
    verdicts = [
        {"claim": one.claim, "verdicts": one.verdicts, "evidence": one.evidence}
        for one in reproduction.verdicts
    ]
    return json.dumps({"tables": tables, "claims": verdicts}, indent=1, allow_nan=False)
