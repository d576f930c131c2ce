"""The machinery that runs other packages' tests, and scikit-learn's own through it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

from adapter_sklearn import SUITE
from peer_suite import Outcome, Suite

THEIR_TESTS = """
import pytest
from math import floor, sqrt

@pytest.mark.parametrize("x", [4.0, 9.0])
def test_root(x):
    assert sqrt(x) ** 2 == x

def test_inner():
    class Inner:
        def root(self):
            return sqrt(16.0)
    assert Inner().root() == 4.0

def test_of_nothing_replaced():
    assert floor(1.5) == 1
"""


def run(tmp_path: Path, replaced: str, expected: dict[str, str]) -> list[str]:
    """Run the tests above in a process of their own, as pytest in pytest would share its state."""
    (tmp_path / "test_theirs.py").write_text(THEIR_TESTS)
    program = f"""
from pathlib import Path
from peer_suite import Suite
suite = Suite("pytest", "theirs", lambda: Path("test_theirs.py").resolve(),
              {{"sqrt": {replaced}}}, {expected!r})
outcome = suite.run()
print("counts", outcome.count("passed"), outcome.count("failed"), outcome.left_out)
for line in outcome.surprises():
    print("surprise", line.splitlines()[0])
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("counts", "surprise"))]


def test_names_are_replaced_and_tests_without_them_left_out(tmp_path):
    assert run(tmp_path, "lambda x: x ** 0.5", {}) == ["counts 3 0 1"]


def test_failures_must_be_the_expected_ones(tmp_path):
    expected = {r"test_root\[.*\]": "a reason", "test_gone": "another"}
    lines = run(tmp_path, "lambda x: 2.0", expected)
    assert lines[0] == "counts 1 2 1"
    assert lines[1].startswith("surprise test_inner failed: ")
    assert lines[2:] == [
        "surprise test_root[4.0] was expected to fail and passed",
        "surprise no test is called test_gone",
    ]


def test_reasons_are_counted():
    suite = Suite("pytest", "theirs", Path, {}, {r"a\d": "digits", "b": "a letter", "c": "none"})
    results = {"a1": "failed", "a2": "failed", "b": "skipped", "c": "passed", "d": "failed"}
    assert Outcome(suite, results).reasons() == {"digits": 2, "a letter": 0, "none": 0}


@pytest.mark.slow
@pytest.mark.skipif(
    not sklearn.__version__.startswith("1.9."), reason="the list of failures is that of 1.9"
)
def test_scikit_learns_own_tests():
    pytest.importorskip("matplotlib")
    command = [sys.executable, str(Path(__file__).with_name("run.py")), SUITE.package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
