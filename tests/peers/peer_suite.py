"""Another package's own tests, run against calibrant.

Nothing of theirs is copied: their file is collected where it lies, and in it the names of what is
tested are bound to adapters over calibrant. A test that uses none of these names would test the
other package alone, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, Literal

import pytest


@dataclass(frozen=True)
class Suite:
    """A package's test file, what stands for the tested names, and what is known to fail.

    Parameters
    ----------
    package : str
        The package's name, as pip writes it.
    author : {"theirs", "ours"}
        Whose tests these are; ours where the package comes without its own.
    find : callable
        Gives the path of the test file.
    replaced : mapping of str to Any, optional
        Names in that file and what they are bound to.
    expected : mapping of str to str
        Patterns (regular expressions of whole test names) of tests that fail, and the reason.
    """

    package: str
    author: Literal["theirs", "ours"]
    find: Callable[[], Path]
    replaced: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, str] = field(default_factory=dict)

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
                *("-p", "no:cacheprovider", "--import-mode=importlib"),
                *("-q", "--no-header", "--no-summary", "--disable-warnings", "--tb=short"),
                *(["--noconftest"] if self.author == "ours" else []),
            ],
            plugins=[plugin],
        )
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"pytest could not run {path}: {code!r}")
        return Outcome(self, plugin.results, plugin.errors, plugin.left_out)


@dataclass(frozen=True)
class Outcome:
    """What became of a suite's tests.

    Parameters
    ----------
    suite : Suite
        The suite.
    results : mapping of str to str
        The tests by name: "passed", "failed" or "skipped".
    errors : mapping of str to str, optional
        What those that failed said.
    left_out : int, optional
        How many tests of the file use nothing that was replaced.
    """

    suite: Suite
    results: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0

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
        counts = dict.fromkeys(self.suite.expected.values(), 0)
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
            *(f"{name} failed: {self.errors.get(name, '')}" for name in sorted(failed)),
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
        self.errors: dict[str, str] = {}
        self.left_out = 0

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Function]
    ) -> None:
        if not self.replaced:
            return
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
        if report.failed:
            self.errors[name] = report.longreprtext


def _names(item: pytest.Function) -> set[str]:
    """All global names that a test's code uses, those of functions inside it included."""

    def used(code: CodeType) -> Iterator[str]:
        yield from code.co_names
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from used(constant)

    return set(used(item.function.__code__))
