"""Lines of text on the terminal. What comes from files and command lines cannot steer it."""

from __future__ import annotations

import typer

from calibrant.common.errors import printable


def say(*lines: str, err: bool = False) -> None:
    """Print each line on one line, control characters as escapes."""
    for line in lines:
        typer.echo(printable(line), err=err)
