"""What the figures show, in words: their titles, those of their panels, and their captions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from calibrant_papers.experiments import FRACTIONS, METHODS, PUBLISHED_WIDTH, WIDTHS
from calibrant_papers.logit_sets import (
    FIGURE_3C,
    IMAGENET,
    ON_CIFAR,
    PAPER_ROWS,
    STAND_INS,
    of_the_paper,
)
from calibrant_papers.plan import NON_PARAMETRIC, PAPER_WIDTHS, RECIPES
from calibrant_papers.summary import STAND_IN, Results

TEMPERATURE_FAMILY = ("ts", "ets", *RECIPES)
BESIDE_NON_PARAMETRIC = (*NON_PARAMETRIC, *RECIPES)
SWEPT_WIDTHS = {"pts-paper": sorted({*PAPER_WIDTHS, PUBLISHED_WIDTH}), "pts": list(WIDTHS)}
OF_ETS = "ts-brier"  # whose temperature is that of ETS: the one with the least Brier score
STAND_INS_ARE = STAND_IN.replace("stand-in", "stand-ins")
TITLES = {
    "fig1a": "Figure 1a: ECE against the number of parameters",
    "fig1b": "Figure 1b: mean ECE of every method",
    "fig2": "Figure 2: temperatures of PTS on the test rows",
    "fig3a": "Figure 3a: ECE against the number of bins",
    "fig3bc": "Figures 3b and 3c: ECE against the size of the validation set",
    "fig4a": "Figure 4a: ECE of non-parametric methods against the size of the validation set",
    "fig4b": "Figure 4b: accuracy of non-parametric methods against the size of the validation set",
}


def captions(results: Results, group: Sequence[str], real: bool) -> dict[str, str]:
    """The captions by file; ``group`` are the sets of most figures, ``real`` if ImageNet's."""
    whose = _whose(group, real)
    by_size = [{"fraction": fraction} for fraction in FRACTIONS]
    rivals = _bars(results, group, BESIDE_NON_PARAMETRIC, by_size)
    return {
        "fig1a": f"{whose}. {_bars(results, group, TEMPERATURE_FAMILY, _widths())} "
        f"{_swept(results, group)} The axis counts the parameters of one network; {_averaged()}. "
        "The paper shows MobileNetV2 on ImageNet.",
        "fig1b": _of_means(of_the_paper(results.names)),
        "fig2": f"{whose}; seed 0. The dashed line is the one temperature of TS, the dotted one "
        "that of ETS, which is the temperature with the least Brier score. The outer 0.5% on "
        "either side are left out.",
        "fig3a": f"{whose}: the mean over them; bars: one standard deviation over them. {MOVED}",
        "fig3bc": f"{_of_sizes(results, group, real)} "
        f"{_bars(results, [*group, FIGURE_3C], TEMPERATURE_FAMILY, by_size)} {MOVED} The paper "
        "shows MobileNetV2 on ImageNet (3b) and LeNet5 on CIFAR-100 (3c).",
        "fig4a": f"{whose}; raw outputs, as the authors' code gives them; the vertical axis is "
        f"logarithmic. {rivals} {MOVED}",
        "fig4b": f"{whose}. Points above or below the network's own accuracy, which is in the "
        f"title. {rivals} {MOVED}",
    }


MOVED = "Methods are moved sideways a little, so that their bars can be told apart."


# --- panels -----------------------------------------------------------------------------------


def subtitle(name: str) -> str:
    """What a panel says beneath the name of its set."""
    if name in STAND_INS:
        return STAND_IN
    return "one of the paper's networks" if name in PAPER_ROWS else ""


def title_of_means(names: Sequence[str]) -> str:
    """Whose mean a panel of figure 1b shows."""
    for rows, words in ((ON_CIFAR, "four networks on CIFAR"), (PAPER_ROWS, "nine networks")):
        if set(names) <= set(rows):
            few = "" if len(names) == len(rows) else f"{len(names)} of "
            return f"{few}the paper's {words}"
    stand_ins = len(set(names) & set(STAND_INS))
    if not stand_ins:
        return "one set" if len(names) == 1 else f"all {len(names)} sets"
    words = f"{stand_ins} {STAND_IN if stand_ins == 1 else STAND_INS_ARE}"
    own = len(set(names) & set(PAPER_ROWS))
    return f"{own} of the paper's networks and {words}" if own else words


def crosses(names: Sequence[str]) -> str:
    """Whose mean the crosses beside them are."""
    if set(names) <= set(PAPER_ROWS):
        return "the same networks in the paper"
    return f"the paper's nine networks, {len(IMAGENET)} of them on ImageNet"


# --- captions ---------------------------------------------------------------------------------


def _whose(group: Sequence[str], real: bool) -> str:
    if real:
        return "ImageNet networks"
    stand_ins = f"{STAND_INS_ARE[0].upper()}{STAND_INS_ARE[1:]}"
    return stand_ins if set(group) <= set(STAND_INS) else "Sets of your own"


def _of_means(names: Sequence[str]) -> str:
    """Figure 1b: marks, and whose mean the crosses are in its one or two panels."""
    on_cifar = set(names) & set(ON_CIFAR)
    nine = f"over its nine, of which {len(IMAGENET)} are on ImageNet"
    if set(names) <= set(PAPER_ROWS):
        theirs = "over the same networks"
    elif on_cifar:
        theirs = f"over the same networks (left) and {nine} (right)"
    else:
        theirs = nine
    hollow = f" (hollow: {STAND_INS_ARE})" if set(names) & set(STAND_INS) else ""
    return (
        f"Circles: the mean over seeds of one network{hollow}; upright bars: the mean over "
        f"networks. Crosses: the paper's mean {theirs}. The axis is logarithmic."
    )


def _of_sizes(results: Results, group: Sequence[str], real: bool) -> str:
    """Figures 3b and 3c: what each panel is."""
    whose = f"{_whose(group, real)} (3b)" if group else ""
    lenet = f"{FIGURE_3C}, one of the paper's networks (3c)" if FIGURE_3C in results.names else ""
    own_axis = ", with a vertical axis of its own" if whose and lenet else ""
    return " and ".join(part for part in (whose, lenet) if part) + f"{own_axis}."


def _widths() -> list[dict[str, int | None]]:
    every = {width for widths in SWEPT_WIDTHS.values() for width in widths}
    return [{"width": chosen(width)} for width in sorted(every)]


def _bars(
    results: Results, names: Sequence[str], methods: Sequence[str], where: Sequence[Any]
) -> str:
    """What error bars are, and of how many seeds."""
    every = {
        len(results.by_seed(name, method, **one))
        for name in names
        for method in methods
        for one in where
    } - {0}
    if every <= {1}:
        return "One seed."
    few = "" if len(every) == 1 else f"{min(every)} to "
    return f"Bars: one standard deviation over {few}{max(every)} seeds."


def _swept(results: Results, group: Sequence[str]) -> str:
    """Which recipe was run at which widths of the hidden layers, and on which sets."""
    return " ".join(
        f"{METHODS[method].label}: {_swept_by(results, group, method)}."
        for method in RECIPES
        if any(widths_run(results, name, method) for name in group)
    )


def _swept_by(results: Results, group: Sequence[str], method: str) -> str:
    names_of: dict[tuple[int, ...], list[str]] = {}
    for name in group:
        names_of.setdefault(tuple(widths_run(results, name, method)), []).append(name)
    every = f"all {len(group)} networks" if len(group) > 1 else group[0]
    return "; ".join(
        f"hidden {'width' if len(widths) == 1 else 'widths'} {_listed(map(str, widths))} on "
        f"{every if len(names_of) == 1 else _listed(names)}"
        for widths, names in names_of.items()
        if widths
    )


def widths_run(results: Results, name: str, method: str) -> list[int]:
    """The widths of the hidden layers that were run."""
    return [w for w in SWEPT_WIDTHS[method] if results.by_seed(name, method, width=chosen(w))]


def chosen(width: int) -> int | None:
    """A width as settings have it: None for the published one."""
    return None if width == PUBLISHED_WIDTH else width


def _averaged() -> str:
    members = METHODS["pts"].make(0, None, "logits").get_params()["members"]
    return f"{METHODS['pts'].label} averages {members} of them"


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
