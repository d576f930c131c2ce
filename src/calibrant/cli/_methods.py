"""``calibrant methods``."""

from __future__ import annotations

import inspect
from typing import Any

from calibrant.cli._json import print_json
from calibrant.cli._options import AsJson
from calibrant.cli._tables import print_table


def methods(as_json: AsJson = False) -> None:
    """List the methods."""
    from calibrant.calibrators import ALIASES, REGISTRY, load_plugins

    load_plugins()
    entries = [
        {
            "method": acronym,
            "aliases": [alias for alias, name in ALIASES.items() if name == acronym],
            "class": cls.__name__,
            "accuracy_preserving": cls().accuracy_preserving,
            "two_classes_only": cls.two_classes_only,
            "summary": (inspect.getdoc(cls) or "").partition("\n")[0],
        }
        for acronym, cls in REGISTRY.items()
    ]
    if as_json:
        print_json(entries)
    else:
        _print_entries(entries)


def _print_entries(entries: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table("Method", "Keeps accuracy", "Class and what it does", box=box.SIMPLE_HEAD)
    for entry in entries:
        keeps = "yes" if entry["accuracy_preserving"] else "no"
        only = " (two classes only)" if entry["two_classes_only"] else ""
        what = f"{entry['class']}{only}\n{escape(entry['summary'])}"
        names = "\n".join([entry["method"], *(f"or {alias}" for alias in entry["aliases"])])
        table.add_row(names, keeps, what)
    print_table(table)
