"""Rows of results in files, one each: a row is read as it was written, or is computed again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.files import check_output, write_text
from calibrant_papers._messages import warn
from calibrant_papers._sealed import sealed, unsealed

Row = dict[str, Any]


@dataclass(frozen=True)
class RowFiles:
    """A folder with a file for every row, named by what the row depends on.

    Files appear whole and say which row they hold: several programs may share the folder.
    """

    folder: Path

    def path(self, key: str) -> Path:
        """The file of a row."""
        return self.folder / f"{key}.json"

    def write(self, key: str, row: Row) -> Row:
        """Keep a row; give it as it will be read."""
        body = json.dumps({"key": key, "row": row}, allow_nan=False)
        write_text(self.path(key), sealed(body))
        kept: Row = json.loads(body)["row"]
        return kept

    def read_all(self, keys: Iterable[str]) -> dict[str, Row]:
        """The rows that are there, by their keys; damaged files are deleted, and told.

        Where the file of a missing row could not be written, that is told now, before the work.
        """
        rows: dict[str, Row] = {}
        damaged: list[Path] = []
        for key in keys:
            path = self.path(key)
            row = _row_in(path, key)
            if row is not None:
                rows[key] = row
                continue
            if path.is_file():
                path.unlink(missing_ok=True)
                damaged.append(path)
            check_output(path)
        if damaged:
            rest = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
            warn(f"{damaged[0]}{rest} cannot be read as written: computed again")
        return rows


def _row_in(path: Path, key: str) -> Row | None:
    """The row of a file; None where there is none, it cannot be read, or holds anything else."""
    try:
        body = unsealed(path.read_text(encoding="utf-8")) if path.is_file() else None
        content = {} if body is None else json.loads(body)
    except (OSError, ValueError):
        return None
    row: Row | None = content.get("row") if content.get("key") == key else None
    return row
