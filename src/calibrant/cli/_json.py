"""A JSON document on standard output."""

from __future__ import annotations

from typing import Any

import typer


def print_json(document: Any) -> None:
    """Print a document of plain values; an infinite number becomes null."""
    from calibrant.common.documents import PlainDocument, plain

    class Document(PlainDocument):
        def to_dict(self) -> Any:
            return plain(document)

    typer.echo(Document().to_json(indent=2))
