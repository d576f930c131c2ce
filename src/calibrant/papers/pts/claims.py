"""What the paper claims, and whether the rows bear it out.

Each claim is judged for both recipes: the published one and this library's default. Methods are
compared over the seeds that all of them have, for a seed is a split: other seeds, other test rows.
Numbers count as equal where they read the same with two decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.papers.pts.experiments import (
    BIN_SWEEP,
    FRACTIONS,
    METHODS,
    PUBLISHED_WIDTH,
    WIDTHS,
)
from calibrant.papers.pts.logit_sets import PAPER_ROWS
from calibrant.papers.pts.plan import NON_PARAMETRIC, PAPER_WIDTHS, RECIPES, RIVALS_BY_SIZE
from calibrant.papers.pts.summary import PERCENT, Results, published

HOLDS, PARTLY, FAILS, UNKNOWN = "holds", "holds partly", "does not hold", "not run"
RIVALS = ("base", *NON_PARAMETRIC, "pbmc-raw", "pbmc-200-raw", "diag", "ts", "ets")
WIDE = 1.25  # a ratio of temperatures; the paper has no number
DEAD = 1e-6  # a temperature below this is the published link's clip, not a temperature
SMALL = 0.05  # points of accuracy or of ECE that are no difference

Found = tuple[str, str]  # the verdict and the numbers that show it


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper and what was found, for each recipe."""

    claim: str
    verdicts: dict[str, str]  # by method
    evidence: dict[str, str]


def judge_all(results: Results, names: Sequence[str], group: Sequence[str]) -> list[Verdict]:
    """All claims, in the order of the paper; ``group`` are the networks for those on ImageNet."""
    claims: list[tuple[str, Callable[[str], Found]]] = [
        (
            "More expressive temperature models calibrate better: ECE falls from TS to ETS to PTS, "
            "and with wider networks until a plateau (figure 1a).",
            lambda key: expressive(results, group, key),
        ),
        (
            "The temperatures of PTS span a wide range (figure 2).",
            lambda key: wide(results, group, key),
        ),
        (
            "PTS has the lowest ECE in all settings (table 1).",
            lambda key: best_everywhere(results, names, "ece", key),
        ),
        (
            "Averaged over networks, PTS lowers the ECE of ETS by 30% (table 1).",
            lambda key: over_ets(results, names, key),
        ),
        (
            "PTS has the lowest KDE-ECE (table 2; in simple settings, says the paper, it is only "
            "like ETS).",
            lambda key: best_everywhere(results, names, "kde_ece", key),
        ),
        (
            "PTS has the largest calibration gain (table 3).",
            lambda key: best_everywhere(results, names, "gain", key),
        ),
        (
            "PTS beats TS and ETS whatever the number of bins (figure 3a).",
            lambda key: every_bin(results, group, key),
        ),
        (
            "PTS is data-efficient: worse than others only with 10% of the validation rows "
            "(table 4, figures 3b and 3c).",
            lambda key: efficient(results, group, key),
        ),
        (
            "Non-parametric methods lose accuracy and calibration with few rows; PTS keeps the "
            "accuracy (figure 4).",
            lambda key: keeps_accuracy(results, group, key),
        ),
        (
            "A linear model of the temperature is not enough: its ECE is higher (table 5).",
            lambda key: linear(results, group, key),
        ),
    ]
    judged = []
    for claim, judge in claims:
        found = {key: judge(key) for key in RECIPES}
        verdicts = {key: verdict for key, (verdict, _) in found.items()}
        judged.append(Verdict(claim, verdicts, {key: text for key, (_, text) in found.items()}))
    return judged


def _by_share(share: float) -> str:
    """All settings, or at least half of them."""
    return HOLDS if share == 1.0 else PARTLY if share >= 0.5 else FAILS


# --- tables -----------------------------------------------------------------------------------


def best_everywhere(results: Results, names: Sequence[str], metric: str, key: str) -> Found:
    """On how many sets no rival is ahead, and by how much those are that are."""
    sign = -1.0 if metric == "gain" else 1.0  # a gain is good where it is large
    ahead, near = {}, 0
    for name in names:
        values = results.paired(metric, name, [key, *RIVALS])
        if not values.size:
            return UNKNOWN, ""
        means = np.round(values.mean(axis=1), 2)
        best = int(np.argmin(sign * means[1:]))
        if sign * means[1 + best] >= sign * means[0]:
            continue
        ahead[name] = f"{METHODS[RIVALS[best]].label} {means[1 + best]:.2f} against {means[0]:.2f}"
        difference = values[0] - values[1 + best]
        near += len(difference) > 1 and abs(difference.mean()) < difference.std(ddof=1)
    text = f"best on {len(names) - len(ahead)} of {len(names)} sets"
    if ahead:
        text += "; ahead elsewhere: " + ", ".join(f"{n} {what}" for n, what in ahead.items())
    if near:
        text += f" ({near} of them by less than one standard deviation over seeds)"
    text += f". In the paper's own table: {_published_wins(metric, sign)}"
    return _by_share(1.0 - len(ahead) / len(names)), text


def _published_wins(metric: str, sign: float) -> str:
    """On how many of its networks the paper's own PTS is the best, ties included."""
    rows = published()[metric].values()
    wins = [
        row["PTS"] == sign * min(sign * x for x in row.values() if x is not None) for row in rows
    ]
    return f"{sum(wins)} of {len(wins)}"


def over_ets(results: Results, names: Sequence[str], key: str) -> Found:
    """The drop of the mean ECE over the sets."""
    pairs = _means(results, names, "ece", [key, "ets"])
    if pairs is None:
        return UNKNOWN, ""
    pts, ets = pairs.mean(axis=0)
    drop = 1.0 - pts / ets if ets else 0.0
    text = f"mean ECE {ets:.2f} to {pts:.2f}: {_percent_lower(drop)}"
    shared = [index for index, name in enumerate(names) if name in PAPER_ROWS]
    if 0 < len(shared) < len(names):
        pts, ets = pairs[shared].mean(axis=0)
        text += f"; on the paper's networks alone {_percent_lower(1.0 - pts / ets)}"
    return (HOLDS if round(drop, 2) >= 0.3 else PARTLY if drop > 0.05 else FAILS), text


def _percent_lower(drop: float) -> str:
    return f"{abs(PERCENT * drop):.0f}% {'lower' if drop >= 0.0 else 'higher'}"


def _means(
    results: Results, names: Sequence[str], metric: str, methods: Sequence[str]
) -> NDArray[np.float64] | None:
    """(sets, methods): means over the seeds that all methods have; None where there are none."""
    values = [results.paired(metric, name, methods) for name in names]
    if not all(part.size for part in values):
        return None
    return np.array([part.mean(axis=1) for part in values])


def linear(results: Results, group: Sequence[str], key: str) -> Found:
    """The linear model's ECE against that of the same recipe with a nonlinearity."""
    twin = {"pts-paper": "linear-paper", "pts": "linear"}[key]
    means = _means(results, group, "ece", [twin, key])
    if means is None:
        return UNKNOWN, ""
    higher = means[:, 0] > means[:, 1] + SMALL
    without, own = means.mean(axis=0)
    text = f"mean ECE {without:.2f} linear, {own:.2f} PTS; higher by more than {SMALL} on "
    text += f"{higher.sum()} of {len(group)} sets"
    if without <= own + SMALL:
        return FAILS, text
    return (HOLDS if higher.all() else PARTLY), text


# --- figures ----------------------------------------------------------------------------------


def expressive(results: Results, group: Sequence[str], key: str) -> Found:
    """TS, ETS, PTS in falling order, and the widest network no worse than the narrowest."""
    means = _means(results, group, "ece", ["ts", "ets", key])
    if means is None:
        return UNKNOWN, ""
    ts, ets, pts = means.mean(axis=0)
    in_order = (means[:, 0] > means[:, 1]) & (means[:, 1] > means[:, 2])
    text = f"mean ECE of TS, ETS, PTS: {ts:.2f}, {ets:.2f}, {pts:.2f}; falling in this order on "
    text += f"{in_order.sum()} of {len(group)} sets"
    by_width, sets = mean_by_width(results, group, key)
    narrow, wide = (by_width[pick(by_width)] if by_width else np.nan for pick in (min, max))
    if by_width:
        widths = ", ".join(f"{width}: {mean:.2f}" for width, mean in by_width.items())
        text += f"; by width (mean over {sets} of the sets) {widths}"
    falling = bool(ts > ets > pts)
    if falling and in_order.all() and wide <= narrow + SMALL:
        return HOLDS, text
    return (PARTLY if falling or pts < min(ts, ets) else FAILS), text


def mean_by_width(results: Results, group: Sequence[str], key: str) -> tuple[dict[int, float], int]:
    """The mean ECE by width over the sets that have them all (seed 0), and how many these are."""
    widths = sorted({*(PAPER_WIDTHS if key == "pts-paper" else WIDTHS), PUBLISHED_WIDTH})
    curves = []
    for name in group:
        rows = [
            results.by_seed(name, key, width=None if w == PUBLISHED_WIDTH else w) for w in widths
        ]
        if all(0 in row for row in rows):
            curves.append([PERCENT * row[0]["ece"] for row in rows])
    if not curves:
        return {}, 0
    means = np.mean(curves, axis=0).tolist()
    return dict(zip(widths, means, strict=True)), len(curves)


def wide(results: Results, group: Sequence[str], key: str) -> Found:
    """The ratio of the 95% to the 5% quantile of the temperatures."""
    ratios, dead = {}, []
    for name in group:
        rows = results.by_seed(name, key)
        if 0 not in rows:
            return UNKNOWN, ""
        every = np.array(rows[0]["temperatures"])
        alive = every[every > DEAD]
        dead.append(1.0 - len(alive) / len(every))
        low, high = np.quantile(alive, [0.05, 0.95]) if len(alive) else (1.0, 1.0)
        ratios[name] = high / low
    text = f"95% over 5% quantile (wide: {WIDE} or more): "
    text += ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    if max(dead) > 0.0:
        text += f"; up to {PERCENT * max(dead):.1f}% of the rows have no temperature above {DEAD}"
    return _by_share(float(np.mean([ratio >= WIDE for ratio in ratios.values()]))), text


def every_bin(results: Results, group: Sequence[str], key: str) -> Found:
    """The mean over the sets at every number of bins."""
    methods = ("ts", "ets", key)
    by_set = []
    for name in group:
        rows = [results.by_seed(name, method) for method in methods]
        seeds = set.intersection(*(set(row) for row in rows))
        if not seeds:
            return UNKNOWN, ""
        by_set.append(
            [np.mean([row[seed]["ece_by_bins"] for seed in seeds], axis=0) for row in rows]
        )
    curves = PERCENT * np.mean(by_set, axis=0)
    ahead = curves[2] < curves[:2].min(axis=0)
    ranges = ", ".join(
        f"{METHODS[method].label} {curve.min():.2f} to {curve.max():.2f}"
        for method, curve in zip(methods, curves, strict=True)
    )
    text = f"ahead at {ahead.sum()} of {len(BIN_SWEEP)} numbers of bins; mean ECE {ranges}"
    return _by_share(float(ahead.mean())), text


def efficient(results: Results, group: Sequence[str], key: str) -> Found:
    """ECE over that of PTS, the geometric mean over sets and seeds, by size.

    Not the arithmetic mean of table 4, which is above 1 even for two methods that take turns.
    """
    parts, ahead = [], []
    for fraction in FRACTIONS:
        values = [
            results.paired("ece", n, [key, *RIVALS_BY_SIZE], fraction=fraction) for n in group
        ]
        if not all(part.size for part in values):
            return UNKNOWN, ""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.concatenate([np.log(part[1:] / part[0]) for part in values], axis=1)
        ratio = np.exp([row[np.isfinite(row)].mean() if row.size else 0.0 for row in logs])
        parts.append(f"{PERCENT * fraction:.0f}%: " + ", ".join(f"{r:.2f}" for r in ratio))
        if fraction > FRACTIONS[0]:
            ahead.append(bool(np.round(ratio, 2).min() >= 1.0))
    names = ", ".join(METHODS[rival].label for rival in RIVALS_BY_SIZE)
    text = f"ECE of {names} over that of PTS (geometric mean): {'; '.join(parts)}"
    return _by_share(float(np.mean(ahead))), text


def keeps_accuracy(results: Results, group: Sequence[str], key: str) -> Found:
    """Accuracy lost at the smallest size; the ECE there over that at the full size."""
    smallest = FRACTIONS[0]
    lost, grown = {}, {}
    for method in (key, *NON_PARAMETRIC):
        changes, few, full = [], [], []
        for name in group:
            base, rows = results.by_seed(name, "base"), results.by_seed(name, method, smallest)
            whole = results.by_seed(name, method)
            if not rows:
                return UNKNOWN, ""
            changes += [PERCENT * (base[s]["accuracy"] - rows[s]["accuracy"]) for s in rows]
            few += [rows[s]["ece"] for s in rows]
            full += [whole[s]["ece"] for s in rows]
        lost[method] = np.array(changes)
        grown[method] = float(np.mean(few) / max(np.mean(full), 1e-12))
    text = "with 10% of the rows, points of accuracy lost and ECE over that with all rows: "
    text += "; ".join(f"{METHODS[m].label} {lost[m].mean():.2f}, {grown[m]:.2f}" for m in lost)
    if np.abs(lost[key]).max() > SMALL:
        return FAILS, text
    loses = [lost[m].mean() > SMALL for m in ("irova-raw", "irova-ts-raw")]
    worse = [grown[m] > grown[key] for m in NON_PARAMETRIC]
    shown = [*loses, *worse]
    return (HOLDS if all(shown) else PARTLY if any(shown) else FAILS), text
