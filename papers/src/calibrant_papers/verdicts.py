"""What decides a claim: who may testify, and the rule from sure differences to an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from calibrant_papers.experiments import BINS, METHODS
from calibrant_papers.inference import Difference, Samples, Variant, over, signs
from calibrant_papers.logit_sets import IMAGENET, PAPER_ROWS, STAND_INS
from calibrant_papers.summary import Results, published

HOLDS, PARTLY, FAILS = "holds", "partly", "fails"
SAME, UNKNOWN = "indistinguishable", "not run"
UNPUBLISHED = "not published"  # what the paper's own tables have no numbers for
OWN = "pts"  # in a claim's variants: PTS, by whichever recipe testifies
TEST_ROWS = {name: 37_500 if name in IMAGENET else 10_000 for name in PAPER_ROWS}  # the paper's
RIVALS = ("base", "irova-raw", "irova-ts-raw", "irm-raw", "pbmc-raw", "diag", "ts", "ets")


class Found(NamedTuple):
    """An outcome, and the numbers that show it."""

    outcome: str
    text: str


NOT_RUN = Found(UNKNOWN, "")


class Witness(Protocol):
    """Who gives the numbers that a claim is judged by."""

    @property
    def rivals(self) -> Sequence[str]:
        """What PTS is compared with."""

    def samples(
        self,
        names: Sequence[str],
        variants: Sequence[Variant],
        metric: str = "ece",
        bins: int = BINS,
    ) -> Samples | None:
        """A metric of variants on every network; None where one is missing."""


@dataclass(frozen=True)
class Ours:
    """The rows of this run, with PTS by one of the recipes."""

    results: Results
    key: str

    @property
    def rivals(self) -> Sequence[str]:
        """The paper's rivals, and PBMC as the paper words it, for the top label."""
        return (*RIVALS, "ts-bins-top")

    def samples(
        self,
        names: Sequence[str],
        variants: Sequence[Variant],
        metric: str = "ece",
        bins: int = BINS,
    ) -> Samples | None:
        """A metric of variants on every network; None where one was not run."""
        return over(self.results, names, [self.by_recipe(one) for one in variants], metric, bins)

    def by_recipe(self, variant: Variant) -> Variant:
        """PTS and the linear model by this witness' recipe."""
        if self.key == "pts-paper" and variant.method in ("pts", "linear"):
            return variant._replace(method=f"{variant.method}-paper")
        return variant


@dataclass(frozen=True)
class Theirs:
    """The paper's own tables. It has no errors: those of our runs of the same methods stand in.

    Its numbers are of a single run, and of as many test rows as it has.
    """

    results: Results

    @property
    def rivals(self) -> Sequence[str]:
        """The columns of its tables."""
        return RIVALS

    def samples(
        self,
        names: Sequence[str],
        variants: Sequence[Variant],
        metric: str = "ece",
        bins: int = BINS,
    ) -> Samples | None:
        """Published numbers; None where one is not published or no rows give their errors."""
        numbers = [_published(name, variants, metric) if bins == BINS else None for name in names]
        witness = Ours(self.results, "pts-paper")
        ours = witness.samples(names, variants, metric, bins)
        if ours is None or any(one is None for one in numbers):
            return None
        first = witness.by_recipe(variants[0]).method
        found = []
        for name, theirs, one in zip(names, numbers, ours.networks, strict=True):
            here = next(iter(self.results.by_seed(name, first).values()))["test_rows"]
            factor = float(np.sqrt(here / TEST_ROWS[row_of_the_paper(name)]))
            found.append(replace(one, published=np.array(theirs), row_factor=factor))
        return Samples(found)


def row_of_the_paper(name: str) -> str:
    """The set that the paper's row is of: for a stand-in, ImageNet's."""
    return name if name in PAPER_ROWS else f"imagenet-{name.split('-')[1]}"


def _published(name: str, variants: Sequence[Variant], metric: str) -> list[float] | None:
    """The paper's numbers (NaN: blank there); None where it has no such row or column."""
    if any(variant != Variant(variant.method) for variant in variants):
        return None
    table = "linear" if any(v.method == "linear" for v in variants) else metric
    row = published().get(table, {}).get(PAPER_ROWS.get(name) or STAND_INS.get(name, ""))
    if row is None:
        return None
    numbers = []
    for variant in variants:
        if metric == "gain" and variant.method == "base":
            numbers.append(0.0)
            continue
        column = METHODS[variant.method].published
        if column not in row:
            return None
        value = row[column]
        numbers.append(np.nan if value is None else value)
    return numbers


# --- rules ------------------------------------------------------------------------------------


def of_units(ahead: int, behind: int, units: int) -> str:
    """All ahead: holds. More behind than ahead: fails. Else some ahead: partly.

    >>> [of_units(*counts, 4) for counts in ((4, 0), (3, 0), (1, 1), (1, 2), (0, 1), (0, 0))]
    ['holds', 'partly', 'partly', 'fails', 'fails', 'indistinguishable']
    """
    if ahead == units:
        return HOLDS
    if behind > ahead:
        return FAILS
    return PARTLY if ahead else SAME


def one_sided(differences: Sequence[Difference]) -> tuple[int, int]:
    """How many are surely above 0, and how many surely below."""
    sure = signs(differences)
    return int((sure > 0).sum()), int((sure < 0).sum())


def percent(share: Difference) -> str:
    """A share and its interval.

    >>> percent(Difference(0.3, 0.05))
    '30% (20 to 40)'
    """
    return f"{100 * share.value:.0f}% ({100 * share.low:.0f} to {100 * share.high:.0f})"
