"""What make installs: lock and floors agree with pyproject.toml, and no audit is fooled."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement

from tools_support import load_tool

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FILES = ("pip", "runtime", "development")


class Pin(NamedTuple):
    """An entry of a lock."""

    name: str
    version: str
    marker: str
    hashes: frozenset[str]


def lock(name: str) -> list[Pin]:
    """The entries of a file, in which nothing else may stand."""
    text = (REQUIREMENTS / f"{name}.txt").read_text()
    entries = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines()
    form = re.compile(r"([a-z0-9-]+)==([\w.]+)(?: ; ([^-]+))?((?: +--hash=sha256:[0-9a-f]{64})+)")
    found = [form.fullmatch(entry.rstrip()) for entry in entries]
    assert None not in found, entries[found.index(None)]
    return [
        Pin(one[1], one[2], (one[3] or "").strip(), frozenset(one[4].split()))
        for one in found
        if one is not None
    ]


def group(name: str) -> list[str]:
    """The requirements of a dependency group, with those of the groups in it."""
    requirements = []
    for entry in PROJECT["dependency-groups"][name]:
        requirements += [entry] if isinstance(entry, str) else group(entry["include-group"])
    return requirements


# --- the lock -----------------------------------------------------------------------------------


@pytest.fixture
def locking(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_tool("lock", monkeypatch)


@pytest.mark.parametrize("name", FILES)
def test_a_lock_is_pins_with_hashes_and_names_no_index(name: str) -> None:
    assert lock(name)
    assert "://" not in (REQUIREMENTS / f"{name}.txt").read_text()


def test_the_smaller_locks_are_parts_of_the_whole() -> None:
    files = {(pin.name, pin.version): pin.hashes for pin in lock("development")}
    for pin in lock("pip") + lock("runtime"):
        assert files[pin.name, pin.version] == pin.hashes


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_locks_have_what_pyproject_asks_for(
    locking: ModuleType, python: str, platform: str
) -> None:
    runtime = PROJECT["project"]["dependencies"]
    everything = [requirement for name in locking.GROUPS for requirement in group(name)]
    asked = {"pip": group("pip"), "runtime": runtime + group("build")}
    machine = {"python_version": python, "python_full_version": f"{python}.0"}
    for name, requirements in (asked | {"development": runtime + everything}).items():
        pins = {
            pin.name: pin.version
            for pin in lock(name)
            if applies(pin.marker, machine | {"sys_platform": platform})
        }
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(pins[requirement.name]), requirement


def applies(marker: str, machine: dict[str, str]) -> bool:
    """Whether a marker holds on a machine."""
    requirement = Requirement(f"name ; {marker}" if marker else "name")
    return requirement.marker is None or requirement.marker.evaluate(machine)


def test_every_group_but_the_peers_and_ray_is_locked(locking: ModuleType) -> None:
    assert {*locking.GROUPS, "torch"} == PROJECT["dependency-groups"].keys() - {"peers", "ray"}


def test_builds_of_torch_that_are_not_in_the_index(locking: ModuleType) -> None:
    listed = "# a comment\n" + "a" * 64 + "  torch-9.1+cpu-cp311-cp311-linux_x86_64.whl\n"
    entry = "torch==9.1 \\\n    --hash=sha256:b\n"
    changed = locking.with_builds(f"six==1 \\\n    --hash=sha256:c\n{entry}", listed)
    assert changed.endswith(
        f"torch==9.1 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:b\n"
    )
    assert locking.with_builds(changed, listed) == changed
    with pytest.raises(SystemExit, match=r"torch is 9.2: torch-builds.txt needs its builds"):
        locking.with_builds(entry.replace("9.1", "9.2"), listed)
    (torch,) = (pin for pin in lock("development") if pin.name == "torch")
    known = re.findall(r"^([0-9a-f]{64}) ", locking.BUILDS.read_text(), flags=re.MULTILINE)
    assert {f"--hash=sha256:{digest}" for digest in known} < torch.hashes


# --- the floors ---------------------------------------------------------------------------------


def test_floors_are_the_lowest_versions_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    floors = load_tool("floors", monkeypatch).floors(PROJECT)
    names = [requirement.partition("==")[0] for requirement in floors]
    assert len(set(names)) == len(names)  # no two floors for one package
    declared = PROJECT["project"]["dependencies"]
    assert {one.replace(">=", "==") for one in declared} <= set(floors)
    for extra in PROJECT["project"]["optional-dependencies"]["torch"]:
        assert extra.replace(">=", "==") in floors


def test_a_requirement_without_a_floor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = load_tool("floors", monkeypatch)
    extras = {name: [] for name in tool.EXTRAS}
    project = {"dependencies": ["six"], "optional-dependencies": extras}
    groups = {name: [] for name in tool.GROUPS}
    with pytest.raises(SystemExit, match=r"must be written name>=version, got 'six'"):
        tool.floors({"project": project, "dependency-groups": groups})


# --- the audit ----------------------------------------------------------------------------------

CLEAN = {"name": "six", "version": "1.0", "vulns": []}
BAD = {"name": "tar", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}
UNFIXED = {"name": "zip", "version": "3.0", "vulns": [{"id": "PYSEC-2", "fix_versions": []}]}
UNKNOWN = {"name": "ufo", "skip_reason": "Dependency not found"}


def audited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **answers: str
) -> tuple[int, str]:
    """The exit code and the text of an audit whose services give these answers."""
    tool = load_tool("audit", monkeypatch)

    def answer(command: list[str], **_: Any) -> Any:
        service = command[command.index("-s") + 1]
        return subprocess.CompletedProcess(command, 1, answers[service], "Traceback\nNoSuchHost\n")

    monkeypatch.setattr(subprocess, "run", answer)
    code = tool.main([])
    output = capsys.readouterr()
    return code, output.out + output.err


def report(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_an_audit_that_finds_nothing(monkeypatch, capsys) -> None:
    found = audited(monkeypatch, capsys, osv=report(CLEAN))
    assert found == (0, "osv knows no vulnerabilities in 1 packages.\n")


def test_an_audit_that_finds_something(monkeypatch, capsys) -> None:
    code, text = audited(monkeypatch, capsys, osv=report(CLEAN, BAD, UNKNOWN, UNFIXED))
    assert code == 1
    assert "tar 2.0: PYSEC-1, fixed in 2.1\nzip 3.0: PYSEC-2, fixed in no version\n" in text


def test_a_second_service_is_asked_where_the_first_is_silent(monkeypatch, capsys) -> None:
    code, text = audited(monkeypatch, capsys, osv="", pypi=report(BAD))
    assert code == 1
    assert "pypi knows 1" in text


def test_silence_is_not_innocence(monkeypatch, capsys) -> None:
    code, text = audited(monkeypatch, capsys, osv="", pypi=report(CLEAN, UNKNOWN))
    assert code == 2
    assert text == (
        "Nothing was audited, no service answered "
        "(osv: NoSuchHost; pypi: 1 of 2 packages are unknown, ufo first).\n"
    )
