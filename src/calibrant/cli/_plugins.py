"""Commands that plugins add: found when the help lists them or one is called, loaded to run."""

from __future__ import annotations

from typing import Any

import typer.main
from typer.core import TyperGroup

from calibrant import plugins
from calibrant.plugins import Command

# Commands of packages that may not be installed, and how to get them.
ELSEWHERE = {
    "reproduce": "reproduce belongs to calibrant-papers, which is not installed: in a clone of "
    "calibrant's repository, pip install ./papers",
}


class GroupWithPlugins(TyperGroup):
    """A group that also has the commands of installed plugins, after its own."""

    _looked = False

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of the help."""
        self._add_plugins()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; plugins are looked for only where it is none of calibrant's."""
        if cmd_name not in self.commands:
            self._add_plugins()
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called; one of a package that is missing is told."""
        if args and args[0] in ELSEWHERE and self.get_command(ctx, args[0]) is None:
            ctx.fail(ELSEWHERE[args[0]])
        return super().resolve_command(ctx, args)

    def _add_plugins(self) -> None:
        if self._looked:
            return
        self._looked = True
        for name, _, plugin in plugins.installed():
            for command in plugin.commands:
                if command.name in self.commands:
                    taken = ValueError("there is a command of that name already")
                    plugins.left_out(name, f"the command {command.name!r}", taken)
                else:
                    self.commands[command.name] = _OnDemand(command)


class _OnDemand(TyperGroup):
    """Stands for a plugin's command in the help, and hands over to it when it is called."""

    def __init__(self, command: Command) -> None:
        super().__init__(name=command.name, help=command.help)
        self._load = command.load

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the command that it stands for, which therefore is what runs."""
        try:
            command = typer.main.get_command(self._load())
        except Exception as error:  # it is other people's code
            said = f"{type(error).__name__}: {error}"
            raise ImportError(f"the command {self.name} could not be loaded: {said}") from error
        self.params = command.params  # messages speak of these flags
        return command.make_context(info_name, args, parent, **extra)
