"""What decides a claim: who may testify, and the rule from sure differences to an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from calibrant.papers.pts.experiments import BINS, METHODS
from calibrant.papers.pts.inference import (
    Difference,
    Sample,
    Variant,
    over,
    sample,
    signs,
)
from calibrant.papers.pts.logit_sets import IMAGENET, PAPER_ROWS, STAND_INS
from calibrant.papers.pts.summary import Results, published

HOLDS, PARTLY, FAILS = "holds", "partly", "fails"
SAME, UNKNOWN = "indistinguishable", "not run"
SURE = 1.96  # standard errors
OWN = "pts"  # in a claim's variants: PTS, by whichever recipe testifies
# The paper judges its ImageNet networks on 37,500 rows, the stand-ins here are judged on 10,000.
IMAGENET_FACTOR = float(np.sqrt(10_000 / 37_500))
RIVALS = ("base", "irova-raw", "irova-ts-raw", "irm-raw", "pbmc-raw", "diag", "ts", "ets")


class Found(NamedTuple):
    """An outcome, and the numbers that show it."""

    outcome: str
    text: str


NOT_RUN = Found(UNKNOWN, "")


class Witness(Protocol):
    """Who gives the numbers that a claim is judged by."""

    def samples(
        self,
        names: Sequence[str],
        variants: Sequence[Variant],
        metric: str = "ece",
        bins: int = BINS,
    ) -> list[Sample] | None:
        """A metric of variants on every set; None where one is missing."""


@dataclass(frozen=True)
class Ours:
    """The rows of this run, with PTS by one of the recipes."""

    results: Results
    key: str

    def samples(
        self,
        names: Sequence[str],
        variants: Sequence[Variant],
        metric: str = "ece",
        bins: int = BINS,
    ) -> list[Sample] | None:
        """A metric of variants on every set; None where one was not run."""
        return over(self.results, names, [self.by_recipe(one) for one in variants], metric, bins)

    def by_recipe(self, variant: Variant) -> Variant:
        """PTS and the linear model by this witness' recipe."""
        if self.key == "pts-paper" and variant.method in ("pts", "linear"):
            return variant._replace(method=f"{variant.method}-paper")
        return variant


@dataclass(frozen=True)
class Theirs:
    """The paper's own tables. It has no errors: those of our rows for the same methods stand in.

    They are the errors by the test rows alone, for the paper has one split and one training.
    """

    results: Results

    def samples(
        self,
        names: Sequence[str],
        variants: Sequence[Variant],
        metric: str = "ece",
        bins: int = BINS,
    ) -> list[Sample] | None:
        """Published numbers; None where one is not published or no rows give their errors."""
        ours = Ours(self.results, "pts-paper")
        found = []
        for name in names:
            numbers = _published(name, variants, metric) if bins == BINS else None
            errors = sample(self.results, name, [ours.by_recipe(v) for v in variants])
            if metric == "gain":
                by_recipe = [ours.by_recipe(v) for v in variants]
                errors = sample(self.results, name, by_recipe, "gain")
            if numbers is None or errors is None:
                return None
            factor = 1.0 if PAPER_ROWS.get(name) and name not in IMAGENET else IMAGENET_FACTOR
            moves = factor * errors.row_draws
            points = np.array(numbers)
            found.append(Sample(points, points[:, None] + moves, moves))
        return found or None


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
    """All ahead: holds. None ahead and some behind: fails. Neither: indistinguishable.

    >>> [of_units(*counts, 4) for counts in ((4, 0), (3, 0), (2, 1), (0, 1), (0, 0))]
    ['holds', 'partly', 'partly', 'fails', 'indistinguishable']
    """
    if ahead == units:
        return HOLDS
    if ahead:
        return PARTLY
    return FAILS if behind else SAME


def one_sided(differences: Sequence[Difference]) -> tuple[int, int]:
    """How many are surely above 0, and how many surely below."""
    sure = signs(differences)
    return int((sure > 0).sum()), int((sure < 0).sum())


class Drop(NamedTuple):
    """By what share one mean is lower than another, with its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.0f}% ({100 * self.low:.0f} to {100 * self.high:.0f})"

    @property
    def sure(self) -> bool:
        """Whether it is surely above 0."""
        return self.low > 0.0


def drop(pooled: Sample, one: int, other: int) -> Drop:
    """By what share ``one`` is lower than ``other``."""
    value = 1.0 - pooled.points[one] / pooled.points[other]
    error = SURE * float(np.std(1.0 - pooled.draws[one] / pooled.draws[other]))
    return Drop(float(value), float(value) - error, float(value) + error)
