"""The programs in tools/ as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def load_tool(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """One of them, forgotten after the test."""
    specification = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", list(sys.path))  # some put src in front
    specification.loader.exec_module(module)
    return module
