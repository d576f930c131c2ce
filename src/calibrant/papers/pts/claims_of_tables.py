"""The claims that Tables 1-3 and 5 show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from calibrant.papers.pts.experiments import METHODS
from calibrant.papers.pts.inference import LEVEL, Difference, Sample, Variant, pooled, signs
from calibrant.papers.pts.verdicts import (
    FAILS,
    HOLDS,
    NOT_RUN,
    OWN,
    PARTLY,
    RIVALS,
    SAME,
    Found,
    Witness,
    drop,
    of_units,
    one_sided,
)

THIRTY = 0.295  # what reads as 30%
CONSISTENT = 0.7  # a rank correlation; the paper has no number
# From simple to complex: fewer classes first, then fewer parameters (docs/training.md).
BY_COMPLEXITY = (
    *("cifar10-lenet5", "cifar10-vgg19", "cifar100-lenet5", "cifar100-mobilenetv2"),
    *("cifar100-densenet169", "cifar100-vgg19", "cifar100-xception", "cifar100-resnet50"),
    *("cifar100-resnet152", "imagenet-mobilenetv2", "imagenet-densenet169"),
    *("imagenet-xception", "imagenet-resnet50", "imagenet-resnet152"),
)


def _variants(*methods: str) -> list[Variant]:
    return [Variant(method) for method in methods]


def best_everywhere(witness: Witness, names: Sequence[str], metric: str) -> Found:
    """Where PTS is surely ahead of every rival, and where a rival is surely ahead of it."""
    samples = witness.samples(names, _variants(OWN, *RIVALS), metric)
    if samples is None:
        return NOT_RUN
    sign = -1.0 if metric == "gain" else 1.0  # a gain is good where it is large
    pairs = [
        (where, rival)
        for where, one in enumerate(samples)
        for rival in range(1, len(RIVALS) + 1)
        if np.isfinite(one.points[[0, rival]]).all()
    ]
    differences = [samples[where].difference(0, rival) for where, rival in pairs]
    sure = np.zeros((len(samples), len(RIVALS)))  # an infinite NLL or a blank is no rival
    sure[tuple(np.array([(w, r - 1) for w, r in pairs]).T)] = sign * signs(differences)
    ran = np.zeros_like(sure, dtype=bool)
    ran[tuple(np.array([(w, r - 1) for w, r in pairs]).T)] = True
    ahead = np.asarray(((sure < 0) | ~ran).all(axis=1))
    behind = np.asarray((sure > 0).any(axis=1))
    outcome = of_units(int(ahead.sum()), int(behind.sum()), len(names))
    return Found(outcome, _who_leads(names, samples, sign, ahead, behind))


def _who_leads(
    names: Sequence[str],
    samples: Sequence[Sample],
    sign: float,
    ahead: NDArray[np.bool_],
    behind: NDArray[np.bool_],
) -> str:
    points = np.array([one.points for one in samples])
    best = np.nanargmin(sign * points, axis=1)
    text = f"best by value on {(best == 0).sum()} of {len(names)}, surely ahead of every rival on "
    text += f"{ahead.sum()}, surely behind one on {behind.sum()}"
    if behind.any():
        worst = [
            f"{name} ({METHODS[RIVALS[b - 1]].label} {row[b]:.2f} against {row[0]:.2f})"
            for name, row, b, lost in zip(names, points, best, behind, strict=True)
            if lost
        ]
        text += ": " + ", ".join(worst)
    return text


def over_ets(witness: Witness, names: Sequence[str]) -> Found:
    """The drop of the mean ECE, with all networks and with each left out."""
    samples = witness.samples(names, _variants(OWN, "ets"))
    if samples is None:
        return NOT_RUN
    whole = drop(pooled(samples), 0, 1)
    without = {
        name: drop(pooled([*samples[:k], *samples[k + 1 :]]), 0, 1)
        for k, name in enumerate(names)
        if len(names) > 1
    }
    text = f"mean ECE lower by {whole}"
    if without:
        least = min(without, key=lambda name: without[name].value)
        most = max(without, key=lambda name: without[name].value)
        text += f"; leaving one out {100 * without[least].value:.0f}% (without {least}) to "
        text += f"{100 * without[most].value:.0f}% (without {most})"
    if whole.sure:
        kept = all(one.sure and one.high >= THIRTY for one in without.values())
        return Found(HOLDS if whole.value >= THIRTY and kept else PARTLY, text)
    return Found(FAILS if whole.high < THIRTY else SAME, text)


def even_higher(witness: Witness, names: Sequence[str]) -> Found:
    """Whether every other baseline has a higher mean ECE than ETS."""
    others = [rival for rival in RIVALS if rival != "ets"]
    samples = witness.samples(names, _variants(OWN, "ets", *others))
    if samples is None:
        return NOT_RUN
    # A blank of the paper's (DIAG on Xception) leaves that network out of that comparison.
    differences, texts = [], []
    for place, rival in enumerate(others, start=2):
        whole = pooled([one for one in samples if np.isfinite(one.points[place])])
        differences.append(whole.difference(place, 1))
        texts.append(f"{METHODS[rival].label} {100 * drop(whole, 0, place).value:.0f}%")
    own = 100 * drop(pooled(samples), 0, 1).value
    text = f"reduction of the mean ECE: ETS {own:.0f}%, {', '.join(texts)}"
    return Found(of_units(*one_sided(differences), len(others)), text)


def consistent(witness: Witness, names: Sequence[str]) -> Found:
    """The rank correlation of the methods between metrics, mean over networks."""
    methods = _variants(OWN, *(rival for rival in RIVALS if rival != "base"))
    by_metric = [witness.samples(names, methods, metric) for metric in ("ece", "kde_ece", "gain")]
    if any(samples is None for samples in by_metric):
        return NOT_RUN
    ece, kde, gain = ([one.points for one in samples or ()] for samples in by_metric)
    found = {}
    for label, others, sign in (("KDE-ECE", kde, 1.0), ("gain", gain, -1.0)):
        pairs = zip(ece, others, strict=True)
        values = [_rank_correlation(one, sign * other) for one, other in pairs]
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf
        found[label] = Difference(float(np.mean(values)) - CONSISTENT, error)
    text = "Spearman's rank correlation with the ECE: " + ", ".join(
        f"{label} {one.value + CONSISTENT:.2f} ± {one.error:.2f}" for label, one in found.items()
    )
    text += f" (consistent: {CONSISTENT} or more)"
    return Found(of_units(*one_sided(list(found.values())), len(found)), text)


def _rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    both = np.isfinite(one) & np.isfinite(other)
    return float(np.corrcoef(rankdata(one[both]), rankdata(other[both]))[0, 1])


def complexity(witness: Witness, names: Sequence[str]) -> Found:
    """The rank correlation of a network's complexity with what PTS gains over ETS."""
    ordered = [name for name in BY_COMPLEXITY if name in names]
    samples = witness.samples(ordered, _variants(OWN, "ets")) if len(ordered) > 3 else None
    if samples is None:
        return NOT_RUN
    gains = [float(one.points[1] - one.points[0]) for one in samples]
    shown = ", ".join(f"{n} {g:.2f}" for n, g in zip(ordered, gains, strict=True))
    test = spearmanr(range(len(gains)), gains)
    text = f"ECE of ETS less that of PTS, from simple to complex: {shown}; rank correlation "
    text += f"{test.statistic:.2f} (p = {test.pvalue:.2f})"
    if test.pvalue >= LEVEL:
        return Found(SAME, text)
    return Found(HOLDS if test.statistic > 0 else FAILS, text)


def linear(witness: Witness, group: Sequence[str]) -> Found:
    """The mean ECE of the linear model against that of PTS."""
    samples = witness.samples(group, _variants("linear", OWN))
    if samples is None:
        return NOT_RUN
    whole = pooled(samples)
    difference = whole.difference(0, 1)
    higher, lower = one_sided([one.difference(0, 1) for one in samples])
    text = f"mean ECE {whole.points[0]:.2f} linear, {whole.points[1]:.2f} PTS, difference "
    text += f"{difference.value:.2f} ± {difference.error:.2f}; linear surely higher on {higher} "
    text += f"and surely lower on {lower} of {len(group)}"
    return Found(of_units(*one_sided([difference]), 1), text)


def by_the_loss(witness: Witness, names: Sequence[str]) -> Found:
    """What share of the step from TS to ETS is made by TS with the loss of ETS."""
    samples = witness.samples(names, _variants("ts", "ts-brier", "ets", "ets-nll"))
    if samples is None:
        return NOT_RUN
    whole = pooled(samples)
    ts, brier, ets, nll = whole.points
    step, draws = ts - ets, whole.draws
    more_than_half = Difference(
        float(ts - brier - step / 2.0),
        float(np.std(draws[0] - draws[1] - (draws[0] - draws[2]) / 2.0)),
    )
    text = f"mean ECE: TS {ts:.2f}, TS by Brier {brier:.2f}, ETS {ets:.2f}, ETS by NLL {nll:.2f}"
    if step > 0.0:
        text += f"; the loss alone makes {100 * (ts - brier) / step:.0f}% of the step"
    return Found(of_units(*one_sided([more_than_half]), 1), text)
