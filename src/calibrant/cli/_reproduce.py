"""``calibrant reproduce``: listed with the other commands, imported only when it is run."""

from __future__ import annotations

from typing import Any

import typer
import typer.main
from typer.core import TyperGroup


class _OnDemand(TyperGroup):
    """Stands for the commands of ``calibrant.papers`` in the help, and hands over to them."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the group that it stands for, which therefore is what runs."""
        from calibrant.papers.pts.command import app

        group = typer.main.get_group(app)
        self.params = group.params  # messages speak of these flags
        return group.make_context(info_name, args, parent, **extra)


reproduce_app = typer.Typer(
    cls=_OnDemand,
    help="Rebuild the tables and figures of the PTS paper; an interrupted run goes on where it "
    "was.",
)
