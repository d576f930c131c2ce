"""Bring what ``make reproduce`` wrote into the documentation, with the commit that made it.

Run it from the repository root of the very code that made the results:

    python tools/publish_reproduction.py results/reproduction docs/reproduced "make reproduce"

The page, ``tables.json``, ``rows.csv`` and the figures (SVG) go to the second folder. The table of
the ECE and that of the verdicts are written anew into ``reproduction.md`` beside that folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant_papers import runner

PLAIN = ("tables.json", "rows.csv")
HEAD = """---
orphan: true
---

"""  # no page lists it: reproduction.md links to it


def commit() -> str:
    """The commit of the code; refused where the code has changes that no commit has."""
    changed = _git("status", "--porcelain", "--", "src", "data")
    if changed:
        raise SystemExit(f"commit these first, so that the page can name its code:\n{changed}")
    return _git("rev-parse", "--short=10", "HEAD")


def check_code(document: Mapping[str, Any]) -> None:
    """Refuse rows that other code made: the page would name the wrong commit."""
    if document.get("code") != runner.code_digest():
        raise SystemExit("the rows were made by other code than this: run make reproduce first")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def publish(source: Path, target: Path, made_by: str) -> None:
    """Write the page with its origin in the second line, and copy the rest."""
    title, rest = (source / "index.md").read_text().split("\n", 1)
    figures = target / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    (target / "index.md").write_text(f"{HEAD}{title}\n\n{made_by}\n{rest}")
    for name in PLAIN:
        shutil.copyfile(source / name, target / name)
    for file in sorted((source / "figures").glob("*.svg")):
        shutil.copyfile(file, figures / file.name)


# --- the summary in reproduction.md -----------------------------------------------------------

BEGIN, END = "<!-- made by tools/publish_reproduction.py -->", "<!-- end -->"
STAND_IN = " (architecture stand-in on CIFAR-100)"
WITNESSES = {
    "pts-paper": "here, published recipe",
    "pts": "here, default",
    "paper": "the paper's own tables",
}


def write_summary(document: Mapping[str, Any], guide: Path) -> None:
    """Replace what stands between the two marks of the guide."""
    before, begin, rest = guide.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{guide} must have the lines {BEGIN} and {END}, in this order")
    made = "\n".join([*_ece_table(document["tables"]["1"]), "", *_verdicts(document["claims"])])
    guide.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}")


def _ece_table(table: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Table 1 without the rows that were not run."""
    columns = list(next(iter(table.values())))
    yield from _lines("network", columns)
    for row, cells in table.items():
        if all(cell["values"] for cell in cells.values()):
            name = row.replace(STAND_IN, " *")
            yield f"| {name} | {' | '.join(_cell(cells[column]) for column in columns)} |"


def _cell(cell: Mapping[str, Any]) -> str:
    values, published = cell["values"], cell["published"]
    text = f"{statistics.mean(values):.2f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.2f}"
    return text if published is None else f"{text} ({published:.2f})"


def _verdicts(claims: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from _lines("claim", list(WITNESSES.values()))
    for claim in claims:
        outcomes = " | ".join(claim["verdicts"][key] for key in WITNESSES)
        yield f"| {claim['claim'].rstrip('.')} | {outcomes} |"


def _lines(first: str, columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join((first, *columns))} |", "|" + "---|" * (1 + len(columns))]


def main() -> int:
    """Read the command line, copy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("command", help="what made the results")
    options = parser.parse_args()
    document = json.loads((options.source / "tables.json").read_text())
    check_code(document)
    publish(options.source, options.target, f"Made by `{options.command}` at commit {commit()}.")
    write_summary(document, options.target.parent / "reproduction.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
