"""The claims that the figures and Table 4 show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant_papers.experiments import (
    ALL_CLASSES,
    BIN_SWEEP,
    FRACTIONS,
    METHODS,
    TOP_K,
    TOP_KS,
    WIDTHS,
)
from calibrant_papers.inference import Difference, Samples, Variant, signs
from calibrant_papers.logit_sets import FIGURE_3C
from calibrant_papers.plan import NON_PARAMETRIC, RIVALS_BY_SIZE
from calibrant_papers.summary import published
from calibrant_papers.verdicts import (
    FAILS,
    HOLDS,
    NOT_RUN,
    OWN,
    SAME,
    Found,
    Ours,
    Theirs,
    Witness,
    of_units,
    one_sided,
    percent,
)

WIDE = 1.25  # a ratio of temperatures; the paper has no number
DEAD = 1e-6  # a temperature below this is the published link's clip, not a temperature
NO_LOSS = 0.1  # points of ECE that do not matter
HALF = {"ETS below TS": 0.50, "PTS below ETS": 0.52}
FAMILY = [Variant(method) for method in ("ts", "ets", OWN)]


def expressive(witness: Witness, group: Sequence[str]) -> Found:
    """Two steps, from TS to ETS and from ETS to PTS, on every network."""
    samples = witness.samples(group, FAMILY)
    if samples is None:
        return NOT_RUN
    sure = signs([*samples.each(0, 1), *samples.each(1, 2)]).reshape(2, -1)
    steps = [samples.mean(k, k + 1) for k in (0, 1)]
    ts, ets, pts = samples.means
    text = f"mean ECE of TS, ETS, PTS: {ts:.2f}, {ets:.2f}, {pts:.2f}; steps of the mean "
    text += " and ".join(f"{one.value:.2f} ± {one.error:.2f} (p = {one.p:.2g})" for one in steps)
    for label, row in zip(("TS to ETS", "ETS to PTS"), sure, strict=True):
        text += f"; {label} sure on {(row > 0).sum()} of {len(group)}, "
        text += f"backwards on {(row < 0).sum()}"
    return Found(of_units(int((sure > 0).sum()), int((sure < 0).sum()), sure.size), text)


def halved(witness: Witness, group: Sequence[str]) -> Found:
    """The two percentages on MobileNetV2: reached where surely above 0 and not surely below.

    Where even a calibrated model would not reach a percentage, missing it says nothing.
    """
    samples = witness.samples(group, FAMILY)
    mobile = [place for place, name in enumerate(group) if name.endswith("mobilenetv2")]
    if samples is None or not mobile:
        return NOT_RUN
    drops = [samples.drop_on(mobile[0], *pair) for pair in ((1, 0), (2, 1))]
    wanted = list(HALF.values())
    short = signs([one.beyond(share) for one, share in zip(drops, wanted, strict=True)]) < 0
    reached = (signs(drops) > 0) & ~short
    text = "; ".join(f"{what} by {percent(one)}" for what, one in zip(HALF, drops, strict=True))
    excess = witness.samples(group, FAMILY, "excess")
    if excess is not None:
        most, beyond = _reachable(samples, excess, mobile[0])
        short &= most >= wanted
        text += f"; a calibrated model would show {100 * most[0]:.0f}% and {100 * most[1]:.0f}%"
        text += f"; beyond chance {100 * beyond[0]:.0f}% and {100 * beyond[1]:.0f}%"
    return Found(of_units(int(reached.sum()), int(short.sum()), len(HALF)), text)


def _reachable(samples: Samples, excess: Samples, place: int) -> tuple[np.ndarray, np.ndarray]:
    """What drops a calibrated model would show, and the drops of the ECE beyond chance."""
    points, beyond = samples.points[place], excess.points[place]
    chance = points - beyond
    return 1.0 - chance[1:] / points[:2], 1.0 - beyond[1:] / beyond[:2]


def plateau(witness: Witness, group: Sequence[str]) -> Found:
    """Width 1 surely above the published width, and the widest not surely above that."""
    variants = [Variant(OWN, width=WIDTHS[0]), Variant(OWN), Variant(OWN, width=WIDTHS[-1])]
    known = [name for name in group if witness.samples([name], variants)]
    samples = witness.samples(known, variants) if known else None
    if samples is None:
        return NOT_RUN
    sure = signs([*samples.each(0, 1), *samples.each(2, 1)]).reshape(2, -1)
    falls, rises = sure > 0
    against = (sure[0] < 0) | rises
    flat = samples.mean(2, 1)
    text = f"mean ECE over {len(known)} networks at widths {WIDTHS[0]}, 5, {WIDTHS[-1]}: "
    text += ", ".join(f"{value:.2f}" for value in samples.means)
    text += f"; width 1 surely above 5 on {falls.sum()}, {WIDTHS[-1]} surely above 5 on "
    text += f"{rises.sum()}; {WIDTHS[-1]} less 5 on average {flat.value:+.2f} ({flat.low:+.2f} to "
    text += f"{flat.high:+.2f})"
    return Found(of_units(int((falls & ~rises).sum()), int(against.sum()), len(known)), text)


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
    differences = []
    for bins in BIN_SWEEP:
        samples = witness.samples(group, FAMILY, "ece", bins)
        if samples is None:
            return NOT_RUN
        for k in (0, 1):
            differences += samples.each(k, 2) if each else [samples.mean(k, 2)]
    ahead, behind = one_sided(differences)
    lower, units = sum(one.value > 0.0 for one in differences), len(differences)
    where = f"{len(group)} networks x " if each else "mean over networks: "
    text = f"{where}{len(BIN_SWEEP)} numbers of bins x TS and ETS: PTS lower in {lower} of {units}"
    return Found(of_units(ahead, behind, units), f"{text}, surely in {ahead}, higher in {behind}")


def few_bins(witness: Witness, group: Sequence[str]) -> Found:
    """The ECE at the most bins less that at the fewest, of the same rows."""
    few, many = (witness.samples(group, FAMILY, "ece", BIN_SWEEP[place]) for place in (0, -1))
    if few is None or many is None:
        return NOT_RUN
    both, size = few.beside(many), len(FAMILY)
    differences = [both.mean(size + k, k) for k in range(size)]
    text = f"mean ECE at {BIN_SWEEP[0]} and {BIN_SWEEP[-1]} bins: " + ", ".join(
        f"{METHODS[one.method].label} {both.means[k]:.2f} and {both.means[size + k]:.2f}"
        for k, one in enumerate(FAMILY)
    )
    return Found(of_units(*one_sided(differences), size), text)


def efficient(witness: Witness, group: Sequence[str]) -> Found:
    """Every rival's mean ECE less that of PTS, at every size from 20% on."""
    if isinstance(witness, Theirs):
        return _table_4()
    differences: list[Difference] = []
    at_least: list[Difference] = []
    texts = []
    for fraction in FRACTIONS:
        variants = [Variant(method, fraction) for method in (OWN, *RIVALS_BY_SIZE)]
        samples = witness.samples(group, variants)
        if samples is None:
            return NOT_RUN
        texts.append(f"{100 * fraction:.0f}%: " + ", ".join(f"{x:.2f}" for x in samples.means))
        found = [samples.mean(k, 0) for k in range(1, len(variants))]
        (differences if fraction > FRACTIONS[0] else at_least).extend(found)
    ahead, behind = one_sided(differences)
    names = ", ".join(["PTS", *(METHODS[rival].label for rival in RIVALS_BY_SIZE)])
    text = f"surely ahead in {ahead} and behind in {behind} of {len(differences)} comparisons from "
    text += f"20% on; at 10% surely behind {one_sided(at_least)[1]} of {len(RIVALS_BY_SIZE)}; mean "
    text += f"ECE of {names} at {'; '.join(texts)}"
    return Found(of_units(ahead, behind, len(differences)), text)


def _table_4() -> Found:
    """The paper's own table has ratios without errors: they are counted."""
    table = published()["normalised_ece"]
    ratios = [x for size, row in table.items() if size != "10" for x in row.values() if x]
    ahead, behind = sum(x > 1.0 for x in ratios), sum(x < 1.0 for x in ratios)
    at_least = sum(x < 1.0 for x in table["10"].values() if x)
    text = f"by value, without errors: ahead in {ahead} and behind in {behind} of {len(ratios)} "
    text += f"ratios from 20% on; at 10% behind {at_least} of {len(table['10'])}"
    return Found(of_units(ahead, behind, len(ratios)), text)


def as_efficient(witness: Witness, group: Sequence[str]) -> Found:
    """How much more the ECE of PTS grows than that of TS and ETS with a tenth of the rows.

    Where a rival's falls, growing at all is growing more: nobody asks for less than no loss.
    """
    methods = (OWN, "ts", "ets")
    variants = [Variant(method, size) for size in (FRACTIONS[0], 1.0) for method in methods]
    samples = witness.samples(group, variants)
    if samples is None:
        return NOT_RUN
    growth = samples.means[:3] - samples.means[3:]
    more = [samples.combined(_grows_more(k if growth[k] > 0.0 else None)) for k in (1, 2)]
    worse, _ = one_sided(more)
    alike = sum(one.high < NO_LOSS for one in more)
    text = "mean ECE with 10% of the rows less that with all: " + ", ".join(
        f"{METHODS[method].label} {one:+.2f}" for method, one in zip(methods, growth, strict=True)
    )
    text += "; PTS more than TS and ETS, or than nothing where theirs falls, by " + " and ".join(
        f"{one.value:+.2f} ({one.low:+.2f} to {one.high:+.2f})" for one in more
    )
    text += _on_lenet(witness, variants)
    return Found(of_units(alike, worse, len(more)), text)


def _grows_more(rival: int | None) -> np.ndarray:
    """The growth of PTS, few rows less all, less that of a rival."""
    shares = np.zeros(6)
    shares[0], shares[3] = 1.0, -1.0
    if rival is not None:
        shares[rival], shares[3 + rival] = -1.0, 1.0
    return shares


def _on_lenet(witness: Witness, variants: Sequence[Variant]) -> str:
    """Figure 3c."""
    lenet = witness.samples([FIGURE_3C], variants)
    if lenet is None:
        return ""
    pts, ts, ets = lenet.means[:3]
    return f"; LeNet-5 on CIFAR-100 with 10%: PTS {pts:.2f}, TS {ts:.2f}, ETS {ets:.2f}"


def keeps_accuracy(witness: Witness, group: Sequence[str]) -> Found:
    """With the fewest rows: accuracy that IROvA loses, and how much more each ECE grows."""
    methods = (OWN, *NON_PARAMETRIC)
    few = [Variant(method, FRACTIONS[0]) for method in methods]
    accuracy = witness.samples(group, [Variant("base"), *few], "accuracy")
    errors = witness.samples(group, [*few, *(Variant(method) for method in methods)])
    if accuracy is None or errors is None:
        return NOT_RUN
    size = len(methods)
    lost = [accuracy.mean(0, 1 + k) for k in range(size)]
    grown = errors.means[:size] - errors.means[size:]
    more = []
    for k in range(1, size):
        shares = np.zeros(2 * size)
        shares[[k, size]], shares[[size + k, 0]] = 1.0, -1.0
        more.append(errors.combined(shares))
    text = "with 10% of the rows, points of accuracy lost and ECE gained: " + "; ".join(
        f"{METHODS[method].label} {loss.value:.2f}, {rise:.2f}"
        for method, loss, rise in zip(methods, lost, grown, strict=True)
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
    shown = {TOP_K: samples.means[0], **dict(zip(TOP_KS, samples.means[1:], strict=True))}
    text = f"mean ECE over {len(known)} networks by logits: " + ", ".join(
        f"{'all' if k == ALL_CLASSES else k}: {shown[k]:.2f}" for k in sorted(shown)
    )
    losses = [samples.mean(0, 1 + TOP_KS.index(k)) for k in TOP_KS if k > TOP_K]
    text += "; 10 less more: " + ", ".join(f"{one.value:+.2f} ± {one.error:.2f}" for one in losses)
    if one_sided(losses)[0]:
        return Found(FAILS, text)
    within = all(one.high < NO_LOSS for one in losses)
    return Found(HOLDS if within else SAME, text)
