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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "development.txt"
SERVICES = ("osv", "pypi")


class NoAnswerError(Exception):
    """A service knows of no vulnerability, but did not answer for every package."""


def main(options: list[str]) -> int:
    """Print what the first service that answers knows."""
    silent = []
    for service in SERVICES:
        try:
            report = ask(service, options)
            known = vulnerabilities(report)
        except NoAnswerError as error:
            silent.append(f"{service}: {error}")
            continue
        for line in known:
            print(line)
        packages = len(report["dependencies"])
        print(f"{service} knows {len(known) or 'no'} vulnerabilities in {packages} packages.")
        return 1 if known else 0
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
        raise NoAnswerError(textwrap.shorten(last, 80)) from None


def vulnerabilities(report: dict[str, Any]) -> list[str]:
    """One line for each in a report; where there is none, it must be about every package."""
    packages = report["dependencies"]
    found = [
        f"{package['name']} {package['version']}: {one['id']}, "
        f"fixed in {', '.join(one['fix_versions']) or 'no version'}"
        for package in packages
        for one in package.get("vulns", [])
    ]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if unknown and not found:
        number = f"{len(unknown)} of {len(packages)}"
        raise NoAnswerError(f"{number} packages are unknown, {unknown[0]} first")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
