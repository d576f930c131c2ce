"""Run the tests of other packages against calibrant: ``make peers``.

Prints one table, then why what is expected to fail does. Whatever fails or passes against
expectation is printed with its error, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer_suite import Outcome, Suite

HERE = Path(__file__).parent


def suites() -> dict[str, Suite]:
    """All suites by the names of their packages.

    Returns
    -------
    dict of str to Suite
        The suites, those of other authors first.
    """
    os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy reads it when it is imported; for tensors
    import adapter_mapie
    import adapter_sklearn
    from peer_suite import Suite

    ours = ["mapie", "torchmetrics", "probmetrics"]
    return {"scikit-learn": adapter_sklearn.SUITE, "mapie": adapter_mapie.SUITE} | {
        f"{name}-agreement": Suite(name, "ours", lambda name=name: HERE / f"test_{name}.py")
        for name in ours
    }


def table(outcomes: list[Outcome]) -> str:
    """Write what became of the suites.

    Parameters
    ----------
    outcomes : list of Outcome
        Their outcomes.

    Returns
    -------
    str
        A table in Markdown.
    """
    lines = ["| package | version | tests | passed | failed, as expected | skipped |"]
    lines.append("|---|---|---|---|---|---|")
    for outcome in outcomes:
        package, author = outcome.suite.package, outcome.suite.author
        expected = sum(outcome.reasons().values())
        counts = f"{outcome.count('passed')} | {expected} | {outcome.count('skipped')}"
        lines.append(f"| {package} | {version(package)} | {author} | {counts} |")
    return "\n".join(lines)


def main() -> int:
    """Run the suites that the command line names.

    Returns
    -------
    int
        1 where anything went against expectation, else 0.
    """
    available = suites()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="suite", help=", ".join(available))
    names = parser.parse_args().suites or list(available)
    if unknown := set(names) - available.keys():
        parser.error(f"suites are {', '.join(available)}, got {', '.join(unknown)}")
    outcomes = [available[name].run() for name in names]
    print(f"\n{table(outcomes)}")
    for outcome in outcomes:
        for reason, count in outcome.reasons().items():
            print(f"\n{outcome.suite.package}, {count}: {reason}.")
    surprises = [line for outcome in outcomes for line in outcome.surprises()]
    for line in surprises:
        print(f"\nAGAINST EXPECTATION: {line}")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
