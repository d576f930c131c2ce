"""JSON text that begins with a SHA-256 of all the rest of it: no changed bit goes unnoticed."""

from __future__ import annotations

import hashlib

START = '{"sha256": "'


def sealed(body: str) -> str:
    """A JSON object as text, with its digest as a first entry."""
    return f'{START}{hashlib.sha256(body.encode()).hexdigest()}", {body[1:]}'


def unsealed(text: str) -> str | None:
    """The text without its digest; None where it is not as it was written.

    The digest is that of the text itself: one that merely reads the same was changed, too.
    """
    body = "{" + text[len(sealed("{")) :]
    return body if text == sealed(body) else None
