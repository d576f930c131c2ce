"""What the paper claims, and whether the rows bear it out.

Each claim is judged by three witnesses: the published recipe, this library's default, and the
paper's own tables. A difference counts where it is sure after Holm's correction over all the
comparisons of the claim (``inference``); ``verdicts.of_units`` makes an outcome of the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from calibrant_papers import claims_of_figures as of_figures
from calibrant_papers import claims_of_tables as of_tables
from calibrant_papers.logit_sets import STAND_INS
from calibrant_papers.summary import Results
from calibrant_papers.verdicts import (
    NOT_RUN,
    UNPUBLISHED,
    Found,
    Ours,
    Theirs,
    Witness,
    row_of_the_paper,
)

WITNESSES = ("pts-paper", "pts", "paper")
Judge = Callable[[Witness], Found]


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper and what was found, for each witness."""

    claim: str
    verdicts: dict[str, str]
    evidence: dict[str, str]


def judge_all(results: Results, names: Sequence[str], group: Sequence[str]) -> list[Verdict]:
    """All claims, in the order of the paper; ``group`` are the networks for those on ImageNet."""
    witnesses: dict[str, Witness] = {
        "pts-paper": Ours(results, "pts-paper"),
        "pts": Ours(results, "pts"),
        "paper": Theirs(results),
    }
    judged = []
    for claim, judge in _claims(names, group):
        found = {key: judge(witness) for key, witness in witnesses.items()}
        found["paper"] = _of_the_paper(found["paper"])
        judged.append(
            Verdict(
                claim,
                {key: one.outcome for key, one in found.items()},
                {key: one.text for key, one in found.items()},
            )
        )
    return judged


def _of_the_paper(found: Found) -> Found:
    """What its tables do not have was not published, and its networks are no stand-ins."""
    if found == NOT_RUN:
        return Found(UNPUBLISHED, "")
    text = found.text
    for name in STAND_INS:
        text = text.replace(name, row_of_the_paper(name))
    return Found(found.outcome, text)


def _claims(names: Sequence[str], group: Sequence[str]) -> list[tuple[str, Judge]]:
    best = partial(of_tables.best_everywhere, names=names)
    return [
        (
            "ECE falls from TS to ETS to PTS (figure 1a; on every ImageNet architecture).",
            lambda w: of_figures.expressive(w, group),
        ),
        (
            "On MobileNetV2 ETS halves the ECE of TS (50%), and PTS that of ETS (52%, text of "
            "figure 1a).",
            lambda w: of_figures.halved(w, group),
        ),
        (
            "ECE falls with the width of the network until a plateau (figure 1a).",
            lambda w: of_figures.plateau(w, group),
        ),
        ("Temperatures span a wide range (figure 2).", lambda w: of_figures.wide(w, group)),
        ("PTS has the lowest ECE in all settings (table 1).", lambda w: best(w, metric="ece")),
        ("Not in the paper: the lowest ECE beyond chance.", lambda w: best(w, metric="excess")),
        (
            "Averaged over networks, PTS lowers the ECE of ETS by 30% (table 1, figure 1b).",
            lambda w: of_tables.over_ets(w, names),
        ),
        (
            "Not in the paper: 30% with any one network left out.",
            lambda w: of_tables.over_ets_without(w, names),
        ),
        (
            "The reduction is even higher for the other baselines (figure 1b).",
            lambda w: of_tables.even_higher(w, names),
        ),
        ("PTS has the lowest KDE-ECE (table 2).", lambda w: best(w, metric="kde_ece")),
        ("PTS has the largest calibration gain (table 3).", lambda w: best(w, metric="gain")),
        ("Not in the paper: the lowest NLL.", lambda w: best(w, metric="nll")),
        (
            "Rankings are largely consistent between the metrics (tables 1-3).",
            lambda w: of_tables.consistent(w, names),
        ),
        (
            "The more complex a setting, the larger the gain of PTS over ETS (KDE-ECE, table 2).",
            lambda w: of_tables.complexity(w, names),
        ),
        (
            "PTS is ahead of TS and ETS at every number of bins, on average (figure 3a).",
            lambda w: of_figures.every_bin(w, group, each=False),
        ),
        (
            "The same on every architecture (figure 3a).",
            lambda w: of_figures.every_bin(w, group, each=True),
        ),
        ("Few bins make the ECE smaller (figure 3a).", lambda w: of_figures.few_bins(w, group)),
        (
            "PTS is data-efficient: ahead of all others from 20% of the validation rows on (table "
            "4).",
            lambda w: of_figures.efficient(w, group),
        ),
        (
            "PTS is as data-efficient as TS and ETS (contributions, figures 3b and 3c).",
            lambda w: of_figures.as_efficient(w, group),
        ),
        (
            "Non-parametric methods lose accuracy and calibration with few rows; PTS keeps the "
            "accuracy (figure 4).",
            lambda w: of_figures.keeps_accuracy(w, group),
        ),
        (
            "A linear model of the temperature is not enough: mean ECE 1.36 against 1.28 (table "
            "5).",
            lambda w: of_tables.linear(w, group),
        ),
        (
            "The top 10 logits convey sufficient information.",
            lambda w: of_figures.enough_logits(w, group),
        ),
        (
            "Not in the paper: most of the step from TS to ETS is the loss (TS fitted by Brier), "
            "not the number of temperatures.",
            lambda w: of_tables.by_the_loss(w, names),
        ),
    ]
