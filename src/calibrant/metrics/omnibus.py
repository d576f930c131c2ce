"""One answer to "is it calibrated?": a few tests on the same drawn labels, judged together.

The tests see different faults: Spiegelhalter's temperatures, Kuiper's intervals of scores, the
kernel test single classes. The smallest of their p-values is ranked among those of labels that are
drawn from the predictions: the level is exact for any number of rows, however rare an event and
however alike the tests, and no correction for several tests is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, Labels, RandomState, RowRule, generator
from calibrant.data.rows import Rows
from calibrant.metrics._intervals import check_resamples
from calibrant.metrics._labelled import Labelled, Outcomes, labelled, outcomes_of
from calibrant.metrics._resampling import batches_of, draw_labels
from calibrant.metrics.cox import log_odds
from calibrant.metrics.cumulative import span, summed_up
from calibrant.metrics.kernel import MOST_ROWS, PairSums, check_max_rows, some_rows

_DRAWN_ROWS = 20_000

OmnibusNotion = Literal["canonical", "confidence"]


@dataclass(frozen=True)
class OmnibusTest:
    """The answer of several tests together.

    Parameters
    ----------
    p_value : float
        How likely a calibrated model is to show so much evidence in any of the tests.
    notion : {"canonical", "confidence"}
        The null hypothesis: the probabilities of all classes together are calibrated, or the
        largest one is.
    parts : dict of str to float
        The p-value of each test by itself.
    n_rows : int
        The rows that were looked at.
    n_resamples : int
        How often labels were drawn.
    """

    p_value: float
    notion: OmnibusNotion
    parts: dict[str, float]
    n_rows: int
    n_resamples: int


@documented
def omnibus_test(
    probs: Any,
    labels: Any,
    *,
    notion: OmnibusNotion = "canonical",
    n_resamples: int = 499,
    max_rows: int = _DRAWN_ROWS,
    random_state: RandomState = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> OmnibusTest:
    """Test "calibrated" against whatever it may be instead: the recommended test.

    Parameters
    ----------
    {probs}
    {labels}
    notion : {"canonical", "confidence"}, default "canonical"
        The null hypothesis: the probabilities of all classes together are calibrated (with two
        classes: those of class 1), or the largest one is.
    n_resamples : int, default 499
        How often labels are drawn.
    max_rows : int, default 20000
        Of more rows than these, so many are drawn without replacement and looked at; the kernel
        test looks at 2,000 of them.
    {random_state}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    OmnibusTest
        The p-value, the null hypothesis, and the p-value of each test by itself.

    Raises
    ------
    {refused}

    Notes
    -----
    "canonical" takes Kuiper's statistic (of class 1's probability of two classes, and of the
    largest of more), Spiegelhalter's of all classes, and the squared kernel calibration error;
    "confidence" Kuiper's of the largest probability, and the score statistic of Cox's slope and
    intercept. The p-value is the share of draws, the observed labels among them, whose smallest
    p-value (of a gamma law with the moments of all draws) is no larger than the observed one:
    1 / (1 + draws) where the evidence is overwhelming.

    Examples
    --------
    >>> test = omnibus_test([[0.9, 0.1]] * 100, [0, 1] * 50, n_resamples=199)
    >>> test.p_value < 0.02, test.notion, sorted(test.parts)
    (True, 'canonical', ['kuiper', 'skce', 'spiegelhalter'])
    """
    check_resamples(n_resamples, 1)
    check_max_rows(max_rows)
    if notion not in ("canonical", "confidence"):
        raise ValueError(f'notion must be "canonical" or "confidence", got {notion!r}')
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    rng = generator(random_state)
    rows = some_rows(data.rows, max_rows, rng)
    tests = _AllClasses.of(rows, rng) if notion == "canonical" else _TopLabel.of(rows)
    values = np.concatenate(list(tests.observed_and_drawn(n_resamples, rng)))
    p_values = [_ranked(-column) for column in values.T]
    smallest = np.min([_approximate(column) for column in values.T], axis=0)
    return OmnibusTest(
        p_value=_ranked(smallest),
        notion=notion,
        parts=dict(zip(tests.names, p_values, strict=True)),
        n_rows=len(rows),
        n_resamples=n_resamples,
    )


def _ranked(values: Floats) -> float:
    """The share of values that are no larger than the first, which is the observed one."""
    # Rounding must not decide between values that are equal in exact arithmetic.
    slack = 1e-9 * float(np.abs(values).max())
    return float(np.mean(values <= values[0] + slack))


def _approximate(values: Floats) -> Floats:
    """How likely each value is to be reached, by the gamma law with the values' own moments.

    It makes tests comparable beyond the largest draw. Where it is rough, the weight of a test
    beside the others is off, and not the level: that comes from the ranks.
    """
    spread = float(values.std())
    if spread <= 1e-12 * float(np.abs(values).max()):
        return np.ones(len(values))
    z = (values - values.mean()) / spread
    shape = 4.0 / max(float(np.mean(z**3)), 0.1) ** 2
    return gammaincc(shape, np.maximum(shape + z * np.sqrt(shape), 0.0))


# --- the tests --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TopLabel:
    """The largest probability and whether it is right, in ascending order of the former."""

    part: Outcomes
    names: ClassVar[tuple[str, ...]] = ("kuiper", "cox")

    @classmethod
    def of(cls, rows: Rows) -> _TopLabel:
        """Rows in any order."""
        (part,) = outcomes_of(Labelled(rows, "confidence"), "confidence")
        return cls(part.take(np.argsort(part.score, kind="stable")))

    def observed_and_drawn(self, n_draws: int, rng: np.random.Generator) -> Iterator[Floats]:
        """Statistics (1, tests) of the rows' events; (draws, tests) of drawn ones, in batches."""
        yield self._statistics(self.part.hit[:, None])
        score = self.part.scores
        for size in batches_of(n_draws, len(score)):
            yield self._statistics(rng.random((len(score), size)) < score)

    def _statistics(self, hits: NDArray[np.bool_]) -> Floats:
        score, weight = self.part.score, self.part.weight
        steps = weight[:, None] * (hits - score[:, None])
        # the score statistic of Cox's slope 1 and intercept 0
        columns = np.stack([np.ones(len(score)), log_odds(score)])
        slopes = columns @ steps
        inverse = np.linalg.pinv((columns * (weight**2 * score * (1.0 - score))) @ columns.T)
        cox = np.asarray((slopes * (inverse @ slopes)).sum(axis=0))
        return np.stack([span(summed_up(score, steps)), cox], axis=1)


@dataclass(frozen=True)
class _AllClasses:
    """Rows in ascending order of class 1's probability of two, or of the largest of more."""

    rows: Rows
    score: Floats
    event: NDArray[np.intp]  # the class that the score promises
    looked_at: NDArray[np.intp]  # by the kernel test
    pairs: PairSums | None  # of these; one row has no pair
    names: ClassVar[tuple[str, ...]] = ("kuiper", "spiegelhalter", "skce")

    @classmethod
    def of(cls, rows: Rows, rng: np.random.Generator) -> _AllClasses:
        """Rows in any order."""
        probs = rows.scores
        event = np.ones(len(rows), np.intp) if rows.n_classes == 2 else probs.argmax(axis=1)
        score = np.take_along_axis(probs, event[:, None], axis=1)[:, 0]
        order = np.argsort(score, kind="stable")
        some = np.arange(len(order))
        if len(order) > MOST_ROWS:
            some = np.sort(rng.choice(some, MOST_ROWS, replace=False))
        rows = rows.take(order)
        pairs = PairSums.of(rows.take(some), "exponential", None) if len(some) > 1 else None
        return cls(rows, score[order], event[order], some, pairs)

    def observed_and_drawn(self, n_draws: int, rng: np.random.Generator) -> Iterator[Floats]:
        """Statistics (1, tests) of the rows' labels; (draws, tests) of drawn ones, in batches."""
        yield self._statistics(self.rows.labels[:, None])
        yield from map(self._statistics, draw_labels(self.rows.scores, n_draws, rng))

    def _statistics(self, labels: Labels) -> Floats:
        probs, weight = self.rows.scores, self.rows.weight
        steps = weight[:, None] * ((labels == self.event[:, None]) - self.score[:, None])
        true = np.take_along_axis(probs, labels, axis=1)
        brier = np.abs(weight @ (probs**2).sum(axis=1) - weight @ true)
        skce = np.zeros(labels.shape[1])
        if self.pairs is not None:
            skce = self.pairs.errors(labels[self.looked_at])
        return np.stack([span(summed_up(self.score, steps)), brier, skce], axis=1)
