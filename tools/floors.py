"""Print the lowest versions that pyproject.toml allows, as requirements: for `make test-oldest`.

The runtime, the extras that the tests use, what builds the package and what tests it: each
``name>=version`` becomes ``name==version``. torch comes from its extra, whose floor is below the
version that the other tests run with.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

EXTRAS = ("torch", "parquet", "onnx", "plot", "fast")
GROUPS = ("build", "test")


def floors(project: dict[str, Any]) -> list[str]:
    """The requirements of a parsed pyproject.toml, each at its floor."""
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    declared = [
        *project["project"]["dependencies"],
        *(requirement for name in EXTRAS for requirement in extras[name]),
        *(entry for name in GROUPS for entry in groups[name] if isinstance(entry, str)),
    ]
    return sorted({_floor(requirement) for requirement in declared})


def _floor(requirement: str) -> str:
    found = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
    if found is None:
        raise SystemExit(f"a requirement must be written name>=version, got {requirement!r}")
    return f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    print(*floors(tomllib.loads((root / "pyproject.toml").read_text())), sep="\n")
