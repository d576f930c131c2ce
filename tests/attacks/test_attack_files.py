"""The attack on files in short: the same program, a few cases of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attack_files
import calibrant
import file_crafting
import file_laws
from attack_files import Case, attack, outcome

CASES = {"calibrators": 150, "profiles": 60, "meters": 40, "damage": 100, "containers": 100}


@pytest.fixture(autouse=True, scope="module")
def _imported() -> None:
    file_laws.warm_up()


@pytest.mark.parametrize("kind", attack_files.KINDS)
def test_nothing_gets_through(kind: str) -> None:
    tally = attack(kind, CASES[kind])
    assert tally.offenders == []
    assert tally.cases == CASES[kind] == tally.refused + tally.served
    assert tally.refused > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", attack_files.KINDS)
def test_nothing_gets_through_at_length(kind: str) -> None:
    assert attack(kind, 2_000, seed=10_000).offenders == []


def test_what_was_not_changed_is_served(tmp_path: Path) -> None:
    files = (*attack_files.calibrators(), *attack_files.profiles(), *attack_files.meters())
    for content in files:
        assert outcome(Case(content, "as it was", torch=True), tmp_path / "file") == "served"


def test_apart_and_together_again_is_the_same_file(tmp_path: Path) -> None:
    """The crafting is right: its checksum is the library's."""
    for content in (*attack_files.calibrators()[:5], *attack_files.profiles()):
        again = file_crafting.put_together(file_crafting.taken_apart(content))
        (tmp_path / "again").write_bytes(again)
        calibrant.load(tmp_path / "again")
    meter = file_crafting.taken_apart(attack_files.meters()[0])
    for text, read in (
        (file_crafting.meter_text(meter), attack_files._from_json),
        (file_crafting.meter_table(meter), attack_files._from_arrow),
    ):
        (tmp_path / "meter").write_bytes(text)
        assert read(tmp_path / "meter").compute().n_rows == 80


def test_a_case_is_made_from_its_number_alone() -> None:
    first, again = (
        attack_files.KINDS["calibrators"](np.random.default_rng([0, 7])) for _ in range(2)
    )
    assert (first.content, first.told) == (again.content, again.told)


class Careless(calibrant.TS):
    """A calibrator that does what a law forbids."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.change = change

    @property
    def temperature_(self) -> float:
        return 0.0 if self.change == "temperature" else 1.0


@pytest.mark.parametrize("law", ["temperature", "raises", "warns", "forgets the file"])
def test_what_misbehaves_is_told(law: str, tmp_path: Path) -> None:
    """The laws can fail, and the table has the offender with its number."""

    def read(path: Path) -> Any:
        if law == "raises":
            raise KeyError("formula")
        if law == "warns":
            np.zeros(1) / np.zeros(1)
        return Careless(law).fit(*attack_files.example(3))

    def forgetful(path: Path) -> Any:
        raise calibrant.FileError("no")

    if law == "forgets the file":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(calibrant, "load", forgetful)
            ended = outcome(Case(b"", law, read=forgetful), tmp_path / "file")
    else:
        ended = outcome(Case(b"", law, read=read), tmp_path / "file")
    expected = {
        "temperature": "the temperature is 0.0",
        "raises": "KeyError: 'formula'",
        "warns": "RuntimeWarning: invalid value",
        "forgets the file": "a message without the file",
    }
    assert expected[law] in ended
    tally = attack_files.Tally("calibrators")
    tally.add(12, Case(b"", law), ended)
    assert "--kinds calibrators --seed 12 --cases 1: " in attack_files.table([tally])


def test_the_program_says_how_it_went(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attack_files.resource, "setrlimit", lambda *limits: None)
    assert attack_files.main(["--cases", "3", "--kinds", "damage", "--seed", "5"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["kind", "cases", "refused", "served", "well", "misbehaved", "s"]
    assert table[1].split()[:5] == ["damage", "3", "3", "0", "0"]
    monkeypatch.setattr(file_laws, "check", lambda *args, **options: 1 / 0)
    monkeypatch.setitem(
        attack_files.KINDS, "damage", lambda rng: Case(attack_files.profiles()[0], "nothing")
    )
    assert attack_files.main(["--cases", "2", "--kinds", "damage"]) == 1
    assert "ZeroDivisionError: division by zero [nothing]" in capsys.readouterr().out
