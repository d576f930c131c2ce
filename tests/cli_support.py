"""Runs the command line inside the test's process."""

from __future__ import annotations

import json
import re
from typing import Any

from typer.testing import CliRunner, Result

from calibrant import cli

PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}


def run(*args: Any) -> Result:
    return CliRunner(env=PLAIN).invoke(cli.app, [str(arg) for arg in args])


def succeed(*args: Any) -> str:
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def as_json(*args: Any) -> Any:
    return json.loads(succeed(*args, "--json"))


def refuse(*args: Any) -> str:
    """The one line of standard error with which bad input ends."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    return result.stderr
