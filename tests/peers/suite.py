"""Another package's own tests, run against calibrant.

Nothing of theirs is copied: their file is collected where it lies, and in it the names of what is
tested are bound to adapters over calibrant. A test that uses none of these names would test the
other package alone, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import CodeType
from typing import Any

import pytest


@dataclass(frozen=True)
class Suite:
    """A package's test file, what stands for the tested names, and what is known to fail.

    Parameters
    ----------
    package : str
        The package's name, as pip writes it.
    find : callable
        Gives the path of the test file.
    replaced : mapping of str to Any
        Names in that file and what they are bound to.
    expected : mapping of str to str
        Patterns (regular expressions of whole test names) of tests that fail, and the reason.
    options : tuple of str, optional
        Further options of pytest.
    """

    package: str
    find: Callable[[], Path]
    replaced: Mapping[str, Any]
    expected: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def run(self) -> Outcome:
        """Run the tests in this process.

        Returns
        -------
        Outcome
            What became of them.
        """
        plugin = _Replacing(self.replaced)
        path = self.find()
        code = pytest.main(
            [
                str(path),
                f"--rootdir={path.parent}",
                "--config-file=/dev/null",
                *("-p", "no:cacheprovider", "--import-mode=importlib", "-q", "--no-header"),
                *("--disable-warnings", "--tb=short", "--show-capture=no"),
                *self.options,
            ],
            plugins=[plugin],
        )
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"pytest could not run {path}: {code!r}")
        return Outcome(self, version(self.package), plugin.results, plugin.left_out)


@dataclass(frozen=True)
class Outcome:
    """What became of a suite's tests.

    Parameters
    ----------
    suite : Suite
        The suite.
    version : str
        The version of its package.
    results : mapping of str to str
        The tests by name: "passed", "failed" or "skipped".
    left_out : int
        How many tests of the file use nothing that was replaced.
    """

    suite: Suite
    version: str
    results: Mapping[str, str]
    left_out: int

    def count(self, result: str) -> int:
        """Count the tests with a result.

        Parameters
        ----------
        result : {"passed", "failed", "skipped"}
            The result.

        Returns
        -------
        int
            How many tests have it.
        """
        return sum(value == result for value in self.results.values())

    def reasons(self) -> dict[str, int]:
        """Count the failures that were expected.

        Returns
        -------
        dict of str to int
            The number of failed tests of each reason.
        """
        counts = {reason: 0 for reason in self.suite.expected.values()}
        for name in self._failed():
            if (reason := self._reason(name)) is not None:
                counts[reason] += 1
        return counts

    def surprises(self) -> list[str]:
        """Compare with what was expected.

        Returns
        -------
        list of str
            A sentence for each test that failed or passed against expectation, and for each
            pattern that no test has.
        """
        failed = {name for name in self._failed() if self._reason(name) is None}
        passed = {
            name
            for name, result in self.results.items()
            if result == "passed" and self._reason(name) is not None
        }
        unknown = [
            pattern
            for pattern in self.suite.expected
            if not any(re.fullmatch(pattern, name) for name in self.results)
        ]
        return [
            *(f"{name} failed" for name in sorted(failed)),
            *(f"{name} was expected to fail and passed" for name in sorted(passed)),
            *(f"no test is called {pattern}" for pattern in unknown),
        ]

    def _failed(self) -> Iterator[str]:
        return (name for name, result in self.results.items() if result == "failed")

    def _reason(self, name: str) -> str | None:
        patterns = self.suite.expected.items()
        return next((reason for pattern, reason in patterns if re.fullmatch(pattern, name)), None)


class _Replacing:
    """A plugin of pytest: binds names in the collected module, and keeps the results."""

    def __init__(self, replaced: Mapping[str, Any]) -> None:
        self.replaced = replaced
        self.results: dict[str, str] = {}
        self.left_out = 0

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Function]
    ) -> None:
        kept = [item for item in items if not self.replaced.keys().isdisjoint(_names(item))]
        self.left_out = len(items) - len(kept)
        for module in {item.module for item in kept}:
            missing = self.replaced.keys() - vars(module).keys()
            if missing:
                raise RuntimeError(f"{module.__name__} has no {sorted(missing)}")
            vars(module).update(self.replaced)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        if report.when == "call" or not report.passed:  # or an error in a fixture
            self.results[name] = report.outcome


def _names(item: pytest.Function) -> set[str]:
    """All global names that a test's code uses, those of functions inside it included."""

    def used(code: CodeType) -> Iterator[str]:
        yield from code.co_names
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from used(constant)

    return set(used(item.function.__code__))
