"""The distribution: a user of calibrant's public interface, and a plugin of its command line."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from calibrant.plugins import GROUP
from calibrant_papers.plugin import plugin
from cli_support import python

PAPERS = Path(__file__).parents[1]
MODULES = sorted((PAPERS / "src").rglob("*.py"))


def imported(module: Path) -> Iterator[str]:
    """The full names that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0  # no relative imports in this house
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_only_public_names_of_calibrant_are_imported(module: Path) -> None:
    names = [name.split(".") for name in imported(module)]
    assert not [name for name in names if name[0] == "calibrant" and is_private(name)]


def is_private(name: list[str]) -> bool:
    """Whether a name of calibrant is not for users: with an underscore, or in an inner package."""
    inner = len(name) > 2 and name[1] in {"backends", "common", "data", "scale"}
    return inner or any(part.startswith("_") and not part.startswith("__") for part in name)


def test_private_imports_are_found(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text("from calibrant import _extras\ndef f():\n    import calibrant.common.files\n")
    names = list(imported(file))
    assert names == ["calibrant._extras", "calibrant.common.files"]
    assert all(is_private(name.split(".")) for name in names)


def test_calibrant_finds_the_plugin() -> None:
    declared = tomllib.loads((PAPERS / "pyproject.toml").read_text())
    value = declared["project"]["entry-points"][GROUP]["papers"]
    found = [entry for entry in entry_points(group=GROUP) if entry.name == "papers"]
    assert found, "install it as make does: pip install --no-deps --editable ./papers"
    assert {entry.value for entry in found} == {value}
    assert found[0].load() is plugin


def test_training_needs_little_of_what_calibrant_needs() -> None:
    """A GPU machine has NumPy, torch and Pillow, and both packages as sources."""
    others = ("scipy", "sklearn", "safetensors", "typer", "rich", "threadpoolctl", "narwhals")
    done = python(
        f"import sys; sys.modules.update(dict.fromkeys({others!r}))\n"
        "from calibrant_papers import corrupted_logits, corruptions, images, make_logits\n"
        "from calibrant_papers import networks, thinning, training"
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_the_package(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="the build back end is not installed")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    command += ["--outdir", str(tmp_path), str(PAPERS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = {
        path.relative_to(PAPERS / "src").as_posix()
        for path in (PAPERS / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == sources
    assert "calibrant_papers/published.json" in names
