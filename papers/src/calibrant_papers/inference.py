"""How sure a difference is: what test rows can do to it, and what trainings, splits and fits do.

A run is one seed: a split and, where there are several, a training of its own. Methods of one run
share its test rows. How far a difference between methods is off in one run has two sources:

- the test rows: s2_rows, from rows drawn anew for all methods, and all networks on the same images,
  at once;
- training, split and fit: s2_runs. The variance between runs shows the sum of both. Three runs say
  little about one network, so s2_runs is one number for all networks of a comparison: the mean of
  what the variance between runs exceeds s2_rows by, and at least 0. A network whose own runs differ
  by more has its own.

A mean over R runs then has the variance (s2_rows + s2_runs) / R. It is judged by Student's t with
the degrees of freedom of the mean variance between runs, by Satterthwaite's rule: n (R - 1) for n
networks that are alike, fewer where a network has its own. With one run s2_runs is unknown, and a
difference is sure as to the test rows alone.

Left out: seeds split the same rows anew, so that their test rows overlap by chance, and what they
show is a little alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from calibrant_papers._types import Floats
from calibrant_papers.experiments import BINS
from calibrant_papers.row_draws import point_and_draws
from calibrant_papers.summary import Results

LEVEL = 0.05


class Variant(NamedTuple):
    """A method as one experiment has it."""

    method: str
    fraction: float = 1.0
    width: int | None = None
    top_k: int | None = None


@dataclass(frozen=True)
class Difference:
    """A difference, its standard error and the degrees of freedom of that."""

    value: float
    error: float
    freedom: float = np.inf

    @property
    def p(self) -> float:
        """The two-sided p-value of no difference."""
        if not np.isfinite(self.value) or np.isnan(self.error):
            return 1.0
        if self.error == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return float(2.0 * student.sf(abs(self.value) / self.error, self.freedom))

    @property
    def reach(self) -> float:
        """Half the width of the 95% interval."""
        return float(self.error * student.isf(LEVEL / 2.0, self.freedom)) if self.error else 0.0

    @property
    def low(self) -> float:
        """Where the 95% interval begins."""
        return self.value - self.reach

    @property
    def high(self) -> float:
        """Where the 95% interval ends."""
        return self.value + self.reach

    def beyond(self, value: float) -> Difference:
        """What it has beyond a number."""
        return Difference(self.value - value, self.error, self.freedom)


@dataclass(frozen=True)
class Sample:
    """A metric (points) of several variants on one network."""

    runs: Floats  # (variants, runs)
    row_draws: Floats  # (variants, runs, draws): deviations by the test rows
    published: Floats | None = None  # (variants,): the numbers of a single run elsewhere ..
    row_factor: float = 1.0  # .. and its deviation by test rows over that of a run here

    @property
    def points(self) -> Floats:
        """(variants,): the numbers that are judged."""
        return self.runs.mean(axis=1) if self.published is None else self.published

    @property
    def count(self) -> int:
        """How many runs the points are the mean of."""
        return self.runs.shape[1] if self.published is None else 1


class Samples:
    """A metric of the same variants on several networks."""

    def __init__(self, networks: Sequence[Sample]) -> None:
        self.networks = list(networks)

    @cached_property
    def points(self) -> Floats:
        """(networks, variants)."""
        return np.array([one.points for one in self.networks])

    @property
    def means(self) -> Floats:
        """(variants,): the means over networks."""
        return np.asarray(self.points.mean(axis=0))

    def chosen(self, places: Sequence[int]) -> Samples:
        """Some of the networks."""
        return Samples([self.networks[place] for place in places])

    def beside(self, other: Samples) -> Samples:
        """The variants of both, those of the other one behind."""
        return Samples(
            [
                replace(
                    a,
                    runs=np.concatenate([a.runs, b.runs]),
                    row_draws=np.concatenate([a.row_draws, b.row_draws]),
                )
                for a, b in zip(self.networks, other.networks, strict=True)
            ]
        )

    def each(self, one: int, other: int) -> list[Difference]:
        """``one`` minus ``other`` on every network."""
        parts = _Parts(self.networks, _pair(self.points.shape[1], one, other))
        return [parts.of_network(place) for place in range(len(self.networks))]

    def mean(self, one: int, other: int) -> Difference:
        """``one`` minus ``other``, of the means over networks."""
        return self.combined(_pair(self.points.shape[1], one, other))

    def combined(self, shares: Floats) -> Difference:
        """A combination of variants, of the means over networks."""
        return _Parts(self.networks, shares).of_mean()

    def drop(self, one: int, other: int) -> Difference:
        """By what share the mean of ``one`` is lower than that of ``other``."""
        found = self.combined(_drop(self.means, one, other))
        return replace(found, value=float(1.0 - self.means[one] / self.means[other]))

    def drop_on(self, place: int, one: int, other: int) -> Difference:
        """The same on one network; the variance by runs is that of all."""
        points = self.points[place]
        found = _Parts(self.networks, _drop(points, one, other)).of_network(place)
        return replace(found, value=float(1.0 - points[one] / points[other]))


def _pair(size: int, one: int, other: int, share: float = 1.0) -> Floats:
    shares = np.zeros(size)
    shares[one] += 1.0
    shares[other] -= share
    return shares


def _drop(points: Floats, one: int, other: int) -> Floats:
    """What 1 - one / other is to first order."""
    return -_pair(len(points), one, other, points[one] / points[other]) / points[other]


class _Parts:
    """Both variances of a combination of variants."""

    def __init__(self, networks: Sequence[Sample], shares: Floats) -> None:
        used = np.flatnonzero(shares)  # 0 times a blank is no blank
        self.networks, weights = networks, shares[used]
        self.values = np.array([weights @ one.points[used] for one in networks])
        runs = [weights @ one.runs[used] for one in networks]
        self.draws = [np.einsum("v,vrd->rd", weights, one.row_draws[used]) for one in networks]
        self.by_rows = np.array([one.var(axis=1).mean() for one in self.draws])
        # A blank, which is NaN, and a single run say nothing of how runs differ.
        own = [one.var(ddof=1) if len(one) > 1 else np.nan for one in runs]
        several = np.flatnonzero(np.isfinite(own))
        self.own = np.nan_to_num(own)
        excess = self.own[several] - self.by_rows[several]
        self.by_runs = max(float(excess.mean()), 0.0) if len(several) else 0.0
        between = self.by_runs + self.by_rows[several]
        degrees = np.array([len(runs[place]) - 1.0 for place in several])
        doubt = float(np.sum(between**2 / degrees))
        self.freedom = float(between.sum() ** 2 / doubt) if doubt > 0.0 else np.inf

    def of_network(self, place: int) -> Difference:
        """By its own variance between runs where that is larger than what all networks have."""
        one, rows = self.networks[place], self.by_rows[place]
        by_runs = max(self.by_runs, self.own[place] - rows)
        freedom = self.freedom
        if by_runs > self.by_runs:
            own = (by_runs - self.by_runs) / (by_runs + rows)  # the share that it alone knows
            degrees = one.runs.shape[1] - 1.0
            freedom = 1.0 / (own**2 / degrees + (1.0 - own) ** 2 / self.freedom)
        variance = (one.row_factor**2 * rows + by_runs) / one.count
        return Difference(float(self.values[place]), float(np.sqrt(variance)), freedom)

    def of_mean(self) -> Difference:
        """Rows that networks share move them together."""
        size = len(self.networks)
        moved = [
            one.row_factor * draws for one, draws in zip(self.networks, self.draws, strict=True)
        ]
        runs = min(len(one) for one in moved)
        whole = np.mean([one[:runs] for one in moved], axis=0)  # (runs, draws)
        alone = whole.var(axis=1).mean()
        counts = np.array([one.count for one in self.networks])
        rows = alone if counts.max() == 1 else whole.mean(axis=0).var()
        runs_part = self.by_runs * float((1.0 / counts).sum()) / size**2
        error = float(np.sqrt(rows + runs_part))
        return Difference(float(self.values.mean()), error, self.freedom)


def sample(
    results: Results, name: str, variants: Sequence[Variant], metric: str = "ece", bins: int = BINS
) -> Sample | None:
    """A metric of variants on one network, over the seeds that all have; None where none are."""
    found = [results.by_seed(name, *variant) for variant in variants]
    seeds = sorted(set.intersection(*(set(rows) for rows in found)))
    if not seeds:
        return None
    made = np.array(
        [[point_and_draws(results, rows[seed], metric, bins) for seed in seeds] for rows in found]
    )
    return Sample(made[:, :, 0], made[:, :, 1:])


def over(
    results: Results,
    names: Sequence[str],
    variants: Sequence[Variant],
    metric: str = "ece",
    bins: int = BINS,
) -> Samples | None:
    """``sample`` for all networks; None where one of them was not run."""
    found = [sample(results, name, variants, metric, bins) for name in names]
    known = [one for one in found if one is not None]
    return Samples(known) if known and len(known) == len(found) else None


# --- several comparisons ----------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> Floats:
    """Holm's adjusted p-values: below 0.05 means that even the family's error is below 5%.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values)
    factors = len(values) - np.arange(len(values))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * values[order]), 1.0)
    return adjusted


def signs(differences: Sequence[Difference]) -> NDArray[np.int64]:
    """-1 and 1 for differences that are sure after Holm's correction, else 0."""
    sure = holm([one.p for one in differences]) < LEVEL
    return np.where(sure, np.sign([one.value for one in differences]), 0).astype(np.int64)
