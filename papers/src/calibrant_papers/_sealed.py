"""JSON text that begins with a SHA-256 of all the rest of it: no changed bit goes unnoticed."""

from __future__ import annotations

import hashlib


def sealed(body: str) -> str:
    """A JSON object as text, with its digest as a first entry."""
    return f'{{"sha256": "{hashlib.sha256(body.encode()).hexdigest()}", {body[1:]}'


def unsealed(text: str) -> str | None:
    """The text without its digest; None where it is not as it was written."""
    body = "{" + text[len(sealed("{")) :]
    return body if text == sealed(body) else None
