"""The result page: the same content as Markdown and as HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from calibrant_papers.summary import Cell, Table

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #777; --good: #1a7f37;
  --mid: #9a6700; --bad: #cf222e; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 88rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .42rem; border-bottom: 1px solid var(--line); text-align: right;
  vertical-align: top; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
table.text td, table.text th { text-align: left; white-space: normal; min-width: 7rem; }
tr.mean td { border-top: 2px solid var(--line); }
.paper { display: block; color: var(--soft); font-size: .92em; }
.best { font-weight: 700; }
.holds { color: var(--good); font-weight: 600; } .partly { color: var(--mid); font-weight: 600; }
.fails { color: var(--bad); font-weight: 600; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; background: #fff; border-radius: 4px; }
figcaption, p.note { color: var(--soft); font-size: .9rem; }
p, figcaption { max-width: 60rem; }
"""


NOTHING = "-"  # in a cell without a number
NOT_RUN = "not run"  # in a cell with the paper's number alone


@dataclass(frozen=True)
class Words:
    """A table of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure: the file without its suffix, and what it shows."""

    file: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, then tables and pictures."""

    title: str
    paragraphs: tuple[str, ...] = ()
    parts: tuple[Table | Words | Picture, ...] = field(default=())


def best_of(table: Table, cells: Sequence[Cell]) -> float:
    """The value that is marked in a row, as it is shown; NaN where none is."""
    shown = [round(cell.mean, 2) for cell in cells if not math.isnan(cell.mean)]
    return table.best(shown) if table.best is not None and len(set(shown)) > 1 else math.nan


def number(cell: Cell) -> str:
    """The mean over seeds, and its spread where there are several; or how many are infinite."""
    if cell.infinite:
        return f"infinite ({cell.infinite})"
    if math.isnan(cell.mean):
        return NOTHING if cell.published is None else NOT_RUN
    spread = "" if math.isnan(cell.spread) else f" ± {cell.spread:.2f}"
    return f"{cell.mean:.2f}{spread}"


# --- Markdown ---------------------------------------------------------------------------------


def markdown(title: str, sections: Sequence[Section]) -> str:
    """The page for a repository or a text editor."""
    parts = [f"# {title}"]
    for section in sections:
        parts += [f"## {section.title}", *section.paragraphs]
        parts += [_markdown_part(part) for part in section.parts]
    return "\n\n".join(parts) + "\n"


def _markdown_part(part: Table | Words | Picture) -> str:
    if isinstance(part, Picture):
        return f"![{part.caption}](figures/{part.file}.svg)\n\n*{part.caption}*"
    if isinstance(part, Words):
        return _markdown_table(
            part.columns, [[_in_cell(text) for text in r] for r in part.rows], ""
        )
    rows = []
    for name, cells in part.rows.items():
        best = best_of(part, cells)
        rows.append([name, *(_markdown_cell(cell, best) for cell in cells)])
    table = _markdown_table(("", *part.columns), rows, "---:")
    return "\n\n".join(text for text in (f"**{part.title}**", table, part.note) if text)


def _markdown_cell(cell: Cell, best: float) -> str:
    text = f"**{number(cell)}**" if round(cell.mean, 2) == best else number(cell)
    return text if cell.published is None else f"{text} ({cell.published:.2f})"


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    rule = ["---", *[align or "---"] * (len(columns) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (columns, rule, *rows))


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# --- HTML -------------------------------------------------------------------------------------


def html(title: str, sections: Sequence[Section]) -> str:
    """The page for a browser."""
    parts = [f"<h1>{escape(title)}</h1>"]
    for section in sections:
        parts.append(f"<h2>{escape(section.title)}</h2>")
        parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
        parts += [_html_part(part) for part in section.parts]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n"
        "</body></html>\n"
    )


def _html_part(part: Table | Words | Picture) -> str:
    if isinstance(part, Picture):
        source = f'<img src="figures/{part.file}.svg" alt="{escape(part.caption)}">'
        return f"<figure>{source}<figcaption>{escape(part.caption)}</figcaption></figure>"
    if isinstance(part, Words):
        rows = [
            "<tr>" + "".join(f"<td{_mood(text)}>{escape(text)}</td>" for text in row) + "</tr>"
            for row in part.rows
        ]
        return _html_table(part.columns, rows, ' class="text"')
    rows = [_html_row(part, name, cells) for name, cells in part.rows.items()]
    note = f'<p class="note">{escape(part.note)}</p>' if part.note else ""
    title = f"<p><strong>{escape(part.title)}</strong></p>"
    return title + _html_table(("", *part.columns), rows, "") + note


def _html_row(table: Table, name: str, cells: Sequence[Cell]) -> str:
    best = best_of(table, cells)
    shown = [f"<td>{escape(name)}</td>"]
    for cell in cells:
        mark = ' class="best"' if round(cell.mean, 2) == best else ""
        paper = "" if cell.published is None else f'<span class="paper">{cell.published:.2f}</span>'
        shown.append(f"<td><span{mark}>{number(cell)}</span>{paper}</td>")
    return f"<tr{' class=mean' if name.startswith('mean') else ''}>{''.join(shown)}</tr>"


def _html_table(columns: Sequence[str], rows: Sequence[str], style: str) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    table = f"<table{style}><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _mood(text: str) -> str:
    """A verdict's colour."""
    return f' class="{text}"' if text in ("holds", "partly", "fails") else ""
