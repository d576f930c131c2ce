"""What the paper claims, and whether the rows bear it out.

Each claim is judged for both recipes: the published one and this library's default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.papers.pts.experiments import FRACTIONS, METHODS, PUBLISHED_WIDTH, WIDTHS
from calibrant.papers.pts.logit_sets import PAPER_ROWS
from calibrant.papers.pts.summary import PERCENT, Results

HOLDS, PARTLY, FAILS, UNKNOWN = "holds", "holds partly", "does not hold", "not run"
RECIPES = ("pts-paper", "pts")
WIDE = 1.25  # a ratio of temperatures; the paper has no number
RIVALS = ("irova-raw", "irova-ts-raw", "irm-raw", "pbmc-raw", "pbmc-200-raw", "diag", "ts", "ets")


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper and what was found, a recipe."""

    claim: str
    verdicts: dict[str, str]  # by method
    evidence: dict[str, str]


def judge_all(results: Results, group: Sequence[str]) -> list[Verdict]:
    """All claims, in the order of the paper."""
    claims: list[tuple[str, Callable[[str], tuple[str, str]]]] = [
        (
            "More expressive temperature models calibrate better: ECE falls from TS to ETS to PTS, "
            "and with wider networks until a plateau (figure 1a).",
            lambda key: _expressive(results, group, key),
        ),
        (
            "The temperatures of PTS span a wide range (figure 2).",
            lambda key: _wide(results, group, key),
        ),
        (
            "PTS has the lowest ECE of all methods in every setting (table 1; the paper's own "
            "table has two exceptions in nine).",
            lambda key: _best_everywhere(results, "ece", key, min),
        ),
        (
            "Averaged over networks, PTS lowers the ECE of ETS by 30% (table 1).",
            lambda key: _over_ets(results, key),
        ),
        (
            "PTS has the lowest KDE-ECE (table 2), but for simple settings, where it is like ETS.",
            lambda key: _best_everywhere(results, "kde_ece", key, min),
        ),
        (
            "PTS has the largest calibration gain (table 3).",
            lambda key: _best_everywhere(results, "gain", key, max),
        ),
        (
            "PTS beats TS and ETS whatever the number of bins (figure 3a).",
            lambda key: _every_bin(results, group, key),
        ),
        (
            "PTS is data-efficient: worse than others only with 10% of the validation rows "
            "(table 4, figures 3b and 3c).",
            lambda key: _efficient(results, group, key),
        ),
        (
            "Non-parametric methods lose accuracy and calibration with few rows; PTS keeps the "
            "accuracy (figure 4).",
            lambda key: _keeps_accuracy(results, group, key),
        ),
        (
            "A linear model of the temperature is not enough: its ECE is higher (table 5).",
            lambda key: _linear(results, group, key),
        ),
    ]
    judged = []
    for claim, judge in claims:
        found = {key: judge(key) for key in RECIPES}
        judged.append(
            Verdict(
                claim,
                {key: verdict for key, (verdict, _) in found.items()},
                {key: evidence for key, (_, evidence) in found.items()},
            )
        )
    return judged


def _verdict(share: float, some: float = 0.5) -> str:
    """All settings, or more than some of them."""
    return HOLDS if share == 1.0 else PARTLY if share >= some else FAILS


def _best_everywhere(
    results: Results, metric: str, key: str, best: Callable[[Sequence[float]], float]
) -> tuple[str, str]:
    """On how many sets a method is ahead of all rivals, and by how much it is behind otherwise."""
    behind, wins, ties = {}, 0, 0
    for name in results.names:
        own = results.mean(metric, name, key)
        rivals = {rival: results.mean(metric, name, rival) for rival in RIVALS}
        if np.isnan(own):
            return UNKNOWN, ""
        top = best(list(rivals.values()))
        rival = next(rival for rival, value in rivals.items() if value == top)
        lead = (top - own) if best is min else (own - top)
        error = _standard_error(results, metric, name, key, rival)
        wins += lead > 0.0
        if lead <= 0.0:
            ties += -lead <= 2.0 * error
            behind[name] = f"{METHODS[rival].label} {top:.2f} against {own:.2f}"
    count = len(results.names)
    text = f"best on {wins} of {count} sets"
    if behind:
        text += f" (within two standard errors of the best on {ties} more); elsewhere "
        text += "; ".join(f"{name}: {what}" for name, what in behind.items())
    return _verdict(wins / count), text


def _standard_error(results: Results, metric: str, name: str, key: str, rival: str) -> float:
    """Of the difference of two methods over the seeds that both have; 0 for fewer than two."""
    own, other = results.by_seed(name, key), results.by_seed(name, rival)
    seeds = sorted(own.keys() & other.keys())
    if len(seeds) < 2:
        return 0.0
    difference = [PERCENT * (own[seed][metric] - other[seed][metric]) for seed in seeds]
    return float(np.std(difference, ddof=1) / np.sqrt(len(seeds)))


def _over_ets(results: Results, key: str) -> tuple[str, str]:
    pts = [results.mean("ece", name, key) for name in results.names]
    ets = [results.mean("ece", name, "ets") for name in results.names]
    if np.isnan(pts).any():
        return UNKNOWN, ""
    drop = 1.0 - np.mean(pts) / np.mean(ets)
    text = f"mean ECE {np.mean(ets):.2f} to {np.mean(pts):.2f}: {PERCENT * drop:.0f}% lower"
    shared = [i for i, name in enumerate(results.names) if name in PAPER_ROWS]
    if 0 < len(shared) < len(results.names):
        same = 1.0 - np.mean(np.array(pts)[shared]) / np.mean(np.array(ets)[shared])
        text += f"; on the paper's networks alone {PERCENT * same:.0f}%"
    return (HOLDS if drop >= 0.3 else PARTLY if drop > 0.05 else FAILS), text


def _expressive(results: Results, group: Sequence[str], key: str) -> tuple[str, str]:
    """TS, ETS, PTS in falling order; the widest network against the narrowest."""
    family = [[results.mean("ece", name, m) for name in group] for m in ("ts", "ets", key)]
    means = [float(np.mean(values)) for values in family]
    if np.isnan(means).any():
        return UNKNOWN, ""
    in_order = [ts > ets > pts for ts, ets, pts in zip(*family, strict=True)]
    text = "mean ECE of TS, ETS, PTS: " + ", ".join(f"{mean:.2f}" for mean in means)
    text += f"; falling in this order on {sum(in_order)} of {len(group)} sets"
    narrow = _widths(results, group, key)
    if narrow:
        text += "; by width " + ", ".join(f"{width}: {mean:.2f}" for width, mean in narrow.items())
    if means[0] > means[1] > means[2]:
        return (HOLDS if all(in_order) else PARTLY), text
    return (PARTLY if means[2] < min(means[:2]) else FAILS), text


def _widths(results: Results, group: Sequence[str], key: str) -> dict[int, float]:
    """The mean ECE over the sets that were run at every width, by width."""
    chosen = {width: None if width == PUBLISHED_WIDTH else width for width in (*WIDTHS, 10)}
    known = {
        width: {n: results.mean("ece", n, key, width=w) for n in group}
        for width, w in sorted(chosen.items())
    }
    known = {w: {n: v for n, v in values.items() if not np.isnan(v)} for w, values in known.items()}
    known = {w: values for w, values in known.items() if values}
    everywhere = set.intersection(*(set(values) for values in known.values())) if known else set()
    if not everywhere or len(known) < 2:
        return {}
    return {w: float(np.mean([values[n] for n in everywhere])) for w, values in known.items()}


def _wide(results: Results, group: Sequence[str], key: str) -> tuple[str, str]:
    """The ratio of the 95% to the 5% quantile of the temperatures."""
    ratios = {}
    for name in group:
        rows = results.by_seed(name, key)
        if 0 not in rows:
            return UNKNOWN, ""
        low, high = np.quantile(rows[0]["temperatures"], [0.05, 0.95])
        ratios[name] = high / max(low, 1e-12)
    wide = [ratio >= WIDE for ratio in ratios.values()]
    text = f"95% over 5% quantile (wide: {WIDE} or more): " + ", ".join(
        f"{n} {r:.2f}" for n, r in ratios.items()
    )
    return _verdict(float(np.mean(wide))), text


def _every_bin(results: Results, group: Sequence[str], key: str) -> tuple[str, str]:
    curves = {}
    for method in ("ts", "ets", key):
        rows = [results.by_seed(name, method).values() for name in group]
        if not all(rows):
            return UNKNOWN, ""
        curves[method] = PERCENT * np.mean(
            [np.mean([row["ece_by_bins"] for row in some], axis=0) for some in rows], axis=0
        )
    ahead = curves[key] < np.minimum(curves["ts"], curves["ets"])
    text = ", ".join(
        f"{METHODS[method].label} {curve.min():.2f} to {curve.max():.2f}"
        for method, curve in curves.items()
    )
    return _verdict(float(np.mean(ahead))), f"mean ECE over 5 to 19 bins: {text}"


def _efficient(results: Results, group: Sequence[str], key: str) -> tuple[str, str]:
    """The mean over sets of ECE over that of PTS, for the better of TS and ETS, a size."""
    ratios = {}
    for fraction in FRACTIONS:
        best = []
        for name in group:
            own = results.by_seed(name, key, fraction)
            other = [results.by_seed(name, rival, fraction) for rival in ("ts", "ets")]
            seeds = own.keys() & other[0].keys() & other[1].keys()
            if not seeds:
                return UNKNOWN, ""
            best += [[r[s]["ece"] / own[s]["ece"] for r in other] for s in seeds]
        ratios[fraction] = np.mean(best, axis=0)
    ahead = [ratio.min() >= 1.0 for fraction, ratio in ratios.items() if fraction > FRACTIONS[0]]
    text = "ECE of TS, ETS over that of PTS: " + "; ".join(
        f"{PERCENT * fraction:.0f}%: {ts:.2f}, {ets:.2f}" for fraction, (ts, ets) in ratios.items()
    )
    return _verdict(float(np.mean(ahead))), text


def _keeps_accuracy(results: Results, group: Sequence[str], key: str) -> tuple[str, str]:
    """Accuracy lost at the smallest size; the ECE there against that at the full size."""
    lost: dict[str, Any] = {}
    for method in (key, "irova-raw", "irova-ts-raw", "irm-raw"):
        drops = []
        for name in group:
            rows, base = results.by_seed(name, method, FRACTIONS[0]), results.by_seed(name, "base")
            if not rows:
                return UNKNOWN, ""
            drops += [PERCENT * (base[s]["accuracy"] - rows[s]["accuracy"]) for s in rows]
        lost[method] = float(np.mean(drops))
        if method == key and np.any(drops):
            return FAILS, f"accuracy lost with 10%: {lost[method]:.2f} points"
    grown = {
        method: np.mean([results.mean("ece", n, method, fraction=FRACTIONS[0]) for n in group])
        / np.mean([results.mean("ece", n, method) for n in group])
        for method in lost
    }
    text = "with 10% of the rows, points of accuracy lost and ECE over that with all rows: "
    text += "; ".join(f"{METHODS[m].label} {lost[m]:.2f}, {grown[m]:.2f}" for m in lost)
    others = [lost[m] > 0.1 for m in ("irova-raw", "irova-ts-raw")]
    more = [grown[m] > grown[key] for m in ("irova-raw", "irova-ts-raw", "irm-raw")]
    return (HOLDS if all(others) and all(more) else PARTLY), text


def _linear(results: Results, group: Sequence[str], key: str) -> tuple[str, str]:
    linear = {"pts-paper": "linear-paper", "pts": "linear"}[key]
    pairs = {}
    for name in group:
        own, other = results.by_seed(name, key), results.by_seed(name, linear)
        seeds = own.keys() & other.keys()
        if not seeds:
            return UNKNOWN, ""
        pairs[name] = [
            PERCENT * float(np.mean([rows[s]["ece"] for s in seeds])) for rows in (other, own)
        ]
    linear_mean, own_mean = np.mean(list(pairs.values()), axis=0)
    higher = [a > b for a, b in pairs.values()]
    text = f"mean ECE {linear_mean:.2f} linear, {own_mean:.2f} PTS; higher on {sum(higher)} of "
    text += f"{len(pairs)} sets"
    return (_verdict(float(np.mean(higher))) if linear_mean > own_mean else FAILS), text
