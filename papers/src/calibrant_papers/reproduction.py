"""The whole reproduction: run what is missing, then write tables, figures and the page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant.files import check_output, write_text
from calibrant_papers import claims, figures, page, plan, runner
from calibrant_papers._extras import need
from calibrant_papers.coverage import INCONSISTENT, MENTIONED, Coverage, coverage
from calibrant_papers.experiments import FRACTIONS, METHODS
from calibrant_papers.logit_sets import (
    IMAGENET,
    ON_CIFAR,
    PAPER_ROWS,
    STAND_INS,
    Source,
    imagenet_group,
    of_the_paper,
)
from calibrant_papers.row_draws import add_excess
from calibrant_papers.summary import (
    Cell,
    Results,
    Table,
    linear_table,
    metric_table,
    normalised_table,
    others_table,
    published,
    row_label,
)

FILES = ("index.md", "index.html", "rows.csv", "tables.json")
TITLE = "Parameterized Temperature Scaling, reproduced"
MAIN = tuple(key for key in plan.TABLE_METHODS if METHODS[key].published)
RAW = (*plan.NON_PARAMETRIC, "pbmc-raw")  # with a normalised twin each
STAND_IN_NOTE = (
    "Logits of ImageNet are not here: these are architecture stand-ins on CIFAR-100, the paper's "
    "architectures with neither its data nor its weights. All five files imagenet-NETWORK would "
    "replace them."
)
NO_GROUP_NOTE = (
    "Not run: there are neither ImageNet's logits nor the architecture stand-ins on CIFAR-100, "
    "which the repository has in data/ (--logits data)."
)
CONTROLS = (
    *("ts", "ts-brier", "ets", "ets-nll", "diag", "diag-authors"),
    *("pbmc-raw", "ts-bins", "ts-bins-top"),
)
PAIRED = tuple(key for raw in RAW for key in (raw, raw.removesuffix("-raw")))


@dataclass(frozen=True)
class Reproduction:
    """What was found, and where it was written."""

    results: Results
    tables: dict[str, Table]
    verdicts: list[claims.Verdict]
    coverage: Coverage
    page: Path


def reproduce(
    sources: Sequence[Source],
    out: Path,
    *,
    scope: plan.Scope = plan.FULL,
    workers: int | None = None,
    report: runner.Report = lambda done, total, left: None,
    kept_only: bool = False,
) -> Reproduction:
    """Run the experiments on all sets and write the result page into ``out``.

    Rows that ``out/rows`` holds from an earlier or interrupted run are not computed again; with
    ``kept_only`` the page is made of them alone.
    """
    need("matplotlib")  # before an hour of work, not after it
    _check_can_write(out)
    names = _in_the_papers_order([source.name for source in sources])
    settings = plan.settings(names, scope)
    rows = runner.run_all(
        settings, sources, out / "rows", workers=workers, report=report, kept_only=kept_only
    )
    if not rows:
        raise ValueError(f"{out / 'rows'} holds no row of these experiments yet")
    results = Results(sorted(rows, key=lambda row: names.index(row["data"])))
    add_excess(results)
    group, real = imagenet_group(names)
    tables = all_tables(results, group)
    verdicts = claims.judge_all(results, of_the_paper(names), group)
    drawn = figures.draw_all(results, group, real, out / "figures")
    sections = _sections(results, tables, verdicts, drawn, group, real, len(settings))
    made = Reproduction(results, tables, verdicts, coverage(tables, group), out / "index.html")
    texts = (
        *(page.markdown(TITLE, sections), page.html(TITLE, sections)),
        *(_rows_as_csv(rows), tables_as_json(made)),
    )
    for name, text in zip(FILES, texts, strict=True):
        write_text(out / name, text)
    return made


def _in_the_papers_order(names: Sequence[str]) -> list[str]:
    """The rows of Table 1, then what is in none of its rows."""
    known = [*ON_CIFAR, *STAND_INS, *IMAGENET]
    first = [name for name in known if name in names]
    return [*first, *(name for name in names if name not in known)]


def _check_can_write(out: Path) -> None:
    """Refuse an output folder that cannot take the page; one that is not there can be made."""
    for file in (*(out / name for name in FILES), *figures.files(out / "figures")):
        if file.parent.exists():
            check_output(file)


def all_tables(results: Results, group: Sequence[str]) -> dict[str, Table]:
    """Tables 1-5, the controls, proper losses, and the raw outputs beside the normalised ones."""
    spread = "Mean ± standard deviation over seeds, each another training and split; "
    beside = f"{spread}the paper's number, where it has one, is the second one."
    gain = "Calibration gain (100 x drop of the Brier score)"
    others = others_table(results, MAIN, "ECE in 10 bins (%)")
    tables = {
        "1": metric_table(results, "ece", MAIN, "ECE in 10 bins (%)", beside),
        "1-excess": metric_table(results, "excess", MAIN, "ECE beyond chance (%)"),
        "2": metric_table(results, "kde_ece", MAIN, "KDE-ECE (%)", beside),
        "3": metric_table(results, "gain", MAIN[1:], gain, beside, max),
        "nll": metric_table(results, "nll", MAIN, "NLL (100 x nats)"),
        "controls": metric_table(results, "ece", CONTROLS, "ECE in 10 bins (%)", beside),
        "others": others,
        "raw": metric_table(results, "ece", PAIRED, "ECE in 10 bins (%)", beside),
        "raw-gain": metric_table(results, "gain", PAIRED, gain, beside, max),
    }
    if group:
        tables |= {
            "4-paper": normalised_table(results, group, "pts-paper", plan.RIVALS_BY_SIZE),
            "4": normalised_table(results, group, "pts", (*plan.RIVALS_BY_SIZE, "pts-paper")),
            "5": linear_table(results, group),
        }
    return {key: table for key, table in tables.items() if table is not None}


# --- the page ---------------------------------------------------------------------------------


def _sections(
    results: Results,
    tables: dict[str, Table],
    verdicts: list[claims.Verdict],
    drawn: list[figures.Figure],
    group: Sequence[str],
    real: bool,
    planned: int,
) -> list[page.Section]:
    whose = "" if real else STAND_IN_NOTE if group else NO_GROUP_NOTE
    divisors = (
        "The mean over networks of the ratio, for each seed; the paper's numbers are the mean over "
        "its five ImageNet networks with 12,500 validation rows, as many as the stand-ins have. "
        "Both divisions are shown: by the ECE of the published recipe and by that of the default."
    )
    pairs = (
        "Each pair has the same seeds. The published linear model is the network without its "
        "nonlinearities; the default one is a single linear map of the logits, whereas the "
        "default PTS averages four networks on log-gaps, so that more than the nonlinearity "
        "separates them."
    )
    excess = (
        "The ECE less what the same confidences would show if every row were right with the "
        "probability that it says: a calibrated model has 0 on average. From a model that is far "
        "off it takes away too much, for chance adds little to large gaps."
    )

    def named(title: str, texts: tuple[str, ...], *keys: str) -> page.Section:
        return page.Section(title, texts, tuple(tables[key] for key in keys if key in tables))

    return [
        page.Section("What this is", _introduction(results, coverage(tables, group))),
        page.Section("The paper's claims", RULES, (_verdict_table(verdicts),)),
        named("Table 1: ECE", (), "1"),
        named("Table 1 beyond chance", (excess,), "1-excess"),
        named("Table 2: KDE-ECE", (), "2"),
        named("Table 3: calibration gain", (), "3"),
        named("Log loss", (LOSS_NOTE,), "nll"),
        named("Controls that the paper lacks", CONTROL_NOTES, "controls"),
        named("Sets that are in no table of the paper", (), "others"),
        named("Raw and normalised outputs", (RAW_NOTE,), "raw", "raw-gain"),
        named(
            "Table 4: ECE over that of PTS, by validation size",
            _filled(whose, divisors),
            *("4-paper", "4"),
        ),
        named("Table 5: linear against PTS", _filled(whose, pairs), "5"),
        *(
            page.Section(figure.title, (), (page.Picture(figure.file, figure.caption),))
            for figure in drawn
        ),
        page.Section("Where and why the numbers differ", REASONS, (_sets(results),)),
        page.Section("What the paper's numbers do not agree on", INCONSISTENT),
        page.Section("What the paper mentions and is not compared", MENTIONED),
        page.Section("What the fits said", (), (_notes(results),)),
        page.Section("Run it again", _again(results, planned)),
    ]


RULES = (
    "Claims on ImageNet are judged on the architecture stand-ins on CIFAR-100 (cifar100-resnet50, "
    "-resnet152, -densenet169, -xception and -mobilenetv2) where there is nothing else, and say "
    "nothing of ImageNet itself.",
    "Every comparison is paired: methods are compared on the same test rows of the same split and "
    "training. The error of a difference has two parts: what test rows drawn anew do to it, and "
    "how much more the seeds differ, each a training, a split and a fit of its own; that second "
    "part is one number for all networks of a comparison, unless a network's own seeds differ by "
    "more. Differences are judged by Student's t. With a single seed they are sure as to the test "
    "rows alone.",
    "A difference counts where it is sure at 5% after Holm's correction over all comparisons of "
    "the claim. A claim holds where everything it says is surely so, fails where more of it is "
    "surely the contrary than surely so, is true partly where else something is surely so, and is "
    "else indistinguishable.",
    "Our own thresholds: a drop of 30% (or 50%, or 52%) is reached where it is surely above 0 and "
    "30% lies within its interval; with a network left out it must be 29.5% or more by value, too. "
    "Wide temperatures have a 95% quantile 1.25 times "
    "the 5% quantile (a description, no test); rankings agree at a rank correlation surely above "
    "0.7; 0.1 points of ECE are no loss. The order of complexity has Spearman's test.",
    "The last columns apply the same rules to the paper's own tables. The paper has no errors: "
    "those of a single run of the same methods here stand in, on the same network or its stand-in, "
    "the part by test rows made smaller for ImageNet's 37,500. Its Table 4 has ratios alone: they "
    "are counted, without errors. Here PBMC as the paper words it, for the top label, is a rival, "
    "too.",
    "The ECE of a calibrated model is not 0: with 10,000 test rows and 10 bins it is 0.5 to 1.0 "
    'points ("Where and why the numbers differ" has it), about twice that of ImageNet\'s 37,500 '
    "rows. Shares of an ECE are compressed by that; the ECE beyond chance, where given, is not.",
)
LOSS_NOTE = (
    "A fit that gives a row's true class the probability 0 has an infinite log loss, and no mean "
    "over seeds: raw outputs, and the published recipe where it gives a row a temperature near 0. "
    "In brackets: in how many seeds."
)
RAW_NOTE = (
    "The authors' code for IROvA, IROvA-TS, IRM and PBMC returns rows that do not sum to 1, and "
    "the paper's tables are made of them; calibrant normalises by default."
)
CONTROL_NOTES = (
    "TS by Brier is temperature scaling fitted by the Brier score, which is the loss of ETS and of "
    "PTS; ETS by NLL is ETS fitted by the loss of TS. DIAG, authors' fit, has no penalty, one "
    "start and 200 steps of L-BFGS.",
    "PBMC is the authors' code: a sigmoid per class, then bins. The paper words it as temperature "
    "scaling, then histogram binning: the last two columns, for every class (normalised) and for "
    "the top label. All have 10 bins of equal mass; the paper does not give their number.",
)


def _filled(*texts: str) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


def _introduction(results: Results, covered: Coverage) -> tuple[str, ...]:
    seeds = len(results.seeds)
    slow = {
        fraction: max(len(results.by_seed(name, "pts-paper", fraction)) for name in results.names)
        for fraction in (1.0, FRACTIONS[0])
    }
    return (
        "Tables 1-5 and the figures of Tomani, Cremers and Buettner, Parameterized Temperature "
        "Scaling for Boosting the Expressive Power in Post-Hoc Uncertainty Calibration (ECCV "
        f"2022), made by calibrant {calibrant.__version__} from the logits of {len(results.names)} "
        "networks. Methods are fitted on validation rows and judged on test rows. "
        f"{covered}",
        f"Seeds: {seeds}; of the published recipe of PTS {slow[1.0]} at full validation size and "
        f"{slow[FRACTIONS[0]]} for smaller sizes. Seed 0 is the split that came with the logits; "
        "the others take another training of the network, where there is one, pool the rows to fit "
        "on and to judge on, none of which it was trained on, and split them anew. Spreads are "
        "standard deviations over seeds; the paper has none. LeNet-5 and VGG19 are fitted on 5,000 "
        "rows and the others on 12,500, as in the paper.",
        "PTS (paper) is the published recipe, Adam for 100,000 steps on the Brier score; PTS is "
        "this library's default. The paper has one PTS, whose number stands beside both.",
    )


def _verdict_table(verdicts: list[claims.Verdict]) -> page.Words:
    heads = {
        "pts-paper": "Here, PTS (paper)",
        "pts": "Here, PTS (default)",
        "paper": "The paper's own tables",
    }
    columns = ("Claim", *(part for head in heads.values() for part in (head, "Evidence")))
    rows = tuple(
        (
            verdict.claim,
            *(part for key in heads for part in (verdict.verdicts[key], verdict.evidence[key])),
        )
        for verdict in verdicts
    )
    return page.Words(columns, rows)


REASONS = (
    "The authors' weights, logits and ImageNet split are not public. The networks here are others "
    "of the same kind: their accuracy and their miscalibration (ECE of Base, below) are not the "
    "paper's, and what a calibrator leaves depends on both.",
    "The CIFAR-100 images at hand do not know the official split: theirs is random, by class "
    "(docs/training.md). CIFAR-10's test rows are the official ones in seed 0.",
    "With a finite number of test rows the ECE of a calibrated model is not 0: the table has what "
    "labels drawn from PTS's own probabilities show on average.",
    "The default PTS was chosen on other networks' outputs for test images of CIFAR-10 and "
    "CIFAR-100 (docs/pts-study.md), in part the images that judge it here; the published recipe "
    "leaves nothing to choose.",
    "PBMC cuts each class's outputs into bins of equal mass. With 10 bins, the code's default, the "
    "top bin of a class holds a tenth of all rows; with 100 classes most of them are other "
    "classes', no probability can be large, and accuracy is lost. The paper's numbers cannot come "
    "from this.",
    "DIAG starts here at temperature scaling, has a weak penalty and is fitted until it converges "
    "(docs/diag.md). The paper leaves Xception blank, and its 9.30 for VGG19 on CIFAR-100, far "
    "above TS, looks like a fit that had not converged.",
    "The gain is 100 times the drop of the class-summed Brier score; the paper does not define its "
    "scale.",
    "imagenet5k-mobilenetv2, where it is among the other sets, is a quantised MobileNetV2 on 5,000 "
    "of ImageNet's 50,000 images, with 2,500 rows for 1,000 classes; it stands in for nothing.",
)


def _sets(results: Results) -> page.Words:
    paper = published()["ece"]
    rows = []
    for name in results.names:
        if not results.by_seed(name, "base"):  # not yet
            continue
        base = next(iter(results.by_seed(name, "base").values()))
        theirs = paper.get(PAPER_ROWS.get(name, ""), {}).get("Base")
        rows.append(
            (
                row_label(name),
                str(base["classes"]),
                f"{base['val_rows']} / {base['test_rows']}",
                page.number(Cell(results.values("accuracy", name, "base"))),
                page.number(Cell(results.values("ece", name, "base"))),
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


def _again(results: Results, planned: int) -> tuple[str, ...]:
    seconds = sum(row["fit_seconds"] for row in results.rows)
    run = len(results.rows)
    count = f"{run} experiments" if run == planned else f"{run} of {planned} experiments so far"
    return (
        "In a clone, make reproduce runs all of it: calibrant reproduce --logits data --out "
        "FOLDER. Without the logits in data/ Tables 4 and 5 and most figures are not run. --add "
        "NAME VAL TEST adds your own logits. Rows are kept in FOLDER/rows: a second run computes "
        "only what is new.",
        f"{count}, {seconds / 60.0:.0f} minutes of fitting in all; rows.csv has every one of them.",
    )


# --- rows for others --------------------------------------------------------------------------

COLUMNS = (
    *("data", "method", "seed", "fraction", "width", "top_k", "classes", "val_rows", "test_rows"),
    *("accuracy", "ece", "excess", "kde_ece", "brier", "gain", "nll", "fit_seconds"),
)


def _rows_as_csv(rows: Sequence[dict[str, Any]]) -> str:
    ordered = sorted(rows, key=lambda row: [str(row[name]) for name in COLUMNS[:6]])
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(ordered)
    return text.getvalue()


def _cell_as_json(cell: Cell) -> dict[str, Any]:
    mean = None if np.isnan(cell.mean) else cell.mean
    values = [value for value in cell.values if not np.isnan(value)]
    known = {"mean": mean, "values": values, "published": cell.published}
    return known | ({"infinite": cell.infinite} if cell.infinite else {})


def tables_as_json(reproduction: Reproduction) -> str:
    """Tables and verdicts for programs."""
    tables = {
        key: {
            row: {
                column: _cell_as_json(cell)
                for column, cell in zip(table.columns, cells, strict=True)
                if not np.isnan(cell.mean) or cell.infinite or cell.published is not None
            }
            for row, cells in table.rows.items()
        }
        for key, table in reproduction.tables.items()
    }
    verdicts = [
        {"claim": one.claim, "verdicts": one.verdicts, "evidence": one.evidence}
        for one in reproduction.verdicts
    ]
    counted = asdict(reproduction.coverage)
    code = runner.code_digest()  # of what the rows depend on
    document = {"code": code, "coverage": counted, "tables": tables, "claims": verdicts}
    return json.dumps(document, indent=1, allow_nan=False)
