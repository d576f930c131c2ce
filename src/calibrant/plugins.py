"""Plugins: other packages that add methods and commands to calibrant.

A package names a ``Plugin`` in its ``pyproject.toml``, under the group ``calibrant.plugins``::

    [project.entry-points."calibrant.plugins"]
    mine = "my_package.plugin:plugin"

Once the package is installed, calibrant finds the plugin by itself. The module that holds it should
import little: ``calibrant --help`` loads it.

A plugin that cannot be loaded is left out with a ``CalibrationWarning`` that names it, and so is a
name that is taken already. Errors that a plugin's own code raises as ``ValueError``, ``TypeError``,
``ImportError`` or ``OSError`` end its command with one line and exit code 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from calibrant.common.errors import warn

GROUP = "calibrant.plugins"  # of entry points


@dataclass(frozen=True)
class Command:
    """A command, or a group of commands, that a plugin adds to the command line.

    Parameters
    ----------
    name : str
        What follows ``calibrant`` on the command line.
    help : str
        One line for ``calibrant --help``.
    load : callable
        Takes nothing and returns a ``typer.Typer``. It is called when the command runs, so that
        whatever the command needs is imported then.

    Examples
    --------
    >>> def load():
    ...     from my_package.command import app
    ...     return app
    >>> Command("mine", "Do what I need.", load).name
    'mine'
    """

    name: str
    help: str
    load: Callable[[], Any]


@dataclass(frozen=True)
class Plugin:
    """What a package adds to calibrant; an entry point names an object of this class.

    Parameters
    ----------
    methods : callable, optional
        Takes nothing and returns calibrators by their names. Each is registered
        (``calibrant.calibrators.register``), and all its parameters must have defaults.
    commands : tuple of Command, default ()
        Commands for the command line.

    Examples
    --------
    >>> def methods():
    ...     from my_package.scaling import MyScaling
    ...     return {"my-scaling": MyScaling}
    >>> Plugin(methods=methods).commands
    ()
    """

    methods: Callable[[], Mapping[str, Any]] | None = None
    commands: tuple[Command, ...] = ()


class Installed(NamedTuple):
    """A plugin that was found: the name of its entry point and of its top-level package."""

    name: str
    package: str
    plugin: Plugin


@cache
def installed() -> tuple[Installed, ...]:
    """The plugins that are installed, by name; looked for once. A warning names each that fails."""
    from importlib.metadata import entry_points  # takes a while, and most programs do not ask

    found: dict[str, Installed] = {}
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name in found:
            continue  # an editable install and its sources may both be on the path
        try:
            plugin = entry.load()
            if not isinstance(plugin, Plugin):
                raise TypeError(f"{entry.value} must be a calibrant.plugins.Plugin, got {plugin!r}")
        except Exception as error:  # it is other people's code
            left_out(entry.name, "", error)
            continue
        found[entry.name] = Installed(entry.name, entry.module.partition(".")[0], plugin)
    return tuple(found.values())


def left_out(plugin: str, part: str, error: Exception) -> None:
    """Warn that a plugin, or a part of it, is left out."""
    verb = "are" if part == "the methods" else "is"
    what = f"{part} of the plugin {plugin!r}" if part else f"the plugin {plugin!r}"
    warn(f"{what} cannot be used and {verb} left out: {type(error).__name__}: {error}")


__all__ = ["Command", "Plugin"]
