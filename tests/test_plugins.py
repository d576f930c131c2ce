"""Plugins: what an entry point adds, and that a broken one breaks nothing."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer

import calibrant
from calibrant import calibrators, plugins
from calibrant.calibrators import REGISTRY, TemperatureScaling, calibrator
from calibrant.plugins import Command, Plugin
from cli_support import as_json, python, refuse, run, sample, succeed

Install = Callable[..., None]


class TheirScaling(TemperatureScaling):
    """Temperature scaling of somebody else. Preserves accuracy."""


class NeedsAnArgument(TemperatureScaling):
    """A class that cannot be made by its name alone."""

    def __init__(self, wanted: int, loss: str = "nll", input: str = "logits") -> None:  # noqa: A002
        super().__init__(loss, input=input)
        self.wanted = wanted


def their_app() -> typer.Typer:
    app = typer.Typer()

    @app.command()
    def hello(name: str = "you", n_bins: int = 3) -> None:
        """Greet."""
        fail = sys.modules["their_package"].fail
        fail(name)
        typer.echo(f"hello {name}")

    return app


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Make these plugins, by name, the ones that are installed."""
    entries: list[EntryPoint] = []
    module = ModuleType("their_package")
    exec(
        "def fail(name):\n    if name == 'nobody': raise ValueError('n_bins is bad')", vars(module)
    )
    monkeypatch.setitem(sys.modules, "their_package", module)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: tuple(entries))
    kept = dict(REGISTRY)

    def add(**named: Any) -> None:
        for name, plugin in named.items():
            setattr(module, name, plugin)
            entries.append(EntryPoint(name, f"their_package:{name}", plugins.GROUP))
        forget()

    def forget() -> None:
        plugins.installed.cache_clear()
        calibrators._loaded_plugins.clear()

    forget()
    yield add
    REGISTRY.clear()
    REGISTRY.update(kept)
    monkeypatch.undo()
    forget()


def theirs(**methods: Any) -> Plugin:
    return Plugin(methods=lambda: {name.replace("_", "-"): cls for name, cls in methods.items()})


# --- methods ----------------------------------------------------------------------------------


def test_a_method_is_found_by_its_name(install: Install) -> None:
    install(mine=theirs(their_ts=TheirScaling))
    assert "their-ts" not in REGISTRY  # nobody has asked yet
    assert isinstance(calibrator("their-ts"), TheirScaling)
    assert isinstance(calibrator("Their-TS", loss="brier"), TheirScaling)


def test_a_method_is_compared_saved_and_loaded(install: Install, tmp_path: Path) -> None:
    install(mine=theirs(their_ts=TheirScaling))
    logits, labels = sample(200, 4)
    result = calibrant.compare(logits, labels, logits, labels, methods=["their-ts", "ts"])
    assert [one.method for one in result] == ["their-ts", "ts"]
    model = calibrator("their-ts").fit(logits, labels)
    calibrant.save(model, tmp_path / "c.safetensors")
    del REGISTRY["their-ts"]  # as in a program that has not asked for it
    calibrators._loaded_plugins.clear()
    loaded = calibrant.load(tmp_path / "c.safetensors")
    assert type(loaded) is TheirScaling
    np.testing.assert_array_equal(loaded.predict_proba(logits), model.predict_proba(logits))


def test_a_method_is_saved_though_it_was_never_asked_for_by_name(
    install: Install, tmp_path: Path
) -> None:
    install(mine=theirs(their_ts=TheirScaling))
    model = TheirScaling().fit(*sample(200, 4))
    calibrant.save(model, tmp_path / "c.safetensors")
    assert REGISTRY["their-ts"] is TheirScaling


def test_all_methods_are_those_of_plugins_too(install: Install) -> None:
    install(mine=theirs(their_ts=TheirScaling))
    assert as_json("methods")[-1]["method"] == "their-ts"


def test_comparing_all_methods_compares_those_of_plugins(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(mine=theirs(their_ts=TheirScaling))
    for name in set(REGISTRY) - {"base", "ts"}:
        monkeypatch.delitem(REGISTRY, name)
    logits, labels = sample(200, 4)
    result = calibrant.compare(logits, labels, logits, labels)
    assert [one.method for one in result] == ["base", "ts", "their-ts"]


def test_the_command_line_fits_a_method_of_a_plugin(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(mine=theirs(their_ts=TheirScaling))
    monkeypatch.chdir(tmp_path)
    logits, labels = sample(200, 4)
    np.savez("val.npz", logits=logits, labels=labels)
    succeed("fit", "val.npz", "-o", "c.safetensors", "--method", "their-ts")
    assert type(calibrant.load("c.safetensors")) is TheirScaling


def test_plugins_are_loaded_once(install: Install) -> None:
    calls: list[int] = []

    def methods() -> dict[str, Any]:
        calls.append(1)
        return {"their-ts": TheirScaling}

    install(mine=Plugin(methods=methods))
    calibrators.load_plugins()
    calibrators.load_plugins()
    assert calls == [1]


def test_known_names_look_for_no_plugin() -> None:
    done = python(
        "import calibrant; calibrant.calibrator('ts'); calibrant.calibrator('isotonic');"
        "assert calibrant.plugins.installed.cache_info().currsize == 0"
    )
    assert done.returncode == 0, done.stderr


# --- what is wrong with one is told, and leaves the others alone --------------------------------


def warned(call: Callable[[], Any]) -> str:
    """The one warning of a call."""
    with pytest.warns(calibrant.CalibrationWarning) as caught:
        call()
    (one,) = caught
    return str(one.message)


def test_a_plugin_that_is_no_plugin(install: Install) -> None:
    install(broken=theirs, fine=theirs(their_ts=TheirScaling))
    said = warned(lambda: calibrator("their-ts"))
    assert said.startswith("the plugin 'broken' cannot be used and is left out: TypeError: ")
    assert "their_package:broken must be a calibrant.plugins.Plugin" in said


def test_a_plugin_that_cannot_be_imported(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(lost=Plugin(), fine=theirs(their_ts=TheirScaling))
    monkeypatch.delattr(sys.modules["their_package"], "lost")
    said = warned(lambda: calibrator("their-ts"))
    assert "the plugin 'lost' cannot be used and is left out: AttributeError" in said


def test_methods_that_cannot_be_made(install: Install) -> None:
    install(broken=Plugin(methods=lambda: 1 / 0), fine=theirs(their_ts=TheirScaling))
    said = warned(lambda: calibrator("their-ts"))
    assert said == (
        "the methods of the plugin 'broken' cannot be used and are left out: "
        "ZeroDivisionError: division by zero"
    )


def test_a_name_that_is_taken(install: Install) -> None:
    install(greedy=theirs(ts=TheirScaling, their_ts=TheirScaling))
    said = warned(lambda: calibrator("their-ts"))
    assert said.startswith("the method 'ts' of the plugin 'greedy' cannot be used and is left out")
    assert REGISTRY["ts"] is TemperatureScaling
    assert REGISTRY["their-ts"] is TheirScaling


def test_a_class_that_cannot_be_made_by_name(install: Install) -> None:
    install(mine=theirs(needy=NeedsAnArgument))
    said = warned(calibrators.load_plugins)
    assert "the method 'needy' of the plugin 'mine' cannot be used" in said
    assert "needy" not in REGISTRY


def test_an_unknown_name_is_still_told(install: Install) -> None:
    install(mine=theirs(their_ts=TheirScaling))
    with pytest.raises(ValueError, match=r"their-ts, got 'thier-ts'. Did you mean 'their-ts'"):
        calibrator("thier-ts")


# --- commands ---------------------------------------------------------------------------------


def test_a_command_is_listed_and_runs(install: Install) -> None:
    install(mine=Plugin(commands=(Command("hello", "Say hello.", their_app),)))
    assert "Say hello." in succeed("--help")
    assert "Greet." in succeed("hello", "--help")
    assert succeed("hello", "--name", "ant") == "hello ant\n"
    assert "No such option: --nam" in refuse("hello", "--nam", "ant")
    assert "Did you mean 'hello'?" in refuse("helo")


def test_help_loads_no_command(install: Install) -> None:
    install(mine=Plugin(commands=(Command("hello", "Say hello.", lambda: 1 / 0),)))
    assert "Say hello." in succeed("--help")
    assert refuse("hello") == (
        "error: the command hello could not be loaded: ZeroDivisionError: division by zero\n"
    )


def test_errors_of_a_plugin_are_told_in_one_line_and_in_flags(install: Install) -> None:
    install(mine=Plugin(commands=(Command("hello", "Say hello.", their_app),)))
    assert refuse("hello", "--name", "nobody") == "error: --n-bins is bad\n"


def test_a_command_of_a_taken_name(install: Install) -> None:
    commands = (Command("fit", "Not this one.", their_app), Command("hello", "One.", their_app))
    other = (Command("hello", "Two.", their_app),)
    install(first=Plugin(commands=commands), second=Plugin(commands=other))
    result = run("--help")
    assert result.exit_code == 0
    assert "One." in result.stdout
    assert "Two." not in result.stdout
    assert "Not this one." not in result.stdout
    assert result.stderr == (
        "warning: the command 'fit' of the plugin 'first' cannot be used and is left out: "
        "ValueError: there is a command of that name already\n"
        "warning: the command 'hello' of the plugin 'second' cannot be used and is left out: "
        "ValueError: there is a command of that name already\n"
    )


def test_a_broken_plugin_is_told_by_the_help_and_by_nothing_else(install: Install) -> None:
    install(broken=1)
    result = run("--help")
    assert result.exit_code == 0
    assert "warning: the plugin 'broken' cannot be used" in result.stderr
    install()
    assert succeed("--version").startswith("calibrant ")


def test_reproduce_without_its_package(install: Install) -> None:
    assert "reproduce" not in succeed("--help")
    for words in ((), ("--quick",), ("logits", "--help")):
        said = refuse("reproduce", *words)
        assert "reproduce belongs to calibrant-papers, which is not installed" in said
        assert "pip install ./papers" in said
