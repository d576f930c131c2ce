"""Which experiments the tables and figures need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from calibrant.papers.pts.experiments import (
    FRACTIONS,
    METHODS,
    PUBLISHED_WIDTH,
    WIDTHS,
    Setting,
)
from calibrant.papers.pts.logit_sets import imagenet_group

# Methods by experiment. The tables of linear models have their own pair.
LINEAR = ("linear", "linear-paper")
TABLE_METHODS = tuple(key for key in METHODS if key not in LINEAR)
RECIPES = ("pts-paper", "pts")  # of PTS: the published one and this library's default
NON_PARAMETRIC = ("irova-raw", "irova-ts-raw", "irm-raw")
RIVALS_BY_SIZE = (*NON_PARAMETRIC, "ts", "ets")  # table 4
PART_METHODS = (*RIVALS_BY_SIZE, *RECIPES)
# The published recipe takes half a minute per fit: fewer widths, and on MobileNetV2 only.
PAPER_WIDTHS = (1, 2, 10, 20)


@dataclass(frozen=True)
class Scope:
    """How much of it to run."""

    seeds: int = 3
    slow_seeds: int = 3  # of the published recipe at full validation size
    slow_parts: bool = True  # the published recipe at smaller sizes, widths and as a linear model

    def seeds_of(self, method: str, *, full_size: bool) -> range:
        """The seeds of one method."""
        if not METHODS[method].slow:
            return range(self.seeds)
        if full_size and method not in LINEAR:
            return range(min(self.slow_seeds, self.seeds))
        return range(1 if self.slow_parts else 0)


FULL = Scope()
QUICK = Scope(seeds=1, slow_seeds=1, slow_parts=False)


def settings(names: Sequence[str], scope: Scope) -> list[Setting]:
    """Every experiment once; the slow ones first, so that none of them is left alone at the end."""
    group, _ = imagenet_group(names)
    wanted = [*_tables(names, scope), *_parts(names, group, scope), *_widths(group, scope)]
    wanted += [
        Setting(name, method, seed)
        for method in LINEAR
        for name in group
        for seed in scope.seeds_of(method, full_size=True)
    ]
    return sorted(dict.fromkeys(wanted), key=lambda one: not METHODS[one.method].slow)


def _tables(names: Iterable[str], scope: Scope) -> Iterator[Setting]:
    """Tables 1-3 and figures 1b, 2 and 3a."""
    for name in names:
        for method in TABLE_METHODS:
            for seed in scope.seeds_of(method, full_size=True):
                yield Setting(name, method, seed)


def _parts(names: Sequence[str], group: Sequence[str], scope: Scope) -> Iterator[Setting]:
    """Table 4 and figures 3b, 3c and 4: smaller validation sets."""
    for name in names:
        if name not in group and name != "cifar100-lenet5":  # that one is figure 3c
            continue
        for method in PART_METHODS:
            for fraction in FRACTIONS[:-1]:
                for seed in scope.seeds_of(method, full_size=False):
                    yield Setting(name, method, seed, fraction)


def _widths(group: Sequence[str], scope: Scope) -> Iterator[Setting]:
    """Figure 1a: wider and wider networks."""
    for name in group:
        for width in WIDTHS:
            if width != PUBLISHED_WIDTH:
                for seed in scope.seeds_of("pts", full_size=True):
                    yield Setting(name, "pts", seed, width=width)
        if "mobilenetv2" in name:
            for width in PAPER_WIDTHS:
                for seed in scope.seeds_of("pts-paper", full_size=False):
                    yield Setting(name, "pts-paper", seed, width=width)
