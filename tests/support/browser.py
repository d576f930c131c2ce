"""A headless Chromium for tests of pages; where there is none, they say how to get it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="needs Chromium: apt-get install chromium"
)


@dataclass
class Watched:
    """A page, what its console said, and what it asked for beyond itself."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    os.environ.setdefault("NODE_OPTIONS", "--no-deprecation")  # of Playwright's own driver
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Any, file: Path, width: int = 1400, scheme: str = "light") -> Watched:
    """Open a file as a user would, by its name in the file system."""
    watched = Watched(
        browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    )
    page = watched.page
    page.on("console", lambda message: watched.complaints.append(message.text))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("request", lambda request: watched.requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("#bins-plot .main-svg")
    return watched
