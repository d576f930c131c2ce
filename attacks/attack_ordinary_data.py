"""Try the library on ordinary data: tied scores, exact 0 and 1, missing classes, mixed files.

    python attacks/attack_ordinary_data.py                      # what this tree does
    python attacks/attack_ordinary_data.py --before aa3d646     # beside another revision
    python attacks/attack_ordinary_data.py --only "tied" --quick

Every line is one measurement: what was measured, the value, and what it must be. With ``--before``
the same functions run in a second process on the sources of that revision, and their values stand
beside those of this tree. The exit code is 1 where a value of this tree is not as wanted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from ordinary_measures import MEASURES, Measure, Value

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WIDTH = 34


def chosen(only: str, quick: bool) -> list[Measure]:
    """The measurements whose item or text contains ``only``; ``quick`` leaves out slow ones."""
    for path in sorted(HERE.glob("ordinary_*.py")):
        importlib.import_module(path.stem)
    return [
        one
        for one in sorted(MEASURES, key=lambda one: one.item)
        if only.lower() in f"{one.item}: {one.what}".lower() and not (quick and one.slow)
    ]


def values_of(revision: str, arguments: list[str]) -> dict[str, Value]:
    """The values of the same measurements on the sources of another revision."""
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        command = [sys.executable, __file__, "--json", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(Path(folder) / "src")}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    found: dict[str, Value] = json.loads(done.stdout)
    return found


def key(one: Measure) -> str:
    """What identifies a measurement in both processes."""
    return f"{one.item}: {one.what}"


def shown(value: Value | None) -> str:
    """A value as a short text."""
    text = f"{value:.4g}" if isinstance(value, float | int) else str(value or "")
    return text if len(text) <= WIDTH else text[: WIDTH - 2] + ".."


def main() -> int:
    """Measure, print, and say whether all is as wanted."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", metavar="REVISION", help="also measure this revision")
    parser.add_argument("--only", default="", help="only items that contain this text")
    parser.add_argument("--quick", action="store_true", help="leave out slow measurements")
    parser.add_argument("--json", action="store_true", help="print the values alone, as JSON")
    options = parser.parse_args()
    measures = chosen(options.only, options.quick)
    if options.json:
        json.dump({key(one): one.value()[0] for one in measures}, sys.stdout)
        return 0
    arguments = ["--only", options.only, *(["--quick"] if options.quick else [])]
    before = values_of(options.before, arguments) if options.before else {}
    wrong, item = 0, ""
    for one in measures:
        if one.item != item:
            item = one.item
            print(f"\n{item}")
        value, seconds = one.value()
        right = one.is_right(value)
        wrong += not right
        was = f"{shown(before.get(key(one))):>{WIDTH}} -> " if before else ""
        verdict = "ok" if right else "WRONG"
        print(f"  {one.what}")
        print(f"    {was}{shown(value)} (wanted: {one.wanted}) {verdict}, {seconds:.1f} s")
    print(f"\n{len(measures)} measurements, {wrong} not as wanted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
