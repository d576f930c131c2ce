"""The claims that the figures and Table 4 show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.papers.pts.experiments import (
    ALL_CLASSES,
    BIN_SWEEP,
    FRACTIONS,
    METHODS,
    TOP_K,
    TOP_KS,
    WIDTHS,
)
from calibrant.papers.pts.inference import Difference, Variant, pooled, signs
from calibrant.papers.pts.plan import NON_PARAMETRIC, RIVALS_BY_SIZE
from calibrant.papers.pts.verdicts import (
    FAILS,
    HOLDS,
    NOT_RUN,
    OWN,
    SAME,
    SURE,
    Found,
    Ours,
    Witness,
    drop,
    of_units,
    one_sided,
)

WIDE = 1.25  # a ratio of temperatures; the paper has no number
DEAD = 1e-6  # a temperature below this is the published link's clip, not a temperature
NO_LOSS = 0.1  # points of ECE that are no loss of information
HALF = {"ETS below TS": 0.50, "PTS below ETS": 0.52}


def expressive(witness: Witness, group: Sequence[str]) -> Found:
    """Both steps sure on a network: ahead. A step surely backwards: behind."""
    variants = [Variant(method) for method in ("ts", "ets", OWN)]
    samples = witness.samples(group, variants)
    if samples is None:
        return NOT_RUN
    steps = [one.difference(k, k + 1) for one in samples for k in (0, 1)]
    sure = signs(steps).reshape(-1, 2)
    ahead, behind = (sure > 0).all(axis=1).sum(), (sure < 0).any(axis=1).sum()
    ts, ets, pts = pooled(samples).points
    text = f"mean ECE of TS, ETS, PTS: {ts:.2f}, {ets:.2f}, {pts:.2f}; both steps sure on {ahead} "
    text += f"of {len(group)}, one surely backwards on {behind}; TS to ETS sure on "
    text += f"{(sure[:, 0] > 0).sum()}, ETS to PTS on {(sure[:, 1] > 0).sum()}"
    return Found(of_units(int(ahead), int(behind), len(group)), text)


def halved(witness: Witness, mobile: Sequence[str]) -> Found:
    """The two percentages: reached where surely above 0 and not surely below the number."""
    samples = witness.samples(mobile, [Variant(method) for method in ("ts", "ets", OWN)])
    if samples is None:
        return NOT_RUN
    whole = pooled(samples)
    drops = dict(zip(HALF, (drop(whole, 1, 0), drop(whole, 2, 1)), strict=True))
    reached = sum(one.sure and one.high >= HALF[what] for what, one in drops.items())
    missed = sum(one.high < HALF[what] for what, one in drops.items())
    text = "; ".join(f"{what} by {one}" for what, one in drops.items())
    return Found(of_units(reached, missed, len(HALF)), text)


def plateau(witness: Witness, group: Sequence[str]) -> Found:
    """Width 1 surely above the published width, and the widest no higher than that."""
    narrow, wide = Variant(OWN, width=WIDTHS[0]), Variant(OWN, width=WIDTHS[-1])
    known = [name for name in group if witness.samples([name], [narrow, Variant(OWN), wide])]
    samples = witness.samples(known, [narrow, Variant(OWN), wide]) if known else None
    if samples is None:
        return NOT_RUN
    falls = [one.difference(0, 1) for one in samples]
    rises = [one.difference(2, 1) for one in samples]
    ahead, back = one_sided(falls)
    risen, _ = one_sided(rises)
    means = pooled(samples).points
    text = f"mean ECE over {len(known)} networks at widths {WIDTHS[0]}, 5, {WIDTHS[-1]}: "
    text += ", ".join(f"{value:.2f}" for value in means)
    text += f"; width 1 surely above 5 on {ahead}, {WIDTHS[-1]} surely above 5 on {risen}"
    return Found(of_units(max(ahead - risen, 0), back + risen, len(known)), text)


def wide(witness: Witness, group: Sequence[str]) -> Found:
    """The ratio of the 95% to the 5% quantile of the temperatures; no test, a description."""
    if not isinstance(witness, Ours) or not group:
        return NOT_RUN
    ratios, dead = {}, []
    for name in group:
        rows = witness.results.by_seed(name, witness.key)
        if 0 not in rows:
            return NOT_RUN
        every = np.array(rows[0]["temperatures"])
        alive = every[every > DEAD]
        dead.append(1.0 - len(alive) / len(every))
        low, high = np.quantile(alive, [0.05, 0.95]) if len(alive) else (1.0, 1.0)
        ratios[name] = high / low
    text = f"95% over 5% quantile (wide: {WIDE} or more): "
    text += ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    if max(dead) > 0.0:
        text += f"; up to {100 * max(dead):.1f}% of the rows have no temperature above {DEAD}"
    are = sum(ratio >= WIDE for ratio in ratios.values())
    return Found(of_units(are, len(ratios) - are, len(ratios)), text)


def every_bin(witness: Witness, group: Sequence[str], *, each: bool) -> Found:
    """TS and ETS less PTS at every number of bins: of the mean, or of each network."""
    variants = [Variant(method) for method in ("ts", "ets", OWN)]
    differences, units = [], 0
    for bins in BIN_SWEEP:
        samples = witness.samples(group, variants, "ece", bins)
        if samples is None:
            return NOT_RUN
        for one in samples if each else [pooled(samples)]:
            differences += [one.difference(k, 2) for k in (0, 1)]
            units += 2
    ahead, behind = one_sided(differences)
    lower = sum(one.value > 0.0 for one in differences)
    where = f"{len(group)} networks x " if each else "mean over networks: "
    text = f"{where}{len(BIN_SWEEP)} numbers of bins x TS and ETS: PTS lower in {lower} of {units}"
    return Found(of_units(ahead, behind, units), f"{text}, surely in {ahead}, higher in {behind}")


def few_bins(witness: Witness, group: Sequence[str]) -> Found:
    """The ECE at the most bins less that at the fewest, of the same rows."""
    methods = ("ts", "ets", OWN)
    variants = [Variant(method) for method in methods]
    both = [witness.samples(group, variants, "ece", bins) for bins in (BIN_SWEEP[0], BIN_SWEEP[-1])]
    if both[0] is None or both[1] is None:
        return NOT_RUN
    few, many = (pooled(samples) for samples in both if samples is not None)
    differences = [
        Difference(
            float(many.points[k] - few.points[k]), float(np.std(many.draws[k] - few.draws[k]))
        )
        for k in range(len(methods))
    ]
    text = f"mean ECE at {BIN_SWEEP[0]} and {BIN_SWEEP[-1]} bins: " + ", ".join(
        f"{METHODS[method].label} {few.points[k]:.2f} and {many.points[k]:.2f}"
        for k, method in enumerate(methods)
    )
    return Found(of_units(*one_sided(differences), len(methods)), text)


def efficient(witness: Witness, group: Sequence[str]) -> Found:
    """Every rival's mean ECE less that of PTS, at every size from 20% on."""
    differences, texts = [], []
    for fraction in FRACTIONS:
        variants = [Variant(method, fraction) for method in (OWN, *RIVALS_BY_SIZE)]
        samples = witness.samples(group, variants)
        if samples is None:
            return NOT_RUN
        whole = pooled(samples)
        texts.append(f"{100 * fraction:.0f}%: " + ", ".join(f"{x:.2f}" for x in whole.points))
        if fraction > FRACTIONS[0]:
            differences += [whole.difference(k, 0) for k in range(1, len(variants))]
    ahead, behind = one_sided(differences)
    names = ", ".join(["PTS", *(METHODS[rival].label for rival in RIVALS_BY_SIZE)])
    text = f"surely ahead in {ahead} and behind in {behind} of {len(differences)} comparisons from "
    text += f"20% on; mean ECE of {names} at {'; '.join(texts)}"
    return Found(of_units(ahead, behind, len(differences)), text)


def keeps_accuracy(witness: Witness, group: Sequence[str]) -> Found:
    """With the fewest rows: accuracy that IROvA loses, and how much more each ECE grows."""
    few = [Variant(method, FRACTIONS[0]) for method in (OWN, *NON_PARAMETRIC)]
    full = [Variant(method) for method in (OWN, *NON_PARAMETRIC)]
    accuracy = witness.samples(group, [Variant("base"), *few], "accuracy")
    errors = witness.samples(group, [*few, *full])
    if accuracy is None or errors is None:
        return NOT_RUN
    right, wrong = pooled(accuracy), pooled(errors)
    lost = [right.difference(0, k) for k in range(1, len(few) + 1)]
    grown = wrong.points[: len(few)] - wrong.points[len(few) :]
    draws = wrong.draws[: len(few)] - wrong.draws[len(few) :]
    more = [
        Difference(float(grown[k] - grown[0]), float(np.std(draws[k] - draws[0])))
        for k in range(1, len(few))
    ]
    text = "with 10% of the rows, points of accuracy lost and ECE gained: " + "; ".join(
        f"{METHODS[one.method].label} {loss.value:.2f}, {rise:.2f}"
        for one, loss, rise in zip(few, lost, grown, strict=True)
    )
    if lost[0].value > 0.0:
        return Found(FAILS, text)
    claimed = [*lost[1:3], *more]  # IROvA and IROvA-TS; IRM keeps the accuracy by construction
    return Found(of_units(*one_sided(claimed), len(claimed)), text)


def enough_logits(witness: Witness, group: Sequence[str]) -> Found:
    """Ten logits against twenty and all: no loss where the intervals end below 0.1 points."""
    variants = [Variant(OWN), *(Variant(OWN, top_k=k) for k in TOP_KS)]
    known = [name for name in group if witness.samples([name], variants)]
    samples = witness.samples(known, variants) if known else None
    if samples is None:
        return NOT_RUN
    whole = pooled(samples)
    shown = {TOP_K: whole.points[0], **dict(zip(TOP_KS, whole.points[1:], strict=True))}
    text = f"mean ECE over {len(known)} networks by logits: " + ", ".join(
        f"{'all' if k == ALL_CLASSES else k}: {shown[k]:.2f}" for k in sorted(shown)
    )
    losses = [whole.difference(0, 1 + TOP_KS.index(k)) for k in TOP_KS if k > TOP_K]
    text += "; 10 less more: " + ", ".join(f"{one.value:+.2f} ± {one.error:.2f}" for one in losses)
    if one_sided(losses)[0]:
        return Found(FAILS, text)
    within = all(one.value + SURE * one.error < NO_LOSS for one in losses)
    return Found(HOLDS if within else SAME, text)
