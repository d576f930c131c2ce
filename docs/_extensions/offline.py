"""The site must load nothing from elsewhere: a page that would is a warning, and so an error."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

LOADS = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)="((?:https?:)?//[^"]*)"')
LOGGER = logging.getLogger(__name__)


def check(app: Sphinx, error: Exception | None) -> None:
    """Look through all pages that were written."""
    for page in sorted(Path(app.outdir).rglob("*.html")) if error is None else ():
        for address in LOADS.findall(page.read_text(encoding="utf-8")):
            LOGGER.warning("%s loads %s", page.relative_to(app.outdir), address)


def setup(app: Sphinx) -> dict[str, bool]:
    """Check when the site is built."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
