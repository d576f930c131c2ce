"""What this package adds to calibrant: the command ``calibrant reproduce``."""

from __future__ import annotations

from typing import Any

from calibrant.plugins import Command, Plugin


def _reproduce() -> Any:
    from calibrant_papers.command import app

    return app


plugin = Plugin(
    commands=(
        Command(
            "reproduce",
            "Rebuild the tables and figures of the PTS paper; an interrupted run goes on where it "
            "was.",
            _reproduce,
        ),
    )
)
