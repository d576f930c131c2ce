"""The short form of ``attacks/attack_interrupts.py``: nothing gets through."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attack_interrupts
import cached_rows
import hostile_places
import interrupted_fits
import killed_programs
import shared_state
from calibrant.calibrators import REGISTRY
from interrupted_fits import Lines, Subject
from tally import Tally

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.CalibrationWarning"),
    # an interrupt inside other packages may leave a file of theirs open until it is collected
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def held(*tallies: Tally) -> None:
    for tally in tallies:
        assert tally.cases > 0
        assert tally.through == []


@pytest.mark.parametrize("method", REGISTRY)
def test_interrupted_fits(method: str) -> None:
    for again in (False, True):
        tally = Tally(method)
        subject = interrupted_fits.fit_of(method, again=again)
        interrupted_fits.attack(subject, 4, np.random.default_rng(0), tally)
        held(tally)


def test_interrupted_classifiers_meters_and_profiles() -> None:
    for again in (False, True):
        for subject in (
            interrupted_fits.classifier(again=again),
            interrupted_fits.classifier(again=again, ensemble=False),
            interrupted_fits.meter(again=again),
            interrupted_fits.profile(again=again),
        ):
            tally = Tally(subject.name)
            interrupted_fits.attack(subject, 4, np.random.default_rng(0), tally)
            held(tally)


def test_threads() -> None:
    held(shared_state.attack_threads(1, 8, shared_state.predictions))
    held(shared_state.attack_threads(1, 8, shared_state.comparison))


@pytest.mark.slow
def test_processes() -> None:
    held(shared_state.attack_processes(1))


def test_places_and_files(tmp_path: Path) -> None:
    writers = hostile_places.writers(tmp_path)
    held(*hostile_places.attack_places(tmp_path / "places", writers))
    held(*hostile_places.attack_files(tmp_path / "files", writers))


def test_cached_rows(tmp_path: Path) -> None:
    held(*cached_rows.attack_rows(tmp_path / "cached", 40, np.random.default_rng(0)))


@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    held(*killed_programs.attack_programs(tmp_path, 1, np.random.default_rng(0)))


@pytest.mark.slow
def test_a_shared_folder(tmp_path: Path) -> None:
    held(killed_programs.attack_shared_folder(tmp_path))


# --- the attacks find what they look for ------------------------------------------------------


class TwoSteps:
    """What a fit must not be: it sets one thing after the other."""

    def __init__(self) -> None:
        self.one = self.other = [0.0]

    def fit(self) -> None:
        self.one = [1.0]
        self.other = [1.0]


def test_a_mixture_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupted_fits, "SOURCE", str(Path(__file__).parent))
    tally = Tally("two steps")
    subject = Subject("", TwoSteps, TwoSteps.fit, lambda thing: thing.one + thing.other)
    interrupted_fits.attack(subject, 9, np.random.default_rng(0), tally)
    assert 0 < len(tally.through) < tally.cases
    assert "neither the old fit nor the new one, one replaced" in tally.through[0]
    assert "two steps" in str(tally)


def test_lines_are_counted_and_interrupted() -> None:
    count = Lines()
    subject = interrupted_fits.meter(again=False)
    count.run(lambda: subject.change(subject.make()))
    assert count.count > 100
    thing = subject.make()
    Lines(count.count // 2).run(lambda: subject.change(thing))
    assert "at least one row" in subject.answer(thing)


def test_the_command_line() -> None:
    options = attack_interrupts.parse_arguments(["--only", "fits", "--rounds", "3"])
    assert (options.only, options.rounds, options.seed) == (["fits"], 3, 0)
    assert list(attack_interrupts.ATTACKS) == ["fits", "threads", "places", "rows", "kills"]
