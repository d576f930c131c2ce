"""Which experiments the tables and figures need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from calibrant_papers.experiments import (
    FRACTIONS,
    METHODS,
    PUBLISHED_WIDTH,
    TOP_KS,
    WIDTHS,
    Setting,
)
from calibrant_papers.logit_sets import FIGURE_3C, imagenet_group

# Methods by experiment. The tables of linear models have their own pair.
LINEAR = ("linear", "linear-paper")
TABLE_METHODS = tuple(key for key in METHODS if key not in LINEAR)
RECIPES = ("pts-paper", "pts")  # of PTS: the published one and this library's default
NON_PARAMETRIC = ("irova-raw", "irova-ts-raw", "irm-raw")
CONTROLS = ("ts-brier", "ets-nll", "diag-authors", "ts-bins", "ts-bins-top")
RIVALS_BY_SIZE = (*NON_PARAMETRIC, "ts", "ets")  # table 4
PART_METHODS = (*RIVALS_BY_SIZE, *RECIPES)
PAPER_WIDTHS = (1, 2, 10, 20)  # fewer than by default: the published recipe takes a while per fit


@dataclass(frozen=True)
class Scope:
    """How much of it to run. A seed is a split and, where there are several, a training."""

    seeds: int = 3
    slow_parts: bool = True  # the published recipe beyond Tables 1-3, and numbers of logits

    def seeds_of(self, method: str, *, plain: bool) -> range:
        """The seeds of one method."""
        wanted = plain or self.slow_parts or not METHODS[method].slow
        return range(self.seeds if wanted else 0)


FULL = Scope()
QUICK = Scope(seeds=1, slow_parts=False)


def settings(names: Sequence[str], scope: Scope) -> list[Setting]:
    """Every experiment once; Tables 1-3 before the rest, in either the slow ones first."""
    group, _ = imagenet_group(names)
    wanted = [
        *_tables(names, scope),
        *_linear(group, scope),
        *_parts(names, group, scope),
        *_sweeps(group, scope),
    ]
    return sorted(dict.fromkeys(wanted), key=lambda one: (not one.plain, not _slow(one)))


def _slow(setting: Setting) -> bool:
    return METHODS[setting.method].slow


def _tables(names: Iterable[str], scope: Scope) -> Iterator[Setting]:
    """Tables 1-3 and figures 1b, 2 and 3a."""
    for name in names:
        for method in TABLE_METHODS:
            for seed in scope.seeds_of(method, plain=True):
                yield Setting(name, method, seed)


def _linear(group: Iterable[str], scope: Scope) -> Iterator[Setting]:
    """Table 5."""
    for name in group:
        for method in LINEAR:
            for seed in scope.seeds_of(method, plain=False):
                yield Setting(name, method, seed)


def _parts(names: Sequence[str], group: Sequence[str], scope: Scope) -> Iterator[Setting]:
    """Table 4 and figures 3b, 3c and 4: smaller validation sets."""
    for name in names:
        if name not in group and name != FIGURE_3C:
            continue
        for method in PART_METHODS:
            for fraction in FRACTIONS[:-1]:
                for seed in scope.seeds_of(method, plain=False):
                    yield Setting(name, method, seed, fraction)


def _sweeps(group: Sequence[str], scope: Scope) -> Iterator[Setting]:
    """Figure 1a: wider and wider networks; and fewer or more logits than the top 10."""
    for name in group:
        for method in RECIPES:
            for seed in scope.seeds_of(method, plain=False):
                for width in PAPER_WIDTHS if METHODS[method].slow else WIDTHS:
                    if width != PUBLISHED_WIDTH:
                        yield Setting(name, method, seed, width=width)
                for top_k in TOP_KS if scope.slow_parts else ():
                    yield Setting(name, method, seed, top_k=top_k)
