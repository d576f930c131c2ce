"""Look for known vulnerabilities in what the lock pins: `make audit`.

pip-audit asks a service; this asks one after another until one has answered for every package. It
exits with 0 where none is known, with 1 where there are some, and with 2 where no service answered:
pip-audit itself takes a package that its service does not know for one without vulnerabilities.
Arguments are passed on to it, such as ``--osv-url``, the address of another service like OSV.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "development.txt"
SERVICES = ("osv", "pypi")


class NoAnswer(Exception):
    """A service did not answer for every package."""


@dataclass(frozen=True)
class Audit:
    """What a service knows about all packages."""

    packages: int
    vulnerabilities: list[str]


def main(options: list[str]) -> int:
    """Print what the first service that answers knows."""
    silent = []
    for service in SERVICES:
        try:
            audit = read(ask(service, options))
        except NoAnswer as error:
            silent.append(f"{service}: {error}")
            continue
        print(*audit.vulnerabilities, sep="\n", end="\n" if audit.vulnerabilities else "")
        number = len(audit.vulnerabilities) or "no"
        print(f"{service} knows {number} vulnerabilities in the {audit.packages} pinned packages.")
        return 1 if audit.vulnerabilities else 0
    print(f"Nothing was audited, no service answered ({'; '.join(silent)}).", file=sys.stderr)
    return 2


def ask(service: str, options: list[str]) -> dict[str, Any]:
    """The report of pip-audit on the packages of the lock that this Python would get."""
    quiet = ["--format", "json", "--progress-spinner", "off", "--disable-pip"]
    command = [sys.executable, "-m", "pip_audit", *quiet, "-s", service, "-r", str(LOCK), *options]
    result = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(result.stdout)
    except ValueError:  # it ended before it could report
        last = (result.stderr.strip() or "no output").splitlines()[-1]
        raise NoAnswer(textwrap.shorten(last, 80)) from None


def read(report: dict[str, Any]) -> Audit:
    """What a report says, where it is about every package."""
    packages = report["dependencies"]
    unknown = [entry["name"] for entry in packages if "skip_reason" in entry]
    if unknown:
        raise NoAnswer(f"{len(unknown)} of {len(packages)} packages are unknown, {unknown[0]} first")
    return Audit(
        len(packages),
        [
            f"{entry['name']} {entry['version']}: {found['id']}, "
            f"fixed in {', '.join(found['fix_versions']) or 'no version'}"
            for entry in packages
            for found in entry["vulns"]
        ],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
