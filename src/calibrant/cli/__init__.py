"""The command line: parse, call, print.

Every command has a file; ``_app`` puts them together. Only light modules are imported at the top
of these files; a command imports what it needs, so that ``--help`` is quick.
"""

from __future__ import annotations

from calibrant.cli._app import app, main

__all__ = ["app", "main"]
