"""Bring what ``make reproduce`` wrote into the documentation, with the commit that made it.

Run it from the repository root of the very code that made the results:

    python tools/publish_reproduction.py results/reproduction docs/reproduced "make reproduce"

The page, ``tables.json``, ``rows.csv`` and the figures (SVG) go to the second folder.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

PLAIN = ("tables.json", "rows.csv")
HEAD = """---
orphan: true
---

"""  # no page lists it: reproduction.md links to it


def commit() -> str:
    """The commit of the code; refused where the code has changes that no commit has."""
    changed = _git("status", "--porcelain", "--", "src", "data")
    if changed:
        raise SystemExit(f"commit these first, so that the page can name its code:\n{changed}")
    return _git("rev-parse", "--short=10", "HEAD")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def publish(source: Path, target: Path, made_by: str) -> None:
    """Write the page with its origin in the second line, and copy the rest."""
    title, rest = (source / "index.md").read_text().split("\n", 1)
    figures = target / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    (target / "index.md").write_text(f"{HEAD}{title}\n\n{made_by}\n{rest}")
    for name in PLAIN:
        shutil.copyfile(source / name, target / name)
    for file in sorted((source / "figures").glob("*.svg")):
        shutil.copyfile(file, figures / file.name)


def main() -> int:
    """Read the command line, copy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("command", help="what made the results")
    options = parser.parse_args()
    publish(options.source, options.target, f"Made by `{options.command}` at commit {commit()}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
